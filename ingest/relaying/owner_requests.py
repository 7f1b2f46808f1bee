"""Requests of a client to `$management` that are about another gateway's log: its owner answers
them, with the client's user and rights.

A client's link to the node has two links at the owner, in the client's session there: one for
requests, one for answers. Whatever the owner holds for them, such as leases, ends with them.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import cproton
from cproton import lib as proton

from distributary.client.connection.client_errors import ClientError, Refused
from distributary.client.connection.wire import Wire
from distributary.ingest.native import pump as pumping
from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net.relayed_link import NotAsked
from distributary.ingest.net.relayed_peer import NOT_OWNER
from distributary.ingest.relaying.held_bytes import RequestsBytes
from distributary.ingest.relaying.owners.owner_terms import open_answers, open_requests
from distributary.ingest.relaying.owners.relayed_session import RelayedSession
from distributary.pipeline.amqp.relayed_for import RelayedFor
from distributary.pipeline.management.node_answers import NodeAnswer, answer_of, asked_by
from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED, AmqpError

#: Answers that the owner may send ahead.
ANSWER_CREDIT = 100
FAILED = "amqp:internal-error"


class _NodeLink:
    """One of the two links at the owner. Implements the client engine's `ClientLink`."""

    def __init__(self, requests: "OwnerRequests", name: str, *, sends: bool) -> None:
        self._requests, self._name, self._sends = requests, name, sends
        self.key = name, not sends
        self.pointer: Any = None
        self.error: ClientError | None = None
        self._ready = False  #: it is attached at the owner
        self.wire: Wire | None = None

    def __str__(self) -> str:
        return f"the node $management, by {self._name}"

    def make(self, wire: Wire) -> Any:
        self.wire = wire
        session, said = self._requests.session.begin(wire), self._requests.said
        make = open_requests if self._sends else open_answers
        self.pointer = make(session, self._name, said)
        return self.pointer

    def opened(self) -> None:
        self._ready = True
        self._requests.session.owner.answered(self)
        if not self._sends:
            proton.pn_link_flow(self.pointer, ANSWER_CREDIT)

    def received(self, received: Received) -> None:
        at = memoryview(pumping.offsets(received.lengths, received.count)).cast("i")
        for nth in range(received.count):
            self._requests.answered(received.blob[at[nth] : at[nth + 1]])
        proton.pn_link_flow(self.pointer, received.count)
        if self.wire is not None:
            self.wire.later()

    def settled(self, outcomes: Outcomes) -> None:
        """Do nothing: requests go settled, and have answers."""

    def perform(self) -> None:
        if self._sends:
            self._requests.send(self.pointer)

    def fail(self, error: ClientError) -> None:
        self._gone()
        said = error if isinstance(error, Refused) else Refused(str(error), "", "")
        if said.condition == NOT_OWNER:
            self._requests.session.owner.refused(self)
        else:
            text = said.description or "the owner of its log has ended the link to its node"
            self._requests.end(AmqpError(said.condition or FAILED, text))

    def lost(self) -> None:
        if self._ready:
            self._requests.session.owner.awaits(self)
        self._gone()
        self._requests.lost()

    def give_up(self, reason: str) -> None:
        self._requests.end(NotAsked(FAILED, reason))

    def leave(self, *, at_once: bool) -> None:
        """End the link: no requests will follow; `at_once`: its session goes on without it."""
        session = self._requests.session
        if not at_once:
            session.owner.leave(self)  # its session has yet to end it
            return
        session.leave(self)
        if self.wire is not None and self.pointer is not None:
            session.ends(self)
            self.wire.end(self.pointer)

    def _gone(self) -> None:
        self._requests.session.has_ended(self)
        self.wire = self.pointer = None
        self._ready = False


class OwnerRequests:
    """Requests of one link of a client to the owner of one log."""

    def __init__(
        self, session: RelayedSession, name: str, said: RelayedFor, held: RequestsBytes
    ) -> None:
        """`name`: a link's name that is unique in the session."""
        self.session, self.said, self._name, self._held = session, said, name, held
        self._loop = asyncio.get_running_loop()
        self._answers = _NodeLink(self, name, sends=False)
        self._sender = _NodeLink(self, name, sends=True)
        self._number = 0
        self._waiting: dict[int, bytes] = {}
        self._asked: dict[int, asyncio.Future[NodeAnswer | AmqpError]] = {}
        self._sent: set[int] = set()
        self.over = False
        for link in (self._answers, self._sender):
            session.join(link)

    async def ask(self, encoded: Callable[[int, str], bytes]) -> NodeAnswer | AmqpError:
        """Return the owner's answer to a request, or why there is none after `fleet.owner_wait_ms`.

        `encoded` makes the request of a message-id and the address for its answer. A caller that
        waits no longer cancels the task: a request that wasn't sent yet never is."""
        number, answer = self._number + 1, self._loop.create_future()
        found: NodeAnswer | AmqpError
        data = encoded(number, self._name)
        if why := self._held.add(len(data)):
            return NotAsked(LIMIT_EXCEEDED, why)
        self._number = number
        self._asked[number] = answer
        self._waiting[number] = data
        if self._sender.wire is not None:
            self._sender.wire.touch(self._sender)
        try:
            found = await asyncio.wait_for(answer, self.session.owner.wait_seconds)
        except TimeoutError:
            found = self._unanswered(sent=number in self._sent)
        finally:
            self._asked.pop(number, None)
            self._waiting.pop(number, None)
            self._sent.discard(number)
            self._held.remove(len(data))
        return found

    def _unanswered(self, *, sent: bool) -> AmqpError:
        text = self.session.owner.late
        if sent:
            return AmqpError(FAILED, f"{text}: what was asked for may be done or not")
        return NotAsked(FAILED, text)

    def send(self, pointer: Any) -> None:
        """Hand the engine as many requests as the owner has given credit for."""
        while self._waiting and proton.pn_link_credit(pointer) > 0:
            number = next(iter(self._waiting))
            data = self._waiting.pop(number)
            self._sent.add(number)
            delivery = cproton.pn_delivery(pointer, number.to_bytes(8, "big"))
            cproton.pn_link_send(pointer, data)
            proton.pn_link_advance(pointer)
            proton.pn_delivery_settle(delivery)

    def answered(self, data: bytes) -> None:
        """Take the owner's answer. If its bytes don't name a request, none of the sent requests can
        have an answer: all fail."""
        number, found = asked_by(data), answer_of(data)
        if number is None:
            found = "an answer doesn't say to which request"
        said = f"the owner of the log '{self.said.log}' can't be understood: {found}"
        told = AmqpError(FAILED, said) if isinstance(found, str) else found
        for one in self._sent if number is None else (number,):
            answer = self._asked.get(one)
            if answer is not None and not answer.done():
                answer.set_result(told)

    def lost(self) -> None:
        """Fail the sent requests: the lost owner may have done them. Unsent requests wait for the
        next owner."""
        text = (
            f"the owner of the log '{self.said.log}' was lost before it answered: what was asked "
        )
        self._fail(self._sent, AmqpError(FAILED, text + "for may be done or not"))
        self._sent = set()

    def end(self, why: AmqpError, *, at_once: bool = True) -> None:
        """End all requests without answers, for this reason."""
        if self.over:
            return
        self.over = True
        for link in (self._answers, self._sender):
            link.leave(at_once=at_once)
        self._waiting.clear()
        self._fail(set(self._asked), why)

    def _fail(self, numbers: set[int], why: AmqpError) -> None:
        for number in numbers:
            answer = self._asked.get(number)
            if answer is not None and not answer.done():
                answer.set_result(why)
