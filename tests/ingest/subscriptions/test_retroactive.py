"""Subscriptions that begin in the past: what was published before them comes first, then what is
published now, each once and in order; with a hint, without one, and over a kill -9."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable
from gateway_links import Incoming, Outgoing, encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer, selector
from gateway_process import Gateway, past, until
from proton import Delivery

from distributary.pipeline.subscriptions.hint import packed
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.verify.verify_home import verify

Make = Callable[..., Gateway]
#: Most of what a test publishes is in pages of the table, and a page is a few row groups.
TINY = {
    "commit": {"interval_ms": 50},
    "delivery": {"cache_bytes": 20_000, "page_bytes": 8_192},
}
RARE = "n % 50 = 7"


def rare(start: int, stop: int) -> list[int]:
    return [n for n in range(start, stop) if n % 50 == 7]


def publish(sender: Outgoing, *numbers: int) -> None:
    sender.publish_data(encoded(n, properties={"n": n}) for n in numbers)


def consume(peer: Peer, topic: str, name: str, text: str | None) -> Incoming:
    filters = selector(text) if text else None
    return peer.shared_durable(topic, f"{name}|global", filters=filters)


def committed(gateway: Gateway, messages: int) -> None:
    table = gateway.home / "tables/topic_log"
    until(
        lambda: DeltaTable(table).transaction_version("sequence") == messages,
        "all is in the table",
    )


@pytest.fixture
def gateway(own_gateway: Make) -> Iterator[Gateway]:
    """A gateway with little memory, whose home is sound after the test."""
    with own_gateway(TINY) as running:
        yield running
        running.stop()
        report = verify(Home(running.home), deep=True)
        assert report.sound, report


def hinted(
    manager: Manager, name: str, topic: str, start: int, stop: int, named: list[int]
) -> dict[str, int]:
    """Say which of these match, as far as a test wants to say it: the sequences are the numbers."""
    said = {"topic": topic, "selector": RARE, "start": start, "stop": stop}
    return manager.done("HINT", "subscription", name, **said, matches=packed(start, named))


def test_old_messages_come_first_and_new_ones_behind(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    """To a sequence, to a time and to the log's begin; nothing before, nothing twice."""
    peer = connect(port=gateway.port)
    sender, manager = peer.sender(topic), Manager(peer)
    publish(sender, *range(1_000))
    committed(gateway, 1_000)
    past(time.time() + 0.01)
    between = datetime.now(UTC).isoformat()
    publish(sender, *range(1_000, 1_100))
    wanted = {"500": 500, between: 1_000, "1h": 0}
    for since, first in wanted.items():
        name = f"from-{first}"
        said = manager.done("CREATE", "subscription", f"global/{name}", topic=topic, since=since)
        assert said["floor"] == first
        assert said["backlog"] == 1_100 - first
        consumer = consume(connect(port=gateway.port), topic, name, None)
        assert consumer.bodies(1_100 - first) == list(range(first, 1_100))
        assert consumer.nothing()
    publish(sender, *range(1_100, 1_110))
    assert consumer.bodies(10) == list(range(1_100, 1_110))
    assert consumer.nothing()


def test_what_can_not_begin_is_refused(gateway: Gateway, connect: Connect, topic: str) -> None:
    """No subscription is made."""
    manager = Manager(connect(port=gateway.port))
    about = {"topic": topic}
    said = manager.refused(409, "CREATE", "subscription", "global/x", **about, since=17)
    assert "beyond the end" in said
    said = manager.refused(400, "CREATE", "subscription", "global/x", **about, since="soon")
    assert "no place in the log" in said
    own = {**about, "no_local": True, "shared": False, "since": 0}
    assert "no-local" in manager.refused(400, "CREATE", "subscription", "container/c/x", **own)
    manager.refused(404, "READ", "subscription", "global/x")


