"""Metrics of a gateway about the owners of other logs."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from gateway_fleet import Fleet
from gateway_http import ShownGateway
from gateway_links import Incoming, encoded
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import Gateway, Settings, until


@contextmanager
def shown(folder: Path, settings: Settings | None = None) -> Iterator[tuple[Fleet, ShownGateway]]:
    """A fleet, and its gateway of `main`, which shows its metrics."""
    made: list[Gateway] = []

    def make(settings: Settings | None = None) -> Gateway:
        made.append((Gateway if made else ShownGateway)(folder / str(len(made)), settings))
        return made[-1]

    with Fleet(folder, make, settings) as fleet:
        assert isinstance(fleet.main, ShownGateway)
        yield fleet, fleet.main


def test_owners_of_other_logs_are_seen(tmp_path: Path) -> None:
    """None before a link is relayed; then whether it is there, what waits for it, how often it was
    lost."""
    with shown(tmp_path) as (fleet, main):
        assert not [labels for name, labels in main.metrics() if "owner_" in name]
        with Peer(main.port) as peer:
            peer.receiver("queue://orders.seen", capabilities=())
            peer.sender("orders.seen").publish("one")
            peer.sender("own").publish("two")
            assert main.metric("owner_connected", log="orders") == 1
            assert main.metric("relayed_links", log="orders") == 2
            assert main.metric("owner_losses_total", log="orders") == 0
            fleet.orders.kill()
            main.await_metric(0, "owner_connected", log="orders")
            assert main.metric("relayed_links", log="orders") == 2
            assert main.metric("owner_losses_total", log="orders") == 1
            fleet.orders.start()
            until(lambda: main.metric("owner_connected", log="orders") == 1, "it is back")
        main.await_metric(0, "relayed_links", log="orders")


def test_links_to_a_node_wait_from_the_loss_on(tmp_path: Path) -> None:
    """As other links do, and not from the first request on."""
    with (
        shown(tmp_path, {"fleet": {"owner_wait_ms": 3_000}}) as (fleet, main),
        Peer(main.port) as peer,
    ):
        manager = Manager(peer)
        manager.refused(404, "READ", "queue", "orders.q")
        asked = time.monotonic()
        until(lambda: time.monotonic() - asked > 3.2, "longer than links wait")
        fleet.orders.kill()
        main.await_event("relay.waits")
        assert main.metric("relayed_links", log="orders") == 2
        main.await_metric(0, "relayed_links", log="orders")


def test_a_request_behind_the_end_of_its_link_leaves_nothing(tmp_path: Path) -> None:
    """The first one can't be answered, and ends its link: the second one is passed to no owner."""
    with shown(tmp_path) as (_, main), Peer(main.port) as peer:
        manager = Manager(peer)
        manager.refused(404, "READ", "queue", "orders.q")
        assert main.metric("relayed_links", log="orders") == 2
        peer.until(lambda: manager.requests.link.credit > 2, "credit")
        said = {"operation": "READ", "type": "queue", "name": "orders.q"}
        for number, answers in enumerate(("", manager.address)):
            data = encoded({}, properties=said, id=number, reply_to=answers)
            manager.requests.send(data, settled=True)
        assert peer.amqp_error(manager.requests)
        main.await_metric(0, "relayed_links", log="orders")


def test_gateways_that_there_are_not(tmp_path: Path) -> None:
    """A client names temporary destinations of gateways without a log that don't exist: a
    connection has links to so many at once, and none of them is left."""
    settings = {"fleet": {"owner_wait_ms": 2_000, "private_logs_max": 3}}
    with shown(tmp_path, settings) as (_, main), Peer(main.port) as peer:
        numbers = count(1)

        def attached() -> Incoming:
            address = f"temp-queue://none-{next(numbers)}/mine"
            return peer.receiver(address, capabilities=("temporary-queue",), opened=False)

        for _ in range(2):  # the first ones are gone when their time is over
            waits = [attached() for _ in range(3)]
            assert peer.amqp_error(attached()) == "amqp:resource-limit-exceeded"
            relay = peer.sender(None, presettled=True)
            address = f"temp-queue://none-{next(numbers)}/mine"
            relay.send(encoded("one", address=address), settled=True)
            assert peer.amqp_error(relay) == "amqp:resource-limit-exceeded"
            assert not [one for one in main.metrics() if "none-" in str(one)]
            for one in waits:
                assert peer.amqp_error(one) == "amqp:link:detach-forced"


def test_a_gateway_without_a_log_that_is_gone(tmp_path: Path) -> None:
    """It doesn't come back under its number, so links don't wait for it as for an owner."""
    with shown(tmp_path, {"fleet": {"member_ms": 500}}) as (_, main), Peer(main.port) as peer:
        address = "temp-queue://none-7/theirs"
        words = ("temporary-queue",)
        consumer = peer.receiver(address, capabilities=words, opened=False)
        assert peer.amqp_error(consumer) == "amqp:not-found"
        assert peer.amqp_error(peer.sender(address, capabilities=words, opened=False)) == (
            "amqp:not-found"
        )
        [waits] = main.events("relay.waits")
        assert waits["reason"] == "its owner hasn't said where it listens"
