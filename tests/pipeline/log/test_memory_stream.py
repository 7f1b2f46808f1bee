"""A topic's stream in memory, against a list of its messages."""

from array import array

from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.log.memory_stream import Logged, MemoryBudget, MemoryStream
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.record_batch import RecordBatch


def batch(first: int, count: int) -> RecordBatch:
    """Messages of eight bytes that say which they are, each with an expiry that says it, too."""
    them = range(first, first + count)
    blob = b"".join(one.to_bytes(8, "big") for one in them)
    offsets = array("i", range(0, 8 * count + 1, 8)).tobytes()
    attributes = HeaderAttributes(first, expires_at=array("q", them).tobytes())
    return RecordBatch(first, count, blob, offsets, attributes=attributes)


def said(one: RecordBatch) -> list[tuple[int, int, int]]:
    """Of each message its number, what its bytes say, and its expiry."""
    offsets = memoryview(one.offsets).cast("B").cast("i")
    assert one.attributes is not None
    expiries = memoryview(one.attributes.expires_at).cast("q")
    assert one.attributes.first == one.first
    return [
        (one.first + at, int.from_bytes(one.blob[offsets[at] : offsets[at + 1]], "big"), expiry)
        for at, expiry in zip(range(one.count), expiries, strict=True)
    ]


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 5), st.integers(0, 3)), max_size=30),
    st.integers(0, 150),
)
def test_every_number_is_found(steps: list[tuple[bool, int, int]], below: int) -> None:
    """Whether it stayed in memory or was written; what is written lies among other topics'."""
    stream, log, head = MemoryStream(MemoryBudget(1 << 20)), {}, 1_000
    expected: list[int] = []
    for written, count, others in steps:
        if written:
            log[head] = batch(head, count)
            shown, excluded = stream.add_logged(log[head], 0)
            assert said(shown)[0][0] == len(expected)
            assert not excluded
            expected += range(head, head + count)
            head += count + others
        else:
            stream.add(batch(stream.head, count), 0)
            expected += range(len(expected), len(expected) + count)
    assert stream.head == len(expected)
    assert stream.counter.since(0).messages == len(expected)
    stream.trim(below)
    at = min(below, stream.head)
    while (entry := stream.find(at)) is not None:
        if isinstance(entry, Logged):
            sequence = entry.sequence_of(at)
            found = next(one for one in log.values() if one.stop > sequence)
            entry = entry.numbered(found)
        assert entry.first <= at < entry.stop
        for number, say, expiry in said(entry):
            assert say == expiry == expected[number]
        at = entry.stop
    assert at == stream.head


def test_a_page_of_the_log_is_cut() -> None:
    """It has other messages of the topic, before and after, which have other numbers."""
    stream = MemoryStream(MemoryBudget(1 << 20))
    stream.add(batch(0, 10), 0)
    stream.add_logged(batch(100, 3), 0)
    entry = stream.find(10)
    assert isinstance(entry, Logged)
    listed = array("q", [90, *range(100, 103), 200])
    blob = b"".join(one.to_bytes(8, "big") for one in listed)
    attributes = HeaderAttributes(90, listed, expires_at=listed.tobytes())
    offsets = array("i", range(0, 41, 8)).tobytes()
    page = RecordBatch(90, 5, blob, offsets, listed, attributes)
    assert said(entry.numbered(page)) == [(10, 100, 100), (11, 101, 101), (12, 102, 102)]


def test_what_is_not_owed_of_the_log() -> None:
    """Sequences that were excluded before they became durable are told by their numbers, once."""
    stream = MemoryStream(MemoryBudget(1 << 20))
    stream.add(batch(0, 5), 0)
    stream.exclude(range(52, 54))
    assert stream.add_logged(batch(40, 5), 0)[1] == []
    assert stream.add_logged(batch(50, 5), 0)[1] == [range(12, 14)]
    assert stream.add_logged(batch(60, 5), 0)[1] == []


def test_the_budget_is_for_all_streams() -> None:
    """It is given back as messages go, and with the stream; what lies in the log takes none."""
    budget = MemoryBudget(10_000)
    streams = [MemoryStream(budget) for _ in range(2)]
    for stream in streams:
        stream.add_logged(batch(1_000, 5), 0)
    assert budget.bytes == 0
    for stream in streams:
        stream.add(batch(5, 5), 0)
        stream.add(batch(10, 5), 0)
    full = budget.bytes
    assert full > 2 * 2 * 80
    assert not streams[0].fits(10_000 - full)
    assert streams[0].fits(1_000)
    streams[0].trim(10)
    assert budget.bytes == full * 3 // 4
    streams[0].clear()
    streams[1].clear()
    assert budget.bytes == 0
    assert not len(streams[0])
