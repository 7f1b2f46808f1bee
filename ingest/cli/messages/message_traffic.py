"""Publishing and consuming from the shell, over Proton's reactor: one connection, one link.

Each class ends its connection when it has done what it was made for, or with the first error, which
`failed` says.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from proton import Connection, Delivery, Event, Handler, Message, Receiver, Sender, SymbolList
from proton import Link as ProtonLink
from proton.handlers import MessagingHandler
from proton.reactor import Container, Copy, DurableSubscription, LinkOption, Selector

from distributary.jobs.client.management_client import Gateway

if TYPE_CHECKING:
    from proton._reactor import Task  # what `Container.schedule` gives

#: Messages that a consumer asks for ahead, and deliveries between two accepts at most.
CREDIT = 100


class _Ended(MessagingHandler):
    """A connection that says why it ended."""

    def __init__(self, gateway: Gateway, *, prefetch: int = 0) -> None:
        super().__init__(prefetch=prefetch, auto_accept=False)
        self._gateway = gateway
        self.failed = ""
        self._opening: Task | None = None

    def run(self, container_id: str = "") -> None:
        """Work until it is done; the container has this id, or one of its own."""
        container = Container(self)
        if container_id:
            container.container_id = container_id
        container.run()

    def on_start(self, event: Event) -> None:
        gateway = self._gateway
        connection = event.container.connect(
            gateway.url,
            user=gateway.user or None,
            password=gateway.password or None,
            allowed_mechs=gateway.mechanism,
            ssl_domain=gateway.domain(),
            reconnect=False,
        )
        self._opening = event.container.schedule(gateway.open_seconds, _Then(self._late))
        self.attach(event.container, connection)

    def on_connection_opened(self, event: Event) -> None:  # noqa: ARG002 (Proton's name and arguments)
        self._stop_waiting()

    def _late(self, event: Event) -> None:
        self._opening = None
        why = f"no gateway answers at {self._gateway.url}: {self._gateway.silent}"
        self.failed = self.failed or why
        event.container.stop()

    def _stop_waiting(self) -> None:
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None

    def attach(self, container: Container, connection: Connection) -> None:
        """Make the link."""
        raise NotImplementedError

    def end(self, event: Event, failed: str = "") -> None:
        """Close; the first reason counts."""
        self._stop_waiting()
        self.failed = self.failed or failed
        if event.connection is not None:
            event.connection.close()

    def on_transport_error(self, event: Event) -> None:
        condition = event.transport.condition if event.transport else None
        said = (condition.description or condition.name) if condition else "it is gone"
        self.end(event, f"no gateway answers at {self._gateway.url}: {said}")

    def on_connection_error(self, event: Event) -> None:
        condition = event.connection.remote_condition if event.connection else None
        self.end(event, _said(condition, "the connection was ended"))

    def on_link_error(self, event: Event) -> None:
        condition = event.link.remote_condition if event.link else None
        self.end(event, _said(condition, "the link was ended"))


class Publishing(_Ended):
    """Sends all messages to an address, as the gateway gives credit, and waits until each is
    accepted. `rejected` says how many weren't, and why the first one wasn't."""

    def __init__(
        self,
        gateway: Gateway,
        address: str,
        messages: Iterator[Message],
        told: Callable[[int], None],
        seconds_apart: float = 0.0,
    ) -> None:
        """`told` hears how many are accepted. `seconds_apart`: between two messages."""
        super().__init__(gateway)
        self._address, self._messages, self._told = address, messages, told
        self._apart = seconds_apart
        self._waits = False
        self._all = False
        self.sent = self.accepted = self.rejected = 0
        self.reason = ""

    def attach(self, container: Container, connection: Connection) -> None:
        container.create_sender(connection, self._address)

    def on_sendable(self, event: Event) -> None:
        sender = event.sender
        assert sender is not None  # noqa: S101
        if self._apart:
            if not self._waits:
                self._send_one(sender, event)
            return
        while sender.credit and self._send(sender):
            pass
        self._look(sender.connection)

    def _send_one(self, sender: Sender, event: Event) -> None:
        """One of those that go at a rate; the next one by a timer."""
        if sender.credit and self._send(sender):
            self._waits = True
            event.container.schedule(self._apart, _Then(lambda one: self._next(sender, one)))
        self._look(sender.connection)

    def _next(self, sender: Sender, event: Event) -> None:
        self._waits = False
        if not self.failed:
            self._send_one(sender, event)

    def _send(self, sender: Sender) -> bool:
        message = next(self._messages, None)
        if message is None:
            self._all = True
            return False
        sender.send(message)
        self.sent += 1
        return True

    def on_accepted(self, event: Event) -> None:
        self.accepted += 1
        self._told(self.accepted)
        self._look(event.connection)

    def on_rejected(self, event: Event) -> None:
        self.rejected += 1
        assert event.delivery is not None  # noqa: S101
        self.reason = self.reason or _said(event.delivery.remote.condition, "it was rejected")
        self._look(event.connection)

    on_released = on_rejected

    def _look(self, connection: Connection | None) -> None:
        """All is sent and answered: close. A timer's event has no connection of its own."""
        if self._all and self.accepted + self.rejected == self.sent and connection is not None:
            self._stop_waiting()
            connection.close()


