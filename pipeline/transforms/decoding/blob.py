"""Many messages as one row of bytes, read at many places at once.

Rule 1: a place is a number of bytes, counted from the first byte of the first message. Places up
        to the end of the last message may be read: PADDING stands behind it.
Rule 2: the bytes read at a place may already belong to the next message. The caller checks
        afterwards that the value ended before its message did.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distributary.pipeline.codec.amqp_codes import NULL, STRINGS, SYMBOLS

Positions: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.uint8]
Mask: TypeAlias = NDArray[np.bool_]
Array: TypeAlias = "pa.Array[Any]"

#: More than the widest read: a constructor, a size of four bytes and a number of eight.
PADDING = 16

ASCII_END = 128


def table(*codes: int) -> Mask:
    """A table of all constructors: true for those given."""
    found = np.zeros(256, np.bool_)
    found[list(codes)] = True
    return found


IS_SYMBOL = table(*SYMBOLS)
IS_TEXT = table(*STRINGS, *SYMBOLS)


@dataclass(frozen=True, slots=True)
class Values:
    """Values by their constructors, and where their bytes start and stop, in rising order.

    A value that is absent has the constructor NULL; its start and stop mean nothing.
    """

    codes: Codes
    starts: Positions
    stops: Positions

    def where(self, mask: Mask) -> "Values":
        return Values(self.codes[mask], self.starts[mask], self.stops[mask])


def no_values(count: int) -> Values:
    """So many absent values, to be filled in."""
    return Values(
        np.full(count, NULL, np.uint8), np.zeros(count, np.int64), np.zeros(count, np.int64)
    )


@dataclass(frozen=True, slots=True)
class Blob:
    """The bytes of `count` messages. `missing` are the messages without bytes in the log."""

    bytes: Codes
    starts: Positions
    stops: Positions
    missing: Mask

    @property
    def count(self) -> int:
        return len(self.starts)

    def at(self, places: Positions) -> Codes:
        return self.bytes.take(places)

    def numbers(self, places: Positions, form: str) -> NDArray[Any]:
        """Numbers of numpy's `form`, such as '>u4', that start at these places."""
        form_size = np.dtype(form).itemsize
        # One number for each byte, each overlapping the next, so a number may start at any byte.
        overlapping: NDArray[Any] = np.ndarray(
            (len(self.bytes) - form_size + 1,), form, cast("Any", self.bytes), 0, (1,)
        )
        return overlapping[places]

    def ranges(self, values: Values, which: Mask, kind: "pa.DataType") -> Array:
        """The bytes of the values in `which` as binaries or strings, null for all others.

        Strings aren't checked for UTF-8. The ranges must rise: they become the offsets of an array
        in which each second element is the gap between two of them.
        """
        count = int(np.count_nonzero(which))
        if not count:
            return cast("Array", pa.nulls(len(which), cast("Any", kind)))
        offsets = np.empty(2 * count, np.int32)
        offsets[0::2], offsets[1::2] = values.starts[which], values.stops[which]
        buffers = [None, pa.py_buffer(cast("Any", offsets)), pa.py_buffer(cast("Any", self.bytes))]
        with_gaps = cast("Any", pa.Array.from_buffers(kind, 2 * count - 1, buffers))
        places: Array = cast("Any", pa.array(np.arange(0, 2 * count, 2)))
        if count < len(which):
            indexes = np.zeros(len(which), np.int64)
            indexes[which] = np.arange(0, 2 * count, 2)
            places = cast("Any", pa.array(indexes, mask=~which))
        made: Array = with_gaps.take(places)
        return made

    def texts(self, values: Values) -> tuple[Array, Mask]:
        """The strings and symbols among the values, null for others; and a mask of faulty ones."""
        made = self.ranges(values, IS_TEXT.take(values.codes), pa.string())
        return made, faulty_texts(made, IS_SYMBOL.take(values.codes))


def blob_of(column: Array) -> Blob:
    """The messages of a binary column, whose array may be a slice of a larger one."""
    if column.type != pa.binary():
        column = column.cast(pa.binary())
    count = len(column)
    _, offsets_buffer, data = column.buffers()
    if not count or offsets_buffer is None:
        offsets = np.zeros(count + 1, np.int64)
    else:
        whole = np.frombuffer(cast("Any", offsets_buffer), np.int32)
        offsets = whole[column.offset : column.offset + count + 1].astype(np.int64)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    padded = np.zeros(size + PADDING, np.uint8)
    if data is not None and size:
        padded[:size] = np.frombuffer(cast("Any", data), np.uint8, size, first)
    missing = np.asarray(pc.is_null(column))
    return Blob(padded, offsets[:-1] - first, offsets[1:] - first, missing)


def faulty_texts(texts: Array, symbols: Mask) -> Mask:
    """A mask of the elements that aren't UTF-8, or, if they are symbols, aren't ASCII."""
    faulty = np.zeros(len(texts), np.bool_)
    if texts.null_count == len(texts):
        return faulty
    data = texts.buffers()[2]
    if (
        data is None
        or not len(data)
        or np.frombuffer(cast("Any", data), np.uint8).max() < ASCII_END
    ):
        return faulty  # ASCII is UTF-8
    if not symbols.any() and _is_sound(texts):
        return faulty
    for nth, text in enumerate(cast("Any", texts.view(pa.binary())).to_pylist()):
        faulty[nth] = text is not None and not _decodes(text, ascii_only=bool(symbols[nth]))
    return faulty


def _is_sound(texts: Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _decodes(text: bytes, *, ascii_only: bool) -> bool:
    try:
        text.decode("ascii" if ascii_only else "utf-8")
    except UnicodeDecodeError:
        return False
    return True
