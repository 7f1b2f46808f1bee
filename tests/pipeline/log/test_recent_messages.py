"""Recent messages, against a plain list of everything that was ever published."""

import weakref
from array import array
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.log.recent_messages import (
    BATCH_BYTES,
    LEAVE_BY_ADD,
    LEAVE_BY_COMMIT,
    LINE_BYTES,
    RecentMessages,
)
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.topic_pattern import matches

SIZE = 10
topics = st.sampled_from(["flights", "weather", "planes"])
publishes = st.lists(st.tuples(topics, st.integers(1, 4), st.booleans()), max_size=60)


class Takes(NamedTuple):
    room: int


def batch(first: int, count: int) -> RecordBatch:
    return RecordBatch(first, count, bytes(SIZE * count), bytes(4 * (count + 1)))


def taken(recent: RecentMessages, firsts: list[int]) -> int:
    """The bytes of all batches that haven't left, with what each takes beside its messages."""
    batches = sum(1 for first in firsts if first >= recent.floor)
    return SIZE * (recent.head - recent.floor) + BATCH_BYTES * batches


@given(publishes, st.integers(0, 20 * BATCH_BYTES))
def test_finds_what_a_list_would_find(steps: list[tuple[str, int, bool]], bytes_max: int) -> None:
    """From the floor on, find gives the batch of the sequence or the topic's next one."""
    recent, everything = RecentMessages(head=7, bytes_max=bytes_max), []
    for topic, count, commit in steps:
        new = batch(recent.head, count)
        recent.add(topic, new)
        everything.append((topic, new))
        if commit:
            recent.committed(recent.head)

        for wanted in range(recent.floor, recent.head + 1):
            for name in ("flights", "weather", "planes"):
                expected = next((s for t, s in everything if t == name and s.stop > wanted), None)
                assert recent.find(name, wanted) is expected


dotted = st.sampled_from(["eu.flights", "eu.planes", "us.planes", "queue://eu.flights"])
pattern_steps = st.lists(
    st.tuples(dotted, st.integers(1, 4), st.booleans(), st.sampled_from(["", "eu.*", "*.planes"])),
    max_size=60,
)


@given(pattern_steps, st.integers(0, 20 * BATCH_BYTES))
def test_a_pattern_finds_what_its_topics_have_in_their_order(
    steps: list[tuple[str, int, bool, str]], bytes_max: int
) -> None:
    """From the floor on, whenever it began to be watched; each batch has its topic."""
    recent, everything = RecentMessages(head=7, bytes_max=bytes_max), []
    for topic, count, commit, toggled in steps:
        new = batch(recent.head, count)
        recent.add(topic, new)
        everything.append((topic, new))
        if commit:
            recent.committed(recent.head)
        word = f"pattern://{toggled}"
        if toggled and word in recent.patterns:
            recent.unwatch(word)
            assert recent.find(word, recent.floor) is None
        elif toggled:
            recent.watch(word)
        for watched in ("pattern://eu.*", "pattern://*.planes"):
            for wanted in (
                range(recent.floor, recent.head + 1) if watched in recent.patterns else ()
            ):
                behind = (one for one in everything if one[1].stop > wanted)
                expected = next((one for one in behind if matches(watched, one[0])), None)
                assert recent.find(watched, wanted) is (expected[1] if expected else None)
                found = expected[0] if expected and expected[1].first <= wanted else None
                assert recent.topic_of(watched, wanted) == found


def test_a_pattern_keeps_nothing_that_has_left() -> None:
    recent, blob = RecentMessages(head=0, bytes_max=0), memoryview(bytes(SIZE))
    left = weakref.ref(blob)
    recent.watch("pattern://eu.*")
    recent.add("eu.flights", RecordBatch(0, 1, blob, bytes(8)))
    del blob
    assert left() is not None
    recent.committed(1)
    assert left() is None


def test_what_patterns_take_counts_too() -> None:
    """So many patterns of one topic don't take more than the limit, but messages leave sooner."""
    recent = RecentMessages(head=0, bytes_max=1_000_000)
    for nth in range(1_000):
        recent.watch("pattern://" + ".".join(["*"] * nth + ["#"]))
    recent.add("a." * 600 + "b", batch(0, 1))
    assert recent.bytes == BATCH_BYTES + SIZE + 602 * LINE_BYTES


@given(publishes, st.integers(0, 20 * BATCH_BYTES))
def test_memory_is_bounded_by_what_is_committed(
    steps: list[tuple[str, int, bool]], bytes_max: int
) -> None:
    """Committed messages leave when the limit is passed; the others never do."""
    recent, committed = RecentMessages(head=0, bytes_max=bytes_max), 0
    firsts: list[int] = []
    for topic, count, commit in steps:
        firsts.append(recent.head)
        recent.add(topic, batch(recent.head, count))
        if commit:
            committed = recent.head
            recent.committed(committed)

        assert recent.floor <= committed
        assert recent.bytes == taken(recent, firsts)
        if recent.floor < committed:  # there was more that could leave, so it fitted
            assert recent.bytes <= bytes_max


