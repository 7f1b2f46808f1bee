"""Proton's `MessagingHandler` and `Container`, used as its own examples use them, against a real
gateway: the events an application writes its code in."""

from collections.abc import Callable

from gateway_process import Gateway
from proton import Delivery, Event, Message
from proton.handlers import MessagingHandler
from proton.reactor import Backoff, Container, DurableSubscription


class Program(MessagingHandler):
    """An application of one connection that stops when its work is done, or after a while.

    `done` ends it. What it waits for in vain is a failure of the test, by what it has seen.
    """

    SECONDS_MAX = 30

    def __init__(self, port: int, **options: object) -> None:
        super().__init__(**options)
        self.url = f"127.0.0.1:{port}"
        self.seen: list[object] = []
        self.errors: list[tuple[str, str]] = []

    def run(self, container_id: str | None = None) -> "Program":
        container = Container(self)
        if container_id:
            container.container_id = container_id
        container.run()
        return self

    def on_start(self, event: Event) -> None:
        self.connection = event.container.connect(self.url, reconnect=False)
        self.limit = event.container.schedule(self.SECONDS_MAX, self)
        self.begin(event.container)

    def begin(self, container: Container) -> None:
        """Make links."""

    def on_timer_task(self, _event: Event) -> None:
        self.seen.append("gave up")
        self.connection.close()

    def done(self) -> None:
        self.limit.cancel()
        self.connection.close()

    def on_link_error(self, event: Event) -> None:
        condition = event.link.remote_condition
        self.errors.append((condition.name, condition.description))
        event.link.close()

    def on_message(self, event: Event) -> None:
        self.seen.append(event.message.body)


class Numbers(Program):
    """Publishes numbers as credit allows and counts what is accepted; reads them back."""

    def __init__(self, port: int, topic: str, count: int, **options: object) -> None:
        super().__init__(port, **options)
        self.topic, self.count = topic, count
        self.sent = self.accepted = 0

    def begin(self, container: Container) -> None:
        container.create_receiver(self.connection, self.topic)
        self.sender = None

    def on_link_opened(self, event: Event) -> None:
        if event.receiver:
            event.container.create_sender(self.connection, self.topic)

    def on_sendable(self, event: Event) -> None:
        while event.sender.credit and self.sent < self.count:
            event.sender.send(Message(body=self.sent, durable=True))
            self.sent += 1

    def on_accepted(self, _event: Event) -> None:
        self.accepted += 1
        self._perhaps()

    def on_message(self, event: Event) -> None:
        super().on_message(event)
        self._perhaps()

    def _perhaps(self) -> None:
        if self.accepted == len(self.seen) == self.count:
            self.done()


def test_simple_send_and_receive(gateway: Gateway, topic: str) -> None:
    """Proton's first example, a thousand times: all accepted, all there, in order."""
    program = Numbers(gateway.port, topic, 1_000).run()
    assert program.accepted == 1_000
    assert program.seen == list(range(1_000))


class ByHand(Program):
    """One durable subscription, whose messages are settled in the ways that a handler has."""

    def __init__(self, port: int, topic: str, decide: Callable[["ByHand", Event], None]) -> None:
        super().__init__(port, auto_accept=False)
        self.topic, self.decide = topic, decide
        self.counts: list[int] = []

    def begin(self, container: Container) -> None:
        container.create_receiver(
            self.connection, self.topic, name="by-hand", options=DurableSubscription()
        )

    def on_link_opened(self, event: Event) -> None:
        if event.receiver:
            event.container.create_sender(self.connection, self.topic)

    def on_sendable(self, event: Event) -> None:
        if not event.sender.queued and not self.counts:
            event.sender.send(Message(body="once", durable=True))
            event.sender.close()

    def on_message(self, event: Event) -> None:
        self.counts.append(event.message.delivery_count)
        self.decide(self, event)


def test_release_in_both_ways(gateway: Gateway, topic: str) -> None:
    """`release(delivered=False)` is released, `release()` is modified; both come again, and
    neither says that the delivery failed."""

    def decide(program: ByHand, event: Event) -> None:
        if len(program.counts) < 3:
            program.release(event.delivery, delivered=len(program.counts) == 2)
        else:
            program.accept(event.delivery)
            program.done()

    program = ByHand(gateway.port, topic, decide).run(topic)
    assert program.counts == [0, 0, 0]
    assert not program.seen


