"""What a gateway keeps small: the allocators' hoards, and what it imports.

The allocators are set so that memory which is free goes back to the system, but not at once.

Batches of a quarter of a megabyte and more come and go at the rate of the river. By default glibc
raises its threshold for mapping such blocks to 32 MiB and keeps them in arenas, full of holes, and
the jemalloc inside of deltalake keeps for ten seconds what a commit has freed. Arrow, on the other
hand, must not map its buffers anew for each page: reading cost four times as much when it did.

What libraries import only if it is there, a gateway is without (HIDDEN): it has no use for it.
Nothing here multiplies matrices: the threads that numpy's BLAS starts for that would spin for as
much of a processor as the rest of its import takes.
"""

import ctypes
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
#: Give back after 0.2 s, in two arenas: one thread commits, one reads.
DELTALAKE_ALLOCATOR = "dirty_decay_ms:200,muzzy_decay_ms:0,narenas:2"
#: Bytes from which on a block is a mapping of its own, returned when it is freed.
MAPPED_FROM_BYTES = 1 << 18
#: Heaps of glibc's: the loop's, and one for all threads.
ARENAS_MAX = 2
#: Free bytes at the heap's end that are returned.
TRIMMED_FROM_BYTES = 1 << 20


#: What is hidden: it counts as not installed.
HIDDEN: Final = frozenset(
    {
        # pyarrow imports it for the first list that it is given, where Spark's jobs brought it:
        # half a second, in which no peer is served, and 40 MB.
        "pandas",
        # Arrow's own way to object stores: ours goes by obstore. 5 MB.
        *("pyarrow._s3fs", "pyarrow._gcsfs", "pyarrow._azurefs", "pyarrow._hdfs"),
        # structlog's tracebacks in colours, for terminals: 8 MB.
        "rich",
    }
)


_C: Final = ctypes.CDLL(None)


class _Without:
    """Says of what is hidden that it isn't installed; all else is for the finders after it."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name in HIDDEN:
            raise ModuleNotFoundError(f"a gateway works without {name}", name=name)
        return None


def set_up() -> None:
    """To be called before numpy, pyarrow, deltalake and structlog are imported. Processes that are
    started later inherit the variables."""
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
    """Return the free pages of all heaps to the system, also those between what is in use: they are
    what a burst leaves behind. A millisecond for 10 MB."""
    trim = getattr(_C, "malloc_trim", None)
    if trim is not None:  # glibc
        trim(0)