@given(publishes, st.integers(0, 20 * BATCH_BYTES), st.data())
def test_what_is_owed_to_nobody_leaves_once_the_table_has_it(
    steps: list[tuple[str, int, bool]], bytes_max: int, data: st.DataObject
) -> None:
    """However little it is; what is owed stays as long as the limit allows."""
    recent, firsts = RecentMessages(head=0, bytes_max=bytes_max), [0]
    for topic, count, _ in steps:
        recent.add(topic, batch(recent.head, count))
        firsts.append(recent.head)
        through, owed_from = data.draw(st.tuples(*2 * [st.integers(0, recent.head)]))
        recent.committed(through, owed_from)
        through, floor = recent.committed_through, recent.floor

        assert recent.bytes == taken(recent, firsts[:-1])
        following = next((stop for stop in firsts if stop > floor), None)
        if following is not None and following <= through:
            assert following > owed_from, "it could have left"
            assert recent.bytes <= bytes_max


def test_what_is_owed_to_nobody_leaves_little_by_little() -> None:
    """The loop isn't held for all of a commit; what goes on coming takes the rest with it."""
    recent = RecentMessages(head=0, bytes_max=10_000_000)
    for _ in range(1_000):
        recent.add("t", batch(recent.head, 1))
    recent.committed(1_000, 1_000)
    assert recent.floor == LEAVE_BY_COMMIT
    for nth in range(1_000 - LEAVE_BY_COMMIT):
        recent.add("t", batch(recent.head, 1))
        assert recent.floor == min(LEAVE_BY_COMMIT + (nth + 1) * LEAVE_BY_ADD, 1_000)


@given(publishes, st.integers(0, 20 * BATCH_BYTES), st.data())
def test_forgotten_topics_are_gone_and_the_others_are_not(
    steps: list[tuple[str, int, bool]], bytes_max: int, data: st.DataObject
) -> None:
    """A topic's old messages are found no more, its new ones are; the limit holds as before."""
    recent, everything = RecentMessages(head=7, bytes_max=bytes_max), []
    firsts: list[int] = []
    for topic, count, commit in steps:
        new = batch(recent.head, count)
        firsts.append(recent.head)
        recent.add(topic, new)
        everything.append((topic, new))
        if gone := data.draw(st.none() | topics):
            recent.forget(gone)
            everything = [(t, s) for t, s in everything if t != gone]
        if commit:
            recent.committed(recent.head)
            assert recent.bytes <= bytes_max

        assert recent.bytes == taken(recent, firsts)
        for wanted in range(recent.floor, recent.head + 1):
            for name in ("flights", "weather", "planes"):
                expected = next((s for t, s in everything if t == name and s.stop > wanted), None)
                assert recent.find(name, wanted) is expected
        assert set(recent.topics) == {t for t, s in everything if s.first >= recent.floor}


def numbered(first: int, count: int) -> RecordBatch:
    """A batch whose messages are their own sequences as text, of different lengths."""
    bodies = [str(n).encode() for n in range(first, first + count)]
    offsets = array("i", [0])
    for body in bodies:
        offsets.append(offsets[-1] + len(body))
    return RecordBatch(first, count, b"".join(bodies), bytearray(offsets.tobytes()))


def messages(found: RecordBatch) -> list[tuple[int, bytes]]:
    offsets = memoryview(found.offsets).cast("i")
    sequences = found.sequences or range(found.first, found.stop)
    assert len(offsets) == found.count + 1 == len(sequences) + 1
    assert (found.first, found.stop) == (sequences[0], sequences[-1] + 1)
    return [(n, bytes(found.blob[offsets[i] : offsets[i + 1]])) for i, n in enumerate(sequences)]


@given(
    st.lists(st.tuples(topics, st.integers(1, 4) | st.integers(30, 34)), max_size=40),
    st.integers(0, 60),
)
def test_small_batches_are_joined(steps: list[tuple[str, int]], most: int) -> None:
    """The found batch has all of the topic's messages from its first to its last one, and no more
    than were asked for unless it is one batch as added."""
    recent, all_of = RecentMessages(head=95, bytes_max=1 << 20), {}
    for topic, count in steps:
        new = numbered(recent.head, count)
        recent.add(topic, new)
        all_of.setdefault(topic, []).extend(messages(new))
    for topic, everything in all_of.items():
        for wanted, _ in everything:
            found = recent.find(topic, wanted, Takes(most))
            assert found is not None
            got = messages(found)
            assert got == [m for m in everything if found.first <= m[0] < found.stop]
            assert found.first <= wanted < found.stop
            assert found.count <= most or found is recent.find(topic, wanted)


def test_one_message_a_group_is_one_batch() -> None:
    """A backlog of single messages between those of others is handed out together."""
    recent = RecentMessages(head=0, bytes_max=1 << 20)
    for n in range(100):
        recent.add("mine", numbered(recent.head, 1))
        recent.add("other", numbered(recent.head, 1 + n % 3))
    found = recent.find("mine", 0, Takes(1_000))
    assert found is not None
    assert found.count == 100
    alone = RecentMessages(head=0, bytes_max=1 << 20)
    for n in range(100):
        alone.add("mine", numbered(n, 1))
    together = alone.find("mine", 3, Takes(20))
    assert together is not None
    assert (together.first, together.count, together.sequences) == (3, 20, None)


def test_a_batch_must_follow_the_one_before() -> None:
    """A gap between batches is a bug of the caller and is not taken in."""
    recent = RecentMessages(head=0, bytes_max=100)
    with pytest.raises(AssertionError, match="does not follow"):
        recent.add("flights", batch(1, 1))
