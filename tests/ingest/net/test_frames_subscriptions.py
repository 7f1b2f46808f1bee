"""The Qpid JMS client's subscriptions, frame by frame: names, lookups, definitions, restarts."""

from collections.abc import Callable

import pytest
from gateway_fields import Fields
from gateway_frames import Frame
from gateway_jms import (
    GLOBAL,
    QUEUE,
    SHARED,
    Jms,
    consumer,
    lookup,
    no_local,
    producer,
    selector,
    temporary,
)
from gateway_jms import source as source_of
from gateway_process import Gateway, Settings

pytestmark = pytest.mark.usefixtures("unharmed")

#: Names of links, and the capabilities and durability that come with each.
NAMES = {
    "N": (SHARED, True),
    "N|2": (SHARED, True),
    "N|global": (GLOBAL, True),
    "N|global2": (GLOBAL, True),
    "N|volatile1": (SHARED, False),
    "N|global-volatile1": (GLOBAL, False),
}


def echoed(attach: Frame) -> dict[str, object]:
    """The source of a consumer in the gateway's attach."""
    source = attach["source"]
    assert isinstance(source, Fields)
    names = ("address", "durable", "expiry-policy", "distribution-mode", "filter", "capabilities")
    return {name: source[name] for name in names}


def test_the_names_of_one_client_mean_four_subscriptions(gateway: Gateway, topic: str) -> None:
    """Shared durable ones in two scopes, each with two links, and two that aren't durable: each
    message comes once for each subscription."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        for handle, (name, (words, durable)) in enumerate(NAMES.items()):
            attach = jms.subscribed(name, source_of(topic, words, durable=durable), handle=handle)
            assert attach["name"] == name
            assert set(attach["source"]["capabilities"]) == set(words)
            jms.credit(10, handle=handle)
        other.publish(topic, *range(6))
        transfers = jms.expect(*["transfer"] * 24)
        assert jms.heard() == []
    per_link = [sum(one["handle"] == handle for one in transfers) for handle in range(6)]
    assert per_link[0] + per_link[1] == per_link[2] + per_link[3] == 6
    assert per_link[4:] == [6, 6]


def test_the_source_comes_back_as_it_is_honoured(gateway: Gateway, topic: str) -> None:
    """Address, durability, expiry, distribution mode, capabilities, outcomes and the default
    outcome; the client reads none of it, others do."""
    with Jms(gateway.port, topic) as jms:
        attach = jms.subscribed("N", source_of(topic, durable=True))
        assert echoed(attach) == {
            "address": topic,
            "durable": 2,
            "expiry-policy": "never",
            "distribution-mode": "copy",
            "filter": None,
            "capabilities": ["topic"],
        }
        source = attach["source"]
        assert source["outcomes"] == [
            f"amqp:{name}:list" for name in ("accepted", "rejected", "released", "modified")
        ]
        assert source["default-outcome"]["delivery-failed"] is True
        assert attach["snd-settle-mode"] == attach["rcv-settle-mode"] == 0
        plain = echoed(jms.subscribed("p", source_of(topic), handle=1))
        assert (plain["durable"], plain["expiry-policy"]) == (0, "link-detach")
        assert plain["distribution-mode"] is None


def test_two_clients_without_an_id_have_one_global_subscription(
    gateway: Gateway, topic: str
) -> None:
    """Each message goes to one of them. A third client's unsubscribe is refused while one of them
    consumes, succeeds when both have detached, and then finds nothing."""
    source = source_of(topic, GLOBAL, durable=True)
    name = f"{topic}|global"
    with Jms(gateway.port) as one, Jms(gateway.port) as two, Jms(gateway.port) as third:
        for jms in (one, two):
            jms.subscribed(name, source)
            jms.credit(1)
        third.publish(topic, "a", "b")
        assert sorted(one.bodies(1) + two.bodies(1)) == ["a", "b"]

        def unsubscribe() -> Frame:
            third.send(lookup(name))
            assert third.read()["source"] is not None
            third.detach(closed=True)
            [detach] = third.expect("detach")
            assert detach["closed"] is True
            return detach

        one.left(closed=False)
        assert unsubscribe().error == "amqp:resource-locked"
        two.left(closed=False)
        assert unsubscribe().error == ""
        third.send(lookup(name))
        attach, detach = third.expect("attach", "detach")
        assert (attach["source"], detach.error) == (None, "amqp:not-found")


def test_a_lookup_is_no_consumer(gateway: Gateway, topic: str) -> None:
    """It gets the true source, and none of the messages; the consumer that is there gets them."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        jms.subscribed("N", source_of(topic, SHARED, durable=True))
        session = jms.session()
        jms.send(lookup("N", channel=session))
        [attach] = jms.expect("attach")
        assert echoed(attach) == {
            "address": topic,
            "durable": 2,
            "expiry-policy": "never",
            "distribution-mode": "copy",
            "filter": None,
            "capabilities": ["topic", "shared"],
        }
        jms.credit(10, channel=session)
        other.publish(topic, "a", "b")
        jms.credit(10)
        transfers = jms.expect("transfer", "transfer")
        assert {one["handle"] for one in transfers} == {0}
        assert jms.left(closed=False, channel=session).error == ""
        other.publish(topic, "c")
        assert jms.bodies(1) == ["c"]


