"""Python's memory that a piece of work takes, in a process that has other threads, too."""

import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

#: Others run when the work waits for something, or has taken so long.
ALONE_SECONDS = 1.0


@dataclass
class Traced:
    """Bytes that were taken meanwhile: those that are there still, and the most that there were.
    Known at the end."""

    kept: int = 0
    peak: int = 0


@contextmanager
def traced() -> Iterator[Traced]:
    """Trace what is done in here: what other threads take isn't in it, for they wait meanwhile."""
    found, before = Traced(), sys.getswitchinterval()
    sys.setswitchinterval(ALONE_SECONDS)
    tracemalloc.start()
    try:
        yield found
        found.kept, found.peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        sys.setswitchinterval(before)
