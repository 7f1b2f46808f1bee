"""AMQP values as bytes: lists and maps taken apart and put together, their elements as they lie
there.

What isn't read stays byte for byte what it was. Hostile bytes cost a DecodeError within `reading`.
"""

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from distributary.pipeline.codec.amqp_types import DecodeError, Value, closed, compound, read, skip

NULL = b"\x40"


def fields_of(data: bytes) -> tuple[bytes, ...]:
    """The fields of the list that `data` begins with, as they lie there."""
    if data[0] not in {0x45, 0xC0, 0xD0}:
        raise DecodeError(f"a list was expected, not a value of type 0x{data[0]:02x}")
    return () if data[0] == 0x45 else slices_of(data)


def pairs_of(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The keys of a map of fields, which are texts, and their values as they lie there; nothing for
    null."""
    if data == NULL:
        return
    if data[0] not in {0xC1, 0xD1}:
        raise DecodeError(f"a map was expected, not a value of type 0x{data[0]:02x}")
    slices = slices_of(data)
    for key, value in zip(slices[::2], slices[1::2], strict=True):
        name = value_of(key)
        if not isinstance(name, str):
            raise DecodeError("a key of a map of fields must be a symbol")
        yield name, value


def slices_of(data: bytes) -> tuple[bytes, ...]:
    """The elements of a list or map as they lie there."""
    at, stop, count = compound(data, 1, wide=bool(data[0] & 0x10))
    found = []
    for _ in range(count):
        end = skip(data, at)
        found.append(data[at:end])
        at = end
    closed(at, stop)
    return tuple(found)


def list_of(fields: Iterable[bytes]) -> bytes:
    """A list of these fields; nulls at the end are left out."""
    kept = list(fields)
    while kept and kept[-1] == NULL:
        kept.pop()
    content = b"".join(kept)
    if len(content) < 255 and len(kept) < 256:
        return b"\xc0" + bytes([len(content) + 1, len(kept)]) + content
    return b"\xd0" + struct.pack(">II", len(content) + 4, len(kept)) + content


def with_places(fields: tuple[bytes, ...], places: dict[int, bytes]) -> tuple[bytes, ...]:
    """The fields with others at these places; those that are missing before them are null."""
    size = max(len(fields), *(place + 1 for place in places))
    return tuple(places.get(i, field_at(fields, i)) for i in range(size))


def field_at(fields: tuple[bytes, ...], place: int) -> bytes:
    return fields[place] if place < len(fields) else NULL


def value_of(data: bytes) -> Value:
    return read(data, 0)[0]


def symbols_of(value: Value) -> frozenset[str]:
    """What a field of one or many symbols says."""
    if value is None:
        return frozenset()
    words = value if isinstance(value, list) else [value]
    if not all(isinstance(word, str) for word in words):
        raise DecodeError("capabilities must be symbols")
    return frozenset(map(str, words))


@contextmanager
def reading() -> Iterator[None]:
    """Whatever is wrong with the bytes is a DecodeError."""
    try:
        yield
    except (IndexError, ValueError, struct.error) as error:
        raise DecodeError(f"a performative can't be read: {error}") from None
