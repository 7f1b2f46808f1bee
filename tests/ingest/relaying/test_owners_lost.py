"""The owner of a log is killed, and comes back or another one does: relayed links go on."""

import asyncio
import signal
import socket
import socketserver
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from async_client import at, run, until
from gateway_fleet import Fleet
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect, in_use
from gateway_process import Gateway
from gateway_process import until as until_true
from proton import Delivery, Endpoint

from distributary.pipeline.tables.lake.lake import OwnerAddress

#: Links wait for this long, where a test waits for the end of that.
SHORT = {"fleet": {"owner_wait_ms": 1_000}}


def killed(fleet: Fleet) -> None:
    """The owner of `orders` is killed, and the other gateway knows it."""
    fleet.orders.kill()
    fleet.main.await_event("relay.lost", len(fleet.main.events("relay.connected")))


def again(fleet: Fleet) -> None:
    """The owner of `orders` is back, and the other gateway is connected to it."""
    fleet.orders.start()
    fleet.main.await_event("relay.connected", len(fleet.orders.events("listening")))


def test_what_has_no_outcome_is_sent_again_in_its_order(fleet: Fleet) -> None:
    async def work() -> None:
        async with at(fleet.main) as client, at(fleet.main) as reader:
            consumer = reader.subscribe("all", topic="orders.again")
            await consumer.begin()
            async with client.publisher("orders.again") as publisher:
                for number in range(3_000):
                    await publisher.send(number)
                    if number == 1_500:
                        fleet.orders.kill()
                        fleet.orders.start()
            seen = []
            while len(set(seen)) < 3_000:
                message = await anext(consumer)
                await message.accept()
                seen.append(message.body)
            firsts = list(dict.fromkeys(seen))
            assert firsts == list(range(3_000))
            await consumer.close()

    run(work())
    assert fleet.main.events("relay.lost")


def test_what_the_lost_owner_had_not_written_is_sent_again(
    tmp_path: Path, own_gateway: Callable[..., Gateway], connect: Connect
) -> None:
    """Its group lingers, and it is killed with it."""
    with Fleet(tmp_path, own_gateway, {"journal": {"linger_ms": 800}}) as fleet:
        peer = connect("unwritten", port=fleet.main.port)
        consumer = peer.durable("orders.unwritten", "mine")
        sender = peer.sender("orders.unwritten")
        sent = [sender.send(encoded(number)) for number in range(100)]
        peer.turn(0.2)
        assert not any(one.settled for one in sent)
        killed(fleet)
        more = [sender.send(encoded(number)) for number in range(100, 200)]
        peer.write()
        again(fleet)
        assert {sender.outcome(one) for one in sent + more} == {Delivery.ACCEPTED}
        assert consumer.bodies(200) == list(range(200))


@pytest.mark.parametrize("ends", [Gateway.kill, Gateway.stop])
def test_a_consumer_goes_on(
    fleet: Fleet, connect: Connect, ends: Callable[[Gateway], None]
) -> None:
    peer = connect("goes-on", port=fleet.main.port)
    consumer = peer.durable("orders.goes-on", "mine")
    consumer.link.flow(100)
    sender = peer.sender("orders.goes-on")
    sender.publish("before")
    consumer.confirm(consumer.take())
    ends(fleet.orders)
    again(fleet)
    sender.publish("after")
    assert consumer.bodies() == ["after"]


def test_what_the_client_holds_is_not_sent_twice(fleet: Fleet, connect: Connect) -> None:
    peer = connect("holds", port=fleet.main.port)
    consumer = peer.durable("orders.holds", "mine")
    sender = peer.sender("orders.holds")
    sender.publish(*range(4))
    held = consumer.take(4)
    killed(fleet)
    consumer.settle(held[:2])  # no owner reads it yet
    consumer.link.flow(10)
    again(fleet)
    sender.publish("new")
    assert consumer.bodies() == ["new"]
    consumer.settle(held[2:3])
    consumer.settle(held[3:], Delivery.RELEASED)
    assert [(one.body, one.delivery.tag != held[3].delivery.tag) for one in consumer.take(1)] == [
        (3, True)
    ]


def test_outcomes_given_meanwhile_are_known_at_the_next_owner(
    fleet: Fleet, connect: Connect
) -> None:
    peer = connect("meanwhile", port=fleet.main.port)
    consumer = peer.durable("orders.meanwhile", "mine")
    peer.sender("orders.meanwhile").publish(*range(3))
    held = consumer.take(3)
    killed(fleet)
    consumer.settle(held)
    consumer.link.flow(10)
    again(fleet)
    assert consumer.nothing()
    peer.close()
    direct = connect("meanwhile", port=fleet.orders.port)
    assert direct.durable("orders.meanwhile", "mine").nothing()


def test_a_client_that_waits_for_our_word_hears_that_nobody_knows(
    fleet: Fleet, connect: Connect
) -> None:
    peer = connect("word", port=fleet.main.port)
    consumer = peer.durable("orders.word", "mine")
    sender = peer.sender("orders.word")
    sender.publish("one", "two")
    one, two = consumer.take(2)
    consumer.confirm([one])
    fleet.orders.kill()
    fleet.main.await_event("relay.lost")
    two.delivery.update(Delivery.ACCEPTED)
    peer.write()
    assert peer.amqp_error(consumer) == "amqp:link:detach-forced"


