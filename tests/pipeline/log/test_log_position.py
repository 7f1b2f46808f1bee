"""A place in the log is what a person means by it, or is refused with what one looks like."""

import pytest

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log.log_position import AtEnd, AtSequence, AtTime, Place, place

SECOND = 1_000_000
NOW = 1_700_000_000 * SECOND


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (0, AtSequence(0)),
        (2**63 - 1, AtSequence(2**63 - 1)),
        ("1200", AtSequence(1200)),
        ("now", AtEnd()),
        (" now ", AtEnd()),
        ("90s", AtTime(NOW - 90 * SECOND)),
        ("250ms", AtTime(NOW - SECOND // 4)),
        ("15m", AtTime(NOW - 900 * SECOND)),
        ("2 h", AtTime(NOW - 7_200 * SECOND)),
        ("7d", AtTime(NOW - 7 * 86_400 * SECOND)),
        ("999999d", AtTime(0)),  # before all that there is
        ("1970-01-02", AtTime(86_400 * SECOND)),
        ("1970-01-01T00:00:01Z", AtTime(SECOND)),
        ("1970-01-01T01:00:01.5+01:00", AtTime(3 * SECOND // 2)),
        ("1970-01-01 00:00:01", AtTime(SECOND)),
    ],
)
def test_each_form_means_one_place(said: object, meant: Place) -> None:
    assert place(said, NOW) == meant


@pytest.mark.parametrize(
    "said",
    [
        *(-1, 2**63, True, 1.5, None, b"1"),
        *("", "yesterday", "-5", "9" * 19, "1" * 5_000, "1w", "-2h", "1.5h"),
        *("1969-12-31T23:59:59Z", "2026-13-01", "٣"),
    ],
)
def test_everything_else_is_refused(said: object) -> None:
    with pytest.raises(InvalidRequest, match="is no place in the log; one is a sequence"):
        place(said, NOW)
