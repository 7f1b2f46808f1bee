"""The work of clients' transactions in the logs of other gateways.

A `RelayedWork` is a machine (`pipeline.lake.relayed_transaction`) with the links that have work of
the transaction, and the client's coordinator at the owner. There is one for each log with work.
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol, assert_never

from distributary.ingest.native.runs import Received
from distributary.ingest.net import transactional
from distributary.ingest.net.link import Link, Peer
from distributary.ingest.net.relayed_link import ClientTransactions, Ending
from distributary.ingest.relaying.transactions.owner_coordinator import OwnerCoordinator
from distributary.pipeline.lake.relayed_transaction import (
    Event,
    Owned,
    RelayedTransaction,
    Step,
)
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.transactions.transaction import InDoubt, unknown


class WorkLink(Protocol):
    """A relayed link that has work of transactions."""

    def pass_work(self, work: "RelayedWork") -> None:
        """Pass the waiting work of this transaction to the owner."""

    def drop_work(self, work: "RelayedWork") -> None:
        """Drop unsent messages of the transaction; sent ones without an outcome, too, if it is
        `lost`."""

    def give_back_work(self, work: "RelayedWork") -> None:
        """Hold no longer the deliveries that got an outcome in it and of which the owner wasn't
        told."""

    def work_ended(self, work: "RelayedWork") -> None:
        """Take its end: `committed`, rolled back, or unknown (`in_doubt`)."""


class RelayedWork:
    """One transaction, in one log. Implements `Branch` for the coordinator of the client."""

    def __init__(
        self,
        client: Peer,
        number: int,
        log: str,
        clients: ClientTransactions,
        coordinator: OwnerCoordinator,
    ) -> None:
        """`number`: the client's number for the transaction."""
        self.client, self.number = client, number
        self._clients, self._coordinator = clients, coordinator
        self._machine = RelayedTransaction(log)
        self._links: dict[WorkLink, None] = {}
        self._named: Callable[[AmqpError | None], None] | None = None
        self._then: Callable[[Ending], None] | None = None
        #: The decision of its commit and the other logs, once the owner was told.
        self.decides: tuple[str, tuple[str, ...]] = "", ()
        #: The global id under which its commit prepares it; empty: the commit commits it.
        self.global_id = ""

    # For links.

    @property
    def there(self) -> int:
        """The owner's number for it."""
        return self._machine.there

    @property
    def passing(self) -> bool:
        """Whether its work goes to the owner now."""
        return self._machine.passing

    @property
    def waiting(self) -> bool:
        """Whether no owner was told of it."""
        return self._machine.state is Owned.WAITING

    @property
    def lost(self) -> bool:
        """Whether no owner has it any more."""
        return self._machine.state in (Owned.LOST, Owned.GONE)

    @property
    def reason(self) -> AmqpError | None:
        """The reason if the transaction can only be rolled back."""
        return self._machine.reason

    @property
    def ending(self) -> Ending:
        """The transaction's end at the owner."""
        return self._machine.answer

    @property
    def committed(self) -> bool:
        """Whether the owner has committed it."""
        return self._machine.wanted is Event.COMMIT and self._machine.answer is None

    @property
    def in_doubt(self) -> bool:
        """Whether it is unknown if the owner has committed it."""
        return isinstance(self._machine.answer, InDoubt)

    def take(self, link: WorkLink, messages: int) -> Step:
        """Take messages on this link as part of it, or (0 messages) outcomes of deliveries."""
        self._links[link] = None
        return self._machine.work(messages)

    def hold(self, deliveries: int) -> None:
        """Count deliveries that got an outcome in it, of which the owner isn't told now."""
        self._clients.hold(self.client, self.number, deliveries)

    def answered(self, messages: int) -> None:
        """Count messages that have the owner's outcome, or will never be sent."""
        self._perform(self._machine.answered(messages))

    # For the client's coordinator.

    def spoil(self, reason: AmqpError) -> None:
        """Let it only be rolled back: a part of it can't be done."""
        self._clients.spoil(self.client, self.number, reason)
        self._perform(self._machine.spoil(reason))

    def give_up(self) -> None:
        """Let go held deliveries: it has taken too long, as at the owner, or holds too many."""
        for link in tuple(self._links):
            self.client.attempt(partial(link.give_back_work, self))

    def end(self, *, commit: bool, global_id: str, then: Callable[[Ending], None]) -> None:
        """Have the owner end it, or prepare it under a global id, as the client asked; then call
        `then`."""
        self._then, self.global_id = then, global_id
        self._perform(self._machine.end(commit=commit))

    def prepare(self, branch: str, then: Callable[[Ending], None]) -> None:
        self._then, self.global_id = then, branch
        self._perform(self._machine.end(commit=True, branch=True))

    def name(
        self, decision: str, logs: tuple[str, ...], then: Callable[[AmqpError | None], None]
    ) -> None:
        self._named, self.decides = then, (decision, logs)
        self._perform(self._machine.name())

    # Answers of the owner.

    def declare(self) -> None:
        """Have it declared: there is an owner."""
        self._perform(self._machine.declare())

    def declared(self, there: int) -> None:
        """The owner has declared it, under this number."""
        self._perform(self._machine.declared(there))

    def named(self, refusal: AmqpError | None) -> None:
        """The owner knows the decision of its commit, or says why that can't be."""
        self._perform(self._machine.named(refusal))

    def ended(self, refusal: AmqpError | None) -> None:
        """The owner has ended it, or says why it didn't commit."""
        self._perform(self._machine.ended(refusal))

    def lose(self, reason: AmqpError) -> None:
        """No owner has it any more."""
        self._clients.spoil(self.client, self.number, reason)
        self._perform(self._machine.lose(reason))

    def _perform(self, steps: list[Step]) -> None:
        for step in steps:
            match step:
                case Step.SEND:
                    for link in tuple(self._links):
                        self.client.attempt(partial(link.pass_work, self))
                case Step.DROP:
                    self._drop()
                case Step.DECLARE | Step.NAME | Step.COMMIT | Step.ROLL_BACK:
                    self._coordinator.ask(self, step)
                case Step.TELL:
                    assert self._named is not None  # noqa: S101
                    self.client.attempt(partial(self._named, self.reason))
                case Step.DONE | Step.UNDONE | Step.IN_DOUBT:
                    self._finish()
                case Step.KEEP | Step.HOLD | Step.REFUSE:
                    pass
                case _ as never:
                    assert_never(never)

    def _drop(self) -> None:
        for link in tuple(self._links):
            self.client.attempt(partial(link.drop_work, self))

    def _finish(self) -> None:
        """Tell its end, which is known now."""
        self._drop()
        self._coordinator.forget(self)
        links, self._links = self._links, {}
        for link in links:
            self.client.attempt(partial(link.work_ended, self))
        if self._then is not None:
            self.client.attempt(partial(self._then, self.ending))


