"""Lasting things that clients make are bounded: queues for each user and in all, durable
subscriptions for each client id and in all."""

from collections.abc import Callable
from functools import partial

from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway
from proton import Delivery

Make = Callable[..., Gateway]
FULL = "amqp:resource-limit-exceeded"
LIMITS = {
    "queues_max": 5,
    "queues_of_user_max": 4,
    "subscriptions_max": 3,
    "subscriptions_of_client_id_max": 2,
}


def test_queues_that_clients_make_are_bounded(own_gateway: Make, connect: Connect) -> None:
    """By a message on the relay, a producer, a consumer, a browser. What is there goes on, an
    operator makes more, what is deleted makes room, and a kill changes nothing."""
    gateway = own_gateway({"amqp": LIMITS}).start()
    for _ in range(2):
        peer = connect("c", port=gateway.port)
        manager, relay = Manager(peer), peer.sender(None)
        relay.publish_data([encoded(n, address=f"queue://q{n}") for n in range(4)])
        rejected = relay.send(encoded("x", address="queue://more"))
        assert relay.outcome(rejected) == Delivery.REJECTED
        assert rejected.remote.condition.name == FULL
        assert "amqp.queues_of_user_max" in rejected.remote.condition.description
        assert peer.amqp_error(peer.sender("queue://more", opened=False)) == FULL
        for copy in (False, True):
            options = {"capabilities": ("queue",), "copy": copy, "opened": False}
            assert peer.amqp_error(peer.receiver("queue://more", **options)) == FULL
        relay.publish_data([encoded("y", address="queue://q1")])
        manager.ask("CREATE", "queue", "operators")
        relay.publish_data([encoded("z", address="queue://operators")])
        gateway.kill()
        gateway.start()
    peer = connect("c", port=gateway.port)
    Manager(peer).done("DELETE", "queue", "q0", force=True)
    peer.sender("queue://more")
    assert peer.amqp_error(peer.sender("queue://yet-more", opened=False)) == FULL


def test_dead_letters_are_kept_at_the_limit_and_count(own_gateway: Make, connect: Connect) -> None:
    """Their queues are made whatever the limit; then nothing new is made by clients."""
    limits = {**LIMITS, "queues_max": 3, "queues_of_user_max": 3}
    gateway = own_gateway({"amqp": limits}).start()
    peer = connect("c", port=gateway.port)
    for name in ("a", "b"):
        peer.sender(f"queue://{name}").publish("bad")
    for name in ("a", "b"):
        consumer = peer.receiver(f"queue://{name}", capabilities=("queue",))
        consumer.confirm(consumer.take(1), state=Delivery.REJECTED)
        letters = peer.receiver(f"queue://DLQ.queue/{name}", capabilities=("queue",))
        assert letters.bodies() == ["bad"]
    manager = Manager(peer)
    manager.done("DELETE", "queue", "a", force=True)
    assert peer.amqp_error(peer.sender("queue://new", opened=False)) == FULL
    manager.done("DELETE", "queue", "b", force=True)
    peer.sender("queue://new")


def test_durable_subscriptions_are_bounded(own_gateway: Make, connect: Connect) -> None:
    """Of one client id, and of all; an operator may make more."""
    gateway = own_gateway({"amqp": LIMITS}).start()
    one, two = connect("one", port=gateway.port), connect("two", port=gateway.port)
    for name in ("a", "b"):
        one.leave(one.durable("t", name), closed=False)
    link = one.durable("t", "c", opened=False)
    one.until(partial(one.refused, link.link), "a refusal")
    assert "subscriptions_of_client_id_max" in link.link.remote_condition.description
    assert one.amqp_error(link) == FULL
    one.leave(one.durable("t", "a"), closed=False)  # what is there is there
    two.durable("t", "a")
    for peer in (one, two):
        more = peer.shared_durable("t", "more|global", opened=False)
        assert peer.amqp_error(more) == FULL
    Manager(two).done("CREATE", "subscription", "global/more", topic="t")
    one.shared_durable("t", "more|global")
    assert one.unsubscribe("a") == ""
    one.durable("t", "c")
