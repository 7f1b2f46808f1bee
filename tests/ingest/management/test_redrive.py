"""Dead letters go back to the subscription that gave them up, to no other, each whole or not."""

from collections.abc import Callable

from gateway_links import Got, Incoming, encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer, selector
from gateway_process import Gateway
from proton import Delivery

Make = Callable[..., Gateway]


def rejected(consumer: Incoming, number: int) -> list[object]:
    """Reject so many; on return their copies are kept."""
    taken: list[Got] = consumer.take(number)
    consumer.confirm(taken, Delivery.REJECTED)
    return [got.body for got in taken]


def queue(peer: Peer, name: str, **options: object) -> Incoming:
    return peer.receiver(name, capabilities=("queue",), **options)


def test_dead_letters_go_back_to_theirs_alone(connect: Connect, topic: str) -> None:
    """A durable subscription beside it, one without consumers, and a private one don't get them;
    and the message is as it was published."""
    peer = connect()
    manager = Manager(peer)
    name = f"container/{peer.container}/one"
    one, two, private = peer.durable(topic, "one"), peer.durable(topic, "two"), peer.receiver(topic)
    peer.leave(peer.durable(topic, "away"), closed=False)
    data = encoded("a", id="m-1", properties={"n": 7}, priority=6, ttl=3_600)
    sender = peer.sender(topic)
    sender.publish_data([data])
    sender.publish("b")
    assert rejected(one, 2) == ["a", "b"]
    assert two.bodies(2) == private.bodies(2) == ["a", "b"]
    done = manager.done("REDRIVE", "subscription", name)
    assert (done["redriven"], done["stayed"]) == (2, 0)
    first, second = one.take(2)
    assert (first.body, second.body) == ("a", "b")
    assert not any("dead-letter" in str(key) for key in first.message.annotations or {})
    assert first.data.endswith(data[data.index(b"\x00Ss") :])
    assert first.message.priority == 6
    assert first.message.delivery_count == 0
    one.settle([first, second])
    assert two.nothing()
    assert private.nothing()
    assert peer.durable(topic, "away").bodies(2) == ["a", "b"]
    assert queue(peer, f"queue://DLQ.{name}").nothing()


def test_so_many_go_back_as_are_asked_for(connect: Connect, topic: str) -> None:
    """The oldest; and nothing that a consumer of the dead letters holds."""
    peer = connect()
    manager = Manager(peer)
    consumer = queue(peer, topic)
    peer.sender(topic, capabilities=("queue",)).publish(*"abcde")
    rejected(consumer, 5)
    dead = queue(peer, f"DLQ.queue/{topic}")
    assert [got.body for got in dead.take(1)] == ["a"]
    assert manager.done("REDRIVE", "queue", f"DLQ.queue/{topic}", max=2)["redriven"] == 2
    assert consumer.bodies(2) == ["b", "c"]
    assert manager.done("REDRIVE", "subscription", f"queue/{topic}")["redriven"] == 2
    assert consumer.bodies(2) == ["d", "e"]
    assert manager.done("REDRIVE", "subscription", f"queue/{topic}")["redriven"] == 0


def test_what_has_nowhere_to_go_stays(connect: Connect, topic: str) -> None:
    """The subscription is gone, or claims other messages now, or it never was a dead letter; the
    others of the queue go."""
    peer = connect()
    manager = Manager(peer)
    grave = f"{topic}-grave"
    for name in ("gone", "moved", "choosy", "there"):
        manager.done(
            "CREATE",
            "subscription",
            f"container/{peer.container}/{name}",
            topic=topic,
            policy={"dead_letter_address": grave, "redefine": "replace"},
        )
    gone, there = peer.durable(topic, "gone"), peer.durable(topic, "there")
    moved, choosy = peer.durable(topic, "moved"), peer.durable(topic, "choosy")
    peer.sender(topic).publish("a")
    for one in (gone, moved, choosy, there):
        rejected(one, 1)
    peer.leave(gone, closed=True)
    peer.leave(moved, closed=False)
    moved = peer.durable(f"{topic}-elsewhere", "moved")
    peer.leave(choosy, closed=False)
    peer.durable(topic, "choosy", filters=selector("n = 1"))
    peer.sender(grave, capabilities=("queue",)).publish("stranger")
    done = manager.done("REDRIVE", "queue", grave)
    assert (done["redriven"], done["stayed"]) == (1, 4)
    assert there.bodies() == ["a"]
    assert moved.nothing()
    assert sorted(map(str, queue(peer, grave).bodies(4))) == ["a", "a", "a", "stranger"]


