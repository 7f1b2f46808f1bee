"""SASL, the client's side (AMQP 1.0 part 5, section 3): bytes in, bytes out, no I/O.

Proton's own SASL needs Cyrus for SCRAM, which its wheels lack.
"""

import struct
from dataclasses import dataclass

from distributary.client.connection.client_errors import ClientError, ConnectionFailed, LoginRefused
from distributary.client.connection.server_url import Identity, Server
from distributary.ingest.security.scram_client import ScramClient
from distributary.pipeline.codec.amqp_codes import Descriptor, descriptor
from distributary.pipeline.codec.amqp_types import DecodeError, Described, Symbol, Value, read
from distributary.pipeline.codec.amqp_writer import write
from distributary.pipeline.codec.raw_values import list_of

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
SCRAM = "SCRAM-SHA-256"
#: First bytes of a TLS alert: the other side wanted a handshake.
_TLS_ALERT = b"\x15\x03"
#: Limit of a SASL frame; the specification allows 512 bytes.
_FRAME_BYTES_MAX = 4_096
_FRAME_HEADER = b"\x02\x01\x00\x00"


@dataclass(frozen=True, slots=True)
class Progress:
    """Bytes to send now, and, when the login is done, the received bytes behind it."""

    reply: bytes = b""
    done: bool = False
    rest: bytes = b""


class Login:
    """One login: call `begin`, then `feed` until it is done. Raises LoginRefused,
    ConnectionFailed."""

    def __init__(self, server: Server, iterations_max: int) -> None:
        self._server, self._iterations_max = server, iterations_max
        self._buffer = b""
        self._headed = False
        self._mechanism = ""
        self._scram: ScramClient | None = None

    def begin(self) -> bytes:
        """Return SASL's protocol header."""
        return SASL_HEADER

    def feed(self, data: bytes) -> Progress:
        """Process received bytes."""
        self._buffer += data
        if not self._headed:
            if self._buffer[:2] == _TLS_ALERT:
                raise ConnectionFailed(f"{self._server.url} speaks TLS: say amqps://")
            head = self._buffer[: len(SASL_HEADER)]
            if not SASL_HEADER.startswith(head):
                raise ConnectionFailed(f"the server at {self._server.url} doesn't speak AMQP 1.0 "
                                       "with a login (SASL)")  # fmt: skip
            if len(head) < len(SASL_HEADER):
                return Progress()
            self._headed, self._buffer = True, self._buffer[len(SASL_HEADER) :]
        reply = b""
        while (frame := self._frame()) is not None:
            answer = self._answer(*frame)
            if answer is None:
                return Progress(reply, done=True, rest=self._buffer)
            reply += answer
        return Progress(reply)

    def _frame(self) -> tuple[int, list[Value]] | None:
        """Take the next whole frame from the buffer: its descriptor and its fields."""
        buffer = self._buffer
        if len(buffer) < 8:
            return None
        size, begin = int.from_bytes(buffer[:4], "big"), 4 * buffer[4]
        if not 8 <= begin <= size <= _FRAME_BYTES_MAX:
            raise self._unread()
        if len(buffer) < size:
            return None
        self._buffer = buffer[size:]
        try:
            value, _ = read(buffer[:size], begin)
        except (IndexError, ValueError, struct.error, DecodeError):
            raise self._unread() from None
        if not isinstance(value, Described) or not isinstance(value.value, list):
            raise self._unread()
        codes = {one.symbol: int(one) for one in Descriptor}
        code = value.descriptor
        return codes.get(code, 0) if isinstance(code, str) else int(str(code)), value.value

    def _unread(self) -> ClientError:
        return ConnectionFailed(f"the login at {self._server.url} can't be read")

    def _answer(self, code: int, fields: list[Value]) -> bytes | None:
        """Return the answer to a frame; None when the login is done."""
        first = fields[0] if fields else None
        match code:
            case Descriptor.SASL_MECHANISMS:
                offered = first if isinstance(first, list) else [first]
                return self._init([str(one) for one in offered if one])
            case Descriptor.SASL_CHALLENGE:
                return self._respond(first if isinstance(first, bytes) else b"")
            case Descriptor.SASL_OUTCOME if first == 0:
                extra = fields[1] if len(fields) > 1 else None
                if self._scram is not None and isinstance(extra, bytes):
                    self._verify(extra)
                if self._scram is not None:
                    raise LoginRefused(f"{self._server.url} didn't show that it knows the user")
                return None
            case Descriptor.SASL_OUTCOME:
                raise LoginRefused(self._no())
        raise self._unread()

    def _no(self) -> str:
        user = self._server.identity.user
        if user:
            return f"{self._server.url} doesn't let user '{user}' in: wrong user or password"
        if self._mechanism == "EXTERNAL":
            return f"{self._server.url} doesn't let the certificate's user in"
        return f"{self._server.url} needs a user"

    def _init(self, offered: list[str]) -> bytes:
        identity = self._server.identity
        wanted = _wanted(identity)
        offers = next((one for one in wanted if one in offered), "")
        self._mechanism = identity.mechanism or offers
        match self._mechanism:
            case "SCRAM-SHA-256":
                self._scram = ScramClient(identity.user, identity.password, self._iterations_max)
                response = self._scram.first()
            case "PLAIN":
                response = f"\0{identity.user}\0{identity.password}".encode()
            case "EXTERNAL":
                response = b""
            case "ANONYMOUS":
                response = b"anonymous"
            case _:
                ways = ", ".join(offered) or "none"
                raise LoginRefused(
                    f"{self._server.url} offers the logins {ways}, and "
                    + ("a user needs" if identity.user else "a login without a user needs")
                    + f" {' or '.join(wanted)}"
                    + ("" if self._server.tls else " (some are offered with TLS alone: amqps://)")
                )
        named = [write(Symbol(self._mechanism)), write(response), write(self._server.host)]
        return _frame_of(Descriptor.SASL_INIT, list_of(named))

    def _respond(self, challenge: bytes) -> bytes:
        response = b""
        try:
            if self._scram is not None and challenge.startswith(b"v="):
                self._verify(challenge)
            elif self._scram is not None:
                response = self._scram.final(challenge)
        except ValueError as error:
            raise LoginRefused(f"the login at {self._server.url} failed: {error}") from None
        return _frame_of(Descriptor.SASL_RESPONSE, list_of([write(response)]))

    def _verify(self, last: bytes) -> None:
        assert self._scram is not None  # noqa: S101
        try:
            self._scram.verify(last)
        except ValueError as error:
            raise LoginRefused(f"the login at {self._server.url} failed: {error}") from None
        self._scram = None


def _wanted(identity: Identity) -> tuple[str, ...]:
    if identity.user:
        return (SCRAM, "PLAIN")
    return ("EXTERNAL",) if identity.certified else ("ANONYMOUS",)


def _frame_of(code: Descriptor, fields: bytes) -> bytes:
    body = descriptor(code) + fields
    return (8 + len(body)).to_bytes(4, "big") + _FRAME_HEADER + body