def test_links_wait_for_an_owner_only_so_long(
    tmp_path: Path, own_gateway: Callable[..., Gateway], connect: Connect
) -> None:
    with Fleet(tmp_path, own_gateway, SHORT) as fleet:
        peer = connect("short", port=fleet.main.port)
        sender, consumer = peer.sender("orders.short"), peer.receiver("orders.short")
        fleet.orders.kill()
        assert peer.amqp_error(sender) == "amqp:link:detach-forced"
        assert peer.amqp_error(consumer) == "amqp:link:detach-forced"
        late = peer.receiver("orders.short", opened=False)
        assert peer.amqp_error(late) == "amqp:link:detach-forced"
        waits = fleet.main.events("relay.waits")
        assert "no server answers" in str(waits[-1]["reason"])
        assert len(waits) <= 1 + len(fleet.main.events("relay.lost"))
        fleet.orders.start()
        assert peer.receiver("orders.short").nothing()


def test_an_address_that_another_logs_owner_has_is_no_owners(
    tmp_path: Path, own_gateway: Callable[..., Gateway], connect: Connect
) -> None:
    """It lets gateways in and refuses their links: they wait as long as ever, and it isn't asked
    more often than the lake."""
    with Fleet(tmp_path, own_gateway, SHORT) as fleet:
        peer = connect("stale", port=fleet.main.port)
        consumer = peer.receiver("orders.stale")
        manager = Manager(peer)
        manager.refused(404, "READ", "queue", "orders.stale")
        fleet.orders.kill()
        address = fleet.lake.address_of("main")
        fleet.lake.say_address("orders", address)
        assert peer.amqp_error(consumer) == "amqp:link:detach-forced"
        late = peer.receiver("orders.stale", opened=False)
        assert peer.amqp_error(late) == "amqp:link:detach-forced"
        assert "isn't the owner" in manager.refused(500, "READ", "queue", "orders.stale")
        refusals = [one for one in fleet.main.events("relay.lost") if address.url == one["url"]]
        assert len(refusals) == 1
        assert len(fleet.main.events("relay.waits")) <= 2
        fleet.orders.start()
        assert peer.receiver("orders.stale").nothing()


#: What one who isn't the owner answers to what came.
STRANGERS: dict[str, Callable[[bytes], bytes]] = {
    "speaks HTTP": lambda _came: b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "says it all again": lambda came: came,
    "floods": lambda _came: b"AMQP\x03\x01\x00\x00" + bytes(1_000_000),
}


