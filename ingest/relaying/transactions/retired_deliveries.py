"""Deliveries of one relayed consumer that were given an outcome in transactions.

Rule 1: the owner is told the outcome when it has the transaction; a client that waits for our
        settlement gets it when the owner has ended the whole transaction.
Rule 2: a delivery that can't be part of its transaction any more is held until the transaction
        ends, and then given back as failed: given back at once, it would come to the same client
        again and again.
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
    """An outcome that a client gave to deliveries: the client's numbers of them, the owner's
    deliveries (0: the owner has it no more), the client's if it waits for our settlement, else
    none. `step`: SEND where the owner was told the outcome."""

    numbers: "array[int]"
    owners: "array[int]"
    clients: "array[int]"
    said: DeliveryState
    step: Step


class RetiredDeliveries:
    """Retired deliveries of one consumer."""

    def __init__(self, token: int) -> None:
        """`token`: the delivery time that all deliveries of the client have."""
        self._token = token
        self._of: dict[RelayedWork, list[Retired]] = {}

    @property
    def held(self) -> bool:
        """Whether the owner must still be told some outcomes."""
        return any(one.step is Step.HOLD for kept in self._of.values() for one in kept)

    @property
    def awaited(self) -> bool:
        """Whether the client waits for our settlement of some deliveries."""
        return any(one.clients for kept in self._of.values() for one in kept)

    def add(self, work: RelayedWork, retired: Retired) -> None:
        """Add an outcome, and pass it on if the owner has the transaction."""
        if retired.step is Step.SEND:
            _pass(work, retired)
            if not retired.clients:
                return  # the owner has the outcome, and the client doesn't wait
        self._of.setdefault(work, []).append(retired)

    def pass_on(self, work: RelayedWork) -> None:
        """Pass held outcomes to the owner, which has the transaction."""
        kept = self._of.pop(work, [])
        for one in kept:
            if one.step is Step.HOLD:
                one.step = Step.SEND
                _pass(work, one)
        if kept := [one for one in kept if one.clients or one.step is not Step.SEND]:
            self._of[work] = kept

    def give_back(self, work: RelayedWork) -> "array[int]":
        """Let go deliveries of which the owner wasn't told. Return those that the client still has,
        as pairs of its number and the owner's delivery."""
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
        """Settle the deliveries: the owner has committed the transaction."""
        for one in self._of.pop(work, ()):
            dispositions.dispose(one.owners, 0)
            pumping.settle(one.clients.tobytes(), 0)

    def rolled_back(self, work: RelayedWork) -> "array[int]":
        """Undo the outcomes: the owner has rolled back the transaction. Return as `give_back`."""
        pairs = array("Q")
        for one in self._of.pop(work, ()):
            pairs.extend(self._undo(one))
        return pairs

    def leave(self) -> None:
        """End with the client's link: deliveries that it had settled, of which the owner wasn't
        told, fail."""
        for kept in self._of.values():
            for one in kept:
                if one.step is not Step.SEND and not one.clients:
                    self._undo(one)

    def clear(self) -> None:
        """Forget all: the owner or the client's link is lost."""
        self._of.clear()

    def works(self) -> tuple[RelayedWork, ...]:
        """Return the transactions with outcomes of which the owner must still be told."""
        return tuple(
            work for work, kept in self._of.items() if any(one.step is Step.HOLD for one in kept)
        )

    def _undo(self, one: Retired) -> "array[int]":
        """Let the client give another outcome to deliveries that it hasn't settled; the others
        fail, or are released if the client released them."""
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
