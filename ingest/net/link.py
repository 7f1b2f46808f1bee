"""One link, and the connection of its peer, as the service uses them. Both hide Proton: the service
sees runs of messages, outcomes of runs, credit."""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from cproton import lib as proton
from proton import (
    UNDESCRIBED,
    Array,
    Condition,
    Data,
    Endpoint,
    Terminus,
    symbol,
    ulong,
)
from proton import Link as ProtonLink

from distributary.ingest.native import pump as pumping
from distributary.ingest.native.link_in_flight import Deliveries, in_flight
from distributary.ingest.native.outgoing import Outgoing
from distributary.ingest.native.pump import address
from distributary.ingest.native.pump_library import lib
from distributary.ingest.native.runs import Outcomes
from distributary.ingest.net.frames.frame_scanner import Outflow
from distributary.ingest.net.termini import copy_plainly, described
from distributary.pipeline.amqp.delivery_state import OUTCOMES
from distributary.pipeline.amqp.performative import DEFAULT_OUTCOME, LINK, OFFERED, WalkedAttach
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.transitions import WITHOUT_STATE, DeliveryState
from distributary.pipeline.sequences.sequence_set import Run

#: Delivery states without further fields: nearly all.
_OUTCOMES = {code: DeliveryState(outcome) for code, outcome in OUTCOMES.items()}


class Peer(Protocol):
    """The connection of a link, as the service and the engine see it: `Connection` is one."""

    accepted: bool
    closing: bool  #: we have closed it: of the peer's frames only its close still counts
    broken: bool  #: work for this peer has raised a bug, and the peer is about to end
    container: str
    sole: bool  #: it desires to be the only connection with this container id
    user: str
    peer: str  #: its address
    through: str  #: the container id of the gateway that relays it; empty: none does
    outflow: Outflow
    outgoing: Outgoing

    @property
    def client(self) -> "Peer":
        """The client: itself, or the client of this gateway whose links it relays to itself."""

    @property
    def alive(self) -> bool:
        """Whether its links can live."""

    @property
    def writable(self) -> bool:
        """Whether its peer reads what is written to it."""

    @property
    def inbound(self) -> "LinkKeeper":
        """Its links."""

    def accept(self, container_id: str) -> None:
        """Answer the peer's open."""

    def refuse(self, container_id: str, condition: str, description: str, field: str) -> None:
        """Answer the open in the form by which clients know that they were refused."""

    def close(self, condition: str, description: str) -> None:
        """End the connection with an error; its links are lost at once."""

    def abort(self) -> None:
        """Drop the socket now."""

    def hold(self, on: bool, by: object, /) -> None:
        """Stop reading from this peer for `by`, a part of the gateway, or have that part let it go
        on: it is read while no part holds it."""

    def attempt(self, work: Callable[[], None], /) -> None:
        """Do work for this peer that others' work has caused: an exception ends this peer alone."""

    def broke(self, error: Exception) -> None:
        """End the peer for a bug that its work has raised."""

    def touch(self) -> None:
        """Note that there may be something to write to it."""

    def flush(self) -> None:
        """Write the bytes that the engine has for it."""

    def go_on(self) -> None:
        """Go on with its input: its next turn has come."""

    def leave(self, at_once: bool, /) -> None:
        """Release the state of its next links, or (`at_once`) of all: the connection is lost."""


