"""Identity of a gateway's table: compared by the entry of a version, and said as a map."""

import pytest

from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.log.log_identity import LogIdentity, digest

ENTRY = b'{"commitInfo":{"txnId":"a"}}\n'
OURS = LogIdentity("11-22", 5, digest(ENTRY))


def test_what_travels_comes_back() -> None:
    assert LogIdentity.of(OURS.body()) == OURS


@pytest.mark.parametrize(
    "said", [None, {}, {"id": "11-22"}, {"id": 5, "version": 5, "entry": ""}, [], "11-22"]
)
def test_a_gateway_that_does_not_say_it_is_one_sentence(said: object) -> None:
    with pytest.raises(InvalidRequest, match="it is of an earlier version"):
        LogIdentity.of(said)


def test_only_the_same_entry_is_the_same_table() -> None:
    """An absent entry is as wrong as another one, and the sentence says which it is."""
    OURS.require("/lake", ENTRY)
    with pytest.raises(StoreError, match="/lake isn't the gateway's: it has no version 5"):
        OURS.require("/lake", None)
    with pytest.raises(StoreError, match="/lake isn't the gateway's: it is another one, or a copy"):
        OURS.require("/lake", ENTRY.replace(b"a", b"b"))
    unknown = LogIdentity("11-22", 5, "")
    with pytest.raises(StoreError, match="isn't the gateway's"):
        unknown.require("/lake", ENTRY)
