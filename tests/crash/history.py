"""Events of the clients of a crash test, in the order in which they happened.

A client records an action (`Publish`, `Settle`) before it does it, and its confirmation
(`Published`, `Settled`) when the gateway gives it. An action that was never answered is unknown: it
may have happened or not.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

#: What a subscription of all topics claims: a pattern; or a queue that all topics are routed to.
EVERY = "#"


class How(StrEnum):
    """How a gateway's life ended."""

    KILLED = "killed"  #: the process alone: what it wrote is there, synced or not
    POWER_CUT = "power cut"  #: what wasn't synced may be gone
    CUT_SHORT = "cut short"  #: killed while it stopped: it may have taken back what was held
    CUT_OFF = "cut off"  #: the same, and the power went with it
    STOPPED = "stopped"  #: it was asked to, and did: a power cut thereafter takes nothing
    GAVE_UP = "gave up"  #: it stopped by itself, with a reason


class Said(StrEnum):
    """The outcome that a consumer gave."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RELEASED = "released"
    FAILED = "failed"  #: modified, delivery failed

    @property
    def final(self) -> bool:
        return self in {Said.ACCEPTED, Said.REJECTED}


@dataclass(frozen=True, slots=True)
class Subscribed:
    """The gateway has confirmed the durable subscription: what is published from now is owed. Its
    topic is EVERY if it claims all topics.

    `exclusive`: one consumer at a time, so that the order of its deliveries can be seen.
    """

    subscription: str
    topic: str
    exclusive: bool

    def claims(self, topic: str) -> bool:
        """Whether it is owed what is published to this topic."""
        return self.topic in {topic, EVERY}


@dataclass(frozen=True, slots=True)
class Publish:
    """A publisher sends a message, for the first time or again. `number` grows with each new
    message of a publisher; `kept`: persistent, so that its acceptance is a promise."""

    message: str
    topic: str
    publisher: str
    number: int
    kept: bool


@dataclass(frozen=True, slots=True)
class Published:
    """The gateway has accepted one sending of the message."""

    message: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """A consumer has got a message."""

    subscription: str
    message: str
    consumer: str
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Settle:
    """A consumer gives a delivery its outcome."""

    subscription: str
    message: str
    consumer: str
    said: Said


@dataclass(frozen=True, slots=True)
class Settled:
    """The gateway has confirmed that outcome: it is durable."""

    subscription: str
    message: str
    consumer: str
    said: Said


@dataclass(frozen=True, slots=True)
class Leaving:
    """A consumer has asked to go: from here on the gateway may give back what it holds."""

    consumer: str


@dataclass(frozen=True, slots=True)
class Left:
    """A consumer is gone, the gateway is not: what it held is available again."""

    consumer: str


@dataclass(frozen=True, slots=True)
class Lost:
    """A consumer has left a gateway of a fleet that is gone, or doesn't answer: what it held comes
    marked, as it may have been seen."""

    consumer: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The gateway's process is gone. `credit`: how many messages each subscription could have sent
    beyond those that its consumers have seen."""

    how: How
    credit: dict[str, int]


@dataclass(frozen=True, slots=True)
class Harmed:
    """Some gateways of a fleet may lose their logs from here on, or their links at others, at an
    unknown time: the holders of messages are unknown until `Recovered`."""

    what: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """The fleet is whole again: what is delivered from here on has one holder."""


@dataclass(frozen=True, slots=True)
class Drained:
    """The gateway has said that the subscription has nothing more, and all of it was accepted."""

    subscription: str


@dataclass(frozen=True, slots=True)
class DeadLettered:
    """A copy of the message lay among the subscription's dead letters."""

    subscription: str
    message: str


@dataclass(frozen=True, slots=True)
class Searched:
    """The subscription has no other dead letters than those that were written down."""

    subscription: str


Event: TypeAlias = (
    Subscribed
    | Publish
    | Published
    | Delivered
    | Settle
    | Settled
    | Leaving
    | Left
    | Lost
    | Ended
    | Harmed
    | Recovered
    | Drained
    | DeadLettered
    | Searched
)


class History:
    """The events so far. One list for all clients: they take turns in one thread."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, event: Event) -> None:
        self.events.append(event)

    def add_before(self, place: int, event: Event) -> None:
        """An event that is heard of late and belongs in front of the one at that place."""
        self.events.insert(place, event)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def save(self, path: Path) -> None:
        """Write one JSON object a line, to find the cause of a failure."""
        lines = [json.dumps({"event": type(e).__name__, **asdict(e)}) for e in self.events]
        path.write_text("\n".join(lines) + "\n")
