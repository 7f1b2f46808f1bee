"""Requests to `$management` of a gateway that are about another gateway's log: the log's owner
answers them, for the client's user.

That they are answered as local ones is shown by the tests of those, too, with `RELAYED=1`; lists
are the gateway's own.
"""

import signal
from collections.abc import Callable
from pathlib import Path

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

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.sequences.range_text import sequences_of

Make = Callable[..., Gateway]


def names(manager: Manager, kind: str, log: str = "") -> tuple[set[str], str]:
    """What a query lists, and of which log it says that this is."""
    said = {"operation": "QUERY", "type": kind} | ({"log": log} if log else {})
    data = encoded({"attributeNames": ["name"]}, properties=said, id=1, reply_to=manager.address)
    manager.requests.send(data)
    message = manager.answers.take()[0].message
    assert message.properties["statusCode"] == 200, message.properties
    return {row[0] for row in message.body["results"]}, message.properties["log"]


@pytest.fixture
def manager(fleet: Fleet, connect: Connect) -> Manager:
    """At the gateway that doesn't own `orders`."""
    return Manager(connect("manager", port=fleet.main.port))


def test_a_queue_is_made_read_and_ended_where_it_is(fleet: Fleet, manager: Manager) -> None:
    assert manager.ask("CREATE", "queue", "orders.q", policy={"lock_ms": 30_000}).status == 201
    assert manager.done("READ", "queue", "queue://orders.q")["policy"] == {"lock_ms": 30_000}
    manager.done("CREATE", "queue", "own.q")
    assert names(manager, "queue") == ({"own.q"}, "main")
    assert names(manager, "queue", "orders") == ({"orders.q"}, "orders")
    there = Manager(Peer(fleet.orders.port, "there"))
    assert names(there, "queue") == ({"orders.q"}, "orders")
    manager.peer.sender("orders.q", capabilities=("queue",)).publish(1, 2)
    assert "2" in manager.ask("PURGE", "queue", "orders.q").text
    manager.done("DELETE", "queue", "orders.q", force=True)
    assert names(there, "queue") == (set(), "orders")
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
    assert names(manager, "subscription")[0] == {"global/news"}
    assert names(manager, "subscription", "orders")[0] == {"global/orders.eu"}
    manager.refused(404, "READ", "subscription", "global/nowhere")
    manager.refused(501, "CREATE", "subscription", "global/all", topic="#")
    for topic in ("orders.eu", "news"):
        manager.done("DELETE", "subscription", f"global/{topic}")
    manager.refused(404, "READ", "subscription", "global/orders.eu")


def test_a_schema_is_set_where_its_topics_are(fleet: Fleet, manager: Manager) -> None:
    for name in ("orders.checked", "orders.all.*"):
        manager.done("UPDATE", "schema", name, **schema(validate="refuse"))
        assert manager.done("READ", "schema", name)["version"] == 1
    assert names(manager, "schema") == (set(), "main")
    for topic in ("orders.checked", "orders.all.one"):
        good, bad = sent(manager.peer, topic, b'{"id": 1}', b'{"id": "x"}')
        assert good.remote_state == Delivery.ACCEPTED
        assert "id" in why(bad)
    manager.refused(501, "UPDATE", "schema", "#", **schema())
    manager.done("DELETE", "schema", "orders.checked")


def test_dead_letters_are_named_and_go_back(fleet: Fleet, manager: Manager) -> None:
    """Those of a topic's subscription in another log than `main` have its name in theirs."""
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


def test_an_answer_goes_to_a_queue_of_another_log(fleet: Fleet, manager: Manager) -> None:
    """That one is made there, and not here; a request that is answered by the other log, too."""
    answers = Peer(fleet.orders.port, "answers")
    taken = answers.receiver("queue://orders.answers", capabilities=("queue",))
    requests = manager.peer.sender(NODE)
    for number, (kind, name) in enumerate((("node", "self"), ("queue", "orders.answers"))):
        said = {"operation": "READ", "type": kind, "name": name}
        data = encoded(None, properties=said, id=number, reply_to="queue://orders.answers")
        requests.publish_data([data])
        [got] = taken.take(1)
        assert got.message.correlation_id == number
        assert got.message.properties["statusCode"] == 200
    assert names(manager, "queue") == (set(), "main")
    assert requests.link.credit <= 32, "an answer gives its request's credit back once"
    answers.drop()


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
    """A gateway says in the source of such a link for whom it is; nobody else is believed."""
    with Raw(fleet.orders.port, hello=AMQP_HEADER) as raw:
        raw.send(open_frame("mallory"), begin_frame())
        source = composite(0x28, None, None, None, None, None, OF_ANOTHER)
        modes = (ubyte(0), ubyte(0))
        raw.send(frame(ATTACH, "c", uint(0), False, *modes, source, composite(0x30)))
        assert str(raw.next(DETACH).error) == "amqp:unauthorized-access"
