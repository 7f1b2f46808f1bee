"""Subscriptions come, are found, are divided, change and go, by the links of real JMS clients."""

import pytest
from gateway_links import Incoming
from gateway_peer import Connect, Peer
from proton import Terminus


def consumer(peer: Peer, topic: str, name: str) -> Incoming:
    """The link that a JMS client makes for a subscriber that has this link name."""
    if "volatile" in name:
        return peer.shared(topic, name)
    return peer.shared_durable(topic, name)


def test_consumers_of_one_subscription_take_turns(connect: Connect, topic: str) -> None:
    """Each with credit gets the next one; one whose credit is used up is passed over."""
    peers = [connect(f"{topic}-{n}") for n in range(3)]
    receivers = [peer.shared_durable(topic, f"{topic}|global") for peer in peers]
    for receiver, credit in zip(receivers, (2, 10, 10), strict=True):
        receiver.link.flow(credit)
        receiver.peer.heard()
    sender = connect().sender(topic)
    for n in range(10):
        sender.publish(n)
    got = [receiver.bodies(count) for receiver, count in zip(receivers, (2, 4, 4), strict=True)]
    assert got == [[0, 3], [1, 4, 6, 8], [2, 5, 7, 9]]


def test_a_consumer_without_credit_holds_nobody_up(connect: Connect, topic: str) -> None:
    """Nothing is kept for a consumer that doesn't ask."""
    peer = connect()
    idle, busy = peer.shared_durable(topic, "N"), peer.shared_durable(topic, "N|2")
    peer.sender(topic).publish(*range(10))
    assert busy.bodies(10) == list(range(10))
    assert idle.nothing()


def test_a_lost_consumers_messages_come_back_in_their_old_places(
    connect: Connect, topic: str
) -> None:
    """A socket that ends without a word gives back what its links held, marked, before what is
    newer."""
    lost, other = connect(), connect()
    name = f"{topic}|global"
    holder = lost.shared_durable(topic, name)
    holder.link.flow(6)
    sender = connect().sender(topic)
    sender.publish(*range(8))
    holder.take(6)
    holder.settle(holder.inbox)
    lost.drop()
    receiver = other.shared_durable(topic, name)
    got = receiver.take(8)
    told = [(one.body, one.message.delivery_count) for one in got]
    assert told == [(n, int(n < 6)) for n in range(8)]


def test_what_a_lost_consumer_settled_does_not_come_back(connect: Connect, topic: str) -> None:
    """Only what it still held is given back."""
    lost, other = connect(), connect()
    name = f"{topic}|global"
    holder = lost.shared_durable(topic, name)
    connect().sender(topic).publish(*range(6))
    taken = holder.take(6)
    holder.confirm([taken[1], taken[4]])
    lost.drop()
    receiver = other.shared_durable(topic, name)
    assert receiver.bodies(4) == [0, 2, 3, 5]
    assert receiver.nothing()


def test_a_detach_gives_back_a_thousand_prefetched_messages_in_order(
    connect: Connect, topic: str
) -> None:
    """A message that was only prefetched doesn't count as delivered."""
    peer = connect()
    receiver = peer.durable(topic, "mine")
    receiver.link.flow(1_000)
    peer.sender(topic).publish(*range(1_000))
    receiver.take(1_000)
    assert peer.leave(receiver, closed=False) == ""
    got = peer.durable(topic, "mine").take(1_000)
    assert [one.body for one in got] == list(range(1_000))
    assert {one.message.delivery_count for one in got} == {0}


def test_a_close_deletes_a_durable_subscription(connect: Connect, topic: str) -> None:
    """After detach closed=true the name is free and its messages are gone."""
    peer = connect()
    receiver = peer.durable(topic, "mine")
    peer.sender(topic).publish("forgotten")
    assert peer.leave(receiver, closed=True) == ""
    assert peer.unsubscribe("mine") == "amqp:not-found"
    assert peer.durable(topic, "mine").nothing()