class RelayedWorks:
    """All relayed work of one gateway."""

    def __init__(
        self,
        clients: ClientTransactions,
        coordinator: Callable[[Link, str], OwnerCoordinator],
    ) -> None:
        """`coordinator` gives a client's coordinator at the owner of a log."""
        self._clients, self._coordinator = clients, coordinator

    def take(
        self, link: Link, number: int, log: str, holder: WorkLink, messages: int
    ) -> tuple[RelayedWork, Step] | None:
        """Take work that came on a client's link to a topic of this log, in the transaction of this
        number. Return None if there is no such transaction: the link has ended."""
        if not self._knows(link, number):
            return None
        work = self._clients.elsewhere(number, log)
        if work is None:
            work = self._begin(link, number, log)
        assert isinstance(work, RelayedWork)  # noqa: S101
        self._clients.watch(link.connection, number)
        return work, work.take(holder, messages)

    def refuse(self, link: Link, received: Received, reason: AmqpError) -> None:
        """Refuse messages of a transaction that go to no log: it can only be rolled back."""
        number, condition, text = received.transaction, reason.condition, reason.description
        if self._knows(link, number):
            self._clients.spoil(link.connection, number, reason)
            transactional.reject_in(received.deliveries, number, condition, text)
            link.connection.touch()
            link.answered(received.unsettled)
            link.grant(received.count)

    def _knows(self, link: Link, number: int) -> bool:
        """Whether the client has such a transaction; if not, the link ends."""
        found = self._clients.knows(link.connection, number)
        if not found:
            amqp_error = unknown(number)
            link.end(amqp_error.condition, f"link '{link.name}': {amqp_error.description}")
        return found

    def stay(self, link: Link, log: str) -> None:
        """Keep the client known in this log after its last session there: it has a subscription
        that lasts as long as its connection."""
        self._coordinator(link, log).stay()

    def _begin(self, link: Link, number: int, log: str) -> RelayedWork:
        coordinator, client = self._coordinator(link, log), link.connection
        work = RelayedWork(client, number, log, self._clients, coordinator)
        refusal = self._clients.relay(client, number, log, work)
        if refusal is None:
            coordinator.add(work)
        else:
            work.lose(refusal)
        return work
