"""The Qpid JMS client's messages that expire, wait or are urgent, frame by frame."""

import time
from collections.abc import Callable

import pytest
from gateway_codec import encode
from gateway_fields import make
from gateway_jms import QUEUE, Jms, delivery, producer, sections_of, source, text_message, text_of
from gateway_process import Gateway, past
from proton import Described, byte, symbol, timestamp, ubyte, uint, ulong

pytestmark = pytest.mark.usefixtures("unharmed")

DELAY_MS = 700


def send(
    jms: Jms, address: str, *messages: bytes, capabilities: tuple[str, ...] = ("topic",)
) -> None:
    """Send these over a producer of its own, and wait until all are accepted."""
    channel = jms.session()
    jms.send(producer(address, capabilities, channel=channel))
    [attach, _] = jms.expect("attach", "flow")
    assert attach["offered-capabilities"] == ["DELAYED_DELIVERY"]
    for at, message in enumerate(messages):
        jms.send(delivery(1 + at, message, channel=channel))
        while jms.read().kind != "disposition":
            pass


def dated(body: str, ttl_ms: int | None = None, expires_ms: float | None = None) -> bytes:
    """A message with a time to live in its header, a time of expiry in its properties, or both."""
    expiry = timestamp(int(expires_ms)) if expires_ms is not None else None
    sections = (
        (0x70, [True, None, None if ttl_ms is None else uint(ttl_ms)]),
        (0x73, [None] * 8 + [expiry]),
        (0x77, body),
    )
    return b"".join(encode(Described(ulong(code), value)) for code, value in sections)


def delayed(body: str, annotations: dict[object, object]) -> bytes:
    """A text message as the client sends it, with these annotations besides its own."""
    own = {symbol("x-opt-jms-msg-type"): byte(5), symbol("x-opt-jms-dest"): byte(1)}
    said = {symbol(key): value for key, value in annotations.items()}
    sections = ((0x70, [True]), (0x72, {**own, **said}), (0x77, body))
    return b"".join(encode(Described(ulong(code), value)) for code, value in sections)


def test_delayed_delivery_is_offered(gateway: Gateway, topic: str) -> None:
    """On the connection, and on each producer's link, with and without an address; not on others:
    either is where a client looks before it sends with a delay."""
    with Jms(gateway.port, topic) as jms:
        assert "DELAYED_DELIVERY" in jms.opened["offered-capabilities"]
        for handle, address in enumerate((topic, None)):
            jms.send(producer(address, handle=handle))
            [attach, _] = jms.expect("attach", "flow")
            assert attach["offered-capabilities"] == ["DELAYED_DELIVERY"]
        consumed = jms.subscribed("N", source(topic), handle=2)
        assert "DELAYED_DELIVERY" not in consumed["offered-capabilities"]


@pytest.mark.parametrize(
    ("ttl_ms", "life_ms"),
    [(100, None), (None, 100), (100, 60_000), (60_000, 100)],
    ids=["ttl", "expiry", "ttl first", "expiry first"],
)
def test_what_has_expired_is_not_delivered(
    gateway: Gateway, topic: str, ttl_ms: int | None, life_ms: int | None
) -> None:
    """By its header, by its properties, or by whichever comes first; what is behind it comes."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        jms.subscribed("N", source(topic, durable=True))
        expires = None if life_ms is None else time.time() * 1_000 + life_ms
        send(other, topic, dated("short", ttl_ms, expires), dated("long"))
        past(time.time() + 0.1)
        jms.credit(2)
        assert jms.bodies(1) == ["long"]
        jms.left(closed=False)
        jms.subscribed("N", source(topic, durable=True))
        assert jms.empty()


def test_what_has_not_expired_comes_as_it_was_sent(gateway: Gateway, topic: str) -> None:
    """Its bytes are the publisher's, the ttl isn't reduced; also when it comes again, counted."""
    message = text_message("in time", topic, priority=7, ttl=60_000)
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        jms.subscribed("N", source(topic, durable=True))
        send(other, topic, message)
        jms.credit(2)
        [first] = jms.expect("transfer")
        assert first.payload == message
        jms.settle(first, None, make("modified", delivery_failed=True))
        [again] = jms.expect("transfer")
        sent, got = sections_of(message), sections_of(again.payload)
        assert got[0x70] == [True, ubyte(7), uint(60_000), False, uint(1)]
        assert {**got, 0x70: None} == {**sent, 0x70: None}


@pytest.mark.parametrize("capabilities", [("topic",), QUEUE], ids=["topic", "queue"])
def test_what_is_urgent_comes_first(
    gateway: Gateway, topic: str, capabilities: tuple[str, ...]
) -> None:
    """By priority, and of one priority in the order of publishing."""
    of = source(topic, capabilities, durable=capabilities != QUEUE)
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        jms.subscribed("N", of)
        for priority in (4, 0, 9, 4, 9, 5):
            other.publish(topic, f"{priority}", priority=priority, capabilities=capabilities)
        jms.credit(10)
        assert jms.bodies(6) == ["9", "9", "5", "4", "4", "0"]


@pytest.mark.parametrize(
    "annotations",
    [
        lambda now_ms: {"x-opt-delivery-time": int(now_ms) + DELAY_MS},
        lambda now_ms: {"x-opt-delivery-time": timestamp(int(now_ms) + DELAY_MS)},
        lambda _: {"x-opt-delivery-delay": uint(DELAY_MS)},
        lambda _: {"x-opt-delivery-delay": DELAY_MS},
    ],
    ids=["time", "timestamp", "delay", "long delay"],
)
def test_a_delayed_message_waits_for_those_that_were_there(
    gateway: Gateway, topic: str, annotations: Callable[[float], dict[object, object]]
) -> None:
    """Later messages don't wait for it; a subscription made while it waits isn't owed it."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        jms.subscribed("N", source(topic, durable=True))
        jms.credit(10)
        sent = time.time()
        late = delayed("late", annotations(sent * 1_000))
        send(other, topic, late, dated("now"))
        later = other.session()
        other.subscribed("M", source(topic), channel=later)
        other.credit(10, channel=later)
        assert jms.bodies(1) == ["now"]
        [one] = jms.expect("transfer")
        assert time.time() >= sent + DELAY_MS / 1_000 - 0.001
        assert one.payload == late
        assert other.empty(channel=later)


def test_a_delay_in_the_past_is_none(gateway: Gateway, topic: str) -> None:
    """A message whose time is over is delivered at once."""
    with Jms(gateway.port, topic) as jms, Jms(gateway.port) as other:
        jms.subscribed("N", source(topic, durable=True))
        send(
            other,
            topic,
            delayed("before", {"x-opt-delivery-time": int(time.time() * 1_000) - 1_000}),
            delayed("negative", {"x-opt-delivery-delay": -5}),
            delayed("no number", {"x-opt-delivery-delay": "soon"}),
        )
        jms.credit(10)
        assert jms.bodies(3) == ["before", "negative", "no number"]
        assert text_of(delayed("x", {})) == "x"
