"""Requests to `$management` of a gateway that are about another gateway's log: the log's owner
answers them, for the client's user.

That they are answered as local ones is shown by the tests of those, too, with `RELAYED=1`.
"""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gateway_fields import composite
from gateway_fleet import OF_ANOTHER, PLACEMENT, Fleet
from gateway_frames import ATTACH, DETACH, Raw, begin_frame, frame, open_frame
from gateway_links import encoded
from gateway_management import NODE, Manager
from gateway_peer import Connect, Peer
from gateway_process import Gateway, until
from gateway_sasl import AMQP_HEADER
from gateway_schemas import schema, sent, why
from proton import Delivery, ubyte, uint
from test_management_commands import command, done

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.sequences.range_text import sequences_of

Make = Callable[..., Gateway]


def part(manager: Manager, kind: str, log: str = "", **said: object) -> Any:
    """A part of what a query lists, of all logs or of one; nothing is missing."""
    asked = {"operation": "QUERY", "type": kind} | ({"log": log} if log else {})
    wanted = {"attributeNames": ["log", "name"], **said}
    manager.requests.send(encoded(wanted, properties=asked, id=1, reply_to=manager.address))
    message = manager.answers.take()[0].message
    assert message.properties["statusCode"] == 200, message.properties
    assert message.properties.get("log", "") == log
    return message.body


def names(manager: Manager, kind: str, log: str = "") -> list[tuple[str, str]]:
    """The names that a query lists, each with its log."""
    found = part(manager, kind, log)
    assert (found["missing"], found["next"]) == ({}, None)
    assert found["total"] == len(found["results"])
    return [(row[0], row[1]) for row in found["results"]]


@pytest.fixture
def manager(fleet: Fleet, connect: Connect) -> Manager:
    """At the gateway that doesn't own `orders`."""
    return Manager(connect("manager", port=fleet.main.port))


def test_a_queue_is_made_read_and_ended_where_it_is(fleet: Fleet, manager: Manager) -> None:
    assert manager.ask("CREATE", "queue", "orders.q", policy={"lock_ms": 30_000}).status == 201
    assert manager.done("READ", "queue", "queue://orders.q")["policy"] == {"lock_ms": 30_000}
    manager.done("CREATE", "queue", "own.q")
    both = [("main", "own.q"), ("orders", "orders.q")]
    there = Manager(Peer(fleet.orders.port, "there"))
    for one in (manager, there):
        assert names(one, "queue") == both
        assert names(one, "queue", "orders") == both[1:]
    manager.peer.sender("orders.q", capabilities=("queue",)).publish(1, 2)
    assert "2" in manager.ask("PURGE", "queue", "orders.q").text
    manager.done("DELETE", "queue", "orders.q", force=True)
    assert names(there, "queue") == both[:1]
    there.peer.drop()


def test_a_subscription_is_found_by_its_name_in_whichever_log_it_is(
    fleet: Fleet, manager: Manager
) -> None:
    for topic in ("orders.eu", "news"):
        name = f"global/{topic}"
        manager.done("CREATE", "subscription", name, topic=topic)
        manager.peer.sender(topic).publish(1, 2, 3)
        assert manager.done("READ", "subscription", name)["topic"] == topic
        manager.done("PAUSE", "subscription", name)
        assert manager.ask("REWIND", "subscription", name, to=0).status == 200
    listed = [("main", "global/news"), ("orders", "global/orders.eu")]
    assert names(manager, "subscription") == listed
    assert names(manager, "subscription", "orders") == listed[1:]
    manager.refused(404, "READ", "subscription", "global/nowhere")
    made = manager.ask("CREATE", "subscription", "global/all", topic="#")
    assert made.text == "main: global/all has been made; orders: global/all has been made"
    manager.done("DELETE", "subscription", "global/all")
    assert manager.refused(404, "READ", "subscription", "global/all")
    for topic in ("orders.eu", "news"):
        manager.done("DELETE", "subscription", f"global/{topic}")
    manager.refused(404, "READ", "subscription", "global/orders.eu")


def test_a_schema_is_set_where_its_topics_are(fleet: Fleet, manager: Manager) -> None:
    for name in ("orders.checked", "orders.all.*"):
        manager.done("UPDATE", "schema", name, **schema(validate="refuse"))
        assert manager.done("READ", "schema", name)["version"] == 1
    assert names(manager, "schema") == [("orders", "orders.all.*"), ("orders", "orders.checked")]
    for topic in ("orders.checked", "orders.all.one"):
        good, bad = sent(manager.peer, topic, b'{"id": 1}', b'{"id": "x"}')
        assert good.remote_state == Delivery.ACCEPTED
        assert "id" in why(bad)
    both = manager.ask("UPDATE", "schema", "#", **schema()).text
    assert both == "main: the schema of '#' has version 1; orders: the schema of '#' has version 1"
    manager.done("DELETE", "schema", "orders.checked")


