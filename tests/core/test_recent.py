"""Recent messages, against a plain list of everything that was ever published."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.message import Slab
from pipeline.recent import RecentMessages

SIZE = 10
topics = st.sampled_from(["flights", "weather", "planes"])
publishes = st.lists(st.tuples(topics, st.integers(1, 4), st.booleans()), max_size=60)


def slab(first: int, count: int) -> Slab:
    return Slab(first, count, bytes(SIZE * count), bytes(4 * (count + 1)))


@given(publishes, st.integers(0, 200))
def test_finds_what_a_list_would_find(steps: list[tuple[str, int, bool]], bytes_max: int) -> None:
    """From the floor on, find gives the slab of the sequence or the topic's next one."""
    recent, everything = RecentMessages(head=7, bytes_max=bytes_max), []
    for topic, count, commit in steps:
        new = slab(recent.head, count)
        recent.add(topic, new)
        everything.append((topic, new))
        if commit:
            recent.committed(recent.head)

        for wanted in range(recent.floor, recent.head + 1):
            for name in ("flights", "weather", "planes"):
                expected = next((s for t, s in everything if t == name and s.stop > wanted), None)
                assert recent.find(name, wanted) is expected


@given(publishes, st.integers(0, 200))
def test_memory_is_bounded_by_what_is_committed(
    steps: list[tuple[str, int, bool]], bytes_max: int
) -> None:
    """Committed messages leave when the limit is passed; the others never do."""
    recent, committed = RecentMessages(head=0, bytes_max=bytes_max), 0
    for topic, count, commit in steps:
        recent.add(topic, slab(recent.head, count))
        if commit:
            committed = recent.head
            recent.committed(committed)

        assert recent.floor <= committed
        assert recent.bytes == SIZE * (recent.head - recent.floor)
        if recent.floor < committed:  # there was more that could leave, so it fitted
            assert recent.bytes <= bytes_max


def test_a_slab_must_follow_the_one_before() -> None:
    """A gap between slabs is a bug of the caller and is not taken in."""
    recent = RecentMessages(head=0, bytes_max=100)
    with pytest.raises(AssertionError, match="does not follow"):
        recent.add("flights", slab(1, 1))
