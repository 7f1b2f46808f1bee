"""Queues: a topic with one implied shared durable subscription, durable before the first answer."""

from collections.abc import Callable

import pytest
from deltalake import DeltaTable
from fork_server import commands
from gateway_links import Incoming, Outgoing, encoded
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from proton import Data, Delivery, Message, Terminus, byte, symbol

Make = Callable[..., Gateway]


def to_queue(peer: Peer, name: str) -> Outgoing:
    """A producer's link as JMS clients make it."""
    return peer.sender(name, capabilities=("queue",))


def of_queue(peer: Peer, name: str, **options: object) -> Incoming:
    """A consumer's link as JMS clients make it."""
    return peer.receiver(name, capabilities=("queue",), **options)


def annotated(body: object, address: str, kind: object) -> bytes:
    """A message that says itself where it goes, as the anonymous producer of JMS clients does."""
    message = Message(body=body, address=address, durable=True)
    message.annotations = {symbol("x-opt-jms-dest"): kind}
    return bytes(message.encode())


def test_a_queue_keeps_what_nobody_consumes_yet(connect: Connect, topic: str) -> None:
    """Its producer is enough to make it; the consumer that comes later is owed all of it."""
    peer = connect()
    to_queue(peer, topic).publish(*range(5))
    assert of_queue(connect(), topic).bodies(5) == list(range(5))


def test_a_queue_gives_each_message_to_one_of_its_consumers(connect: Connect, topic: str) -> None:
    """In turn, over connections and containers."""
    peers = [connect(), connect()]
    consumers = [of_queue(peer, topic) for peer in peers]
    for peer, consumer in zip(peers, consumers, strict=True):
        consumer.link.flow(10)
        peer.heard()
    to_queue(peers[0], topic).publish(*range(10))
    bodies = [consumer.bodies(5) for consumer in consumers]
    assert sorted(bodies) == [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]]


def test_no_consumer_ends_a_queue(connect: Connect, topic: str) -> None:
    """Closed or detached or lost, the last one or not: the queue keeps what it is owed."""
    producer = to_queue(connect(), topic)
    for end in (True, False, None):
        peer = connect()
        first, second = of_queue(peer, topic), of_queue(peer, topic)
        if end is None:
            peer.drop()
        else:
            assert peer.leave(first, closed=end) == peer.leave(second, closed=end) == ""
        producer.publish(end)
        assert of_queue(connect(), topic).bodies() == [end]


def test_a_topic_and_a_queue_of_one_name_are_two(connect: Connect, topic: str) -> None:
    """So are a queue and a global shared subscription of its name."""
    peer = connect()
    listener = peer.receiver(topic)
    shared = peer.shared_durable(topic, f"{topic}|global")
    queue = of_queue(peer, topic)
    peer.sender(topic, capabilities=("topic",)).publish("to the topic")
    to_queue(peer, topic).publish("to the queue")
    assert queue.bodies() == ["to the queue"]
    assert listener.bodies() == shared.bodies() == ["to the topic"]
    assert queue.nothing()
    assert listener.nothing()
    assert shared.nothing()


def test_a_prefix_says_that_it_is_a_queue(connect: Connect, topic: str) -> None:
    """It says so with the capability or without; a client that didn't say the kind is told it."""
    peer = connect()
    plain = peer.sender(f"queue://{topic}")
    plain.publish("by its prefix")
    assert told(plain.link.remote_target) == ["queue"]
    peer.sender(f"queue://{topic}", capabilities=("queue",)).publish("by both")
    consumer = peer.receiver(f"queue://{topic}", capabilities=())
    assert told(consumer.link.remote_source) == ["queue"]
    assert consumer.bodies(2) == ["by its prefix", "by both"]


def told(terminus: Terminus) -> list[str]:
    """The capabilities of the answer."""
    data: Data = terminus.capabilities
    data.rewind()
    assert data.next()
    return [str(word) for word in data.get_object().elements]


@pytest.mark.parametrize(
    ("bare", "kind"), [("topic", "topic"), ("queue", "queue")], ids=["topic", "queue"]
)
def test_the_settings_say_what_a_bare_address_is(
    own_gateway: Make, connect: Connect, bare: str, kind: str
) -> None:
    """For links and for messages that say themselves where they go."""
    with own_gateway({"amqp": {"bare_address": bare}}) as gateway:
        peer = connect(port=gateway.port)
        consumer = peer.receiver(f"{kind}://orders", capabilities=())
        link = peer.sender("orders")
        link.publish("by a link")
        assert told(link.link.remote_target) == [kind]
        peer.sender(None).publish_data([encoded("by itself", address="orders")])
        assert consumer.bodies(2) == ["by a link", "by itself"]


