"""Proton's own transactions, used as its examples use them: deliveries are accepted and not settled
until the discharge was answered."""

import pytest
from gateway_process import Gateway
from proton import Event, Message
from proton.handlers import TransactionHandler
from proton.reactor import Container
from test_proton_handler import Program

COUNT, BATCH = 30, 10


class Moving(Program, TransactionHandler):
    """Moves messages from one queue to another, so many in each transaction; the first one and then
    every third is aborted. `settle`: deliveries are settled before the discharge."""

    def __init__(self, port: int, topic: str, *, settle: bool) -> None:
        super().__init__(port, prefetch=0, auto_accept=False)
        self.topic, self.settle = topic, settle
        self.ended: list[str] = []
        self.batch: list[object] = []
        self.begun = False

    def begin(self, container: Container) -> None:
        self.container = container
        self.sender = container.create_sender(self.connection, f"queue://{self.topic}-to")
        self.receiver = container.create_receiver(self.connection, f"queue://{self.topic}")

    def on_sendable(self, event: Event) -> None:
        """Begin with credit: messages sent without it would go behind the discharge."""
        if event.sender == self.sender and not self.begun:
            self.begun = True
            self._declare()

    def _declare(self) -> None:
        self.batch = []
        self.container.declare_transaction(
            self.connection, handler=self, settle_before_discharge=self.settle
        )

    def on_transaction_declared(self, event: Event) -> None:
        self.transaction = event.transaction
        self.receiver.flow(BATCH)

    def on_message(self, event: Event) -> None:
        self.batch.append(event.message.body)
        self.transaction.send(self.sender, Message(body=event.message.body, durable=True))
        self.transaction.accept(event.delivery)
        if len(self.batch) == BATCH:
            (self.transaction.abort if len(self.ended) % 3 == 0 else self.transaction.commit)()

    def on_transaction_aborted(self, _event: Event) -> None:
        self.ended.append("aborted")
        self._declare()

    def on_transaction_committed(self, _event: Event) -> None:
        self.ended.append("committed")
        self.seen += self.batch
        if len(self.seen) == COUNT:
            self.done()
        else:
            self._declare()

    def on_transaction_commit_failed(self, event: Event) -> None:
        self.errors.append(("commit failed", str(event.delivery.remote.condition)))
        self.done()


class Filling(Program):
    """Fills a queue, or takes what it has."""

    def __init__(self, port: int, queue: str, count: int) -> None:
        super().__init__(port)
        self.queue, self.sent, self.count = f"queue://{queue}", 0, count

    def begin(self, container: Container) -> None:
        self.sender = container.create_sender(self.connection, self.queue)

    def on_sendable(self, event: Event) -> None:
        while event.sender.credit and self.sent < self.count:
            event.sender.send(Message(body=self.sent, durable=True))
            self.sent += 1

    def on_accepted(self, _event: Event) -> None:
        self.count -= 1
        if not self.count:
            self.done()


class Taking(Program):
    """Takes so many messages from a queue."""

    def __init__(self, port: int, queue: str, count: int) -> None:
        super().__init__(port)
        self.queue, self.count = f"queue://{queue}", count

    def begin(self, container: Container) -> None:
        container.create_receiver(self.connection, self.queue)

    def on_message(self, event: Event) -> None:
        super().on_message(event)
        if len(self.seen) == self.count:
            self.done()


@pytest.mark.parametrize("settle", [False, True], ids=["settled after", "settled before"])
def test_a_program_moves_messages_in_transactions(
    gateway: Gateway, topic: str, settle: bool
) -> None:
    """Messages of an aborted transaction come again, in their old order; each arrives once."""
    Filling(gateway.port, topic, COUNT).run()
    moving = Moving(gateway.port, topic, settle=settle).run()
    assert moving.errors == []
    assert moving.ended == ["aborted", "committed", "committed", "aborted", "committed"]
    assert moving.seen == list(range(COUNT))
    assert Taking(gateway.port, f"{topic}-to", COUNT).run().seen == list(range(COUNT))
