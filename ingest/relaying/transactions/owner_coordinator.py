"""A client's link to the coordinator of transactions at the owner of one log.

It is there beside the client's own link to the coordinator here, in a session of its own. It is
made with the client's first transaction that has work in the log, or its first subscription that
lasts as long as its connection. It stays as long as the client: to the owner a client is there as
long as it has a session.
"""

from collections import deque
from typing import Any, Protocol

import cproton
import msgspec
from cproton import lib as proton

from distributary.client.connection.client_errors import ClientError, Refused
from distributary.client.connection.conditions import told
from distributary.client.connection.wire import Wire
from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net.relayed_peer import NOT_OWNER
from distributary.ingest.relaying.owners.owner_terms import open_coordinator
from distributary.ingest.relaying.owners.relayed_session import RelayedSession
from distributary.pipeline.amqp.coordinator_command import Decide, id_of, number_of
from distributary.pipeline.amqp.relayed_for import RelayedFor
from distributary.pipeline.codec.amqp_codes import Descriptor, Kind, descriptor
from distributary.pipeline.codec.amqp_writer import write
from distributary.pipeline.codec.raw_values import list_of
from distributary.pipeline.lake.relayed_transaction import Step
from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED, AmqpError
from distributary.pipeline.transactions.transaction import UNKNOWN_ID

_VALUE = descriptor(Kind.VALUE)
_DECLARE = _VALUE + descriptor(Descriptor.DECLARE) + list_of(())
_NAME = "transactions"


class OwnedTransaction(Protocol):
    """A client's transaction, as the coordinator at its owner uses it."""

    @property
    def waiting(self) -> bool:
        """Whether no owner was told of it."""

    @property
    def there(self) -> int:
        """The owner's number for it."""

    @property
    def global_id(self) -> str:
        """The global id under which its commit prepares it; empty: the commit commits it."""

    @property
    def decides(self) -> tuple[str, tuple[str, ...]]:
        """The id of the decision that its commit makes, and the other logs with branches of it."""

    def declare(self) -> None:
        """Have it declared: there is an owner."""

    def declared(self, there: int) -> None:
        """The owner has declared it, under this number."""

    def named(self, refusal: AmqpError | None) -> None:
        """The owner knows the decision of its commit, or says why that can't be."""

    def ended(self, refusal: AmqpError | None) -> None:
        """The owner has ended it, or says why it didn't commit."""

    def lose(self, reason: AmqpError) -> None:
        """No owner has it any more."""


class _Command(msgspec.Struct, frozen=True, eq=False):
    """Command to the coordinator."""

    transaction: OwnedTransaction
    step: Step

    def encoded(self) -> bytes:
        one = self.transaction
        match self.step:
            case Step.DECLARE:
                return _DECLARE
            case Step.NAME:
                return Decide(one.there, *one.decides).encoded()
        commits = self.step is Step.COMMIT
        fields = [write(id_of(one.there)), write(not commits)]
        if one.global_id and commits:
            fields.append(write(one.global_id))
        return _VALUE + descriptor(Descriptor.DISCHARGE) + list_of(fields)


