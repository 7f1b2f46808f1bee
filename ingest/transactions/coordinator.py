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
from distributary.ingest.net.relayed_link import Branch, Ending
from distributary.ingest.publish.intake import Posted
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.publish.relay import Goals, Unrouted
from distributary.ingest.runtime.host import Host
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.ingest.transactions.controller import Controller, say
from distributary.ingest.transactions.decision_service import DecisionService
from distributary.ingest.transactions.own_work import OwnWork, taken
from distributary.ingest.transactions.post_answers import Fine, PostAnswers, reject
from distributary.ingest.transactions.prepared_service import PreparedService
from distributary.ingest.transactions.retiring import Retired, Retiring
from distributary.ingest.transactions.shared_ends import OwnBranch, SharedEnding, decide
from distributary.ingest.transactions.transaction_timers import TransactionTimers
from distributary.pipeline.amqp.coordinator_command import Decide, Declare, Discharge, command
from distributary.pipeline.codec.amqp_types import DecodeError
from distributary.pipeline.model.amqp_error import NOT_IMPLEMENTED, AmqpError
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.transactions.transaction import (
    ILLEGAL_STATE,
    TIMED_OUT,
    Held,
    InDoubt,
    Limits,
    Step,
    Transactions,
    unknown,
)

_events = structlog.get_logger("gateway")

#: Commands that a controller may send ahead of their answers: JMS clients send two.
COMMAND_CREDIT = 64
#: Bytes of a command; between gateways it may have the names of all logs of a lake.
COMMAND_BYTES_MAX = 16_384
FORCED = "amqp:link:detach-forced"
_DECIDED = SubscriptionEvent.DECIDED

_Transactions: TypeAlias = Transactions[Posted, Retired]


