"""Memory of relayed links has bounds: for clients that don't read, and for those that send while no
owner answers."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from weakref import ref

from gateway_fleet import Fleet
from gateway_frames import ATTACH, TRANSFER, begun, credit_frame, durable_source, receiver_frame
from gateway_hostile import rss
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from gateway_schemas import ORDER, schema

from distributary.ingest.relaying.held_bytes import SendersBytes

Make = Callable[..., Gateway]
MIB = 1 << 20
SIZE, LARGE = 20_000, 200_000


def written(peer: Peer) -> int:
    """How many bytes the gateway takes of the peer until it takes no more for a second."""
    taken, deadline = 0, time.monotonic() + 1.0
    while time.monotonic() < deadline and (size := peer.transport.pending()) > 0:
        with suppress(BlockingIOError):
            sent = peer.socket.send(peer.transport.peek(min(size, MIB)))
            peer.transport.pop(sent)
            taken, deadline = taken + sent, time.monotonic() + 1.0
    return taken


class Client:
    """Whether a client is read."""

    alive, held = True, False

    def hold(self, held: bool, _by: object) -> None:
        self.held = held


def test_clients_that_go_are_forgotten_while_others_wait() -> None:
    """Above the budget each client that has sent is held; one that comes and goes meanwhile leaves
    nothing."""
    senders, stays = SendersBytes(100), Client()
    senders.add(stays, 150)  # type: ignore[arg-type]
    gone = []
    for _ in range(10):
        client = Client()
        senders.add(client, 1)  # type: ignore[arg-type]
        assert client.held
        senders.forget(client)  # type: ignore[arg-type]
        senders.remove(1)
        gone.append(ref(client))
        del client
    assert not any(one() for one in gone)
    senders.remove(100)
    assert not stays.held


def test_a_consumer_that_does_not_read_costs_a_window(
    tmp_path: Path, own_gateway: Make, connect: Connect
) -> None:
    """It has credit for 100 MB of messages, whose size isn't known before the first one. A consumer
    that reads is served meanwhile, and has taken its memory before."""
    settings = {"amqp": {"write_buffer_bytes": 65_536}}
    with Fleet(tmp_path, own_gateway, settings) as fleet:
        deaf, served = "orders.deaf", "orders.served"
        reader = connect(port=fleet.main.port).receiver(served)
        reader.link.flow(1_000)
        peer = connect(port=fleet.orders.port)
        senders = [peer.sender(topic) for topic in (served, deaf)]

        def passed(rounds: int) -> int:
            """Bytes of the gateway after so many rounds of 10 MB on each topic."""
            for _ in range(rounds):
                for sender in senders:
                    sender.publish_data([encoded(b"x" * LARGE)] * 50)
                reader.settle(reader.take(50, credit=False))
            return rss(fleet.main)

        before = passed(4)
        receiver = receiver_frame("r", durable_source(deaf))
        with begun(fleet.main.port, "deaf", receiver, credit_frame(500)) as raw:
            raw.next(ATTACH)
            assert passed(10) < before + 16 * MIB
            raw.next(TRANSFER)


def test_of_those_that_do_not_read_the_one_with_most_ends(
    tmp_path: Path, own_gateway: Make, connect: Connect
) -> None:
    settings = {
        "amqp": {"write_buffer_bytes": 65_536},
        "fleet": {"held_bytes_max": 200_000},  # a window (1 MiB) is given anew by halves
    }
    with Fleet(tmp_path, own_gateway, settings) as fleet:
        receiver = receiver_frame("r", durable_source("orders.most"))
        with begun(fleet.main.port, "deaf", receiver, credit_frame(5_000)) as raw:
            raw.next(ATTACH)
            sender = connect(port=fleet.orders.port).sender("orders.most")
            for _ in range(4):
                sender.publish_data([encoded(b"x" * SIZE)] * 500)
            failed = fleet.main.await_event("connection.failed")
            assert failed["container"] == "deaf"
            assert "fleet.held_bytes_max" in str(failed["reason"])
        again = connect("deaf", port=fleet.main.port).durable("orders.most", "r")
        for _ in range(200):  # what it had is its subscription's again
            again.settle(again.take(10))


def test_a_sender_is_not_read_while_too_much_waits(
    tmp_path: Path, own_gateway: Make, connect: Connect
) -> None:
    with Fleet(tmp_path, own_gateway, {"fleet": {"held_bytes_max": 500_000}}) as fleet:
        peer = connect(port=fleet.main.port)
        sender = peer.sender("orders.waits")
        sender.publish_data([encoded(b"x" * SIZE)] * 100)
        before = rss(fleet.main)
        fleet.orders.kill()
        fleet.main.await_event("relay.lost")
        sent = [sender.send(encoded(b"x" * SIZE)) for _ in range(1_000)]
        assert written(peer) < 18 * MIB  # of 20 MB; most of it lies in the sockets' buffers
        assert rss(fleet.main) < before + 5 * MIB
        fleet.orders.start()
        peer.until(lambda: all(one.settled for one in sent), "all outcomes")
        assert connect(port=fleet.orders.port).receiver("orders.waits").nothing()


def test_its_own_log_does_not_have_it_read_again(
    tmp_path: Path, own_gateway: Make, connect: Connect
) -> None:
    """It isn't read for two reasons: a group of its gateway's own log waits, and too much waits for
    the owner. The group is written soon, the owner is away."""
    settings = {"fleet": {"held_bytes_max": 500_000}, "journal": {"waiting_bytes_max": 1}}
    with Fleet(tmp_path, own_gateway, settings) as fleet:
        peer = connect(port=fleet.main.port)
        sender = peer.sender(None)
        sender.publish_data([encoded("x", address="orders.both")])
        fleet.orders.kill()
        fleet.main.await_event("relay.lost")
        body = b"x" * 2 * SIZE
        sent = []
        for _ in range(999):
            sent += [sender.send(encoded(b"x", address="own.both"))]
            sent += [sender.send(encoded(body, address="orders.both"))]
        assert written(peer) < 18 * MIB  # of 40 MB; most of it lies in the sockets' buffers
        fleet.orders.start()
        peer.until(lambda: all(one.settled for one in sent), "all outcomes")


def test_requests_beyond_the_limit_are_refused(
    tmp_path: Path, own_gateway: Make, connect: Connect
) -> None:
    """While the owner is away: the others wait for it, and when it is back there is room again."""
    with Fleet(tmp_path, own_gateway, {"fleet": {"held_bytes_max": 80_000}}) as fleet:
        manager = Manager(connect(port=fleet.main.port))
        long = schema({**ORDER, "description": "x" * 45_000})
        fleet.orders.kill()
        number = manager.send("UPDATE", "schema", "orders.one", **long)
        said = manager.answer(manager.send("UPDATE", "schema", "orders.two", **long))
        assert said.status == 409
        assert "fleet.held_bytes_max" in said.text
        fleet.orders.start()
        assert manager.answer(number).status < 300
        manager.done("UPDATE", "schema", "orders.two", **long)
