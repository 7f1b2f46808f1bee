"""What of a link without an address goes to another gateway's log: its messages name where.

The client's link is the gateway's own; its credit comes back with the outcomes.
"""

from array import array
from collections.abc import Sequence
from itertools import groupby

from distributary.ingest.native import pump as pumping
from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.relaying.relayed_producer import RelayedProducer
from distributary.pipeline.model.header_attributes import PRIORITY


class RelayedPart(RelayedProducer):
    """All messages of one client's link that go to one log."""

    def _answer(self) -> None:
        """The client's link is open."""

    def _grant(self, most: int) -> None:
        """The owner's credit isn't the client's: what is more waits here."""

    def _settle(self, outcomes: Outcomes) -> None:
        super()._settle(outcomes)
        self._give_credit(len(outcomes.run))

    def _sent_settled(self, count: int) -> None:
        self._give_credit(count)

    def _give_credit(self, count: int) -> None:
        if not self._link.ended:
            self._link.grant(count)

    def _refused(self, count: int) -> None:
        self._give_credit(count)

    def _detach(self, condition: str, text: str) -> None:  # noqa: ARG002 (the client isn't told)
        """The client's link is answered when all of its messages are."""
        if not self._over:
            self._finish()


def settled_message(link: int, data: bytes) -> Received:
    """One message that was sent settled, as if it had come on a link."""
    nothing, size = bytes(4), array("I", [len(data)]).tobytes()
    return Received(
        link=link,
        count=1,
        blob=data,
        lengths=size,
        durable=bytes(1),
        priority=bytes([PRIORITY]),
        ttl=nothing,
        deliveries=bytes(8),
        unsettled=0,
        to_at=nothing,
        to_size=nothing,
    )


def divided(received: Received, logs: Sequence[str]) -> dict[str, Received]:
    """The messages of a run by the log of each."""
    offsets = array("i", bytes(pumping.offsets(received.lengths, received.count)))
    places: dict[str, list[range]] = {}
    start = 0
    for log, group in groupby(logs):
        stop = start + sum(1 for _ in group)
        places.setdefault(log, []).append(range(start, stop))
        start = stop
    if len(places) == 1:
        return {logs[0]: received}
    return {log: _of(received, offsets, there) for log, there in places.items()}


def _of(received: Received, offsets: "array[int]", places: Sequence[range]) -> Received:
    """The messages at these places."""

    def cut(column: bytes, width: int) -> bytes:
        if not column:
            return b""
        return b"".join(column[width * one.start : width * one.stop] for one in places)

    deliveries = cut(received.deliveries, 8)
    return Received(
        link=received.link,
        count=sum(map(len, places)),
        blob=b"".join(received.blob[offsets[one.start] : offsets[one.stop]] for one in places),
        lengths=cut(received.lengths, 4),
        durable=cut(received.durable, 1),
        priority=cut(received.priority, 1),
        ttl=cut(received.ttl, 4),
        deliveries=deliveries,
        unsettled=sum(map(bool, memoryview(deliveries).cast("Q"))),
        to_at=cut(received.to_at, 4),
        to_size=cut(received.to_size, 4),
        id_at=cut(received.id_at, 4),
        id_size=cut(received.id_size, 4),
        expires_at=cut(received.expires_at, 8),
        deliver_at=cut(received.deliver_at, 8),
        transaction=received.transaction,
        plain=received.plain,
    )
