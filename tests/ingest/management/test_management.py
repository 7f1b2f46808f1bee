"""Operations by $management, with a real gateway: they are done when answered, also after a
kill -9."""

import random
import time
from collections.abc import Callable

import pytest
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect, selector
from gateway_process import Gateway, until

Make = Callable[..., Gateway]


@pytest.fixture
def manager(connect: Connect) -> Manager:
    return Manager(connect())


def test_what_there_is_can_be_read(connect: Connect, manager: Manager, topic: str) -> None:
    """A subscription says whom it serves, how far it has come and what holds for it."""
    peer = connect()
    consumer = peer.shared_durable(topic, f"{topic}|global")
    peer.sender(topic).publish("a", "b", "c")
    [got] = consumer.take(1)
    row = manager.done("READ", "subscription", f"global/{topic}")
    assert row["topic"] == topic
    assert row["consumers"] == 1
    assert row["in_flight"] == 1
    assert row["paused"] is False
    assert row["policy"] == {}
    assert row["policy_in_force"]["delivery_attempts_max"] == 10
    assert row["head"] >= row["position"] > row["floor"]
    consumer.settle([got])
    found = manager.done("READ", "topic", topic)
    assert found["producers"] == 1
    assert found["subscriptions"] == [f"global/{topic}"]


def test_all_that_there_are_can_be_listed_in_parts(manager: Manager, topic: str) -> None:
    """The columns that are wanted, from an offset on, and how many there are in all."""
    for nth in range(5):
        manager.done("CREATE", "queue", f"{topic}-{nth}")
    wanted = {"attributeNames": ["name", "consumers"]}
    first = manager.done("QUERY", "queue", **wanted, count=2)
    assert first["attributeNames"] == ["name", "consumers"]
    assert len(first["results"]) == 2
    names = []
    for offset in range(0, first["total"], 2):
        part = manager.done("QUERY", "queue", **wanted, offset=offset, count=2)
        names += [name for name, consumers in part["results"] if name.startswith(topic)]
    assert names == [f"{topic}-{nth}" for nth in range(5)]


