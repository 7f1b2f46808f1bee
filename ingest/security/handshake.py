"""The handshake before AMQP: the protocol headers and SASL (AMQP 1.0 part 5, section 3).

A machine without I/O: bytes in, `Step`s out. Proton never sees any of it, so that the check of a
password is ours, may be slow, and needs no Cyrus library.
"""

from collections.abc import Callable
from enum import Enum
from typing import TypeAlias

import msgspec

from distributary.ingest.security import sasl_frames as sasl
from distributary.ingest.security.sasl_frames import FRAME_BYTES_MAX, Init, Response
from distributary.ingest.security.saslprep import saslprep
from distributary.ingest.security.scram import ScramKeys, ScramServer
from distributary.ingest.security.users import ANONYMOUS

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"
#: Bytes that a peer may send ahead while its password is checked.
AHEAD_BYTES_MAX = 1 << 16


class Reply(msgspec.Struct, frozen=True):
    """Bytes to send to the peer."""

    data: bytes


class Verify(msgspec.Struct, frozen=True):
    """Check this password, then call `verified`; the handshake waits until then."""

    user: str
    password: str


class Established(msgspec.Struct, frozen=True):
    """The peer has logged in; AMQP follows. `rest`: the bytes that came after the handshake."""

    user: str
    rest: bytes


class Failed(msgspec.Struct, frozen=True):
    """Send `reply`, close the socket, tell the log `reason`."""

    reply: bytes
    reason: str


Step: TypeAlias = Reply | Verify | Established | Failed


class Offer(msgspec.Struct, frozen=True):
    """Ways in which one peer may log in (SASL: AMQP 1.0 part 5, section 5.3).

    With `check` a PLAIN password is verified by the caller; without it no password is checked, and
    the peer is anonymous. `keys` answers SCRAM-SHA-256, `certified` is the user that the peer's
    verified certificate names. A peer may leave SASL out where it may be anonymous. `accepted`
    mechanisms aren't offered, as ordinary clients can't use them; a peer may choose one unasked.
    """

    mechanisms: tuple[str, ...]
    check: bool = True
    keys: Callable[[str], ScramKeys] | None = None
    certified: str = ""
    accepted: tuple[str, ...] = ()

    @property
    def bare(self) -> bool:
        return "ANONYMOUS" in self.mechanisms


class _State(Enum):
    HEADER = "waiting for a protocol header"
    INIT = "waiting for sasl-init"
    VERIFYING = "a password is being checked"
    PROOF = "waiting for the client's proof of its password"
    NOD = "waiting for the client's answer to our proof"
    AMQP_HEADER = "waiting for AMQP's header"
    DONE = "done"


class Handshake:
    """One connection's way from the first byte to AMQP."""

    def __init__(self, offer: Offer) -> None:
        self._offer = offer
        self._state = _State.HEADER
        self._user = ANONYMOUS
        self._waiting = b""
        self._scram: ScramServer | None = None

    def feed(self, data: bytes) -> list[Step]:
        """Return the steps that these bytes lead to, in order."""
        self._waiting += data
        steps: list[Step] = []
        while (step := self._next()) is not None:
            steps.append(step)
        return steps

    def verified(self, ok: bool) -> list[Step]:
        """Take the answer to `Verify`; return the next steps."""
        if self._state is not _State.VERIFYING:
            return []
        return [self._outcome(ok), *self.feed(b"")] if ok else [self._outcome(ok)]

    def _next(self) -> Step | None:
        match self._state:
            case _State.HEADER | _State.AMQP_HEADER:
                return self._header()
            case _State.INIT | _State.PROOF | _State.NOD:
                return self._frame()
            case _State.VERIFYING if len(self._waiting) > AHEAD_BYTES_MAX:
                self._state = _State.DONE
                return Failed(sasl.outcome(ok=False), "the peer sent too much before the outcome")
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
            return Reply(SASL_HEADER + sasl.mechanisms(self._offer.mechanisms))
        self._state = _State.DONE
        if got == AMQP_HEADER and (self._offer.bare or not first):
            return Established(self._user, self._waiting)
        return Failed(SASL_HEADER, "the peer left SASL out, but it must log in")

    def _frame(self) -> Step | None:
        size = int.from_bytes(self._waiting[:4], "big")
        if len(self._waiting) < 4 or len(self._waiting) < size <= FRAME_BYTES_MAX:
            return None
        frame, self._waiting = self._waiting[:size], self._waiting[size:]
        try:
            match sasl.read(frame):
                case Init(mechanism, response) if self._state is _State.INIT:
                    return self._login(mechanism, response)
                case Response(response) if self._state is _State.PROOF:
                    return self._proved(response)
                case Response() if self._state is _State.NOD:
                    return self._outcome(True)
                case other:
                    name = type(other).__name__.lower()
                    raise ValueError(f"a sasl-{name} came while {self._state.value}")  # noqa: TRY301
        except ValueError as error:
            self._state = _State.DONE
            return Failed(sasl.outcome(ok=False), f"the login is broken: {error}")

    def _login(self, mechanism: str, response: bytes) -> Step:
        if mechanism not in (*self._offer.mechanisms, *self._offer.accepted):
            raise ValueError(f"mechanism {str(mechanism)!r} was not offered")
        match mechanism:
            case "SCRAM-SHA-256":
                return self._challenge(response)
            case "PLAIN":
                return self._plain(response)
            case "EXTERNAL":
                return self._external(response)
            case _:
                return self._outcome(True)

    def _challenge(self, message: bytes) -> Step:
        assert self._offer.keys is not None  # noqa: S101 (SCRAM is only offered with them)
        self._scram = ScramServer(self._offer.keys)
        answer = self._scram.first(message)
        self._user = self._scram.user
        self._state = _State.PROOF
        return Reply(sasl.challenge(answer))

    def _proved(self, message: bytes) -> Step:
        assert self._scram is not None  # noqa: S101 (made by the challenge)
        proof = self._scram.final(message)
        if proof is None:
            return self._outcome(False)
        self._state = _State.NOD
        return Reply(sasl.challenge(proof))

    def _plain(self, response: bytes) -> Step:
        act_as, user, password = response.decode().split("\0")
        self._act_as(act_as, user)
        if not self._offer.check:
            return self._outcome(True)
        self._user = saslprep(user)
        self._state = _State.VERIFYING
        return Verify(self._user, password)

    def _external(self, response: bytes) -> Step:
        self._act_as(response.decode(), self._offer.certified)
        self._user = self._offer.certified
        return self._outcome(True)

    def _act_as(self, other: str, user: str) -> None:
        if other not in ("", user):
            raise ValueError(f"{user!r} can't act as {other!r}")

    def _outcome(self, ok: bool) -> Step:
        self._state = _State.AMQP_HEADER if ok else _State.DONE
        reply = sasl.outcome(ok=ok)
        return Reply(reply) if ok else Failed(reply, f"wrong user or password for '{self._user}'")