def test_dead_letters_are_named_and_go_back(fleet: Fleet, manager: Manager) -> None:
    """The queue of dead letters of a subscription in another log than `main` has the log's name in
    its own."""
    manager.done("CREATE", "subscription", "global/bills", topic="orders.bills")
    manager.peer.sender("orders.bills").publish("bad")
    consumer = manager.peer.shared_durable("orders.bills", "bills|global")
    consumer.settle(consumer.take(1), Delivery.REJECTED)
    letters = manager.done("READ", "subscription", "global/bills")["dead_letters"]
    assert letters == "DLQ.log/orders/global/bills"
    dead = manager.peer.receiver(letters, capabilities=("queue",))
    assert dead.take(1)[0].body == "bad"
    manager.peer.leave(dead, closed=True)
    until(
        lambda: manager.done("REDRIVE", "queue", letters)["redriven"] == 1,
        "the dead letter is nobody's",
    )
    assert consumer.bodies() == ["bad"]


def test_a_log_that_is_not_there_is_named(fleet: Fleet, manager: Manager) -> None:
    data = encoded(
        {}, properties={"operation": "READ", "type": "node", "name": "self", "log": "prices"}
        , id=1, reply_to=manager.address
    )  # fmt: skip
    manager.requests.send(data)
    said = manager.answers.take()[0].message.properties
    assert said["statusCode"] == 404
    assert "main, orders" in said["statusDescription"]


def test_a_list_goes_on_at_its_places(fleet: Fleet, manager: Manager) -> None:
    """Log by log, whatever comes and goes in between; and by an offset over all of them."""
    wanted = [("main", f"q-{nth}") for nth in range(3)]
    wanted += [("orders", f"orders.q-{nth}") for nth in range(4)]
    for _, name in wanted:
        manager.done("CREATE", "queue", name)
    found, place, parts = [], None, 0
    while parts == 0 or place is not None:
        said = {"from": place} if place else {}
        one = part(manager, "queue", count=2, **said)
        assert one["total"] == len(wanted)
        assert len(one["results"]) <= 2
        found += [(row[0], row[1]) for row in one["results"]]
        place, parts = one["next"], parts + 1
        if parts == 1:
            manager.done("CREATE", "queue", "a-later-one")
    assert found == wanted
    manager.done("DELETE", "queue", "a-later-one")
    for offset in range(8):
        rows = part(manager, "queue", count=3, offset=offset)["results"]
        assert [(row[0], row[1]) for row in rows] == wanted[offset : offset + 3]
    assert part(manager, "queue", count=0)["total"] == len(wanted)
    for wrong in ("orders", "prices:0:0", "main:-1:0", "main:0:" + "9" * 19):
        assert "'next'" in manager.refused(400, "QUERY", "queue", **{"from": wrong})
    manager.refused(400, "QUERY", "queue", **{"from": "main:0:0"}, offset=1)
    manager.refused(400, "QUERY", "queue", attributeNames=["nonsense"])


def test_a_log_that_is_away_is_named_in_lists(
    tmp_path: Path, own_gateway: Make, connect: Connect
) -> None:
    """After a bounded wait, with the reason, by programs and people; what others have is there. An
    owner that is silent is as good as none."""
    with Fleet(tmp_path, own_gateway, {"management": {"list_wait_ms": 500}}) as fleet:
        manager = Manager(connect("lists", port=fleet.main.port))
        for name in ("own.q", "orders.q", "orders.r"):
            manager.done("CREATE", "queue", name)
        began = part(manager, "queue", count=2)
        assert began["next"] is not None
        fleet.orders.process.send_signal(signal.SIGSTOP)
        found = manager.done("QUERY", "queue", attributeNames=["name"])
        assert found["results"] == [["own.q"]]
        assert list(found["missing"]) == ["orders"]
        assert "list_wait_ms" in found["missing"]["orders"]
        later = manager.done("QUERY", "queue", **{"from": began["next"]})
        assert (later["results"], list(later["missing"])) == ([], ["orders"])
        fleet.orders.kill()
        shown = command("queue", "list", "--json", port=fleet.main.port)
        assert shown.returncode == 1
        assert "the log orders" in shown.stderr
        assert [(row["log"], row["name"]) for row in json.loads(shown.stdout)] == [
            ("main", "own.q")
        ]
        alone = command("queue", "list", "--log", "main", port=fleet.main.port)
        assert (alone.returncode, alone.stderr) == (0, "")
        fleet.orders.start()
        until(lambda: not manager.done("QUERY", "queue")["missing"], "the owner is back")
        shown = done(command("queue", "list", port=fleet.main.port))
        assert "Log" in shown
        assert shown.index("orders.q") > shown.index("own.q")


