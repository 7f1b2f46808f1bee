"""What is compiled (`message.c`, `values.c`, `pump.c`, `walk.c`), for the modules that give it a
face.

It finds Proton's functions in Proton's own library, which must therefore be loaded first, with its
symbols global.
"""

import ctypes
from typing import Any

import cproton_ffi
from cproton import ffi as proton_ffi

_proton = ctypes.CDLL(cproton_ffi.__file__, mode=ctypes.RTLD_GLOBAL)
_proton.pn_data_size.argtypes = [ctypes.c_void_p]
_proton.pn_data_size.restype = ctypes.c_size_t

from ingest._pump import ffi, lib  # noqa: E402 (needs Proton's symbols)

__all__ = ["ffi", "lib", "values_in"]


def values_in(data: Any) -> int:
    """How many values one of Proton's `pn_data_t` holds, those inside of others too."""
    return int(_proton.pn_data_size(int(proton_ffi.cast("uintptr_t", data))))
