"""Ends of deliveries: outcomes, their confirmation, credit given back by drains."""

import pytest
from gateway_links import Got, Incoming
from gateway_peer import Connect, Peer
from proton import Delivery


def pair(connect: Connect, topic: str) -> tuple[Peer, Incoming]:
    """A peer with a durable consumer, which is empty."""
    peer = connect()
    return peer, peer.durable(topic, "mine")


def modified(got: Got, *, failed: bool, undeliverable: bool = False) -> None:
    got.delivery.local.failed = failed
    got.delivery.local.undeliverable = undeliverable
    got.delivery.update(Delivery.MODIFIED)
    got.delivery.settle()


def rest(peer: Peer, receiver: Incoming, topic: str) -> list[tuple[object, int]]:
    """Bodies and delivery counts that the next consumer of the subscription gets."""
    peer.leave(receiver, closed=False)
    heir = peer.durable(topic, "mine")
    heir.drain(1_000)
    return [(got.body, got.message.delivery_count) for got in heir.inbox]


def test_accepted_messages_are_gone(connect: Connect, topic: str) -> None:
    """Nothing of them is left for the next consumer."""
    peer, receiver = pair(connect, topic)
    peer.sender(topic).publish(*range(5))
    receiver.settle(receiver.take(5))
    assert rest(peer, receiver, topic) == []


def test_a_released_message_comes_again_without_a_count(connect: Connect, topic: str) -> None:
    """It goes back to its old place, before all that is newer."""
    peer, receiver = pair(connect, topic)
    peer.sender(topic).publish(*range(3))
    first, second = receiver.take(2)
    receiver.settle([first], Delivery.RELEASED)
    receiver.settle([second])
    got = receiver.take(2)
    assert [(one.body, one.message.delivery_count) for one in got] == [(0, 0), (2, 0)]


def test_a_failed_message_comes_again_with_a_count(connect: Connect, topic: str) -> None:
    """Each modified with delivery-failed counts one; the first delivery counts none."""
    peer, receiver = pair(connect, topic)
    peer.sender(topic).publish("x")
    for attempt in range(4):
        [got] = receiver.take()
        assert got.message.delivery_count == attempt
        assert got.message.first_acquirer is False
        modified(got, failed=True)
    [got] = receiver.take()
    modified(got, failed=False)
    assert rest(peer, receiver, topic) == [("x", 4)]


def test_an_undeliverable_message_does_not_come_again(connect: Connect, topic: str) -> None:
    """Modified with undeliverable-here ends it for its subscription."""
    peer, receiver = pair(connect, topic)
    peer.sender(topic).publish("bad", "good")
    bad, good = receiver.take(2)
    modified(bad, failed=True, undeliverable=True)
    modified(good, failed=False)
    assert rest(peer, receiver, topic) == [("good", 0)]


def test_a_rejected_message_does_not_come_again(connect: Connect, topic: str) -> None:
    """Rejected is final."""
    peer, receiver = pair(connect, topic)
    peer.sender(topic).publish("bad", "good")
    bad, good = receiver.take(2)
    receiver.settle([bad], Delivery.REJECTED)
    receiver.settle([good], Delivery.RELEASED)
    assert rest(peer, receiver, topic) == [("good", 0)]


def test_a_message_settled_without_a_state_has_failed(connect: Connect, topic: str) -> None:
    """The default outcome that JMS clients name is modified, failed."""
    peer, receiver = pair(connect, topic)
    peer.sender(topic).publish("x")
    receiver.settle(receiver.take(), 0)
    [got] = receiver.take()
    assert (got.body, got.message.delivery_count) == ("x", 1)


def test_unsettled_outcomes_are_answered_by_settling(connect: Connect, topic: str) -> None:
    """Each of many, of two outcomes, with the outcome that was given."""
    peer, receiver = pair(connect, topic)
    peer.sender(topic).publish(*range(300))
    taken = receiver.take(300)
    receiver.confirm(taken[::2])
    receiver.confirm(taken[1::2], Delivery.RELEASED)
    assert rest(peer, receiver, topic) == [(n, 0) for n in range(1, 300, 2)]


def test_an_outcome_of_a_plain_consumer_is_answered_at_once(connect: Connect, topic: str) -> None:
    """There is nothing to make durable, and the peer still waits for the settlement."""
    peer = connect()
    receiver = peer.receiver(topic)
    peer.sender(topic).publish(*range(3))
    receiver.confirm(receiver.take(3))
    assert receiver.nothing()


