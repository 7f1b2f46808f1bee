"""The Qpid JMS client's deliveries, frame by frame: credit, drains, outcomes, bytes, headers."""

import pytest
from gateway_codec import encode
from gateway_fields import make
from gateway_frames import Frame, number
from gateway_jms import (
    QUEUE,
    Jms,
    consumer,
    delivery,
    producer,
    sections_of,
    source,
    text_of,
)
from gateway_process import Gateway
from proton import Described, byte, symbol, ulong

pytestmark = pytest.mark.usefixtures("unharmed")


def count_of(transfer: Frame) -> int:
    """How many attempts to deliver the message have failed, by its header."""
    header = sections_of(transfer.payload)[0x70]
    return number(header[4]) if len(header) > 4 and header[4] is not None else 0


@pytest.mark.parametrize("there", [0, 3, 20])
def test_a_drain_gives_what_there_is_and_ends_the_credit(
    gateway: Gateway, topic: str, there: int
) -> None:
    """First the messages, at most ten here, then a flow with no credit left and the delivery-count
    moved on by all of it; again at once; and with no credit to give back there is no answer."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        jms.subscribed("N", source(topic, durable=True))
        other.publish(topic, *range(there))
        came = min(there, 10)
        jms.credit(10, drain=True)
        frames = jms.expect(*["transfer"] * came)
        assert [text_of(one.payload) for one in frames] == list(range(came))
        count = 10
        if there < 10:
            [flow] = jms.expect("flow")
            assert (flow["link-credit"], flow["delivery-count"], flow["drain"]) == (0, 10, True)
            jms.credit(7, count=count, drain=True)
            [flow] = jms.expect("flow")
            assert (flow["link-credit"], flow["delivery-count"]) == (0, 17)
            count = 17
        jms.credit(0, count=count, drain=True)
        assert [one.kind for one in jms.heard()] in ([], ["flow"])
        left = there - came
        jms.credit(1_000, count=count)
        other.publish(topic, "behind")
        [*_, last] = jms.expect(*["transfer"] * (left + 1))
        assert text_of(last.payload) == "behind"


MODIFIED = {
    "modified": (make("modified"), 0),
    "failed": (make("modified", delivery_failed=True), 1),
    "not failed": (make("modified", delivery_failed=False), 0),
    "released": (make("released"), 0),
    "without a state": (None, 1),
}
GONE = {
    "accepted": make("accepted"),
    "rejected": make("rejected", error=make("error", condition="x:y", description="no")),
    "undeliverable": make("modified", undeliverable_here=True),
    "failed and undeliverable": make("modified", delivery_failed=True, undeliverable_here=True),
}


@pytest.mark.parametrize("kind", MODIFIED)
def test_what_is_given_back_comes_again_in_its_place(
    gateway: Gateway, topic: str, kind: str
) -> None:
    """A range of deliveries in one frame; each comes again before what is younger, its failed
    attempts counted, and those alone. Without a state the default outcome holds: failed."""
    state, failures = MODIFIED[kind]
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        jms.subscribed("N", source(topic, durable=True))
        other.publish(topic, *range(6))
        jms.credit(4)
        first, *_, last = jms.expect(*["transfer"] * 4)
        jms.settle(first, last, state)
        assert jms.heard() == []
        jms.credit(6, count=4)
        again = jms.expect(*["transfer"] * 6)
        assert [text_of(one.payload) for one in again] == list(range(6))
        assert [count_of(one) for one in again] == [failures] * 4 + [0, 0]


@pytest.mark.parametrize("kind", GONE)
def test_what_is_done_with_does_not_come_again(gateway: Gateway, topic: str, kind: str) -> None:
    """A range in the middle is settled; the rest comes to the next consumer."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        jms.subscribed("N", source(topic, durable=True))
        other.publish(topic, *range(5))
        jms.credit(5)
        transfers = jms.expect(*["transfer"] * 5)
        jms.settle(transfers[1], transfers[3], GONE[kind])
        jms.left(closed=False)
        jms.subscribed("N", source(topic, durable=True))
        jms.credit(10)
        assert jms.bodies(2) == [0, 4]
        assert jms.heard() == []


