"""Messages far back cost little memory: stuck ones, those that no selector matches, and urgent
ones."""

from array import array
from collections.abc import Iterator
from contextlib import contextmanager

from traced_memory import traced

from distributary.pipeline.dispatch.dispatcher import Deliver, Dispatcher
from distributary.pipeline.dispatch.priority_index import PriorityIndex
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.sequences.sequence_set import SequenceSet

FAR = 100_000_000
#: A set keeps at most 64 chunks of 4,096 bytes as they are; so much is what three sets have.
SETS_BYTES = 1_000_000


@contextmanager
def little_memory(bytes_max: int) -> Iterator[None]:
    """No more than this is allocated at any moment meanwhile."""
    with traced() as memory:
        yield
    assert memory.peak < bytes_max, f"{memory.peak:,} bytes"


def test_one_stuck_message_far_behind() -> None:
    """Settled up to the head but for one, it goes on at both ends."""
    with little_memory(SETS_BYTES):
        dispatcher = Dispatcher(5, SequenceSet([range(6, FAR)]))
        dispatcher.attach(1)
        dispatcher.credit(1, 4)
        assert [effect.run for effect in dispatcher.offer(5, 6)] == [range(5, 6)]
        assert dispatcher.wanted() == FAR
        assert [effect.run for effect in dispatcher.offer(FAR, FAR + 3)] == [range(FAR, FAR + 3)]
        dispatcher.settle(1, range(FAR, FAR + 3), Outcome.ACCEPTED)
        assert (dispatcher.floor, dispatcher.outstanding) == (5, 1)


def test_stuck_messages_here_and_there() -> None:
    """One of four is held, the others are settled: most chunks are packed, a bit for each message
    in each of two sets, and none is lost."""
    dispatcher = Dispatcher(0)
    dispatcher.attach(1)
    dispatcher.credit(1, 10**9)
    step = 40_000
    with little_memory(SETS_BYTES):
        for first in range(0, 20 * step, step):
            dispatcher.offer(first, first + step)
            for nth in range(1, 4):
                dispatcher.settle(1, range(first + nth, first + step, 4), Outcome.ACCEPTED)
    assert dispatcher.in_flight == 20 * step // 4
    settled = dispatcher.settle(1, range(0, 20 * step, 4), Outcome.ACCEPTED)
    assert sum(len(one.run) for one in settled) == 20 * step // 4
    assert dispatcher.floor == 20 * step


def test_what_nobodys_selector_matches() -> None:
    """It is a stretch, and is looked at again when a consumer with another selector comes."""
    dispatcher = Dispatcher(0)
    dispatcher.attach(1, selector="red")
    dispatcher.credit(1, 10)
    nothing, step = {"red": array("q")}, 20_000
    with little_memory(SETS_BYTES):
        for first in range(0, 30 * step, step):
            assert dispatcher.wanted(first + step) == first
            assert not dispatcher.offer(first, first + step, matches=nothing)
        assert dispatcher.outstanding == 30 * step
    dispatcher.attach(2, selector="blue")
    dispatcher.credit(2, 3)
    assert dispatcher.wanted(30 * step) == 0
    matches = {"red": array("q"), "blue": array("q", [7, 9])}
    effects = dispatcher.offer(0, step, matches=matches)
    got = [one for e in effects if isinstance(e, Deliver) for one in e.run]
    assert got == [7, 9]


def test_urgent_messages() -> None:
    """The priority index of a million messages of all priorities, and trimmed again."""
    priorities = bytes(n % 10 for n in range(100_000))
    priority_index, batch = PriorityIndex(), len(priorities)
    with little_memory(3 * SETS_BYTES):
        for first in range(0, 10 * batch, batch):
            priority_index.add(first, first + batch, HeaderAttributes(first, None, priorities))
        assert priority_index.added == 10 * batch // 2
        priority_index.trim(10 * batch - 1)
        assert [next(priority_index.high[level].runs()).start for level in (9,)] == [10 * batch - 1]
    assert all(not priority_index.high[level] for level in (5, 6, 7, 8))
