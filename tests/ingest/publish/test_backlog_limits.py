"""Limits of backlogs over real links: publishers are refused, or the oldest messages go."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from deltalake import DeltaTable
from gateway_links import Incoming, Outgoing, encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer, selector
from gateway_process import Gateway, past, until
from in_time import InTime, in_time
from proton import Delivery

Make = Callable[..., Gateway]
LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
ACCEPTED, REJECTED = Delivery.ACCEPTED, Delivery.REJECTED

Limited = Callable[[str], Gateway]


@pytest.fixture
def limited(own_gateway: Make, tmp_path: Path) -> Limited:
    """Starts a gateway in which all queues have these limits, and durable subscriptions, too."""

    def start(written: str) -> Gateway:
        file = tmp_path / "policies.toml"
        file.write_text(
            f'[[topic]]\nmatch = "queue://*"\n{written}\n'
            f'[[subscription]]\nmatch = "container/*"\n{written}\n'
            '[[topic]]\nmatch = "queue://DLQ.*"\nbacklog_messages_max = 0\n'
        )
        settings = {"delivery": {"policies": str(file), "expiry_scan_ms": 50}}
        return own_gateway(settings).start()

    return start


def queue(peer: Peer, name: str, **options: object) -> Incoming:
    return peer.receiver(f"queue://{name}", capabilities=("queue",), **options)


def outcomes(link: Outgoing, *bodies: object, **options: object) -> list[object]:
    """The outcomes of messages with these bodies, sent at once."""
    sent = [link.send(encoded(body, **options)) for body in bodies]
    return [link.outcome(one) for one in sent]


def holds(receiver: Incoming, *bodies: object) -> None:
    """The subscription has just these."""
    assert receiver.bodies(len(bodies)) == list(bodies)
    assert receiver.nothing()


def test_a_full_queue_refuses_what_does_not_fit(limited: Limited, connect: Connect) -> None:
    """Message by message, with a sentence that says whose backlog it is; there is room again when
    something was consumed."""
    gateway = limited("backlog_messages_max = 3")
    peer = connect(port=gateway.port)
    link = peer.sender("queue://q")
    assert outcomes(link, 1, 2) == [ACCEPTED, ACCEPTED]
    assert outcomes(link, 3, 4, 5) == [ACCEPTED, REJECTED, REJECTED]
    refused = link.send(encoded(6))
    assert link.outcome(refused) == REJECTED
    assert refused.remote.condition.name == LIMIT_EXCEEDED
    said = refused.remote.condition.description
    assert "queue/q is full (at most 3 messages)" in said
    receiver = queue(peer, "q")
    first, second = receiver.take(2)
    assert outcomes(link, 7) == [REJECTED]  # what is held waits still
    receiver.confirm([first])
    assert outcomes(link, 8, 9) == [ACCEPTED, REJECTED]
    receiver.confirm([second])
    holds(receiver, 3, 8)
    assert outcomes(link, *range(10, 14)) == [ACCEPTED, ACCEPTED, ACCEPTED, REJECTED]
    assert outcomes(peer.sender("elsewhere"), *range(9)) == [ACCEPTED] * 9


def test_each_way_of_publishing_is_refused(limited: Limited, connect: Connect) -> None:
    """The relay goes on for other destinations; non-persistent messages are rejected, too; what was
    sent settled ends its link, so that the loss is heard."""
    gateway = limited("backlog_messages_max = 1")
    peer = connect(port=gateway.port)
    relay = peer.sender(None)
    to = ["queue://a", "queue://a", "queue://b", "queue://b", "t", "queue://a", "t"]
    sent = [relay.send(encoded(n, address=address)) for n, address in enumerate(to)]
    yes, no = ACCEPTED, REJECTED
    assert [relay.outcome(one) for one in sent] == [yes, no, yes, no, yes, no, yes]
    link = peer.sender("queue://c")
    assert outcomes(link, 1, 2, durable=False) == [ACCEPTED, REJECTED]
    assert outcomes(peer.sender("t"), 1, 2, durable=False) == [ACCEPTED, ACCEPTED]
    presettled = peer.sender("queue://d", presettled=True)
    presettled.send(encoded("fits"), settled=True)
    presettled.send(encoded("doesn't"), settled=True)
    assert peer.amqp_error(presettled) == LIMIT_EXCEEDED
    peer.heard()
    holds(queue(peer, "a"), 0)
    holds(queue(peer, "b"), 2)
    holds(queue(peer, "c"), 1)
    holds(queue(peer, "d"), "fits")


def test_many_at_once_find_no_more_room_than_there_is(limited: Limited, connect: Connect) -> None:
    """Messages on their way to the disk count."""
    gateway = limited("backlog_messages_max = 30")
    peers = [connect(port=gateway.port) for _ in range(3)]
    links = [peer.sender("queue://q") for peer in peers]
    sent = [[link.send(encoded(n)) for n in range(20)] for link in links]
    for peer in peers:
        peer.write()
    found = [link.outcome(one) for link, each in zip(links, sent, strict=True) for one in each]
    assert found.count(ACCEPTED) == 30
    assert found.count(REJECTED) == 30
    receiver = queue(peers[0], "q")
    receiver.confirm(receiver.take(30))
    assert receiver.nothing()


def test_bytes_and_age_are_limits_too(limited: Limited, connect: Connect) -> None:
    """A message that doesn't fit by its size is refused, and what came right behind it, but not a
    smaller one later; a queue whose oldest message has waited too long takes nothing."""
    peer = connect(port=limited("backlog_bytes_max = 10_000").port)
    link = peer.sender("queue://q")
    large, small = b"x" * 4_000, b"y"
    assert outcomes(link, large, large, large, small) == [ACCEPTED, ACCEPTED, REJECTED, REJECTED]
    assert outcomes(link, small) == [ACCEPTED]
    peer = connect(port=limited("backlog_age_ms_max = 600").port)
    old = peer.sender("queue://old")
    assert outcomes(old, 1) == [ACCEPTED]
    past(time.time() + 0.6)
    assert outcomes(old, 2) == [REJECTED]
    receiver = queue(peer, "old")
    receiver.confirm(receiver.take())
    assert outcomes(old, 3) == [ACCEPTED]
    holds(receiver, 3)


def test_the_oldest_are_dropped(limited: Limited, connect: Connect) -> None:
    """They are dropped from each subscription by itself, with consumers or without, but not while a
    consumer holds them; no producer is refused."""
    gateway = limited('backlog_messages_max = 3\nbacklog_overflow = "drop_oldest"')
    peer = connect(port=gateway.port)
    slow, away = peer.durable("t", "slow"), peer.durable("t", "away")
    peer.leave(away, closed=False)
    link, other = peer.sender("t"), peer.sender("other")
    link.publish(1)
    [held] = slow.take()
    for number in range(2, 8):
        link.publish(number)
        other.publish("between")
    until(lambda: dropped(gateway) >= 3 + 4, "settlements")
    holds(slow, 6, 7)
    slow.confirm([held])
    holds(peer.durable("t", "away"), 5, 6, 7)
    assert slow.nothing()
    until(lambda: len(gateway.events("backlog.overflowed")) >= 2, "warnings")
    for event in gateway.events("backlog.overflowed"):
        assert event["level"] == "warning"
        assert event["dropped"] >= 1
        assert event["subscription"].split("/")[-1] in ("slow", "away")


def overflowed(gateway: Gateway) -> int:
    """How many messages were dropped, by what the gateway says."""
    return sum(int(str(event["dropped"])) for event in gateway.events("backlog.overflowed"))


def dropped(gateway: Gateway) -> int:
    """How many messages were dropped, by the table."""
    rows = (
        DeltaTable(gateway.home / "tables/topic_log")
        .to_pyarrow_table(columns=["outcome", "consumer", "sequences"])
        .to_pylist()
    )
    gone = [row for row in rows if row["outcome"] == "dropped"]
    assert not any(row["consumer"] for row in gone)
    return sum(len(row["sequences"]) for row in gone)


def test_what_is_too_old_is_dropped(limited: Limited, connect: Connect) -> None:
    """By a clock, whether something is published or not; what is younger stays."""

    def attempt(age: InTime) -> None:
        gateway = limited(f'backlog_age_ms_max = {age.ms}\nbacklog_overflow = "drop_oldest"')
        peer = connect(port=gateway.port)
        link = peer.sender("queue://q")
        link.publish("old")
        past(time.time() + age.seconds * 2 / 3)
        with age.within():
            link.publish("young")
            gateway.await_event("backlog.overflowed")
            holds(queue(peer, "q"), "young")

    in_time(attempt, 1.5)


def test_the_oldest_go_to_the_dead_letters(limited: Limited, connect: Connect) -> None:
    """In their order, and marked with the reason."""
    gateway = limited('backlog_messages_max = 2\nbacklog_overflow = "dead_letter"')
    peer = connect(port=gateway.port)
    peer.sender("queue://q").publish(*range(6))
    dead = queue(peer, "DLQ.queue/q").take(4)
    assert [got.body for got in dead] == [0, 1, 2, 3]
    for got in dead:
        assert got.message.annotations["x-opt-dead-letter-reason"] == "overflow"
    holds(queue(peer, "q"), 4, 5)


def test_a_browser_has_no_backlog(limited: Limited, connect: Connect) -> None:
    """No producer is refused for a slow browser, and it still sees all messages of its start."""
    gateway = limited("backlog_messages_max = 3")
    peer = connect(port=gateway.port)
    link = peer.sender("queue://q")
    link.publish(1, 2, 3)
    browser = queue(peer, "q", copy=True)
    holds(queue(peer, "q"), 1, 2, 3)
    assert outcomes(link, 4, 5, 6, 7) == [ACCEPTED, ACCEPTED, ACCEPTED, REJECTED]
    assert [got.body for got in browser.take(3)] == [1, 2, 3]


def test_a_selector_claims_what_counts(limited: Limited, connect: Connect) -> None:
    """Messages that it doesn't claim neither fill the backlog nor push out claimed ones."""
    gateway = limited('backlog_messages_max = 3\nbacklog_overflow = "drop_oldest"')
    peer = connect(port=gateway.port)
    some = peer.durable("t", "some", filters=selector("a = 1"))
    peer.leave(some, closed=False)
    link = peer.sender("t")
    for number in range(40):
        link.publish_data([encoded(number, properties={"a": number % 10})])
    holds(peer.durable("t", "some", filters=selector("a = 1")), 11, 21, 31)


