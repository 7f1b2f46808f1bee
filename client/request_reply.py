"""Requests: a message that names the client's temporary queue, and the answer in that queue."""

import asyncio
from contextlib import suppress

from distributary.client.client_subscription import Subscription
from distributary.client.connection.client_errors import ClientError
from distributary.client.received_message import ReceivedMessage
from distributary.pipeline.codec.amqp_types import DecodeError


class Replies:
    """A temporary queue for answers, and the ids of the requests that wait for one."""

    def __init__(self, subscription: Subscription) -> None:
        self._subscription = subscription
        self._waiting: dict[object, asyncio.Future[ReceivedMessage]] = {}
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def address(self) -> str:
        """Return the queue's address. Raises Refused."""
        await self._subscription.begin()
        return self._subscription.address

    @property
    def error(self) -> ClientError | None:
        """The error that ended the queue; None while answers come."""
        return self._subscription.error

    def expect(self, request: str) -> "asyncio.Future[ReceivedMessage]":
        """Return the answer to the request with this id; the caller cancels it when it waits no
        more."""
        answer: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        self._waiting[request] = answer
        answer.add_done_callback(lambda _: self._waiting.pop(request, None))
        return answer

    async def _read(self) -> None:
        try:
            async for reply in self._subscription:
                try:
                    answer = self._waiting.get(reply.correlation_id)
                except DecodeError as error:  # whose answer it is can't be read
                    await reply.reject("amqp:decode-error", str(error))
                    continue
                await reply.accept()
                if answer is not None and not answer.done():
                    answer.set_result(reply)
        except ClientError as error:
            for answer in tuple(self._waiting.values()):
                if not answer.done():
                    answer.set_exception(error)

    async def close(self) -> None:
        """Stop reading answers."""
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading
