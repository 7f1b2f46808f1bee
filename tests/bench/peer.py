"""A connection of a load client: opened with patience, then driven without blocking.

Everything up to the attach is a dialogue with a time limit for each answer; after `attach` the
socket is non-blocking, and `pending` holds what came too early.
"""

import contextlib
import socket
import uuid
from collections import deque
from dataclasses import dataclass

from tests.bench import frames

#: How long a server may take for one step of opening a connection, in seconds.
ANSWER_SECONDS_MAX = 15.0
#: The kernel's buffers of one connection, in bytes: enough that the client never waits for them.
SOCKET_BYTES = 1 << 20


class LoadError(Exception):
    """The server did not do what the load needs; the message says what came instead."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address at which the server listens, and the client's login."""

    host: str
    port: int
    user: str | None = None
    password: str | None = None


class Peer:
    """One connection with one session and one link."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.container = f"bench-{uuid.uuid4().hex[:12]}"
        self.pending = bytearray()
        self._frames: deque[frames.Frame] = deque()
        address = (endpoint.host, endpoint.port)
        self.socket = socket.create_connection(address, ANSWER_SECONDS_MAX)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
        self._authenticate(endpoint)
        self._send(frames.AMQP_HEADER)
        self._send(frames.open_connection(self.container, endpoint.host) + frames.begin())
        self._expect_header(frames.AMQP_HEADER)
        self._expect(frames.OPEN)
        #: How many transfers the session takes before its first flow says so anew.
        self.window = frames.number(self._expect(frames.BEGIN)[2]) or 0

    def attach(self, attach: bytes) -> list[object]:
        """Attach the link, and give the fields of the answer; a refusal is an error with the
        server's words."""
        self._send(attach)
        fields = self._expect(frames.ATTACH)
        terminus = 6 if fields[2] else 5  # a receiver's own terminus is its target
        if fields[terminus] is None:
            raise LoadError(f"link refused: {frames.error_text(self._expect(frames.DETACH))}")
        return fields

    def attach_without_blocking(self, attach: bytes) -> None:
        """As `attach`; from now on the socket never blocks."""
        self.attach(attach)
        self.pending[:0] = b"".join(frame.data for frame in self._frames)
        self._frames.clear()
        self.socket.setblocking(False)

    def detach(self, *, closed: bool) -> str:
        """Detach the link and give what the server has against it, '' for nothing."""
        self._send(frames.detach(closed=closed))
        return frames.error_text(self._expect(frames.DETACH))

    def close(self) -> None:
        """Say goodbye and wait shortly for the answer; a server that is gone already is fine."""
        with contextlib.suppress(OSError):
            self.socket.settimeout(2.0)
            self.socket.sendall(frames.close())
            while self.socket.recv(1 << 16):
                pass
        self.socket.close()

    def _authenticate(self, endpoint: Endpoint) -> None:
        mechanism, response = "ANONYMOUS", b"bench"
        if endpoint.user is not None:
            mechanism = "PLAIN"
            response = frames.plain_response(endpoint.user, endpoint.password or "")
        self._send(frames.SASL_HEADER)
        self._expect_header(frames.SASL_HEADER)
        self._expect(frames.SASL_MECHANISMS)
        self._send(frames.sasl_init(mechanism, response))
        code = self._expect(frames.SASL_OUTCOME)[0]
        if code != 0:
            raise LoadError(f"the server does not take {mechanism}: SASL outcome {code}")

    def _send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def _read(self) -> None:
        try:
            data = self.socket.recv(1 << 16)
        except TimeoutError:
            raise LoadError(f"no answer within {ANSWER_SECONDS_MAX:.0f} s") from None
        if not data:
            raise LoadError("the server closed the connection while it was being opened")
        self.pending += data

    def _expect_header(self, header: bytes) -> None:
        while len(self.pending) < 8:
            self._read()
        found = bytes(self.pending[:8])
        del self.pending[:8]
        if found != header:
            raise LoadError(f"the server answers {found!r} where {header!r} was asked for")

    def _expect(self, code: int) -> list[object]:
        """The fields of the next performative of that kind; flows and transfers are kept, an
        unexpected end is an error."""
        kept: list[frames.Frame] = []
        while True:
            self._frames.extend(frames.split(self.pending))
            while not self._frames:
                self._read()
                self._frames.extend(frames.split(self.pending))
            frame = self._frames.popleft()
            if frame.code == code:
                self._frames.extendleft(reversed(kept))
                return frame.fields(15)
            if frame.code in (frames.DETACH, frames.END, frames.CLOSE):
                raise LoadError(ended(frame))
            kept.append(frame)


def ended(frame: frames.Frame) -> str:
    """The sentence for a link, session or connection that the server ended."""
    what = {frames.DETACH: "link", frames.END: "session", frames.CLOSE: "connection"}[frame.code]
    reason = frames.error_text(frame.fields(3)) or "without a reason"
    return f"the server ended the {what}: {reason}"
