"""Subscriptions of patterns: one position over all topics that match, those of tomorrow too."""

from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_links import Incoming, decoded, encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer, no_local, selector
from gateway_process import Gateway
from proton import Delivery

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing

Make = Callable[..., Gateway]
#: Memory holds almost nothing, and every group is committed at once: what is old is read in pages.
PAGED = {"delivery": {"cache_bytes": 4_096, "page_bytes": 4_096}, "commit": {"interval_ms": 10}}


def everything(incoming: Incoming) -> list[object]:
    """The bodies of all that the subscription has now, accepted."""
    bodies: list[object] = []
    while incoming.drain(1_000):
        got, incoming.inbox = incoming.inbox, []
        incoming.confirm(got)
        bodies += [one.body for one in got]
    return bodies


def publish(peer: Peer, topics: list[str], count: int, at: int = 0) -> list[int]:
    """So many messages, one topic after the other; one link for each topic."""
    senders = {topic: peer.sender(topic) for topic in topics}
    for n in range(at, at + count):
        senders[topics[(n - at) % len(topics)]].publish(n)
    return list(range(at, at + count))


def test_a_consumer_of_a_pattern_gets_what_its_topics_get_in_the_order_of_publishing(
    connect: Connect, topic: str
) -> None:
    """Topics that come later, too; none that don't match; each once."""
    peer = connect()
    words = peer.receiver(f"{topic}.*")
    rest = peer.receiver(f"{topic}.#")
    exact = peer.receiver(f"{topic}.eu")
    sent = publish(peer, [f"{topic}.eu", f"{topic}.us", f"{topic}.asia"], 30)
    publish(peer, [topic, f"{topic}.eu.1", f"other.{topic}"], 3, at=100)
    assert words.bodies(30) == sent
    assert words.nothing()
    assert rest.bodies(32) == [*sent, 100, 101]
    assert rest.nothing()
    assert exact.bodies(10) == sent[::3]
    peer.sender(f"{topic}.new").publish("tomorrow's")
    assert words.bodies(1) == rest.bodies(1) == ["tomorrow's"]


def test_the_order_is_that_of_publishing_also_inside_of_a_group(
    own_gateway: Make, connect: Connect
) -> None:
    """Messages of one fsync aren't sorted by topic if a subscription sees the order over topics;
    and a no-local subscription isn't owed just its own container's messages."""
    gateway = own_gateway({"journal": {"linger_ms": 500}}).start()
    peer, other = connect("mine", port=gateway.port), connect("other", port=gateway.port)
    all_of_it = peer.durable("a.*", "all")
    foreign = peer.durable("a.x", "foreign", filters=no_local())
    senders = [one.sender(f"a.{name}") for one in (peer, other) for name in "xyz"]
    for n in range(60):
        senders[n % 6].send(encoded(n))
        (peer if n % 6 < 3 else other).heard()
    assert all_of_it.bodies(60) == [*range(60)]
    assert foreign.bodies(10) == [*range(3, 60, 6)]
    assert foreign.nothing()
    gateway.stop()
    gateway.verified()


def test_selectors_no_local_and_the_relay_are_as_ever(connect: Connect, topic: str) -> None:
    mine, other = connect(), connect()
    red = mine.receiver(f"{topic}.*", filters=selector("colour = 'red'"))
    deaf = mine.receiver(f"{topic}.*", filters=no_local())
    for peer, who in ((mine, "mine"), (other, "other's")):
        for colour in ("red", "blue"):
            text = f"{who} {colour}"
            data = encoded(text, address=f"{topic}.{colour}", properties={"colour": colour})
            peer.sender(None).publish_data([data])
    assert red.bodies(2) == ["mine red", "other's red"]
    assert deaf.bodies(2) == ["other's red", "other's blue"]
    assert red.nothing()
    assert deaf.nothing()


def test_consumers_of_a_shared_pattern_take_turns(connect: Connect, topic: str) -> None:
    peer = connect("turns" + topic)
    one = peer.shared(f"{topic}.#", "s|1")
    two = peer.shared(f"{topic}.#", "s|2")
    one.link.flow(10)
    two.link.flow(10)
    sent = publish(peer, [f"{topic}.a", f"{topic}.b"], 20)
    got = [one.take(10, credit=False), two.take(10, credit=False)]
    assert sorted(g.body for some in got for g in some) == sent
    assert [len(some) for some in got] == [10, 10]


@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize("settings", [{}, PAGED], ids=["memory", "pages"])
def test_a_durable_pattern_goes_on_where_it_was(
    own_gateway: Make, connect: Connect, settings: dict[str, object], end: str
) -> None:
    """Exclusive and shared ones, with exceptions above the floor, over what came while it was away,
    from memory and from pages, before and after the end of the process."""
    with own_gateway(settings) as gateway:
        peer = connect("c", port=gateway.port)
        alone = peer.durable("orders.*", "alone")
        shared = peer.shared_durable("orders.#", "shared")
        topics = ["orders.eu", "orders.us", "weather", "orders.asia"]
        sent = publish(peer, topics, 200)
        orders = [n for n in sent if n % 4 != 2]
        alone.confirm(alone.take(50))
        taken = shared.take(20)
        shared.confirm([taken[n] for n in (0, 3, 19)])
        peer.drop()
        publisher = connect(port=gateway.port)
        more = [n for n in publish(publisher, topics, 40, at=200) if n % 4 != 2]
        publisher.close()
        gateway.stop() if end == "stopped" else gateway.kill()
        gateway.start()

        peer = connect("c", port=gateway.port)
        last = [n for n in publish(peer, topics, 40, at=240) if n % 4 != 2]
        whole = [*orders, *more, *last]
        assert everything(peer.durable("orders.*", "alone")) == whole[50:]
        left = [n for n in whole if n not in [whole[i] for i in (0, 3, 19)]]
        assert everything(peer.shared_durable("orders.#", "shared")) == left
        gateway.stop()
        gateway.verified()
        gateway.start()


def test_priorities_expiry_and_time_are_those_of_all_its_topics(
    own_gateway: Make, connect: Connect
) -> None:
    """Also of what lies in the table since before a start."""
    with own_gateway({"delivery": {"expiry_scan_ms": 20}}) as gateway:
        peer = connect("c", port=gateway.port)
        peer.leave(peer.durable("t.*", "d"), closed=False)
        for n, name in enumerate(["t.a", "t.b", "t.a", "t.b"]):
            peer.sender(name).publish_data([encoded(n, priority=4 + n)])
        peer.sender("t.b").publish_data([encoded("short", ttl=0.001)])
        peer.close()
        gateway.stop()
        gateway.start()
        peer = connect("c", port=gateway.port)
        peer.sender("t.c").publish_data([encoded("first", priority=9)])
        durable = peer.durable("t.*", "d")
        assert durable.bodies(5) == ["first", 3, 2, 1, 0]
        assert durable.nothing()


