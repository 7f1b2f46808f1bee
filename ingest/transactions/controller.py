"""The peer's end of a link to the coordinator of transactions, and the answers to its commands."""

from collections.abc import Callable
from functools import partial

from distributary.ingest.commit.group_log import Receipt
from distributary.ingest.native import pump
from distributary.pipeline.model.amqp_error import AmqpError


class Controller:
    """A controller of transactions; its transactions end with its link.

    Its commands are answered in order: while commits are `writing`, later answers wait.
    """

    __slots__ = ("_answers", "number", "writing")

    def __init__(self, number: int) -> None:
        self.number = number
        self.writing = 0
        self._answers: list[Callable[[], None]] = []

    def accept(self, receipt: Receipt) -> None:
        """Accept a command."""
        self.answer(receipt, partial(pump.settle, receipt.deliveries, pump.ACCEPTED))

    def refuse(self, receipt: Receipt, amqp_error: AmqpError) -> None:
        """Reject a command."""
        condition, text = amqp_error.condition, amqp_error.description
        self.answer(receipt, partial(pump.reject, receipt.deliveries, condition, text))

    def answer(self, receipt: Receipt, answer: Callable[[], None]) -> None:
        """Answer a command, after the commits before it."""
        if self.writing:
            self._answers.append(partial(say, receipt, answer))
        else:
            say(receipt, answer)

    def written(self) -> None:
        """Count a commit as answered; give the waiting answers after the last one."""
        self.writing -= 1
        if not self.writing:
            answers, self._answers = self._answers, []
            for answer in answers:
                answer()


def say(receipt: Receipt, answer: Callable[[], None]) -> None:
    """Answer a command now."""
    link = receipt.link
    if not link.alive:
        return  # the peer went without waiting; its deliveries are gone
    answer()
    link.connection.touch()
    if receipt.credit and not link.ended:
        link.grant(receipt.credit)
    link.answered(receipt.unsettled)