@pytest.mark.parametrize("with_hint", [False, True], ids=["without", "with"])
def test_under_load_each_comes_once_and_in_order(
    gateway: Gateway, connect: Connect, topic: str, *, with_hint: bool
) -> None:
    """Publishers go on while it is made; the gateway is killed in the middle of the history."""
    publish(connect(port=gateway.port).sender(topic), *range(3_000))
    committed(gateway, 3_000)
    stopped = threading.Event()
    published = 3_000

    def go_on() -> None:
        nonlocal published
        with Peer(gateway.port, None) as peer:
            sender = peer.sender(topic)
            while not stopped.is_set():
                publish(sender, *range(published, published + 50))
                published += 50

    load = threading.Thread(target=go_on)
    load.start()
    try:
        peer = connect(port=gateway.port)
        manager, about = Manager(peer), {"topic": topic, "selector": RARE}
        consumer = None
        said = manager.done("CREATE", "subscription", "global/late", **about, since=500)
        if with_hint:
            hinted(manager, "global/late", topic, 500, 2_000, rare(500, 2_000))
            hinted(manager, "global/late", topic, 2_000, 3_000, rare(2_000, 3_000))
        assert said["floor"] == 500
        consumer = consume(peer, topic, "late", RARE)
        got = consumer.take(20)
        consumer.confirm(got)
    finally:
        behind = published + 500
        until(lambda: published > behind or not load.is_alive(), "more is published behind it")
        stopped.set()
        load.join()
    assert published > 3_000
    bodies = [one.body for one in got]
    gateway.kill()
    gateway.start()
    peer = connect(port=gateway.port)
    consumer = consume(peer, topic, "late", RARE)
    left = rare(500, published)[20:]
    bodies += consumer.bodies(len(left))
    assert bodies == rare(500, published)
    publish(peer.sender(topic), published + 7 - published % 50)
    assert len(consumer.bodies(1)) == 1
    assert consumer.nothing()


