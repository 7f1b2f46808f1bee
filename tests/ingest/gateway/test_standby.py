"""A standby takes the home over when its owner has died or is paused.

The paused one, when it wakes, accepts nothing more. Everything accepted by either is there, and
nothing settled comes again.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from gateway_links import encoded
from gateway_peer import Connect, Peer, PeerLost
from gateway_process import Gateway, until
from proton import Delivery

from distributary.ingest.commit.home_opening import TableAhead
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

Make = Callable[..., Gateway]
LEASE_MS = 1_500
SETTINGS = {
    "owner": {"lease_ms": LEASE_MS},
    "journal": {"segment_bytes": 1 << 20},
    "commit": {"interval_ms": 30},
}


def standby_of(owner: Gateway, make: Make, settings: dict[str, object] | None = None) -> Gateway:
    """A gateway of its own that waits for the owner's home."""
    standby = make({**SETTINGS, **(settings or {})})
    standby.home, standby.options = owner.home, ["--standby"]
    standby.spawn()
    standby.await_event("standby.waiting")
    return standby


def signalled(gateway: Gateway, number: signal.Signals) -> None:
    assert gateway.process is not None
    gateway.process.send_signal(number)


def paused(owner: Gateway, standby: Gateway) -> None:
    """Pause the owner until the standby serves in its place."""
    signalled(owner, signal.SIGSTOP)
    standby.await_event("listening")


def woken(owner: Gateway) -> None:
    """Wake it: it must find out by itself, and end."""
    signalled(owner, signal.SIGCONT)
    owner.ended(1)
    assert "Traceback" not in owner.log
    assert owner.events("gateway.stopped")


class Client:
    """Publishes numbers and settles what comes, and writes down what became of each."""

    def __init__(self, peer: Peer, numbers: int) -> None:
        self.peer, self.next = peer, numbers
        self.sender = peer.sender("t")
        self.receiver = peer.durable("t", "mine")
        self.sent: dict[int, Delivery] = {}
        self.settling: dict[int, Delivery] = {}
        self.came: list[int] = []

    def turn(self) -> None:
        """Send some, settle some of what came, and look what is answered."""
        for _ in range(min(20, self.sender.link.credit)):
            self.sent[self.next] = self.sender.send(encoded(f"{self.next} {'x' * 300}"))
            self.next += 1
        if self.receiver.link.credit < 100:
            self.receiver.link.flow(100)
        self.peer.turn(0.002)
        got, self.receiver.inbox = self.receiver.inbox, []
        for one in got:
            number = int(str(one.body).split()[0])
            self.came.append(number)
            if number % 3:
                one.delivery.update(Delivery.ACCEPTED)
                self.settling[number] = one.delivery

    def listen(self) -> None:
        """Hear all that is still said, until the socket ends."""
        try:
            self.peer.until(lambda: False, "the end")
        except (PeerLost, AssertionError):
            self.peer.drop()

    @property
    def accepted(self) -> set[int]:
        return {n for n, delivery in self.sent.items() if delivery.settled}

    @property
    def settled(self) -> set[int]:
        return {n for n, delivery in self.settling.items() if delivery.settled}


def test_a_standby_serves_when_the_owner_is_killed(own_gateway: Make, connect: Connect) -> None:
    """At once, whatever the lease, with all that was accepted; and it stops like any other."""
    with own_gateway({"owner": {"lease_ms": 600_000}}) as owner:
        standby = standby_of(owner, own_gateway, {"owner": {"lease_ms": 600_000}})
        assert owner.process is not None
        assert standby.events("standby.waiting")[0]["owner_pid"] == owner.process.pid
        peer = connect("c", port=owner.port)
        peer.leave(peer.durable("t", "mine"), closed=False)
        peer.sender("t").publish(*range(100))
        owner.kill()
        standby.await_event("listening")
        peer = connect("c", port=standby.port)
        peer.sender("t").publish("new")
        assert peer.durable("t", "mine").bodies(101) == [*range(100), "new"]
        standby.stop()


def test_a_standby_that_waits_ends_when_it_is_told(own_gateway: Make, connect: Connect) -> None:
    """With exit code 0, and the owner doesn't notice."""
    with own_gateway() as owner:
        standby = standby_of(owner, own_gateway)
        standby.stop()
        connect(port=owner.port).sender("t").publish("still mine")
        assert not owner.events("owner.lost")


def test_a_standby_that_reads_ahead_ends_when_it_is_told(
    own_gateway: Make, connect: Connect
) -> None:
    """A file of its table that is never read to its end is no reason to stay."""
    with own_gateway(SETTINGS) as owner:
        peer = connect(port=owner.port)
        peer.durable("t", "mine")
        peer.sender("t").publish(1)
        table = owner.home / "tables" / "topic_log"
        file = table / "_delta_log" / f"{0:020}.json"
        until(file.exists, "a commit")
        file.rename(table / "kept")
        os.mkfifo(file)
        standby = standby_of(owner, own_gateway)
        opened: list[int] = []

        def reads() -> bool:
            with suppress(OSError):  # the standby hasn't opened it to read yet
                opened.append(os.open(file, os.O_WRONLY | os.O_NONBLOCK))
            return bool(opened)

        until(reads, "it reads")
        standby.stop()
        assert "Traceback" not in standby.log
        os.close(opened[0])
        (table / "kept").rename(file)