class LinkKeeper(Protocol):
    """All links of one connection: `Inbound` is one."""

    @property
    def links(self) -> "tuple[Link, ...]":
        """The links that are alive."""

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of messages that their peer has begun and not finished, as of its last read."""

    @property
    def takes_more(self) -> bool:
        """Whether more deliveries may go to the links."""

    def sent(self, deliveries: int) -> None:
        """Count deliveries that were sent and that the peer has to settle."""

    def let_go(self, link: "Link") -> None:
        """Have the service release its state of a link. Raises NotGivenBack."""

    def forget(self, link: "Link") -> None:
        """Both sides have ended the link: free it."""


class Link:
    """One link of a connection. `alive` ends with the link; then only `owner` is of use."""

    __slots__ = (
        "_engine_link",
        "_then",
        "address",
        "alive",
        "attach",
        "connection",
        "delivery_count",
        "ended",
        "ended_well",
        "gone",
        "keeper",
        "left",
        "message_bytes_max",
        "name",
        "offered_capabilities",
        "outcomes_in",
        "owner",
        "parts",
        "proton",
        "session",
        "unburied",
        "waiting",
    )

    def __init__(
        self, connection: Peer, keeper: LinkKeeper, link: ProtonLink, attach: WalkedAttach
    ) -> None:
        self.connection = connection
        self.keeper = keeper
        self.attach = attach
        self.proton = link
        self.address = address(link._impl)
        self._engine_link = self.address  #: until `release`
        self.session = address(link.session._impl)
        self.name: str = link.name
        #: Most bytes that the peer of an outgoing link takes in one message; 0: no limit.
        self.message_bytes_max = int(proton.pn_link_remote_max_message_size(link._impl))
        #: The link's capabilities beyond the connection's; to be set before `open`.
        self.offered_capabilities: tuple[str, ...] = ()
        self.alive = True
        #: Of an outgoing link: deliveries handed to the engine, and credit given back unused.
        self.delivery_count = 0
        #: We have ended or refused it; later frames of its peer are ignored.
        self.ended = False
        #: The peer has detached or closed it.
        self.left = False
        #: Its peer has ended it, its session or its connection, and named no error: then no
        #: application has seen the unsettled deliveries (AMQP 1.0 part 2, section 2.6.4).
        self.ended_well = False
        #: The service has released its state of the link.
        self.gone = False
        #: Deliveries whose outcome we still owe to the peer.
        self.waiting = 0
        #: The group of the log with its peer's last outcome (0: none), and the number of its
        #: outcomes that wait for the copies of messages which they have given up.
        self.outcomes_in = self.unburied = 0
        self._then: Callable[[], None] | None = None
        #: The service's object for this link; and the relays' object for its parts in other logs.
        self.owner: object | None = None
        self.parts: object | None = None

    def release(self) -> None:
        """Free Proton's object of an ended link, here and now.

        The collector of cycles would give it back on any thread, and after its session: Proton
        frees such a link twice.
        """
        self.alive = False
        del self.proton, self._engine_link

    @property
    def handle(self) -> tuple[int, int]:
        """The channel and handle that its peer uses for the link."""
        return self.attach.channel, self.attach.handle

    @property
    def desired_capabilities(self) -> frozenset[str]:
        """The capabilities that the peer desires (AMQP 1.0 part 2, section 2.7.3)."""
        return self.attach.desired

    @property
    def default_outcome(self) -> DeliveryState:
        """The outcome of a delivery that its peer settles without a state: the source's default
        outcome (AMQP 1.0 part 3, section 3.5.3), else the same as for JMS clients."""
        return self.attach.default_outcome or WITHOUT_STATE

    def delivery_state(self, outcomes: Outcomes) -> DeliveryState:
        """Return the delivery state that its peer gave to these deliveries."""
        if outcomes.state == 0:
            return self.default_outcome
        if not (outcomes.failed or outcomes.undeliverable):
            return _OUTCOMES[outcomes.state]
        return DeliveryState(OUTCOMES[outcomes.state], outcomes.failed, outcomes.undeliverable)

    @property
    def is_outgoing(self) -> bool:
        return bool(self.proton.is_sender)

    @property
    def sends_settled(self) -> bool:
        """Whether the peer of an outgoing link wants its messages settled already."""
        return bool(self.proton.remote_snd_settle_mode == ProtonLink.SND_SETTLED)

    @property
    def credit(self) -> int:
        return int(lib.pump_credit(self._engine_link))

    @property
    def unsettled(self) -> int:
        """The number of deliveries that the engine keeps until both sides have settled them."""
        return int(lib.pump_unsettled(self._engine_link))

    @property
    def queued(self) -> int:
        """The number of deliveries in the engine that wait for the peer's window or a write."""
        return int(lib.pump_queued(self._engine_link))

    @property
    def writable(self) -> bool:
        """Whether its peer takes what is sent on it: by its socket, and its session's window."""
        return self.connection.writable and self.session not in self.connection.outgoing.full

    @property
    def takes_more(self) -> bool:
        """Whether more deliveries may go to it, as far as its connection is concerned."""
        return self.keeper.takes_more and self.writable

    @property
    def draining(self) -> bool:
        return bool(lib.pump_draining(self._engine_link))

    def open(self) -> None:
        """Answer the attach with the termini that the caller has set or copied."""
        carried: dict[symbol, Any] = {}
        if self.offered_capabilities:
            array: Any = Array  # its type annotations are too narrow
            offered = map(symbol, self.offered_capabilities)
            carried[symbol(OFFERED)] = array(UNDESCRIBED, Data.SYMBOL, *offered)
        if self.is_outgoing:
            carried[symbol(DEFAULT_OUTCOME)] = described(self.default_outcome)
            carried[symbol(LINK)] = ulong(self.address)
        if carried:
            self.proton.properties = carried
            self.connection.outflow.due = True
        self.proton.open()
        self.connection.touch()

    def let_go(self) -> None:
        """Have the service release its state of the link, whatever ends the link. Raises
        NotGivenBack."""
        if not self.gone:
            self.gone = True
            self.keeper.let_go(self)

    def refuse(self, condition: str, description: str) -> None:
        """Attach with a null terminus, then detach closed with the error (AMQP 1.0 part 2,
        section 2.6.3)."""
        self.let_go()
        self.ended = True
        self.connection.attempt(partial(self._say_refused, condition, description))

    def _say_refused(self, condition: str, description: str) -> None:
        link = self.proton
        if link.is_sender:
            copy_plainly(link.target, link.remote_target)
            link.source.type = Terminus.UNSPECIFIED
        else:
            copy_plainly(link.source, link.remote_source)
            link.target.type = Terminus.UNSPECIFIED
        link.open()
        link.condition = Condition(condition, description)
        link.close()
        self.connection.touch()

    def end(self, condition: str, description: str) -> None:
        """End the link from our side, unless it has ended, and tell its peer why. It is freed when
        the peer has ended it, too. Raises NotGivenBack."""
        if self.alive and not self.ended:
            self.let_go()
            self.detach(closed=True, condition=condition, description=description)

    def detach(self, *, closed: bool, condition: str = "", description: str = "") -> None:
        """Send the detach of a link that was let go: the answer to its peer's, or our own."""
        self.ended = True
        said = partial(self._say_detached, condition, description, closed=closed)
        self.connection.attempt(said)

    def _say_detached(self, condition: str, description: str, *, closed: bool) -> None:
        link = self.proton
        if link.state & Endpoint.LOCAL_UNINIT:
            link.open()  # the peer left before it had an answer
        if link.state & Endpoint.LOCAL_ACTIVE:
            if condition:
                link.condition = Condition(condition, description)
                link._update_cond()  # Proton's detach() would forget it
            (link.close if closed else link.detach)()
        if self.left:
            self.keeper.forget(self)
        self.connection.touch()

    def grant(self, credit: int) -> None:
        """Let the sender of an incoming link send this many messages more."""
        lib.pump_grant(self._engine_link, credit)
        self.connection.touch()

    def drained(self) -> None:
        """All available messages were sent: give the rest of the credit back (AMQP 1.0 part 2,
        section 2.6.7)."""
        self.delivery_count += int(proton.pn_link_drained(self.proton._impl))
        self.connection.touch()

    def tell(self) -> None:
        """Tell the peer the link's state; the engine's bytes must all be written before."""
        if not self.proton.state & Endpoint.LOCAL_ACTIVE:
            return  # the attach or detach tells it
        if self.is_outgoing:
            self.connection.outflow.tell(
                self.address,
                self.delivery_count - self.queued,
                max(self.credit + self.queued, 0),
                drain=self.draining,
            )
        pumping.echo(self.session, 0 if self.is_outgoing else self.address)

    def send(
        self, batch: RecordBatch, run: Run, delivery_count: int, delivered_at: int, presettled: bool
    ) -> int:
        """Send a run of a batch's messages; the caller has made sure of the credit.
        `delivered_at` (microseconds) comes back with their outcomes. Returns how many bytes of
        messages were sent."""
        self.connection.touch()
        self.delivery_count += len(run)
        send = self.connection.outgoing.send
        sent = send(self.address, batch, run, delivery_count, delivered_at, presettled)
        if not presettled:
            self.keeper.sent(len(run))
        return sent

    def in_flight(self) -> Deliveries:
        """Return the deliveries of an outgoing link that have no outcome, with their tokens."""
        return in_flight(self.address)

    def answered(self, count: int) -> None:
        """Count deliveries that waited for their outcome and have it now."""
        self.waiting -= count
        if not self.waiting and self._then is not None:
            then, self._then = self._then, None
            self.connection.attempt(then)

    def when_answered(self, then: Callable[[], None]) -> None:
        """Call `then` when no delivery waits for its outcome, perhaps at once: the peer gets each
        outcome before the end of its link."""
        if self.waiting:
            self._then = then
        else:
            then()

    def later(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return a callback that does `work` for this link's peer: an exception ends this peer
        alone."""
        return partial(self.connection.attempt, work)