def test_a_selector_lets_publishers_go_on(limited: Limited, connect: Connect) -> None:
    """They are refused for a moment at most, until it is known that the subscription wants none of
    what waits."""
    gateway = limited("backlog_messages_max = 5")
    peer = connect(port=gateway.port)
    some = peer.durable("t", "some", filters=selector("a = 1"))
    peer.leave(some, closed=False)
    link = peer.sender("t")
    for number in range(30):
        data = encoded(number, properties={"a": number % 10})
        until(partial(accepted, link, data), "a message that is taken")
    until(lambda: accepted(link, encoded(31, properties={"a": 1})), "the fourth one")
    until(lambda: accepted(link, encoded(41, properties={"a": 1})), "the fifth one")
    for _ in range(3):
        assert not accepted(link, encoded(51, properties={"a": 1}))
        time.sleep(0.05)  # the stimulus: it tries for a while
    holds(peer.durable("t", "some", filters=selector("a = 1")), 1, 11, 21, 31, 41)


def accepted(link: Outgoing, data: bytes) -> bool:
    return link.outcome(link.send(data)) == ACCEPTED


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_a_backlog_is_full_after_a_restart(
    limited: Limited, connect: Connect, *, killed: bool
) -> None:
    """It is counted from the table; what is too much by a new limit goes at once."""
    gateway = limited("backlog_messages_max = 3")
    peer = connect(port=gateway.port)
    link = peer.sender("queue://q")
    other = peer.sender("elsewhere")
    for number in range(3):
        link.publish(number)
        other.publish(number)
    peer.drop()
    if killed:
        gateway.kill()
    else:
        gateway.stop()
    gateway.start()
    peer = connect(port=gateway.port)
    link = peer.sender("queue://q")
    assert outcomes(link, 3) == [REJECTED]
    receiver = queue(peer, "q")
    receiver.confirm(receiver.take(3))
    assert outcomes(link, *range(4, 8)) == [ACCEPTED, ACCEPTED, ACCEPTED, REJECTED]
    peer.drop()
    gateway.stop()
    policies = gateway.config.parent.parent / "policies.toml"
    text = policies.read_text()
    policies.write_text(text.replace("max = 3", 'max = 1\nbacklog_overflow = "drop_oldest"', 1))
    gateway.start()
    peer = connect(port=gateway.port)
    until(lambda: overflowed(gateway) == 2, "the two that are too many have gone")
    holds(queue(peer, "q"), 6)


