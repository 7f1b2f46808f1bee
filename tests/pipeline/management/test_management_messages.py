"""Requests to $management: each row of what may be asked, and everything that is wrong with one."""

from uuid import UUID

import pytest

from distributary.pipeline.codec import sections
from distributary.pipeline.codec.amqp_types import Map, Timestamp, Value
from distributary.pipeline.codec.sections import (
    Body,
    Header,
    Identifier,
    Message,
    Properties,
    Typed,
)
from distributary.pipeline.management.management_messages import (
    BAD_REQUEST,
    NOT_IMPLEMENTED,
    OK,
    REQUESTS,
    Answer,
    Entity,
    Request,
    Verb,
    encoded,
    parse,
)


def message(body: Value = None, kind: str = "value", **said: Value) -> Message:
    typed = {name: Typed("string", value) for name, value in said.items()}
    return Message(Header(), Map(), Map(), Properties(), typed, Body(kind, body), Map())


def test_a_request_says_what_to_do_to_whom() -> None:
    body = Map((("to", "2h"),))
    found = parse(message(body, operation="REWIND", type="subscription", name="global/billing"))
    assert found == Request(Verb.REWIND, Entity.SUBSCRIPTION, "global/billing", {"to": "2h"})


def test_small_letters_and_no_body_are_understood() -> None:
    found = parse(message(kind="none", operation="pause", type="queue", name="orders"))
    assert found == Request(Verb.PAUSE, Entity.QUEUE, "orders", {})


def test_a_query_may_speak_as_the_standard_does() -> None:
    """The node's own type and name, the type of what is looked for, and where to begin."""
    said = {"operation": "QUERY", "type": "org.amqp.management", "name": "self"}
    found = parse(message(Map(), **said, entityType="queue", offset=5, count=10))
    assert found == Request(Verb.QUERY, Entity.QUEUE, "self", {"offset": 5, "count": 10})


@pytest.mark.parametrize(
    ("said", "body", "status", "says"),
    [
        ({}, None, BAD_REQUEST, "must be one of CREATE"),
        ({"operation": 5}, None, NOT_IMPLEMENTED, "is 5"),
        ({"operation": "EXPLODE"}, None, NOT_IMPLEMENTED, "'EXPLODE'"),
        ({"operation": "READ"}, None, BAD_REQUEST, "'type' is None"),
        ({"operation": "READ", "type": "cluster"}, None, BAD_REQUEST, "one of subscription, queue"),
        ({"operation": "READ", "type": "queue"}, None, BAD_REQUEST, "needs the name of a queue"),
        ({"operation": "READ", "type": "queue", "name": 7}, None, BAD_REQUEST, "a string"),
        (
            {"operation": "PAUSE", "type": "topic", "name": "t"},
            None,
            NOT_IMPLEMENTED,
            "it has CR",
        ),
        ({"operation": "PAUSE", "type": "queue", "name": "q"}, "x", BAD_REQUEST, "must be a map"),
        (
            {"operation": "REWIND", "type": "queue", "name": "q"},
            None,
            BAD_REQUEST,
            "is missing",
        ),
    ],
)
def test_what_is_wrong_is_said(said: dict[str, Value], body: Value, status: int, says: str) -> None:
    found = parse(message(body, **said))
    assert isinstance(found, Answer)
    assert found.status == status
    assert says in found.description


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ((("too", 1),), "unknown attribute 'too'; there are to"),
        ((("to", -1),), "must be a number from 0 to 2^63 - 1 or a string or a timestamp"),
        ((("to", True),), "'to' is True"),
        ((("to", [1]),), "it must be"),
        (((1, 1),), "1 is no name of an attribute"),
        ((("to", 1), ("to", 2)), "stands there twice"),
    ],
)
def test_an_attribute_that_can_not_be_is_refused(
    pairs: tuple[tuple[Value, Value], ...], says: str
) -> None:
    found = parse(message(Map(pairs), operation="REWIND", type="queue", name="q"))
    assert isinstance(found, Answer)
    assert found.status == BAD_REQUEST
    assert says in found.description


def test_a_timestamp_is_a_place_but_no_number() -> None:
    for verb, key, fine in (("REWIND", "to", True), ("REDRIVE", "max", False)):
        body = Map(((key, Timestamp(5)),))
        found = parse(message(body, operation=verb, type="queue", name="q"))
        assert isinstance(found, Request) is fine


def test_every_type_can_be_read() -> None:
    assert all(Verb.READ in verbs for verbs in REQUESTS.values())
    assert set(REQUESTS) == set(Entity)


@pytest.mark.parametrize("correlation", ["ID:7", 2**64 - 1, UUID(int=5), b"\x00\xff", None])
def test_an_answer_is_a_message_that_says_whose_it_is(correlation: Identifier | None) -> None:
    """The identifier comes back with its own type."""
    body = {"name": "orders", "owed": 5, "policy": Map(), "names": ["a"], "selector": None}
    data = encoded(Answer(OK, "done", body), "replies", correlation)
    got = sections.decode(data)
    assert got.properties.correlation_id == correlation
    assert type(got.properties.correlation_id) is type(correlation)
    assert got.properties.to == "replies"
    assert got.application_properties == {
        "statusCode": Typed("int", 200),
        "statusDescription": Typed("string", "done"),
    }
    assert got.body == Body("value", Map(tuple(body.items())))
