"""Part of a producer's link: its messages for another gateway's log, where its messages name their
topics or its topic is partitioned.

The client's link is the gateway's own; its credit comes back with the outcomes.

Rule: where a log takes no messages, those for it are rejected, each by itself, and the link goes on
      for other logs. The link ends where a rejection would hide a loss or be a guess: if messages
      were sent settled, or an owner got messages and gave no outcome.
"""

from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from distributary.ingest.native import pump as pumping
from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net.link import Link
from distributary.ingest.relaying.relayed_producer import RelayedProducer
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.header_attributes import PRIORITY
from distributary.pipeline.subscriptions.attach_intent import Attach

#: A link whose messages name their destinations, or whose topic is given beside this attach.
UNNAMED = Attach(
    name="",
    outgoing=False,
    present=True,
    coordinator=False,
    dynamic=False,
    address=None,
    durable=False,
    copy=False,
    capabilities=frozenset(),
    desired=frozenset(),
    filters=(),
    selectors=(),
)


class RelayedPart(RelayedProducer):
    """All messages of one client's link that go to one log."""

    _unheard = False  #: settled messages went to this owner, so their outcomes stay unknown

    @property
    def over(self) -> bool:
        """Whether it sends no more messages; a new part may."""
        return self._over

    def _make(self, session: Any) -> Any:
        self._unheard = False
        return super()._make(session)

    def _fail(self, condition: str, text: str) -> None:
        """Reject the waiting messages or end the link, by the rule above."""
        in_doubt = any(run.settled or run.again for run in self._waiting)
        if in_doubt or self._sent or self._unheard:
            super()._fail(condition, text)
            return
        self._for_client(partial(self._reject, AmqpError(condition, text)))
        self._finish()

    def _reject(self, reason: AmqpError) -> None:
        """Reject the waiting messages, none of which was sent."""
        for run in tuple(self._waiting):
            if run.work is not None:
                run.work.spoil(reason)  # nearly always this drops the whole run
        while self._waiting:
            run = self._waiting.popleft()
            self._waiting_count -= run.left
            if run.work is not None:
                self._drop_run(run.work, run)
                continue
            self._held.remove(run.size)
            reject(self._link, run.deliveries.tobytes(), run.left, run.left, reason)

    def _answer(self) -> None:
        """Do nothing: the client's link is open."""

    def _end(self, condition: str, text: str) -> None:
        """End the client's link, which is open whether this owner has answered or not."""
        self._link.end(condition, text)

    def _grant(self, most: int) -> None:
        """Do nothing: the client's credit is the gateway's own, messages beyond the owner's credit
        wait here."""

    def _settle(self, outcomes: Outcomes) -> None:
        super()._settle(outcomes)
        self._give_credit(len(outcomes.run))

    def _sent_settled(self, count: int) -> None:
        self._unheard = True
        self._give_credit(count)

    def _give_credit(self, count: int) -> None:
        if not self._link.ended:
            self._link.grant(count)

    def _refused(self, count: int) -> None:
        self._give_credit(count)

    def detached(self, *, closed: bool) -> None:
        """Have the answer to the client's detach wait for the end of this part: by then the owner
        has the messages that were sent settled."""
        self._link.waiting += 1
        super().detached(closed=closed)

    def _detach(self, condition: str, text: str) -> None:
        """The owner has all messages, or (`condition`) no owner takes the rest."""
        if condition:
            self._link.end(condition, text)
        elif self._link.alive and not self._link.ended:
            self._link.answered(1)


class RelayedParts:
    """The parts of one link, by the log."""

    def __init__(self) -> None:
        self.of: dict[str, RelayedPart] = {}

    def take(self, log: str) -> RelayedPart | None:
        """Return the part that sends to this log. Failed parts are forgotten: a client may name any
        number of gateways that are gone."""
        part = self.of.get(log)
        if part is None or part.over:
            self.of = {log: one for log, one in self.of.items() if not one.over}
            return None
        return part

    def left(self, *, waits: bool) -> None:
        """End the parts with their link; `waits`: its peer waits for an answer. Failed parts have
        ended."""
        for part in [one for one in self.of.values() if not one.over]:
            if waits:
                part.detached(closed=True)
            else:
                part.left()


def reject(link: Link, deliveries: bytes, count: int, unsettled: int, reason: AmqpError) -> None:
    """Reject `count` messages that go to no log, of which `unsettled` wait for an outcome. The link
    ends only if some of them were sent settled: nothing else would tell the client."""
    pumping.reject(deliveries, reason.condition, reason.description)
    link.connection.touch()
    link.answered(unsettled)
    if unsettled < count:
        link.end(reason.condition, reason.description)
    elif not link.ended:
        link.grant(count)


def settled_message(link: int, data: bytes) -> Received:
    """Return one message that was sent settled, as if it had come on a link."""
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


def divided(received: Received, logs: Sequence[str], own: str) -> dict[str, Received]:
    """Return the messages of a run by the log of each. Runs of other logs have only the fields that
    are passed on."""
    places: dict[str, list[int]] = {}
    for nth, log in enumerate(logs):
        places.setdefault(log, []).append(nth)
    if len(places) == 1:
        return {logs[0]: received}
    offsets = array("i", bytes(pumping.offsets(received.lengths, received.count)))
    return {
        log: _own(received, offsets, there) if log == own else _passed_on(received, offsets, there)
        for log, there in places.items()
    }


def _passed_on(received: Received, offsets: "array[int]", places: Sequence[int]) -> Received:
    """Return bytes and deliveries of the messages at these places."""
    blob = received.blob
    deliveries = _picked(received.deliveries, "Q", places)
    return Received(
        link=received.link,
        count=len(places),
        blob=b"".join([blob[offsets[one] : offsets[one + 1]] for one in places]),
        lengths=_picked(received.lengths, "I", places),
        durable=b"",
        priority=b"",
        ttl=b"",
        deliveries=deliveries,
        unsettled=sum(map(bool, memoryview(deliveries).cast("Q"))),
        to_at=b"",
        to_size=b"",
        transaction=received.transaction,
    )


def _own(received: Received, offsets: "array[int]", places: Sequence[int]) -> Received:
    """Return all fields of the messages at these places."""
    return replace(
        _passed_on(received, offsets, places),
        durable=_picked(received.durable, "B", places),
        priority=_picked(received.priority, "B", places),
        ttl=_picked(received.ttl, "I", places),
        to_at=_picked(received.to_at, "I", places),
        to_size=_picked(received.to_size, "I", places),
        id_at=_picked(received.id_at, "I", places),
        id_size=_picked(received.id_size, "I", places),
        expires_at=_picked(received.expires_at, "q", places),
        deliver_at=_picked(received.deliver_at, "q", places),
        plain=received.plain,
    )


def _picked(column: bytes, code: str, places: Sequence[int]) -> bytes:
    """Return a column's numbers at these places; empty where the column is left out."""
    if not column:
        return b""
    numbers = memoryview(column).cast("B").cast(code)  # type: ignore[call-overload]
    return array(code, [numbers[one] for one in places]).tobytes()