def test_an_unsettled_outcome_is_settled_by_us(gateway: Gateway, topic: str) -> None:
    """A consumer that leaves its disposition unsettled is told when its outcome is durable."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        jms.subscribed("N", source(topic, durable=True))
        other.publish(topic, 0, 1, 2)
        jms.credit(3)
        first, *_, last = jms.expect(*["transfer"] * 3)
        jms.settle(first, last, make("accepted"), settled=False)
        told: list[int] = []
        while len(told) < 3:
            [one] = jms.expect("disposition")
            assert (one["role"], one["settled"]) == (False, True)
            begin = number(one["first"])
            told += range(begin, number(one["last"] or begin) + 1)
        assert told == [one["delivery-id"] for one in (first, *_, last)]


def test_a_presettled_consumer_owes_nothing(gateway: Gateway, topic: str) -> None:
    """Its transfers are settled, and none comes again."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        for at in range(2):
            jms.send(consumer("N", source(topic, durable=True), presettled=True))
            [attach] = jms.expect("attach")
            assert attach["snd-settle-mode"] == 1
            other.publish(topic, at)
            jms.credit(10)
            [one] = jms.expect("transfer")
            assert (one["settled"], text_of(one.payload)) == (True, at)
            jms.left(closed=False)


BODIES = {
    "several data sections": b"\x00\x53\x75\xa0\x01a" + b"\x00\x53\x75\xa0\x02bc",
    "a null value": b"\x00\x53\x77\x40",
    "a sequence": b"\x00\x53\x76" + encode([1, "two", None]),
    "a footer": b"\x00\x53\x77\x41" + b"\x00\x53\x78" + encode({symbol("crc"): 7}),
    "descriptors in words": encode(Described(symbol("amqp:amqp-value:*"), "x")),
}


@pytest.mark.parametrize("kind", BODIES)
def test_annotations_and_body_are_the_same_bytes(gateway: Gateway, topic: str, kind: str) -> None:
    """With `x-opt-jms-msg-type` a byte, also when the header says more the second time."""
    annotations = {symbol("x-opt-jms-msg-type"): byte(0), symbol("x-opt-own"): [1, {"a": b"\xff"}]}
    bare = encode(Described(ulong(0x72), annotations)) + BODIES[kind]
    header = encode(Described(ulong(0x70), [True]))
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        jms.subscribed("N", source(topic, durable=True))
        other.send(producer(topic))
        other.expect("attach", "flow")
        other.send(delivery(1, header + bare))
        jms.credit(1)
        [first] = jms.expect("transfer")
        assert first.payload.endswith(bare)
        jms.settle(first, None, make("modified", delivery_failed=True))
        jms.credit(1, count=1)
        [second] = jms.expect("transfer")
        assert second.payload.endswith(bare)
        assert count_of(second) == 1
        assert sections_of(second.payload)[0x70][0] is True


def test_the_header_counts_each_failed_delivery(gateway: Gateway, topic: str) -> None:
    """Also over a new attach; a detach in between counts nothing."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        other_topic = source(topic, durable=True)
        jms.subscribed("N", other_topic)
        other.publish(topic, "x", priority=7)
        for count in range(4):
            jms.credit(1)
            [one] = jms.expect("transfer")
            assert count_of(one) == count
            assert sections_of(one.payload)[0x70][1] == 7
            jms.settle(one, None, make("modified", delivery_failed=True))
            jms.left(closed=False)
            jms.subscribed("N", other_topic)
            jms.credit(1)
            jms.expect("transfer")
            jms.left(closed=False)
            jms.subscribed("N", other_topic)


def test_a_browser_looks_and_leaves(gateway: Gateway, topic: str) -> None:
    """Settled transfers of all that is there, then the answer to its drain; a consumer gets the
    same messages afterwards, with nothing counted."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        other.publish(topic, *range(5), capabilities=QUEUE)
        jms.send(consumer("b", source(topic, QUEUE, browser=True), presettled=True))
        [attach] = jms.expect("attach")
        assert attach["source"]["distribution-mode"] == "copy"
        jms.credit(1_000)
        seen = jms.expect(*["transfer"] * 5)
        assert all(one["settled"] for one in seen)
        jms.credit(995, count=5, drain=True)
        [flow] = jms.expect("flow")
        assert (flow["link-credit"], flow["drain"]) == (0, True)
        jms.left(closed=True)
        jms.subscribed("c", source(topic, QUEUE))
        jms.credit(10)
        taken = jms.expect(*["transfer"] * 5)
        assert [one.payload for one in taken] == [one.payload for one in seen]
        jms.settle(taken[0], taken[-1], make("accepted"))
        jms.left(closed=True)
        jms.subscribed("c", source(topic, QUEUE))
        assert jms.empty()
