"""Hints against a plain set: what they name, where they end, and bytes that are none."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.subscriptions.hint import Hint, Part, packed, unpacked

#: Where each part begins, and what it names, as distances.
PARTS = st.lists(st.tuples(st.integers(1, 30), st.sets(st.integers(0, 29))), min_size=1, max_size=5)


def part(start: int, stop: int, *sequences: int) -> Part:
    return Part(start, stop, array("q", sequences))


@given(PARTS, st.integers(0, 200))
def test_a_hint_is_what_its_parts_say(parts: list[tuple[int, set[int]]], below: int) -> None:
    """Wherever it is asked, also after what lies below is forgotten."""
    hint, start, named = None, 7, set[int]()
    for length, distances in parts:
        some = sorted(start + one for one in distances if one < length)
        one = part(start, start + length, *some)
        assert unpacked(start, start + length, packed(start, some)).sequences == one.sequences
        if hint is None:
            hint = Hint(one)
        else:
            assert hint.follow(one)
        named.update(some)
        start += length
    assert hint is not None
    assert (hint.start, hint.stop, len(hint)) == (7, start, len(named))
    if not hint.forget(below):
        assert below >= start
        return
    for sequence in range(max(below, 7), start):
        later = [one for one in named if one >= sequence]
        assert hint.covers(sequence)
        assert hint.next(sequence) == min(later, default=start)
        hint_filter = hint.filter(sequence)
        assert hint_filter is not None
        assert (
            set(later) & set(range(sequence, hint_filter.stop))
            <= set(hint_filter.sequences)
            <= named
        )
    assert not hint.covers(start)
    assert hint.filter(start) is None


def test_a_part_that_does_not_follow_is_not_taken() -> None:
    """A known part is taken; a part behind a gap, or one that goes further back, isn't."""
    hint = Hint(part(10, 20, 12))
    assert hint.follow(part(12, 18))
    assert not hint.follow(part(21, 30))
    assert not hint.follow(part(5, 20))
    assert not hint.follow(part(15, 30))
    assert (hint.stop, len(hint)) == (20, 1)


@pytest.mark.parametrize(
    ("start", "stop", "matches", "says"),
    [
        (5, 5, b"", "it says 5 to 5"),
        (5, 6 + (1 << 32), b"", "4294967296 at most"),
        (5, 9, b"12345", "has 5 bytes"),
        (5, 9, packed(5, [7, 7]), "must ascend"),
        (5, 9, packed(5, [9]), "below 'stop'"),
    ],
)
def test_what_is_no_part_says_why(start: int, stop: int, matches: bytes, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        unpacked(start, stop, matches)


def test_bytes_are_the_same_everywhere() -> None:
    assert packed(100, [100, 101, 356]) == bytes.fromhex("000000000000000100000100")
