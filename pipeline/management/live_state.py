"""What a running gateway knows of its subscriptions at one moment, and no table does: which clients
are connected, which take messages, and which messages are in flight to which consumer since when.

Times are microseconds since 1970.
"""

from dataclasses import dataclass

from distributary.pipeline.log.log_identity import LogIdentity


@dataclass(frozen=True, slots=True)
class LiveConsumer:
    """One consumer of a subscription. `name` is the one that it has in `acks`."""

    name: str
    credit: int  #: how many more messages it takes
    active: bool  #: whether it gets any: where only one at a time does, whether it is the one
    in_flight: int  #: how many it holds
    oldest_delivered_at: int | None  #: when it was given what it holds for the longest


@dataclass(frozen=True, slots=True)
class Held:
    """A message that is in flight to a consumer: delivered and not settled."""

    sequence: int
    consumer: str
    delivered_at: int | None  #: null where the gateway doesn't know, as in a transaction
    delivery_count: int  #: failed attempts before this one


@dataclass(frozen=True, slots=True)
class LiveSubscription:
    """One durable subscription as the gateway has it."""

    subscription: str
    paused: bool
    floor: int
    backlog: int  #: messages that wait or are held; with a selector the most that it can be
    attempts_max: int  #: failed attempts until a message is given up; 0: never
    consumers: tuple[LiveConsumer, ...]
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Live:
    """The answer of a gateway about its subscriptions. One that was asked for and isn't here
    doesn't exist any more.

    `table` is the gateway's log, None where no gateway was asked.
    """

    asked_at: int
    subscriptions: tuple[LiveSubscription, ...]
    table: LogIdentity | None = None
