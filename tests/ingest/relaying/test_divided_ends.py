"""A client ends a link whose messages are of several logs, before an owner has given an outcome."""

import signal
from collections.abc import Callable
from pathlib import Path

from gateway_fleet import Fleet
from gateway_links import encoded
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from proton import Endpoint

from tests.ingest.relaying.test_relay_metrics import shown


def test_a_client_that_detaches_and_goes_leaves_nothing_behind(tmp_path: Path) -> None:
    """The next owner hears nothing of its link."""
    with shown(tmp_path) as (fleet, main), Peer(main.port) as stays:
        sender = stays.sender("orders.goes")
        fleet.orders.process.send_signal(signal.SIGSTOP)
        peer = Peer(main.port)
        relay = peer.sender(None)
        relay.send(encoded("one", address="orders.goes"))
        relay.link.close()
        peer.heard()
        assert main.metric("relayed_links", log="orders") == 2
        peer.drop()
        main.await_metric(1, "relayed_links", log="orders")
        fleet.orders.kill()
        main.await_event("relay.lost")
        fleet.orders.start()
        sender.publish("two")
        assert main.running


def test_what_was_sent_settled_is_the_owners_before_the_detach_is_answered(
    fleet: Fleet, connect: Connect
) -> None:
    """As a good client ends: its link, then its session, then its connection."""
    consumer = connect(port=fleet.orders.port).receiver("orders.settled")
    for number in range(20):
        with Peer(fleet.main.port) as peer:
            relay = peer.sender(None, presettled=True)
            peer.until(lambda relay=relay: relay.link.credit > 0, "credit")
            relay.send(encoded(number, address="orders.settled"), settled=True)
            assert peer.leave(relay, closed=True) == ""
            peer.session.close()
            ended = lambda peer=peer: peer.session.state & Endpoint.REMOTE_CLOSED  # noqa: E731
            peer.until(ended, "the session's end")
    assert consumer.bodies(20) == list(range(20))


def test_a_detach_is_answered_when_no_owner_comes(
    tmp_path: Path, own_gateway: Callable[..., Gateway], connect: Connect
) -> None:
    """It says that something was lost."""
    with Fleet(tmp_path, own_gateway, {"fleet": {"owner_wait_ms": 1_000}}) as fleet:
        fleet.orders.kill()
        peer = connect(port=fleet.main.port)
        relay = peer.sender(None, presettled=True)
        peer.until(lambda: relay.link.credit > 0, "credit")
        relay.send(encoded("one", address="orders.lost"), settled=True)
        assert peer.leave(relay, closed=True) == "amqp:link:detach-forced"