def test_an_outcome_can_be_given_twice(connect: Connect, topic: str) -> None:
    """First unsettled, then settled before the gateway could answer: it counts once."""
    peer, receiver = pair(connect, topic)
    peer.sender(topic).publish("a", "b")
    first, _ = receiver.take(2)
    first.delivery.update(Delivery.ACCEPTED)
    peer.write()
    first.delivery.settle()
    peer.write()
    assert rest(peer, receiver, topic) == [("b", 0)]


@pytest.mark.parametrize("order", ["forward", "backward", "inside out"])
def test_outcomes_come_in_any_order(connect: Connect, topic: str, order: str) -> None:
    """Exactly the messages with the outcome are accepted, in any order of outcomes."""
    peer, receiver = pair(connect, topic)
    peer.sender(topic).publish(*range(60))
    taken = receiver.take(60)
    accepted = [n for n in range(60) if n % 3]
    if order == "backward":
        accepted.reverse()
    if order == "inside out":
        accepted.sort(key=lambda n: abs(n - 30))
    receiver.settle([taken[n] for n in accepted])
    assert rest(peer, receiver, topic) == [(n, 0) for n in range(0, 60, 3)]


def test_a_drain_of_nothing_is_answered(connect: Connect, topic: str) -> None:
    """The credit is given back at once, and again the second time."""
    _, receiver = pair(connect, topic)
    assert receiver.drain(10) == 0
    assert receiver.drain(10) == 0


def test_a_drain_gives_what_there_is_first(connect: Connect, topic: str) -> None:
    """All that is there comes before the answer."""
    peer, receiver = pair(connect, topic)
    peer.sender(topic).publish(*range(30))
    assert receiver.drain(100) == 30
    assert [got.body for got in receiver.inbox] == list(range(30))
    assert receiver.drain(100) == 0


def test_a_drain_with_less_credit_than_messages_ends_with_the_credit(
    connect: Connect, topic: str
) -> None:
    """As many as there is credit for; the others stay for the next one."""
    peer, receiver = pair(connect, topic)
    peer.sender(topic).publish(*range(30))
    assert receiver.drain(10) == 10
    assert receiver.drain(10) == 10
    assert receiver.drain(11) == 10


def test_a_drain_without_credit_does_no_harm(connect: Connect, topic: str) -> None:
    """There is nothing to give back, and the link goes on as before."""
    peer, receiver = pair(connect, topic)
    assert receiver.drain(0) == 0
    peer.sender(topic).publish("x")
    assert receiver.bodies() == ["x"]


def test_messages_come_after_a_drain(connect: Connect, topic: str) -> None:
    """A drained link takes new credit."""
    peer, receiver = pair(connect, topic)
    sender = peer.sender(topic)
    for n in range(5):
        assert receiver.drain(3) == 0
        receiver.inbox.clear()
        sender.publish(n)
        assert receiver.bodies() == [n]


def test_one_consumers_drain_leaves_the_others_credit(connect: Connect, topic: str) -> None:
    """Of two consumers of one subscription, the one that doesn't drain keeps waiting."""
    peer = connect()
    waiting, draining = peer.shared_durable(topic, "N"), peer.shared_durable(topic, "N|2")
    waiting.link.flow(5)
    assert draining.drain(5) == 0
    peer.sender(topic).publish(*range(5))
    assert [got.body for got in waiting.take(5, credit=False)] == list(range(5))


def test_a_big_drain_gives_all_at_once(connect: Connect, topic: str) -> None:
    """More bytes than one pass and one socket buffer hold, all before the drain's answer."""
    peer, receiver = pair(connect, topic)
    sender = peer.sender(topic)
    for _ in range(3):
        sender.publish(*[b"x" * 50_000] * 50)
    assert receiver.drain(1_000) == 150


def test_undeliverable_here_is_no_turn_of_the_next(connect: Connect, topic: str) -> None:
    """A queue's consumer says that it can't process a message: no other one is tried, and what
    gave it up is told with it. A release is for another one."""
    peer = connect()
    first, second = (peer.receiver(topic, capabilities=("queue",)) for _ in range(2))
    producer = peer.sender(topic, capabilities=("queue",))
    first.link.flow(2)
    producer.publish("poison", "busy")
    poison, busy = first.take(2, credit=False)
    second.link.flow(9)
    modified(poison, failed=True, undeliverable=True)
    modified(busy, failed=False)
    assert second.bodies(1) == ["busy"]
    assert second.drain() == 0
    [dead] = peer.receiver(f"queue://DLQ.queue/{topic}", capabilities=("queue",)).take()
    assert dead.body == "poison"
    assert dead.message.annotations["x-opt-dead-letter-reason"] == "undeliverable"
