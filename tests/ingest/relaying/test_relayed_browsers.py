"""Browsers at a gateway that relays them."""

from gateway_fleet import Fleet
from gateway_peer import Connect

QUEUE = ("queue",)


def test_a_browser_whose_owner_is_lost_is_shown_nothing_twice(
    fleet: Fleet, connect: Connect
) -> None:
    """The next owner can't know which messages it has seen. One that has seen none goes on."""
    peer = connect("browses", port=fleet.main.port)
    peer.sender("orders.browsed", capabilities=QUEUE).publish(*range(30))
    begun = peer.receiver("orders.browsed", capabilities=QUEUE, copy=True)
    new = peer.receiver("orders.browsed", capabilities=QUEUE, copy=True)
    consumer = peer.receiver("orders.browsed", capabilities=QUEUE)
    assert [got.body for got in begun.take(10)] == list(range(10))
    fleet.orders.kill()
    fleet.orders.start()
    assert peer.amqp_error(begun) == "amqp:link:detach-forced"
    assert begun.received == 10
    assert new.drain(100) == 30
    assert consumer.bodies(30) == list(range(30))
