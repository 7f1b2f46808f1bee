"""The meaning of a peer's frames: Proton's events, handed to the service in runs.

There is one `Inbound` for each connection. It has the connection's links; later events of a link
that it has removed are ignored.
"""

import sys
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Any

from cproton import lib as proton
from proton import Link as ProtonLink
from proton import Session

from distributary.ingest.native import pump as pumping
from distributary.ingest.native.pump import Pump, Stop, address
from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net import endpoint_answers, transactional
from distributary.ingest.net.containment import NotGivenBack
from distributary.ingest.net.frames.engine_error import BROKEN_VALUES, BrokenFrame
from distributary.ingest.net.handler import Handler
from distributary.ingest.net.link import Link
from distributary.ingest.net.relayed_peer import Peers
from distributary.ingest.net.unsettled import Unsettled
from distributary.ingest.runtime.collecting import Ends
from distributary.ingest.runtime.settings import Amqp
from distributary.ingest.runtime.turns import PeerTurn
from distributary.pipeline.amqp.performative import WalkedAttach
from distributary.pipeline.codec.quoting import quoted

#: Unsettled deliveries that the engine goes over, for a disposition, while it settles one.
UNSETTLED_LIKE_ONE = 64
#: Links of a lost connection that are released in one part of a turn, 70 us each.
LOST_AT_ONCE = 32
TOO_MANY = "amqp:resource-limit-exceeded"
CREDIT_EXCEEDED = "amqp:link:transfer-limit-exceeded"


