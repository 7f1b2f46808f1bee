"""One link, and the connection of its peer: what the service acts on. Both hide Proton: the service
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
    Described,
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
from distributary.pipeline.amqp.delivery_state import OUTCOMES
from distributary.pipeline.amqp.performative import DEFAULT_OUTCOME, LINK, OFFERED, WalkedAttach
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.transitions import WITHOUT_STATE, DeliveryState
from distributary.pipeline.sequences.sequence_set import Run

#: Delivery states without more: nearly all.
_OUTCOMES = {code: DeliveryState(outcome) for code, outcome in OUTCOMES.items()}


def copy_plainly(terminus: Terminus, remote: Terminus) -> None:
    """The numbers and texts of a terminus. No other value of a peer's is ever sent back as it
    came: it may be no AMQP at all, and what the engine can't write would end the process."""
    terminus.copy(remote)
    for data in (terminus.properties, terminus.capabilities, terminus.outcomes, terminus.filter):
        data.clear()


class Peer(Protocol):
    """The connection of a link, as the service and the engine see it: `Connection` is one."""

    accepted: bool
    closing: bool  #: we have closed it: nothing counts any more but the peer's own close
    broken: bool  #: a bug has shown with this peer, and it is about to end for it
    container: str
    sole: bool  #: its peer desires to be the only one with this container id
    user: str
    peer: str  #: its address
    through: str  #: the container id of the gateway that relays it, if one does
    outflow: Outflow
    outgoing: Outgoing

    @property
    def client(self) -> "Peer":
        """Whose it is: itself, or the client of this gateway that comes to it by its own relay."""

    @property
    def alive(self) -> bool:
        """Whether its links can live."""

    @property
    def writable(self) -> bool:
        """Whether it takes what is written to it."""

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

    def hold(self, on: bool, /) -> None:
        """Stop reading from this peer, or go on."""

    def attempt(self, work: Callable[[], None], /) -> None:
        """Do something for this peer on behalf of others: what it raises is its own."""

    def broke(self, error: Exception) -> None:
        """A bug that shows with this peer: it ends."""

    def touch(self) -> None:
        """There may be something to write to it."""

    def flush(self) -> None:
        """Write what the engine has for it."""

    def go_on(self) -> None:
        """Its next turn has come."""

    def leave(self, at_once: bool, /) -> None:
        """It is lost: what the next of its links had goes back, or what all of them had."""


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
        """So many more went that the peer has to settle."""

    def let_go(self, link: "Link") -> None:
        """Have the service give back what it has for a link. Raises NotGivenBack."""

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
        self._engine_link = self.address  #: as long as the engine has it
        self.session = address(link.session._impl)
        self.name: str = link.name
        #: What the peer of an outgoing link takes in one message; 0: whatever there is.
        self.message_bytes_max = int(proton.pn_link_remote_max_message_size(link._impl))
        #: What this link can do beyond the connection's; to be set before `open`.
        self.offered_capabilities: tuple[str, ...] = ()
        self.alive = True
        #: Of an outgoing link: deliveries handed to the engine, and credit given back unused.
        self.delivery_count = 0
        #: We have ended it, or never wanted it; what its peer still says counts no more.
        self.ended = False
        #: The peer has detached or closed it.
        self.left = False
        #: Its peer has ended it, its session or its connection, and named no error: what it holds
        #: then no application has seen, or it would have said so (AMQP 1.0 part 2, section 2.6.4).
        self.ended_well = False
        #: The service has nothing for it any more.
        self.gone = False
        #: Deliveries whose outcome we still owe to the peer.
        self.waiting = 0
        #: The group of the log in which its peer's last outcome is (0: none), and how many of its
        #: outcomes wait for the copies of what they have given up.
        self.outcomes_in = self.unburied = 0
        self._then: Callable[[], None] | None = None
        #: The service's own object for this link; and the relays', for what of it goes elsewhere.
        self.owner: object | None = None
        self.parts: object | None = None

    def release(self) -> None:
        """The link has ended: give Proton's object back, here and now.

        The collector of cycles would give it back on any thread, and after its session: Proton
        frees such a link twice.
        """
        self.alive = False
        del self.proton, self._engine_link

    @property
    def handle(self) -> tuple[int, int]:
        """The channel and handle that its peer uses for it."""
        return self.attach.channel, self.attach.handle

    @property
    def desired_capabilities(self) -> frozenset[str]:
        """The capabilities that the peer desires (AMQP 1.0 part 2, section 2.7.3)."""
        return self.attach.desired

    @property
    def default_outcome(self) -> DeliveryState:
        """The outcome of a delivery that its peer settles without a state: what the source says
        (AMQP 1.0 part 3, section 3.5.3), else the same as for JMS clients."""
        return self.attach.default_outcome or WITHOUT_STATE

    def delivery_state(self, outcomes: Outcomes) -> DeliveryState:
        """The delivery state that its peer gave to these deliveries."""
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
        """How many deliveries the engine keeps, as not both sides have settled them."""
        return int(lib.pump_unsettled(self._engine_link))

    @property
    def queued(self) -> int:
        """How many deliveries wait in the engine, for the peer's window or to be written."""
        return int(lib.pump_queued(self._engine_link))

    @property
    def draining(self) -> bool:
        return bool(lib.pump_draining(self._engine_link))

    def open(self) -> None:
        """Answer the attach: the termini, set by the caller or copied, become the link."""
        carried: dict[symbol, Any] = {}
        if self.offered_capabilities:
            array: Any = Array  # its own types say less than it takes
            offered = map(symbol, self.offered_capabilities)
            carried[symbol(OFFERED)] = array(UNDESCRIBED, Data.SYMBOL, *offered)
        if self.is_outgoing:
            carried[symbol(DEFAULT_OUTCOME)] = _described(self.default_outcome)
            carried[symbol(LINK)] = ulong(self.address)
        if carried:
            self.proton.properties = carried
            self.connection.outflow.due = True
        self.proton.open()
        self.connection.touch()

    def let_go(self) -> None:
        """Give back all that the service has for the link, for whatever cause the link ends.
        Raises NotGivenBack."""
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
        """End the link from our side, unless it has ended, and tell its peer why. When the peer
        has ended it, too, it is forgotten. Raises NotGivenBack."""
        if self.alive and not self.ended:
            self.let_go()
            self.detach(closed=True, condition=condition, description=description)

    def detach(self, *, closed: bool, condition: str = "", description: str = "") -> None:
        """Say the link's end, when it is let go: the answer to its peer's detach, or what `end`
        says."""
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
        """Tell the peer the link's state; all that the engine had is written."""
        if not self.proton.state & Endpoint.LOCAL_ACTIVE:
            return  # the attach, or the detach, says it
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
        """What the peer of an outgoing link has and gave no outcome for, and the tokens of it."""
        return in_flight(self.address)

    def answered(self, count: int) -> None:
        """So many of the deliveries that waited have their outcome."""
        self.waiting -= count
        if not self.waiting and self._then is not None:
            then, self._then = self._then, None
            self.connection.attempt(then)

    def when_answered(self, then: Callable[[], None]) -> None:
        """Do this when no delivery waits for its outcome any more, at once if none does: the peer
        hears of every outcome before it hears the end of its link."""
        if self.waiting:
            self._then = then
        else:
            then()

    def later(self, work: Callable[[], None]) -> Callable[[], None]:
        """A callback that works for this link's peer: an exception in it ends this peer, and not
        its caller."""
        return partial(self.connection.attempt, work)


def _described(delivery_state: DeliveryState) -> Described:
    """An outcome as it stands in a source."""
    [code] = (code for code, outcome in OUTCOMES.items() if outcome is delivery_state.outcome)
    modified = delivery_state.outcome is Outcome.MODIFIED
    said = (delivery_state.failed, delivery_state.undeliverable)
    return Described(ulong(code), [*said] if modified else [])
