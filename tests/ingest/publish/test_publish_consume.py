"""Messages go from producers to consumers, whatever kind of link either of them has.

Proton's own client (`proton.utils`) and its engine are the peers: nothing of ours but the gateway.
"""

import pytest
from gateway_links import encoded
from gateway_peer import Connect
from gateway_process import Gateway
from proton import Delivery, Link, Message, Terminus
from proton.reactor import Container
from proton.utils import BlockingConnection


def section(code: int, body: bytes) -> bytes:
    return b"\x00\x53" + bytes([code]) + body


def binary(data: bytes) -> bytes:
    return b"\xb0" + len(data).to_bytes(4, "big") + data


def small_map(pairs: bytes, count: int) -> bytes:
    return b"\xc1" + bytes([len(pairs) + 1, count]) + pairs


DURABLE_HEADER = section(0x70, b"\xc0\x02\x01\x41")
ANNOTATIONS = section(0x72, small_map(b"\xa3\x12x-opt-jms-msg-type\x51\x05", 2))
FOOTER = section(0x78, small_map(b"\xa3\x03sum\x71\x00\x00\x00\x07", 2))
#: Bare messages that a decode and encode would change or lose parts of.
MESSAGES = {
    "several data sections": section(0x75, binary(b"one")) + section(0x75, binary(b"")),
    "several sequences": section(0x76, b"\x45") + section(0x76, b"\xc0\x03\x01\x54\x05"),
    "null value": section(0x77, b"\x40"),
    "annotations and footer": ANNOTATIONS + section(0x77, b"\xa1\x01x") + FOOTER,
    "byte type in annotations": ANNOTATIONS + section(0x75, binary(b"\x00" * 300)),
    "described value": section(0x77, b"\x00\xa3\x03foo\x54\x05"),
    "descriptors in full": b"\x00\x80\x00\x00\x00\x00\x00\x00\x00\x77\xa1\x01x",
    "descriptors in letters": b"\x00\xa3\x10amqp:data:binary\xa0\x01x",
    "header with a list of no fields": section(0x70, b"\x45") + section(0x77, b"\x41"),
}


def test_a_plain_consumer_gets_what_is_published_after_it_came(
    connect: Connect, topic: str
) -> None:
    """Nothing from before its attach, all from after it, in order."""
    peer = connect()
    sender = peer.sender(topic)
    sender.publish("before")
    receiver = peer.receiver(topic)
    sender.publish(*range(20))
    assert receiver.bodies(20) == list(range(20))
    assert receiver.nothing()


def test_each_plain_consumer_gets_every_message(connect: Connect, topic: str) -> None:
    """Plain consumers have a subscription each."""
    peer = connect()
    receivers = [peer.receiver(topic) for _ in range(3)]
    peer.sender(topic).publish(*range(10))
    for receiver in receivers:
        assert receiver.bodies(10) == list(range(10))


def test_topics_are_apart(connect: Connect, topic: str) -> None:
    """A message goes to its own topic's consumers only."""
    peer = connect()
    here, there = peer.receiver(f"{topic}/a"), peer.receiver(f"{topic}/b")
    peer.sender(f"{topic}/a").publish("for a")
    assert here.bodies() == ["for a"]
    assert there.nothing()


def test_a_durable_subscription_keeps_messages_while_nobody_is_there(
    connect: Connect, topic: str
) -> None:
    """Messages between a detach and the next attach are delivered then."""
    peer = connect()
    sender = peer.sender(topic)
    receiver = peer.durable(topic, "mine")
    sender.publish("with")
    assert receiver.bodies() == ["with"]
    assert peer.leave(receiver, closed=False) == ""
    sender.publish("without")
    assert peer.durable(topic, "mine").bodies() == ["without"]


