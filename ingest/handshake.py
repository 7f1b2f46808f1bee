"""What is said before AMQP itself: the protocol headers and SASL (AMQP 1.0 part 5, section 3).

A machine without I/O: bytes in, `Step`s out. Proton never sees any of it, so that the check of a
password is ours, may be slow, and needs no Cyrus library.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from proton import UNDESCRIBED, Array, Data, Described, ProtonException, symbol, ubyte, ulong

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
#: A SASL frame is 512 bytes at most by the specification; some clients send longer names.
FRAME_BYTES_MAX = 4_096

_MECHANISMS, _INIT, _OUTCOME = 0x40, 0x41, 0x44
_OK, _AUTH = 0, 1


@dataclass(frozen=True, slots=True)
class Reply:
    """Bytes to send to the peer."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Verify:
    """Check this password, then call `verified`; the handshake waits until then."""

    user: str
    password: str


@dataclass(frozen=True, slots=True)
class Established:
    """The peer is who it says; from here on AMQP speaks. `rest` is what came behind."""

    user: str
    rest: bytes


@dataclass(frozen=True, slots=True)
class Failed:
    """Send `reply`, close the socket, tell the log `reason`."""

    reply: bytes
    reason: str


Step: TypeAlias = Reply | Verify | Established | Failed


class _State(Enum):
    HEADER = "waiting for a protocol header"
    INIT = "waiting for sasl-init"
    VERIFYING = "a password is being checked"
    AMQP_HEADER = "waiting for AMQP's header"
    DONE = "done"


class Handshake:
    """One connection's way from the first byte to AMQP.

    `mechanisms` are those offered. `bare` says whether a peer may leave SASL out. With `check` a
    PLAIN password is verified by the caller, otherwise it is as good as ANONYMOUS.
    """

    def __init__(self, mechanisms: tuple[str, ...], *, bare: bool, check: bool) -> None:
        self._mechanisms, self._bare, self._check = mechanisms, bare, check
        self._state = _State.HEADER
        self._user = "anonymous"
        self._waiting = b""

    def feed(self, data: bytes) -> list[Step]:
        """The steps that these bytes lead to, in order."""
        self._waiting += data
        steps: list[Step] = []
        while (step := self._next()) is not None:
            steps.append(step)
        return steps

    def verified(self, ok: bool) -> list[Step]:
        """The answer to `Verify`."""
        return [self._outcome(ok), *self.feed(b"")] if ok else [self._outcome(ok)]

    def _next(self) -> Step | None:
        match self._state:
            case _State.HEADER | _State.AMQP_HEADER:
                return self._header()
            case _State.INIT:
                return self._init()
            case _State.VERIFYING | _State.DONE:
                return None

    def _header(self) -> Step | None:
        got = self._waiting[:8]
        fits = AMQP_HEADER.startswith(got) or SASL_HEADER.startswith(got)
        if not fits:
            self._state = _State.DONE
            return Failed(SASL_HEADER, f"not AMQP 1.0: the first bytes are {got!r}")
        if len(got) < 8:
            return None
        first = self._state is _State.HEADER
        if got == SASL_HEADER and first:
            self._waiting = self._waiting[8:]
            self._state = _State.INIT
            names: Any = Array(UNDESCRIBED, Data.SYMBOL, *map(symbol, self._mechanisms))  # type: ignore[arg-type]
            return Reply(SASL_HEADER + _frame(_MECHANISMS, [names]))
        self._state = _State.DONE
        if got == AMQP_HEADER and (self._bare or not first):
            return Established(self._user, self._waiting)
        return Failed(SASL_HEADER, "the peer left SASL out, but it must log in")

    def _init(self) -> Step | None:
        size = int.from_bytes(self._waiting[:4], "big")
        if len(self._waiting) < 4 or len(self._waiting) < size <= FRAME_BYTES_MAX:
            return None
        frame, self._waiting = self._waiting[:size], self._waiting[size:]
        try:
            mechanism, response = _read_init(frame)
            return self._login(mechanism, response)
        except ValueError as error:
            self._state = _State.DONE
            return Failed(_frame(_OUTCOME, [ubyte(_AUTH)]), f"sasl-init is broken: {error}")

    def _login(self, mechanism: str, response: bytes) -> Step:
        if mechanism not in self._mechanisms:
            raise ValueError(f"mechanism {mechanism} was not offered")
        if mechanism == "ANONYMOUS":
            return self._outcome(True)
        _, user, password = response.decode().split("\0")
        self._user = user
        if not self._check:
            return self._outcome(True)
        self._state = _State.VERIFYING
        return Verify(user, password)

    def _outcome(self, ok: bool) -> Step:
        self._state = _State.AMQP_HEADER if ok else _State.DONE
        reply = _frame(_OUTCOME, [ubyte(_OK if ok else _AUTH)])
        return Reply(reply) if ok else Failed(reply, f"wrong user or password for '{self._user}'")


def _frame(code: int, fields: list[Any]) -> bytes:
    data = Data()
    data.put_object(Described(ulong(code), fields))
    body = bytes(data.encode())
    return (8 + len(body)).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body


def _read_init(frame: bytes) -> tuple[str, bytes]:
    """Mechanism and initial response; ValueError when it is not a sasl-init."""
    if not 8 < len(frame) <= FRAME_BYTES_MAX or frame[5] != 1 or frame[4] < 2:
        raise ValueError("not a SASL frame")
    data = Data()
    try:
        data.decode(frame[4 * frame[4] :])
        data.rewind()
        data.next()
        body = data.get_object()
    except (ProtonException, RecursionError, TypeError, OverflowError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(body, Described) or body.descriptor not in (_INIT, "amqp:sasl-init:list"):
        raise ValueError("not a sasl-init")
    mechanism, *more = _list(body.value)
    response = more[0] if more else None
    if not isinstance(mechanism, symbol) or not isinstance(response, memoryview | None):
        raise ValueError("its mechanism must be a symbol, its response binary")  # noqa: TRY004
    # Proton's binaries are views into memory that dies with `data`: copy.
    return mechanism, b"" if response is None else bytes(response)


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ValueError("its fields are no list")
    return value
