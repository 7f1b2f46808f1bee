"""A client's link that sends to a topic of another gateway's log.

Rule 1: an unsettled message is kept until the owner has given it an outcome: the client gets the
        same outcome, and none before.
Rule 2: a client has no more credit than the owner has given, less the messages that wait here.
Rule 3: where the owner is lost, messages without an outcome are sent to the next owner again, in
        their order and before later ones; but none of a transaction, which is lost with its owner.
"""

import sys
from array import array
from bisect import bisect_right
from collections import deque
from functools import partial
from typing import Any

from cproton import lib as proton

from distributary.client.connection.conditions import reason
from distributary.ingest.native import dispositions
from distributary.ingest.native import pump as pumping
from distributary.ingest.native.dispositions import AS_IT_CAME
from distributary.ingest.native.pump import address
from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net import termini, transactional
from distributary.ingest.net.link import Link
from distributary.ingest.relaying.held_bytes import SendersBytes
from distributary.ingest.relaying.owner_link import OwnerLink
from distributary.ingest.relaying.owners.owner_terms import OwnerTerms, open_producer
from distributary.ingest.relaying.owners.relayed_session import RelayedSession
from distributary.ingest.relaying.transactions.client_messages import ClientMessages, alike
from distributary.ingest.relaying.transactions.relayed_work import RelayedWork, RelayedWorks
from distributary.pipeline.lake.relayed_transaction import Step
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.subscriptions.attach_intent import offered
from distributary.pipeline.transactions.transaction import ILLEGAL_STATE

#: Any number but 0: the pump tells the outcomes of deliveries that have one.
_TOLD = 1
#: Bytes of messages that one turn of the loop hands to the owner's engine.
TURN_BYTES = 1 << 20