def test_what_a_hint_does_not_name_is_not_read(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    """Seen by a hint that leaves out a match where no sample looks: that one doesn't come. Behind
    the hint's end all is looked at as ever."""
    peer = connect(port=gateway.port)
    sender, manager = peer.sender(topic), Manager(peer)
    publish(sender, *range(4_000))
    committed(gateway, 4_000)
    about = {"topic": topic, "selector": RARE, "since": 0}
    for attempt in range(20):
        name = f"global/hinted-{attempt}"
        manager.done("CREATE", "subscription", name, **about)
        said = {"topic": topic, "selector": RARE, "start": 0, "stop": 3_000}
        named = [n for n in rare(0, 3_000) if n != 1_007]
        answer = manager.ask("HINT", "subscription", name, **said, matches=packed(0, named))
        if answer.status == 200:  # the sample was taken elsewhere
            break
        assert answer.text == "sequence 1007 matches and isn't named: the hint is forgotten"
    assert answer.body == {"stop": 3_000, "matches": 59}
    consumer = consume(connect(port=gateway.port), topic, f"hinted-{attempt}", RARE)
    assert consumer.bodies(79) == [n for n in rare(0, 4_000) if n != 1_007]
    assert consumer.nothing()


def test_what_a_hint_names_is_evaluated(gateway: Gateway, connect: Connect, topic: str) -> None:
    """It may name too many: what doesn't match isn't delivered. Others with another selector on
    the same topic get all that is theirs meanwhile, and so does a rewound one."""
    peer = connect(port=gateway.port)
    sender, manager = peer.sender(topic), Manager(peer)
    publish(sender, *range(3_000))
    committed(gateway, 3_000)
    about = {"topic": topic, "selector": RARE, "since": 0}
    manager.done("CREATE", "subscription", "global/mine", **about)
    manager.done("CREATE", "subscription", "global/others", **about | {"selector": "n % 2 = 0"})
    many = [n for n in range(3_000) if n % 10 == 7]
    assert hinted(manager, "global/mine", topic, 0, 3_000, many)["matches"] == 300
    other = consume(connect(port=gateway.port), topic, "others", "n % 2 = 0")
    mine = consume(connect(port=gateway.port), topic, "mine", RARE)
    first = random.Random(1)
    got: list[object] = []
    seen: list[object] = []
    while len(got) < 60:
        got += mine.bodies(min(first.randrange(1, 5), 60 - len(got)))
        seen += other.bodies(20)
    assert got == rare(0, 3_000)
    seen += other.bodies(1_500 - len(seen))
    assert seen == list(range(0, 3_000, 2))
    assert mine.nothing()
    manager.done("REWIND", "subscription", "global/mine", to=1_000)
    hinted(manager, "global/mine", topic, 1_000, 3_000, rare(1_000, 3_000))
    assert mine.bodies(40) == rare(1_000, 3_000)
    assert mine.nothing()


def test_what_wants_more_than_its_turn_is_not_lost(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    """High priorities, which another subscription has the gateway remember, and messages that come
    back: each that matches is accepted once."""
    dice, peer = random.Random(3), connect("other", port=gateway.port)
    keeper = peer.durable(topic, "keeper")
    sender, manager = peer.sender(topic), Manager(peer)
    priorities = [dice.choice([0, 4, 4, 4, 9]) for _ in range(2_000)]
    sender.publish_data(
        encoded(n, properties={"n": n}, priority=priority) for n, priority in enumerate(priorities)
    )
    committed(gateway, 2_000)
    manager.done("CREATE", "subscription", "global/mine", topic=topic, selector=RARE, since=100)
    named = [n for n in range(100, 1_500) if n % 50 == 7 or dice.random() < 0.01]
    hinted(manager, "global/mine", topic, 100, 1_500, named)
    consumer = consume(connect(port=gateway.port), topic, "mine", RARE)
    accepted: list[object] = []
    while consumer.drain(dice.randrange(1, 6)) or consumer.inbox:
        got, consumer.inbox = consumer.inbox, []
        done = [one for one in got if dice.random() < 0.7]
        consumer.confirm(done)
        accepted += [one.body for one in done]
        consumer.settle([one for one in got if one not in done], Delivery.RELEASED)
    assert sorted(map(int, map(str, accepted))) == rare(100, 2_000)
    peer.leave(keeper, closed=False)


def test_a_hint_that_can_not_be_right_is_refused(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    """About something else, about what isn't there, or no hint at all; and one that was taken in
    may be said again, and goes on where it ended."""
    peer = connect(port=gateway.port)
    sender, manager = peer.sender(topic), Manager(peer)
    publish(sender, *range(200))
    committed(gateway, 200)
    name = "global/mine"
    manager.done("CREATE", "subscription", name, topic=topic, selector=RARE, since=0)
    right = {
        "topic": topic,
        "selector": RARE,
        "start": 0,
        "stop": 100,
        "matches": packed(0, rare(0, 100)),
    }
    for wrong, status, says in (
        ({"topic": "other"}, 409, "the hint is for another subscription"),
        ({"selector": "n = 7"}, 409, "the hint is for another subscription"),
        ({"stop": 201}, 409, "the hint goes to sequence 201, the table to 200"),
        ({"stop": 0}, 400, "about the sequences 'start' to 'stop' - 1"),
        ({"matches": b"123"}, 400, "'matches' has 3 bytes; each match takes 4"),
        ({"matches": packed(0, [57, 7])}, 400, "must ascend"),
        ({"matches": packed(0, [7, 100])}, 400, "must ascend and lie below 'stop'"),
        ({"matches": packed(0, [7])}, 409, "sequence 57 matches and isn't named"),
        ({"matches": b""}, 409, "sequence 7 matches and isn't named"),
        ({"matches": "7"}, 400, "must be a binary"),
    ):
        assert says in manager.refused(status, "HINT", "subscription", name, **right | wrong)
    manager.refused(404, "HINT", "subscription", "global/nobody", **right)
    assert manager.done("HINT", "subscription", name, **right) == {"stop": 100, "matches": 2}
    assert manager.done("HINT", "subscription", name, **right) == {"stop": 100, "matches": 2}
    assert hinted(manager, name, topic, 100, 200, [107, 157]) == {"stop": 200, "matches": 4}
    assert hinted(manager, name, topic, 50, 150, [57, 107]) == {"stop": 200, "matches": 4}
    consumer = consume(peer, topic, "mine", RARE)
    assert consumer.bodies(4) == rare(0, 200)
    assert consumer.nothing()


def test_hints_have_a_limit(own_gateway: Make, connect: Connect, topic: str) -> None:
    """A hint beyond it is refused, and its messages are found without it."""
    with own_gateway({**TINY, "delivery": {"hint_matches_max": 3}}) as gateway:
        peer = connect(port=gateway.port)
        sender, manager = peer.sender(topic), Manager(peer)
        publish(sender, *range(200))
        committed(gateway, 200)
        about = {"topic": topic, "selector": RARE}
        manager.done("CREATE", "subscription", "global/mine", **about, since=0)
        hinted(manager, "global/mine", topic, 0, 100, [7, 57])
        more = {**about, "start": 100, "stop": 200, "matches": packed(100, [107, 157])}
        said = manager.refused(409, "HINT", "subscription", "global/mine", **more)
        assert "would name 4 messages, 3 at most (delivery.hint_matches_max)" in said
        assert consume(peer, topic, "mine", RARE).bodies(4) == rare(0, 200)