class Inbound:
    """The events of one connection, from its collector."""

    def __init__(
        self,
        connection: endpoint_answers.EndedPeer,
        collector: Any,
        pump: Pump,
        handler: Handler,
        limits: Amqp,
        ends: Ends,
        peers: Peers,
    ) -> None:
        """`peers` finds the peer of each of the connection's links."""
        self._connection, self._pump, self._handler = connection, pump, handler
        self._limits, self._ends = limits, ends
        self._collector, self._peers = collector, peers
        self.collector_address = address(collector)
        self._links: dict[int, Link] = {}
        self._handles: dict[tuple[int, int], Link] = {}  # by channel and the peer's handle
        self._lost: deque[Link] = deque()
        #: Walked attaches whose links the engine hasn't reported yet, in the same order.
        self.coming: deque[WalkedAttach] = deque()
        #: Flows that want an answer, each once: their channels, and their handles if they have one.
        self.echoes: dict[tuple[int, int | None], None] = {}
        #: Bytes of messages that its peer has begun and not finished, as of its last read.
        self.unfinished_bytes = 0
        self.turn = PeerTurn(limits.turn_deliveries_max)
        self.unsettled = Unsettled(limits.connection_unsettled_max, self._unsettled)

    @property
    def links(self) -> tuple[Link, ...]:
        """The links that are alive."""
        return tuple(self._links.values())

    def links_on(self, channel: int) -> int:
        """Return the number of links, also ended ones, of the session on the peer's channel."""
        return sum(link.attach.channel == channel for link in self._links.values())

    def begin(self, size: int) -> None:
        """Begin a turn, in which the peer has sent `size` bytes."""
        self.turn.done = 0
        self._pump.begin(size)

    def process(self, *, part: bool = False) -> bool:
        """Handle all events, or (`part`) as many as this turn allows; return whether all were
        handled. Raises BrokenFrame when a value can't be read."""
        turn, eaten = self.turn, False
        while not eaten and not (part and turn.done >= turn.most):
            eaten = not self._connection.alive or self._eat()
        if (self._pump.unfinished or self.unfinished_bytes) and not self._connection.closing:
            self._bound_unfinished()
        return eaten

    def _eat(self) -> bool:
        """Handle events up to one that needs a decision; return whether there are no more."""
        pump, turn = self._pump, self.turn
        stop = pump.events(self.collector_address)
        turn.done += pump.seen + turn.RUN * pump.outcomes_count
        if self._connection.closing:
            return self._drop(Stop(stop))
        if pump.received_count:
            turn.done += turn.RUN
            self._received(pump.received())
        if pump.outcomes_count:
            self._settled(pump.outcomes())
        if stop == Stop.EVENT:
            event = proton.pn_collector_peek(self._collector)
            self._event(proton.pn_event_type(event), event)
            proton.pn_collector_pop(self._collector)
        elif stop not in (Stop.IDLE, Stop.FULL):
            turn.done += turn.READ
            self._odd_message(Stop(stop))
        return stop == Stop.IDLE

    def covered(self) -> bool:
        """Handle a peer's dispositions, which cover many deliveries, before further input. Return
        whether this turn allows more input. Raises BrokenFrame for earlier frames."""
        self.turn.done += self._unsettled() // UNSETTLED_LIKE_ONE + len(self._links)
        return self.process(part=True) and not self.turn.over

    @property
    def takes_more(self) -> bool:
        """Whether more deliveries may go to the links."""
        return self._connection.writable and not self.unsettled.full

    def sent(self, deliveries: int) -> None:
        """Count deliveries that were sent and that the peer has to settle. When it holds as many as
        allowed, later messages go to other consumers."""
        if self.unsettled.sent(deliveries):
            self._handler.writable(self.links, False)

    def eased(self) -> None:
        """Check whether a full peer has settled enough to get deliveries again."""
        if self._connection.alive and self.unsettled.settled():
            self._handler.writable(self.links, self._connection.writable)

    def _unsettled(self) -> int:
        return sum(link.unsettled for link in self._links.values())

    def _bound_unfinished(self) -> None:
        """Close the connection when the peer's unfinished messages take too much memory."""
        size = sum(map(pumping.waiting_bytes, {link.session for link in self._links.values()}))
        self.unfinished_bytes = size
        most = self._limits.unfinished_bytes_max
        if size > most:
            self._connection.close(
                TOO_MANY,
                f"{size} bytes of unfinished messages, {most} at most (amqp.unfinished_bytes_max)",
            )

    def answer_echoes(self) -> None:
        """Tell the state of links and sessions as their peer has asked; all else is written."""
        echoes, self.echoes = self.echoes, {}
        for channel, handle in echoes:
            link = self._on(channel) if handle is None else self._handles.get((channel, handle))
            if link is not None and not link.ended and not self._connection.closing:
                link.tell()

    def _on(self, channel: int) -> Link | None:
        """Return a link of the session on the peer's channel."""
        return next((link for (on, _), link in self._handles.items() if on == channel), None)

    def refuse_transfer(self, channel: int, handle: int, condition: str, description: str) -> None:
        """End the link of a message that isn't taken. Raises BrokenFrame for earlier frames."""
        self.process()
        link = self._handles.get((channel, handle))
        if link is not None and not self._connection.closing:
            link.end(condition, f"link '{link.name}': {description}")

    def overruns(self, channel: int, window: int) -> bool:
        """Whether the peer's window, as its last flow said, was overrun before it came."""
        link = self._on(channel)
        return link is not None and pumping.overruns(link.session, window)

    def began_in_transaction(self, channel: int, handle: int) -> bool:
        """Whether the first transfer of this link's message named one. Raises BrokenFrame."""
        self.process()
        link = self._handles.get((channel, handle))
        return link is None or link.ended or transactional.begun(link.address)

    def _drop(self, stop: Stop) -> bool:
        """Skip an event that comes after our close; return whether it was the last one."""
        if stop in (Stop.IDLE, Stop.FULL):
            return stop == Stop.IDLE
        if stop in (Stop.TOO_LARGE, Stop.ALONE, Stop.COMMAND):
            pumping.discard(self._pump.stopped_link, self._pump.stopped_delivery)
        if stop != Stop.MALFORMED:
            proton.pn_collector_pop(self._collector)
        return False

    def _settled(self, outcomes: list[Outcomes]) -> None:
        for one in outcomes:
            link = self._links.get(one.link)
            if link is not None and not link.ended:
                if not one.transaction:
                    link.waiting += len(one.confirm) // 8
                self._handler.settled(link, one)

    def _received(self, received: Received) -> None:
        link = self._links.get(received.link)
        if link is None or link.ended:
            return  # the engine drops its deliveries with it
        if self._pump.columns.credit < 0:  # its peer has exceeded its credit
            pumping.settle(received.deliveries, pumping.RELEASED)
            link.end(CREDIT_EXCEEDED, "more messages than credit")
            return
        link.waiting += received.unsettled
        self._handler.received(link, received)

    def _odd_message(self, stop: Stop) -> None:
        """A message that stopped the pump: too large, malformed, or to be received alone."""
        pump = self._pump
        link = self._links.get(pump.stopped_link)
        if link is None:  # it has ended, and its last messages are dropped
            pumping.discard(pump.stopped_link, pump.stopped_delivery)
            if stop != Stop.MALFORMED:
                proton.pn_collector_pop(self._collector)
            return
        if stop == Stop.ALONE:
            received = pump.receive_alone()
            proton.pn_collector_pop(self._collector)
            if received is not None:
                self._received(received)
                return
        if stop == Stop.COMMAND:
            proton.pn_collector_pop(self._collector)
            self._command(link, pump.stopped_delivery)
            return
        if stop == Stop.TOO_LARGE:
            pumping.discard(link.address, pump.stopped_delivery)
            proton.pn_collector_pop(self._collector)
            most = self._pump.message_bytes_max
            link.end(
                "amqp:link:message-size-exceeded",
                f"a message on link '{link.name}' is larger than {most} bytes",
            )
            return
        delivery = pump.stopped_delivery.to_bytes(8, sys.byteorder)
        pumping.reject(delivery, "amqp:decode-error", "the transfer holds no AMQP message")
        if not link.ended:
            link.grant(1)

    def _command(self, link: Link, delivery: int) -> None:
        """Hand on a message to the coordinator of transactions."""
        message, settled = transactional.take(delivery)
        if link.credit < 0 and not link.ended:
            link.end(CREDIT_EXCEEDED, "more messages than credit")
        if link.ended:
            return
        link.waiting += not settled
        answer = b"" if settled else delivery.to_bytes(8, sys.byteorder)
        self._handler.commanded(link, message, answer)

    def _event(self, kind: int, event: Any) -> None:
        turn = self.turn
        turn.done += turn.EVENT if kind == proton.PN_LINK_FLOW else turn.LINK
        match kind:
            case proton.PN_LINK_FLOW:
                self._flowed(self._links.get(address(proton.pn_event_link(event))))
            case proton.PN_LINK_REMOTE_OPEN:
                self._attached(endpoint_answers.wrapped(ProtonLink, proton.pn_event_link(event)))
            case proton.PN_LINK_REMOTE_CLOSE | proton.PN_LINK_REMOTE_DETACH:
                self._left(
                    self._links.get(address(proton.pn_event_link(event))),
                    closed=kind == proton.PN_LINK_REMOTE_CLOSE,
                )
            case proton.PN_SESSION_REMOTE_OPEN:
                endpoint_answers.wrapped(Session, proton.pn_event_session(event)).open()
            case proton.PN_SESSION_REMOTE_CLOSE:
                self._session_closed(proton.pn_event_session(event))
            case proton.PN_CONNECTION_REMOTE_OPEN:
                self._opened()
            case proton.PN_CONNECTION_REMOTE_CLOSE:
                closed = self._connection.proton._impl
                _end(self._links.values(), proton.pn_connection_remote_condition(closed))
                self._connection.closed()

    def _flowed(self, link: Link | None) -> None:
        if link is None or link.ended:
            return
        if link.is_outgoing:
            if link.owner is not None:
                self._handler.flowed(link)
        elif link.credit < 0:
            link.end(CREDIT_EXCEEDED, "a delivery-count that is beyond the credit")

    def _opened(self) -> None:
        connection = self._connection
        try:
            connection.container = connection.proton.remote_container or ""
            connection.sole = endpoint_answers.sole(connection.proton)
        except BROKEN_VALUES as error:
            raise BrokenFrame(f"open: {error}") from error
        self._handler.opened(connection)

    def _attached(self, proton_link: ProtonLink) -> None:
        try:
            owned = self._peers.of(self.coming.popleft(), address(proton_link.session._impl))
            link = Link(owned.peer, self, proton_link, owned.attach)
        except BROKEN_VALUES as error:
            raise BrokenFrame(f"attach: {error}") from error
        if not link.name:
            raise BrokenFrame("attach: the link has no name")
        if link.name != link.attach.name:
            raise BrokenFrame(f"attach: {quoted(link.attach.name)} is no name for a link")
        if link.address in self._links:
            raise BrokenFrame(f"attach: link '{link.name}' is there, its detach isn't answered yet")
        self._links[link.address] = self._handles[link.handle] = link
        self._ends.begun += 1
        most = self._limits.links_max
        if owned.refusal is not None:
            link.refuse(owned.refusal.condition, owned.refusal.description)
        elif len(self._links) <= most:
            self._handler.attached(link)
        else:
            link.refuse(TOO_MANY, f"there are {most} links already (amqp.links_max)")
        if len(self._links) > 2 * most:  # a peer that doesn't detach them would attach ever more
            self._connection.close(TOO_MANY, "too many refused links that aren't detached")

    def _left(self, link: Link | None, *, closed: bool) -> None:
        if link is None:
            return
        link.left = True
        if not link.ended:
            _end((link,), proton.pn_link_remote_condition(link.proton._impl))
            self._handler.detached(link, closed)
        else:
            self.forget(link)  # the answer to our own detach

    def _session_closed(self, session: Any) -> None:
        gone = address(session)
        links = tuple(link for link in self._links.values() if link.session == gone)
        _end(links, proton.pn_session_remote_condition(session))
        self._die(links)
        self.lose_some()
        self._peers.session_ended(gone)
        answer = partial(self._answer_end, session)
        self._handler.ended(links, lambda late: self._connection.attempt(partial(answer, late)))

    def _answer_end(self, session: Any, late: str) -> None:
        """Answer a session's end. `session` is the engine's: a Python object would outlive it."""
        if self._connection.alive:
            ended = endpoint_answers.wrapped(Session, session)
            endpoint_answers.closed(ended, late)
            ended.free()
            self._connection.touch()

    def closed(self) -> None:
        """The connection has ended, and its links before it. May be called again."""
        self._peers.closed()

    def lose_all(self) -> None:
        """Mark all links as lost with their connection; `lose_some` releases them."""
        self._die(self.links)

    def _die(self, links: Iterable[Link]) -> None:
        """Mark links as lost, all before the first is released: its release may look at others."""
        for link in links:
            link.alive = False
            self._drop_link(link)
        self._lost += links

    def lose_some(self, *, at_once: bool = True) -> bool:
        """Release all lost links, or a few of them; return whether there are more. Raises
        NotGivenBack."""
        lost = self._lost
        for _ in range(len(lost) if at_once else min(len(lost), LOST_AT_ONCE)):
            link = lost.popleft()
            link.let_go()
            link.release()
        return bool(lost)

    def let_go(self, link: Link) -> None:
        """Have the service release its state of a link. Raises NotGivenBack."""
        try:
            self._handler.lost(link)
        except Exception as error:
            raise NotGivenBack(f"what link '{link.name}' had is lost: {error!r}") from error

    def forget(self, link: Link) -> None:
        """Free a link that both sides have ended: the engine wouldn't, and would leak memory."""
        if link.alive:
            self._drop_link(link)
            link.proton.free()
            link.release()

    def _drop_link(self, link: Link) -> None:
        self._links.pop(link.address, None)
        self._ends.ended += 1
        self._connection.outflow.forget(link.address)
        if self._handles.get(link.handle) is link:  # its peer may have used the handle again
            del self._handles[link.handle]


def _end(links: Iterable[Link], condition: Any) -> None:
    """Note of links that the peer ends whether its frame names no error (`ended_well`)."""
    for link in links:
        link.ended_well = not proton.pn_condition_is_set(condition)
