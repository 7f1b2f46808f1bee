"""Destinations that messages name themselves: their addresses, and the keys of their partitions."""

from array import array

from distributary.ingest.native import pump
from distributary.ingest.native.pump_library import ffi, lib
from distributary.ingest.native.runs import Received


def addresses(received: Received) -> list[tuple[str, int]]:
    """Return the address of each message, empty where it names none, and its kind as in
    `pump.destinations`."""
    offsets = array("i", bytes(pump.offsets(received.lengths, received.count)))
    at, size = array("I", received.to_at), array("I", received.to_size)
    blob = received.blob
    texts = (
        _text(blob[start + at[i] : start + at[i] + size[i]]) for i, start in enumerate(offsets[:-1])
    )
    return list(zip(texts, pump.destinations(received), strict=True))


def _text(address: bytes) -> str:
    """Return the address; "" if it isn't UTF-8, as it names no topic either way."""
    try:
        return address.decode()
    except UnicodeDecodeError:
        return ""


def keys(received: Received) -> "array[int]":
    """Return the key of each message for its partition: the hash of its group-id, else of its id
    for duplicates, else 0."""
    found = array("Q", bytes(8 * received.count))
    lib.pump_keys(
        ffi.from_buffer(received.blob),
        ffi.from_buffer("int32_t[]", pump.offsets(received.lengths, received.count)),
        ffi.from_buffer("uint32_t[]", received.id_at),
        ffi.from_buffer("uint32_t[]", received.id_size),
        received.count,
        ffi.from_buffer("uint64_t[]", found),
    )
    return found