def test_an_answer_goes_to_a_queue_of_another_log(fleet: Fleet, manager: Manager) -> None:
    """More of them than requests may be under way; and for requests of either log."""
    answers = manager.peer.receiver("queue://orders.answers", capabilities=("queue",))
    requests, count = manager.peer.sender(NODE), 80
    said = [
        {"operation": "READ", "type": "topic", "name": f"{prefix}.{nth}"}
        for nth in range(count // 2)
        for prefix in ("orders", "own")
    ]
    for nth, one in enumerate(said):
        manager.peer.until(lambda: requests.link.credit > 0, "credit for a request")
        requests.send(encoded(None, properties=one, id=nth, reply_to="queue://orders.answers"))
    got = [one.message for one in answers.take(count)]
    assert sorted(one.correlation_id for one in got) == list(range(count))
    assert {one.properties["statusCode"] for one in got} == {200}
    assert {one.properties["log"] for one in got} == {"main", "orders"}
    logs = [log for log, name in names(manager, "queue") if name == "orders.answers"]
    assert logs == ["orders"], "none is made in the gateway's own log"


RIGHTS = """
[alice]
publish = ["orders.mine"]
consume = ["orders.mine"]
create = ["orders.mine"]
manage = ["orders.mine"]
"""


def test_the_clients_rights_hold(tmp_path: Path, own_gateway: Make) -> None:
    users, permissions = tmp_path / "users.toml", tmp_path / "permissions.toml"
    with changing(users) as known:
        known["alice"] = user_of("x")
    permissions.write_text(RIGHTS)
    settings = {"security": {"users": str(users), "permissions": str(permissions)}}
    hers = {"user": "alice", "password": "x"}
    with (
        Fleet(tmp_path, own_gateway, settings) as fleet,
        Peer(fleet.main.port, "alices", **hers) as peer,
    ):
        manager = Manager(peer)
        manager.done("CREATE", "subscription", "global/mine", topic="orders.mine")
        manager.refused(403, "CREATE", "subscription", "global/others", topic="orders.others")
        manager.refused(403, "CREATE", "queue", "orders.others")


def test_a_lease_ends_with_the_link_that_has_it(
    tmp_path: Path, own_gateway: Make, connect: Connect
) -> None:
    """Here as at the owner: what was acquired goes to others then."""
    with Fleet(tmp_path, own_gateway, {"commit": {"interval_ms": 50}}) as fleet:
        manager = Manager(connect("holder", port=fleet.main.port))
        manager.done("CREATE", "subscription", "global/leased", topic="orders.leased")
        manager.peer.sender("orders.leased").publish(1, 2, 3)
        said = {"holder": "h", "max": 3, "keep": "", "linger_ms": 0}
        got = manager.done("ACQUIRE", "subscription", "global/leased", **said)["acquired"]
        held = [one for text in got.values() for one in sequences_of(text)]
        assert len(held) == 3
        other = Manager(connect("other", port=fleet.orders.port))
        assert other.done("READ", "subscription", "global/leased")["in_flight"] == 3
        manager.peer.leave(manager.requests, closed=True)
        until(
            lambda: other.done("READ", "subscription", "global/leased")["in_flight"] == 0,
            "the lease ends",
        )


def test_requests_wait_for_an_owner_that_is_away(fleet: Fleet, manager: Manager) -> None:
    manager.done("CREATE", "queue", "orders.q")
    fleet.orders.kill()
    fleet.main.await_event("relay.lost")
    number = manager.send("READ", "queue", "orders.q")
    own = manager.send("READ", "queue", "nobody")
    assert manager.answer(own).status == 404  # the others aren't kept waiting
    fleet.orders.start()
    assert manager.answer(number).status == 200


def test_a_request_whose_owner_was_lost_may_be_done(fleet: Fleet, manager: Manager) -> None:
    manager.done("CREATE", "queue", "orders.q")
    fleet.orders.process.send_signal(signal.SIGSTOP)
    number = manager.send("PURGE", "queue", "orders.q")
    manager.done("READ", "node", "self")  # so it was asked
    fleet.orders.kill()
    answer = manager.answer(number)
    assert answer.status == 500
    assert "may be done or not" in answer.text
    fleet.orders.start()
    assert manager.ask("PURGE", "queue", "orders.q").status == 200


def test_who_goes_before_the_owner_has_heard_of_it_harms_nobody(
    tmp_path: Path, own_gateway: Make, connect: Connect
) -> None:
    """Its session there ends when the owner has answered its begin: an answer to one that has ended
    would be an error of the connection that all clients share. An answer that has nowhere to go any
    more begins no link."""
    with Fleet(tmp_path, own_gateway, {"owner": {"lease_ms": 60_000}}) as fleet:
        manager = Manager(connect("known", port=fleet.main.port))
        manager.done("CREATE", "queue", "orders.q")
        fleet.orders.process.send_signal(signal.SIGSTOP)
        hasty = Manager(connect("hasty", port=fleet.main.port))
        hasty.send("READ", "queue", "orders.q")
        own = hasty.send("READ", "node", "self")
        assert hasty.answer(own).status == 200  # so the one before is on its way
        hasty.peer.drop()
        leaving = Manager(connect("leaving", port=fleet.main.port))
        leaving.address = "orders.nowhere"
        leaving.send("READ", "queue", "orders.q")
        leaving.peer.leave(leaving.requests, closed=True)
        fleet.main.await_event("connection.closed")
        fleet.orders.process.send_signal(signal.SIGCONT)
        assert manager.done("READ", "queue", "orders.q")["name"] == "orders.q"
        leaving.peer.drop()
        fleet.main.await_event("connection.closed", 2)
        assert manager.done("READ", "queue", "orders.q")["name"] == "orders.q"
        assert not fleet.main.events("relay.lost")
        fleet.orders.kill()
        fleet.orders.start()  # all links that are left are made again
        assert manager.done("READ", "queue", "orders.q")["name"] == "orders.q"


def test_an_owner_that_stays_away_is_given_up(
    tmp_path: Path, own_gateway: Make, connect: Connect
) -> None:
    with Fleet(tmp_path, own_gateway, {"fleet": {"owner_wait_ms": 1_000}}) as fleet:
        manager = Manager(connect("patient", port=fleet.main.port))
        fleet.orders.kill()
        assert "owner_wait_ms" in manager.refused(500, "READ", "queue", "orders.q")
        fleet.orders.start()
        until(lambda: manager.ask("READ", "queue", "orders.q").status == 404, "the owner is back")


def test_a_log_without_an_owner_keeps_no_name_of_another_log(
    tmp_path: Path, own_gateway: Make, connect: Connect
) -> None:
    """It is the first one to be asked. A name that no other log has may be in that one, and so may
    one that is to be deleted: another log's is left alone."""
    fleet = Fleet(tmp_path, own_gateway, {"fleet": {"owner_wait_ms": 1_000}})
    logs = ("main", "nobodys", "orders")
    fleet.lake.replace(PLACEMENT, Placement(2, logs, PLACEMENT.rules))
    with fleet:
        manager = Manager(connect("asks", port=fleet.main.port))
        manager.done("CREATE", "subscription", "global/bills", topic="orders.bills")
        for _ in range(2):
            assert manager.done("READ", "subscription", "global/bills")["topic"] == "orders.bills"
        for asked in (
            ("READ", "subscription", "global/none"),
            ("DELETE", "subscription", "global/bills"),
        ):
            assert "'nobodys' was away" in manager.refused(500, *asked)
        assert manager.done("READ", "subscription", "global/bills")["topic"] == "orders.bills"


def test_no_stranger_has_a_coordinator_for_others(fleet: Fleet) -> None:
    """A gateway names in the source of such a link the client that it is for; the owner believes
    gateways alone."""
    with Raw(fleet.orders.port, hello=AMQP_HEADER) as raw:
        raw.send(open_frame("mallory"), begin_frame())
        source = composite(0x28, None, None, None, None, None, OF_ANOTHER)
        modes = (ubyte(0), ubyte(0))
        raw.send(frame(ATTACH, "c", uint(0), False, *modes, source, composite(0x30)))
        assert str(raw.next(DETACH).error) == "amqp:unauthorized-access"


@pytest.mark.parametrize("kind", ["schema", "topic", "queue"])
def test_a_name_that_is_too_long_is_no_ones(manager: Manager, kind: str) -> None:
    """No log is looked for: that takes the longer the longer it is, for each rule."""
    said = manager.refused(400, "READ", kind, ".".join(["*"] * 20_000 + ["#"]))
    assert "255" in said


def test_a_log_that_lists_less_at_once_is_named(
    tmp_path: Path, own_gateway: Make, connect: Connect
) -> None:
    """A query without a count is no error."""
    with Fleet(tmp_path, own_gateway) as fleet:
        fleet.orders.stop()
        less = own_gateway({"management": {"query_count_max": 50}})
        less.home, less.options = fleet.home, fleet.orders.options
        with less:
            less.await_event("address.said")
            manager = Manager(connect(port=fleet.main.port))
            for name in ("mine", "orders.its"):
                manager.done("CREATE", "queue", name)
            found = manager.done("QUERY", "queue", attributeNames=["name"])
            assert found["results"] == [["mine"]]
            assert "it may be 50" in found["missing"]["orders"]
            assert manager.done("QUERY", "queue", count=50)["total"] == 2
