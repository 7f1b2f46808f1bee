"""The table of states is whole, and each outcome from the wire does what the wire contract says."""

import pytest

from distributary.pipeline.errors import IllegalTransition
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.transitions import (
    EVENTS,
    FINAL,
    TRANSITIONS,
    WITHOUT_STATE,
    Event,
    State,
    event_of,
    next_state,
)


@pytest.mark.parametrize(
    ("outcome", "undeliverable", "state"),
    [
        (Outcome.ACCEPTED, False, State.SETTLED),
        (Outcome.REJECTED, False, State.ARCHIVED),
        (Outcome.RELEASED, False, State.AVAILABLE),
        (Outcome.MODIFIED, False, State.AVAILABLE),
        (Outcome.MODIFIED, True, State.ARCHIVED),
    ],
)
def test_what_an_outcome_does(outcome, undeliverable, state):
    """Accepted is done, rejected and undeliverable are given up, the others come back."""
    event = event_of(outcome, undeliverable=undeliverable)
    assert next_state(State.ACQUIRED, event) is state


def test_every_state_has_its_rows():
    """No state is forgotten, and out of the final ones there is no way."""
    assert set(TRANSITIONS) == set(State)
    assert {state for state, rows in TRANSITIONS.items() if not rows} == FINAL


def test_every_event_is_legal_somewhere():
    """An event that no state expects would be dead."""
    assert {event for rows in TRANSITIONS.values() for event in rows} == set(Event)
    assert set(EVENTS.values()) == set(Event) - {Event.ACQUIRE, Event.LOSE, Event.LAPSE, Event.DROP}


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", Event)
def test_what_the_table_lacks_is_an_error(state, event):
    """A move is made if and only if the table has it; the error says which move it was."""
    if event in TRANSITIONS[state]:
        assert next_state(state, event) is TRANSITIONS[state][event]
        return
    with pytest.raises(IllegalTransition, match=f"{event} is not legal in state {state}"):
        next_state(state, event)


@pytest.mark.parametrize(
    ("outcome", "undeliverable"),
    [(Outcome.EXPIRED, False), (Outcome.DEAD_LETTERED, False), (Outcome.ACCEPTED, True)],
)
def test_what_no_consumer_can_say_is_an_error(outcome, undeliverable):
    """The engine's own outcomes are no consumer's, and only `modified` can be undeliverable."""
    with pytest.raises(IllegalTransition):
        event_of(outcome, undeliverable=undeliverable)


def test_settled_without_a_state_is_a_failed_attempt():
    """The default outcome of JMS clients gives the message back and counts a failure."""
    event = event_of(WITHOUT_STATE.outcome, undeliverable=WITHOUT_STATE.undeliverable)
    assert next_state(State.ACQUIRED, event) is State.AVAILABLE
    assert WITHOUT_STATE.failed
