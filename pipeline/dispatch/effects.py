"""The effects of a dispatcher, which its caller performs: a closed union. They carry runs."""

from typing import Final, TypeAlias

import msgspec

from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.sequences.sequence_set import Run

#: The consumer in the settlement of a message that wasn't in flight.
NOBODY: Final = 0


class Deliver(msgspec.Struct, frozen=True):
    """Send these messages to this consumer, in this order.

    `delivery_count` is the failed attempts before this one, as in the AMQP header (AMQP 1.0 part 3,
    section 3.2.1).
    """

    consumer: int
    run: Run
    delivery_count: int


class Settled(msgspec.Struct, frozen=True):
    """Record the outcome of these deliveries to this consumer; `final`: the messages are owed no
    more."""

    consumer: int
    run: Run
    outcome: Outcome
    final: bool
    delivery_count: int


class DeadLetter(msgspec.Struct, frozen=True):
    """Keep copies of these messages, then call `dead_lettered`; until then no consumer gets them.

    `delivery_count` is the number of all failed attempts.
    """

    consumer: int
    run: Run
    reason: Reason
    delivery_count: int


Effect: TypeAlias = Deliver | Settled | DeadLetter
