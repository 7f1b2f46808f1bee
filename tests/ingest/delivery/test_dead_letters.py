"""Messages that a subscription gives up are kept: a copy in its queue of dead letters, in one group
with the settlement, so that after a crash both are there or neither."""

import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from gateway_links import Got, Incoming, encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer, PeerLost
from gateway_process import Gateway, past, until
from in_time import InTime, in_time
from proton import Delivery, Message

Make = Callable[..., Gateway]
ANNOTATIONS = ("subscription", "topic", "sequence", "reason", "attempts", "at")


def of_queue(peer: Peer, name: str, **options: object) -> Incoming:
    return peer.receiver(name, capabilities=("queue",), **options)


def dead_of(peer: Peer, subscription: str, **options: object) -> Incoming:
    return of_queue(peer, f"queue://DLQ.{subscription}", **options)


def fill(peer: Peer, name: str, *bodies: object) -> None:
    peer.sender(name, capabilities=("queue",)).publish(*bodies)


def fail(incoming: Incoming, taken: Iterable[Got], *, undeliverable: bool = False) -> None:
    """Say of these that they failed, and wait until that is durable."""
    taken = list(taken)
    for got in taken:
        got.delivery.local.failed = True
        got.delivery.local.undeliverable = undeliverable
    incoming.confirm(taken, Delivery.MODIFIED)


def said(message: Message) -> dict[str, object]:
    """The annotations of a dead letter about its origin."""
    return {name: message.annotations[f"x-opt-dead-letter-{name}"] for name in ANNOTATIONS}


def bare(data: bytes) -> bytes:
    """A message's bytes from its properties or body on."""
    starts = [data.find(b"\x00S" + bytes([code])) for code in range(0x73, 0x78)]
    return data[min(start for start in starts if start >= 0) :]


def test_what_is_rejected_is_kept_with_where_from_and_why(connect: Connect, topic: str) -> None:
    """Its bytes are those that were published, its header says durable and priority, and it is in
    the queue of dead letters when the peer hears that the outcome is durable."""
    peer = connect()
    data = encoded("bad", id="m-1", properties={"n": 7}, priority=6, ttl=3_600)
    before = time.time()
    peer.sender(topic, capabilities=("queue",)).publish_data([data])
    consumer = of_queue(peer, topic)
    consumer.confirm(consumer.take(), Delivery.REJECTED)
    [got] = dead_of(peer, f"queue/{topic}").take()
    assert bare(got.data) == bare(data)
    assert (got.message.durable, got.message.priority, got.message.ttl) == (True, 6, 0)
    letter = said(got.message)
    assert before - 1 < int(letter.pop("at")) / 1_000 < time.time() + 1  # type: ignore[call-overload]
    assert isinstance(letter.pop("sequence"), int)
    assert letter == {
        "subscription": f"queue/{topic}",
        "topic": f"queue://{topic}",
        "reason": "rejected",
        "attempts": 1,
    }
    assert consumer.nothing()


def test_what_no_attempt_will_deliver_here_is_kept(connect: Connect, topic: str) -> None:
    """`undeliverable-here`: no other consumer of the queue sees it, the dead letters have it."""
    peer = connect()
    fill(peer, topic, "not here")
    consumer = of_queue(peer, topic)
    fail(consumer, consumer.take(), undeliverable=True)
    [got] = dead_of(peer, f"queue/{topic}").take()
    assert (got.body, said(got.message)["reason"]) == ("not here", "undeliverable")
    assert consumer.nothing()


def test_what_has_failed_often_enough_is_kept(connect: Connect, topic: str) -> None:
    """After ten attempts, each with its count, the message comes no more; the next one does."""
    peer = connect()
    fill(peer, topic, "poison", "good")
    consumer = of_queue(peer, topic)
    for attempt in range(10):
        [got] = consumer.take()
        assert (got.body, got.message.delivery_count) == ("poison", attempt)
        fail(consumer, [got])
    assert consumer.bodies() == ["good"]
    [got] = dead_of(peer, f"queue/{topic}").take()
    letter = said(got.message)
    assert (got.body, letter["reason"], letter["attempts"]) == ("poison", "exhausted", 10)
    assert got.message.delivery_count == 0


