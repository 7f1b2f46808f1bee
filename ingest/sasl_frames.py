"""SASL's frames (AMQP 1.0 part 5, section 3): bytes to values and back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from proton import UNDESCRIBED, Array, Data, Described, ProtonException, symbol, ubyte, ulong

#: A SASL frame is 512 bytes at most by the specification; some clients send longer names.
FRAME_BYTES_MAX = 4_096

_MECHANISMS, _INIT, _CHALLENGE, _RESPONSE, _OUTCOME = 0x40, 0x41, 0x42, 0x43, 0x44
_NAMES = {
    _INIT: _INIT,
    "amqp:sasl-init:list": _INIT,
    _RESPONSE: _RESPONSE,
    "amqp:sasl-response:list": _RESPONSE,
}
_OK, _AUTH = 0, 1


@dataclass(frozen=True, slots=True)
class Init:
    """The peer has chosen a mechanism."""

    mechanism: str
    response: bytes


@dataclass(frozen=True, slots=True)
class Response:
    """The peer's answer to a challenge."""

    response: bytes


SaslFrame: TypeAlias = Init | Response


def mechanisms(names: Sequence[str]) -> bytes:
    array: Any = Array(UNDESCRIBED, Data.SYMBOL, *map(symbol, names))  # type: ignore[arg-type]
    return _frame(_MECHANISMS, [array])


def challenge(data: bytes) -> bytes:
    return _frame(_CHALLENGE, [data])


def outcome(*, ok: bool) -> bytes:
    return _frame(_OUTCOME, [ubyte(_OK if ok else _AUTH)])


def _frame(code: int, fields: list[Any]) -> bytes:
    data = Data()
    data.put_object(Described(ulong(code), fields))
    body = bytes(data.encode())
    return (8 + len(body)).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body


def read(frame: bytes) -> SaslFrame:
    """What a client may send; ValueError when it is anything else."""
    if not 8 < len(frame) <= FRAME_BYTES_MAX or frame[5] != 1 or frame[4] < 2:
        raise ValueError(f"not a SASL frame of {FRAME_BYTES_MAX} bytes at most")
    data = Data()
    try:
        data.decode(frame[4 * frame[4] :])
        data.rewind()
        data.next()
        body = data.get_object()
    except (ProtonException, RecursionError, TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None
    code, fields = _performative(body)
    if code == _RESPONSE:
        return Response(_binary(fields[0]))
    if not isinstance(fields[0], symbol):
        raise ValueError("the mechanism must be a symbol")  # noqa: TRY004
    return Init(fields[0], _binary(fields[1]) if len(fields) > 1 else b"")


def _performative(body: object) -> tuple[int, list[Any]]:
    if isinstance(body, Described) and isinstance(body.descriptor, int | str):
        code = _NAMES.get(body.descriptor)
        if code is not None and isinstance(body.value, list) and body.value:
            return code, body.value
    raise ValueError("neither a sasl-init nor a sasl-response")


def _binary(value: object) -> bytes:
    if not isinstance(value, memoryview | None):
        raise ValueError("a response must be binary")  # noqa: TRY004
    # Proton's binaries are views into memory that dies with the decoder: copy.
    return b"" if value is None else bytes(value)
