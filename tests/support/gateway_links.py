"""The links of a peer: messages sent and received, outcomes given and awaited, credit by hand."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from proton import Delivery, Message, Receiver, Sender

if TYPE_CHECKING:
    from gateway_peer import Peer

_tags = count(1)


def encoded(body: object, *, durable: bool = True, **fields: object) -> bytes:
    """A message's bytes, persistent if nothing else is said."""
    message = Message(body=body, **fields)
    message.durable = durable
    return bytes(message.encode())


def decoded(data: bytes) -> Message:
    message = Message()
    message.decode(data)
    return message


@dataclass(frozen=True)
class Got:
    """One delivery that came: its bytes, and the handle to settle it."""

    data: bytes
    delivery: Delivery

    @property
    def message(self) -> Message:
        return decoded(self.data)

    @property
    def body(self) -> object:
        return self.message.body


class Outgoing:
    """A sending link of the peer."""

    def __init__(self, peer: "Peer", link: Sender) -> None:
        self.peer, self.link = peer, link

    def send(self, data: bytes, *, settled: bool = False) -> Delivery:
        """Hand one message to the engine, credit or not; the outcome is the delivery's to tell."""
        delivery = self.link.delivery(f"{next(_tags)}")
        self.link.stream(data)
        self.link.advance()
        if settled:
            delivery.settle()
        return delivery

    def publish(self, *bodies: object, durable: bool = True) -> None:
        """Send messages with these bodies and wait until all of them are accepted."""
        self.publish_data([encoded(body, durable=durable) for body in bodies])

    def publish_data(self, messages: Iterable[bytes]) -> None:
        waiting = []
        for data in messages:
            self.peer.until(lambda: self.link.credit > 0, "credit")
            waiting.append(self.send(data))
        for delivery in waiting:
            self.outcome(delivery)
            assert delivery.remote_state == Delivery.ACCEPTED, delivery.remote_state
            delivery.settle()

    def outcome(self, delivery: Delivery) -> object:
        """The outcome of the delivery, when it is settled."""
        self.peer.until(lambda: delivery.settled, "an outcome")
        return delivery.remote_state


class Incoming:
    """A receiving link of the peer. Messages come when there is credit and a test waits."""

    def __init__(self, peer: "Peer", link: Receiver) -> None:
        self.peer, self.link = peer, link
        self.inbox: list[Got] = []
        self.received = 0

    def came(self, delivery: Delivery) -> None:
        if not delivery.readable or delivery.partial:
            return
        data = bytes(self.link.recv(delivery.pending) or b"")
        self.link.advance()
        self.inbox.append(Got(data, delivery))
        self.received += 1

    def take(self, number: int = 1, *, credit: bool = True) -> list[Got]:
        """The next messages, with credit for just as many if it is not given before."""
        if credit and self.link.credit < number - len(self.inbox):
            self.link.flow(number - len(self.inbox) - self.link.credit)
        self.peer.until(lambda: len(self.inbox) >= number, lambda: self._missing(number))
        taken, self.inbox = self.inbox[:number], self.inbox[number:]
        return taken

    def _missing(self, number: int) -> str:
        return f"{number} messages, {len(self.inbox)} came: {[got.body for got in self.inbox]}"

    def bodies(self, number: int = 1, *, accept: bool = True) -> list[object]:
        """The bodies of the next messages, accepted if nothing else is said."""
        taken = self.take(number)
        if accept:
            self.settle(taken)
        return [got.body for got in taken]

    def settle(self, taken: Iterable[Got], state: int = Delivery.ACCEPTED) -> None:
        """Give all of them an outcome and settle them; 0 settles without any."""
        for got in taken:
            if state:
                got.delivery.update(state)
            got.delivery.settle()
        self.peer.write()

    def confirm(self, taken: Iterable[Got], state: int = Delivery.ACCEPTED) -> None:
        """Give all of them an outcome, unsettled, and wait until the gateway has settled them:
        then it is durable."""
        taken = list(taken)
        for got in taken:
            got.delivery.update(state)
        self.peer.until(lambda: all(got.delivery.settled for got in taken), "settlements")
        for got in taken:
            got.delivery.settle()

    def drain(self, credit: int = 0) -> int:
        """Drain with so much credit more; how many messages came of it."""
        before = self.received
        self.link.drain(credit)
        self.peer.until(lambda: self.link.credit == 0 and not self.link.queued, "a drain's answer")
        self.link.drain_mode = False
        return self.received - before

    def nothing(self) -> bool:
        """Whether the subscription has nothing for this link now. Asked by a drain."""
        return self.drain(1) == 0
