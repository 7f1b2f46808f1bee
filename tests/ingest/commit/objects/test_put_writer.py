"""Groups go to a store several at a time, and are told of in order, once, whatever it answers."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from faulty_s3 import FaultyS3, Plan, faulty_s3
from table_groups import group, run

from distributary.ingest.commit.objects.put_writer import PutWriter
from distributary.ingest.runtime.host import Halt, Host
from distributary.ingest.runtime.load_settings import load
from distributary.pipeline.log.message_counts import MessageCounts, Stalls
from distributary.pipeline.object_journal import entry
from distributary.pipeline.object_journal.entry import Kind
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.journal.segment import FrameRef
from distributary.pipeline.tables.object_home.journal_objects import JournalObjects
from distributary.pipeline.tables.object_home.object_home import ObjectHome
from distributary.pipeline.tables.object_home.object_journal import ObjectJournal

EPOCH, UNDER_WAY = 3, 6
OURS, THEIRS = b"o" * 16, b"t" * 16


@pytest.fixture
def s3() -> Iterator[FaultyS3]:
    with faulty_s3() as found:
        yield found


class Writing:
    """A writer with a loop of its own; `told` are the groups that are durable."""

    def __init__(self, s3: FaultyS3) -> None:
        self.loop = asyncio.new_event_loop()
        settings = load(None, {}, {"journal.puts_max": UNDER_WAY})
        host = Host(self.loop, settings, Halt(self.loop), MessageCounts(1, Stalls()))
        self.halt = host.halt
        self.objects = JournalObjects(ObjectHome("s3://lake/home", s3.options()).store(1.0))
        self.journal = ObjectJournal(self.objects, EPOCH)
        self.told: list[int] = []
        self.begun = 0
        self.writer = PutWriter(host, self.journal, OURS, self._written)

    def _written(self, ref: FrameRef) -> None:
        self.told.append(ref.group)

    def write(self, count: int) -> None:
        """So many groups, as many at a time as may be."""
        for _ in range(count):
            self.until(lambda: self.begun - len(self.told) < UNDER_WAY or self.halt.on)
            self.begun += 1
            self.writer.write(frame.encode(group(self.begun, self.begun, run("t", [b"x" * 90]))))

    def until(self, what: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not what():  # noqa: ASYNC110 (of a test)
                await asyncio.sleep(0.001)

        self.loop.run_until_complete(asyncio.wait_for(wait(), 60.0))

    def close(self) -> None:
        self.writer.stop()
        self.loop.close()


@pytest.fixture
def made(s3: FaultyS3) -> Iterator[Writing]:
    writing = Writing(s3)
    yield writing
    s3.plan(Plan())
    writing.close()


@pytest.mark.parametrize(
    "plan",
    [
        Plan(latency_ms=10, spread=1.0),
        Plan(errors=0.3, throttled=0.2),
        Plan(lost=0.4, hang_seconds=0.1, repeated=0.3),
    ],
)
def test_all_are_told_of_in_order_and_stand(made: Writing, s3: FaultyS3, plan: Plan) -> None:
    s3.plan(plan)
    made.write(40)
    made.until(lambda: len(made.told) == 40)
    s3.plan(Plan())
    assert made.told == list(range(1, 41))
    assert made.objects.kinds(EPOCH) == dict.fromkeys(range(1, 41), Kind.GROUP)
    for number in (1, 40):
        read = made.objects.read(EPOCH, number)
        assert (read.group, read.writer, frame.decode(read.frame).group) == (number, OURS, number)


def test_several_are_under_way_at_once(made: Writing, s3: FaultyS3) -> None:
    """None of them waits for the answer to another."""
    s3.hold("key", "PUT")
    made.write(UNDER_WAY)
    made.until(lambda: s3.holding == UNDER_WAY)
    assert not made.told
    s3.hold()
    made.until(lambda: len(made.told) == UNDER_WAY)


def test_nothing_behind_a_seal_is_told_of(made: Writing) -> None:
    """Groups before the seal are told of; then the writer stops."""
    made.write(4)
    made.until(lambda: len(made.told) == 4)
    seal = entry.encode(Kind.SEAL, EPOCH + 1, 5, THEIRS)
    made.objects.put(EPOCH, 5, seal)
    made.write(UNDER_WAY)
    made.until(lambda: made.halt.on)
    assert made.told == [1, 2, 3, 4]
    assert "closed by another owner at group 5" in str(
        made.loop.run_until_complete(made.halt.ended())
    )


def test_an_own_entry_that_is_there_is_ours(made: Writing) -> None:
    """A put that was carried out before its answer was lost."""
    one = frame.encode(group(1, 1, run("t", [b"x" * 90])))
    made.objects.put(EPOCH, 1, entry.encode(Kind.GROUP, EPOCH, 1, OURS, one))
    made.begun = 1
    made.writer.write(one)
    made.until(lambda: made.told == [1])


def test_a_store_that_is_away_is_waited_for(made: Writing, s3: FaultyS3) -> None:
    """When the store is back the waiting groups are put there, in order."""
    s3.plan(Plan(errors=1.0))
    made.write(3)
    made.until(lambda: made.writer.full)
    assert not made.told
    s3.plan(Plan())
    made.until(lambda: made.told == [1, 2, 3])
    assert not made.writer.full


def test_what_the_table_has_is_removed_and_not_kept(made: Writing, s3: FaultyS3) -> None:
    """Also what couldn't be removed when it was asked for the first time."""
    made.write(5)
    made.until(lambda: len(made.told) == 5)
    refs = [FrameRef(number, 0, 0, 0) for number in (4, 5)]
    assert [frame.decode(one).group for one in made.journal.read(refs)] == [4, 5]
    s3.plan(Plan(errors=1.0))
    made.journal.recycle(2)
    s3.plan(Plan())
    made.journal.recycle(3)
    assert made.objects.kinds(EPOCH) == {4: Kind.GROUP, 5: Kind.GROUP}
    assert made.journal.backlog_bytes == sum(map(len, made.journal.read(refs)))
