"""Groups that the loop writes by itself: by their size, and while it was quick."""

import pytest

from distributary.pipeline.log.loop_writes import LoopWrites

QUICK, SLOW = 0.0002, 0.01


@pytest.fixture
def writes() -> LoopWrites:
    return LoopWrites(1_000, 0.0006, 1.0)


@pytest.mark.parametrize(("size", "allowed"), [(0, True), (1_000, True), (1_001, False)])
def test_a_large_group_is_for_the_thread(writes: LoopWrites, size: int, allowed: bool) -> None:
    assert writes.allows(size, 5.0) == allowed


def test_nothing_is_written_where_that_is_the_limit() -> None:
    """A limit of 0 turns it off: each group has bytes."""
    assert not LoopWrites(0, 0.0006, 1.0).allows(1, 0.0)


def test_quick_writes_go_on_for_ever(writes: LoopWrites) -> None:
    for nth in range(10_000):
        assert writes.allows(100, nth * QUICK)
        writes.took(QUICK, nth * QUICK)


def test_a_slow_disk_has_the_loop_rest_and_try_again(writes: LoopWrites) -> None:
    """One slow write in a while is forgiven, several aren't; after the rest it is tried again, and
    a disk that is still slow costs a few writes each time."""
    writes.took(QUICK * 10, 0.0)
    assert writes.allows(100, 0.0)
    writes.took(SLOW, 1.0)
    assert not writes.allows(100, 1.0)
    assert not writes.allows(100, 1.999)
    assert writes.allows(100, 2.0)
    writes.took(SLOW, 2.01)
    assert not writes.allows(100, 2.02)
    assert writes.allows(100, 3.01)
    writes.took(QUICK, 3.01)
    assert writes.allows(100, 3.01)


def test_a_disk_that_hangs_has_a_hundredth_of_the_loops_time(writes: LoopWrites) -> None:
    """A write of half a second is followed by fifty without one."""
    writes.took(0.5, 10.0)
    assert not writes.allows(100, 59.9)
    assert writes.allows(100, 60.0)


def test_now_and_then_a_write_may_take_twice_as_long(writes: LoopWrites) -> None:
    for nth in range(1_000):
        writes.took(0.0012 if nth % 8 == 0 else QUICK, float(nth))
        assert writes.allows(100, float(nth))