def test_a_close_is_refused_while_others_consume(connect: Connect, topic: str) -> None:
    """The link goes with an error, the subscription and the other consumer stay."""
    peer = connect()
    first, second = peer.shared_durable(topic, "N"), peer.shared_durable(topic, "N|2")
    assert peer.leave(first, closed=True) == "amqp:resource-locked"
    peer.sender(topic).publish("still there")
    assert second.bodies() == ["still there"]


def test_an_unsubscribe_needs_a_subscription(connect: Connect) -> None:
    """A lookup of what isn't there is refused as not found."""
    assert connect().unsubscribe("nobody-has-this") == "amqp:not-found"


def test_an_unsubscribe_is_refused_while_anybody_consumes(connect: Connect, topic: str) -> None:
    """Locked while attached, done after the detach, not found afterwards; from any container."""
    one, other, third = connect(), connect(), connect()
    name = f"{topic}|global"
    receivers = [one.shared_durable(topic, name), other.shared_durable(topic, name)]
    assert third.unsubscribe(name) == "amqp:resource-locked"
    connect().sender(topic).publish("alive")
    assert receivers[0].bodies() == ["alive"]
    for peer, receiver in zip((one, other), receivers, strict=True):
        assert peer.leave(receiver, closed=False) == ""
    assert third.unsubscribe(name) == ""
    assert third.unsubscribe(name) == "amqp:not-found"


def test_a_lookup_leaves_messages_and_consumers_alone(connect: Connect, topic: str) -> None:
    """It gets nothing whatever its credit, it tells the real source, and detaching keeps all."""
    one, other = connect(), connect()
    name = f"{topic}|global"
    receiver = one.shared_durable(topic, name)
    lookup = other.receiver(None, name)
    source = lookup.link.remote_source
    assert source.address == topic
    assert source.durability == Terminus.DELIVERIES
    assert source.expiry_policy == Terminus.EXPIRE_NEVER
    lookup.link.flow(10)
    other.write()
    connect().sender(topic).publish(*range(4))
    assert receiver.bodies(4) == list(range(4))
    assert lookup.received == 0
    assert other.leave(lookup, closed=False) == ""
    assert one.leave(receiver, closed=False) == ""
    assert other.unsubscribe(name) == ""


def test_a_lookup_in_a_containers_scope_finds_only_its_own(connect: Connect, topic: str) -> None:
    """The same name is another subscription in another container, and another one globally."""
    one, other = connect(), connect()
    one.leave(one.durable(topic, "mine"), closed=False)
    assert other.unsubscribe("mine") == "amqp:not-found"
    assert other.unsubscribe("mine|global") == "amqp:not-found"
    assert one.unsubscribe("mine") == ""


def test_link_names_mean_what_jms_clients_mean_by_them(connect: Connect, topic: str) -> None:
    """N and N|2 are one subscription, N|global and N|global2 one, each volatile one its own:
    each of the four gets every message once."""
    peer = connect()
    names = ["N", "N|2", "N|global", "N|global2", "N|volatile1", "N|global-volatile1"]
    receivers = {name: consumer(peer, topic, name) for name in names}
    sender = peer.sender(topic)
    for n in range(4):
        sender.publish(n)
    pairs = (("N", "N|2"), ("N|global", "N|global2"))
    for pair in pairs:
        first, second = (receivers[name] for name in pair)
        assert sorted(first.bodies(2) + second.bodies(2)) == [0, 1, 2, 3]
        assert first.nothing()
        assert second.nothing()
    for name in names[4:]:
        assert receivers[name].bodies(4) == [0, 1, 2, 3]


def test_durable_and_volatile_links_of_one_name_are_apart(connect: Connect, topic: str) -> None:
    """Ending the volatile one doesn't touch the durable one."""
    peer = connect()
    durable, volatile = peer.shared_durable(topic, "N"), peer.shared(topic, "N|volatile1")
    peer.sender(topic).publish("both")
    assert peer.leave(volatile, closed=True) == ""
    assert durable.bodies() == ["both"]


