"""The compiled C library, for the modules of this room that wrap its functions.

It finds Proton's functions in Proton's own library, which must therefore be loaded first, with its
symbols global.
"""

import ctypes

import cproton_ffi

ctypes.CDLL(cproton_ffi.__file__, mode=ctypes.RTLD_GLOBAL)

from distributary.ingest.native._pump import ffi, lib  # noqa: E402 (needs Proton's symbols)

__all__ = ["ffi", "lib"]
