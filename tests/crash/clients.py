"""Publishers and consumers that work until their gateway is gone, and write down what they did.

All of them take turns in the test's own thread. None waits: a turn does what can be done at once.
"""

import json
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gateway_links import Got, Incoming, Outgoing, encoded
from gateway_peer import Peer, PeerLost
from history import (
    DeadLettered,
    Delivered,
    Event,
    History,
    Leaving,
    Left,
    Publish,
    Published,
    Said,
    Searched,
    Settle,
    Settled,
    Subscribed,
)
from proton import Delivery, Message

#: Messages that a publisher has on its way at once, and sends at most in one turn.
WINDOW = 60
BURST = 10
#: Share of the messages that aren't persistent, and of the unknown ones that are sent again.
VOLATILE = 0.05
AGAIN = 0.5
#: Bytes that pad a message, and how often which: the big ones fill segments.
PADDING = ((0, 6), (900, 3), (24_000, 1))
#: Messages that a consumer has credit for.
CREDIT = 40
#: Where a gateway listens, if nothing else is said.
LOCAL = "127.0.0.1"
#: Turns that a consumer sits on a message which it settles late.
LATE_TURNS = 10
_STATES = {
    Said.ACCEPTED: Delivery.ACCEPTED,
    Said.REJECTED: Delivery.REJECTED,
    Said.RELEASED: Delivery.RELEASED,
}


def named(message: Message) -> str:
    """The name of a message: its publisher's and its number."""
    return str(message.body).split(" ", 1)[0].removeprefix('"')


@dataclass(frozen=True, slots=True)
class Subscription:
    """One durable subscription and how its consumers are called. A shared one has several; `queue`:
    it is a queue, to which topics are routed. `log`: of a lake, where it isn't `main` ("").
    `divided`: over these logs, where its topic is partitioned."""

    name: str
    topic: str
    consumers: int
    queue: bool = False
    log: str = ""
    divided: tuple[str, ...] = ()

    @property
    def exclusive(self) -> bool:
        return self.consumers == 1

    def attach(self, peer: Peer, number: int, *, opened: bool = True) -> Incoming:
        if self.queue:
            return peer.receiver(f"queue://{self.name}", capabilities=("queue",), opened=opened)
        if self.exclusive:
            return peer.durable(self.topic, self.name, opened=opened)
        suffix = f"{number + 1}" if number else ""
        return peer.shared_durable(self.topic, f"{self.name}|global{suffix}", opened=opened)

    @property
    def id(self) -> str:
        """Its word in tables, and in the name of its dead letters."""
        if self.queue:
            return f"queue/{self.name}"
        scope = f"container/{self.container(0)}" if self.exclusive else "global"
        return f"{scope}/{self.name}"

    @property
    def dead_letters(self) -> list[str]:
        """The queues of what it gives up: one of each log, but those of a queue are where it is."""
        logs = [""] if self.queue else list(self.divided) or [self.log]
        return [f"DLQ.log/{log}/{self.id}" if log else f"DLQ.{self.id}" for log in logs]

    def container(self, number: int) -> str:
        """The container of a consumer: an exclusive subscription belongs to its container."""
        return f"{self.name}-{number}"


@dataclass(frozen=True, slots=True)
class Ear:
    """A connection that its client has left, and outcomes that its gateway may still send on it."""

    peer: Peer
    said: list[tuple[Event, Delivery]]

    def hear_out(self, history: History, place: int) -> None:
        """Listen until the other end is gone. What it confirms must have been so at that place of
        the history, when it lost the home; a confirmation that comes late is still a promise."""
        _hear_out(self.peer)
        for event, delivery in self.said:
            if delivery.settled:
                history.add_before(place, event)
        self.peer.drop()


