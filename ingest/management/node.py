"""The links of `$management`: requests come in, each is answered once.

A request whose answer can go nowhere is rejected, and nothing is done. The credit of a request
comes back with its answer, so that a peer has no more under way than it was given.
All methods run on the loop's thread.
"""

import asyncio
import sys
from array import array
from functools import partial

import structlog

from distributary.ingest.management.lease_requests import LEASE_VERBS, LeaseRequests
from distributary.ingest.management.management_parts import ManagementParts
from distributary.ingest.management.replies import Replies, ReplyLink
from distributary.ingest.management.requests import Requests
from distributary.ingest.management.whose import Whose
from distributary.ingest.native import pump
from distributary.ingest.native.runs import Received
from distributary.ingest.net import termini
from distributary.ingest.net.containment import stops_all
from distributary.ingest.net.link import Link
from distributary.ingest.net.relayed_link import NotAsked, Relays
from distributary.ingest.publish import relay
from distributary.ingest.runtime.settings import ManagementLimits
from distributary.pipeline.codec import sections
from distributary.pipeline.codec.amqp_types import Value
from distributary.pipeline.codec.sections import DecodeError, Message
from distributary.pipeline.management import management_messages
from distributary.pipeline.management.management_messages import (
    ABSENT,
    BAD_REQUEST,
    NODE,
    OK,
    Answer,
    Entity,
    Request,
    Verb,
    refused,
)
from distributary.pipeline.model.amqp_error import INVALID_FIELD, AmqpError
from distributary.pipeline.subscriptions.attach_intent import Attach

_events = structlog.get_logger("gateway")

#: Verbs that change nothing.
_LOOKING = frozenset({Verb.READ, Verb.OWED, Verb.HELD})

#: What a request that is larger is refused with (AMQP 1.0, 2.8.17).
_TOO_LARGE = "amqp:link:message-size-exceeded"


class RequestLink:
    """An incoming link to the node."""

    __slots__ = ()


class Node:
    """The node and the links that are on it."""

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
        style = parts.host.settings.delivery.pattern_style
        self._relays, self._whose = relays, Whose(relays, parts.directory, style)
        self._tasks: set[asyncio.Task[None]] = set()

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
        self._leases.left(link)
        if isinstance(link.owner, ReplyLink):
            self._replies.leave(link)

    def received(self, link: Link, received: Received) -> None:
        """Requests have come; each becomes a task. They begin in their order when this pass over
        frames is over, one in each turn of the loop."""
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
        """Answer a request. What nobody expected ends the peer that asked, or stops the gateway,
        before anybody else has a turn (`ingest.net.containment`)."""
        try:
            await self._turns.turn()
            await self._handle(link, delivery, data)
        except Exception as error:  # noqa: BLE001 (one of the two hears of it)
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
            answer: Answer | bytes = request
        else:
            self._finish_pass()
            answer = await self._asked(link, request)
        asked = message.properties
        correlation = asked.message_id if asked.correlation_id is None else asked.correlation_id
        reply_to = asked.reply_to or ""
        own, _ = self._relays.logs
        data = (
            management_messages.readdressed(answer, reply_to, correlation)
            if isinstance(answer, bytes)
            else management_messages.encoded(answer, reply_to, correlation, own)
        )
        self._replies.send(link, reply_to, data)
        if link.alive and not link.ended:
            link.grant(1)
        self._finish_pass()

    async def _asked(self, link: Link, request: Request) -> Answer | bytes:
        """The answer of the first log that has what the request names: ours, or encoded by the node
        of its owner. Who only looks has the answer of a log behind one that couldn't be asked,
        and those that are known to have no owner are asked last. Who changes something has that
        failure: what another log has under that name may not be what was meant."""
        logs = self._whose.logs(link, request)
        if isinstance(logs, Answer):
            return logs
        own, _ = self._relays.logs
        looks = request.verb in _LOOKING
        away = {one.log for one in self._relays.owners() if not one.connected and looks}
        absent: list[Answer | bytes] = []
        failures: list[Answer | bytes] = []
        for log in sorted(logs, key=away.__contains__):
            mine = log == own
            found = await (self._here(link, request) if mine else self._there(link, log, request))
            if isinstance(found, NotAsked):
                failures.append(refused(found))
                if not looks:
                    break
            elif _status(found) != ABSENT:
                return found
            else:
                absent.append(found)
        return (failures or absent)[-1]

    async def _there(self, link: Link, log: str, request: Request) -> Answer | bytes | NotAsked:
        try:
            management_messages.request_of(request, 0, "")
        except ValueError as error:
            return Answer(BAD_REQUEST, str(error))
        found = await self._relays.ask(link, log, partial(management_messages.request_of, request))
        if isinstance(found, AmqpError) and not isinstance(found, NotAsked):
            return refused(found)
        return found

    async def _here(self, link: Link, request: Request) -> Answer:
        user = link.connection.user
        if request.verb in LEASE_VERBS:
            answer = await self._leases.answer(link, request)
        else:
            answer = await self._requests.answer(user, request)
        if request.entity is Entity.NODE and request.verb is Verb.READ:
            answer = self._with_logs(answer)
        _events.debug(
            "management.answered",
            user=user,
            operation=request.verb.value,
            type=request.entity.value,
            name=request.name,
            status=answer.status,
        )
        return answer

    def _with_logs(self, answer: Answer) -> Answer:
        """What a gateway of a lake says of itself names the lake's logs, too."""
        own, others = self._relays.logs
        if not others or answer.status != OK:
            return answer
        logs: list[Value] = [own, *others]
        return Answer(answer.status, answer.description, {**answer.body, "logs": logs})

    def _message(self, link: Link, data: bytes) -> Message | AmqpError:
        """The request, if it is one and its answer has somewhere to go."""
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


def _status(answer: Answer | bytes) -> int | None:
    return answer.status if isinstance(answer, Answer) else management_messages.status_of(answer)
