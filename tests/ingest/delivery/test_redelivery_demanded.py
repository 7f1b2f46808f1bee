"""A consumer that was away demands what it had, by a property of its link."""

from collections.abc import Callable

from gateway_links import Incoming
from gateway_peer import GLOBAL, SHARED, Connect, Peer, put_symbols
from gateway_process import Gateway
from proton import Delivery, Terminus, symbol

Make = Callable[..., Gateway]

LATER = {"subscription": {"redelivery_delay_ms": 60_000}}


def demanding(peer: Peer, topic: str, name: str, words: tuple[str, ...] = ("topic",)) -> Incoming:
    """A consumer of a durable subscription, or of a queue, that demands redelivery."""
    link = peer.session.receiver(name)
    link.source.address = topic
    if "queue" not in words:
        link.source.durability = Terminus.DELIVERIES
        link.source.expiry_policy = Terminus.EXPIRE_NEVER
    put_symbols(link.source.capabilities, words)
    link.properties = {symbol("redeliver"): True}
    link.owner = incoming = Incoming(peer, link)
    peer.links.append(link)
    link.open()
    return incoming


def test_what_a_consumer_had_comes_again(own_gateway: Make, connect: Connect) -> None:
    """Its messages in flight come by themselves; those that it gave back as failed wait, unless it
    demands them. All are marked, and in their places."""
    with own_gateway(LATER) as gateway:
        peer = connect("mine", port=gateway.port)
        link = peer.durable("orders", "N")
        peer.sender("orders").publish(*range(6))
        taken = link.take(4)
        for got in taken[:2]:
            got.delivery.local.failed = True
        link.confirm(taken[:2], Delivery.MODIFIED)
        peer.drop()
        peer = connect("mine", port=gateway.port)
        link = peer.durable("orders", "N")
        assert [one.body for one in link.take(4)] == [2, 3, 4, 5]
        peer.leave(link, closed=False)
        link = demanding(peer, "orders", "N")
        peer.attached(link.link)
        got = link.take(6)
        assert [one.body for one in got] == [*range(6)]
        assert [one.message.delivery_count for one in got[:2]] == [1, 1]


def test_only_of_its_own(own_gateway: Make, connect: Connect) -> None:
    """Of a queue, or of what others share, several may have had it: an error that says so."""
    with own_gateway(LATER) as gateway:
        peer = connect("mine", port=gateway.port)
        for topic, name, words in (("work", "q", ("queue",)), ("orders", "N", GLOBAL)):
            link = demanding(peer, topic, name, words)
            assert peer.amqp_error(link) == "amqp:invalid-field"
        link = demanding(peer, "orders", "S", SHARED)
        peer.attached(link.link)
