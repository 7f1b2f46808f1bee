"""The states of one message on one subscription, and the events that change them.

Rule 1: every legal change of state is a row of TRANSITIONS; any other change is an error.
        `dispatch.queue_state` looks up each run that leaves its consumer, or is dropped.
Rule 2: EVENTS maps each terminal state from the wire to its event; rule 1 does the rest.
Rule 3: this module knows no clock, no link and no table.
"""

from enum import StrEnum

import msgspec

from distributary.pipeline.errors import IllegalTransition
from distributary.pipeline.model.outcome import Outcome


class State(StrEnum):
    AVAILABLE = "available"  #: any consumer with credit may acquire it
    ACQUIRED = "acquired"  #: held by one consumer until that settles it or detaches
    SETTLED = "settled"  #: acknowledged; the floor may pass it
    ARCHIVED = "archived"  #: given up; the floor may pass it


class Event(StrEnum):
    """The terminal states of AMQP 1.0 (part 3, section 4), and our own events."""

    ACQUIRE = "acquire"
    ACCEPT = "accept"
    REJECT = "reject"
    RELEASE = "release"
    MODIFY = "modify"  #: given back
    MODIFY_UNDELIVERABLE = "modify_undeliverable"  #: not for this subscription again
    LOSE = "lose"  #: the link went away
    LAPSE = "lapse"  #: its lock ended
    DROP = "drop"  #: no consumer may have it any more: it expired or failed too often


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

#: States in which the message is owed to the subscription no more.
FINAL = frozenset({State.SETTLED, State.ARCHIVED})

#: Events that count as a failed attempt: the message is redelivered, unless it failed too often.
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
    """A consumer's terminal state of a delivery, with its fields.

    `failed` and `undeliverable` are fields of `modified` only.
    """

    outcome: Outcome
    failed: bool = False
    undeliverable: bool = False


#: Of a delivery settled without a state: the default outcome in the source of JMS clients.
WITHOUT_STATE = DeliveryState(Outcome.MODIFIED, failed=True)


def event_of(outcome: Outcome, *, undeliverable: bool) -> Event:
    """Return the event of a consumer's outcome."""
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