class Publisher:
    """Publishes to all topics as fast as credit and its window go."""

    def __init__(
        self, history: History, draw: random.Random, name: str, topics: Sequence[str]
    ) -> None:
        self._history, self._draw, self.name, self._topics = history, draw, name, topics
        self._numbers = 0
        self._peer: Peer | None = None
        self._links: dict[str, Outgoing] = {}
        self._waiting: deque[tuple[Publish, Delivery]] = deque()
        self._again: deque[Publish] = deque()
        self.accepted = 0
        self.burst = BURST
        self.paused = False
        self.ids = False  #: messages have them, so that topics can detect duplicates
        self.line = name  #: messages of a line come in the order in which they went
        self.grouped: frozenset[str] = frozenset()  #: to these topics each line is a message group

    @property
    def peer(self) -> Peer | None:
        """Its connection, while it has one."""
        return self._peer

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way or to be sent again."""
        return not self._waiting and not self._again

    def listen(self) -> None:
        """Read what has come, and do nothing."""
        assert self._peer is not None
        self._peer.turn(0.0)
        self._hear()

    def connect(self, port: int, host: str = LOCAL, *, opened: bool = True) -> None:
        """`opened`: wait for all answers."""
        self._peer = Peer(port, self.name, host=host, opened=opened)
        self._links = {one: self._peer.sender(one, opened=opened) for one in self._topics}

    def turn(self) -> None:
        assert self._peer is not None
        for _ in range(self.burst):
            if len(self._waiting) >= WINDOW or not self._send():
                break
        self._peer.turn(0.0)
        self._hear()

    def _send(self) -> bool:
        if self.paused and not self._again:
            return False
        publish = self._again[0] if self._again else self._new()
        link = self._links[publish.topic]
        if link.link.credit <= 0:
            return False
        if self._again:
            self._again.popleft()
        else:
            self._numbers += 1
        self._history.add(publish)
        sizes, weights = zip(*PADDING, strict=True)
        padding = "x" * self._draw.choices(sizes, weights)[0]
        text = f"{publish.message} {padding}"
        # Half of them are JSON, so that a topic with a schema has both: rows and what is rejected.
        said = json.dumps(text) if publish.number % 2 else text
        fields = {"id": publish.message} if self.ids else {}
        if publish.topic in self.grouped:
            fields["group_id"] = publish.publisher
        body = encoded(said, durable=publish.kept, **fields)
        self._waiting.append((publish, link.send(body)))
        return True

    def _new(self) -> Publish:
        topic = self._draw.choice(self._topics)
        message = f"{topic}/{self.name}/{self._numbers}"
        kept = self._draw.random() >= VOLATILE
        return Publish(message, topic, self.line, self._numbers, kept)

    def _hear(self) -> None:
        still: deque[tuple[Publish, Delivery]] = deque()
        for publish, delivery in self._waiting:
            if not delivery.settled:
                still.append((publish, delivery))
                continue
            assert delivery.remote_state == Delivery.ACCEPTED, delivery.remote_state
            delivery.settle()
            self._history.add(Published(publish.message))
            self.accepted += 1
        self._waiting = still

    def lost(self) -> None:
        """The gateway is gone: hear what it had said, and send again some of what is unknown."""
        if self._peer is not None:
            _hear_out(self._peer)
            self.abandon().peer.drop()

    def abandon(self) -> "Ear":
        """Go on without this gateway, which may still live: what it hasn't answered is unknown."""
        assert self._peer is not None
        self._hear()
        said: list[tuple[Event, Delivery]] = []
        for publish, delivery in self._waiting:
            said.append((Published(publish.message), delivery))
            if self._draw.random() < AGAIN:
                self._again.append(publish)
        ear = Ear(self._peer, said)
        self._waiting.clear()
        self._peer = None
        return ear

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer.drop()
            self._peer = None


@dataclass(slots=True)
class _Late:
    got: Got
    message: str
    turns: int = LATE_TURNS


@dataclass(slots=True)
class _Held:
    """Deliveries that this consumer has and has not settled, or whose settlement is on its way."""

    late: deque[_Late] = field(default_factory=deque)
    waiting: list[tuple[str, Said, Delivery]] = field(default_factory=list)