def test_what_fits_stays_over_a_restart(limited: Limited, connect: Connect) -> None:
    """Settled messages of the queue don't count, however other topics' messages lie between."""
    gateway = limited('backlog_messages_max = 2\nbacklog_overflow = "drop_oldest"')
    peer = connect(port=gateway.port)
    peer.shared_durable("elsewhere", "further behind|global")
    link, other = peer.sender("queue://q"), peer.sender("elsewhere")
    other.publish(0)
    link.publish(1, 2)
    receiver = queue(peer, "q")
    receiver.confirm(receiver.take(2))
    peer.leave(receiver, closed=True)
    for body in (3, 4):
        other.publish(body)
        link.publish(body)
    gateway.stop()
    gateway.start()
    manager = Manager(connect(port=gateway.port))
    assert manager.done("READ", "queue", "q")["backlog"] == 2
    holds(queue(connect(port=gateway.port), "q"), 3, 4)


def test_a_changed_policy_holds_at_once(limited: Limited, connect: Connect) -> None:
    """For what is there and for what comes."""
    gateway = limited("")
    peer = connect(port=gateway.port)
    link = peer.sender("queue://q")
    link.publish(*range(5))
    policies = gateway.config.parent.parent / "policies.toml"
    policies.write_text('[[subscription]]\nmatch = "queue/q"\nbacklog_messages_max = 5\n')
    gateway.await_event("policies.reloaded")
    assert outcomes(link, 5) == [REJECTED]
    policies.write_text(
        '[[subscription]]\nmatch = "queue/q"\nbacklog_messages_max = 2\n'
        'backlog_overflow = "drop_oldest"\n'
    )
    gateway.await_event("policies.reloaded", 2)
    until(lambda: overflowed(gateway) == 3, "the three that are too many have gone")
    holds(queue(peer, "q"), 3, 4)


