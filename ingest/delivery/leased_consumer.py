"""A leased consumer: it takes sequences and no bytes, as its client reads the messages in the
table.

To the delivery service it is a link like any other: it has credit, gets runs in its turn, and ends.
Its peer is a *holder*, a name that the client chooses and that outlives a connection. After the
connection is lost, the holder's sequences stay in flight for the time that the client asked for, so
that it can come back for them.
"""

import asyncio
from array import array

from distributary.ingest.native.link_in_flight import Deliveries
from distributary.ingest.net.link import Link, Peer
from distributary.pipeline.amqp.performative import WalkedAttach
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.transitions import WITHOUT_STATE, DeliveryState
from distributary.pipeline.sequences.gathering import gathered
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet

#: Bytes for which a sequence counts, of those that a subscription hands out in one pass.
SEQUENCE_BYTES = 8


class LeasedConsumer(Link):
    """The lease of one holder on one subscription. `asked_by` is the link by which its client
    sends requests, None while the connection is lost."""

    __slots__ = (
        "_fresh",
        "_fresh_since",
        "_granted",
        "_handed",
        "_since",
        "asked_by",
        "changed",
        "holder",
        "linger_ms",
        "reason",
        "sure",
        "timer",
        "user",
    )

    def __init__(
        self, asked_by: Link, holder: str, name: str, sure: "asyncio.Future[None]"
    ) -> None:
        self.connection: Peer = asked_by.connection
        self.attach = WalkedAttach(b"", 0, 0, name, frozenset(), None)
        self.name = name
        self.address = self.session = 0
        self.message_bytes_max = 0
        self.offered_capabilities = ()
        self.alive, self.ended, self.left, self.gone = True, False, False, False
        self.ended_well = False
        self.outcomes_in = self.unburied = 0
        self.delivery_count = self.waiting = 0
        self.keeper, self._then = asked_by.keeper, None
        self.owner = self.parts = None
        self.asked_by: Link | None = asked_by
        self.holder, self.user = holder, asked_by.connection.user
        self.linger_ms = 0
        #: Done when it is durable that its subscription has a consumer; it gets nothing before.
        self.sure = sure
        self.timer: asyncio.TimerHandle | None = None
        #: Set whenever it has got sequences, or has ended.
        self.changed = asyncio.Event()
        #: Why the lease was ended from our side.
        self.reason = ""
        self._granted = 0
        self._handed: list[tuple[Run, int]] = []
        #: Sequences that no answer has had yet, and the time of the last run.
        self._fresh, self._fresh_since = SequenceSet(), 0
        self._since: dict[int, SequenceSet] = {}  #: time of delivery -> sequences

    # The interface of a link to the service.

    @property
    def handle(self) -> tuple[int, int]:
        return 0, 0

    @property
    def default_outcome(self) -> DeliveryState:
        return WITHOUT_STATE

    @property
    def is_outgoing(self) -> bool:
        return True

    @property
    def sends_settled(self) -> bool:
        return False

    @property
    def credit(self) -> int:
        return self._granted if self.asked_by is not None else 0

    @property
    def draining(self) -> bool:
        return False

    def send(
        self,
        batch: RecordBatch,  # noqa: ARG002
        run: Run,
        delivery_count: int,
        delivered_at: int,
        presettled: bool,  # noqa: ARG002
    ) -> int:
        """Take a run of sequences; no byte is sent."""
        self._granted -= len(run)
        self.took(run, delivery_count, delivered_at)
        return SEQUENCE_BYTES * len(run)

    def detach(
        self,
        *,
        closed: bool,  # noqa: ARG002
        condition: str = "",  # noqa: ARG002
        description: str = "",
    ) -> None:
        """End the lease from our side; its client is told when it asks for more."""
        self.alive, self.ended, self.reason = False, True, description
        self.changed.set()

    def release(self) -> None:
        self.alive = False
        self.changed.set()

    def in_flight(self) -> Deliveries:
        self._date()
        sequences, times = array("Q"), array("Q")
        for delivered_at in sorted(self._since):
            for run in self._since[delivered_at].runs():
                sequences.extend(run)
                times.extend([delivered_at] * len(run))
        return sequences, times

    # The interface to its holder.

    def grant(self, credit: int) -> None:
        """Set how many more sequences it takes."""
        self._granted = credit

    def took(self, run: Run, delivery_count: int, delivered_at: int) -> None:
        """Add sequences that are in flight to it since `delivered_at` (microseconds)."""
        self.delivery_count += len(run)
        self._handed.append((run, delivery_count))
        self._fresh.add(run)
        self._fresh_since = max(self._fresh_since, delivered_at)
        self.changed.set()

    def handed(self) -> list[tuple[Run, int]]:
        """Return the runs that were added since the last call, each with its failed attempts."""
        self._date()
        found, self._handed = self._handed, []
        return found

    def _date(self) -> None:
        """Give all sequences of one answer one time, that of their last run: fewer times make fewer
        records. An outcome applies to deliveries of its time or before."""
        if self._fresh:
            had = self._since.setdefault(self._fresh_since, SequenceSet())
            for run in self._fresh.runs():
                had.add(run)
            self._fresh, self._fresh_since = SequenceSet(), 0

    def ending(self, run: Run) -> list[tuple[int, Run]]:
        """Remove those of these sequences that are in flight to it; return (time of delivery, run)
        of each part."""
        self._date()
        found: list[tuple[int, Run]] = []
        for delivered_at in [*self._since]:
            had = self._since[delivered_at]
            parts = [run] if had.contains_all(run) else _common(had, run)
            for part in parts:
                had.discard(part)
                found.append((delivered_at, part))
            if not had:
                del self._since[delivered_at]
        return found


def _common(had: SequenceSet, run: Run) -> list[Run]:
    if isinstance(run, range) and run.step == 1:
        return list(gathered(had.runs_within(run.start, run.stop), len(run)))
    found = array("q", [one for one in run if one in had])
    return [found] if found else []