class Consumer:
    """Consumes from one subscription: accepts most, at once or late, and tries all else."""

    def __init__(
        self, history: History, draw: random.Random, subscription: Subscription, number: int
    ) -> None:
        self._history, self._draw, self.subscription = history, draw, subscription
        self._number = number
        self.name = subscription.container(number)
        self._peer: Peer | None = None
        self._link: Incoming | None = None
        self._held = _Held()
        self.confirmed = 0
        self.left_credit = 0  #: as it was when the gateway went

    @property
    def peer(self) -> Peer | None:
        """Its connection, while it has one."""
        return self._peer

    def listen(self) -> None:
        """Read what has come, and do nothing."""
        assert self._peer is not None
        self._peer.turn(0.0)

    def connect(self, port: int, host: str = LOCAL, *, opened: bool = True) -> None:
        """`opened`: wait for all answers."""
        self._peer = Peer(port, self.name, host=host, opened=opened)
        self._link = self.subscription.attach(self._peer, self._number, opened=opened)
        self._link.link.flow(CREDIT)

    def subscribed(self) -> Subscribed:
        one = self.subscription
        return Subscribed(one.name, one.topic, one.exclusive)

    def turn(self) -> None:
        assert self._peer is not None
        assert self._link is not None
        self._peer.turn(0.0)
        self._take()
        if self._link.link.credit < CREDIT // 2:
            self._link.link.flow(CREDIT // 2)
        self._peer.write()

    def _take(self) -> None:
        assert self._link is not None
        inbox, self._link.inbox = self._link.inbox, []
        for got in inbox:
            message = self._see(got)
            if self._draw.random() < 0.15:
                self._held.late.append(_Late(got, message))
            else:
                self._settle(got, message)
        for late in self._held.late:
            late.turns -= 1
        while self._held.late and self._held.late[0].turns <= 0:
            late = self._held.late.popleft()
            self._settle(late.got, late.message)
        self._hear()

    def _see(self, got: Got) -> str:
        message = got.message
        body = named(message)
        self._history.add(
            Delivered(self.subscription.name, body, self.name, message.delivery_count)
        )
        return body

    def _settle(self, got: Got, message: str) -> None:
        said = self._draw.choices(
            (Said.ACCEPTED, Said.REJECTED, Said.RELEASED, Said.FAILED), (85, 3, 7, 5)
        )[0]
        self._history.add(Settle(self.subscription.name, message, self.name, said))
        if said is Said.FAILED:
            got.delivery.local.failed = True
            got.delivery.update(Delivery.MODIFIED)
        else:
            got.delivery.update(_STATES[said])
        if self._draw.random() < 0.1:
            got.delivery.settle()  # without waiting: whether it is durable stays unknown
        else:
            self._held.waiting.append((message, said, got.delivery))

    def _hear(self) -> None:
        still = []
        for message, said, delivery in self._held.waiting:
            if not delivery.settled:
                still.append((message, said, delivery))
                continue
            delivery.settle()
            self._history.add(Settled(self.subscription.name, message, self.name, said))
            self.confirmed += 1
        self._held.waiting = still

    def lost(self) -> None:
        """The gateway is gone: hear what it had said; what is held stays unsettled."""
        self.left_credit = 0
        if self._peer is not None and self._link is not None:
            _hear_out(self._peer)
            self.abandon().peer.drop()

    def abandon(self) -> "Ear":
        """Go on without this gateway, which may still live: what is held stays unsettled."""
        assert self._peer is not None
        assert self._link is not None
        self.left_credit = max(self._link.link.credit, 0)
        for got in self._link.inbox:
            self._see(got)
        self._hear()
        name = self.subscription.name
        ear = Ear(
            self._peer,
            [(Settled(name, m, self.name, said), d) for m, said, d in self._held.waiting],
        )
        self._peer, self._link, self._held = None, None, _Held()
        return ear

    def leave(self) -> None:
        """Close the connection; the gateway goes on."""
        if self._peer is not None:
            self._history.add(Leaving(self.name))
            self._peer.close()
            if self._link is not None:
                for got in self._link.inbox:
                    self._see(got)
            self._hear()
            self._history.add(Left(self.name))
            self._peer.drop()
            self._peer, self._link, self._held = None, None, _Held()

    def drain(self, port: int, host: str = LOCAL) -> None:
        """Take and accept all that the subscription has, and see each outcome confirmed."""
        self._peer = Peer(port, self.name, host=host)
        self._link = self.subscription.attach(self._peer, self._number)
        while self._link.drain(2_000):
            inbox, self._link.inbox = self._link.inbox, []
            seen = [(got, self._see(got)) for got in inbox]
            for _, message in seen:
                self._history.add(Settle(self.subscription.name, message, self.name, Said.ACCEPTED))
            self._link.confirm(inbox)
            for _, message in seen:
                self._history.add(
                    Settled(self.subscription.name, message, self.name, Said.ACCEPTED)
                )
        self.leave()


class Whisperer:
    """Sends itself messages by a temporary queue: they stay in memory, and the only promise is that
    no other client notices. Messages come in the order in which they were sent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._peer: Peer | None = None
        self._sent = self._heard = 0

    def connect(self, port: int) -> None:
        self._peer = Peer(port, self.name)
        self._in = self._peer.receiver(None, capabilities=(), dynamic=True)
        self._in.link.flow(CREDIT)
        self._out = self._peer.sender(self._in.link.remote_source.address)
        self._sent = self._heard = 0

    def turn(self) -> None:
        assert self._peer is not None
        self._peer.turn(0.0)
        inbox, self._in.inbox = self._in.inbox, []
        for got in inbox:
            assert got.message.body == self._heard, "a message in memory is lost, or out of turn"
            self._heard += 1
            got.delivery.update(Delivery.ACCEPTED)
            got.delivery.settle()
        if self._sent - self._heard < CREDIT // 2 and self._out.link.credit > 0:
            self._out.send(encoded(self._sent, durable=False))
            self._sent += 1
        if self._in.link.credit < CREDIT // 2:
            self._in.link.flow(CREDIT // 2)
        self._peer.write()

    def listen(self) -> None:
        """Read what has come, and do nothing."""
        assert self._peer is not None
        self._peer.turn(0.0)

    def lost(self) -> None:
        """The gateway is gone, and the temporary queue with it."""
        if self._peer is not None:
            _hear_out(self._peer)
            self.abandon()

    def abandon(self) -> "Ear":
        """Go on without this gateway."""
        assert self._peer is not None
        ear = Ear(self._peer, [])
        self._peer = None
        return ear

    def close(self) -> None:
        if self._peer is not None:
            self._peer.close()
            self._peer.drop()
            self._peer = None


def search(history: History, port: int, subscription: Subscription, host: str = LOCAL) -> None:
    """Take all dead letters of the subscription. Each says that it is one of its."""
    with Peer(port, f"{subscription.name}-undertaker", host=host) as peer:
        for queue in subscription.dead_letters:
            link = peer.receiver(f"queue://{queue}", capabilities=("queue",))
            while link.drain(2_000):
                inbox, link.inbox = link.inbox, []
                for got in inbox:
                    message = got.message
                    assert message.annotations["x-opt-dead-letter-subscription"] == subscription.id
                    body = named(message)
                    history.add(DeadLettered(subscription.name, body))
                link.confirm(inbox)
    history.add(Searched(subscription.name))


def _hear_out(peer: Peer) -> None:
    """Read all that had come before the other end was gone."""
    while not peer.lost:
        peer.turn(1.0)


def connected(connect: Callable[[int], None], port: int) -> bool:
    """Whether the connection came to be; the gateway may go in the middle of it."""
    try:
        connect(port)
    except (PeerLost, OSError):
        return False
    return True
