"""Cost of dispatch and settlement for a delivery, alone: plain messages, and each feature."""

import random
import time
from array import array
from collections.abc import Callable, Iterable
from typing import Final

from distributary.pipeline.dispatch.dispatcher import Deliver, Dispatcher
from distributary.pipeline.dispatch.priority_index import PriorityIndex
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.outcome import Outcome
from tests.bench.bench import Bench, Measurement

COUNT: Final = 100_000
#: Messages of a batch, and what consumers settle at once: what a read of a busy socket brings.
BATCH, SETTLED = 300, 100
#: The credit that a consumer keeps open, refilled when half of it is used.
CREDIT: Final = 1_000
ROUNDS: Final = 3

Shape = Callable[[int, int], "HeaderAttributes | None"]


def dispatch(_bench: Bench) -> Measurement:
    """All of it in this process; microseconds of CPU a delivery, the best of the rounds."""
    facts = {
        "plain_1_us": _cost(1, _plain),
        "plain_4_us": _cost(4, _plain),
        "plain_50_us": _cost(50, _plain),
        "expiry_us": _cost(4, _expiring),
        "priority_us": _cost(4, _priorities),
        "groups_us": _cost(4, _groups),
        "selectors_us": _cost(4, _plain, selectors=("even", "odd")),
    }
    return Measurement(facts=facts)


def _cost(consumers: int, shape: Shape, selectors: tuple[str, ...] = ()) -> float:
    batches = [(first, shape(first, BATCH)) for first in range(0, COUNT, BATCH)]
    return min(_round(batches, consumers, selectors) for _ in range(ROUNDS)) / COUNT * 1e6


def _round(
    batches: list[tuple[int, HeaderAttributes | None]], consumers: int, selectors: tuple[str, ...]
) -> float:
    """Seconds of CPU until all are settled: batches come one by one, as a publisher's reads do."""
    priority_index = PriorityIndex()
    dispatcher = Dispatcher(0, priority_index=priority_index)
    numbers = range(1, consumers + 1)
    matches = [_matched(first, selectors) for first, _ in batches]
    began = time.process_time()
    for number in numbers:
        selector = selectors[number % len(selectors)] if selectors else None
        dispatcher.attach(number, selector=selector)
        dispatcher.credit(number, CREDIT)
    granted = dict.fromkeys(numbers, CREDIT)
    for (first, attributes), matched in zip(batches, matches, strict=True):
        stop = first + BATCH
        if attributes is not None:
            priority_index.add(first, stop, attributes)
        while (wanted := dispatcher.wanted(stop)) is not None:
            assert wanted >= first, f"{wanted} was left behind {first}"
            effects = dispatcher.offer(first, stop, attributes=attributes, matches=matched)
            for effect in effects:
                if isinstance(effect, Deliver):
                    granted[effect.consumer] -= len(effect.run)
                    _settle(dispatcher, effect)
            for number in numbers:
                if granted[number] < CREDIT // 2:
                    granted[number] = CREDIT
                    dispatcher.credit(number, CREDIT)
    assert dispatcher.floor == batches[-1][0] + BATCH
    return time.process_time() - began


def _settle(dispatcher: Dispatcher, deliver: Deliver) -> None:
    run = deliver.run
    for at in range(0, len(run), SETTLED):
        dispatcher.settle(deliver.consumer, run[at : at + SETTLED], Outcome.ACCEPTED)


def _matched(first: int, selectors: tuple[str, ...]) -> "dict[str, array[int]]":
    """Every message is matched by one of them."""
    step = len(selectors)
    return {
        text: array("q", range(first + nth, first + BATCH, step))
        for nth, text in enumerate(selectors)
    }


def _plain(_first: int, _count: int) -> None:
    return None


def _expiring(first: int, count: int) -> HeaderAttributes:
    return HeaderAttributes(first, expires_at=_longs(1 << 60 for _ in range(count)))


def _priorities(first: int, count: int) -> HeaderAttributes:
    drawn = random.Random(first)
    return HeaderAttributes(first, priority=bytes(drawn.randrange(10) for _ in range(count)))


def _groups(first: int, count: int) -> HeaderAttributes:
    drawn = random.Random(first)
    return HeaderAttributes(
        first, groups=_longs(drawn.randrange(1, 101) << 32 for _ in range(count))
    )


def _longs(values: Iterable[int]) -> bytes:
    return array("q", values).tobytes()
