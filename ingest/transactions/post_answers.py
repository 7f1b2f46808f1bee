"""Answers to messages that were posted in transactions: the outcome that a commit will give, or why
the messages spoil the transaction.
"""

from functools import partial

import msgspec

from distributary.ingest.native import pump
from distributary.ingest.net import transactional
from distributary.ingest.net.link import Link
from distributary.pipeline.model.amqp_error import AmqpError


class Fine(msgspec.Struct, frozen=True, eq=False):
    """Posted messages whose sender must still be told that they will be accepted."""

    number: int
    link: Link
    deliveries: bytes
    unsettled: int


class PostAnswers:
    """Answers that are due at the end of a pass, or with an earlier commit of their transaction."""

    __slots__ = ("_fine",)

    def __init__(self) -> None:
        self._fine: list[Fine] = []

    def add(self, fine: Fine) -> None:
        """Add posted messages."""
        self._fine.append(fine)

    def passed(self) -> None:
        """After a pass over frames: answer senders that didn't commit in it."""
        fine, self._fine = self._fine, []
        for one in fine:
            one.link.connection.attempt(partial(will_be, one))

    def take(self, number: int) -> list[Fine]:
        """Remove and return the messages posted in a transaction in this pass."""
        found = [one for one in self._fine if one.number == number]
        self._fine = [one for one in self._fine if one.number != number]
        return found


def will_be(fine: Fine) -> None:
    """Tell the sender that messages will be accepted with the commit of their transaction."""
    link = fine.link
    if link.alive:
        transactional.settle_in(fine.deliveries, fine.number, pump.ACCEPTED)
        link.connection.touch()
        link.answered(fine.unsettled)


def reject(link: Link, deliveries: bytes, number: int, amqp_error: AmqpError) -> None:
    """Reject messages that spoil their transaction."""
    if not link.alive:
        return  # the peer went without waiting; its deliveries are gone
    transactional.reject_in(deliveries, number, amqp_error.condition, amqp_error.description)
