"""The life of one message on one subscription.

Rule 1: every legal change of state is a row of TRANSITIONS; a row that isn't there is an error.
        `dispatch.queue_state` asks it for each run that leaves its consumer, or is dropped.
Rule 2: what a terminal state from the wire does is a row of EVENTS, and follows from rule 1.
Rule 3: this module knows no clock, no link and no table.
"""

from enum import StrEnum

import msgspec

from distributary.pipeline.errors import IllegalTransition
from distributary.pipeline.model.outcome import Outcome


class State(StrEnum):
    AVAILABLE = "available"  #: any consumer with credit may acquire it
    ACQUIRED = "acquired"  #: held by one consumer until it settles, or goes
    SETTLED = "settled"  #: acknowledged; the floor may pass it
    ARCHIVED = "archived"  #: given up; the floor may pass it


class Event(StrEnum):
    """The terminal states of AMQP 1.0 (part 3, section 4), and the events that are ours."""

    ACQUIRE = "acquire"
    ACCEPT = "accept"
    REJECT = "reject"
    RELEASE = "release"
    MODIFY = "modify"  #: given back
    MODIFY_UNDELIVERABLE = "modify_undeliverable"  #: this subscription shall not see it again
    LOSE = "lose"  #: the link went away
    LAPSE = "lapse"  #: its lock ended
    DROP = "drop"  #: nobody shall have it any more: its time is over, it failed too often


TRANSITIONS: dict[State, dict[Event, State]] = {
    State.AVAILABLE: {Event.ACQUIRE: State.ACQUIRED, Event.DROP: State.ARCHIVED},
    State.ACQUIRED: {
        Event.ACCEPT: State.SETTLED,
        Event.REJECT: State.ARCHIVED,
        Event.RELEASE: State.AVAILABLE,
        Event.MODIFY: State.AVAILABLE,
        Event.MODIFY_UNDELIVERABLE: State.ARCHIVED,
        Event.LOSE: State.AVAILABLE,
        Event.LAPSE: State.AVAILABLE,
    },
    State.SETTLED: {},
    State.ARCHIVED: {},
}

#: The states in which the subscription is owed the message no more.
FINAL = frozenset({State.SETTLED, State.ARCHIVED})

#: After these an attempt has failed: the message comes again, unless it has failed too often.
FAILURES = frozenset({Event.MODIFY, Event.LAPSE})

#: (outcome, undeliverable here) -> event. Only `modified` can say that it is undeliverable here.
EVENTS: dict[tuple[Outcome, bool], Event] = {
    (Outcome.ACCEPTED, False): Event.ACCEPT,
    (Outcome.REJECTED, False): Event.REJECT,
    (Outcome.RELEASED, False): Event.RELEASE,
    (Outcome.MODIFIED, False): Event.MODIFY,
    (Outcome.MODIFIED, True): Event.MODIFY_UNDELIVERABLE,
}


class DeliveryState(msgspec.Struct, frozen=True):
    """What a consumer says about a delivery: the fields of its terminal state.

    `failed` and `undeliverable` are fields of `modified` only.
    """

    outcome: Outcome
    failed: bool = False
    undeliverable: bool = False


#: A delivery settled without a state: the default outcome that JMS clients ask for in their source.
WITHOUT_STATE = DeliveryState(Outcome.MODIFIED, failed=True)


def event_of(outcome: Outcome, *, undeliverable: bool) -> Event:
    """The event that a consumer's outcome is."""
    try:
        return EVENTS[outcome, undeliverable]
    except KeyError:
        event = f"{outcome}, undeliverable here" if undeliverable else outcome
        raise IllegalTransition(State.ACQUIRED, event) from None


def next_state(state: State, event: Event) -> State:
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise IllegalTransition(state, event) from None
