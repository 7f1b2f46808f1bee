"""Bitmaps become the core's sets with the same members, dense or sparse, near or far."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64
from traced_memory import traced

from distributary.pipeline.sequences.chunks import CHUNK
from distributary.pipeline.tables.arrow.bitmaps import WINDOW, bitmap_of, set_of

near = st.integers(0, 3 * CHUNK)
edges = st.sampled_from([0, CHUNK - 1, CHUNK, 2 * CHUNK - 1, 2 * CHUNK])
far = st.integers(0, 2**40)


@given(st.sets(st.one_of(near, edges, far)), st.sets(st.integers(0, 5)))
def test_a_set_has_the_members_of_its_bitmap(members: set[int], blocks: set[int]) -> None:
    """Lone ones, whole chunks, chunks far from each other; and it goes on as any other set."""
    for block in blocks:
        members |= set(range(block * CHUNK - block, (block + 1) * CHUNK)) - {-1}
    found = set_of(BitMap64(members))
    assert [one for run in found.runs() for one in run] == sorted(members)
    assert len(found) == len(members)
    assert found.first() == min(members, default=None)
    found.discard(range(2**41))
    assert found.first() is None


@given(st.lists(st.tuples(st.integers(0, 3 * WINDOW), st.integers(1, 9 * WINDOW)), max_size=4))
def test_what_is_dense_comes_as_stretches(parts: list[tuple[int, int]]) -> None:
    """However long they are, and wherever they begin and end."""
    bitmap, stop, wanted = BitMap64(), 0, []
    for gap, length in parts:
        start = stop + gap + 1
        stop = start + length
        bitmap.add_range(start, stop)
        wanted.append(range(start, stop))
    found = set_of(bitmap)
    assert list(found.runs()) == wanted
    assert len(found) == len(bitmap)


@given(st.lists(far))
def test_a_bitmap_has_the_values(values: list[int]) -> None:
    """In whatever order they come, and however often."""
    assert set(bitmap_of(np.array(values, np.int64))) == set(values)


def test_what_is_nearly_dense_costs_its_gaps() -> None:
    """Ten million settled messages, of which every thousandth is stuck."""
    bitmap = BitMap64(range(10_000_000)) - BitMap64(range(0, 10_000_000, 1_000))
    with traced() as memory:
        found = set_of(bitmap)
    assert len(found) == len(bitmap)
    assert memory.kept < 100 * 10_000, f"{memory.kept:,} bytes"
