"""A shop publishes orders, and billing consumes them, by Qpid Proton.

python orders.py billing    # until Ctrl-C or SIGTERM
python orders.py shop       # ten orders, in one transaction
"""

import os
import signal
import sys

from proton import Event, Message, Receiver, SymbolList
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import (
    ApplicationEvent,
    Container,
    DurableSubscription,
    EventInjector,
    LinkOption,
)

URL = os.environ.get("AMQP_URL", "amqp://127.0.0.1:5672")
#: What is ordered, and what it costs. Nobody can bill the seventh order.
ORDERS = [("pizza", -1 if number == 7 else 1_000 + number) for number in range(1, 11)]


class Shop(MessagingHandler, TransactionHandler):
    """Publishes all orders or none: they become true at the commit."""

    def __init__(self) -> None:
        super().__init__()
        self.error = ""

    def on_start(self, event: Event) -> None:
        self.connection = event.container.connect(URL, reconnect=False)
        self.sender = event.container.create_sender(self.connection, "orders")
        self.declared = False

    def on_sendable(self, event: Event) -> None:
        """The gateway has granted credit, hundreds at a time: more than the orders need."""
        if event.sender == self.sender and not self.declared:
            self.declared = True
            event.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Event) -> None:
        for number, (item, cents) in enumerate(ORDERS, start=1):
            order = Message(
                item,
                id=f"order-{number}",
                durable=True,
                properties={"order": number, "cents": cents},
            )
            event.transaction.send(self.sender, order)
        event.transaction.commit()

    def on_transaction_committed(self, _event: Event) -> None:
        print(f"published {len(ORDERS)} orders")
        self.connection.close()

    def on_transaction_commit_failed(self, event: Event) -> None:
        self._failed(f"nothing was published: {event.delivery.remote.condition}")

    def on_link_error(self, event: Event) -> None:
        self._failed(event.link.remote_condition.description)

    def on_transport_error(self, event: Event) -> None:
        self._failed(event.transport.condition.description)

    def _failed(self, error: str) -> None:
        self.error = error
        self.connection.close()


class Shared(LinkOption):
    """Shared by all consumers who name it, whatever their container id."""

    def apply(self, receiver: Receiver) -> None:
        receiver.source.capabilities.put_object(SymbolList(["topic", "shared", "global"]))


class Billing(MessagingHandler):
    """Bills each order, and only then accepts it. Proton connects again by itself."""

    def __init__(self, stop: EventInjector) -> None:
        super().__init__(prefetch=10, auto_accept=False)
        self.stop = stop
        self.error = ""

    def on_start(self, event: Event) -> None:
        event.container.selectable(self.stop)
        self.connection = event.container.connect(URL)
        event.container.create_receiver(
            self.connection,
            "orders",
            name="billing|global",
            options=[DurableSubscription(), Shared()],
        )

    def on_message(self, event: Event) -> None:
        order, cents = (event.message.properties[name] for name in ("order", "cents"))
        if cents < 0:
            print(f"rejected order {order}: {cents} cents", flush=True)
            self.reject(event.delivery)  # for ever: it becomes a dead letter
        else:
            print(f"billed order {order}: {cents} cents", flush=True)
            self.accept(event.delivery)

    def on_disconnected(self, event: Event) -> None:
        """Without this, Proton waits for the rest of a socket whose other end was shut down."""
        if event.transport is not None:
            event.transport.close_head()

    def on_link_error(self, event: Event) -> None:
        self.error = event.link.remote_condition.description
        self.on_stop(event)

    def on_stop(self, _event: Event) -> None:
        """What has come and isn't accepted goes to others; the subscription stays."""
        self.stop.close()
        self.connection.close()


def main() -> str | int:
    match sys.argv[1:]:
        case ["shop"]:
            program = Shop()
        case ["billing"]:
            stop = EventInjector()
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: stop.trigger(ApplicationEvent("stop")))
            program = Billing(stop)
        case _:
            return "usage: python orders.py shop|billing"
    Container(program).run()
    return program.error or 0


if __name__ == "__main__":
    sys.exit(main())
