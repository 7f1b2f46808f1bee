"""Strangers' messages and schemas. The gateway answers them clearly, and serves the others: each
budget of `schemas.*`, and bodies and schemas that are meant to hurt."""

import json
import os
import signal
from collections.abc import Callable

import pytest
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer
from gateway_process import Gateway, until
from gateway_schemas import ORDER, checkers, schema, sent, why
from proton import Delivery

Make = Callable[..., Gateway]
DEPTH = 100_000


def served(peer: Peer) -> None:
    """A topic that validates and one that doesn't take messages."""
    for topic in ("orders", "others"):
        assert sent(peer, topic, b'{"id": 1}')[0].remote_state == Delivery.ACCEPTED


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        pytest.param(b"", "the body is no JSON", id="empty"),
        pytest.param(b"\xff\xfe{", "the body is no UTF-8", id="no UTF-8"),
        pytest.param(b"[" * DEPTH, "nested too deep", id="deep and open"),
        pytest.param(b'{"id": ' + b"[" * DEPTH + b"]" * DEPTH + b"}", "too deep", id="deep"),
        pytest.param(b'{"id": ' + b"9" * 100_000 + b"}", "digits", id="digits"),
        pytest.param(b'{"id": 1e999999999}', "/id: ", id="infinite"),
        pytest.param(b'{"id": 1, "amount": NaN}', "NaN is no number", id="NaN"),
        pytest.param(b'{"id": "' + b"a" * 4_000_000 + b'"}', "/id: ", id="long text"),
        pytest.param(b'{"id": 1, "id": "two"}', "/id: ", id="twice"),
        pytest.param(
            b"{" + b",".join(b'"%d":1' % n for n in range(300_000)) + b"}", "required", id="wide"
        ),
    ],
)
def test_bodies_that_are_meant_to_hurt(
    connect: Connect, topic: str, body: bytes, sentence: str
) -> None:
    peer = connect()
    Manager(peer).done("UPDATE", "schema", topic, **schema(validate="refuse"))
    [refused] = sent(peer, topic, body)
    said = why(refused)
    assert sentence in said
    assert len(said) < 400
    assert sent(peer, topic, b'{"id": 1}')[0].remote_state == Delivery.ACCEPTED


def of(properties: object, **more: object) -> dict[str, object]:
    return {"type": "object", "properties": properties, **more}


def nested(levels: int) -> object:
    return of({"a": nested(levels - 1)}) if levels else {"type": "string"}


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({**ORDER, "description": "x" * 60_000}, "schemas.definition_bytes_max"),
        (of({f"c{one}": {"type": "string"} for one in range(1_001)}), "schemas.columns_max"),
        (of({"a": {"type": "string", "pattern": "^(?=a)(a+)+$"}}), "look-around"),
        (of({"a": {"type": "string", "pattern": "(a{1000}){1000}"}}), "too large"),
        (of({"a": {"type": "string", "pattern": "("}}), 'is not a "regex"'),
    ],
    ids=["long", "wide", "look-ahead", "huge pattern", "broken pattern"],
)
def test_schemas_that_are_meant_to_hurt(
    connect: Connect, topic: str, said: object, sentence: str
) -> None:
    peer = connect()
    why_not = Manager(peer).refused(400, "UPDATE", "schema", topic, **schema(said))
    assert sentence in why_not
    assert sent(peer, topic, b"{}")[0].remote_state == Delivery.ACCEPTED


def test_deep_schemas_are_refused(connect: Connect, topic: str) -> None:
    manager = Manager(connect())
    said = manager.refused(400, "UPDATE", "schema", topic, **schema(nested(40)))
    assert "schemas.depth_max" in said
    deep = {"format": "json", "definition": '{"properties":{"a":' * 2_000 + "{}" + "}}" * 2_000}
    assert "is no JSON" in manager.refused(400, "UPDATE", "schema", topic, **deep)


def test_a_pattern_that_repeats_itself_takes_linear_time(connect: Connect, topic: str) -> None:
    """With backtracking this body would take longer than the world will last."""
    peer = connect()
    said = of({"a": {"type": "string", "pattern": "^(a+)+$"}})
    Manager(peer).done("UPDATE", "schema", topic, **schema(said, validate="refuse"))
    [refused] = sent(peer, topic, json.dumps({"a": "a" * 50_000 + "!"}).encode())
    assert "no answer" not in why(refused)
    assert "pattern" in why(refused) or "does not match" in why(refused)