def test_a_dead_letter_says_its_topic_and_goes_back_to_the_pattern_alone(
    own_gateway: Make, connect: Connect
) -> None:
    """From memory and, after a start, from the table."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        pattern, other = peer.durable("t.*", "p"), peer.durable("t.*", "q")
        exact = peer.durable("t.b", "exact")
        publish(peer, ["t.a", "t.b"], 2)
        pattern.confirm(pattern.take(1), Delivery.REJECTED)
        peer.drop()
        gateway.stop()
        gateway.start()
        peer = connect("c", port=gateway.port)
        pattern = peer.durable("t.*", "p")
        pattern.confirm(pattern.take(1), Delivery.REJECTED)
        letters = peer.receiver("DLQ.container/c/p", capabilities=("queue",)).take(2)
        said = [decoded(one.data).annotations["x-opt-dead-letter-topic"] for one in letters]
        assert said == ["t.a", "t.b"]
        peer.drop()
        manager = Manager(connect(port=gateway.port))
        answer = manager.ask("REDRIVE", "subscription", "container/c/p")
        assert answer.body["redriven"] == 2
        peer = connect("c", port=gateway.port)
        assert everything(peer.durable("t.*", "p")) == [0, 1]
        assert everything(peer.durable("t.*", "q")) == [0, 1]
        assert everything(peer.durable("t.b", "exact")) == [1]
        assert other.received + exact.received == 0


@pytest.mark.parametrize(
    ("style", "address", "condition"),
    [
        ("artemis", "orders*", "amqp:invalid-field"),
        ("artemis", "#.eu", "amqp:invalid-field"),
        ("classic", "orders.>.eu", "amqp:invalid-field"),
        ("artemis", "queue://orders.*", "amqp:invalid-field"),
    ],
)
def test_what_is_no_pattern_is_refused(
    own_gateway: Make, connect: Connect, style: str, address: str, condition: str
) -> None:
    with own_gateway({"delivery": {"pattern_style": style}}) as gateway:
        peer = connect(port=gateway.port)
        words = ("queue",) if address.startswith("queue") else ("topic",)
        refused = peer.receiver(address, opened=False, capabilities=words)
        assert peer.amqp_error(refused) == condition


def test_nobody_publishes_to_a_pattern(connect: Connect, topic: str) -> None:
    """Neither by a link nor by the relay."""
    peer = connect()
    refused = peer.sender(f"{topic}.*", opened=False)
    assert peer.amqp_error(refused) == "amqp:invalid-field"
    relay = peer.sender(None)
    relay.outcome(relay.send(encoded(1, address=f"{topic}.#")))


@pytest.mark.parametrize(("style", "rest"), [("classic", ">"), ("rabbitmq", "#"), ("none", None)])
def test_the_style_says_what_a_wildcard_is(
    own_gateway: Make, connect: Connect, style: str, rest: str | None
) -> None:
    with own_gateway({"delivery": {"pattern_style": style}}) as gateway:
        peer = connect(port=gateway.port)
        if rest is None:
            literal = peer.receiver("a.*")
            peer.sender("a.*").publish("to that name")
            peer.sender("a.b").publish("to another")
            assert literal.bodies(1) == ["to that name"]
            assert literal.nothing()
            return
        pattern = peer.receiver(f"a.{rest}")
        for name in ("a", "a.b", "a.b.c", "b"):
            peer.sender(name).publish(name)
        assert pattern.bodies(3) == ["a", "a.b", "a.b.c"]
        assert pattern.nothing()


PASSWORD = "x"  # noqa: S105
WRITTEN = """
["*"]
publish = ["*"]
[alice]
consume = ["orders.eu", "orders.us"]
create = ["orders.*"]
[bob]
consume = ["orders.us"]
[carol]
consume = ["orders*"]
[dave]
manage = ["orders*"]
"""


@pytest.fixture
def ruled(tmp_path: Path) -> dict[str, object]:
    """Settings of a gateway whose users all have the same password."""
    users, permissions = tmp_path / "users.toml", tmp_path / "permissions.toml"
    with changing(users) as known:
        for name in ("alice", "bob", "carol", "dave"):
            known[name] = user_of(PASSWORD)
    permissions.write_text(WRITTEN)
    return {"security": {"users": str(users), "permissions": str(permissions)}}


def test_a_topic_that_the_user_may_not_consume_is_not_delivered(
    own_gateway: Make, connect: Connect, ruled: dict[str, object]
) -> None:
    """Per topic, as it joins; for a durable subscription also while it is away, and after a rewind:
    it has the rights of its maker, and another user who joins it needs them for all topics."""
    topics = ["orders.eu", "orders.secret", "orders.us"]
    with own_gateway(ruled) as gateway:

        def user(name: str, container: str | None = None) -> Peer:
            return connect(container, port=gateway.port, user=name, password=PASSWORD)

        alice = user("alice", "a")
        plain = user("bob").receiver("orders.*")
        durable = alice.shared_durable("orders.*", "d|global")
        sent = publish(user("carol"), topics, 9)
        assert plain.bodies(3) == sent[2::3]
        assert plain.nothing()
        owed = [n for n in sent if n % 3 != 1]
        assert durable.bodies(6) == owed
        alice.close()
        more = publish(user("carol"), topics, 9, at=9)
        bob = user("bob", "b")
        for other in (bob, user("dave", "d")):  # one user who doesn't see it, and one who does
            refused = other.shared_durable("orders.*", "d|global", opened=False)
            assert other.amqp_error(refused) == "amqp:unauthorized-access"
        carol = user("carol", "c")
        later = [n for n in more if n % 3 != 1]
        assert everything(carol.shared_durable("orders.*", "d|global")) == later
        forbidden = bob.durable("orders.#", "mine", opened=False)
        assert bob.amqp_error(forbidden) == "amqp:unauthorized-access"
        carol.close()
        gateway.stop()
        gateway.verified()
        gateway.start()
        assert everything(user("alice", "a").shared_durable("orders.*", "d|global")) == []


def test_a_backlog_s_limit_is_for_all_topics_together(
    own_gateway: Make, connect: Connect, tmp_path: Path
) -> None:
    policies = tmp_path / "policies.toml"
    policies.write_text('[[subscription]]\nmatch = "container/c/full"\nbacklog_messages_max = 5\n')
    with own_gateway({"delivery": {"policies": str(policies)}}) as gateway:
        peer = connect("c", port=gateway.port)
        peer.leave(peer.durable("t.*", "full"), closed=False)
        one, two = peer.sender("t.a"), peer.sender("t.b")
        one.publish(0, 1, 2)
        two.publish(3, 4)
        for sender in (one, two):
            assert sender.outcome(sender.send(encoded("too many"))) == Delivery.REJECTED
        assert everything(peer.durable("t.*", "full")) == [0, 1, 2, 3, 4]
        two.publish(5)