class RelayedProducer(OwnerLink):
    """See the rules above."""

    def __init__(
        self,
        link: Link,
        sessions: tuple[RelayedSession, ...],
        terms: OwnerTerms,
        held: SendersBytes,
        works: RelayedWorks,
        credit_max: int,
    ) -> None:
        """`credit_max`: messages that the client may send ahead of their outcomes."""
        super().__init__(link, sessions, terms)
        self._held, self._works, self._credit_max = held, works, credit_max
        self._next = 0  #: the number of the next message on this owner's link
        self._waiting: deque[ClientMessages] = deque()
        self._waiting_count = 0
        self._sent: list[ClientMessages] = []
        dispositions.accept_late(link.address)

    # The client's side.

    def received(self, received: Received) -> None:
        work = None
        if received.transaction:
            log = self.session.owner.log
            taken = self._works.take(self._link, received.transaction, log, self, received.count)
            if taken is None:
                return
            work, step = taken
            if step is Step.REFUSE:
                self._refuse(work, array("Q", received.deliveries), received.count)
                return
        self._held.add(self._link.connection, len(received.blob))
        offsets = array("i", bytes(pumping.offsets(received.lengths, received.count)))
        deliveries = array("Q", received.deliveries)
        for start, stop in alike(deliveries, received.unsettled):
            part = offsets[start : stop + 1], deliveries[start:stop]
            self._waiting.append(ClientMessages(received.blob, *part, work))
        self._waiting_count += received.count
        if self._wire is not None:
            self._wire.touch(self)

    def outcomes(self, outcomes: Outcomes) -> None:
        """Do nothing: the client receives no messages here."""

    def _left(self) -> None:
        runs = list({id(run): run for run in (*self._waiting, *self._sent)}.values())
        self._waiting.clear()
        self._sent.clear()
        self._waiting_count = 0
        for run in runs:
            self._held.remove(run.size)
            if run.work is not None:
                text = f"link '{self._link.name}' ended before the owner had all of its messages"
                run.work.spoil(AmqpError(ILLEGAL_STATE, text))
                run.work.answered(run.left)
        if self._link.alive:  # the answer to its detach waits for no more outcomes
            self._link.answered(sum(len(run.deliveries) - run.deliveries.count(0) for run in runs))

    @property
    def _goes_on(self) -> bool:
        return bool(self._waiting or self._sent)

    # The owner's side.

    def _make(self, session: Any) -> Any:
        self._next = 0
        return open_producer(session, self._link, self._terms)

    def _answer(self) -> None:
        link, topic = self._link, self._terms.topic
        if not link.alive or link.ended:
            return
        size = int(proton.pn_link_remote_max_message_size(self.pointer))
        termini.echo(link.proton, topic, message_bytes_max=size)
        link.offered_capabilities = offered(
            topic, outgoing=False, desired=link.desired_capabilities
        )
        link.open()

    def perform(self) -> None:
        """Send waiting messages, as many as the owner has given credit for, and give the client the
        rest of that credit."""
        if self.pointer is None or not self._ready:
            return
        room, credit = TURN_BYTES, int(proton.pn_link_credit(self.pointer))
        while self._waiting and credit > 0 and room > 0:
            run = self._waiting[0]
            if run.work is not None and not run.work.passing:
                break  # the owner has yet to say that it has the transaction
            count, size = self._send(run, credit)
            credit -= count
            room -= size
        if self._waiting and room <= 0 and self._wire is not None:
            self._wire.touch(self)
        if self._leaving is not None and not self._ending:
            self._end_there(closed=self._leaving)
        self._grant(credit - self._waiting_count)

    def _send(self, run: ClientMessages, credit: int) -> tuple[int, int]:
        """Send the next messages of the first waiting run; return how many, and their bytes."""
        begin = run.sent
        count = min(len(run.deliveries) - begin, credit)
        offsets = run.offsets[begin : begin + count + 1]
        first = self._next
        if not begin:
            run.first = first
            if not run.settled:
                self._sent.append(run)
        batch = RecordBatch(first, count, run.blob, offsets.tobytes())
        numbers = range(first, first + count)
        assert self._wire is not None  # noqa: S101
        send, link = self._wire.outgoing.send, address(self.pointer)
        transaction = 0 if run.work is None else run.work.there
        size = send(link, batch, numbers, AS_IT_CAME, _TOLD, run.settled, transaction)
        run.sent += count
        self._next += count
        self._waiting_count -= count
        if run.sent == len(run.deliveries):
            self._waiting.popleft()
            if run.settled:
                self._held.remove(run.size)
        if run.settled:
            self._sent_settled(count)
        return count, size

    def _sent_settled(self, count: int) -> None:
        """Count messages that were sent settled."""

    def _end_there(self, *, closed: bool) -> None:
        if not self._waiting:  # messages that wait for the owner's credit go before the end
            super()._end_there(closed=closed)

    def _grant(self, most: int) -> None:
        link = self._link
        if self._over or not link.alive or link.ended or self._leaving is not None:
            return
        more = min(most, self._credit_max) - link.credit
        if more > 0:
            link.grant(more)

    def settled(self, outcomes: Outcomes) -> None:
        if not self._over:
            self._for_client(lambda: self._settle(outcomes))
        pumping.settle(outcomes.confirm, 0)

    def _settle(self, outcomes: Outcomes) -> None:
        """Give the client the outcomes of the owner, run by run."""
        numbers, at, count = outcomes.run, 0, len(outcomes.run)
        whys = memoryview(outcomes.confirm).cast("Q") if outcomes.confirm else None
        answered = 0
        while at < count:
            nth = bisect_right(self._sent, numbers[at], key=lambda run: run.first) - 1
            run = self._sent[nth] if nth >= 0 else None
            if run is None or numbers[at] >= run.first + len(run.deliveries):
                at += 1  # its transaction is lost: its client has the outcome already
                continue
            stop = _stop(numbers, at, run.first + len(run.deliveries))
            there = whys and whys[at:stop]
            answered += self._give(run, numbers[at] - run.first, stop - at, outcomes, there)
            self._forget_answered(run)
            at = stop
        link = self._link
        link.connection.touch()
        link.answered(answered)

    def _give(
        self,
        run: ClientMessages,
        start: int,
        count: int,
        outcomes: Outcomes,
        whys: "memoryview[int] | None",
    ) -> int:
        """Give outcomes to a part of a run; return how many of the client's deliveries got one."""
        stop = start + count
        deliveries = run.deliveries[start:stop]
        run.deliveries[start:stop] = array("Q", bytes(8 * count))
        run.left -= count
        if run.work is not None:
            return _give_in(run.work, deliveries, outcomes, whys)
        if whys is not None and outcomes.state == pumping.REJECTED:
            for delivery, why in zip(deliveries, whys, strict=True):
                condition, text = reason(why)
                one = delivery.to_bytes(8, sys.byteorder)
                pumping.reject(one, condition or "amqp:internal-error", text)
            return count
        dispositions.dispose(
            deliveries,
            outcomes.state,
            failed=outcomes.failed,
            undeliverable=outcomes.undeliverable,
        )
        return count

    def _forget_answered(self, run: ClientMessages) -> None:
        if not run.left and run in self._sent:  # nearly always the first run
            self._sent.remove(run)
            self._held.remove(run.size)

    # Transactions.

    def pass_work(self, work: RelayedWork) -> None:  # noqa: ARG002 (whichever is the first to wait)
        if self._wire is not None:
            self._wire.touch(self)

    def give_back_work(self, work: RelayedWork) -> None:
        """Do nothing: a producer holds no deliveries."""

    def work_ended(self, work: RelayedWork) -> None:
        """Do nothing: all messages sent in the transaction have their outcome."""

    def drop_work(self, work: RelayedWork) -> None:
        if self._over or not self._link.alive:
            return
        unsent = [run for run in self._waiting if run.work is work]
        sent = [run for run in self._sent if run.work is work and run not in unsent]
        for run in unsent:
            self._waiting.remove(run)
            self._waiting_count -= len(run.deliveries) - run.sent
            if work.lost or not run.sent:
                self._drop_run(work, run)
            else:
                self._drop_rest(work, run)
        if work.lost:
            for run in sent:
                self._drop_run(work, run)
        if self._leaving is not None and self._wire is None and not self._goes_on:
            self._has_left("", "")
        elif self._wire is not None:
            self._wire.touch(self)

    def _drop_run(self, work: RelayedWork, run: ClientMessages) -> None:
        """Drop a run that no owner will give an outcome."""
        if run in self._sent:
            self._sent.remove(run)
        self._held.remove(run.size)
        self._refuse(work, run.deliveries, run.left)
        work.answered(run.left)

    def _drop_rest(self, work: RelayedWork, run: ClientMessages) -> None:
        """Drop the unsent messages of a run."""
        size, rest = run.size, run.deliveries[run.sent :]
        run.deliveries, run.offsets = run.deliveries[: run.sent], run.offsets[: run.sent + 1]
        run.left -= len(rest)
        self._held.remove(size - run.size)
        self._forget_answered(run)
        self._refuse(work, rest, len(rest))
        work.answered(len(rest))

    def _refuse(self, work: RelayedWork, deliveries: "array[int]", count: int) -> None:
        """Settle messages that can't be part of their transaction, `count` of them without an
        outcome: accepted if it is rolled back anyhow, else rejected with the reason."""
        link, waits = self._link, len(deliveries) - deliveries.count(0)
        if work.reason is None:
            transactional.settle_in(deliveries.tobytes(), work.number, pumping.ACCEPTED)
        else:
            said = work.reason.condition, work.reason.description
            transactional.reject_in(deliveries.tobytes(), work.number, *said)
        link.connection.touch()
        self._refused(count)
        link.answered(waits)

    def _refused(self, count: int) -> None:  # noqa: ARG002 (all of the link's credit is the owner's)
        """Messages don't wait any more: pass the owner's credit for them on to the client."""
        if self._wire is not None:
            self._wire.touch(self)

    def _owner_lost(self) -> None:
        """Queue unsettled messages again, by rule 3. Those sent settled are lost with the owner."""
        again: list[ClientMessages] = []
        for run in self._sent:
            if self._waiting and run is self._waiting[0]:  # it was sent in part
                self._waiting.popleft()
                self._waiting_count -= len(run.deliveries) - run.sent
            parts = run.unanswered()
            self._held.remove(run.size - sum(one.size for one in parts))
            if lost := run.left - sum(one.left for one in parts):  # sent settled, in a transaction
                self._for_client(partial(self._refused, lost))
            again += parts
        self._sent.clear()
        if self._waiting and self._waiting[0].settled:
            self._trim(self._waiting[0])
        self._waiting.extendleft(reversed(again))
        self._waiting_count += sum(len(run.deliveries) for run in again)

    def _trim(self, run: ClientMessages) -> None:
        """Cut the sent messages off a run that waits for no outcomes."""
        if run.sent:
            size = run.size
            run.deliveries, run.offsets = run.deliveries[run.sent :], run.offsets[run.sent :]
            run.sent = 0
            self._held.remove(size - run.size)


