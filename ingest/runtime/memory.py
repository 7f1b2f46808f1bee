"""Limits of a gateway's memory: settings of the allocators, and modules that it doesn't import.

The allocators are set so that free memory goes back to the system, but not at once.

Batches of a quarter of a megabyte and more are allocated and freed at a high rate. By default glibc
raises its threshold for mapping such blocks to 32 MiB and keeps them in fragmented arenas, and the
jemalloc inside of deltalake keeps memory that a commit has freed for ten seconds. Arrow, on the
other hand, must not map its buffers anew for each page: then reading cost four times as much.

Modules that libraries import only if they are installed are hidden from a gateway (HIDDEN): it
doesn't use them. It multiplies no matrices either: the threads that numpy's BLAS starts for that
would spin for as much of a processor as the rest of its import takes.
"""

import ctypes
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
#: Give free memory back after 0.2 s, in two arenas: one thread commits, one reads.
DELTALAKE_ALLOCATOR = "dirty_decay_ms:200,muzzy_decay_ms:0,narenas:2"
#: Least bytes of a block that is a mapping of its own, returned when it is freed.
MAPPED_FROM_BYTES = 1 << 18
#: Arenas of glibc: the loop's, and one for all threads.
ARENAS_MAX = 2
#: Least free bytes at the heap's end that are returned.
TRIMMED_FROM_BYTES = 1 << 20


#: Hidden modules: they count as not installed.
HIDDEN: Final = frozenset(
    {
        # pyarrow imports it for the first list that it gets, if Spark's jobs have installed it:
        # half a second, in which no peer is served, and 40 MB.
        "pandas",
        # Arrow's own clients of object stores: we use obstore. 5 MB.
        *("pyarrow._s3fs", "pyarrow._gcsfs", "pyarrow._azurefs", "pyarrow._hdfs"),
        # structlog's tracebacks in colours, for terminals: 8 MB.
        "rich",
    }
)


_C: Final = ctypes.CDLL(None)


class _Without:
    """A finder that reports hidden modules as not installed; later finders handle all others."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in HIDDEN:
            raise ModuleNotFoundError(f"a gateway works without {name}", name=name)
        return None


def set_up() -> None:
    """Set the limits. Call this before numpy, pyarrow, deltalake and structlog are imported.
    Processes that are started later inherit the environment variables."""
    sys.meta_path.insert(0, _Without)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc")
    os.environ.setdefault("_RJEM_MALLOC_CONF", DELTALAKE_ALLOCATOR)
    mallopt = getattr(_C, "mallopt", None)
    if mallopt is not None:  # glibc
        mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES)
        mallopt(_M_ARENA_MAX, ARENAS_MAX)
        mallopt(_M_TRIM_THRESHOLD, TRIMMED_FROM_BYTES)


def give_back() -> None:
    """Return the free pages of all heaps to the system, also those between used ones, which a burst
    leaves behind. It takes a millisecond for 10 MB."""
    trim = getattr(_C, "malloc_trim", None)
    if trim is not None:  # glibc
        trim(0)
