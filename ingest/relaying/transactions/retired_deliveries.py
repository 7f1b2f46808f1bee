"""Deliveries of one relayed consumer that were given an outcome in transactions.

Rule 1: the owner hears the outcome when it has the transaction; where the client waits for our
        word, that is the owner's word on the whole transaction.
Rule 2: what a transaction can't have any more is held until the transaction ends, and then given
        back as failed: given back at once it would come to the same client again and again.
"""

from array import array

import msgspec

from distributary.ingest.native import dispositions
from distributary.ingest.native import pump as pumping
from distributary.ingest.net import transactional
from distributary.ingest.relaying.transactions.relayed_work import RelayedWork
from distributary.pipeline.amqp.delivery_state import OUTCOMES
from distributary.pipeline.codec.amqp_codes import Descriptor
from distributary.pipeline.lake.relayed_transaction import Step
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.transitions import DeliveryState

CODES = {outcome: int(code) for code, outcome in OUTCOMES.items()}


class Retired(msgspec.Struct, eq=False):
    """An outcome that a client gave to deliveries: the numbers by which it has them, the owner's
    deliveries (0: the owner has it no more), its own if it waits for our word, else none. `step` is
    what becomes of it: SEND where the owner was told."""

    numbers: "array[int]"
    owners: "array[int]"
    clients: "array[int]"
    said: DeliveryState
    step: Step


class RetiredDeliveries:
    """Those of one consumer."""

    def __init__(self, token: int) -> None:
        """`token` is the delivery time that its client's deliveries have."""
        self._token = token
        self._of: dict[RelayedWork, list[Retired]] = {}

    @property
    def held(self) -> bool:
        """Whether an owner has yet to be told of some."""
        return any(one.step is Step.HOLD for kept in self._of.values() for one in kept)

    @property
    def awaited(self) -> bool:
        """Whether the client waits for our word on some."""
        return any(one.clients for kept in self._of.values() for one in kept)

    def add(self, work: RelayedWork, retired: Retired) -> None:
        """Some more."""
        if retired.step is Step.SEND:
            _pass(work, retired)
            if not retired.clients:
                return  # the owner has them
        self._of.setdefault(work, []).append(retired)

    def pass_on(self, work: RelayedWork) -> None:
        """The owner has the transaction."""
        kept = self._of.pop(work, [])
        for one in kept:
            if one.step is Step.HOLD:
                one.step = Step.SEND
                _pass(work, one)
        if kept := [one for one in kept if one.clients or one.step is not Step.SEND]:
            self._of[work] = kept

    def give_back(self, work: RelayedWork) -> "array[int]":
        """Those of which the owner wasn't told aren't held any longer. What the client still has of
        them, as pairs of its number and the owner's delivery."""
        kept = self._of.pop(work, [])
        passed = [one for one in kept if one.step is Step.SEND]
        if passed:
            self._of[work] = passed
        pairs = array("Q")
        for one in kept:
            if one.step is not Step.SEND:
                pairs.extend(self._undo(one))
        return pairs

    def committed(self, work: RelayedWork) -> None:
        """The owner has committed it: who waits hears it."""
        for one in self._of.pop(work, ()):
            dispositions.dispose(one.owners, 0)
            pumping.settle(one.clients.tobytes(), 0)

    def rolled_back(self, work: RelayedWork) -> "array[int]":
        """The owner has undone it. As `give_back`."""
        pairs = array("Q")
        for one in self._of.pop(work, ()):
            pairs.extend(self._undo(one))
        return pairs

    def leave(self) -> None:
        """The client's link has ended, and its deliveries with it: what it had settled, and the
        owner doesn't know of, fails."""
        for kept in self._of.values():
            for one in kept:
                if one.step is not Step.SEND and not one.clients:
                    self._undo(one)

    def clear(self) -> None:
        """The owner is lost, or the client's link is: nobody has them any more."""
        self._of.clear()

    def works(self) -> tuple[RelayedWork, ...]:
        """The transactions of which an owner has yet to be told something."""
        return tuple(
            work for work, kept in self._of.items() if any(one.step is Step.HOLD for one in kept)
        )

    def _undo(self, one: Retired) -> "array[int]":
        """The client may give another outcome to what it hasn't settled; the rest fails."""
        pairs, back = array("Q"), array("Q")
        if one.clients:
            settled = transactional.restore(one.clients.tobytes(), self._token)
            for number, owner, gone in zip(one.numbers, one.owners, settled, strict=True):
                if gone:
                    back.append(owner)
                else:
                    pairs.extend((number, owner))
        elif one.step is not Step.SEND:
            back = one.owners
        unseen = one.said.outcome is Outcome.RELEASED
        code = Descriptor.RELEASED if unseen else Descriptor.MODIFIED
        dispositions.dispose(back, int(code), failed=not unseen)
        return pairs


def _pass(work: RelayedWork, one: Retired) -> None:
    dispositions.dispose(
        one.owners,
        CODES[one.said.outcome],
        failed=one.said.failed,
        undeliverable=one.said.undeliverable,
        settles=not one.clients,
        transaction=work.there,
    )
