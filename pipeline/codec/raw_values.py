"""AMQP values as bytes: lists and maps taken apart and put together, with their elements encoded.

Elements that aren't read stay unchanged, byte for byte. Hostile bytes cost a DecodeError within
`reading`.
"""

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from distributary.pipeline.codec import amqp_codes as codes
from distributary.pipeline.codec.amqp_types import DecodeError, Value, closed, compound, read, skip
from distributary.pipeline.codec.amqp_writer import compound as compound_of

NULL = bytes((codes.NULL,))
TRUE, FALSE = bytes((codes.TRUE,)), bytes((codes.FALSE,))


def fields_of(data: bytes) -> tuple[bytes, ...]:
    """Return the encoded fields of the list at the beginning of `data`."""
    if data[0] != codes.LIST0 and data[0] not in codes.LISTS:
        raise DecodeError(f"a list was expected, not a value of type 0x{data[0]:02x}")
    return () if data[0] == codes.LIST0 else slices_of(data)


def pairs_of(data: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the keys of a map of fields, which are texts, with their encoded values; nothing for
    null."""
    if data == NULL:
        return
    if data[0] not in codes.MAPS:
        raise DecodeError(f"a map was expected, not a value of type 0x{data[0]:02x}")
    slices = slices_of(data)
    for key, value in zip(slices[::2], slices[1::2], strict=True):
        name = value_of(key)
        if not isinstance(name, str):
            raise DecodeError("a key of a map of fields must be a symbol")
        yield name, value


def slices_of(data: bytes) -> tuple[bytes, ...]:
    """Return the encoded elements of a list or map."""
    at, stop, count = compound(data, 1, wide=codes.SIZE_BYTES[data[0]] > 1)
    found = []
    for _ in range(count):
        end = skip(data, at)
        found.append(data[at:end])
        at = end
    closed(at, stop)
    return tuple(found)


def list_of(fields: Iterable[bytes]) -> bytes:
    """Return a list of these fields; nulls at the end are left out."""
    kept = list(fields)
    while kept and kept[-1] == NULL:
        kept.pop()
    return compound_of(codes.LISTS, kept)


def with_places(fields: tuple[bytes, ...], places: dict[int, bytes]) -> tuple[bytes, ...]:
    """Return the fields with others at these places; missing fields before them become null."""
    size = max(len(fields), *(place + 1 for place in places))
    return tuple(places.get(i, field_at(fields, i)) for i in range(size))


def field_at(fields: tuple[bytes, ...], place: int) -> bytes:
    return fields[place] if place < len(fields) else NULL


def uint_of(value: int) -> bytes:
    """Return an encoded uint."""
    return bytes((codes.UINT,)) + value.to_bytes(4, "big")


def value_of(data: bytes) -> Value:
    return read(data, 0)[0]


def symbols_of(value: Value) -> frozenset[str]:
    """Return the symbols of a field with one or many of them."""
    if value is None:
        return frozenset()
    words = value if isinstance(value, list) else [value]
    if not all(isinstance(word, str) for word in words):
        raise DecodeError("capabilities must be symbols")
    return frozenset(map(str, words))


@contextmanager
def reading() -> Iterator[None]:
    """Raise every error of malformed bytes as a DecodeError."""
    try:
        yield
    except (IndexError, ValueError, struct.error) as error:
        raise DecodeError(f"a performative can't be read: {error}") from None