def test_a_shared_durable_subscription_of_a_container_is_one(connect: Connect, topic: str) -> None:
    """Links N and N|2 of a container divide the messages among them."""
    peer = connect()
    first, second = peer.shared_durable(topic, "N"), peer.shared_durable(topic, "N|2")
    first.link.flow(10)
    second.link.flow(10)
    peer.sender(topic).publish(*range(10))
    bodies = first.bodies(5) + second.bodies(5)
    assert sorted(bodies) == list(range(10))


def test_a_global_shared_durable_subscription_is_one_for_all_containers(
    connect: Connect, topic: str
) -> None:
    """Two connections' links N|global are consumers of one subscription."""
    one, other = connect(), connect()
    first = one.shared_durable(topic, f"{topic}|global")
    second = other.shared_durable(topic, f"{topic}|global")
    connect().sender(topic).publish("for one of you")
    assert (first.drain(1), second.drain(1)) in {(1, 0), (0, 1)}


def test_a_shared_subscription_that_is_not_durable_ends_with_its_last_consumer(
    connect: Connect, topic: str
) -> None:
    """Its messages are divided; when the last link is gone they are gone too."""
    one, other = connect(), connect()
    name = f"{topic}|global-volatile1"
    first, second = one.shared(topic, name), other.shared(topic, name)
    sender = connect().sender(topic)
    sender.publish("a", "b")
    assert [first.bodies(), second.bodies()] == [["a"], ["b"]]
    sender.publish("c")
    assert one.leave(first, closed=True) == ""
    assert second.bodies() == ["c"]
    sender.publish("d")
    assert other.leave(second, closed=True) == ""
    assert other.shared(topic, name).nothing()


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        *(("with header", kind) for kind in MESSAGES if "header" not in kind),
        *(("without header", kind) for kind in MESSAGES),
    ],
)
def test_the_bare_message_is_kept_byte_for_byte(
    connect: Connect, topic: str, kind: str, header: str
) -> None:
    """The delivered bytes are those sent; in a second delivery only the header differs."""
    peer = connect()
    receiver = peer.receiver(topic)
    data = DURABLE_HEADER * (header == "with header") + MESSAGES[kind]
    sender = peer.sender(topic)
    sender.publish_data([data])
    [got] = receiver.take()
    assert got.data == data
    got.delivery.local.failed = True
    receiver.settle([got], Delivery.MODIFIED)
    [again] = receiver.take()
    bare = MESSAGES[kind].removeprefix(section(0x70, b"\x45"))
    assert again.data.endswith(bare)
    assert again.message.delivery_count == 1
    assert again.message.durable == (header == "with header")


def test_delivery_annotations_end_at_the_gateway(connect: Connect, topic: str) -> None:
    """They are for the next hop only; the bare message goes on without them."""
    peer = connect()
    receiver = peer.receiver(topic)
    bare = ANNOTATIONS + section(0x77, b"\xa1\x01x") + FOOTER
    hop = section(0x71, small_map(b"\xa3\x01h\x41", 2))
    peer.sender(topic).publish_data([DURABLE_HEADER + hop + bare])
    [got] = receiver.take()
    assert hop not in got.data
    assert got.data.endswith(bare)
    assert got.message.durable


def test_the_headers_fields_are_kept_in_a_redelivery(connect: Connect, topic: str) -> None:
    """Priority, ttl and durability stay; the count of deliveries is ours, not the sender's."""
    peer = connect()
    receiver = peer.receiver(topic)
    sent = Message(body="x", durable=True, priority=9, ttl=3_600)
    sent.delivery_count = 7
    peer.sender(topic).publish_data([bytes(sent.encode())])
    [got] = receiver.take()
    assert got.message.delivery_count == 0
    got.delivery.local.failed = True
    receiver.settle([got], Delivery.MODIFIED)
    [again] = receiver.take()
    header = again.message
    assert (header.durable, header.priority, header.ttl, header.delivery_count) == (
        True, 9, 3_600, 1
    )  # fmt: skip


