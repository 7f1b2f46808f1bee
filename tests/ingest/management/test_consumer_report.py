"""A subscription's consumers, and the messages that each holds since when, by `$management`."""

import time
from typing import Any

import pytest
from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway
from proton import Delivery
from test_management_commands import command, done

from distributary.jobs.client.live_client import live
from distributary.pipeline.errors import InvalidRequest


@pytest.fixture
def manager(connect: Connect) -> Manager:
    return Manager(connect())


def with_credit(manager: Manager, subscription: str, credit: list[int]) -> dict[str, Any]:
    """The row of a subscription when its consumers have given just this credit."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        row = manager.done("READ", "subscription", subscription)
        if [link["credit"] for link in row["links"]] == credit:
            return row
    raise AssertionError(row)


def test_who_holds_what_since_when(
    connect: Connect, manager: Manager, gateway: Gateway, topic: str
) -> None:
    """Consumers with their names as in the log, their credit, and the messages they hold since
    when; settled ones and those given back have no holder. So also in parts, by the function that
    notebooks use, and by the command."""
    peers = [connect(), connect()]
    one, two = (peer.shared_durable(topic, f"{topic}|global") for peer in peers)
    names = [f"{peer.container}/{topic}|global" for peer in peers]
    subscription = f"global/{topic}"
    before = time.time()
    for consumer, credit, known in ((one, 7, [7, 0]), (two, 2, [7, 2])):  # so turns begin with one
        consumer.link.flow(credit)
        consumer.peer.write()
        first = with_credit(manager, subscription, known)["floor"]
    connect().sender(topic).publish(*map(str, range(7)))
    mine, others = one.take(5, credit=False), two.take(2, credit=False)
    between = time.time()
    one.confirm(mine[:1])
    others[0].delivery.local.failed = True
    two.confirm(others[:1], Delivery.MODIFIED)
    [again] = one.take(1, credit=False)
    assert again.body == others[0].body
    after = time.time()

    row = manager.done("READ", "subscription", subscription)
    assert [link["name"] for link in row["links"]] == names
    assert [(link["credit"], link["in_flight"]) for link in row["links"]] == [(1, 5), (0, 1)]
    assert all(link["active"] and link["selector"] is None for link in row["links"])
    assert before <= row["links"][0]["oldest_delivered_at"] / 1_000 + 0.001 <= between + 0.001

    answer = manager.done("HELD", "subscription", subscription)
    assert answer["attributeNames"] == ["sequence", "consumer", "delivered_at", "delivery_count"]
    rows = {sequence: rest for sequence, *rest in answer["results"]}
    wanted = {int(str(got.body)): names[0] for got in mine[1:]}
    wanted |= {int(str(again.body)): names[0], int(str(others[1].body)): names[1]}
    assert {sequence - first: rest[0] for sequence, rest in rows.items()} == wanted
    assert answer["total"] == len(rows) == 6
    failed = first + int(str(again.body))
    assert {sequence for sequence, rest in rows.items() if rest[2]} == {failed}
    assert between <= rows[failed][1] / 1_000 + 0.001 <= after + 0.001
    kept = first + int(str(mine[1].body))
    assert before <= rows[kept][1] / 1_000 + 0.001 <= between + 0.001

    parts = [
        manager.done("HELD", "subscription", subscription, **{"from": first + n, "count": 1})
        for n in range(1, 7)
    ]
    assert [part["results"][0] for part in parts] == answer["results"]
    text = manager.refused(400, "HELD", "subscription", subscription, count=10_000)
    assert "it may be 1000 (management.held_count_max), and 'from' leads on" in text

    known = live(f"amqp://127.0.0.1:{gateway.port}", topic).subscriptions[0]
    assert (known.subscription, known.floor, known.paused) == (subscription, first + 1, False)
    assert (known.backlog, known.attempts_max) == (6, 10)
    assert [(one.name, one.credit, one.in_flight) for one in known.consumers] == [
        (names[0], 1, 5),
        (names[1], 0, 1),
    ]
    assert [
        (held.sequence, held.consumer, held.delivered_at, held.delivery_count)
        for held in known.held
    ] == [(sequence, who, at * 1_000, count) for sequence, who, at, count in answer["results"]]
    shown = done(command("subscription", "show", subscription, port=gateway.port))
    assert f"name {names[0]}, credit 1, active yes, in_flight 5, oldest_delivered_at 20" in shown


def test_what_was_given_up_by_a_rewind_is_nobodys(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """Its peer has it still, and its late outcome counts for nothing; given again, it is held since
    then."""
    peer = connect()
    consumer = peer.durable(topic, "one")
    subscription = f"container/{peer.container}/one"
    connect().sender(topic).publish("a", "b")
    taken = consumer.take(2)
    floor = manager.done("READ", "subscription", subscription)["floor"]
    manager.done("REWIND", "subscription", subscription, to=floor)
    assert manager.done("HELD", "subscription", subscription)["results"] == []
    again = time.time()
    assert [got.body for got in consumer.take(1)] == ["a"]
    [row] = manager.done("HELD", "subscription", subscription)["results"]
    assert (row[0], row[1]) == (floor, f"{peer.container}/one")
    assert row[2] / 1_000 + 0.001 >= again
    consumer.settle(taken)


def test_what_a_holder_took_without_the_bytes_is_told_alike(
    connect: Connect, manager: Manager, topic: str
) -> None:
    """It is a consumer like any other, and holds since it was given them."""
    peer = connect()
    peer.leave(peer.shared_durable(topic, f"{topic}|global"), closed=False)
    peer.sender(topic).publish("a", "b", "c")
    subscription, before = f"global/{topic}", time.time()
    floor = manager.done("READ", "subscription", subscription)["floor"]
    manager.done("ACQUIRE", "subscription", subscription, holder="h", keep="", max=2)
    after = time.time()
    [link] = manager.done("READ", "subscription", subscription)["links"]
    rows = manager.done("HELD", "subscription", subscription)["results"]
    assert link["in_flight"] == 2
    assert [row[:2] for row in rows] == [[floor, link["name"]], [floor + 1, link["name"]]]
    assert all(before <= row[2] / 1_000 + 0.001 <= after + 0.001 for row in rows)


def test_whom_there_is_nothing_to_tell(gateway: Gateway, topic: str) -> None:
    """A subscription that isn't there, and what is no gateway; a password stays unsaid."""
    with pytest.raises(InvalidRequest, match=f"The gateway has no durable subscription '{topic}'"):
        live(f"127.0.0.1:{gateway.port}", topic)
    with pytest.raises(InvalidRequest, match="'host:x' is no gateway: say amqp://user") as caught:
        live("http://ann:secret@host:x")
    assert "secret" not in str(caught.value)
    assert not [
        one
        for one in live(f"127.0.0.1:{gateway.port}").subscriptions
        if not one.consumers and one.held
    ]