class Coordinator:
    """All transactions of all connections."""

    def __init__(
        self,
        host: Host,
        parts: MessageParts,
        directory: SubscriptionDirectory,
        log: str,
        finish_pass: Callable[[], None],
    ) -> None:
        """`log` is our log's name. `finish_pass` hands on what was gathered, where no peer's frames
        are the cause. Raises StoreError for what a later version of the program has prepared."""
        limits = host.settings.amqp
        self._log, self._intake, self._log_name = parts.log, parts.intake, log
        self._retiring = Retiring(parts.delivery, parts.log)
        self._finish_pass = finish_pass
        before = parts.store.snapshot.open
        #: What our log decides for other logs, too.
        self.decisions = DecisionService(
            host, parts.log, tuple(one for one in before if one.record.event is _DECIDED)
        )
        #: Those that wait for a transaction manager, or for the decision of another log.
        self.prepared = PreparedService(host, parts, directory, self.decisions)
        self._limits = Limits(
            limits.transactions_max, limits.transaction_bytes_max, limits.unfinished_bytes_max
        )
        self._held = Held(limits.transactions_together_bytes_max)
        seconds = limits.transaction_timeout_seconds
        self._timers = TransactionTimers(host.loop, seconds, self._too_long)
        self._of: dict[Peer, _Transactions] = {}
        #: What transactions have in other gateways' logs, by the log.
        self._elsewhere: dict[int, dict[str, Branch]] = {}
        self._fine = PostAnswers()
        self._own = OwnWork(
            parts, self._retiring, self.prepared, self.decisions, self._timers, self._fine
        )
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
                self._own.undo(ended)
                for branch in self._elsewhere.pop(ended.number, {}).values():
                    branch.end(commit=False, global_id="", then=_nobody_waits)

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
                text = "a transaction gets its global id by PREPARE at $management, not here"
                link.owner.refuse(receipt, AmqpError(NOT_IMPLEMENTED, text))
            case Declare():
                self._declare(receipt, link.owner)
            case Discharge():
                self._discharge(receipt, said, link.owner)
            case Decide():
                self._decide(receipt, said, link.owner)
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

    def _decide(self, receipt: Receipt, said: Decide, controller: Controller) -> None:
        transactions = self._of[receipt.link.connection]
        if receipt.link.attach.relayed is None:
            amqp_error: AmqpError | None = AmqpError(NOT_IMPLEMENTED, "only gateways say so")
        else:
            amqp_error = decide(transactions, self.decisions, said.number, said.decision, said.logs)
        if amqp_error is None:
            controller.accept(receipt)
        else:
            controller.refuse(receipt, amqp_error)

    def _discharge(self, receipt: Receipt, said: Discharge, controller: Controller) -> None:
        transactions, number = self._of[receipt.link.connection], said.number
        if number not in transactions:
            controller.refuse(receipt, unknown(number))
            return
        if said.global_id and receipt.link.attach.relayed is not None:
            named = self.name(receipt.link.connection.user, number, said.global_id)
            if isinstance(named, AmqpError):
                transactions.spoil(number, named)
        elsewhere = self._elsewhere.pop(number, {})
        if not elsewhere:
            self._end(receipt, said, controller)
            return
        controller.writing += 1
        then = partial(self._ended_elsewhere, receipt, controller)
        if len(elsewhere) > 1 or transactions.works(number):
            self._end_all(receipt, said, elsewhere, then)
            return
        ended = transactions.roll_back(number) if said.fail else transactions.commit(number)
        self._own.undo(ended)  # there is none
        for branch in elsewhere.values():
            if ended.amqp_error is not None:
                branch.spoil(ended.amqp_error)
            branch.end(commit=not said.fail, global_id=ended.global_id, then=then)

    def _end_all(
        self,
        receipt: Receipt,
        said: Discharge,
        elsewhere: dict[str, Branch],
        then: Callable[[Ending], None],
    ) -> None:
        """It has work in several logs."""
        transactions, number = self._of[receipt.link.connection], said.number
        reason, global_id = transactions.reason(number), transactions.global_id(number)
        transactions.close(number)
        branches = [(log, elsewhere[log]) for log in sorted(elsewhere)]
        if transactions.works(number):
            own = OwnBranch(number, transactions, self._own, self.decisions, receipt)
            branches.insert(0, (self._log_name, own))
        else:
            self._own.undo(transactions.roll_back(number))
        ending = SharedEnding(branches, then)
        if said.fail:
            ending.roll_back(None)
        elif reason is not None:
            ending.roll_back(reason)
        else:
            ending.commit(global_id)

    def _ended_elsewhere(self, receipt: Receipt, controller: Controller, ending: Ending) -> None:
        """Its logs have ended it, or are lost. Of a commit that nobody knows of there is no
        answer: its controller ends instead."""
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

    def _end(self, receipt: Receipt, said: Discharge, controller: Controller) -> None:
        """All of it is in our log."""
        transactions = self._of[receipt.link.connection]
        if said.fail:
            self._own.undo(transactions.roll_back(said.number))
            controller.accept(receipt)
            return
        ended = transactions.commit(said.number)
        prepares = ended.step is Step.PREPARE
        # A client of another gateway was told that there is work.
        unsaid = ended.step is Step.APPLY or (prepares and receipt.link.attach.relayed is None)
        if unsaid and not ended.work and not ended.decides:
            self._own.undo(ended)
            controller.accept(receipt)
            return
        # The credit comes back with the accept of what is published.
        answered = receipt if prepares else structs.replace(receipt, credit=0)
        controller.writing += 1
        done = partial(self._committed, answered, controller)
        if (amqp_error := self._own.commit(ended, receipt, done)) is not None:
            controller.writing -= 1
            self._tell_failed(receipt, amqp_error)
            controller.refuse(receipt, amqp_error)

    def _committed(self, receipt: Receipt, controller: Controller) -> None:
        """It is durable."""
        say(receipt, partial(pump.settle, receipt.deliveries, pump.ACCEPTED))
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

    # Work.

    def knows(self, connection: Peer, number: int) -> bool:
        """Whether a connection has such an open transaction."""
        return connection in self._of and number in self._of[connection]

    def name(self, user: str, number: int, global_id: str) -> bool | AmqpError:
        """The commit of a transaction of this user, on any connection, will prepare it under this
        id: whether there is work in it yet. Or why that can't be; of work elsewhere its owner says
        so at the commit."""
        for connection, transactions in self._of.items():
            if connection.user == user and number in transactions:
                works, amqp_error = transactions.works(number), None
                if works:
                    amqp_error = self.prepared.amqp_error(global_id, user)
                amqp_error = amqp_error or transactions.name(number, global_id)
                return works or number in self._elsewhere if amqp_error is None else amqp_error
        return unknown(number)

    def elsewhere(self, number: int, log: str) -> Branch | None:
        """What a known transaction has in this log, of another gateway or relayed to ourselves."""
        return self._elsewhere.get(number, {}).get(log)

    def relay(self, connection: Peer, number: int, log: str, branch: Branch) -> AmqpError | None:
        """A known transaction gets work in such a log, its first one there. Why that can't be, if
        so: a part of it has failed before."""
        self._elsewhere.setdefault(number, {})[log] = branch
        return self._of[connection].relay(number)

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
        if connection in self._of and self._of[connection].has(number):
            self._of[connection].spoil(number, reason)

    def _fail(self, connection: Peer, number: int, reason: AmqpError) -> None:
        """A part of it can't be done, which the owners of other logs must know, too."""
        self.spoil(connection, number, reason)
        for branch in tuple(self._elsewhere.get(number, {}).values()):
            branch.spoil(reason)

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
        count = 0
        for retired in self._retiring.retire(consumer, outcomes):
            count += len(retired.run)
            given_back = transactions.retire(number, retired, len(retired.run))
            if given_back is not None:
                self._own.give_back(number, given_back)
        if count < len(outcomes.run):
            text = taken("a delivery was given back before it was settled")
            self._fail(connection, number, AmqpError(ILLEGAL_STATE, text))
        self._timers.watch(connection, number)

    # Time.

    def _too_long(self, connection: Peer, number: int) -> None:
        text = f"it took more than {self._timers.seconds} s from its first work "
        text += "(amqp.transaction_timeout_seconds)"
        self._give_up(connection, number, AmqpError(TIMED_OUT, text))
        self._finish_pass()

    def _give_up(self, connection: Peer, number: int, reason: AmqpError) -> None:
        self._own.give_back(number, self._of[connection].give_up(number, reason))
        for branch in tuple(self._elsewhere.get(number, {}).values()):
            branch.give_up()


def _nobody_waits(_ending: Ending) -> None:
    """The controller is gone."""