def test_a_failed_delivery_is_counted(gateway: Gateway, topic: str) -> None:
    """`delivery.local.failed` with MODIFIED is how Proton says it."""

    def decide(program: ByHand, event: Event) -> None:
        if len(program.counts) < 3:
            event.delivery.local.failed = True
            program.settle(event.delivery, Delivery.MODIFIED)
        else:
            program.reject(event.delivery)
            program.done()

    program = ByHand(gateway.port, topic, decide).run(topic)
    assert program.counts == [0, 1, 2]


class Draining(Program):
    """Takes what is there and no more, by draining its credit."""

    def __init__(self, port: int, topic: str) -> None:
        super().__init__(port, prefetch=0)
        self.topic = topic
        self.drained = self.sent = self.accepted = 0

    def begin(self, container: Container) -> None:
        self.receiver = container.create_receiver(self.connection, self.topic)

    def on_link_opened(self, event: Event) -> None:
        if event.receiver:
            event.container.create_sender(self.connection, self.topic)

    def on_sendable(self, event: Event) -> None:
        for number in range(3 - self.sent):
            event.sender.send(Message(body=number, durable=True))
            self.sent += 1

    def on_accepted(self, _event: Event) -> None:
        self.accepted += 1
        if self.accepted == 3:
            self.receiver.drain(10)

    def on_link_flow(self, event: Event) -> None:
        if event.receiver and not event.receiver.credit and not event.receiver.draining():
            self.drained += event.receiver.drained()
            self.done()


def test_drain(gateway: Gateway, topic: str) -> None:
    """Ten are asked for, three are there, seven credits come back."""
    program = Draining(gateway.port, topic).run()
    assert program.seen == [0, 1, 2]
    assert program.drained == 7


class Coming(MessagingHandler):
    """A producer and a durable consumer on a connection that comes back by itself; what had no
    outcome when it went is sent again, as Proton asks of every application."""

    COUNT = 200

    def __init__(self, gateway: Gateway, topic: str, end: Callable[[Gateway], None]) -> None:
        super().__init__()
        self.gateway, self.topic, self.end = gateway, topic, end
        self.accepted = self.sent = 0
        self.fresh: list[int] = []
        self.ended = False

    def on_start(self, event: Event) -> None:
        backoff = Backoff(initial=0.05, max_delay=0.2)
        event.container.container_id = self.topic
        self.connection = event.container.connect(
            f"127.0.0.1:{self.gateway.port}", reconnect=backoff
        )
        event.container.create_receiver(
            self.connection, self.topic, name="stays", options=DurableSubscription()
        )
        event.container.create_sender(self.connection, self.topic)

    def on_transport_error(self, _event: Event) -> None:
        """Said by the default handler as a warning; the connection comes back."""

    def on_connection_error(self, _event: Event) -> None:
        """The gateway's farewell."""

    def on_disconnected(self, event: Event) -> None:
        self.sent = self.accepted
        # After a farewell Proton 0.40 holds its half of the socket until its next heartbeat fails.
        event.transport.close_head()

    def on_sendable(self, event: Event) -> None:
        while event.sender.credit and self.sent < min(self.COUNT, self.accepted + 20):
            event.sender.send(Message(body=self.sent, durable=True))
            self.sent += 1

    def on_accepted(self, event: Event) -> None:
        self.accepted += 1
        self.on_sendable(event)
        if self.accepted >= self.COUNT // 2 and not self.ended:
            self.ended = True
            self.end(self.gateway)

    def on_message(self, event: Event) -> None:
        if event.message.body not in self.fresh:
            self.fresh.append(event.message.body)
        if len(self.fresh) == self.COUNT:
            self.connection.close()


def _killed(gateway: Gateway) -> None:
    gateway.kill()
    gateway.start()


def _stopped(gateway: Gateway) -> None:
    gateway.stop()
    gateway.start()


def test_over_a_kill_nothing_is_lost(gateway: Gateway, topic: str) -> None:
    """The connection comes back, its links with it, and the new messages come in order."""
    program = Coming(gateway, topic, _killed)
    Container(program).run()
    assert program.fresh == list(range(Coming.COUNT))


def test_over_a_stop_nothing_is_lost(gateway: Gateway, topic: str) -> None:
    """As above, when the gateway closes the connections itself."""
    program = Coming(gateway, topic, _stopped)
    Container(program).run()
    assert program.fresh == list(range(Coming.COUNT))