def test_versions_have_a_limit(own_gateway: Make, connect: Connect) -> None:
    gateway = own_gateway({"schemas": {"versions_max": 2}}).start()
    manager = Manager(connect(port=gateway.port))
    for _ in range(2):
        manager.done("UPDATE", "schema", "orders", **schema())
    said = manager.refused(409, "UPDATE", "schema", "others", **schema())
    assert said == "there are 2 versions of schemas (schemas.versions_max)"


def test_what_waits_has_a_limit(own_gateway: Make, connect: Connect) -> None:
    """Beyond it messages are rejected, of those topics alone; when there is room again they are
    taken."""
    gateway = own_gateway({"schemas": {"waiting_bytes_max": 10_000, "check_ms_max": 8_000}}).start()
    peer = connect(port=gateway.port)
    Manager(peer).done("UPDATE", "schema", "orders", **schema(validate="refuse"))
    served(peer)
    [pid] = checkers(gateway)
    os.kill(pid, signal.SIGSTOP)
    body = b'{"id": 1, "note": "%s"}' % (b"x" * 6_000)
    links = [connect(port=gateway.port).sender("orders") for _ in range(3)]
    found = []
    for link in links:
        link.peer.until(lambda link=link: link.link.credit > 0, "credit")
        found.append(link.send(encoded(body)))
        link.peer.write()
    refused = [link.outcome(one) for link, one in zip(links, found, strict=True)]
    assert refused.count(Delivery.ACCEPTED) >= 1
    limited = [one for one in found if one.remote_state == Delivery.REJECTED]
    assert limited
    for one in limited:
        assert one.remote.condition.name == "amqp:resource-limit-exceeded"
        assert "schemas.waiting_bytes_max" in why(one)
    served(peer)


def test_a_message_that_needs_too_much_memory_is_rejected(
    own_gateway: Make, connect: Connect
) -> None:
    gateway = own_gateway({"schemas": {"process_bytes_max": 300_000_000}}).start()
    peer = connect(port=gateway.port)
    Manager(peer).done("UPDATE", "schema", "orders", **schema(validate="refuse"))
    served(peer)
    body = b'{"id": 1, "a": [' + b"{}," * 5_000_000 + b"1]}"
    [one] = sent(peer, "orders", body)
    said = why(one)
    assert "couldn't be checked" in said or "schemas.process_bytes_max" in said
    served(peer)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("validate", ["refuse", "dead-letter"])
def test_others_do_not_wait_for_a_process_that_is_gone(
    own_gateway: Make, connect: Connect, how: signal.Signals, validate: str
) -> None:
    """Messages of other topics are accepted while those of this one wait, also of the same
    connection; then these have a clear answer."""
    gateway = own_gateway({"schemas": {"check_ms_max": 10_000}}).start()
    peer = connect(port=gateway.port)
    Manager(peer).done("UPDATE", "schema", "orders", **schema(validate=validate))
    served(peer)
    [pid] = checkers(gateway)
    os.kill(pid, how)
    link = peer.sender("orders")
    peer.until(lambda: link.link.credit > 1, "credit")
    waiting = [link.send(encoded(one)) for one in (b'{"id": 2}', b"{}")]
    for _ in range(5):
        assert sent(peer, "others", b"{}")[0].remote_state == Delivery.ACCEPTED
    if how is signal.SIGSTOP:
        assert not any(one.settled for one in waiting), "others were slower than the time-out"
    second = Delivery.REJECTED if validate == "refuse" else Delivery.ACCEPTED
    assert [link.outcome(one) for one in waiting] == [Delivery.ACCEPTED, second]
    until(lambda: pid not in checkers(gateway), "the process to be ended")


def test_one_that_takes_too_long_is_told_so(own_gateway: Make, connect: Connect) -> None:
    """Each time that the process is started again it takes too long again: the publisher hears the
    setting. An array that is a column is read element by element, which takes many times that."""
    gateway = own_gateway({"schemas": {"check_ms_max": 300}}).start()
    peer = connect(port=gateway.port)
    manager = Manager(peer)
    items = {"type": ["object", "integer"]}
    said = of({"id": {"type": "integer"}, "a": {"type": "array", "items": items}})
    wanted = schema(said, validate="refuse")
    until(
        lambda: manager.ask("UPDATE", "schema", "orders", **wanted).status < 300,
        "a check that was quick enough",
    )
    body = b'{"id": 1, "a": [' + b"{}," * 3_000_000 + b"1]}"
    assert "no answer after 300 ms (schemas.check_ms_max)" in why(sent(peer, "orders", body)[0])
    assert sent(peer, "others", b"{}")[0].remote_state == Delivery.ACCEPTED