@pytest.mark.parametrize("frame_bytes_max", [512, 4_096])
def test_messages_in_many_frames_come_whole(
    connect: Connect, topic: str, frame_bytes_max: int
) -> None:
    """Small frames both ways; messages longer and shorter than a frame, mixed, stay in order."""
    peer = connect(frame_bytes_max=frame_bytes_max)
    receiver = peer.receiver(topic)
    data = [encoded(bytes([n]) * size) for n, size in enumerate((5_000, 10, 511, 512, 513, 40_000))]
    peer.sender(topic).publish_data(data)
    assert [got.data for got in receiver.take(len(data))] == data


def test_a_message_of_five_megabytes_comes_whole(connect: Connect, topic: str) -> None:
    """Far more than one read, one frame and the pump's arrays hold."""
    peer = connect()
    receiver = peer.receiver(topic)
    data = encoded(bytes(range(256)) * 20_480)
    peer.sender(topic).publish_data([encoded("small"), data, encoded("small too")])
    _, got, last = receiver.take(3)
    assert got.data == data
    assert last.body == "small too"


def test_the_anonymous_relay_sends_each_message_where_it_says(connect: Connect, topic: str) -> None:
    """Mixed topics on one link; per topic the order stays."""
    peer = connect()
    here, there = peer.receiver(f"{topic}-a"), peer.receiver(f"{topic}-b")
    places = ["a", "a", "b", "a", "b", "b", "b", "a"]
    relay = peer.sender(None)
    relay.publish_data(
        [encoded(n, address=f"topic://{topic}-{place}") for n, place in enumerate(places)]
    )
    assert here.bodies(4) == [0, 1, 3, 7]
    assert there.bodies(4) == [2, 4, 5, 6]


def test_the_anonymous_relay_rejects_what_goes_nowhere(connect: Connect, topic: str) -> None:
    """The others of the same run are accepted and the link goes on, with its credit."""
    peer = connect()
    receiver = peer.receiver(topic)
    relay = peer.sender(None)
    addresses = [topic, None, topic, "$internal", "queue://topic://q", topic]
    deliveries = [relay.send(encoded(n, address=address)) for n, address in enumerate(addresses)]
    states = [relay.outcome(delivery) for delivery in deliveries]
    yes, no = Delivery.ACCEPTED, Delivery.REJECTED
    assert states == [yes, no, yes, no, no, yes]
    conditions = [deliveries[n].remote.condition.name for n in (1, 3, 4)]
    assert conditions == ["amqp:not-found", "amqp:not-found", "amqp:invalid-field"]
    assert receiver.bodies(3) == [0, 2, 5]
    relay.publish_data([encoded("more", address=topic)])
    assert receiver.bodies() == ["more"]


def test_a_lost_presettled_message_on_the_relay_ends_the_link(connect: Connect, topic: str) -> None:
    """Nothing can be rejected any more, and a loss must not go unheard."""
    peer = connect()
    relay = peer.sender(None)
    relay.send(encoded("nowhere"), settled=True)
    assert peer.amqp_error(relay) == "amqp:not-found"
    peer.sender(topic).publish("the connection lives")


def test_messages_that_are_not_persistent_are_accepted_and_delivered(
    connect: Connect, topic: str
) -> None:
    """Accepted on receipt, delivered in order with the persistent ones."""
    peer = connect()
    receiver = peer.receiver(topic)
    sender = peer.sender(topic)
    sender.publish_data([encoded(n, durable=n % 2 == 0) for n in range(10)])
    assert receiver.bodies(10) == list(range(10))


def test_presettled_messages_need_no_outcome(connect: Connect, topic: str) -> None:
    """A producer that settles at once gets its credit back like any other."""
    peer = connect()
    receiver = peer.receiver(topic)
    sender = peer.sender(topic, presettled=True)
    credit = sender.link.credit
    for n in range(10):
        sender.send(encoded(n), settled=True)
    assert receiver.bodies(10) == list(range(10))
    peer.until(lambda: sender.link.credit == credit, "the credit")


