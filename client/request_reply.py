"""Requests: a message that names the client's temporary queue, and the answer in that queue."""

import asyncio
import uuid

from distributary.client.client_subscription import Attaching, Subscription
from distributary.client.connection.client_errors import ClientClosed, ClientError, ConnectionFailed
from distributary.client.connection.link_terms import SourceTerms
from distributary.client.received_message import ReceivedMessage
from distributary.pipeline.codec.amqp_types import DecodeError


class Replies(Subscription):
    """A temporary queue for answers, and the ids of the requests that wait for one.

    The queue ends with the connection, and the next connection makes another one. So a request
    takes the address of the queue that is there, and fails with its connection.
    """

    def __init__(self, client: Attaching, prefetch: int) -> None:
        super().__init__(client, SourceTerms(f"replies-{uuid.uuid4().hex[:12]}", None), prefetch)
        self._waiting: dict[object, asyncio.Future[ReceivedMessage]] = {}
        self._reading = self._loop.create_task(self._read())

    def expect(self, request: str) -> "asyncio.Future[ReceivedMessage]":
        """Return the answer to the request with this id; the caller cancels it when it waits no
        more."""
        answer: asyncio.Future[ReceivedMessage] = self._loop.create_future()
        self._waiting[request] = answer
        answer.add_done_callback(lambda _: self._waiting.pop(request, None))
        return answer

    async def _read(self) -> None:
        try:
            async for reply in self:
                try:
                    answer = self._waiting.get(reply.correlation_id)
                except DecodeError as error:  # whose answer it is can't be read
                    await reply.reject("amqp:decode-error", str(error))
                    continue
                await reply.accept()
                if answer is not None and not answer.done():
                    answer.set_result(reply)
        except ClientError as error:
            self._fail_requests(error)

    def lost(self) -> None:
        super().lost()
        text = (
            "the connection was lost, and the queue for the answer with it: the answer can't come"
        )
        self._fail_requests(ConnectionFailed(text))

    def _fail_requests(self, error: ClientError) -> None:
        for answer in tuple(self._waiting.values()):
            if not answer.done():
                answer.set_exception(error)

    async def close(self) -> None:
        """Stop reading answers: none comes any more."""
        await super().close()
        self._fail_requests(ClientClosed("the client is closed"))
        await asyncio.wait((self._reading,))