def test_a_subscription_of_a_topic_has_dead_letters_of_its_own(
    connect: Connect, topic: str
) -> None:
    """A message given up by one may still be accepted by another, and no other sees the copy."""
    peer = connect("billing")
    first, second = peer.durable(topic, "first"), peer.shared_durable(topic, "second|global")
    live = peer.receiver(topic)
    peer.sender(topic).publish("x")
    first.confirm(first.take(), Delivery.REJECTED)
    letters, others = (
        Manager(peer).done("READ", "subscription", name)["dead_letters"]
        for name in ("container/billing/first", "global/second")
    )
    assert letters.endswith("container/billing/first")
    [got] = peer.receiver(letters, capabilities=("queue",)).take()
    assert said(got.message)["topic"] == topic
    assert second.bodies() == live.bodies() == ["x"]
    assert peer.receiver(others, capabilities=("queue",)).nothing()
    peer.leave(first, closed=False)
    assert peer.durable(topic, "first").nothing()


def test_who_lasts_not_has_no_dead_letters(connect: Connect, topic: str) -> None:
    """A subscription without a name: what it rejects is gone, and the peer hears so at once."""
    peer = connect()
    private = peer.receiver(topic)
    peer.sender(topic).publish("x")
    private.confirm(private.take(), Delivery.REJECTED)
    assert private.nothing()


def test_dead_letters_die_without_a_copy(connect: Connect, topic: str) -> None:
    """Otherwise a message that no consumer can read would go round for ever."""
    peer = connect()
    fill(peer, topic, "bad")
    consumer = of_queue(peer, topic)
    consumer.confirm(consumer.take(), Delivery.REJECTED)
    dead = dead_of(peer, f"queue/{topic}")
    dead.confirm(dead.take(), Delivery.REJECTED)
    assert dead.nothing()
    assert dead_of(peer, f"queue/DLQ.queue%2F{topic}").nothing()


def test_an_operator_may_want_none(own_gateway: Make, connect: Connect, topic: str) -> None:
    """`dead_letter = false`: what is given up is gone."""
    gateway = own_gateway({"subscription": {"dead_letter": False, "delivery_attempts_max": 2}})
    peer = connect(port=gateway.start().port)
    fill(peer, topic, "rejected", "failed")
    consumer = of_queue(peer, topic)
    consumer.confirm(consumer.take(), Delivery.REJECTED)
    for _ in range(2):
        fail(consumer, consumer.take())
    assert consumer.nothing()
    assert dead_of(peer, f"queue/{topic}").nothing()


def test_many_subscriptions_may_share_a_queue_of_dead_letters(
    own_gateway: Make, connect: Connect
) -> None:
    """The address that a policy names; each copy says where it is from."""
    gateway = own_gateway({"subscription": {"dead_letter_address": "morgue"}}).start()
    peer = connect(port=gateway.port)
    for name in ("a", "b"):
        fill(peer, name, name)
        consumer = of_queue(peer, name)
        consumer.confirm(consumer.take(), Delivery.REJECTED)
    letters = of_queue(peer, "morgue").take(2)
    assert [(got.body, said(got.message)["subscription"]) for got in letters] == [
        ("a", "queue/a"),
        ("b", "queue/b"),
    ]


def test_what_is_only_in_the_table_is_found(own_gateway: Make, connect: Connect) -> None:
    """A backlog far beyond memory, rejected to the last message: each has its copy, in order."""
    small = {"delivery": {"cache_bytes": 65_536, "page_bytes": 65_536}}
    gateway = own_gateway(small | {"commit": {"interval_ms": 50}}).start()
    peer = connect(port=gateway.port)
    bodies = [f"{n:04}" + "x" * 1_000 for n in range(1_000)]
    fill(peer, "q", *bodies)
    consumer = of_queue(peer, "q")
    taken = consumer.take(1_000)
    peer.sender("other").publish(*["y" * 1_000] * 300)
    consumer.confirm(reversed(taken), Delivery.REJECTED)
    letters = dead_of(peer, "queue/q").take(1_000)
    assert sorted(str(got.body) for got in letters) == bodies
    assert consumer.nothing()