def test_what_a_selector_matches_goes_back(connect: Connect, topic: str) -> None:
    peer = connect()
    consumer = peer.durable(topic, "s", filters=selector("n > 1"))
    peer.sender(topic).publish_data([encoded(n, properties={"n": n}) for n in range(4)])
    assert rejected(consumer, 2) == [2, 3]
    name = f"container/{peer.container}/s"
    assert Manager(peer).done("REDRIVE", "subscription", name)["redriven"] == 2
    assert consumer.bodies(2) == [2, 3]


def test_one_subscription_of_a_common_grave_has_its_own_back(connect: Connect, topic: str) -> None:
    peer = connect()
    manager = Manager(peer)
    grave = f"{topic}-grave"
    for name in ("one", "two"):
        manager.done("CREATE", "queue", f"{topic}-{name}", policy={"dead_letter_address": grave})
        peer.sender(f"{topic}-{name}", capabilities=("queue",)).publish(name)
        rejected(queue(peer, f"{topic}-{name}"), 1)
    mine = f"queue/{topic}-two"
    assert manager.done("REDRIVE", "queue", grave, subscription=mine)["redriven"] == 1
    assert queue(peer, f"{topic}-two").bodies() == ["two"]
    assert queue(peer, grave).bodies() == ["one"]


def test_a_redrive_is_whole_after_a_kill(own_gateway: Make, connect: Connect) -> None:
    """Killed while it goes on: each message is in one of the two places, and the subscription
    beside it has none of them twice."""
    gateway = own_gateway().start()
    peer = connect("c", port=gateway.port)
    manager = Manager(peer)
    one, two = peer.durable("t", "one"), peer.durable("t", "two")
    bodies = [str(nth) for nth in range(600)]
    sender = peer.sender("t")
    sender.publish(*bodies)
    rejected(one, 600)
    assert two.bodies(600) == bodies
    peer.leave(two, closed=False)
    manager.send("REDRIVE", "subscription", "container/c/one")
    one.take(50)
    gateway.kill()
    gateway.start()
    peer = connect("c", port=gateway.port)
    back = peer.durable("t", "one")
    dead = queue(peer, "DLQ.container/c/one")
    for link in (back, dead):
        link.link.flow(1_000)
    peer.until(lambda: len(back.inbox) + len(dead.inbox) >= 600, "all of them")
    assert back.nothing()
    assert dead.nothing()
    assert sorted(int(got.body) for got in back.inbox + dead.inbox) == list(range(600))
    assert len(back.inbox) >= 50
    assert peer.durable("t", "two").nothing()


def test_dead_letters_of_long_ago_are_read_from_the_table(
    own_gateway: Make, connect: Connect
) -> None:
    gateway = own_gateway({"delivery": {"cache_bytes": 10_000}}).start()
    peer = connect("c", port=gateway.port)
    manager = Manager(peer)
    consumer = queue(peer, "q")
    sender = peer.sender("q", capabilities=("queue",))
    bodies = [f"{nth}-{'x' * 1_000}" for nth in range(60)]
    sender.publish(*bodies)
    assert rejected(consumer, 60) == bodies
    peer.sender("other").publish(*["y" * 5_000 for _ in range(20)])
    peer.until(lambda: manager.done("READ", "node", "self")["memory_bytes"] < 40_000, "a commit")
    assert manager.done("REDRIVE", "subscription", "queue/q")["redriven"] == 60
    assert consumer.bodies(60) == bodies


def test_a_rewind_brings_back_nothing_that_went_to_another(
    own_gateway: Make, connect: Connect
) -> None:
    """A redriven message is one subscription's; another one that is rewound over it gets the
    messages published to all, once. So it is after a kill."""
    gateway = own_gateway().start()
    peer = connect("c", port=gateway.port)
    manager = Manager(peer)
    one, two = peer.durable("t", "one"), peer.durable("t", "two")
    sender = peer.sender("t")
    sender.publish("a", "b")
    rejected(one, 2)
    assert two.bodies(2) == ["a", "b"]
    assert manager.done("REDRIVE", "subscription", "container/c/one")["redriven"] == 2
    sender.publish("c")
    assert two.bodies() == ["c"]
    manager.done("REWIND", "subscription", "container/c/two", to=0)
    again = two.take(3)
    assert [got.body for got in again] == ["a", "b", "c"]
    assert two.nothing()
    two.confirm(again[:1])
    gateway.kill()
    gateway.start()
    peer = connect("c", port=gateway.port)
    two = peer.durable("t", "two")
    assert two.bodies(2) == ["b", "c"]
    assert two.nothing()
    assert sorted(peer.durable("t", "one").bodies(3)) == ["a", "b", "c"]
