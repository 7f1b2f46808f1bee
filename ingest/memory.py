"""The C allocator, set so that memory which is free goes back to the system.

Slabs and Arrow buffers of half a megabyte and more come and go at the rate of the river. By default
glibc raises its threshold for mapping such blocks to 32 MiB and keeps them in arenas, full of holes:
100 MB more than is used, after a minute of publishing.
"""

import ctypes
import os

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
#: Bytes from which on a block is a mapping of its own, returned when it is freed.
MAPPED_FROM_BYTES = 1 << 19
#: Free bytes at the heap's end that are returned.
TRIMMED_FROM_BYTES = 1 << 20


def set_up() -> None:
    """To be called before pyarrow is imported; does nothing where the allocator isn't glibc's."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, MAPPED_FROM_BYTES)
        mallopt(_M_TRIM_THRESHOLD, TRIMMED_FROM_BYTES)
