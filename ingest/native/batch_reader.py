"""Values of messages under the names that selectors use, many messages at a time (`values.c`).

The values are those of `pipeline.selector.reading.Reader`, for all valid and broken bytes.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, cast

import msgspec

from distributary.ingest.native.pump_library import ffi, lib
from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.selector.reading import (
    ELEMENTS_MAX,
    FIELDS,
    Become,
    Columns,
    field_of,
    field_value,
    name_bytes,
    property_value,
)

#: Most messages that one call of C reads; the room for their values is kept.
READ_MAX = 64

_UNSAID, _INTEGER, _TEXT, _OTHER = (
    lib.VALUE_UNSAID,
    lib.VALUE_INTEGER,
    lib.VALUE_TEXT,
    lib.VALUE_OTHER,
)
#: Kinds that stand for one value.
_SAME = {lib.VALUE_ABSENT: None, lib.VALUE_TRUE: True, lib.VALUE_FALSE: False}

#: Reads a value from its bytes.
_Read = Callable[[bytes], object]


class BatchReader:
    """Reads the values of some names out of batches. Make one, and use it for many messages."""

    __slots__ = ("_kept", "_kinds", "_names", "_others", "_values", "_wanted")

    def __init__(self, names: Iterable[str]) -> None:
        fields, properties = [], []
        for name in names:
            if name in FIELDS:
                fields.append((*field_of(name), name))
            else:
                properties.append((name_bytes(name), name))
        fields.sort(key=lambda field: field[:2])
        properties.sort(key=lambda one: (len(one[0]), one[0]))
        self._names = [field[-1] for field in fields] + [name for _, name in properties]
        #: By name: the reader of values that C leaves to Python, and the value of a missing field.
        self._others: list[tuple[_Read, object]] = [
            (partial(_field, section, types, become), become(None))
            for section, _, types, become, _ in fields
        ] + [(_property, None)] * len(properties)
        offsets = [0]
        for encoded, _ in properties:
            offsets.append(offsets[-1] + len(encoded))
        places = bytes(part for section, at, *_ in fields for part in (section, at))
        self._kept = (
            ffi.new("uint8_t[]", places or b"\0"),
            ffi.new("char[]", b"".join(encoded for encoded, _ in properties)),
            ffi.new("uint32_t[]", offsets),
        )
        self._wanted: Any = ffi.new("wanted_t *", (len(fields), len(properties), *self._kept))
        self._kinds = bytearray(READ_MAX * len(self._names))
        self._values = bytearray(8 * READ_MAX * len(self._names))

    def columns(self, batch: RecordBatch, first: int, stop: int) -> tuple[Columns, int]:
        """Return the values of all its names in the batch's messages with these indices, and the
        number of bytes that were read for that."""
        assert 0 <= first <= stop <= batch.count  # noqa: S101
        found: dict[str, list[object]] = {name: [] for name in self._names}
        looked = 0
        for begin in range(first, stop, READ_MAX):
            looked += self._read(batch, begin, min(stop - begin, READ_MAX), found)
        return found, looked

    def _read(
        self, batch: RecordBatch, first: int, count: int, found: dict[str, list[object]]
    ) -> int:
        looked = lib.pump_values(
            self._wanted,
            ffi.from_buffer(batch.blob),
            ffi.from_buffer("int32_t[]", batch.offsets) + first,
            count,
            ELEMENTS_MAX,
            ffi.from_buffer("uint8_t[]", self._kinds),
            ffi.from_buffer("int64_t[]", self._values),
        )
        values = memoryview(self._values)
        numbers, places, at = values.cast("q"), values.cast("i"), 0
        for name, (read, unsaid) in zip(self._names, self._others, strict=True):
            cells = _Cells(
                batch.blob,
                bytes(self._kinds[at : at + count]),
                numbers[at : at + count],
                places[2 * at : 2 * (at + count)],
            )
            found[name] += cells.values(read, unsaid)
            at += count
        return int(looked)


class _Cells(msgspec.Struct, frozen=True, eq=False):
    """The results of `pump_values` for one name: a kind and a number or two places per message."""

    blob: Bytes
    kinds: bytes
    numbers: "memoryview[int]"
    places: "memoryview[int]"

    def values(self, read: _Read, unsaid: object) -> list[object]:
        kinds, blob = self.kinds, self.blob
        alike = kinds.count(kinds[0]) == len(kinds)
        if alike and kinds[0] == _INTEGER:
            return cast("list[object]", self.numbers.tolist())
        if alike and kinds[0] == _TEXT:
            try:
                pairs = zip(self.places[::2].tolist(), self.places[1::2].tolist(), strict=True)
                return [str(blob[start:stop], "utf-8") for start, stop in pairs]
            except UnicodeDecodeError:
                pass  # one text isn't UTF-8: read each by itself
        return [self._value(at, read, unsaid) for at in range(len(kinds))]

    def _value(self, at: int, read: _Read, unsaid: object) -> object:
        kind = self.kinds[at]
        if kind in _SAME:
            return _SAME[kind]
        if kind == _UNSAID:
            return unsaid
        if kind == _INTEGER:
            return self.numbers[at]
        start, stop = self.places[2 * at : 2 * at + 2]
        data = bytes(self.blob[start:stop])
        if kind == _OTHER:
            return read(data)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return None


def _field(section: int, types: frozenset[str], become: Become, data: bytes) -> object:
    return field_value(data, 0, section, types, become)


def _property(data: bytes) -> object:
    return property_value(data, 0, len(data))
