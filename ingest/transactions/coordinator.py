"""Transactions as peers ask for them: declared, worked in, discharged.

What is posted in a transaction waits here for its commit, what is retired in it with the
dispatchers of its subscriptions; a commit hands all of it to one group of the log. All methods run
on the loop's thread.
"""

import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TypeAlias, assert_never

import structlog
from msgspec import structs

from distributary.ingest.commit.group_log import Receipt
from distributary.ingest.delivery.consumer import Consumer
from distributary.ingest.native import pump
from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net import termini, transactional
from distributary.ingest.net.link import Link, Peer
from distributary.ingest.net.relayed_link import Ending, WorkElsewhere
from distributary.ingest.publish.intake import Posted
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.publish.relay import Goals, Unrouted
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.host import Host
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.ingest.transactions.controller import Controller, say
from distributary.ingest.transactions.post_answers import Fine, PostAnswers, reject, will_be
from distributary.ingest.transactions.prepared_service import PreparedService
from distributary.ingest.transactions.prepared_work import PreparedWork
from distributary.ingest.transactions.retiring import Retired, Retiring
from distributary.ingest.transactions.transaction_timers import TransactionTimers
from distributary.pipeline.amqp.coordinator_command import Declare, Discharge, command
from distributary.pipeline.codec.amqp_types import DecodeError
from distributary.pipeline.model.amqp_error import NOT_IMPLEMENTED, AmqpError
from distributary.pipeline.transactions.transaction import (
    ILLEGAL_STATE,
    TIMED_OUT,
    Ended,
    Held,
    InDoubt,
    Limits,
    Step,
    Transactions,
    Work,
    unknown,
)

_events = structlog.get_logger("gateway")

#: Commands that a controller may send ahead of their answers: JMS clients send two.
COMMAND_CREDIT = 64
#: Bytes of a command; none has more than an id of its own to say.
COMMAND_BYTES_MAX = 4_096
FORCED = "amqp:link:detach-forced"

_Transactions: TypeAlias = Transactions[Posted, Retired]
_Work: TypeAlias = Work[Posted, Retired]


