"""SASL's frames (AMQP 1.0 part 5, section 3): bytes to values and back."""

import struct
from collections.abc import Sequence
from typing import Any, TypeAlias

import msgspec
from proton import UNDESCRIBED, Array, Data, Described, symbol, ubyte, ulong

from distributary.pipeline.codec import amqp_types as amqp
from distributary.pipeline.codec.amqp_codes import (
    BINARIES,
    DESCRIBED,
    LIST32,
    LISTS,
    NULL,
    SMALLULONG,
    SYMBOLS,
    ULONG,
    Descriptor,
)
from distributary.pipeline.codec.amqp_types import DecodeError, Symbol, Value

#: A SASL frame is 512 bytes at most by the specification; some clients send longer names.
FRAME_BYTES_MAX = 4_096

_INIT, _RESPONSE = Descriptor.SASL_INIT, Descriptor.SASL_RESPONSE
_NAMES: dict[int | str, Descriptor] = {
    name: one for one in (_INIT, _RESPONSE) for name in (int(one), one.symbol)
}
_OK, _AUTH = 0, 1

#: Constructors of a descriptor: ulong in its short and its long form, symbol in two lengths.
_DESCRIPTORS = frozenset({SMALLULONG, ULONG, *SYMBOLS})
#: Constructors of the fields that are read: null, binary and symbol.
_SIMPLE = frozenset({NULL, *BINARIES, *SYMBOLS})
_STRANGE = False
_FIELDS_NEEDED = 2


class Init(msgspec.Struct, frozen=True):
    """The peer has chosen a mechanism."""

    mechanism: str
    response: bytes


class Response(msgspec.Struct, frozen=True):
    """The peer's answer to a challenge."""

    response: bytes


SaslFrame: TypeAlias = Init | Response


def mechanisms(names: Sequence[str]) -> bytes:
    array: Any = Array(UNDESCRIBED, Data.SYMBOL, *map(symbol, names))  # type: ignore[arg-type]
    return _frame(Descriptor.SASL_MECHANISMS, [array])


def challenge(data: bytes) -> bytes:
    return _frame(Descriptor.SASL_CHALLENGE, [data])


def outcome(*, ok: bool) -> bytes:
    return _frame(Descriptor.SASL_OUTCOME, [ubyte(_OK if ok else _AUTH)])


def _frame(code: int, fields: list[Any]) -> bytes:
    data = Data()
    data.put_object(Described(ulong(code), fields))
    body = bytes(data.encode())
    return (8 + len(body)).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body


def read(frame: bytes) -> SaslFrame:
    """Return a client's SASL frame. Raises ValueError when it isn't one. Fields that aren't needed
    are skipped: the client hasn't logged in yet, and its fields must cost no more than their
    length."""
    if not 8 < len(frame) <= FRAME_BYTES_MAX or frame[5] != 1 or frame[4] < 2:
        raise ValueError(f"not a SASL frame of {FRAME_BYTES_MAX} bytes at most")
    try:
        code, fields = _performative(frame, 4 * frame[4])
    except (DecodeError, IndexError, struct.error) as error:
        raise ValueError(f"it can't be read: {error}") from None
    if code is None or not fields:
        raise ValueError("neither a sasl-init nor a sasl-response")
    if code == _RESPONSE:
        return Response(_binary(fields[0]))
    if not isinstance(fields[0], Symbol):
        raise ValueError("the mechanism must be a symbol")  # noqa: TRY004
    return Init(fields[0], _binary(fields[1]) if len(fields) > 1 else b"")


def _performative(data: bytes, at: int) -> tuple[int | None, list[Value]]:
    """Return the performative's code, None for an unknown one, and the first fields."""
    if data[at] != DESCRIBED or data[at + 1] not in _DESCRIPTORS:
        return None, []
    descriptor, at = amqp.read(data, at + 1)
    if data[at] not in LISTS:
        return None, []
    at, stop, count = amqp.compound(data, at + 1, wide=data[at] == LIST32)
    fields: list[Value] = []
    for _ in range(count):
        end = amqp.skip(data, at)
        if len(fields) < _FIELDS_NEEDED:
            fields.append(amqp.read(data, at)[0] if data[at] in _SIMPLE else _STRANGE)
        at = end
    amqp.closed(at, stop)
    amqp.closed(at, len(data))
    return _NAMES.get(descriptor) if isinstance(descriptor, int | str) else None, fields


def _binary(value: Value) -> bytes:
    if not isinstance(value, bytes | None):
        raise ValueError("a response must be binary")  # noqa: TRY004
    return value or b""