def test_failed_attempts_are_counted_across_a_crash(own_gateway: Make, connect: Connect) -> None:
    """Two before a kill and one after it make three, and three are enough. The kill itself is none:
    what it may have cut off is marked as tried (one more), but delivered."""
    gateway = own_gateway({"subscription": {"delivery_attempts_max": 3}}).start()
    peer = connect(port=gateway.port)
    fill(peer, "q", "poison")
    consumer = of_queue(peer, "q")
    for _ in range(2):
        fail(consumer, consumer.take())
    gateway.kill()
    peer = connect(port=gateway.start().port)
    consumer = of_queue(peer, "q")
    [got] = consumer.take()
    assert got.message.delivery_count == 3
    fail(consumer, [got])
    [letter] = dead_of(peer, "queue/q").take()
    assert (said(letter.message)["reason"], said(letter.message)["attempts"]) == ("exhausted", 4)
    assert consumer.nothing()
    gateway.kill()
    peer = connect(port=gateway.start().port)
    assert of_queue(peer, "q").nothing()
    assert dead_of(peer, "queue/q").bodies() == ["poison"]


def test_what_failed_too_often_is_buried_at_the_start(own_gateway: Make, connect: Connect) -> None:
    """As after a crash between the last failure and its copy: here the policy allows fewer attempts
    than before. It needs no consumer of the queue."""
    gateway = own_gateway().start()
    peer = connect(port=gateway.port)
    fill(peer, "q", "poison", "good")
    consumer = of_queue(peer, "q")
    for _ in range(3):
        fail(consumer, consumer.take())
    gateway.kill()
    gateway.config.write_text("[subscription]\ndelivery_attempts_max = 3\n")
    peer = connect(port=gateway.start().port)
    [letter] = dead_of(peer, "queue/q").take()
    assert (letter.body, said(letter.message)["reason"]) == ("poison", "exhausted")
    assert of_queue(peer, "q").bodies() == ["good"]


def test_a_copy_and_its_settlement_are_both_there_or_neither(
    own_gateway: Make, connect: Connect
) -> None:
    """Killed while rejections come: each message is in the queue still or in the dead letters, and
    never in both; what was confirmed is in the dead letters."""
    gateway = own_gateway().start()
    seed = random.Random(6)
    everything, confirmed = set[object](), set[object]()
    for turn in range(4):
        peer = connect(port=gateway.port)
        bodies = [f"{turn}-{n}" for n in range(200)]
        fill(peer, "q", *bodies)
        everything.update(bodies)
        consumer = of_queue(peer, "q")
        consumer.link.flow(1_000)
        peer.until(lambda c=consumer: len(c.inbox) >= 200, "the messages")
        for got in consumer.inbox:
            got.delivery.update(Delivery.REJECTED)
        peer.write()
        deadline = time.monotonic() + seed.random() * 0.02
        while time.monotonic() < deadline:
            peer.turn(0.001)
        gateway.kill()
        with pytest.raises(PeerLost):
            peer.until(lambda: False, "the end")
        confirmed.update(got.body for got in consumer.inbox if got.delivery.settled)
        gateway.start()
    peer = connect(port=gateway.port)
    dead, alive = dead_of(peer, "queue/q"), of_queue(peer, "q")
    dead.drain(2_000)
    alive.drain(2_000)
    dead_lettered, owed = [got.body for got in dead.inbox], [got.body for got in alive.inbox]
    assert sorted(map(str, dead_lettered + owed)) == sorted(map(str, everything))
    assert confirmed <= set(dead_lettered)
    gateway.kill()
    gateway.verified()


