"""The properties and annotations of many messages: Arrow's maps of names to typed values."""

from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distributary.pipeline.codec.amqp_codes import (
    BINARIES,
    BOOLEAN,
    DECIMAL32,
    DECIMAL64,
    DECIMAL128,
    DOUBLE,
    FALSE,
    FLOAT,
    NUMBER_FORMS,
    TRUE,
    TYPE_NAMES,
    UINT0,
    ULONG,
    ULONG0,
)
from distributary.pipeline.transforms.decoding.blob import (
    Array,
    Blob,
    Mask,
    Values,
    table,
)
from distributary.pipeline.transforms.decoding.section_walk import Elements

#: Constructor -> numpy's form of its number: of the numbers in `double`, and of those in `long`.
FRACTIONS = {code: NUMBER_FORMS[code] for code in (FLOAT, DOUBLE)}
WHOLE_NUMBERS = {code: form for code, form in NUMBER_FORMS.items() if code not in FRACTIONS}

_IS_WHOLE = table(*WHOLE_NUMBERS, UINT0, ULONG0)
_IS_BOOLEAN = table(TRUE, FALSE, BOOLEAN)
_IS_BINARY = table(*BINARIES, DECIMAL32, DECIMAL64, DECIMAL128)
_NAMES = sorted(set(TYPE_NAMES.values()))
_NAME_INDEXES = np.zeros(256, np.int32)
for _code in TYPE_NAMES:
    _NAME_INDEXES[_code] = _NAMES.index(TYPE_NAMES[_code])


def whole_numbers(blob: Blob, values: Values) -> tuple[NDArray[np.int64], Mask]:
    """The whole numbers among the values, and a mask of them. A ulong beyond 63 bits is negative:
    the caller checks for it."""
    found = np.zeros(len(values.codes), np.int64)
    for code, which in _by_constructor(values, WHOLE_NUMBERS):
        numbers = blob.numbers(values.starts[which], WHOLE_NUMBERS[code])
        found[which] = numbers.astype(np.int64)
    return found, _IS_WHOLE.take(values.codes)


def no_booleans(blob: Blob, values: Values) -> Mask:
    """A mask of the booleans whose byte is neither 0 nor 1."""
    faulty: Mask = values.codes == BOOLEAN
    if faulty.any():
        faulty[faulty] = blob.at(values.starts[faulty]) > 1
    return faulty


def typed_maps(blob: Blob, found: Elements) -> tuple[Array, Mask]:
    """The column of such maps, and a mask of the messages that must be decoded one by one."""
    fallback = np.zeros(blob.count, np.bool_)
    owners, every = found.owners[0::2], found.values
    names, faulty = _names(
        blob, Values(every.codes[0::2], every.starts[0::2], every.stops[0::2]), owners
    )
    values = Values(every.codes[1::2], every.starts[1::2], every.stops[1::2])
    texts, no_texts = blob.texts(values)
    faulty |= no_texts | no_booleans(blob, values)
    longs, are_longs = whole_numbers(blob, values)
    faulty |= (values.codes == ULONG) & (longs < 0)
    fallback[owners[faulty]] = True
    offsets = np.zeros(blob.count + 1, np.int32)
    np.cumsum(np.bincount(owners, minlength=blob.count), out=offsets[1:])
    typed = _typed(blob, values, texts, longs, are_longs)
    return _maps(offsets, names, typed), fallback


def _names(blob: Blob, values: Values, owners: NDArray[np.int64]) -> tuple[Array, Mask]:
    """The names, and a mask of those that aren't text or stand twice in their message."""
    names, faulty = blob.texts(values)
    # Bytes that aren't text are harmless here: they are only compared.
    coded = cast("Any", names).dictionary_encode()
    keys = owners * len(coded.dictionary) + np.asarray(coded.indices)
    in_order = np.sort(keys)
    if (twice := in_order[1:][in_order[1:] == in_order[:-1]]).size:
        faulty |= np.isin(keys, twice)
    return names, faulty


def _typed(
    blob: Blob, values: Values, texts: Array, longs: NDArray[np.int64], are_longs: Mask
) -> Array:
    doubles, are_doubles = np.zeros(len(longs), np.float64), np.zeros(len(longs), np.bool_)
    for code, which in _by_constructor(values, FRACTIONS):
        with np.errstate(invalid="ignore"):  # NaN has many forms, and numpy warns of one of them
            doubles[which] = blob.numbers(values.starts[which], FRACTIONS[code])
        are_doubles |= which
    are_booleans = _IS_BOOLEAN.take(values.codes)
    booleans = values.codes == TRUE
    if (bytewise := values.codes == BOOLEAN).any():
        booleans[bytewise] = blob.at(values.starts[bytewise]) == 1
    types = pa.array(_NAMES).take(_NAME_INDEXES.take(values.codes))
    return pa.StructArray.from_arrays(
        [
            types,
            texts,
            pa.array(longs, mask=~are_longs),
            pa.array(doubles, mask=~are_doubles),
            pa.array(booleans, mask=~are_booleans),
            blob.ranges(values, _IS_BINARY.take(values.codes), pa.binary()),
        ],
        names=["type", "text", "long", "double", "boolean", "binary"],
    )


def _maps(offsets: NDArray[np.int32], names: Array, values: Array) -> Array:
    made: Array = pa.MapArray.from_arrays(
        cast("Any", pa.array(offsets)), cast("Any", names), values
    )
    return made


def _by_constructor(values: Values, forms: dict[int, str]) -> list[tuple[int, Mask]]:
    there = np.bincount(values.codes, minlength=256)
    return [(code, values.codes == code) for code in forms if there[code]]
