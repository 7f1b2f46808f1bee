"""Names for Arrow's and numpy's arrays as this room's signatures have them.

pyarrow's types are generic for the type checker only, so the two sides are named apart.
"""

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
