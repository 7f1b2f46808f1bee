"""The links of `$management`: requests come in, each is answered once.

A request whose answer can go nowhere is rejected, and nothing is done. The credit of a request
comes back with its answer, so that a peer has no more under way than it was given.
All methods run on the loop's thread.
"""

import asyncio
import sys
from array import array
from collections import deque
from collections.abc import Callable

import structlog

from ingest import pump, relay, termini
from ingest.containment import stops_all
from ingest.link import Link
from ingest.management.replies import Replies, ReplyLink
from ingest.management.requests import Requests
from ingest.management.taking import TAKING, Taking
from ingest.operations import Operations
from ingest.pump import Received
from ingest.settings import ManagementLimits
from pipeline import management, sections
from pipeline.amqp_types import DecodeLimits
from pipeline.management import NODE, Answer
from pipeline.refusal import INVALID_FIELD, Refusal
from pipeline.sections import DecodeError, Message
from pipeline.wishes import Attach

_events = structlog.get_logger("gateway")

#: What a request that is larger is refused with (AMQP 1.0, 2.8.17).
_TOO_LARGE = "amqp:link:message-size-exceeded"


class RequestLink:
    """An incoming link to the node."""

    __slots__ = ()


class Node:
    """The node and the links that are on it. `turned` is called when something was said to peers
    or to the log outside of a pass over what came."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: ManagementLimits,
        decode: DecodeLimits,
        requests: Requests,
        replies: Replies,
        operations: Operations,
        turned: Callable[[], None],
    ) -> None:
        self._loop, self._limits, self._turned = loop, limits, turned
        self._decode = decode
        self._requests, self._replies, self._operations = requests, replies, operations
        self._tasks: set[asyncio.Task[None]] = set()
        self._waiting: deque[tuple[Link, bytes, bytes]] = deque()
        self._beginning: asyncio.Handle | None = None
        self.taking: Taking

    def attached(self, link: Link, attach: Attach) -> bool:
        """Whether the link is one to the node; then it is open, or refused."""
        if attach.address != NODE or attach.dynamic or attach.coordinator:
            return False
        if link.is_outgoing:
            link.owner = self._replies.join(link, attach.answers)
            termini.echo(link.proton, presettled=True)
            link.open()
        else:
            link.owner = RequestLink()
            termini.echo(link.proton, message_bytes_max=self._limits.request_bytes_max)
            link.open()
            link.grant(self._limits.requests_max)
        return True

    def left(self, link: Link) -> None:
        """A link has ended, whatever it was."""
        self.taking.left(link)
        if isinstance(link.owner, ReplyLink):
            self._replies.leave(link)

    def received(self, link: Link, received: Received) -> None:
        """Requests have come; each is a task of its own. They begin when this pass is over, in
        their order, one in a turn of the loop however many came in one read."""
        offsets = array("i", bytes(pump.offsets(received.lengths, received.count)))
        deliveries = memoryview(received.deliveries).cast("Q")
        for nth in range(received.count):
            data = received.blob[offsets[nth] : offsets[nth + 1]]
            delivery = deliveries[nth].to_bytes(8, sys.byteorder) if deliveries[nth] else b""
            self._waiting.append((link, delivery, data))
        if self._beginning is None and self._waiting:
            self._beginning = self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        task = self._loop.create_task(self._contained(*self._waiting.popleft()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._beginning = self._loop.call_soon(self._begin) if self._waiting else None

    def close(self) -> None:
        """What isn't answered never will be."""
        self._waiting.clear()
        if self._beginning is not None:
            self._beginning.cancel()
        for task in self._tasks:
            task.cancel()
        self.taking.close()
        self._operations.close()

    async def _contained(self, link: Link, delivery: bytes, data: bytes) -> None:
        """Answer a request. What nobody expected ends the peer that asked, or stops the gateway,
        before anybody else has a turn (`ingest.containment`)."""
        try:
            await self._handle(link, delivery, data)
        except Exception as error:  # noqa: BLE001 (one of the two hears of it)
            if stops_all(error):
                self._loop.call_exception_handler({"message": "a request", "exception": error})
            else:
                link.connection.broke(error)

    async def _handle(self, link: Link, delivery: bytes, data: bytes) -> None:
        message = self._message(link, data)
        if isinstance(message, Refusal):
            self._reject(link, delivery, message)
            self._turned()
            return
        if link.alive:
            relay.accept(link, delivery)
            link.connection.touch()
        user = link.connection.user
        request = management.parse(message)
        if isinstance(request, Answer):
            answer = request
        else:
            self._turned()
            if request.verb in TAKING:
                answer = await self.taking.answer(link, request)
            else:
                answer = await self._requests.answer(user, request)
            _events.debug(
                "management.answered",
                user=user,
                operation=request.verb.value,
                type=request.entity.value,
                name=request.name,
                status=answer.status,
            )
        asked = message.properties
        correlation = asked.message_id if asked.correlation_id is None else asked.correlation_id
        reply_to = asked.reply_to or ""
        self._replies.send(link, reply_to, management.encoded(answer, reply_to, correlation))
        if link.alive and not link.ended:
            link.grant(1)
        self._turned()

    def _message(self, link: Link, data: bytes) -> Message | Refusal:
        """The request, if it is one and its answer has somewhere to go."""
        most = self._limits.request_bytes_max
        if len(data) > most:
            text = f"a request of {len(data)} bytes, {most} at most (management.request_bytes_max)"
            return Refusal(_TOO_LARGE, text)
        try:
            message = sections.decode(data, self._decode)
        except DecodeError as error:
            return Refusal(INVALID_FIELD, f"the request can't be read: {error}")
        return self._replies.refusal(link, message.properties.reply_to) or message

    def _reject(self, link: Link, delivery: bytes, why: Refusal) -> None:
        if link.alive:
            relay.reject(link, relay.Complaint(delivery, len(delivery) // 8, 1, why))