@pytest.mark.parametrize("answer", STRANGERS.values(), ids=STRANGERS)
def test_a_stranger_at_the_owners_address_is_no_owner(
    tmp_path: Path,
    own_gateway: Callable[..., Gateway],
    connect: Connect,
    answer: Callable[[bytes], bytes],
) -> None:
    """It hears no secret, relayed links wait as without an owner, and others notice nothing."""
    heard = list[bytes]()

    class Stranger(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                while came := self.request.recv(65_536):
                    heard.append(came)
                    self.request.sendall(answer(came))

    with (
        socketserver.ThreadingTCPServer(("127.0.0.1", 0), Stranger) as server,
        Fleet(tmp_path, own_gateway, SHORT) as fleet,
    ):
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        fleet.orders.kill()
        url = f"amqp://127.0.0.1:{server.server_address[1]}"
        fleet.lake.say_address("orders", OwnerAddress(url, "stranger", 1))
        peer = connect("away", port=fleet.main.port)
        late = peer.receiver("orders.away", opened=False)
        assert peer.amqp_error(late) == "amqp:link:detach-forced"
        peer.sender("others").publish("fine")
        assert heard
        assert fleet.lake.secret().encode() not in b"".join(heard)
        fleet.orders.start()
        fleet.orders.await_event("address.said", 2)
        assert peer.receiver("orders.away").nothing()
        server.shutdown()


@pytest.mark.parametrize("url", ["amqp://[::1", "amqp://a..b:1"])
def test_an_address_that_is_none_is_no_owners(fleet: Fleet, connect: Connect, url: str) -> None:
    """Its gateway was told to advertise nonsense: others wait for a better one."""
    fleet.orders.stop()
    fleet.lake.say_address("orders", OwnerAddress(url, "typo", 1))
    late = connect("typo", port=fleet.main.port).receiver("orders.typo", opened=False)
    late.peer.write()
    fleet.main.await_event("relay.waits")
    fleet.orders.start()
    late.peer.until(lambda: late.link.remote_source.address, "an attach")


def test_a_standby_takes_the_log_over(fleet: Fleet, connect: Connect) -> None:
    peer = connect("standby", port=fleet.main.port)
    consumer, sender = peer.durable("orders.standby", "mine"), peer.sender("orders.standby")
    sender.publish("before")
    standby = fleet.standby()
    standby.spawn()
    standby.await_event("standby.waiting")
    fleet.orders.kill()
    standby.await_event("listening")
    sender.publish("after")
    assert consumer.bodies(2) == ["before", "after"]
    fleet.lake.say_address("orders", fleet.lake.address_of("main"))  # it is wrong, and is found out
    late = connect("standby-late", port=fleet.main.port)
    assert late.receiver("orders.standby").nothing()


def test_an_owner_that_is_paused_is_missed_within_a_lease(
    tmp_path: Path, own_gateway: Callable[..., Gateway], connect: Connect
) -> None:
    """Its socket stays; but who is silent for a lease is no owner any more, and the standby that
    takes the log over gets what the paused one gave no outcome for."""
    settings = {"owner": {"lease_ms": 4_000}}
    with Fleet(tmp_path, own_gateway, settings) as fleet:
        peer = connect("pausing", port=fleet.main.port)
        consumer, sender = peer.durable("orders.pausing", "mine"), peer.sender("orders.pausing")
        standby = fleet.standby()
        standby.spawn()
        standby.await_event("standby.waiting")
        fleet.orders.process.send_signal(signal.SIGSTOP)
        sender.publish("after")
        assert consumer.bodies(1) == ["after"]
        [lost] = fleet.main.events("relay.lost")
        assert "has sent nothing for 4 s" in str(lost["reason"])
        fleet.orders.process.send_signal(signal.SIGCONT)
        fleet.orders.ended(1)
        standby.stop()


def test_a_gateway_that_is_paused_is_missed_soon(
    tmp_path: Path, own_gateway: Callable[..., Gateway], connect: Connect
) -> None:
    """Its clients' subscriptions at the owner are free then, for clients that come back at another
    gateway, and not only after `amqp.idle_timeout_ms`, a minute."""
    with Fleet(tmp_path, own_gateway, {"owner": {"lease_ms": 4_000}}) as fleet:
        peer = connect("missed", port=fleet.main.port)
        peer.durable("orders.missed", "mine")
        fleet.main.process.send_signal(signal.SIGSTOP)
        port = fleet.orders.port
        assert in_use(port, "missed", "orders.missed", "mine")
        until_true(lambda: not in_use(port, "missed", "orders.missed", "mine"), "it is lost", 45)


def test_an_address_where_nobody_answers_is_given_up_when_there_is_another(
    fleet: Fleet, connect: Connect
) -> None:
    """A machine that is gone refuses nothing: a connection to it would wait without end."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        fleet.orders.kill()
        url = f"amqp://127.0.0.1:{silent.getsockname()[1]}"
        fleet.lake.say_address("orders", OwnerAddress(url, "silent", 1))
        peer = connect("waits", port=fleet.main.port)
        late = peer.receiver("orders.waits", opened=False)
        peer.write()
        with silent.accept()[0]:
            fleet.orders.start()
            peer.until(lambda: late.link.remote_source.address, "an attach")
        [said] = fleet.main.events("relay.waits")
        assert str(said["reason"]) == f"the owner is no longer at {url}"


@pytest.mark.parametrize("closed", [False, True])
def test_a_client_leaves_while_the_owner_is_away(
    fleet: Fleet, connect: Connect, closed: bool
) -> None:
    peer = connect("leaves", port=fleet.main.port)
    consumer = peer.receiver("orders.leaves")
    sender = peer.sender("orders.leaves")
    fleet.orders.kill()
    fleet.main.await_event("relay.lost")
    assert peer.leave(consumer, closed=closed) == ""
    assert peer.leave(sender, closed=closed) == ""


def test_a_publisher_that_is_away_meanwhile_is_forgotten(fleet: Fleet) -> None:
    async def work() -> None:
        async with at(fleet.main) as client:
            await client.publish("orders.away", "first")
            fleet.orders.kill()
            publishing = asyncio.create_task(client.publish("orders.away", "second"))
            await until(lambda: fleet.main.events("relay.lost"), "the owner is missed")
            fleet.orders.start()
            await publishing

    run(work())


def test_a_gateway_that_stops_gives_back_what_its_clients_had(
    fleet: Fleet, connect: Connect
) -> None:
    peer = connect("stops", port=fleet.main.port)
    consumer = peer.durable("orders.stops", "mine")
    peer.sender("orders.stops").publish("one", "two")
    assert len(consumer.take(2)) == 2
    fleet.main.stop()
    direct = connect("stops", port=fleet.orders.port)
    again = direct.durable("orders.stops", "mine").take(2)
    assert [(one.body, one.message.first_acquirer) for one in again] == [
        ("one", False),
        ("two", False),
    ]


def test_a_session_that_ends_is_answered_when_the_owner_knows(
    fleet: Fleet, connect: Connect
) -> None:
    peer = connect("sessions", port=fleet.main.port)
    session = peer.new_session()
    consumer = peer.receiver("orders.sessions", "mine", durable=True, session=session)
    peer.sender("orders.sessions").publish("one")
    consumer.take()
    session.close()
    peer.until(lambda: session.state & Endpoint.REMOTE_CLOSED, "the answer to an end")
    other = connect("sessions", port=fleet.orders.port)
    assert other.durable("orders.sessions", "mine").bodies() == ["one"]