class OwnerCoordinator:
    """The link to the owner's coordinator. Implements the client engine's `ClientLink`. Each
    command is answered by itself."""

    def __init__(self, session: RelayedSession, said: RelayedFor) -> None:
        self._session, self._said = session, said
        self.key = _NAME, False
        self.pointer: Any = None
        self.error: ClientError | None = None
        self._wire: Wire | None = None
        self.joined = self._ready = False  #: its session has the link; it is attached
        self._transactions: dict[OwnedTransaction, None] = {}
        self._commands: deque[_Command] = deque()
        self._asked: dict[Any, _Command] = {}
        self._number = 0

    def __str__(self) -> str:
        return f"the coordinator of {self._session.owner.log}"

    # For transactions.

    def add(self, transaction: OwnedTransaction) -> None:
        """Declare a transaction at the owner, now or when there is one."""
        if why := self._session.refusal:
            transaction.lose(AmqpError(LIMIT_EXCEEDED, why))
            return
        self._transactions[transaction] = None
        if self._ready:
            transaction.declare()
        else:
            self.stay()
            self._session.owner.awaits(self)

    def stay(self) -> None:
        """Have the link made, now or when there is an owner."""
        if not self.joined and not self._session.refusal:
            self.joined = True
            self._session.join(self)

    def ask(self, transaction: OwnedTransaction, step: Step) -> None:
        """Have the owner declare a transaction, take its decision, or end it: the owner has all of
        its work."""
        self._commands.append(_Command(transaction, step))
        if self._wire is not None:
            self._wire.touch(self)

    def forget(self, transaction: OwnedTransaction) -> None:
        """Forget a transaction that has ended, or that no owner has any more."""
        self._transactions.pop(transaction, None)

    def close(self) -> None:
        """End with the client, whose sessions were ended."""
        self._session.owner.leave(self)
        self._disconnected()
        self._transactions.clear()

    # The owner's side.

    def make(self, wire: Wire) -> Any:
        self._wire = wire
        self.pointer = open_coordinator(self._session.begin(wire), _NAME, self._said)
        return self.pointer

    def opened(self) -> None:
        self._ready = True
        self._session.owner.answered(self)
        for transaction in tuple(self._transactions):
            if transaction.waiting:
                transaction.declare()

    def received(self, received: Received) -> None:
        """Do nothing: no messages come on it."""

    def settled(self, outcomes: Outcomes) -> None:
        """Do nothing: its deliveries have no context, so the pump leaves them to `passed`."""

    def perform(self) -> None:
        """Send waiting commands, after all earlier frames are written: the engine doesn't keep the
        order between one session's outcomes and another one's messages."""
        wire = self._wire
        if wire is None or not self._ready or not self._commands:
            return
        if not wire.write():
            wire.touch(self)  # when the socket takes more
            return
        while self._commands and proton.pn_link_credit(self.pointer) > 0:
            command = self._commands.popleft()
            self._number += 1
            delivery = cproton.pn_delivery(self.pointer, self._number.to_bytes(8, "big"))
            cproton.pn_link_send(self.pointer, command.encoded())
            proton.pn_link_advance(self.pointer)
            self._asked[delivery] = command
            wire.watch(self)

    def passed(self) -> None:
        """Tell transactions the answers to their commands after one read."""
        answers = []
        for delivery, command in tuple(self._asked.items()):
            state = proton.pn_delivery_remote_state(delivery)
            if not state and not proton.pn_delivery_settled(delivery):
                continue
            del self._asked[delivery]
            answers.append((command, _answer(delivery, state)))
            proton.pn_delivery_settle(delivery)
        if not self._asked and self._wire is not None:
            self._wire.unwatch(self)
        for command, answer in answers:
            self._tell(command, answer)

    def _tell(self, command: _Command, answer: int | AmqpError | None) -> None:
        match answer:
            case int():
                command.transaction.declared(answer)
            case AmqpError() if command.step is Step.DECLARE:
                self.forget(command.transaction)  # nothing of it can be lost with the owner
                command.transaction.lose(answer)
            case _ if command.step is Step.NAME:
                command.transaction.named(answer)
            case _:
                command.transaction.ended(answer)

    def lost(self) -> None:
        if self._ready:
            self._session.owner.awaits(self)
        self._disconnected()
        text = f"the owner of the log '{self._session.owner.log}' was lost, and the transaction "
        text += "with it: nothing of it is done"
        self._lose(AmqpError(UNKNOWN_ID, text), waiting=False)

    def fail(self, error: ClientError) -> None:
        """Lose the transactions: the owner has ended or refused the link."""
        self._disconnected()
        said = error if isinstance(error, Refused) else Refused(str(error), "", "")
        if said.condition == NOT_OWNER:
            self._session.owner.refused(self)
            return
        self._session.leave(self)
        self.joined = False
        text = said.description or "the owner of its log has ended the link to its coordinator"
        self._lose(AmqpError(said.condition or UNKNOWN_ID, text), waiting=True)

    def give_up(self, reason: str) -> None:
        """Lose the transactions that no owner was told of; the link goes on if it is attached."""
        if self._wire is None:
            self._session.leave(self)
            self.joined = False
        self._lose(AmqpError(UNKNOWN_ID, reason), waiting=True)

    def _disconnected(self) -> None:
        if self._wire is not None:
            self._wire.unwatch(self)
        self._wire = self.pointer = None
        self._ready = False
        self._commands.clear()
        self._asked.clear()

    def _lose(self, reason: AmqpError, *, waiting: bool) -> None:
        """Lose the transactions that the owner was told of; with `waiting` all of them."""
        for transaction in tuple(self._transactions):
            if waiting or not transaction.waiting:
                del self._transactions[transaction]
                transaction.lose(reason)


def _answer(delivery: Any, state: int) -> int | AmqpError | None:
    """Return a declared transaction's number, why a command was rejected, or None for done."""
    remote = proton.pn_delivery_remote(delivery)
    if state == Descriptor.DECLARED:
        data = proton.pn_disposition_data(remote)
        proton.pn_data_rewind(data)
        proton.pn_data_next(data)
        proton.pn_data_enter(data)
        proton.pn_data_next(data)
        return number_of(bytes(cproton.pn_data_get_binary(data)))
    if state == Descriptor.ACCEPTED:
        return None
    condition, text = told(proton.pn_disposition_condition(remote))
    text = text or "the owner of its log has rejected it"
    return AmqpError(condition or UNKNOWN_ID, text)
