"""Schemas of a real gateway: set, followed, dropped, durable; and messages that don't fit refused,
in the order of their link, whatever becomes of the process that checks them."""

import json
import os
import signal
from collections.abc import Callable

import pytest
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway, until
from gateway_schemas import ORDER, checkers, schema, sent, why
from proton import Delivery

Make = Callable[..., Gateway]


@pytest.fixture
def manager(connect: Connect) -> Manager:
    return Manager(connect())


def with_property(name: str, said: object, *, required: bool = False) -> dict[str, object]:
    """ORDER with one property more."""
    return {
        **ORDER,
        "properties": {**ORDER["properties"], name: said},
        "required": [*ORDER["required"], *([name] if required else [])],
    }


def test_a_schema_is_set_followed_and_dropped(manager: Manager, topic: str) -> None:
    """Versions are counted on, also over a drop; each event has its user."""
    made = manager.done("UPDATE", "schema", topic, **schema())
    assert made["version"] == 1
    assert [one["name"] for one in json.loads(made["columns"])["fields"]] == ["id", "amount"]
    second = with_property("note", {"type": "string"})
    assert manager.done("UPDATE", "schema", topic, **schema(second))["version"] == 2
    listed = manager.done("QUERY", "schema")
    [row] = [one for one in listed["results"] if one[0] == topic]
    assert dict(zip(listed["attributeNames"], row, strict=True))["version"] == 2
    manager.done("DELETE", "schema", topic)
    assert "there is no schema" in manager.refused(404, "DELETE", "schema", topic)
    assert manager.done("UPDATE", "schema", topic, **schema())["version"] == 3
    read = manager.done("READ", "schema", topic)
    assert [one["event"] for one in read["history"]] == ["set", "set", "dropped", "set"]
    assert {one["by"] for one in read["history"]} == {"anonymous"}
    old = manager.done("READ", "schema", topic, version=2)
    assert json.loads(old["definition"]) == second


def test_what_may_not_follow_is_refused_with_its_place(manager: Manager, topic: str) -> None:
    manager.done("UPDATE", "schema", topic, **schema())
    new = schema(with_property("customer", {"type": "string"}, required=True))
    said = manager.refused(409, "UPDATE", "schema", topic, **new)
    assert "/customer is required, and may be missing" in said
    checked = manager.done("UPDATE", "schema", topic, check=True, **new)
    assert checked["allowed"] is False
    assert manager.done("READ", "schema", topic)["version"] == 1
    assert manager.done("UPDATE", "schema", topic, **new, compatibility="none")["version"] == 2


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"format": "json", "definition": "{"}, "is no JSON"),
        ({"format": "json", "definition": '{"type": "strin"}'}, "is no JSON Schema"),
        ({"format": "json", "definition": '{"$ref": "http://127.0.0.1:9/a"}'}, "leads nowhere"),
        (
            {"format": "json", "definition": '{"properties": {"_sequence_": {}}}'},
            "a field '_sequence_', which is the column of a field _sequence",
        ),
        ({"format": "xml", "definition": "{}"}, "format is json, avro, protobuf"),
        ({"format": "avro", "definition": '"nope"'}, "doesn't define it"),
        ({"format": "protobuf", "definition": "AA==", "message": "a.B"}, "descriptor set"),
    ],
)
def test_what_is_no_schema_is_refused(
    manager: Manager, topic: str, said: dict[str, str], sentence: str
) -> None:
    assert sentence in manager.refused(400, "UPDATE", "schema", topic, **said)


