"""Prepared transactions: their records in the log, and their ends.

The order of durable steps: the whole work is recorded in one group, invisible to consumers; then
its client is told that it is prepared. At its commit retired deliveries are settled, posted
messages published, and its end recorded, all in one group; then the commit is answered. At its
rollback retired deliveries are given back in the group of its end. The end of a transaction over
several logs, if ours decides, is its decision: the other logs are told then. All methods run on
the loop's thread.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import count
from typing import TypeAlias, assert_never

import structlog

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.host import Host
from distributary.ingest.security.gateway_login import GATEWAY
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.ingest.transactions.decision_service import DecisionService
from distributary.ingest.transactions.prepared_work import HeldRun, PreparedWork, decoded, encoded
from distributary.ingest.transactions.retiring import undone
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.log_names import private_number
from distributary.pipeline.model.amqp_error import NOT_IMPLEMENTED, AmqpError
from distributary.pipeline.model.message import TransactionRecord
from distributary.pipeline.model.subscription import SubscriptionEvent, SubscriptionKey
from distributary.pipeline.model.transitions import DeliveryState
from distributary.pipeline.transactions.global_id import is_of_lake
from distributary.pipeline.transactions.prepared_transactions import (
    Event,
    Limits,
    Prepared,
    PreparedTransactions,
    State,
    Step,
    absent,
    ended_otherwise,
)

_events = structlog.get_logger("gateway")

_PRIVATE = (
    "it is about temporary destinations of a gateway that owns no log, and ends with that gateway: "
    "it can't be prepared"
)

PreparedOne: TypeAlias = Prepared[PreparedWork]


class PreparedService:
    """All prepared transactions of one home."""

    def __init__(
        self,
        host: Host,
        parts: MessageParts,
        directory: SubscriptionDirectory,
        decisions: DecisionService,
    ) -> None:
        """Takes deliveries of transactions prepared before the start out of dispatch again, before
        any consumer comes. Raises StoreError for work that a later version of the program
        prepared."""
        limits = host.settings.amqp
        self._loop, self._log, self._intake = host.loop, parts.log, parts.intake
        self._delivery, self._directory, self._decisions = parts.delivery, directory, decisions
        self._all: PreparedTransactions[PreparedWork] = PreparedTransactions(
            Limits(limits.prepared_max, limits.prepared_of_user_max, limits.prepared_bytes_max)
        )
        self._private = private_number(host.log) is not None
        #: Numbers for transactions of before the start, which don't meet those of declared ones.
        self._holders = count(-1, -1)
        for event in parts.store.snapshot.open:
            record = event.record
            if record.event is not SubscriptionEvent.PREPARED:
                continue  # our log has decided the transaction
            work = decoded(record.work, next(self._holders), self._living)
            facts = work.facts(record.user, event.recorded_at, len(record.work))
            one = Prepared(record.transaction, facts, work)
            for held in work.held:
                held.subscription.dispatcher.withhold(work.holder, held.run, held.buckets)
            self._all.add(one)
            self._all.durable(one)
            if work.decides:
                decisions.reopen(work.decides, work.logs)

    def _living(self, id_: str, began: int) -> Subscription | None:
        try:
            found = self._directory.get(SubscriptionKey.parse(id_))
        except InvalidRequest as error:
            raise StoreError(f"a prepared transaction names a subscription: {error}") from error
        return found if self._log.begun.get(id_) == began else None

    # Preparing.

    def amqp_error(self, id_: str, user: str, size: int = 0) -> AmqpError | None:
        """Return why this user can't prepare a transaction of `size` bytes under this id now."""
        if self._private and not is_of_lake(id_):
            return AmqpError(NOT_IMPLEMENTED, _PRIVATE)
        return self._all.amqp_error(id_, user, size)

    def prepare(
        self, id_: str, user: str, work: PreparedWork, then: Callable[[], None]
    ) -> AmqpError | None:
        """Record this work under the id; the caller has checked that all of it may be done. `then`
        is called when the record is durable. Return why not, if so: then nothing was done."""
        data = encoded(work)
        size = len(data) + work.unwritten_bytes
        amqp_error = self.amqp_error(id_, user, size)
        if amqp_error is not None:
            return amqp_error
        one = Prepared(id_, work.facts(user, clock.now(), size), work)
        self._all.add(one)
        head = self._log.next_sequence
        record = TransactionRecord(SubscriptionEvent.PREPARED, id_, head, user, data, user)
        self._log.record(record, partial(self._done, one, then))
        return None

    def _done(self, one: PreparedOne, then: Callable[[], None]) -> None:
        self._all.durable(one)
        then()

    # Their ends.

    def get(self, id_: str) -> list[PreparedOne]:
        """Return the transactions prepared under this id, each by another user."""
        return self._all.get(id_)

    def listed(self) -> Iterable[PreparedOne]:
        """Return those that wait for a transaction manager, the oldest first."""
        return self._all.listed()

    def undecided(self, within: int) -> Sequence[PreparedOne]:
        """Return those that wait for another log's decision and are no younger than `within`
        (microseconds), the oldest first."""
        return self._all.undecided(clock.now(), within)

    async def sure(self) -> None:
        """Return when a group has become durable that was formed after this call: so our memory was
        the log's state at the call, and no other process owned the log."""
        done = self._loop.create_future()
        self._log.after(partial(_resolve, done))
        self._log.flush()
        await done

    async def end_all(self, id_: str, user: str, *, commit: bool) -> AmqpError | None:
        """End all work that is prepared under an id that gateways made, as `end` does."""
        amqp_error: AmqpError | None = absent(id_)
        for one in self._all.get(id_):
            amqp_error = await self.end(one, user, commit=commit)
        return amqp_error

    async def end(self, one: PreparedOne, user: str, *, commit: bool) -> AmqpError | None:
        """Commit it, or roll it back; the caller has checked the user's right. Return when that is
        durable: None, or why it can't end so."""
        while True:
            if one.state is State.GONE:
                return absent(one.id)
            done = self._loop.create_future()
            match one.step(Event.COMMIT if commit else Event.ROLL_BACK):
                case Step.APPLY:
                    self._apply(one, user, partial(_resolve, done))
                    self._log.flush()
                    await done
                    return None
                case Step.UNDO:
                    self._undo(one, user, partial(_resolve, done))
                    self._log.flush()
                    await done
                    return None
                case Step.WAIT:
                    ending = one.state is not State.PREPARING
                    await self.sure()
                    if ending:
                        return None  # an earlier request has ended it so
                case Step.REFUSE:
                    return ended_otherwise(one)
                case Step.ANSWER:
                    raise AssertionError(one.state)
                case _ as never:
                    assert_never(never)

    def _apply(self, one: PreparedOne, user: str, then: Callable[[], None]) -> None:
        """Put its work, its end and its decision for other logs into one group. Limits of backlogs
        were checked when it was prepared, and aren't checked again."""
        work = one.work
        if work.decides:
            self._decisions.record(work.decides, one.facts.user, then, by_request=True)
            then = _nobody_waits
        self._record(one, SubscriptionEvent.COMMITTED, user, then)
        for held in work.held:
            self._conclude(work.holder, held, held.said)
        self._forget(work)
        self._intake.publish_prepared(work.posted, work.publisher)

    def _undo(self, one: PreparedOne, user: str, then: Callable[[], None]) -> None:
        work = one.work
        if work.decides:  # the other logs are told when the end is durable
            then = partial(self._decisions.undo, work.decides, then)
        self._record(one, SubscriptionEvent.ROLLED_BACK, user, then)
        for held in work.held:
            self._conclude(work.holder, held, undone(held.said))
        self._forget(work)

    def _record(
        self, one: PreparedOne, event: SubscriptionEvent, user: str, then: Callable[[], None]
    ) -> None:
        head, of = self._log.next_sequence, one.facts.user
        record = TransactionRecord(event, one.id, head, user, b"", of)
        self._log.record(record, partial(self._done, one, then))
        if user == GATEWAY and event is SubscriptionEvent.COMMITTED:
            return  # no log line for the usual end of a transaction over several logs
        _events.info(
            "transaction.ended",
            transaction=one.id,
            outcome=event.value,
            by=user,
            prepared_by=one.facts.user,
        )

    def _conclude(self, holder: int, held: HeldRun, said: DeliveryState) -> None:
        """Give its deliveries this outcome, but those of a subscription that has ended, or was
        rewound or purged since."""
        subscription, run = held.subscription, held.run
        if not subscription.ended and subscription.dispatcher.retired(holder, run):
            at = held.delivered_at
            self._delivery.conclude(subscription, held.name, holder, run, said, at)

    def _forget(self, work: PreparedWork) -> None:
        for dispatcher in {one.subscription.dispatcher for one in work.held}:
            dispatcher.forget(work.holder)


def _nobody_waits() -> None:
    """Do nothing: the caller waits for the other logs instead."""


def _resolve(done: "asyncio.Future[None]") -> None:
    if not done.done():
        done.set_result(None)
