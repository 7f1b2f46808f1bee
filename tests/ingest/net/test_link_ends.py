"""Ends of links and connections: nothing is left of them, and others get their messages."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from gateway_fields import make
from gateway_frames import begun, credit_frame, durable_source, framed, receiver_frame
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer, PeerLost
from gateway_planted import Planted
from gateway_process import Gateway, until
from gateway_transactions import value_of
from proton import Endpoint, Terminus

Make = Callable[..., Gateway]
VICTIM = "victim"
LINKS_MAX, BYTES_MAX = 40, 100_000
#: Descriptors of the coordinator's states (AMQP 1.0 part 4, 4.5.7 and 4.5.8).
DECLARED, TRANSACTIONAL = 0x33, 0x34
ATTACHED, TRANSFERRED = 0x12, 0x14
SETTINGS = {
    # A test that is kept from the processor for a second isn't silent.
    "amqp": {"idle_timeout_ms": 4_000, "links_max": LINKS_MAX, "message_bytes_max": BYTES_MAX},
    "commit": {"interval_ms": 20},
    "topic": {"backlog_messages_max": 100},
}


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    with Planted(tmp_path_factory.mktemp("ends"), SETTINGS) as running:
        yield running
        running.stop()
        running.verified()


def all_kinds(gateway: Planted, peer: Peer) -> None:
    """A link of each kind, with something that is kept for it."""
    peer.session = peer.new_session()
    with Peer(gateway.port) as other:
        other.leave(other.shared_durable("owed", "owed|global"), closed=False)
        other.sender("owed").publish("a", "b", "c")
    peer.sender("t").publish("x")
    peer.sender(None).send(encoded("y", address="t"))
    maker = peer.sender(None, capabilities=("temporary-queue",), dynamic=True)
    made = maker.link.remote_target.address
    maker.publish("waits")
    peer.receiver(made, capabilities=("temporary-queue",)).take()
    peer.receiver(None, capabilities=("temporary-topic",), dynamic=True)
    peer.receiver("t")
    peer.durable("t", "lasting")
    peer.shared("t", "together")
    peer.shared_durable("owed", "owed|global").take()
    peer.sender("queue://q").publish("z")
    peer.receiver("queue://q", capabilities=("queue",), copy=True).take()
    begin_transaction(peer)
    said = {"holder": "h", "max": 1, "keep": ""}
    Manager(peer).done("ACQUIRE", "subscription", "global/owed", **said)


def begin_transaction(peer: Peer) -> None:
    """One with a message in it."""
    declared = peer.sender(None, kind=Terminus.COORDINATOR).send(value_of(make("declare")))
    peer.until(lambda: declared.remote_state == DECLARED, "a transaction")
    link = peer.sender("t").link
    posted = link.delivery("posted")
    posted.local.data = [declared.remote.data[0]]
    posted.update(TRANSACTIONAL)
    link.stream(encoded("half"))
    link.advance()
    peer.until(lambda: posted.remote_state == TRANSACTIONAL, "what it becomes")


# Causes that leave the connection.


def leave(peer: Peer, *, closed: bool) -> None:
    for link in [*peer.links]:
        peer.leave(SimpleNamespace(link=link), closed=closed)


def detached(_gateway: Planted, peer: Peer) -> None:
    leave(peer, closed=False)


def closed(_gateway: Planted, peer: Peer) -> None:
    leave(peer, closed=True)


def session_ended(_gateway: Planted, peer: Peer) -> None:
    peer.session.close()
    peer.until(lambda: peer.session.state & Endpoint.REMOTE_CLOSED, "a session's end")
    peer.session.free()
    peer.links.clear()


def refused(_gateway: Planted, peer: Peer) -> None:
    """One link after the other until there are too many; then all leave."""
    for _ in range(LINKS_MAX):
        last = peer.sender("t", opened=False).link
    peer.until(lambda: peer.refused(last), "a link too many")
    leave(peer, closed=True)


def too_large(_gateway: Planted, peer: Peer) -> None:
    """Each link that sends brings a message larger than any may be; the others leave."""
    for link in peer.links:
        if link.is_sender:
            link.delivery("too-large")
            link.stream(encoded("x" * BYTES_MAX))
            link.advance()
            peer.until(lambda link=link: peer.refused(link), "a link's end")
    leave(peer, closed=True)


# Causes that end it.


def connection_closed(_gateway: Planted, peer: Peer) -> None:
    peer.close()


def dropped(_gateway: Planted, peer: Peer) -> None:
    peer.drop()


def no_frame(_gateway: Planted, peer: Peer) -> None:
    peer.socket.send(b"\xff" * 64)


def over_budget(_gateway: Planted, peer: Peer) -> None:
    """A frame has more values than one may: a list of arrays of nulls."""
    array = b"\xf0\x00\x00\x00\x05\x00\x00\xff\xff\x40"
    size, count = len(array) * 60 + 4, 60
    head = b"\x00\x53\x12\xd0" + size.to_bytes(4, "big") + count.to_bytes(4, "big")
    peer.socket.send(framed(head + array * count))


def silent(_gateway: Planted, _peer: Peer) -> None:
    """It neither reads nor writes any more."""


def bug(gateway: Planted, peer: Peer) -> None:
    gateway.arm("distributary.ingest.net.connection:Connection._feed", VICTIM)
    peer.new_session()
    peer.write()


Cause = Callable[[Planted, Peer], None]
OF_LINKS: tuple[Cause, ...] = (detached, closed, session_ended, refused)
OF_CONNECTIONS: tuple[Cause, ...] = (connection_closed, dropped, no_frame, over_budget, silent, bug)


def nothing_is_left(
    gateway: Planted, before: dict[str, int], alive: Callable[[], None] = lambda: None
) -> None:
    """`alive` is called meanwhile: by the silence of a peer all of it would go."""
    left: dict[str, tuple[int, int]] = {}

    def same() -> bool:
        alive()
        now = gateway.objects()
        left.clear()
        left.update(
            {
                name: (before.get(name, 0), count)
                for name, count in now.items()
                if count > before.get(name, 0)
            }
        )
        return not left

    try:
        until(same, "nothing is left")
    except AssertionError:
        raise AssertionError(f"objects before and after: {left}") from None


def has_ended(gateway: Planted) -> None:
    """The victim has gone, and no message is in flight to it any more."""
    with Peer(gateway.port, "looker") as other:
        manager = Manager(other)
        until(lambda: manager.done("READ", "node", "self")["connections"] == 1, "it has ended")
        assert manager.done("READ", "subscription", "global/owed")["in_flight"] == 0


@pytest.mark.parametrize("cause", OF_LINKS, ids=lambda cause: cause.__name__)
def test_nothing_is_left_of_links(counted: Planted, cause: Cause) -> None:
    """Their connection lives on, and has as much as before."""
    with Peer(counted.port, VICTIM) as peer:
        all_kinds(counted, peer)
        cause(counted, peer)
        before = counted.objects()
        all_kinds(counted, peer)
        cause(counted, peer)
        nothing_is_left(counted, before, peer.heard)


@pytest.mark.parametrize("cause", OF_CONNECTIONS, ids=lambda cause: cause.__name__)
def test_nothing_is_left_of_a_connection(counted: Planted, cause: Cause) -> None:
    before: dict[str, int] = {}
    for _ in range(2):
        peer = Peer(counted.port, VICTIM)
        all_kinds(counted, peer)
        cause(counted, peer)
        has_ended(counted)
        peer.drop()
        before = before or counted.objects()
    nothing_is_left(counted, before)


def test_many_links_go_in_parts_and_their_peer_may_be_back_at_once(tmp_path: Path) -> None:
    """A connection with more links than go in one part of a turn is cut; its client comes again in
    the same moment, under its name and with its subscriptions: none of them is in use still."""
    settings = {"amqp": {"links_max": 1_000}, "commit": {"interval_ms": 20}}
    names = [f"n{number}" for number in range(1_000)]
    attaches = [
        part
        for number, name in enumerate(names)
        for part in (
            receiver_frame(name, durable_source("t"), number),
            credit_frame(10, handle=number),
        )
    ]
    with Gateway(tmp_path, settings) as gateway:
        raw = begun(gateway.port, "c", *attaches)
        for _ in names:
            raw.next(ATTACHED)
        with Peer(gateway.port) as other:
            other.sender("t").publish("x", "y")
        for _ in range(2 * len(names)):
            raw.next(TRANSFERRED)
        raw.socket.close()
        again = begun(gateway.port, "c", *attaches)
        kinds = [again.read().kind for _ in range(2 + 3 * len(names))]
        assert (kinds.count("attach"), kinds.count("transfer")) == (1_000, 2_000), Counter(kinds)
        again.socket.close()
        gateway.stop()
        gateway.verified()


def test_nothing_is_left_at_a_shutdown(tmp_path: Path) -> None:
    """Its peers hear of it, it stops cleanly, and the next start knows nothing of what they had but
    what is durable: no temporary destination, no holder, no half of a transaction."""
    with Planted(tmp_path, SETTINGS) as gateway:
        peer = Peer(gateway.port, VICTIM)
        all_kinds(gateway, peer)
        assert gateway.process is not None
        gateway.process.terminate()
        with pytest.raises(PeerLost):
            peer.until(lambda: False, "the end")
        gateway.ended(0)
        gateway.verified()
        gateway.start()
        with Peer(gateway.port, "looker") as other:
            manager = Manager(other)
            names = [row[0] for row in manager.done("QUERY", "subscription")["results"]]
            assert sorted(names) == [f"container/{VICTIM}/lasting", "global/owed", "queue/q"]
            owed = manager.done("READ", "subscription", "global/owed")
            assert (owed["backlog"], owed["in_flight"], owed["consumers"]) == (3, 0, 0)
            assert manager.done("READ", "subscription", names[0])["backlog"] == 0  # no half
        gateway.stop()


def test_a_refused_holder_keeps_nothing(counted: Planted, connect: Connect) -> None:
    """A request that can't be answered was sent settled: its link ends, and with it the holder."""
    manager = Manager(connect(port=counted.port))
    with Peer(counted.port) as other:
        other.leave(other.shared_durable("kept", "kept|global"), closed=False)
        other.sender("kept").publish("a", "b")
    peer = Peer(counted.port, VICTIM)
    asking = Manager(peer)
    said = {"holder": "h", "max": 2, "keep": "", "linger_ms": 0}
    asking.done("ACQUIRE", "subscription", "global/kept", **said)
    assert manager.done("READ", "subscription", "global/kept")["in_flight"] == 2
    asking.requests.send(encoded(None), settled=True)
    peer.until(lambda: peer.refused(asking.requests.link), "the link's end")
    found = manager.done("READ", "subscription", "global/kept")
    assert (found["in_flight"], found["consumers"]) == (0, 0)
    peer.drop()


def test_a_temporary_destination_goes_with_a_maker_that_we_end(
    counted: Planted, connect: Connect
) -> None:
    """Its link ends as a message that was sent settled is refused."""
    manager = Manager(connect(port=counted.port))
    before = manager.done("READ", "node", "self")["subscriptions"]
    peer = connect(port=counted.port)
    maker = peer.sender(None, capabilities=("temporary-queue",), dynamic=True)
    for n in range(101):
        maker.send(encoded(n), settled=True)
    peer.until(lambda: peer.refused(maker.link), "the link's end")
    assert manager.done("READ", "node", "self")["subscriptions"] == before
