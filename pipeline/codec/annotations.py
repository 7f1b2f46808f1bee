"""The annotations of a message with their types."""

import struct

from distributary.pipeline.codec.amqp_types import (
    DECODE_LIMITS,
    DecodeBudget,
    DecodeError,
    DecodeLimits,
    read,
)
from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.codec.sections import Kind, Typed, typed_map, walk

#: The sections of annotations: maps whose keys are symbols, or numbers that AMQP reserves.
ANNOTATIONS = (Kind.DELIVERY_ANNOTATIONS, Kind.MESSAGE_ANNOTATIONS)


def annotations(data: Bytes, limits: DecodeLimits = DECODE_LIMITS) -> dict[Kind, dict[str, Typed]]:
    """Return the annotations by section and name; the sections behind them aren't read.

    A key that is a whole number becomes its digits. Keys of types other than numbers and texts
    aren't allowed by AMQP, and are left out. Raises DecodeError."""
    data = bytes(data)
    found: dict[Kind, dict[str, Typed]] = {kind: {} for kind in ANNOTATIONS}
    for section in walk(data):
        if section.kind > Kind.MESSAGE_ANNOTATIONS:
            break
        if section.kind in found:
            try:
                found[section.kind] = typed_map(
                    data, section, DecodeBudget(len(data), limits), _key
                )
            except (IndexError, struct.error, UnicodeDecodeError) as error:
                raise DecodeError(f"{section.kind.name} can't be read: {error}") from error
    return found


def _key(data: bytes, at: int, budget: DecodeBudget) -> tuple[str | None, int]:
    key, at = read(data, at, budget)
    known = isinstance(key, str | int) and not isinstance(key, bool)
    return (str(key) if known else None), at
