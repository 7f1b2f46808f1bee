"""The links of `$management`: requests come in, each is answered once.

A request whose answer has no way is rejected, and nothing is done. The credit of a request comes
back with its answer, so that a peer never has more requests under way than its first credit.
All methods run on the loop's thread.
"""

import asyncio
import sys
from array import array

from distributary.ingest.management.asked_logs import AskedLogs
from distributary.ingest.management.lease_requests import LeaseRequests
from distributary.ingest.management.management_parts import ManagementParts
from distributary.ingest.management.replies import Replies, ReplyLink
from distributary.ingest.management.requests import Requests
from distributary.ingest.native import pump
from distributary.ingest.native.runs import Received
from distributary.ingest.net import termini
from distributary.ingest.net.containment import stops_all
from distributary.ingest.net.link import Link
from distributary.ingest.net.relayed_link import Relays
from distributary.ingest.publish import relay
from distributary.ingest.runtime.settings import ManagementLimits
from distributary.pipeline.codec import sections
from distributary.pipeline.codec.sections import DecodeError, Message
from distributary.pipeline.management import management_messages
from distributary.pipeline.management.management_messages import NODE, Answer
from distributary.pipeline.management.node_answers import NodeAnswer
from distributary.pipeline.model.amqp_error import INVALID_FIELD, NOT_IMPLEMENTED, AmqpError
from distributary.pipeline.subscriptions.attach_intent import Attach

#: Condition by which too large a request is refused (AMQP 1.0, 2.8.17).
_TOO_LARGE = "amqp:link:message-size-exceeded"
#: What a request in a transaction is refused with, and the transaction's commit.
NO_PART = AmqpError(
    NOT_IMPLEMENTED, f"a request to {NODE} is no part of a transaction: it can't be taken back"
)


class RequestLink:
    """An incoming link to the node."""

    __slots__ = ()


class Node:
    """The node and its links."""

    def __init__(
        self,
        parts: ManagementParts,
        limits: ManagementLimits,
        requests: Requests,
        replies: Replies,
        leases: LeaseRequests,
        relays: Relays,
    ) -> None:
        self._loop, self._limits, self._finish_pass = parts.host.loop, limits, parts.finish_pass
        self._decode, self._turns = parts.host.settings.amqp.decode, parts.turns
        self._requests, self._replies, self._leases = requests, replies, leases
        self._relays, self._logs = relays, AskedLogs(parts, requests, leases, relays)
        self._tasks: set[asyncio.Task[None]] = set()

    def attached(self, link: Link, attach: Attach) -> bool:
        """Open a link to the node; return False for any other link."""
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
        """A link has ended, of any kind."""
        self._leases.left(link)
        if isinstance(link.owner, ReplyLink):
            self._replies.leave(link)

    def received(self, link: Link, received: Received) -> None:
        """Make a task of each received request. They begin in their order after this pass, one in
        each turn of the loop."""
        offsets = array("i", bytes(pump.offsets(received.lengths, received.count)))
        deliveries = memoryview(received.deliveries).cast("Q")
        for nth in range(received.count):
            data = received.blob[offsets[nth] : offsets[nth + 1]]
            delivery = deliveries[nth].to_bytes(8, sys.byteorder) if deliveries[nth] else b""
            task = self._loop.create_task(self._contained(link, delivery, data))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def close(self) -> None:
        """Stop: open requests get no answer any more."""
        for task in self._tasks:
            task.cancel()
        self._leases.close()
        self._requests.close()

    async def _contained(self, link: Link, delivery: bytes, data: bytes) -> None:
        """Answer a request. An unexpected exception ends the asking peer, or stops the gateway, at
        once (`ingest.net.containment`)."""
        try:
            await self._turns.turn()
            await self._handle(link, delivery, data)
        except Exception as error:  # noqa: BLE001 (the loop or the peer handles it)
            if stops_all(error):
                self._loop.call_exception_handler({"message": "a request", "exception": error})
            else:
                link.connection.broke(error)

    async def _handle(self, link: Link, delivery: bytes, data: bytes) -> None:
        message = self._message(link, data)
        if isinstance(message, AmqpError):
            self._reject(link, delivery, message)
            self._finish_pass()
            return
        if link.alive:
            relay.accept(link, delivery)
            link.connection.touch()
        request = management_messages.parse(message)
        if isinstance(request, Answer):
            answer: Answer | NodeAnswer = request
        else:
            self._finish_pass()
            answer = await self._logs.answer(link, request)
        asked = message.properties
        correlation = asked.message_id if asked.correlation_id is None else asked.correlation_id
        reply_to = asked.reply_to or ""
        own, _ = self._relays.logs
        data = (
            answer.readdressed(reply_to, correlation)
            if isinstance(answer, NodeAnswer)
            else management_messages.encoded(answer, reply_to, correlation, own)
        )
        later = self._replies.send(link, reply_to, data)
        if link.alive and not link.ended and not later:
            link.grant(1)
        self._finish_pass()

    def _message(self, link: Link, data: bytes) -> Message | AmqpError:
        """Return the decoded request, or why it can't be read or its answer can't be sent."""
        most = self._limits.request_bytes_max
        if len(data) > most:
            text = f"a request of {len(data)} bytes, {most} at most (management.request_bytes_max)"
            return AmqpError(_TOO_LARGE, text)
        try:
            message = sections.decode(data, self._decode)
        except DecodeError as error:
            return AmqpError(INVALID_FIELD, f"the request can't be read: {error}")
        return self._replies.amqp_error(link, message.properties.reply_to) or message

    def _reject(self, link: Link, delivery: bytes, why: AmqpError) -> None:
        relay.reject(link, relay.Complaint(delivery, len(delivery) // 8, 1, why))
