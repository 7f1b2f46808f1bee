"""Refusals in the form that clients need: attach with a null terminus, then detach with an error; a
connection's by a property of its open. Nothing else changes.
"""

import pytest
from gateway_frames import (
    AMQP_HEADER,
    ATTACH,
    CLOSE,
    COORDINATOR,
    DETACH,
    OPEN,
    SOURCE,
    TARGET,
    Raw,
    begun,
    composite,
    durable_source,
    frame,
    open_frame,
    receiver_frame,
    sender_frame,
    topic_target,
    words,
)
from gateway_peer import Connect
from gateway_process import Gateway
from proton import Described, symbol, uint, ulong

pytestmark = pytest.mark.usefixtures("unharmed")


def test_a_container_id_in_use_is_refused(connect: Connect, gateway: Gateway, topic: str) -> None:
    """The second open is answered in the form by which JMS clients know it; the first stays, and
    the name is free when it has gone."""
    first = connect(topic)
    with Raw(gateway.port, hello=AMQP_HEADER + open_frame(topic, sole=True)) as raw:
        frames = raw.until_end()
    assert [one.code for one in frames] == [OPEN, CLOSE]
    assert frames[0].field(9) == {symbol("amqp:connection-establishment-failed"): True}
    error = frames[1].field(0)
    assert isinstance(error, Described)
    assert error.value[0] == "amqp:invalid-field"
    assert error.value[2] == {symbol("invalid-field"): symbol("container-id")}
    first.sender(topic).publish("the first lives")
    first.close()
    connect(topic).sender(topic).publish("the name is free")


def test_a_refused_connection_can_do_nothing(
    connect: Connect, gateway: Gateway, topic: str
) -> None:
    """Frames sent along with its open, as by pipelining clients, have no effect at all."""
    connect(topic)
    receiver = connect().receiver(topic)
    with begun(
        gateway.port,
        topic,
        sender_frame("s", topic_target(topic)),
        receiver_frame("sneaked", durable_source(topic), handle=1),
        sole=True,
    ) as raw:
        frames = raw.until_end()
    assert frames[-1].error == "amqp:invalid-field"
    assert receiver.nothing()
    lines = gateway.log_path.read_text()
    assert "sneaked" not in lines


REFUSALS = {
    "two kinds at once": (
        composite(TARGET, "q", *[None] * 5, words("queue", "topic")), "amqp:invalid-field",
    ),
    "a queue that is said to be a topic": (
        composite(TARGET, "queue://q", *[None] * 5, words("topic")), "amqp:invalid-field",
    ),
    "two prefixes": (topic_target("topic://queue://q"), "amqp:invalid-field"),
    "a coordinator of others, too": (
        composite(COORDINATOR, words("amqp:distributed-transactions")), "amqp:not-implemented",
    ),
    "a dynamic one with an address": (
        composite(TARGET, "a", uint(0), None, uint(0), True), "amqp:invalid-field",
    ),
    "a dynamic one of two kinds": (
        composite(TARGET, None, uint(0), None, uint(0), True, None, words("queue", "topic")),
        "amqp:invalid-field",
    ),
    "a temporary queue that never was": (topic_target("temp-queue://a"), "amqp:not-found"),
    "no target": (None, "amqp:invalid-field"),
    "an empty name": (topic_target("topic://"), "amqp:not-found"),
    "an internal name": (topic_target("$catalog"), "amqp:not-found"),
    "a name with a line end": (topic_target("a\nb"), "amqp:invalid-field"),
    "a name that is too long": (topic_target("x" * 256), "amqp:invalid-field"),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_producer_is_refused_in_the_form_that_clients_need(
    gateway: Gateway, topic: str, kind: str
) -> None:
    """Attach with a null target, then detach closed with the error, in this order."""
    target, condition = REFUSALS[kind]
    with begun(gateway.port, topic, sender_frame("s", target)) as raw:
        attach = raw.next(ATTACH)
        assert attach.field(6) is None
        detach = next(raw.frames())
        assert (detach.code, detach.field(1), detach.error) == (DETACH, True, condition)
        raw.send(frame(DETACH, uint(0), True), frame(CLOSE))
        assert raw.next(CLOSE).error == ""


SOURCES = {
    "a topic that is said to be a queue": composite(
        SOURCE, "topic://q", *[None] * 9, words("queue")
    ),
    "a dynamic one with an address": composite(SOURCE, "a", uint(0), None, uint(0), True),
    "a temporary topic that never was": composite(SOURCE, "temp-topic://a"),
    "an internal name": composite(SOURCE, "$catalog"),
    "an unknown subscription": None,
}


ODD_FILTERS = {
    "a descriptor that is a list": {symbol("f"): Described([1, 2], "x")},
    "a descriptor that is a map": {symbol("f"): Described({"a": 1}, "x")},
    "values without a descriptor": {symbol("f"): [1, 2], symbol("g"): None},
    "keys of any kind": {None: 1, True: Described(ulong(1), None), 1.5: {}},
}


@pytest.mark.parametrize("kind", ODD_FILTERS)
def test_filters_that_nobody_knows_are_left_out(gateway: Gateway, topic: str, kind: str) -> None:
    """The consumer gets its link; the answer doesn't promise the filter."""
    source = composite(SOURCE, topic, *[None] * 6, ODD_FILTERS[kind])
    with begun(gateway.port, topic, receiver_frame("r", source)) as raw:
        answered = raw.next(ATTACH).field(5)
        assert isinstance(answered, Described)
        assert answered.value[0] == topic
        assert len(answered.value) < 8 or not answered.value[7]


@pytest.mark.parametrize("kind", SOURCES)
def test_a_consumer_is_refused_in_the_form_that_clients_need(
    gateway: Gateway, topic: str, kind: str
) -> None:
    """Attach with a null source, then detach closed with an error, in this order."""
    with begun(gateway.port, topic, receiver_frame("r", SOURCES[kind])) as raw:
        assert raw.next(ATTACH).field(5) is None
        detach = next(raw.frames())
        assert (detach.code, detach.field(1)) == (DETACH, True)
        assert detach.error