def test_a_message_says_that_it_goes_to_a_queue(connect: Connect, topic: str) -> None:
    """It says so by its annotation, as JMS clients do, or by a prefix; the queue needs no consumer,
    and one run holds messages for both kinds of one name."""
    peer = connect()
    listener = peer.receiver(topic)
    relay = peer.sender(None)
    relay.publish_data(
        [
            annotated(0, topic, byte(0)),
            annotated(1, topic, byte(1)),
            encoded(2, address=f"queue://{topic}"),
            encoded(3, address=topic),
            annotated(4, f"queue://{topic}", byte(0)),
        ]
    )
    assert of_queue(peer, topic).bodies(3) == [0, 2, 4]
    assert listener.bodies(2) == [1, 3]


def test_a_message_that_contradicts_itself_is_rejected(connect: Connect, topic: str) -> None:
    """Its prefix says one kind, its annotation the other; nothing is guessed."""
    peer = connect()
    relay = peer.sender(None)
    delivery = relay.send(annotated("x", f"queue://{topic}", byte(1)))
    assert relay.outcome(delivery) == Delivery.REJECTED
    assert delivery.remote.condition.name == "amqp:invalid-field"
    assert of_queue(peer, topic).nothing()


def test_nothing_of_a_queue_can_be_unsubscribed(connect: Connect, topic: str) -> None:
    """A lookup finds durable subscriptions by their names, and a queue isn't one of them."""
    peer = connect(topic)
    to_queue(peer, topic).publish("kept")
    for name in (topic, f"{topic}|global", f"queue/{topic}"):
        assert peer.unsubscribe(name) == "amqp:not-found"
    assert of_queue(peer, topic).bodies() == ["kept"]


@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_a_queue_outlives_the_gateway(own_gateway: Make, connect: Connect, end: str) -> None:
    """With what was settled and what was not, and in its order; one that was made by its producer
    alone, or by a message alone, too."""
    with own_gateway() as gateway:
        peer = connect(port=gateway.port)
        to_queue(peer, "worked").publish(*range(10))
        peer.sender(None).publish_data([annotated("alone", "by a message", byte(0))])
        to_queue(peer, "empty")
        consumer = of_queue(peer, "worked")
        taken = consumer.take(8)
        consumer.confirm([taken[n] for n in (0, 1, 4)])
        gateway.stop() if end == "stopped" else gateway.kill()
        gateway.start()

        peer = connect(port=gateway.port)
        consumer = of_queue(peer, "worked")
        got = consumer.take(7)
        assert [one.body for one in got] == [2, 3, 5, 6, 7, 8, 9]
        assert [one.message.delivery_count for one in got] == [1, 1, 1, 1, 1, 0, 0]
        assert of_queue(peer, "by a message").bodies() == ["alone"]
        to_queue(peer, "empty").publish("still there")
        assert of_queue(peer, "empty").bodies() == ["still there"]
        opened = gateway.events("store.opened")[-1]
        assert opened["subscriptions"] == 3


def test_a_queue_is_a_subscription_in_the_tables(own_gateway: Make, connect: Connect) -> None:
    """Its id says that it is a queue's; `info` and `verify` know it."""
    with own_gateway() as gateway:
        peer = connect(port=gateway.port)
        to_queue(peer, "orders/eu").publish(*range(3))
        assert of_queue(peer, "orders/eu").bodies(2) == [0, 1]
        gateway.stop()
        columns = ["record", "subscription", "topic", "shared"]
        table = DeltaTable(gateway.home / "tables/topic_log").to_pyarrow_table(columns=columns)
        rows = {tuple(row[name] for name in columns) for row in table.to_pylist()}
        assert rows == {
            ("message", None, "queue://orders/eu", None),
            ("subscription", "queue/orders%2Feu", "queue://orders/eu", True),
            ("settlement", "queue/orders%2Feu", "queue://orders/eu", None),
        }
        assert commands().run("verify", "--home", gateway.home).returncode == 0
