"""Messages are received as they were published: bodies, headers, properties."""

from datetime import UTC, datetime
from uuid import UUID

import pytest
from async_client import Nobody, at, run, taken
from gateway_process import Gateway

from distributary.client import InvalidRequest, Message, ReceivedMessage, Typed
from distributary.client.outgoing_message import encoded, encoded_body
from distributary.pipeline.codec.amqp_types import Symbol
from distributary.pipeline.codec.sections import decode

UUID_OF_ONE = UUID("00000000-0000-4000-8000-000000000001")
MOMENT = datetime(2026, 11, 24, 7, tzinfo=UTC)
BODIES = [
    "one pizza",
    "ü" * 300,
    b"",
    b"short",
    bytes(range(256)) * 8,
    None,
    True,
    -(2**63),
    2.5,
    UUID_OF_ONE,
    [1, "two", [None, b"3"]],
    {"a": {"b": [1, 2]}, "c": None},
]


def received(data: bytes) -> ReceivedMessage:
    return ReceivedMessage(Nobody(), data, 1, 1)


def test_bodies_come_as_they_went(gateway: Gateway, topic: str) -> None:
    """Of every kind that an application makes."""

    async def play() -> list[object]:
        async with at(gateway) as client, client.consume(topic) as messages:
            for body in BODIES:
                await client.publish(topic, body)
            return [message.body for message in await taken(messages, len(BODIES))]

    found = run(play())
    assert found == BODIES
    assert [type(one) for one in found] == [type(one) for one in BODIES]


def test_headers_and_properties_come_as_they_went(gateway: Gateway, topic: str) -> None:
    """A message with all fields keeps them, and a message without any gets the defaults."""
    said = Message(
        body="x",
        properties={"n": 1, "f": 2.5, "t": "text", "b": True, "none": None, "at": MOMENT},
        id="own",
        subject="s",
        correlation_id="c",
        reply_to="queue://answers",
        to=topic,
        content_type="text/plain",
        group="g",
        priority=9,
        ttl=60.5,
        durable=False,
        annotations={"x-opt-kind": "own"},
    )

    async def play() -> list[ReceivedMessage]:
        async with at(gateway) as client, client.consume(topic) as messages:
            await client.publish(topic, said)
            await client.publish(topic, "plain")
            return await taken(messages, 2)

    full, plain = run(play())
    properties = dict(full.properties)
    assert properties.pop("at") == round(MOMENT.timestamp() * 1_000)
    assert properties == {"n": 1, "f": 2.5, "t": "text", "b": True, "none": None}
    assert (full.id, full.subject, full.correlation_id, full.to) == ("own", "s", "c", topic)
    assert (full.reply_to, full.content_type, full.group) == ("queue://answers", "text/plain", "g")
    assert (full.priority, full.ttl, full.durable) == (9, 60.5, False)
    assert (full.annotations["x-opt-kind"], full.delivery_count) == ("own", 0)
    assert (plain.priority, plain.ttl, plain.durable) == (4, None, True)
    assert (plain.properties, plain.annotations, plain.text) == ({}, {}, "plain")
    assert isinstance(plain.id, str)
    assert plain.id


@pytest.mark.parametrize(
    "wrong",
    [
        Message(priority=10),
        Message(ttl=0.0),
        Message(ttl=5e6),
        Message(delay=-1.0),
        Message(body=2**63),
        Message(body=object()),  # type: ignore[arg-type]
        Message(properties={1: "x"}),  # type: ignore[dict-item]
        Message(properties={"x": Typed("byte", 300)}),
        Message(content_type="ü"),
        Message(delay=float("inf")),
        Message(properties={"x": [1]}),
        Message(properties={"x": {"y": 1}}),
    ],
)
def test_what_cannot_be_written_is_a_sentence(wrong: Message) -> None:
    """Before anything goes."""
    with pytest.raises(InvalidRequest, match=r"."):
        encoded(wrong, "id")


def test_a_text_that_cannot_be_written_is_a_sentence() -> None:
    """A body alone, as in a message."""
    half = "half of a pair: \ud800"
    with pytest.raises(InvalidRequest, match="can't be written"):
        encoded_body(half, "id")
    with pytest.raises(InvalidRequest, match="can't be written"):
        encoded(Message(body=half), "id")


def test_typed_numbers_have_their_types() -> None:
    """A selector or another language may need such a type."""
    message = Message(properties={"n": Typed("int", 7)}, delay=1.5, annotations={"x-a": 1})
    found = decode(encoded(message, "id"))
    assert found.application_properties["n"] == Typed("int", 7)
    assert dict(found.message_annotations.pairs) == {
        Symbol("x-a"): 1,
        Symbol("x-opt-delivery-delay"): 1_500,
    }


@pytest.mark.parametrize(
    ("data", "body"),
    [
        (bytes.fromhex("005375a00161005375a00162"), b"ab"),  # two data sections
        (bytes.fromhex("0080000000000000007577a10161"), None),  # not AMQP
        (bytes.fromhex("00800000000000000075a00161"), b"a"),  # a long descriptor
        (bytes.fromhex("005376c00302a10161" + "4040"), None),
        (bytes.fromhex("005375b00000000161"), b"a"),
        (bytes.fromhex("005375a00161005378c10100"), b"a"),  # a footer
        (bytes.fromhex("00537045005375a00161"), b"a"),
        (b"", None),
    ],
)
def test_unusual_bodies_are_read(data: bytes, body: object) -> None:
    """The short way and the decoder say the same, and broken ones are the decoder's errors."""
    message = received(data)
    try:
        truth: object = decode(data).body.value
    except Exception as error:  # noqa: BLE001 (whatever it is, it is the same)
        with pytest.raises(type(error)):
            _ = message.body
        return
    assert message.body == truth == body