def test_a_paused_subscription_gets_nothing_until_it_is_resumed(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """Messages published meanwhile wait for it; another subscription gets them at once."""
    peer = connect()
    paused, other = peer.durable(topic, "paused"), peer.receiver(topic)
    name = f"container/{peer.container}/paused"
    assert manager.done("PAUSE", "subscription", name)["paused"] is True
    peer.sender(topic).publish("a", "b")
    assert other.bodies(2) == ["a", "b"]
    assert paused.nothing()
    manager.done("PAUSE", "subscription", name)  # a second time is no error
    manager.done("RESUME", "subscription", name)
    assert paused.bodies(2) == ["a", "b"]


def test_a_purged_queue_owes_only_what_comes_later(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """Also what a consumer held: its late outcome changes nothing."""
    peer = connect()
    sender, consumer = (
        peer.sender(f"queue://{topic}"),
        peer.receiver(f"queue://{topic}", capabilities=("queue",)),
    )
    sender.publish(*"abcd")
    held = consumer.take(1)
    row = manager.done("PURGE", "queue", topic)
    assert row["in_flight"] == row["outstanding"] == 0
    assert row["floor"] == row["head"]
    consumer.settle(held, state=0)
    sender.publish("e")
    assert consumer.bodies() == ["e"]
    assert consumer.nothing()


def test_a_rewound_subscription_gets_again_what_it_had(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """To a sequence, and to a time; its consumer goes on on the same link."""
    peer = connect()
    sender, consumer = peer.sender(topic), peer.durable(topic, "again")
    name = f"container/{peer.container}/again"
    begin = manager.done("READ", "subscription", name)["floor"]
    sender.publish(*"abc")
    consumer.confirm(consumer.take(3))
    assert consumer.nothing()
    assert manager.done("REWIND", "subscription", name, to=begin)["floor"] == begin
    again = consumer.take(3)
    assert [got.body for got in again] == ["a", "b", "c"]
    consumer.confirm(again)
    manager.done("REWIND", "subscription", name, to="1h")
    assert consumer.bodies(3) == ["a", "b", "c"]
    assert consumer.nothing()


def test_what_is_owed_again_counts_as_backlog(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """Although no subscription was owed it any more, and none of it was counted."""
    peer = connect()
    consumer = peer.durable(topic, "counted")
    name = f"container/{peer.container}/counted"
    peer.sender(topic).publish(*"abcde")
    consumer.confirm(consumer.take(5))
    row = manager.done("READ", "subscription", name)
    assert (row["backlog"], row["backlog_bytes"]) == (0, 0)
    time.sleep(2.5)  # the stimulus: messages owed to no subscription go once a second
    peer.sender(f"{topic}-other").publish("x")
    manager.done("REWIND", "subscription", name, to=row["floor"] - 3)
    row = manager.done("READ", "subscription", name)
    assert row["backlog"] == 3
    assert row["backlog_bytes"] > 0


def test_what_is_rewound_right_after_a_start_is_counted_once(
    own_gateway: Make, connect: Connect
) -> None:
    """Waiting messages are counted in the background then, and a rewind counts its topic itself."""
    gateway = own_gateway().start()
    peer = connect("ops", port=gateway.port)
    consumer = peer.durable("t", "s")
    peer.sender("t").publish(*map(str, range(50)))
    consumer.confirm(consumer.take(45))
    gateway.kill()
    gateway.start()
    manager = Manager(connect(port=gateway.port))
    counted = []
    manager.done("REWIND", "subscription", "container/ops/s", to=10)
    for _ in range(5):
        counted.append(manager.done("READ", "subscription", "container/ops/s")["backlog"])
        time.sleep(0.3)  # the stimulus: what is counted twice comes a while after the start
    assert counted == [40] * 5


def test_what_has_priorities_and_times_is_rewound_as_well(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """Each message once, and none that has expired meanwhile, whatever is known of it still. In
    which order depends on how many groups they came in: priorities are kept among what is read."""
    peer = connect()
    consumer = peer.durable(topic, "s")
    name = f"container/{peer.container}/s"
    begin = manager.done("READ", "subscription", name)["floor"]
    sender = peer.sender(topic)
    data = [encoded(nth, priority=nth) for nth in (4, 9, 0, 7, 4, 2)]
    sender.publish_data([*data, encoded("short", ttl=6.0)])
    first = consumer.take(7)
    consumer.confirm(first)
    manager.done("REWIND", "subscription", name, to=begin)
    again = consumer.take(7)
    assert sorted(str(got.body) for got in again) == sorted(str(got.body) for got in first)
    for seconds in (6.5, 2.5):
        time.sleep(seconds)  # the stimulus: messages owed to no subscription go once a second
        manager.done("REWIND", "subscription", name, to=begin)
        again = consumer.take(6)
        assert sorted(got.body for got in again) == [0, 2, 4, 4, 7, 9]
        assert consumer.nothing()
        consumer.confirm(again)
    assert manager.done("READ", "subscription", name)["outstanding"] == 0


def test_a_skip_goes_forward_only(connect: Connect, manager: Manager, topic: str) -> None:
    peer = connect()
    sender, consumer = peer.sender(topic), peer.durable(topic, "skip")
    name = f"container/{peer.container}/skip"
    sender.publish(*"abc")
    floor = manager.done("READ", "subscription", name)["floor"]
    at = manager.done("SKIP", "subscription", name, to=floor + 2)["floor"]
    assert at == floor + 2
    assert consumer.bodies() == ["c"]
    assert "a skip goes forward" in manager.refused(409, "SKIP", "subscription", name, to=floor)
    sender.publish("d")
    manager.done("SKIP", "subscription", name)
    assert consumer.nothing()


def test_a_place_that_is_not_there_is_refused_and_nothing_moves(
    connect: Connect, manager: Manager, topic: str
) -> None:
    peer = connect()
    sender, consumer = peer.sender(topic), peer.durable(topic, "stay")
    name = f"container/{peer.container}/stay"
    sender.publish("a")
    row = manager.done("READ", "subscription", name)
    text = manager.refused(409, "REWIND", "subscription", name, to=row["head"] + 1)
    assert f"the next message gets sequence {row['head']}" in text
    assert "is no place" in manager.refused(400, "REWIND", "subscription", name, to="soon")
    assert manager.done("READ", "subscription", name)["floor"] == row["floor"]
    assert consumer.bodies() == ["a"]


def test_a_closed_subscription_loses_its_consumers_and_nothing_else(
    connect: Connect, manager: Manager, topic: str
) -> None:
    peer = connect()
    consumer = peer.durable(topic, "closed")
    name = f"container/{peer.container}/closed"
    peer.sender(topic).publish("a")
    consumer.take(1)
    assert manager.done("CLOSE", "subscription", name)["links"] == 1
    assert peer.amqp_error(consumer) == "amqp:link:detach-forced"
    assert peer.durable(topic, "closed").bodies() == ["a"]


def test_what_is_in_use_is_deleted_by_force_alone(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """A queue with messages or links stays until a request says `force`; then its links end."""
    peer = connect()
    sender, consumer = (
        peer.sender(f"queue://{topic}"),
        peer.receiver(f"queue://{topic}", capabilities=("queue",)),
    )
    sender.publish("a")
    assert "say force" in manager.refused(409, "DELETE", "queue", topic)
    peer.leave(consumer, closed=True)
    peer.leave(sender, closed=True)
    assert "has messages" in manager.refused(409, "DELETE", "queue", topic)
    sender, consumer = (
        peer.sender(f"queue://{topic}"),
        peer.receiver(f"queue://{topic}", capabilities=("queue",)),
    )
    assert manager.done("DELETE", "queue", topic, force=True)["links"] == 2
    assert peer.amqp_error(consumer) == peer.amqp_error(sender) == "amqp:resource-deleted"
    assert manager.refused(404, "READ", "queue", topic)
    fresh = peer.sender(f"queue://{topic}")
    fresh.publish("b")
    assert peer.receiver(f"queue://{topic}", capabilities=("queue",)).bodies() == ["b"]


def test_a_queue_is_looked_at_before_it_is_deleted(own_gateway: Make, connect: Connect) -> None:
    """Right after a start, too, and however much of other topics lies in the log: one that has
    nothing goes, one that has a message stays."""
    gateway = own_gateway({"delivery": {"cache_bytes": 10_000}}).start()
    peer = connect(port=gateway.port)
    for name in ("empty", "used", "full"):
        peer.sender(name, capabilities=("queue",)).publish("a", "b")
    for name, number in (("empty", 2), ("used", 2), ("full", 1)):
        queue = peer.receiver(name, capabilities=("queue",))
        queue.confirm(queue.take(number))
    peer.sender("used", capabilities=("queue",)).publish("c")
    peer.sender("other").publish(*["x" * 1_000 for _ in range(40)])
    gateway.kill()
    gateway.start()
    manager = Manager(connect(port=gateway.port))
    manager.refused(409, "DELETE", "queue", "used")
    manager.refused(409, "DELETE", "queue", "full")
    manager.done("DELETE", "queue", "empty")


def test_a_subscription_is_made_before_anybody_consumes(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """With a selector; JMS clients that say the same join it."""
    row = manager.done(
        "CREATE", "subscription", f"global/{topic}", topic=topic, selector="a = 1", shared=True
    )
    assert row["selector"] == "a = 1"
    text = manager.refused(409, "CREATE", "subscription", f"global/{topic}", topic=topic)
    assert "already" in text
    peer = connect()
    sender = peer.sender(topic)
    sender.publish_data([encoded(n, properties={"a": n}) for n in (1, 2)])
    assert manager.done("READ", "subscription", f"global/{topic}")["consumers"] == 0


@pytest.mark.parametrize(
    ("name", "attributes", "says"),
    [
        ("global/x", {"topic": "queue://q"}, "is a queue, no topic"),
        ("global/x", {"topic": "t", "selector": "a = = 1"}, "line 1"),
        ("global/x", {"topic": "t", "no_local": True}, "no-local"),
        ("global/x?volatile", {"topic": "t"}, "durable"),
        ("queue/x", {"topic": "t"}, "queues are made as such"),
        ("nonsense", {"topic": "t"}, "is no subscription's id"),
        ("global/x", {"topic": "t", "policy": {"lock_secs": 1}}, "unknown key 'lock_secs'"),
        (
            "global/x",
            {"topic": "t", "policy": {"dead_letter_address": "dead.#"}},
            "dead_letter_address: 'queue://dead.#' has wildcards",
        ),
    ],
)
def test_what_can_not_be_made_is_refused(
    manager: Manager, name: str, attributes: dict[str, object], says: str
) -> None:
    assert says in manager.refused(400, "CREATE", "subscription", name, **attributes)


@pytest.mark.parametrize("name", ["work.*", "queue://work.#", "*"])
def test_a_queue_that_no_link_could_name_is_not_made(
    connect: Connect, manager: Manager, name: str
) -> None:
    """Links refuse a queue with wildcards, so a queue of that name would be of no use."""
    address = f"queue://{name.removeprefix('queue://')}"
    peer = connect()
    assert peer.amqp_error(peer.receiver(address, opened=False)) == "amqp:invalid-field"
    assert "a queue has one name" in manager.refused(400, "CREATE", "queue", name)
    assert manager.refused(404, "READ", "queue", name)


def test_a_topic_needs_no_making_and_ends_with_its_subscriptions(
    connect: Connect, manager: Manager, topic: str
) -> None:
    manager.done("CREATE", "topic", topic)
    peer = connect()
    peer.leave(peer.durable(topic, "one"), closed=False)
    assert "1 durable subscriptions" in manager.refused(409, "DELETE", "topic", topic)
    manager.done("DELETE", "topic", topic, force=True)
    assert manager.refused(404, "READ", "subscription", f"container/{peer.container}/one")


def test_a_policy_of_its_own_holds_at_once(connect: Connect, manager: Manager, topic: str) -> None:
    manager.done("CREATE", "queue", topic)
    row = manager.done("UPDATE", "queue", topic, policy={"consumers_max": 1})
    assert row["policy"] == {"consumers_max": 1}
    assert row["policy_in_force"]["consumers_max"] == 1
    peer = connect()
    peer.receiver(f"queue://{topic}", capabilities=("queue",))
    second = peer.receiver(f"queue://{topic}", capabilities=("queue",), opened=False)
    assert peer.amqp_error(second) == "amqp:resource-limit-exceeded"
    assert manager.ask("UPDATE", "queue", topic, policy={"consumers_max": -2}).status == 400


def test_what_an_operator_said_outlives_a_redefinition(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """A client that comes with another selector finds its subscription paused as before."""
    peer = connect()
    name = f"container/{peer.container}/s"
    peer.leave(peer.durable(topic, "s"), closed=False)
    manager.done("PAUSE", "subscription", name)
    manager.done("UPDATE", "subscription", name, policy={"lock_ms": 7000})
    again = peer.durable(topic, "s", filters=selector("a = 1"))
    row = manager.done("READ", "subscription", name)
    assert (row["selector"], row["paused"], row["policy"]) == ("a = 1", True, {"lock_ms": 7000})
    assert row["policy_in_force"]["lock_ms"] == 7000
    peer.sender(topic).publish_data([encoded("x", properties={"a": 1})])
    assert again.nothing()
    peer.leave(again, closed=True)
    peer.durable(topic, "s")
    row = manager.done("READ", "subscription", name)
    assert (row["paused"], row["policy"]) == (False, {})


def test_all_of_it_is_so_after_a_kill(own_gateway: Make, connect: Connect) -> None:
    """A pause, a policy, a rewind, a purge, a new queue and a deleted one."""
    gateway = own_gateway().start()
    peer = connect("ops", port=gateway.port)
    manager = Manager(peer)
    sender = peer.sender("t")
    for name in ("paused", "rewound", "purged", "deleted"):
        peer.leave(peer.durable("t", name), closed=False)
    sender.publish(*"abc")
    rewound = peer.durable("t", "rewound")
    rewound.confirm(rewound.take(3))
    peer.leave(rewound, closed=False)
    manager.done("PAUSE", "subscription", "container/ops/paused")
    manager.done("UPDATE", "subscription", "container/ops/paused", policy={"lock_ms": 5000})
    manager.done("REWIND", "subscription", "container/ops/rewound", to=1)
    manager.done("PURGE", "subscription", "container/ops/purged")
    manager.done("DELETE", "subscription", "container/ops/deleted")
    manager.done("CREATE", "queue", "made")
    sender.publish("d")
    gateway.kill()
    gateway.start()
    peer = connect("ops", port=gateway.port)
    manager = Manager(peer)
    row = manager.done("READ", "subscription", "container/ops/paused")
    assert row["paused"] is True
    assert row["policy"] == {"lock_ms": 5000}
    assert row["policy_in_force"]["lock_ms"] == 5000
    manager.refused(404, "READ", "subscription", "container/ops/deleted")
    assert manager.done("READ", "queue", "made")["consumers"] == 0
    assert peer.durable("t", "rewound").bodies(3) == ["b", "c", "d"]
    assert peer.durable("t", "purged").bodies() == ["d"]
    paused = peer.durable("t", "paused")
    assert paused.nothing()
    manager.done("RESUME", "subscription", "container/ops/paused")
    assert paused.bodies(4) == ["a", "b", "c", "d"]


def test_what_was_settled_after_a_rewind_stays_so_after_a_kill(
    own_gateway: Make, connect: Connect
) -> None:
    """And what was settled before it does not: an outcome that comes late is of the old life."""
    gateway = own_gateway().start()
    peer = connect("ops", port=gateway.port)
    manager = Manager(peer)
    consumer = peer.durable("t", "s")
    peer.sender("t").publish(*"abc")
    late = consumer.take(3)
    manager.done("REWIND", "subscription", "container/ops/s", to=0)
    consumer.confirm(late)
    again = consumer.take(3)
    assert [got.body for got in again] == ["a", "b", "c"]
    consumer.confirm(again[:1])
    gateway.kill()
    gateway.start()
    peer = connect("ops", port=gateway.port)
    assert peer.durable("t", "s").bodies(2) == ["b", "c"]


def test_nothing_is_delivered_before_a_rewind_is_durable(
    own_gateway: Make, connect: Connect
) -> None:
    """Settlements in the rewind's own group don't count, so none may be there: the outcomes of a
    quick consumer are still there after a kill, although groups wait long."""
    gateway = own_gateway({"journal": {"linger_ms": 300}}).start()
    peer = connect("ops", port=gateway.port)
    manager = Manager(peer)
    consumer = peer.durable("t", "s")
    peer.sender("t").publish(*"abc")
    consumer.confirm(consumer.take(3))
    consumer.link.flow(3)
    manager.send("REWIND", "subscription", "container/ops/s", to=0)
    while len(consumer.inbox) < 3:
        peer.heard()  # whatever comes makes the gateway look what it may deliver
    consumer.confirm(consumer.take(3, credit=False))
    gateway.kill()
    gateway.start()
    assert connect("ops", port=gateway.port).durable("t", "s").nothing()


def test_a_rewind_reaches_what_only_the_table_has(own_gateway: Make, connect: Connect) -> None:
    """Pages of the table, when memory is small."""
    gateway = own_gateway({"delivery": {"cache_bytes": 10_000}}).start()
    peer = connect("ops", port=gateway.port)
    manager = Manager(peer)
    consumer = peer.durable("t", "s")
    sender = peer.sender("t")
    bodies = [f"{nth}-{'x' * 1_000}" for nth in range(50)]
    for body in bodies:
        sender.publish(body)
    assert consumer.bodies(50) == bodies
    until(lambda: manager.done("READ", "node", "self")["committed"] == 50, "a commit")
    manager.done("REWIND", "subscription", "container/ops/s", to=7)
    assert consumer.bodies(43) == bodies[7:]
    manager.done("REWIND", "subscription", "container/ops/s", to="1d")
    assert consumer.bodies(50) == bodies


def test_what_was_answered_holds_whenever_the_gateway_is_killed(
    own_gateway: Make, connect: Connect
) -> None:
    """Orders that come as fast as can be, and a kill somewhere among them: what was answered is so,
    what was asked may be, in its order. Groups wait, so that an answer too early is seen."""
    gateway = own_gateway({"journal": {"linger_ms": 50}}).start()
    rng = random.Random(3)
    for life in range(5):
        peer = connect("ops", port=gateway.port)
        manager = Manager(peer)
        manager.ask("CREATE", "subscription", "global/s", topic="t")
        manager.done("RESUME", "subscription", "global/s")
        manager.done("UPDATE", "subscription", "global/s", policy={"lock_ms": 1})
        asked = []
        for nth in range(4):
            asked.append(manager.send("PAUSE", "subscription", "global/s"))
            asked.append(manager.send("RESUME", "subscription", "global/s"))
            said = {"policy": {"lock_ms": 2 + nth}}
            asked.append(manager.send("UPDATE", "subscription", "global/s", **said))
        answered = rng.randrange(len(asked))
        for number in asked[:answered]:
            assert manager.answer(number).status == 200
        gateway.kill()
        gateway.start()
        row = Manager(connect("look", port=gateway.port)).done("READ", "subscription", "global/s")
        states = [(False, 1)]
        for nth in range(4):
            locked = states[-1][1]
            states += [(True, locked), (False, locked), (False, 2 + nth)]
        assert (row["paused"], row["policy"]["lock_ms"]) in states[answered:], (life, answered)
