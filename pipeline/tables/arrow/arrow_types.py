"""Names for Arrow's and numpy's arrays in this room's signatures, and how Arrow starts.

pyarrow's types are generic for the type checker only, so the two sides are named apart.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64s: TypeAlias = npt.NDArray[np.int64]
Int32s: TypeAlias = npt.NDArray[np.int32]

if TYPE_CHECKING:
    #: An Arrow array or column of any type: the schema says which.
    Arrow: TypeAlias = pa.Array[Any]
    Chunked: TypeAlias = pa.ChunkedArray[Any]
    Field: TypeAlias = pa.Field[Any]
else:
    Arrow, Chunked, Field = pa.Array, pa.ChunkedArray, pa.Field


class _NoPandas(MetaPathFinder):
    """An import finder that reports pandas as not installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname, name=fullname)
        return None


def without_pandas() -> None:
    """Keep pyarrow from using pandas in this process.

    pyarrow imports an installed pandas when it sees its first Python list: half a second in which
    no other thread runs, and 50 MB. It tries once; no code here needs pandas' types.
    """
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(finder)
