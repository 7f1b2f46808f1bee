"""States of deliveries in transactions, in whatever forms they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.amqp.coordinator_command import NO_NUMBER, id_of
from distributary.pipeline.amqp.delivery_state import (
    OUTCOMES,
    described,
    in_transaction,
    read_state,
)
from distributary.pipeline.codec.amqp_types import DecodeError, Described, Symbol, Value, read
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.transitions import DeliveryState

ID = id_of(0x1234)
BY_NAME = {
    0x24: "amqp:accepted:list",
    0x25: "amqp:rejected:list",
    0x26: "amqp:released:list",
    0x27: "amqp:modified:list",
}


def state(*fields: Value) -> Described:
    return Described(0x34, list(fields))


@pytest.mark.parametrize("code", OUTCOMES)
@pytest.mark.parametrize("named", [False, True])
def test_an_outcome_in_a_transaction_is_one_by_its_number(code: int, named: bool) -> None:
    """Its fields are those that mean something; its id stays."""
    descriptor = Symbol(BY_NAME[code]) if named else code
    fields: list[Value] = [True, False] if code == 0x27 else [None]
    found, end = read(in_transaction(state(ID, Described(descriptor, fields))), 0)
    kept: list[Value] = [True, False] if code == 0x27 else []
    assert found == state(ID, Described(code, kept))
    assert end


@pytest.mark.parametrize("identifier", [None, b"", b"short", bytes(9), "12345678"])
def test_an_id_that_is_none_of_ours_is_that_of_no_transaction(identifier: Value) -> None:
    """So no transaction is found for it."""
    assert read(in_transaction(state(identifier)), 0)[0] == state(id_of(NO_NUMBER))


@pytest.mark.parametrize(
    "bad", [Described(0x34, 7), 7, state(ID, Described(0x23, [])), state(ID, "accepted")]
)
def test_what_is_no_outcome_is_an_error(bad: Value) -> None:
    """Nothing is taken for what it isn't."""
    with pytest.raises(DecodeError):
        in_transaction(bad)


@given(st.sampled_from(list(Outcome)), st.booleans(), st.booleans())
def test_an_outcome_is_read_as_it_was_written(
    outcome: Outcome, failed: bool, undeliverable: bool
) -> None:
    """Only `modified` has flags."""
    if outcome not in OUTCOMES.values():
        return
    modified = outcome is Outcome.MODIFIED
    said = DeliveryState(outcome, failed and modified, undeliverable and modified)
    assert read_state(read(described(said), 0)[0]) == said
