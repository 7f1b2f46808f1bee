"""A publisher to one address, with many messages under way."""

import asyncio
from types import TracebackType
from typing import Protocol, Self, TypeVar

from distributary.client.connection.client_errors import ClientClosed, ClientError
from distributary.client.outgoing_message import Content
from distributary.client.sender_link import Entry, Once, SenderLink

T = TypeVar("T")


class Encoding(Protocol):
    """The encoder of messages: the `Client`."""

    def encoded(self, body: Content) -> bytes:
        """Return the bytes of a message. Raises InvalidRequest."""


class Publisher:
    """A publisher, `async with client.publisher("orders") as orders`: `send` returns when the
    message has room in the window. The block's end, and each `flush`, wait until all sent messages
    are accepted, or raise the first error. After the block `send` raises ClientClosed."""

    def __init__(self, client: Encoding, link: SenderLink) -> None:
        self._client, self._link = client, link
        self._open = 0
        self._error: ClientError | None = None
        self._quiet = asyncio.Event()
        self._closed = False
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
            self._link.users -= not self._closed  # the client may close a link without users
            self._closed = True

    async def send(self, body: Content = None) -> None:
        """Publish, and wait only for room in the window. Raises an earlier message's error, each
        error once."""
        if self._closed:
            raise ClientClosed(f"the publisher to {self._link} is closed")
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
        """Wait until all sent messages are accepted. Raises the first error."""
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
        """Count an accepted message."""
        self.count += 1
        self._done()

    def failed(self, error: ClientError) -> None:
        """Keep the first error of a message that wasn't accepted."""
        self._error = self._error or error
        self._done()

    def _done(self) -> None:
        self._open -= 1
        if not self._open:
            self._quiet.set()


async def publish_once(link: SenderLink, data: bytes) -> None:
    """Publish and wait until the message is accepted. If the call is cancelled before the message
    was sent, it is never sent. Raises ClientError."""
    once = Once(asyncio.get_running_loop())
    entry = Entry(data, once)
    await link.put(entry)
    try:
        await once.future
    except asyncio.CancelledError:
        link.take_back(entry)
        raise


async def publish_for(answer: "asyncio.Future[T]", link: SenderLink, data: bytes) -> T:
    """Publish a request and return its answer. If the answer fails, or the call is cancelled,
    before the message was sent, it is never sent. Raises ClientError, and the answer's error."""
    once = Once(asyncio.get_running_loop())
    entry = Entry(data, once)
    await link.put(entry)
    try:
        await asyncio.wait((once.future, answer), return_when=asyncio.FIRST_COMPLETED)
        if once.future.done():
            once.future.result()
        return await answer
    finally:
        link.take_back(entry)
        once.future.cancel()