class _Then(Handler):
    """What a timer calls."""

    def __init__(self, then: Callable[[Event], None]) -> None:
        super().__init__()
        self._then = then

    def on_timer_task(self, event: Event) -> None:
        """Proton's name for it."""
        self._then(event)


class _Shared(LinkOption):
    """A subscription that several consumers share, of all clients."""

    def apply(self, link: ProtonLink) -> None:
        """Called before the link is opened."""
        link.source.capabilities.put_object(SymbolList(["shared", "global"]))


@dataclass(frozen=True, slots=True)
class Consumption:
    """What is consumed: the address, and as what. It ends after `most` messages (0: no limit), or
    when nothing came for `quiet` seconds (0: never)."""

    address: str
    durable: str | None = None
    shared: bool = False
    selector: str | None = None
    browse: bool = False
    most: int = 0
    quiet: float = 0.0

    def options(self) -> list[LinkOption]:
        """What the link says of itself."""
        options: list[LinkOption] = []
        if self.durable is not None:
            options.append(DurableSubscription())
        if self.shared:
            options.append(_Shared())
        if self.selector:
            options.append(Selector(self.selector))
        if self.browse:
            options.append(Copy())
        return options


class Consuming(_Ended):
    """Gives each message to `take`, then accepts it, until the consumption is at its end. The link
    is never detached: its connection ends, which leaves a durable subscription as it is."""

    def __init__(
        self, gateway: Gateway, wanted: Consumption, take: Callable[[Message], None]
    ) -> None:
        """`take` may raise: then the message isn't accepted."""
        super().__init__(gateway)
        self._wanted, self._take = wanted, take
        self.count = 0
        self._seen = -1

    def attach(self, container: Container, connection: Connection) -> None:
        """As above."""
        wanted = self._wanted
        self._link = container.create_receiver(
            connection, wanted.address, name=wanted.durable, options=wanted.options()
        )

    def on_link_opened(self, event: Event) -> None:
        assert event.receiver is not None  # noqa: S101
        self._ask(event.receiver)
        if self._wanted.quiet:
            event.container.schedule(self._wanted.quiet, _Then(self._look))

    def _look(self, event: Event) -> None:
        """Nothing came since the last look: that is the end."""
        if self._seen == self.count:
            self._finish()
            return
        self._seen = self.count
        event.container.schedule(self._wanted.quiet, _Then(self._look))

    def on_message(self, event: Event) -> None:
        delivery, receiver = event.delivery, event.receiver
        assert delivery is not None and receiver is not None  # noqa: S101, PT018
        self._take(event.message)
        self.count += 1
        self.settle(delivery, Delivery.ACCEPTED)
        if self.count == self._wanted.most:
            self._finish()
        elif receiver.credit < CREDIT // 2:
            self._ask(receiver)

    def _ask(self, receiver: Receiver) -> None:
        """Credit for what is wanted, a hundred ahead."""
        most = self._wanted.most
        left = most - self.count - receiver.credit if most else CREDIT
        receiver.flow(max(min(CREDIT - receiver.credit, left), 0))

    def _finish(self) -> None:
        self._link.connection.close()


def _said(condition: object, otherwise: str) -> str:
    name, text = getattr(condition, "name", ""), getattr(condition, "description", "")
    return f"{name}: {text}" if name else otherwise