def test_rejected_before_an_orderly_end_is_buried_before_it(
    own_gateway: Make, connect: Connect
) -> None:
    """The consumer waited for no confirmation, and yet nothing comes twice after the restart."""
    gateway = own_gateway().start()
    peer = connect(port=gateway.port)
    fill(peer, "q", *range(3_000))
    consumer = of_queue(peer, "q")
    consumer.settle(consumer.take(3_000), Delivery.REJECTED)
    peer.heard()
    peer.drop()
    gateway.stop()
    peer = connect(port=gateway.start().port)
    assert of_queue(peer, "q").nothing()
    assert sorted(dead_of(peer, "queue/q").bodies(3_000)) == list(range(3_000))  # type: ignore[type-var]


def test_the_table_says_what_became_of_a_dead_letter(own_gateway: Make, connect: Connect) -> None:
    """It has a final settlement `dead_lettered` with the consumer; `verify` finds no fault."""
    gateway = own_gateway({"commit": {"interval_ms": 50}}).start()
    peer = connect("who", port=gateway.port)
    fill(peer, "q", "bad")
    consumer = of_queue(peer, "q")
    consumer.confirm(consumer.take(), Delivery.REJECTED)
    rows = until(lambda: dead_lettered(gateway), "the settlement in the table")
    [row] = rows
    assert str(row["consumer"]).startswith("who/")
    assert (row["subscription"], row["final"], row["topic"]) == ("queue/q", True, "queue://q")
    peer.close()
    gateway.stop()
    gateway.verified()


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("how", ["rejected", "undeliverable", "failed"])
def test_what_is_given_up_after_its_time_has_expired(
    own_gateway: Make, connect: Connect, how: str, kept: bool
) -> None:
    """As by a client that finds it expired in its prefetch: it is no dead letter, unless the policy
    keeps those, and then it says so. What was in time, in the same breath, is one as ever."""
    policy = {"delivery_attempts_max": 1, "dead_letter_expired": kept}
    settings = {"subscription": policy, "commit": {"interval_ms": 50}}

    def attempt(life: InTime) -> None:
        with own_gateway(settings) as gateway:
            peer = connect("who", port=gateway.port)
            consumer = of_queue(peer, "q")
            consumer.link.flow(2)
            both = [encoded("short", ttl=life.seconds), encoded("long", ttl=600)]
            with life.within():
                peer.sender("q", capabilities=("queue",)).publish_data(both)
                taken = consumer.take(2)
            past(time.time() + life.seconds)
            given_up(gateway, peer, consumer, taken)

    def given_up(gateway: Gateway, peer: Peer, consumer: Incoming, taken: list[Got]) -> None:
        if how == "rejected":
            consumer.confirm(taken, Delivery.REJECTED)
        else:
            fail(consumer, taken, undeliverable=how == "undeliverable")
        why = {"rejected": "rejected", "undeliverable": "undeliverable", "failed": "exhausted"}[how]
        dead = dead_of(peer, "queue/q")
        dead.drain(10)
        letters = {(got.body, said(got.message)["reason"]) for got in dead.inbox}
        assert letters == {("long", why), *([("short", "expired")] if kept else [])}
        assert consumer.nothing()
        peer.close()
        gateway.stop()
        gateway.verified()
        assert len(rows_of(gateway, "expired")) == 1 - kept

    in_time(attempt, 0.5)


def test_a_dead_letter_is_counted_all_the_time(own_gateway: Make, connect: Connect) -> None:
    """At its source until the copy is kept, in the dead letters from then on: never nowhere."""
    with own_gateway({"journal": {"linger_ms": 1_000}}) as gateway:
        peer, operator = connect(port=gateway.port), connect(port=gateway.port)
        fill(peer, "q", "bad", "good")
        consumer, manager = of_queue(peer, "q"), Manager(operator)
        seen = set[tuple[int, int]]()

        def look() -> bool:
            rows = {row["name"]: row["backlog"] for row in queues(manager)}
            seen.add((rows["q"], rows.get("DLQ.queue/q", 0)))
            peer.turn(0.01)
            return (1, 1) in seen

        bad = consumer.take(1)
        assert not look()
        consumer.settle(bad, Delivery.REJECTED)
        until(look, "it is a dead letter")
        assert seen == {(2, 0), (1, 1)}, "in both, or in none"


