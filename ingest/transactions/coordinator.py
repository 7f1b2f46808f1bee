"""Transactions as peers ask for them: declared, worked in, discharged.

Messages posted in a transaction wait here for its commit, retired deliveries with the dispatchers
of their subscriptions; a commit hands all of its work to one group of the log. All methods run on
the loop's thread.
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
from distributary.ingest.publish.relay import Goals, Stored, Unrouted
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
        """`log` is our log's name. `finish_pass` hands on gathered frames, where no peer's frames
        are the cause. Raises StoreError for work that a later version of the program prepared."""
        limits = host.settings.amqp
        self._log, self._intake, self._log_name = parts.log, parts.intake, log
        self._retiring = Retiring(parts.delivery, parts.log)
        self._finish_pass = finish_pass
        before = parts.store.snapshot.open
        #: Decisions of our log for other logs, too.
        self.decisions = DecisionService(
            host, parts.log, tuple(one for one in before if one.record.event is _DECIDED)
        )
        #: Transactions that wait for a transaction manager, or for the decision of another log.
        self.prepared = PreparedService(host, parts, directory, self.decisions)
        self._limits = Limits(
            limits.transactions_max, limits.transaction_bytes_max, limits.unfinished_bytes_max
        )
        self._held = Held(limits.transactions_together_bytes_max)
        seconds = limits.transaction_timeout_seconds
        self._timers = TransactionTimers(host.loop, seconds, self._too_long)
        self._of: dict[Peer, _Transactions] = {}
        #: Branches of transactions in other gateways' logs, by number and log.
        self._elsewhere: dict[int, dict[str, Branch]] = {}
        self._fine = PostAnswers()
        self._own = OwnWork(
            parts, self._retiring, self.prepared, self.decisions, self._timers, self._fine
        )
        self._controllers = count(1)
        #: Numbers begin with the time, above those of any earlier run: a client that uses a number
        #: of before can't hit another client's transaction.
        self._numbers = count(time.time_ns())

    # Controllers.

    def attach(self, link: Link) -> None:
        """Open a peer's link to the coordinator."""
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
        """Forget a connection that is gone, after its links."""
        self._of.pop(connection, None)

    def commanded(self, link: Link, message: bytes, delivery: bytes) -> AmqpError | None:
        """Perform a declare or a discharge (AMQP 1.0 part 4, section 4.5). Return an error if the
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
            amqp_error: AmqpError | None = AmqpError(NOT_IMPLEMENTED, "only gateways may send it")
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
        self._own.undo(ended)  # it has no work in our log
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
        """End a transaction with work in several logs."""
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
        """Answer the discharge: its logs have ended the transaction, or are lost. A commit in doubt
        gets no answer: the controller's link ends instead."""
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
        """End a transaction whose work is all in our log."""
        transactions = self._of[receipt.link.connection]
        if said.fail:
            self._own.undo(transactions.roll_back(said.number))
            controller.accept(receipt)
            return
        ended = transactions.commit(said.number)
        prepares = ended.step is Step.PREPARE
        # A client of another gateway was told already that there is work.
        unsaid = ended.step is Step.APPLY or (prepares and receipt.link.attach.relayed is None)
        if unsaid and not ended.work and not ended.decides:
            self._own.undo(ended)
            controller.accept(receipt)
            return
        # The credit comes back with the accept of the published messages.
        answered = receipt if prepares else structs.replace(receipt, credit=0)
        controller.writing += 1
        done = partial(self._committed, answered, controller)
        if (amqp_error := self._own.commit(ended, receipt, done)) is not None:
            controller.writing -= 1
            self._tell_failed(receipt, amqp_error)
            controller.refuse(receipt, amqp_error)

    def _committed(self, receipt: Receipt, controller: Controller) -> None:
        """Accept a durable commit."""
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
        """After a pass over frames: answer senders that posted in a transaction and didn't commit
        it in this pass."""
        self._fine.passed()

    # Work.

    def knows(self, connection: Peer, number: int) -> bool:
        """Whether a connection has such an open transaction."""
        return connection in self._of and number in self._of[connection]

    def name(self, user: str, number: int, global_id: str) -> bool | AmqpError:
        """Have the commit of a transaction of this user, on any connection, prepare it under this
        id. Return whether it has work yet, or why it can't be prepared; owners of other logs may
        still refuse at the commit."""
        for connection, transactions in self._of.items():
            if connection.user == user and number in transactions:
                works, amqp_error = transactions.works(number), None
                if works:
                    amqp_error = self.prepared.amqp_error(global_id, user)
                amqp_error = amqp_error or transactions.name(number, global_id)
                return works or number in self._elsewhere if amqp_error is None else amqp_error
        return unknown(number)

    def elsewhere(self, number: int, log: str) -> Branch | None:
        """Return a known transaction's branch in this log, of another gateway or our own."""
        return self._elsewhere.get(number, {}).get(log)

    def relay(self, connection: Peer, number: int, log: str, branch: Branch) -> AmqpError | None:
        """Note a known transaction's first work in such a log. Return an error if a part of the
        transaction has failed before."""
        self._elsewhere.setdefault(number, {})[log] = branch
        return self._of[connection].relay(number)

    def watch(self, connection: Peer, number: int) -> None:
        """Watch the time of a transaction that has work in another gateway's log."""
        self._timers.watch(connection, number)

    def hold(self, connection: Peer, number: int, count: int) -> None:
        """Count deliveries that got an outcome in it and are held here."""
        if (amqp_error := self._of[connection].hold(number, count)) is not None:
            self._give_up(connection, number, amqp_error)

    def spoil(self, connection: Peer, number: int, reason: AmqpError) -> None:
        """Let a transaction only be rolled back: a part of it can't be done. Do nothing if it isn't
        known any more."""
        if connection in self._of and self._of[connection].has(number):
            self._of[connection].spoil(number, reason)

    def _fail(self, connection: Peer, number: int, reason: AmqpError) -> None:
        """Spoil a transaction here and at the owners of other logs."""
        self.spoil(connection, number, reason)
        for branch in tuple(self._elsewhere.get(number, {}).values()):
            branch.spoil(reason)

    def post(self, link: Link, received: Received, goals: Goals, unrouted: Unrouted) -> None:
        """Add messages to a transaction that was known when they came, each to its goal. Tell their
        sender at once the outcome that they will have if the transaction commits."""
        number, answered = received.transaction, received.unsettled
        if not self.knows(link.connection, number):  # it has ended while they were checked
            reject(link, received.deliveries, number, unknown(number))
            self._answered(link, answered, received.count)
            return
        posted, routed = self._intake.post(link, received, goals, unrouted)
        fine = routed.receipt.deliveries + routed.at_once
        transactions = self._of[link.connection]
        for complaint in routed.complaints:
            self._fail(link.connection, number, complaint.amqp_error)
            reject(link, complaint.deliveries, number, complaint.amqp_error)
        amqp_error = self._keep(transactions, number, posted)
        if amqp_error is None and any(isinstance(goal, Stored) for goal, _ in goals):
            amqp_error = transactions.repeat(number)
        if amqp_error is not None:
            reject(link, fine, number, amqp_error)
        else:
            unsettled = routed.receipt.unsettled + len(routed.at_once) // 8
            self._fine.add(Fine(number, link, fine, unsettled))
            answered -= unsettled
        self._answered(link, answered, received.count)
        self._timers.watch(link.connection, number)

    def _answered(self, link: Link, answered: int, credit: int) -> None:
        if link.alive:
            link.answered(answered)
            link.connection.touch()
            self._log.grant(link, credit)

    def _keep(
        self, transactions: _Transactions, number: int, posted: Sequence[Posted]
    ) -> AmqpError | None:
        for one in posted:
            amqp_error = transactions.post(number, one, one.run.count, len(one.run.blob))
            if amqp_error is not None:
                return amqp_error
        return None

    def retire(self, consumer: Consumer, outcomes: Outcomes) -> None:
        """Take outcomes that deliveries were given in a known transaction."""
        connection, number = consumer.link.connection, outcomes.transaction
        transactions = self._of[connection]
        count = 0
        for retired in self._retiring.retire(consumer, outcomes):
            count += len(retired.run)
            given_back = transactions.retire(number, retired, len(retired.run))
            if given_back is not None:
                self._own.give_back(number, given_back)
        if count < len(outcomes.run):
            text = taken("it was given back, or got another outcome, before")
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
    """Do nothing: the controller is gone."""