@pytest.mark.parametrize("words", [("topic",), SHARED], ids=["exclusive", "shared"])
def test_another_topic_begins_anew_or_is_refused(
    gateway: Gateway, topic: str, words: tuple[str, ...]
) -> None:
    """With a consumer the subscription is locked; without one the old messages are gone, and those
    of the new topic come."""
    old, new = f"{topic}-old", f"{topic}-new"
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        jms.subscribed("N", source_of(old, words, durable=True))
        other.publish(old, "lost")
        second = consumer("N|2" if "shared" in words else "N", source_of(new, words, durable=True),
                          channel=jms.session())  # fmt: skip
        jms.send(second)
        attach, detach = jms.expect("attach", "detach")
        assert (attach["source"], detach.error) == (None, "amqp:resource-locked")
        jms.left(closed=False)
        attach = jms.subscribed("N", source_of(new, words, durable=True))
        assert attach["source"]["address"] == new
        other.publish(old, "not mine any more")
        other.publish(new, "mine")
        jms.credit(10)
        assert jms.bodies(1) == ["mine"]
        assert jms.heard() == []


def test_shared_and_exclusive_lock_each_other_out(gateway: Gateway, topic: str) -> None:
    """One name is one or the other, consumed or not."""
    kinds = [("topic",), SHARED]
    for words, others in (kinds, kinds[::-1]):
        with Jms(gateway.port, f"{topic}-{len(words)}") as jms:
            jms.subscribed("N", source_of(topic, words, durable=True))
            session = jms.session()
            for _ in range(2):
                jms.send(consumer("N", source_of(topic, others, durable=True), channel=session))
                attach, detach = jms.expect("attach", "detach")
                assert (attach["source"], detach.error) == (None, "amqp:resource-locked")
                jms.detach(closed=True, channel=session)
                if _ == 0:
                    jms.left(closed=False)
            attach = jms.subscribed("N", source_of(topic, words, durable=True))


def test_no_local_makes_another_definition(gateway: Gateway, topic: str) -> None:
    """The filter is echoed; its own messages don't come, those of others do. Without it the
    subscription begins anew, and is locked while it is consumed."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        wanted = source_of(topic, durable=True, filters=no_local())
        attach = jms.subscribed("N", wanted)
        assert attach["source"]["filter"] == no_local()
        jms.credit(10)
        jms.publish(topic, "own")
        other.publish(topic, "other")
        assert jms.bodies(1) == ["other"]
        jms.send(consumer("N", source_of(topic, durable=True), channel=jms.session()))
        attach, detach = jms.expect("attach", "detach")
        assert (attach["source"], detach.error) == (None, "amqp:resource-locked")
        jms.left(closed=False)
        jms.send(lookup("N", handle=3))
        [attach] = jms.expect("attach")
        assert attach["source"]["filter"] == no_local()
        jms.left(closed=False, handle=3)
        attach = jms.subscribed("N", source_of(topic, durable=True))
        assert attach["source"]["filter"] is None


@pytest.mark.parametrize("words", [("topic",), SHARED], ids=["exclusive", "shared"])
def test_another_selector_begins_anew_or_is_refused(
    gateway: Gateway, topic: str, words: tuple[str, ...]
) -> None:
    """The filter is echoed, and only what it matches comes; the text of the selector is part of
    what a subscription is."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        high, low = selector("JMSPriority > 6"), selector("JMSPriority < 3")
        attach = jms.subscribed("N", source_of(topic, words, durable=True, filters=high))
        assert attach["source"]["filter"] == high
        for priority in (9, 5, 1, 8):
            other.publish(topic, priority, priority=priority)
        jms.credit(10)
        assert jms.bodies(2) == [9, 8]
        changed = source_of(topic, words, durable=True, filters=low)
        jms.send(consumer("N", changed, channel=jms.session()))
        attach, detach = jms.expect("attach", "detach")
        assert (attach["source"], detach.error) == (None, "amqp:resource-locked")
        jms.left(closed=False)
        other.publish(topic, 7, priority=7)
        jms.subscribed("N", changed)
        other.publish(topic, 2, priority=2)
        jms.credit(10)
        assert jms.bodies(1) == [2]
        assert jms.heard() == []