def test_what_is_read_too_late_is_dropped(own_gateway: Make, connect: Connect) -> None:
    """The start that it was for has taken what there was."""
    with own_gateway(SETTINGS) as owner:
        connect(port=owner.port).durable("t", "mine")
        owner.stop()

        def late() -> TopicLog:
            assert ahead.taken() is None
            return TopicLog.open(owner.home / "tables" / "topic_log", create=False)

        ahead = TableAhead(late)
        ahead.read()
        assert ahead.taken() is None


def test_a_standby_that_could_not_serve_does_not_wait(own_gateway: Make) -> None:
    """An error in its files is reported at its start, not when it is needed."""
    with own_gateway(SETTINGS) as owner:
        standby = own_gateway({"security": {"users": "/nowhere.toml"}})
        standby.home, standby.options = owner.home, ["--standby"]
        standby.spawn()
        standby.ended(2)
        assert "/nowhere.toml" in standby.log
        assert not standby.events("standby.waiting")


def test_an_owner_that_lives_is_left_alone(own_gateway: Make, connect: Connect) -> None:
    """Many leases long, idle or busy."""
    lease: dict[str, object] = {"owner": {"lease_ms": 2 * LEASE_MS}}
    with own_gateway(SETTINGS | lease) as owner:
        standby = standby_of(owner, own_gateway, lease)
        sender = connect(port=owner.port).sender("t")
        end = time.monotonic() + 3 * 2 * LEASE_MS / 1_000
        while time.monotonic() < end:
            sender.publish(*range(200))
        assert not standby.events("standby.took_over")
        standby.stop()


def test_a_port_that_the_paused_owner_holds_is_waited_for(
    own_gateway: Make, connect: Connect
) -> None:
    """On one machine, with one port for both: it is free when the old owner wakes and ends."""
    with own_gateway(SETTINGS) as owner:
        standby = own_gateway(SETTINGS)
        standby.home, standby.options, standby.port = owner.home, ["--standby"], owner.port
        standby.spawn()
        standby.await_event("standby.waiting")
        signalled(owner, signal.SIGSTOP)
        standby.await_event("standby.port_in_use")
        woken(owner)
        standby.await_event("listening")
        connect(port=standby.port).sender("t").publish("hello")


def test_what_waits_for_a_paused_owner_is_not_accepted(own_gateway: Make, connect: Connect) -> None:
    """Not even a message that needs no disk: a non-persistent one would be accepted on receipt, and
    never be delivered."""
    with own_gateway(SETTINGS) as owner:
        standby = standby_of(owner, own_gateway)
        peer = connect(port=owner.port)
        sender = peer.sender("t")
        sender.publish("before", durable=False)
        signalled(owner, signal.SIGSTOP)
        late = [sender.send(encoded("late", durable=n > 2)) for n in range(6)]
        peer.write()
        standby.await_event("listening")
        woken(owner)
        with pytest.raises(PeerLost):
            peer.until(lambda: False, "the end")
        assert not any(delivery.settled for delivery in late)


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_and_nothing_settled_comes_again(
    own_gateway: Make, connect: Connect, seed: int
) -> None:
    """An owner is paused in the middle of publishing, settling and committing, and wakes while its
    successor is at work or later; then its successor is paused in turn."""
    dice = random.Random(seed)
    owner = own_gateway(SETTINGS).start()
    accepted: set[int] = set()
    settled: set[int] = set()
    came: set[int] = set()
    number = 0
    for _ in range(3):
        standby = standby_of(owner, own_gateway)
        client = Client(connect("c", port=owner.port), number)
        for _ in range(dice.randrange(5, 60)):
            client.turn()
        assert settled.isdisjoint(client.came), "settled, and it came again"
        paused(owner, standby)
        following = Client(connect("c", port=standby.port), 1_000_000 * (seed + 1) + client.next)
        before = settled | client.settled
        if dice.randrange(2):
            woken(owner)
            client.listen()
        for _ in range(dice.randrange(5, 40)):
            following.turn()
        if owner.running:
            woken(owner)
            client.listen()
        accepted |= client.accepted | following.accepted
        settled = before | following.settled
        came |= {*client.came, *following.came}
        assert before.isdisjoint(following.came), "settled by the former owner, and it came again"
        number = following.next
        following.peer.drop()
        owner.process = None
        owner = standby
    rest = connect("c", port=owner.port).durable("t", "mine")
    left: list[int] = []
    while rest.drain(5_000):
        got, rest.inbox = rest.inbox, []
        rest.confirm(got)
        left += [int(str(one.body).split()[0]) for one in got]
    assert settled.isdisjoint(left)
    assert accepted <= came | set(left), f"lost: {sorted(accepted - came - set(left))[:9]}"
    assert accepted - settled <= came | set(left)
    owner.stop()
