"""Many publishes under way to one address."""

import asyncio
from types import TracebackType
from typing import Protocol, Self

from distributary.client.connection.client_errors import ClientError
from distributary.client.outgoing_message import Content
from distributary.client.sender_link import Entry, Once, SenderLink


class Encoding(Protocol):
    """What makes bytes of messages: the `Client`."""

    def encoded(self, body: Content) -> bytes:
        """The bytes of a message. Raises InvalidRequest."""


class Publisher:
    """`async with client.publisher("orders") as orders`: `send` returns when the message has room
    in the window; at the end, and at each `flush`, all that was sent is accepted, or the first
    error is raised."""

    def __init__(self, client: Encoding, link: SenderLink) -> None:
        self._client, self._link = client, link
        self._open = 0
        self._error: ClientError | None = None
        self._quiet = asyncio.Event()
        #: Messages that were accepted.
        self.count = 0
        link.users += 1

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            self._link.users -= 1

    async def send(self, body: Content = None) -> None:
        """Publish, and wait for room alone. Raises what an earlier message has met, each error
        once."""
        if self._error is not None:
            self._raise()
        entry = Entry(self._client.encoded(body), self)
        self._open += 1
        try:
            await self._link.put(entry)
        except BaseException:
            self._done()
            raise

    async def flush(self) -> None:
        """All that was sent is accepted. Raises the first error."""
        while self._open:
            self._quiet.clear()
            await self._quiet.wait()
        if self._error is not None:
            self._raise()

    def _raise(self) -> None:
        error, self._error = self._error, None
        assert error is not None  # noqa: S101
        raise error

    def accepted(self) -> None:
        """One was taken."""
        self.count += 1
        self._done()

    def failed(self, error: ClientError) -> None:
        """One wasn't."""
        self._error = self._error or error
        self._done()

    def _done(self) -> None:
        self._open -= 1
        if not self._open:
            self._quiet.set()


async def publish_once(link: SenderLink, data: bytes) -> None:
    """Publish and wait until it is accepted. Cancelled before it went, it never goes. Raises
    ClientError."""
    once = Once(asyncio.get_running_loop())
    entry = Entry(data, once)
    await link.put(entry)
    try:
        await once.future
    except asyncio.CancelledError:
        link.take_back(entry)
        raise