def test_a_selector_that_can_not_be_read_is_refused(gateway: Gateway, topic: str) -> None:
    """A null source, and a sentence that says where it is wrong."""
    with Jms(gateway.port, topic) as jms:
        jms.send(consumer("N", source_of(topic, filters=selector("a = "))))
        attach, detach = jms.expect("attach", "detach")
        assert (attach["source"], detach.error) == (None, "amqp:invalid-field")
        assert "selector" in detach.says.lower()


def test_a_thousand_prefetched_come_again_uncounted(gateway: Gateway, topic: str) -> None:
    """A detach that doesn't close gives back what was prefetched without a disposition: the next
    attach gets all of it in order, with no delivery counted."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        wanted = source_of(topic, durable=True)
        jms.subscribed("N", wanted)
        other.publish(topic, *range(1_000))
        jms.credit(1_000)
        first = jms.expect(*["transfer"] * 1_000)
        assert jms.left(closed=False).error == ""
        jms.subscribed("N", wanted)
        jms.credit(1_000)
        again = jms.expect(*["transfer"] * 1_000)
        assert [one.payload for one in again] == [one.payload for one in first]


@pytest.mark.parametrize("kind", ["temporary-topic", "temporary-queue"])
def test_a_temporary_destination_belongs_to_its_connection(
    gateway: Gateway, topic: str, kind: str
) -> None:
    """A dynamic target is given an address; consumers on another session of the connection get all
    messages sent there, consumers of other connections are refused. The destination ends with the
    link that made it, and its links end with it."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        jms.send(temporary(kind))
        attach, _flow = jms.expect("attach", "flow")
        target = attach["target"]
        assert (target["dynamic"], target["capabilities"]) == (True, [kind])
        [policy] = target["dynamic-node-properties"].values()
        assert policy.descriptor == 0x2B
        address = target["address"]
        session = jms.session()
        jms.send(consumer("c", source_of(address, (kind,)), channel=session))
        jms.expect("attach")
        jms.credit(10, channel=session)
        other.publish(address, "from elsewhere", capabilities=(kind,))
        assert jms.bodies(1, channel=session) == ["from elsewhere"]
        other.send(consumer("c", source_of(address, (kind,))))
        attach, detach = other.expect("attach", "detach")
        assert (attach["source"], detach.error) == (None, "amqp:resource-locked")
        jms.detach(closed=True)
        ends = {one.error: one["closed"] for one in jms.expect("detach", "detach")}
        assert ends == {"": True, "amqp:resource-deleted": True}
        other.send(producer(address, (kind,), handle=1))
        attach, detach = other.expect("attach", "detach")
        assert (attach["target"], detach.error) == (None, "amqp:not-found")


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_subscriptions_and_queues_survive_a_restart(
    own_gateway: Callable[[Settings | None], Gateway], killed: bool
) -> None:
    """Durable ones of every scope and sharing are found by a lookup with their source, and have
    their messages; the others have vanished."""
    durable = {name: words for name, (words, kept) in NAMES.items() if kept}
    with own_gateway(None) as gateway:
        with Jms(gateway.port, "c") as jms, Jms(gateway.port) as other:
            for handle, (name, (words, kept)) in enumerate(NAMES.items()):
                jms.subscribed(name, source_of("t", words, durable=kept), handle=handle)
            jms.subscribed("X", source_of("t", durable=True, filters=no_local()), handle=8)
            other.publish("t", "a", "b")
            other.publish("q", "in the queue", capabilities=QUEUE)
        gateway.kill() if killed else gateway.stop()
        gateway.start()
        with Jms(gateway.port, "c") as jms:
            for name in ("N", "N|global", "X"):
                jms.send(lookup(name))
                [attach] = jms.expect("attach")
                words = durable.get(name, ("topic",))
                assert set(attach["source"]["capabilities"]) == set(words)
                assert (attach["source"]["filter"] == no_local()) is (name == "X")
                jms.left(closed=False)
                filters = no_local() if name == "X" else None
                jms.subscribed(name, source_of("t", words, durable=True, filters=filters))
                jms.credit(10)
                assert jms.bodies(2) == ["a", "b"]
                jms.left(closed=False)
            jms.subscribed("N|volatile1", source_of("t", SHARED))
            assert jms.empty()
            jms.subscribed("q", source_of("q", QUEUE), handle=1)
            jms.credit(10, handle=1)
            assert jms.bodies(1) == ["in the queue"]
