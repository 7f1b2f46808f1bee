"""State of a running gateway's subscriptions at one moment, which is in no table: their consumers
and credit, and the messages in flight to each consumer.

Times are microseconds since 1970.
"""

from dataclasses import dataclass

from distributary.pipeline.log.log_identity import LogIdentity


@dataclass(frozen=True, slots=True)
class LiveConsumer:
    """One consumer of a subscription. `name` is its name in `acks`."""

    name: str
    credit: int  #: number of further messages that it takes
    active: bool  #: whether it gets messages; with `single_active` one consumer does
    in_flight: int  #: messages in flight to it
    oldest_delivered_at: int | None  #: time of its oldest delivery in flight


@dataclass(frozen=True, slots=True)
class Held:
    """A message that is in flight to a consumer: delivered and not settled."""

    sequence: int
    consumer: str
    delivered_at: int | None  #: None where the gateway doesn't know it, as in a transaction
    delivery_count: int  #: failed attempts before this one


@dataclass(frozen=True, slots=True)
class LiveSubscription:
    """One durable subscription's state in the gateway."""

    subscription: str
    paused: bool
    floor: int
    backlog: int  #: messages that wait or are held; with a selector an upper bound
    attempts_max: int  #: failed attempts until a message is given up; 0: never
    consumers: tuple[LiveConsumer, ...]
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Live:
    """The answer of a gateway about its subscriptions. A requested subscription that is missing
    here doesn't exist any more.

    `table` is the gateway's log, None where no gateway was asked.
    """

    asked_at: int
    subscriptions: tuple[LiveSubscription, ...]
    table: LogIdentity | None = None