def test_misfits_are_refused_with_field_and_value(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """Misfits between right messages are refused; consumers get the right ones in their order."""
    manager.done("UPDATE", "schema", topic, **schema(validate="refuse"))
    peer = connect()
    consumer = peer.shared_durable(topic, f"{topic}|global")
    bodies = [b'{"id": 1}', b'{"id": "two"}', b'{"id": 3, "amount": 1.5}', b"{", b'{"id": 5}']
    outcomes = sent(peer, topic, *bodies)
    states = [one.remote_state for one in outcomes]
    right, wrong = Delivery.ACCEPTED, Delivery.REJECTED
    assert states == [right, wrong, right, wrong, right]
    assert why(outcomes[1]) == f'\'{topic}\': /id: "two" is not of type "integer"'
    assert outcomes[1].remote.condition.name == "amqp:decode-error"
    assert "the body is no JSON" in why(outcomes[3])
    right_ones = zip(consumer.take(3), (bodies[0], bodies[2], bodies[4]), strict=True)
    assert all(got.data.endswith(body) for got, body in right_ones)


def test_a_topic_says_which_schema_it_has(manager: Manager, topic: str) -> None:
    """Its own, or that of a pattern."""
    assert manager.done("READ", "topic", f"{topic}.a")["schema"] is None
    manager.done("UPDATE", "schema", f"{topic}.*", **schema(validate="dead-letter"))
    said = manager.done("READ", "topic", f"{topic}.a")["schema"]
    assert (said["name"], said["version"], said["validate"]) == (f"{topic}.*", 1, "dead-letter")
    manager.done("DELETE", "schema", f"{topic}.*")
    assert manager.done("READ", "topic", f"{topic}.a")["schema"] is None


def test_messages_that_are_accepted_on_receipt_are_checked_first(
    connect: Connect, manager: Manager, topic: str
) -> None:
    manager.done("UPDATE", "schema", topic, **schema(validate="refuse"))
    outcomes = sent(connect(), topic, b"{}", b'{"id": 1}', durable=False)
    assert [one.remote_state for one in outcomes] == [Delivery.REJECTED, Delivery.ACCEPTED]


def test_a_pattern_and_the_very_topic(connect: Connect, manager: Manager, topic: str) -> None:
    """The schema of the very topic wins; without it the pattern's holds."""
    manager.done("UPDATE", "schema", f"{topic}.*", **schema(validate="refuse"))
    manager.done("UPDATE", "schema", f"{topic}.free", **schema({}, validate="refuse"))
    peer = connect()
    assert sent(peer, f"{topic}.a", b"{}")[0].remote_state == Delivery.REJECTED
    assert sent(peer, f"{topic}.free", b"{}")[0].remote_state == Delivery.ACCEPTED
    assert sent(peer, topic, b"{}")[0].remote_state == Delivery.ACCEPTED


def test_schemas_outlive_a_kill(own_gateway: Make, connect: Connect) -> None:
    """From the journal, and from the table."""
    gateway = own_gateway()
    gateway.start()
    assert not checkers(gateway)
    Manager(connect(port=gateway.port)).done(
        "UPDATE", "schema", "orders", **schema(validate="refuse")
    )
    for _ in range(2):
        gateway.kill()
        gateway.start()
        peer = connect(port=gateway.port)
        assert Manager(peer).done("READ", "schema", "orders")["validate"] == "refuse"
        assert sent(peer, "orders", b"{}")[0].remote_state == Delivery.REJECTED
        assert sent(peer, "orders", b'{"id": 1}')[0].remote_state == Delivery.ACCEPTED


def _version(reader: Manager) -> object:
    return reader.done("READ", "schema", "orders").get("version")


def test_events_have_the_order_of_their_groups(own_gateway: Make, connect: Connect) -> None:
    """Events that come while a group still waits have it, too: messages published between two of
    them lie between their floors, and after a kill the gateway has them in their order."""
    gateway = own_gateway({"journal": {"linger_ms": 1_000}}).start()
    peer = connect(port=gateway.port)
    writer, reader = Manager(peer), Manager(connect(port=gateway.port))
    link = peer.sender("orders")
    peer.until(lambda: link.link.credit >= 3, "credit")
    requests = [writer.send("UPDATE", "schema", "orders", **schema())]
    peer.until(lambda: reader.ask("READ", "schema", "orders").status == 200, "the schema holds")
    deliveries = []
    for nth in range(3):
        deliveries += [link.send(encoded(b'{"id": 1}'))]
        requests += [writer.send("DELETE", "schema", "orders")]
        requests += [writer.send("UPDATE", "schema", "orders", **schema())]
        version = nth + 2
        peer.until(lambda: _version(reader) == version, "the next version holds")  # noqa: B023
    assert [writer.answer(one).status for one in requests] == [200] + [204, 200] * 3
    for one in deliveries:
        link.outcome(one)
    history = reader.done("READ", "schema", "orders")["history"]
    assert [one["event"] for one in history] == ["set"] + ["dropped", "set"] * 3
    assert [one["floor"] for one in history] == [0, 1, 1, 2, 2, 3, 3]
    assert [one["group"] for one in history] == sorted({one["group"] for one in history})
    gateway.kill()
    gateway.start()
    again = Manager(connect(port=gateway.port)).done("READ", "schema", "orders")["history"]
    said = ("event", "version", "floor", "group", "by")
    assert [[one[key] for key in said] for one in again] == [
        [one[key] for key in said] for one in history
    ]


def test_a_dead_process_is_started_again(own_gateway: Make, connect: Connect) -> None:
    """Messages after its death are checked, and none is taken unchecked. Others don't wait."""
    gateway = own_gateway({"schemas": {"check_ms_max": 8_000}})
    gateway.start()
    peer = connect(port=gateway.port)
    Manager(peer).done("UPDATE", "schema", "orders", **schema(validate="refuse"))
    assert sent(peer, "orders", b'{"id": 1}')[0].remote_state == Delivery.ACCEPTED
    for how in (signal.SIGKILL, signal.SIGSTOP):
        [pid] = checkers(gateway)
        os.kill(pid, how)
        link = peer.sender("orders")
        peer.until(lambda link=link: link.link.credit >= 2, "credit")
        both = [link.send(encoded(body)) for body in (b"{}", b'{"id": 2}')]
        assert sent(peer, "others", b"{}")[0].remote_state == Delivery.ACCEPTED
        for one in both:
            link.outcome(one)
        assert [one.remote_state for one in both] == [Delivery.REJECTED, Delivery.ACCEPTED]
        until(lambda pid=pid: pid not in checkers(gateway), "the process to be ended")
