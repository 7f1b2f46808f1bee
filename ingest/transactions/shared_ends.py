"""Ends of transactions with work in several logs.

Each end is a machine (`pipeline.transactions.shared_end`) with a branch for each log, our own among
them if it has work here. All methods run on the loop's thread.
"""

import secrets
from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

from distributary.ingest.commit.group_log import Receipt
from distributary.ingest.net.relayed_link import Branch, Ending
from distributary.ingest.publish.intake import Posted
from distributary.ingest.transactions.decision_service import DecisionService
from distributary.ingest.transactions.own_work import OwnWork
from distributary.ingest.transactions.retiring import Retired
from distributary.pipeline.log_names import private_number
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.transactions.global_id import branch_id, decision_id
from distributary.pipeline.transactions.shared_end import SharedEnd, Step
from distributary.pipeline.transactions.transaction import Transactions, unknown

#: Random bytes in a decision's id.
_UNIQUE_BYTES = 16


class OwnBranch:
    """A transaction's branch in our own log. Implements `Branch`."""

    def __init__(
        self,
        number: int,
        transactions: Transactions[Posted, Retired],
        work: OwnWork,
        decisions: DecisionService,
        receipt: Receipt,
    ) -> None:
        """`receipt`: of the command that ends the transaction."""
        self._number, self._transactions, self._work = number, transactions, work
        self._decisions = decisions
        self._receipt = Receipt(receipt.link, b"", 0, 0)

    def name(
        self, decision: str, logs: tuple[str, ...], then: Callable[[AmqpError | None], None]
    ) -> None:
        then(decide(self._transactions, self._decisions, self._number, decision, logs))

    def prepare(self, branch: str, then: Callable[[Ending], None]) -> None:
        self.end(commit=True, global_id=branch, then=then)

    def end(self, *, commit: bool, global_id: str, then: Callable[[Ending], None]) -> None:
        number, transactions = self._number, self._transactions
        if not transactions.has(number):  # the link of its controller has ended
            then(unknown(number) if commit else None)
            return
        if not commit:
            self._work.undo(transactions.roll_back(number))
            then(None)
            return
        if global_id and (amqp_error := transactions.name(number, global_id)) is not None:
            transactions.spoil(number, amqp_error)
        ended = transactions.commit(number)
        if (amqp_error := self._work.commit(ended, self._receipt, partial(then, None))) is not None:
            then(amqp_error)

    def spoil(self, reason: AmqpError) -> None:
        """Do nothing: the caller has told the transaction."""

    def give_up(self) -> None:
        """Do nothing: the caller has told the transaction."""


def decide(
    transactions: Transactions[Posted, Retired],
    decisions: DecisionService,
    number: int,
    decision: str,
    logs: tuple[str, ...],
) -> AmqpError | None:
    """Have the commit of a transaction decide a shared one, for these other logs, too. Return why
    not, if so."""
    if not transactions.has(number):
        return unknown(number)
    amqp_error = transactions.reason(number) or decisions.name(decision, logs)
    if amqp_error is None:
        transactions.decide(number, decision)
    return amqp_error


class SharedEnding:
    """The end of one such transaction, from the client's command on; `then` is called with it."""

    def __init__(
        self, branches: Sequence[tuple[str, Branch]], then: Callable[[Ending], None]
    ) -> None:
        """`branches` with their logs, two at least. The first branch decides that isn't in a
        gateway's private log: decisions of a private log are lost with its gateway."""
        first, *others = sorted(branches, key=lambda one: private_number(one[0]) is not None)
        (self._log, self._decider), self._others, self._then = first, others, then
        self._machine = SharedEnd(len(self._others))
        self._decision = decision_id(secrets.token_bytes(_UNIQUE_BYTES))
        self._global_id = ""

    def commit(self, global_id: str) -> None:
        """Commit it in all of its logs, or in none; with `global_id` prepare it in all of them: the
        deciding log waits for the transaction manager that knows it by this id."""
        self._global_id = global_id
        others = tuple(log for log, _ in self._others)
        self._decider.name(self._decision, others, self._answered)

    def roll_back(self, reason: AmqpError | None) -> None:
        """Roll it back: its client asked for that (None), or gets the reason instead of a
        commit."""
        self._perform(self._machine.roll_back(reason))

    def _answered(self, ending: Ending) -> None:
        self._perform(self._machine.answered(ending))

    def _perform(self, step: Step) -> None:
        decider, answered = self._decider, self._answered
        match step:
            case Step.WAIT:
                pass
            case Step.PREPARE:
                id_ = branch_id(self._decision, self._log)
                for _, branch in self._others:
                    branch.prepare(id_, answered)
            case Step.DECIDE:
                decider.end(commit=True, global_id=self._global_id, then=answered)
            case Step.UNDO:
                decider.end(commit=False, global_id="", then=answered)
            case Step.UNDO_ALL:
                for branch in (decider, *(one for _, one in self._others)):
                    branch.end(commit=False, global_id="", then=answered)
            case Step.ANSWER:
                self._then(self._machine.answer)
            case _ as never:
                assert_never(never)