def test_a_consumer_that_wants_settled_messages_gets_them_so(connect: Connect, topic: str) -> None:
    """They are settled when they are sent: nothing of them comes back when the link goes."""
    peer = connect()
    receiver = peer.durable(topic, "mine", presettled=True)
    assert receiver.link.remote_snd_settle_mode == Link.SND_SETTLED
    peer.sender(topic).publish(*range(3))
    taken = receiver.take(3)
    assert all(got.delivery.settled for got in taken)
    peer.leave(receiver, closed=False)
    assert peer.durable(topic, "mine").nothing()


def test_aborted_messages_are_none_and_cost_no_credit(connect: Connect, topic: str) -> None:
    """A sender that gives a message up half way may send another in its place."""
    peer = connect(frame_bytes_max=512)
    receiver = peer.receiver(topic)
    sender = peer.sender(topic)
    credit = sender.link.credit
    for _ in range(3):
        delivery = sender.link.delivery("half")
        sender.link.stream(encoded("x" * 2_000)[:1_500])
        peer.turn()
        delivery.abort()
    sender.publish("whole")
    assert receiver.bodies() == ["whole"]
    peer.until(lambda: sender.link.credit == credit, lambda: f"{credit}, is {sender.link.credit}")


def test_the_gateway_says_what_it_offers(connect: Connect) -> None:
    """It offers the capabilities that JMS clients look for, on the connection itself, and none that
    isn't served."""
    peer = connect()
    offered = set(map(str, peer.connection.remote_offered_capabilities))
    assert offered == {
        "SHARED-SUBS",
        "ANONYMOUS-RELAY",
        "DELAYED_DELIVERY",
        "sole-connection-for-container",
    }
    assert str(peer.connection.remote_container).partition("/none-")[0] == "distributary"


def test_the_source_of_a_consumer_is_echoed(connect: Connect, topic: str) -> None:
    """Address, durability, expiry and capabilities are answered as they were asked for."""
    peer = connect()
    receiver = peer.shared_durable(topic, f"{topic}|global")
    source = receiver.link.remote_source
    assert source.address == topic
    assert source.durability == Terminus.DELIVERIES
    assert source.expiry_policy == Terminus.EXPIRE_NEVER
    assert source.distribution_mode == Terminus.DIST_MODE_COPY


def test_protons_blocking_client_publishes_and_consumes(gateway: Gateway, topic: str) -> None:
    """The client that Proton's users write with, as they write it."""
    container = Container()
    container.container_id = topic
    connection = BlockingConnection(f"127.0.0.1:{gateway.port}", 10, container)
    receiver = connection.create_receiver(topic, credit=10)
    sender = connection.create_sender(topic)
    for n in range(10):
        sender.send(Message(body=n, durable=True))
    for n in range(10):
        assert receiver.receive(10).body == n
        receiver.accept()
    connection.close()


def test_a_consumer_that_reads_slowly_harms_nobody(connect: Connect, topic: str) -> None:
    """Its socket is full, its messages wait in the log; another one gets them all meanwhile."""
    slow, quick = connect(), connect()
    receiver = slow.receiver(topic)
    receiver.link.flow(1_000)
    slow.write()
    other = quick.receiver(topic)
    sender = quick.sender(topic)
    body = b"x" * 50_000
    for _ in range(10):
        sender.publish(*[body] * 20)
        other.settle(other.take(20))
    assert [len(got.data) for got in receiver.take(200, credit=False)] == [len(encoded(body))] * 200


def test_a_session_may_have_two_kinds_of_links(connect: Connect, topic: str) -> None:
    """Ending one session ends its links and gives back what they held; the other goes on."""
    peer = connect()
    other_session = peer.new_session()
    keeper = peer.shared_durable(topic, "N")
    goer = peer.shared_durable(topic, "N|2", session=other_session)
    sender = peer.sender(topic)
    goer.link.flow(5)
    sender.publish(*range(5))
    goer.take(5)
    other_session.close()
    assert keeper.bodies(5) == list(range(5))
