"""What a dispatcher asks of its caller: the closed union of its effects. They carry runs."""

from dataclasses import dataclass
from typing import Final, TypeAlias

from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.sequences.sequence_set import Run

#: The consumer of what was settled while nobody held it.
NOBODY: Final = 0


@dataclass(frozen=True, slots=True)
class Deliver:
    """Hand these messages to this consumer, in this order.

    `delivery_count` is the failed attempts before this one, as in the AMQP header.
    """

    consumer: int
    run: Run
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Settled:
    """Record that these deliveries to this consumer ended so; `final`: they are owed no more."""

    consumer: int
    run: Run
    outcome: Outcome
    final: bool
    delivery_count: int


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Keep copies of these, then call `dead_lettered`; until then no consumer gets them.

    `delivery_count` is the failed attempts, all of them.
    """

    consumer: int
    run: Run
    reason: Reason
    delivery_count: int


Effect: TypeAlias = Deliver | Settled | DeadLetter
