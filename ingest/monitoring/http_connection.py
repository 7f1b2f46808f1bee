"""One connection to the HTTP server. h11 speaks the protocol.

The first connection loads this module: a gateway without HTTP clients never does.
"""

import asyncio
from typing import Protocol, cast

import h11
import structlog

from distributary.ingest.monitoring.http_messages import Answer, Site, said

_events = structlog.get_logger("http")

#: Bytes of a request's line and headers.
HEAD_BYTES_MAX = 16_384
#: Headers that let a browser only show an answer.
_HEADERS = (
    ("Cache-Control", "no-store"),
    ("Content-Security-Policy", "default-src 'none'"),
    ("X-Content-Type-Options", "nosniff"),
)


class Served(Protocol):
    """A connection's server: its connections, the lock for making an answer, and its site."""

    @property
    def connections(self) -> "set[HttpConnection]": ...
    @property
    def turn(self) -> asyncio.Lock: ...
    @property
    def site(self) -> Site: ...
    @property
    def full(self) -> bool: ...


class HttpConnection(asyncio.Protocol):
    """One connection: request and answer in turn. An error ends this connection alone.

    While an answer is made, or waits for a peer that doesn't read it, nothing is read: a peer's
    next requests stay with the peer, and one answer at most is in memory.
    """

    def __init__(self, server: Served, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        """`seconds`: time that it may be silent, or take for a request or an answer."""
        self._server, self._loop, self._seconds = server, loop, seconds
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._asked: h11.Request | None = None
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._taken = asyncio.Event()
        self._taken.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._server.full:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=0)
        self._server.connections.add(self)
        self._wait()

    def pause_writing(self) -> None:
        """Wait: the peer hasn't taken all of the answer."""
        self._taken.clear()

    def resume_writing(self) -> None:
        self._taken.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (asyncio's)
        self._server.connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            self._advance()
        except h11.RemoteProtocolError as error:
            self._refuse(error.error_status_hint, str(error))
        except Exception as error:  # noqa: BLE001 (it is this connection's alone)
            self._broke(error)

    def eof_received(self) -> bool:
        return self._task is not None  # keeps the socket until the answer is out

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(self._seconds, self.abort)

    def _advance(self) -> None:
        while self._task is None:
            match self._http.next_event():
                case h11.Request() as request:
                    self._asked = request
                case h11.Data():
                    self._refuse(413, "a request has no body here")
                    return
                case h11.EndOfMessage() if self._asked is not None:
                    assert self._transport is not None  # noqa: S101
                    self._transport.pause_reading()
                    self._task = self._loop.create_task(self._answer(self._asked))
                    self._wait()
                case h11.ConnectionClosed():
                    self.abort()
                    return
                case _:  # more bytes must come first
                    return

    async def _answer(self, request: h11.Request) -> None:
        try:
            answer = await self._made(request)
            self._send(answer, with_body=request.method != b"HEAD")
            await self._taken.wait()
            self._task = None
            if self._http.our_state is h11.MUST_CLOSE or self._transport is None:
                self._end()
                return
            self._http.start_next_cycle()
            self._wait()
            self._advance()
            if self._task is None:
                self._transport.resume_reading()
        except asyncio.CancelledError:
            raise
        except h11.ProtocolError as error:
            self._refuse(400, str(error))
        except Exception as error:  # noqa: BLE001 (as above)
            self._broke(error)

    async def _made(self, request: h11.Request) -> Answer:
        if request.method not in {b"GET", b"HEAD"}:
            return said(405, "GET and HEAD only")
        path = request.target.split(b"?", 1)[0].decode("ascii", "replace")
        async with self._server.turn:
            return await self._server.site.answer(path)

    def _send(self, answer: Answer, *, with_body: bool) -> None:
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            *_HEADERS,
        ]
        if answer.status == 405:
            headers.append(("Allow", "GET, HEAD"))
        out = self._http.send(h11.Response(status_code=answer.status, headers=headers)) or b""
        if with_body:
            out += self._http.send(h11.Data(data=answer.body)) or b""
        out += self._http.send(h11.EndOfMessage()) or b""
        if self._transport is not None:
            self._transport.write(out)

    def _refuse(self, status: int, text: str) -> None:
        """Answer with the error, if an answer can still be sent, and end."""
        if self._http.our_state in {h11.IDLE, h11.SEND_RESPONSE}:
            self._send(said(status, text), with_body=True)
        self._end()

    def _end(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _broke(self, error: Exception) -> None:
        _events.error("http.bug", reason=str(error), exc_info=error)
        self.abort()