def _stop(numbers: Run, at: int, end: int) -> int:
    """Return where the numbers from `at` on stop to follow each other or reach `end`."""
    if isinstance(numbers, range) and numbers.step == 1:
        return min(len(numbers), at + end - numbers[at])
    stop = at + 1
    while stop < len(numbers) and numbers[stop] == numbers[stop - 1] + 1 and numbers[stop] < end:
        stop += 1
    return stop


def _give_in(
    work: RelayedWork,
    deliveries: "array[int]",
    outcomes: Outcomes,
    whys: "memoryview[int] | None",
) -> int:
    """Give the client's deliveries the owner's outcome in a transaction, under the client's number
    for that transaction; return how many deliveries got one."""
    if outcomes.state != pumping.ACCEPTED:
        why = [reason(one) for one in whys or ()] or [("", "")] * len(deliveries)
        for delivery, (condition, text) in zip(deliveries, why, strict=True):
            error = AmqpError(condition or "amqp:internal-error", text)
            one = delivery.to_bytes(8, sys.byteorder)
            transactional.reject_in(one, work.number, error.condition, error.description)
            work.spoil(error)
    else:
        transactional.settle_in(deliveries.tobytes(), work.number, pumping.ACCEPTED)
    work.answered(len(deliveries))
    return len(deliveries) - deliveries.count(0)