class Coordinator:
    """All transactions of all connections."""

    def __init__(
        self,
        host: Host,
        parts: MessageParts,
        directory: SubscriptionDirectory,
        finish_pass: Callable[[], None],
    ) -> None:
        """`finish_pass` hands on what was gathered, where no peer's frames are the cause. Raises
        StoreError for what a later version of the program has prepared."""
        limits = host.settings.amqp
        self._log, self._intake = parts.log, parts.intake
        self._retiring = Retiring(parts.delivery, parts.log)
        self._finish_pass = finish_pass
        #: Those that wait for a transaction manager.
        self.prepared = PreparedService(host, parts, directory)
        self._limits = Limits(
            limits.transactions_max, limits.transaction_bytes_max, limits.unfinished_bytes_max
        )
        self._held = Held(limits.transactions_together_bytes_max)
        seconds = limits.transaction_timeout_seconds
        self._timers = TransactionTimers(host.loop, seconds, self._too_long)
        self._of: dict[Peer, _Transactions] = {}
        self._elsewhere: dict[int, WorkElsewhere] = {}
        self._fine = PostAnswers()
        self._controllers = count(1)
        #: Numbers go on where no run of the gateway before could have come: who asks for one of
        #: before gets nobody else's.
        self._numbers = count(time.time_ns())

    # Controllers.

    def attach(self, link: Link) -> None:
        """A peer wants to declare transactions."""
        link.owner = Controller(next(self._controllers))
        if link.connection not in self._of:
            self._of[link.connection] = Transactions(self._limits, self._numbers, self._held)
        termini.coordinate(link.proton)
        link.open()
        link.grant(COMMAND_CREDIT)

    def left(self, link: Link) -> None:
        """A controller's link has ended: every transaction that it declared and did not
        discharge is rolled back."""
        if isinstance(link.owner, Controller):
            for ended in self._of[link.connection].lose(link.owner.number):
                self._undo(ended)
                if (elsewhere := self._elsewhere.pop(ended.number, None)) is not None:
                    elsewhere.end(commit=False, global_id="", then=_nobody_waits)

    def closed(self, connection: Peer) -> None:
        """A connection is gone; its links were, before."""
        self._of.pop(connection, None)

    def commanded(self, link: Link, message: bytes, delivery: bytes) -> AmqpError | None:
        """Perform a declare or a discharge (AMQP 1.0 part 4, section 4.5). A refusal is why the
        link must end."""
        assert isinstance(link.owner, Controller)  # noqa: S101
        try:
            said = command(message[:COMMAND_BYTES_MAX])
        except DecodeError as error:
            return AmqpError("amqp:decode-error", f"link '{link.name}': {error}")
        receipt = Receipt(link, delivery, 1 if delivery else 0, 1)
        match said:
            case Declare(distributed=True):
                text = "only local transactions are served, none with a global-id"
                link.owner.refuse(receipt, AmqpError(NOT_IMPLEMENTED, text))
            case Declare():
                self._declare(receipt, link.owner)
            case Discharge():
                self._discharge(receipt, said, link.owner)
            case _ as never:
                assert_never(never)
        return None

    def _declare(self, receipt: Receipt, controller: Controller) -> None:
        link = receipt.link
        number = self._of[link.connection].declare(controller.number)
        if isinstance(number, AmqpError):
            controller.refuse(receipt, number)
            return
        controller.answer(receipt, partial(transactional.declared, receipt.deliveries, number))

    def _discharge(self, receipt: Receipt, said: Discharge, controller: Controller) -> None:
        transactions = self._of[receipt.link.connection]
        if said.number not in transactions:
            controller.refuse(receipt, unknown(said.number))
            return
        if said.global_id and receipt.link.attach.relayed is not None:
            amqp_error = self.name(receipt.link.connection.user, said.number, said.global_id)
            if amqp_error is not None:
                transactions.spoil(said.number, amqp_error)
        end = transactions.roll_back if said.fail else transactions.commit
        ended = end(said.number)
        elsewhere = self._elsewhere.pop(said.number, None)
        if elsewhere is not None:
            self._undo(ended)  # what was done of our own log isn't part of it
            if ended.amqp_error is not None:
                elsewhere.spoil(ended.amqp_error)
            controller.writing += 1
            answer = partial(self._ended_elsewhere, receipt, controller)
            elsewhere.end(commit=not said.fail, global_id=ended.global_id, then=answer)
        elif said.fail:
            self._undo(ended)
            controller.accept(receipt)
        else:
            self._commit(ended, receipt, controller)

    def _ended_elsewhere(self, receipt: Receipt, controller: Controller, ending: Ending) -> None:
        """The owner of its log has ended it, or is lost. Of a commit that nobody knows of there is
        no answer: its controller ends instead."""
        match ending:
            case InDoubt(description):
                receipt.link.end(FORCED, description)
            case AmqpError(condition, description):
                self._tell_failed(receipt, ending)
                say(receipt, partial(pump.reject, receipt.deliveries, condition, description))
            case None:
                say(receipt, partial(pump.settle, receipt.deliveries, pump.ACCEPTED))
            case _ as never:
                assert_never(never)
        controller.written()

    def _commit(
        self, ended: Ended[Posted, Retired], receipt: Receipt, controller: Controller
    ) -> None:
        """All of it, in one group; or nothing, and the controller hears why."""
        work, amqp_error = ended.work, ended.amqp_error
        if ended.step is not Step.UNDO and not all(map(self._retiring.holds, work.retired)):
            amqp_error = AmqpError(ILLEGAL_STATE, _taken("a subscription was rewound or purged"))
        now = clock.now()
        if amqp_error is None and any(one.expired(now) for one in work.posted):
            # Of all conditions Qpid JMS takes amqp:transaction:rollback for a commit in doubt.
            amqp_error = AmqpError(TIMED_OUT, "a message that was sent in it has expired since")
        amqp_error = amqp_error or self._intake.full(work.posted)
        if amqp_error is None and ended.step is Step.PREPARE:
            amqp_error = self._prepare(ended, receipt, controller)
            if amqp_error is None:
                return
        if amqp_error is not None:
            self._tell_failed(receipt, amqp_error)
            self._undo(ended)
            controller.refuse(receipt, amqp_error)
            return
        self._timers.stop(ended.number)
        for retired in work.retired:
            self._retiring.settle(retired)
        self._retiring.forget(ended.number, work.retired)
        if not work:
            controller.accept(receipt)
            return
        # A peer that sends its work and the commit at once gets all answers at once.
        controller.writing += 1
        self._intake.publish(work.posted, Receipt(receipt.link, b"", 0, 1))
        fine = self._fine.take(ended.number)
        # The credit comes back with the accept of what is published.
        done = partial(self._committed, structs.replace(receipt, credit=0), controller, fine)
        self._log.after(receipt.link.later(done))

    def _prepare(
        self, ended: Ended[Posted, Retired], receipt: Receipt, controller: Controller
    ) -> AmqpError | None:
        """The first phase: its work is recorded under its global id, and the controller has done
        with it. Or why it can't be."""
        connection, retired = receipt.link.connection, ended.work.retired
        held = [self._retiring.held(one) for one in retired]
        work = PreparedWork(-ended.number, connection, ended.work.posted, held)
        fine = self._fine.take(ended.number)
        done = receipt.link.later(partial(self._committed, receipt, controller, fine))
        amqp_error = self.prepared.prepare(ended.global_id, connection.user, work, done)
        if amqp_error is not None:
            for one in fine:
                self._fine.add(one)
            return amqp_error
        self._timers.stop(ended.number)
        for one_retired in retired:
            self._retiring.hand_over(one_retired)
        controller.writing += 1
        return None

    def _committed(self, receipt: Receipt, controller: Controller, fine: Sequence[Fine]) -> None:
        """It is durable."""
        for one in fine:
            will_be(one)
        answer = partial(pump.settle, receipt.deliveries, pump.ACCEPTED)
        say(receipt, answer)
        controller.written()

    def _tell_failed(self, receipt: Receipt, amqp_error: AmqpError) -> None:
        _events.info(
            "transaction.failed",
            container=receipt.link.connection.container,
            condition=amqp_error.condition,
            reason=amqp_error.description,
        )

    def passed(self) -> None:
        """One pass over frames is done: senders that posted in a transaction, and didn't commit
        in this pass, are answered."""
        self._fine.passed()

    def _undo(self, ended: Ended[Posted, Retired]) -> None:
        for one in self._fine.take(ended.number):
            will_be(one)
        self._timers.stop(ended.number)
        self._give_back(ended.number, ended.work)

    def _give_back(self, number: int, work: _Work) -> None:
        for retired in work.retired:
            self._retiring.undo(retired)
        self._retiring.forget(number, work.retired)

    # Work.

    def knows(self, connection: Peer, number: int) -> bool:
        """Whether a connection has such an open transaction."""
        return connection in self._of and number in self._of[connection]

    def name(self, user: str, number: int, global_id: str) -> AmqpError | None:
        """The commit of a transaction of this user, on any connection, will prepare it under this
        id. Why that can't be, if so."""
        for connection, transactions in self._of.items():
            if connection.user == user and number in transactions:
                amqp_error = self.prepared.amqp_error(global_id, user)
                return amqp_error or transactions.name(number, global_id)
        return unknown(number)

    def elsewhere(self, number: int) -> WorkElsewhere | None:
        """What a known transaction has in another gateway's log."""
        return self._elsewhere.get(number)

    def relay(self, connection: Peer, number: int, work: WorkElsewhere) -> AmqpError | None:
        """A known transaction gets work in another gateway's log, its first one there. Why that
        can't be, if so: it has some in ours, or had failed before."""
        self._elsewhere[number] = work
        return self._of[connection].relay(number, work.own_refusal)

    def watch(self, connection: Peer, number: int) -> None:
        """Something is done in it in another gateway's log."""
        self._timers.watch(connection, number)

    def hold(self, connection: Peer, number: int, count: int) -> None:
        """So many deliveries that were given an outcome in it are held here."""
        if (amqp_error := self._of[connection].hold(number, count)) is not None:
            self._give_up(connection, number, amqp_error)

    def spoil(self, connection: Peer, number: int, reason: AmqpError) -> None:
        """A part of it can't be done: it can only be rolled back. Nothing, if it isn't known any
        more."""
        if self.knows(connection, number):
            self._of[connection].spoil(number, reason)

    def _fail(self, connection: Peer, number: int, reason: AmqpError) -> None:
        """A part of it can't be done, which its owner must know, too."""
        if (elsewhere := self._elsewhere.get(number)) is not None:
            elsewhere.spoil(reason)
        else:
            self.spoil(connection, number, reason)

    def _here(self, number: int) -> None:
        """Something of our own log is done in it: a transaction is of one log."""
        if (elsewhere := self._elsewhere.get(number)) is not None:
            elsewhere.spoil(elsewhere.own_refusal)

    def post(self, link: Link, received: Received, goals: Goals, unrouted: Unrouted) -> None:
        """Add messages to a known transaction, each to its goal. Their sender is told at once the
        outcome that they will have if the transaction commits."""
        number = received.transaction
        answered = received.unsettled
        posted, routed = self._intake.post(link, received, goals, unrouted)
        fine = routed.receipt.deliveries + routed.at_once
        transactions = self._of[link.connection]
        for complaint in routed.complaints:
            self._fail(link.connection, number, complaint.amqp_error)
            reject(link, complaint.deliveries, number, complaint.amqp_error)
        if posted:
            self._here(number)
        amqp_error = self._keep(transactions, number, posted)
        if amqp_error is not None:
            reject(link, fine, number, amqp_error)
        else:
            unsettled = routed.receipt.unsettled + len(routed.at_once) // 8
            self._fine.add(Fine(number, link, fine, unsettled))
            answered -= unsettled
        if link.alive:
            link.answered(answered)
            link.connection.touch()
            self._log.grant(link, received.count)
        self._timers.watch(link.connection, number)

    def _keep(
        self, transactions: _Transactions, number: int, posted: Sequence[Posted]
    ) -> AmqpError | None:
        for one in posted:
            amqp_error = transactions.post(number, one, one.run.count, len(one.run.blob))
            if amqp_error is not None:
                return amqp_error
        return None

    def retire(self, consumer: Consumer, outcomes: Outcomes) -> None:
        """Deliveries were given an outcome in a transaction that is known."""
        connection, number = consumer.link.connection, outcomes.transaction
        transactions = self._of[connection]
        self._here(number)
        count = 0
        for retired in self._retiring.retire(consumer, outcomes):
            count += len(retired.run)
            given_back = transactions.retire(number, retired, len(retired.run))
            if given_back is not None:
                self._give_back(number, given_back)
        if count < len(outcomes.run):
            text = _taken("a delivery was given back before it was settled")
            self._fail(connection, number, AmqpError(ILLEGAL_STATE, text))
        self._timers.watch(connection, number)

    # Time.

    def _too_long(self, connection: Peer, number: int) -> None:
        text = f"it took more than {self._timers.seconds} s from its first work "
        text += "(amqp.transaction_timeout_seconds)"
        self._give_up(connection, number, AmqpError(TIMED_OUT, text))
        self._finish_pass()

    def _give_up(self, connection: Peer, number: int, reason: AmqpError) -> None:
        self._give_back(number, self._of[connection].give_up(number, reason))
        if (elsewhere := self._elsewhere.get(number)) is not None:
            elsewhere.give_up()


def _nobody_waits(_ending: Ending) -> None:
    """The controller is gone."""


def _taken(how: str) -> str:
    return f"what it retired isn't all its own any more: {how}"