def test_the_same_link_name_in_two_sessions_is_two_consumers(connect: Connect, topic: str) -> None:
    """As JMS clients have it when a close was deferred: shared ones join, others are refused."""
    peer = connect()
    second = peer.new_session()
    first_link = peer.shared_durable(topic, "N")
    second_link = peer.shared_durable(topic, "N", session=second)
    sender = peer.sender(topic)
    sender.publish(1, 2)
    assert first_link.bodies() + second_link.bodies() == [1, 2]
    peer.durable(topic, "mine")
    again = peer.durable(topic, "mine", session=second, opened=False)
    assert peer.amqp_error(again) == "amqp:resource-locked"


def test_an_exclusive_subscription_has_one_consumer(connect: Connect, topic: str) -> None:
    """A second one is refused while the first is there, by an attach without a source; the first
    doesn't notice."""
    peer = connect()
    receiver = peer.durable(topic, "mine")
    second = peer.durable(topic, "mine", session=peer.new_session(), opened=False)
    assert peer.amqp_error(second) == "amqp:resource-locked"
    assert second.link.remote_source.type == Terminus.UNSPECIFIED
    peer.sender(topic).publish("for the first")
    assert receiver.bodies() == ["for the first"]


@pytest.mark.parametrize("active", [False, True])
def test_sharing_and_exclusive_ones_of_one_name_exclude_each_other(
    connect: Connect, topic: str, active: bool
) -> None:
    """With a consumer or without, the other kind is refused, and the messages stay."""
    peer = connect()
    receiver = peer.durable(topic, "mine")
    if not active:
        peer.leave(receiver, closed=False)
    other = peer.shared_durable(topic, "mine", session=peer.new_session(), opened=False)
    assert peer.amqp_error(other) == "amqp:resource-locked"
    peer.sender(topic).publish("kept")
    if not active:
        receiver = peer.durable(topic, "mine")
    assert receiver.bodies() == ["kept"]


def test_another_topic_redefines_an_idle_subscription(connect: Connect, topic: str) -> None:
    """Its owed messages of the old topic are dropped; from then on it is the new one's."""
    peer = connect()
    peer.leave(peer.durable(f"{topic}-old", "mine"), closed=False)
    old, new = peer.sender(f"{topic}-old"), peer.sender(f"{topic}-new")
    old.publish("dropped")
    receiver = peer.durable(f"{topic}-new", "mine")
    old.publish("not mine any more")
    new.publish("mine")
    assert receiver.bodies() == ["mine"]
    assert receiver.nothing()


def test_another_topic_is_refused_while_somebody_consumes(connect: Connect, topic: str) -> None:
    """The subscription stays as it is."""
    peer = connect()
    receiver = peer.shared_durable(f"{topic}-old", "N")
    other = peer.shared_durable(f"{topic}-new", "N|2", opened=False)
    assert peer.amqp_error(other) == "amqp:resource-locked"
    peer.sender(f"{topic}-old").publish("kept")
    assert receiver.bodies() == ["kept"]


def test_the_answer_to_a_refusal_deletes_nothing(connect: Connect, topic: str) -> None:
    """Clients close the refused link, in the same words as an unsubscribe; the subscription of
    that name and its consumer stay."""
    peer = connect()
    receiver = peer.durable(topic, "mine")
    session = peer.new_session()
    for _ in range(3):
        refused = peer.durable(topic, "mine", session=session, opened=False)
        peer.amqp_error(refused)
    peer.sender(topic).publish("there")
    assert receiver.bodies() == ["there"]


def test_a_link_name_is_free_after_a_detach(connect: Connect, topic: str) -> None:
    """The same link again and again in one session, and each time the next message."""
    peer = connect()
    sender = peer.sender(topic)
    for n in range(5):
        receiver = peer.durable(topic, "mine")
        sender.publish(n)
        assert receiver.bodies() == [n]
        assert peer.leave(receiver, closed=False) == ""
