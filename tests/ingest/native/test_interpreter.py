"""The interpreter's lock while C works: short calls keep it, long ones release it."""

import sys
import threading
from collections.abc import Iterator
from time import monotonic

import pytest

from distributary.ingest.native import pump

MESSAGE = bytes(4)
SECONDS_MAX = 30.0


class Other:
    """A thread that takes the interpreter as soon as it is let have it."""

    def __init__(self) -> None:
        self._waits = threading.Lock()
        self._waits.acquire()
        self.ran = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._waits:
            self.ran = True

    def wake(self) -> None:
        self._waits.release()

    def join(self) -> None:
        self._thread.join()


@pytest.fixture
def other() -> Iterator[Other]:
    """Another thread, which gets the interpreter only where a call releases it."""
    before = sys.getswitchinterval()
    one = Other()
    sys.setswitchinterval(2 * SECONDS_MAX)
    yield one
    sys.setswitchinterval(before)
    one.join()


def lay_out(count: int) -> None:
    pump.laid_out(MESSAGE * count, len(MESSAGE).to_bytes(4, sys.byteorder) * count, count)


def test_short_calls_keep_the_interpreter(other: Other) -> None:
    other.wake()
    for _ in range(10_000):
        lay_out(1)
    assert not other.ran


def test_long_calls_let_others_have_the_interpreter(other: Other) -> None:
    other.wake()
    until = monotonic() + SECONDS_MAX
    while not other.ran and monotonic() < until:
        lay_out(10_000)
    assert other.ran
