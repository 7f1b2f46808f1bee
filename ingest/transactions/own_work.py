"""The work of transactions in our own log: applied as a whole, prepared, or undone.

All methods run on the loop's thread.
"""

import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from distributary.ingest.commit.group_log import Receipt
from distributary.ingest.commit.pending_group import Former
from distributary.ingest.net.link import Link
from distributary.ingest.publish.intake import Posted
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.runtime import clock
from distributary.ingest.transactions.decision_service import DecisionService
from distributary.ingest.transactions.post_answers import Fine, PostAnswers, will_be
from distributary.ingest.transactions.prepared_service import PreparedService
from distributary.ingest.transactions.prepared_work import PreparedWork, topics_of
from distributary.ingest.transactions.retiring import Retired, Retiring
from distributary.ingest.transactions.transaction_timers import TransactionTimers
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.transactions.transaction import (
    ILLEGAL_STATE,
    TIMED_OUT,
    Ended,
    Step,
    Work,
)

EndedOne: TypeAlias = Ended[Posted, Retired]


class OwnWork:
    """Work in our log of transactions that end."""

    def __init__(
        self,
        parts: MessageParts,
        retiring: Retiring,
        prepared: PreparedService,
        decisions: DecisionService,
        timers: TransactionTimers,
        fine: PostAnswers,
    ) -> None:
        self._log, self._intake, self._retiring = parts.log, parts.intake, retiring
        self._prepared, self._decisions = prepared, decisions
        self._timers, self._fine = timers, fine

    def commit(
        self, ended: EndedOne, receipt: Receipt, then: Callable[[], None]
    ) -> AmqpError | None:
        """Apply the work in one group, or prepare it; `then` is called when that is durable. Return
        why not, if so: then it is undone. `receipt` is the command's; its credit comes back with
        that of the published messages."""
        work, amqp_error = ended.work, ended.amqp_error
        if ended.step is not Step.UNDO and not all(map(self._retiring.holds, work.retired)):
            amqp_error = AmqpError(ILLEGAL_STATE, taken("a subscription was rewound or purged"))
        now = clock.now()
        if amqp_error is None and any(one.expired(now) for one in work.posted):
            # Of all conditions Qpid JMS takes amqp:transaction:rollback for a commit in doubt.
            amqp_error = AmqpError(TIMED_OUT, "a message that was sent in it has expired since")
        prepares = ended.step is Step.PREPARE
        amqp_error = amqp_error or self._intake.full(work.posted, publishes=not prepares)
        if amqp_error is None and prepares:
            amqp_error = self._prepare(ended, receipt.link, then)
        elif amqp_error is None:
            self._apply(ended, receipt, then)
        if amqp_error is not None:
            self.undo(ended)
        return amqp_error

    def _apply(self, ended: EndedOne, receipt: Receipt, then: Callable[[], None]) -> None:
        work, link = ended.work, receipt.link
        fine = self._fine.take(ended.number)
        done = partial(_done, fine, then)
        self._timers.stop(ended.number)
        if ended.decides:
            self._decisions.record(ended.decides, link.connection.user, link.later(done))
        else:
            self._log.after(link.later(done))
        for retired in work.retired:
            self._retiring.settle(retired)
        self._retiring.forget(ended.number, work.retired)
        # A peer that sends its work and the commit at once gets all answers at once. This may fill
        # the group, and close it.
        self._intake.publish(work.posted, Receipt(link, b"", 0, receipt.credit))

    def _prepare(self, ended: EndedOne, link: Link, then: Callable[[], None]) -> AmqpError | None:
        """Prepare the transaction: record its work under its global id, and take it from its
        connection. Return why not, if so."""
        retired = ended.work.retired
        # A later subscription of the same name must not get the outcomes of one that has ended.
        living = [one for one in retired if not one.consumer.subscription.ended]
        held = [self._retiring.held(one) for one in living]
        posted, connection = ended.work.posted, link.connection
        publisher = Former(connection.container, weakref.ref(connection))
        topics, decides = topics_of(posted, held), ended.decides
        logs = self._decisions.logs(decides)
        work = PreparedWork(-ended.number, publisher, posted, held, topics, decides, logs)
        fine = self._fine.take(ended.number)
        done = link.later(partial(_done, fine, then))
        user = connection.user
        amqp_error = self._prepared.prepare(ended.global_id, user, work, done)
        if amqp_error is not None:
            for one in fine:
                self._fine.add(one)
            return amqp_error
        self._timers.stop(ended.number)
        for one_retired in retired:
            self._retiring.hand_over(one_retired)
        self._log.slow(link)  # its peer has brought all of these bytes at once
        return None

    def undo(self, ended: EndedOne) -> None:
        """Undo all of a transaction's work."""
        for one in self._fine.take(ended.number):
            will_be(one)
        self._timers.stop(ended.number)
        self.give_back(ended.number, ended.work)
        if ended.decides:
            self._decisions.undo(ended.decides)

    def give_back(self, number: int, work: Work[Posted, Retired]) -> None:
        """Undo the outcomes that were given in a transaction."""
        for retired in work.retired:
            self._retiring.undo(retired)
        self._retiring.forget(number, work.retired)


def _done(fine: Sequence[Fine], then: Callable[[], None]) -> None:
    """Answer posted messages and the commit, which is durable."""
    for one in fine:
        will_be(one)
    then()


def taken(how: str) -> str:
    """Return why a part of the retired deliveries can't be settled."""
    return f"a delivery that it retired isn't its own any more: {how}"