def queues(manager: Manager) -> list[dict[str, Any]]:
    """All of them in one answer, so at one moment."""
    found = manager.done("QUERY", "queue")
    return [dict(zip(found["attributeNames"], row, strict=True)) for row in found["results"]]


def test_dead_letters_are_in_the_log(own_gateway: Make, connect: Connect) -> None:
    """With the subscription, the queue and the reason: the first of a kind at once, the others
    summed up."""
    with own_gateway() as gateway:
        peer = connect(port=gateway.port)
        fill(peer, "q", *range(9))
        consumer = of_queue(peer, "q")
        for _ in range(4):
            consumer.confirm(consumer.take(1), Delivery.REJECTED)
        fail(consumer, consumer.take(1), undeliverable=True)
        told = gateway.events("messages.dead_lettered")
        assert [(one["reason"], one["messages"]) for one in told] == [
            ("rejected", 1),
            ("undeliverable", 1),
        ]
        places = {(one["subscription"], one["queue"], one["level"]) for one in told}
        assert places == {("queue/q", "queue://DLQ.queue/q", "warning")}


def rows_of(gateway: Gateway, outcome: str) -> list[dict[str, object]]:
    from deltalake import DeltaTable  # noqa: PLC0415

    from distributary.pipeline.tables.home.home import Home  # noqa: PLC0415

    rows = DeltaTable(Home(gateway.home).topic_log).to_pyarrow_table().to_pylist()
    return [row for row in rows if row["outcome"] == outcome]


def dead_lettered(gateway: Gateway) -> list[dict[str, object]]:
    return rows_of(gateway, "dead_lettered")


def test_what_expires_while_a_rewind_becomes_durable_is_given_up_once(
    own_gateway: Make, connect: Connect
) -> None:
    """Its copy and its settlement count after a kill: it isn't owed again, nor copied again."""
    settings = {
        "journal": {"linger_ms": 1_000},
        "delivery": {"expiry_scan_ms": 50},
        "subscription": {"dead_letter_expired": True},
    }
    gateway = own_gateway(settings).start()
    peer = connect(port=gateway.port)
    manager, link = Manager(connect(port=gateway.port)), peer.sender("queue://q")
    over = time.time() + 1.6  # the messages' group takes a second, and so does the rewind's
    link.publish_data([encoded(1, expiry_time=over), encoded(2)])
    manager.done("REWIND", "queue", "q", to=0)
    dead = dead_of(peer, "queue/q")
    dead.confirm(dead.take(), Delivery.RELEASED)
    gateway.kill()
    gateway.start()
    peer = connect(port=gateway.port)
    source, dead = of_queue(peer, "queue://q"), dead_of(peer, "queue/q")
    assert source.bodies() == [2]
    assert source.nothing()
    for _ in range(2):  # a copy would lie in one of their groups
        peer.sender("queue://q").publish(3)
    assert dead.bodies() == [1]
    assert dead.nothing()


def test_a_changed_place_of_dead_letters_holds_at_once(
    own_gateway: Make, connect: Connect, tmp_path: Path
) -> None:
    """A queue that no longer takes others' dead letters keeps its own, instead of dropping
    messages; one that now takes its own keeps no copies, which would circulate without end."""
    file = tmp_path / "policies.toml"
    rule = '[[subscription]]\nmatch = "queue/*"\ndead_letter_address = "queue://{}"\n'
    file.write_text(rule.format("first"))
    gateway = own_gateway({"delivery": {"policies": str(file)}}).start()
    peer = connect(port=gateway.port)
    first, second = of_queue(peer, "first"), of_queue(peer, "second")
    file.write_text(rule.format("second"))
    gateway.await_event("policies.reloaded")
    fill(peer, "first", "order")
    first.confirm(first.take(), Delivery.REJECTED)
    [letter] = second.take()
    assert (letter.body, said(letter.message)["subscription"]) == ("order", "queue/first")
    second.confirm([letter], Delivery.REJECTED)
    assert second.nothing()