def test_management_tells_what_waits(own_gateway: Make, connect: Connect) -> None:
    """Also what was there before a start, and what consumers hold; a queue may say of itself what
    its limit is, and a queue that is rewound has its old messages again."""
    gateway = own_gateway().start()
    peer = connect(port=gateway.port)
    peer.sender("queue://q").publish(*range(5))
    gateway.kill()
    gateway.start()
    peer = connect(port=gateway.port)
    manager = Manager(peer)
    link = peer.sender("queue://q")
    link.publish(5, 6)

    def waiting() -> int:
        return int(manager.done("READ", "queue", "q")["backlog"])

    until(lambda: waiting() == 7, "all are counted")
    receiver = queue(peer, "q")
    receiver.confirm(receiver.take(4))
    held = receiver.take(2)
    assert waiting() == 3
    row = manager.done("READ", "queue", "q")
    assert 0 < row["backlog_bytes"] < 3_000
    manager.done("UPDATE", "subscription", "queue/q", policy={"backlog_messages_max": 4})
    assert outcomes(link, 7, 8) == [ACCEPTED, REJECTED]
    receiver.confirm(held)
    assert outcomes(link, 9, 10, 11) == [ACCEPTED, ACCEPTED, REJECTED]
    manager.done("PURGE", "subscription", "queue/q")
    assert waiting() == 0
    assert outcomes(link, *range(12, 17)) == [ACCEPTED] * 4 + [REJECTED]
