"""Consumers that take sequences and no bytes: in their turn, settled, kept over a lost
connection."""

import dis
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from gateway_jms import Jms
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer
from gateway_process import Gateway, until
from gateway_transactions import transacted

from distributary.ingest.delivery.leased_consumer import LeasedConsumer
from distributary.ingest.net.link import Link
from distributary.pipeline.log.log_identity import LogIdentity
from distributary.pipeline.sequences.range_text import sequences_of
from distributary.pipeline.tables.reading.part_reading import require_same

Make = Callable[..., Gateway]
#: Commits come soon, so that no test waits long for acquired messages.
SOON = {"commit": {"interval_ms": 50}}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Gateway(tmp_path_factory.mktemp("taking"), SOON) as running:
        yield running
        running.stop()
        running.verified()


def acquire(manager: Manager, name: str, **said: object) -> Any:
    """The answer's body, `acquired` as sequences by their failed attempts."""
    body = manager.done("ACQUIRE", "subscription", name, **{"holder": "h", "max": 100, **said})
    body["acquired"] = {int(n): list(sequences_of(text)) for n, text in body["acquired"].items()}
    return body


def settled_rows(gateway: Gateway, subscription: str) -> list[dict[str, Any]]:
    rows = DeltaTable(gateway.home / "tables" / "topic_log").to_pyarrow_table().to_pylist()
    return [
        row for row in rows if row["record"] == "settlement" and row["subscription"] == subscription
    ]


def owned(connect: Connect, gateway: Gateway, topic: str, count: int) -> str:
    """A shared durable subscription that is owed so many messages, and its name."""
    peer = connect(port=gateway.port)
    peer.leave(peer.shared_durable(topic, f"{topic}|global"), closed=False)
    peer.sender(topic).publish(*(f"m{n}" for n in range(count)))
    return f"global/{topic}"


def test_what_is_acquired_is_in_the_table_and_settled_as_by_any_consumer(
    lake: Gateway, connect: Connect, topic: str
) -> None:
    """The sequences of an answer can be read at once; their settlement is recorded by the name of
    its consumer, and raises the floor."""
    name = owned(connect, lake, topic, 5)
    manager = Manager(connect("job", port=lake.port))
    body = acquire(manager, name, keep="", max=3)
    [first, *others] = body["acquired"][0]
    assert others == [first + 1, first + 2]
    rows = DeltaTable(body["log"]).to_pyarrow_table(columns=["sequence", "topic"]).to_pylist()
    assert {row["sequence"] for row in rows if row["topic"] == topic} >= {first, *others}
    assert manager.done("READ", "subscription", name)["in_flight"] == 3
    text = f"{first}-{first + 2}"
    done = manager.done("SETTLE", "subscription", name, holder="h", sequences=text)
    assert done["settled"] == 3
    done = manager.done("SETTLE", "subscription", name, holder="h", sequences=text)
    assert done["settled"] == 0, "a second time changes nothing"
    assert manager.done("READ", "subscription", name)["floor"] == first + 3
    until(lambda: settled_rows(lake, name), "the settlement is in the table")
    rows = settled_rows(lake, name)
    assert {(row["consumer"], row["outcome"]) for row in rows} == {(f"job/{topic}", "accepted")}
    assert sorted(one for row in rows for one in row["sequences"]) == [first, *others]
    assert all(row["delivered_at"] <= row["settled_at"] for row in rows)


def test_it_takes_turns_with_other_consumers(lake: Gateway, connect: Connect, topic: str) -> None:
    """One message to a worker, one to the holder, as long as both have credit."""
    worker = connect(port=lake.port).shared_durable(topic, f"{topic}|global")
    worker.link.flow(5)
    worker.peer.write()
    manager = Manager(connect(port=lake.port))
    name = f"global/{topic}"
    acquire(manager, name, keep="", max=0)
    number = manager.send("ACQUIRE", "subscription", name, holder="h", max=5, wait_ms=5_000)
    manager.peer.until(lambda: not manager.requests.link.queued, "the request is written")
    Manager(connect(port=lake.port)).done("READ", "subscription", name)  # it has been read by now
    with Jms(lake.port) as jms:  # all ten in one group: the answer goes with the first that comes
        session = transacted(jms)
        session.post(session.producer(topic), *range(10))
        assert session.commit() == ""
    got = [int(one.body) for one in worker.take(5)]
    acquired = sequences_of(manager.answer(number).body["acquired"]["0"])
    assert len({one % 2 for one in got}) == len({one % 2 for one in acquired}) == 1, got
    assert len(acquired) == 5


def test_what_is_given_back_comes_again_with_its_failures(
    lake: Gateway, connect: Connect, topic: str
) -> None:
    """Released: as it was. Modified as failed: with one more failed attempt."""
    name = owned(connect, lake, topic, 2)
    manager = Manager(connect(port=lake.port))
    [a, b] = acquire(manager, name, keep="")["acquired"][0]
    settle = {"holder": "h", "sequences": str(a)}
    manager.done("SETTLE", "subscription", name, **settle, outcome="modified", failed=True)
    settle["sequences"] = str(b)
    manager.done("SETTLE", "subscription", name, **settle, outcome="released")
    assert acquire(manager, name)["acquired"] == {0: [b], 1: [a]}


def test_a_lost_holder_gets_back_what_it_keeps(lake: Gateway, connect: Connect, topic: str) -> None:
    """While it lingers no other consumer gets its messages; those that it doesn't keep are free at
    once."""
    name = owned(connect, lake, topic, 6)
    before = connect(port=lake.port)
    body = acquire(Manager(before), name, keep="", linger_ms=60_000)
    sequences = body["acquired"][0]
    before.drop()
    other = connect(port=lake.port).shared_durable(topic, f"{topic}|global")
    assert other.nothing()
    manager = Manager(connect(port=lake.port))
    keep = f"{sequences[0]}-{sequences[3]}"
    said = {"keep": keep, "incarnation": body["incarnation"], "max": 0}
    assert acquire(manager, name, **said)["kept"] == keep
    assert other.bodies(2) == ["m4", "m5"]
    done = manager.done("SETTLE", "subscription", name, holder="h", sequences=keep)
    assert done["settled"] == 4


def test_a_lost_holder_that_does_not_linger_is_a_lost_consumer(
    lake: Gateway, connect: Connect, topic: str
) -> None:
    """All of it goes to others, marked, as no failure. What they have it can't get back."""
    name = owned(connect, lake, topic, 3)
    before = connect(port=lake.port)
    body = acquire(Manager(before), name, keep="")
    before.drop()
    other = connect(port=lake.port).shared_durable(topic, f"{topic}|global")
    [got] = other.take(1)
    assert got.message.delivery_count == 1
    manager = Manager(connect(port=lake.port))
    [first, second, third] = body["acquired"][0]
    said = {"keep": f"{first}-{third}", "incarnation": body["incarnation"], "max": 0}
    kept = acquire(manager, name, **said)["kept"]
    assert sequences_of(kept).tolist() == [second, third]


def test_a_lost_holder_that_has_nothing_keeps_nobody_out(
    lake: Gateway, connect: Connect, topic: str
) -> None:
    """However long it would linger: of a subscription that takes one consumer, the next one can be
    it at once. With a message of its own it stays."""
    peer = connect("box", port=lake.port)
    peer.leave(peer.durable(topic, topic), closed=False)
    name = f"container/box/{topic}"
    peer.sender(topic).publish("a")
    peer.drop()
    before = connect("box", port=lake.port)
    manager = Manager(before)
    [sequence] = acquire(manager, name, keep="", linger_ms=600_000)["acquired"][0]
    manager.done("SETTLE", "subscription", name, holder="h", sequences=str(sequence))
    before.drop()
    again = connect("box", port=lake.port)
    until(lambda: Manager(again).done("READ", "subscription", name)["consumers"] == 0, "it ends")
    again.sender(topic).publish("b")
    manager = Manager(again)
    assert acquire(manager, name, keep="", linger_ms=600_000)["acquired"]
    again.drop()
    last = connect("box", port=lake.port)
    assert Manager(last).done("READ", "subscription", name)["consumers"] == 1


def test_after_a_kill_of_the_gateway_it_gets_back_what_it_kept(
    own_gateway: Make, connect: Connect, topic: str
) -> None:
    """No deliveries outlive the gateway: settled messages stay settled, and the holder claims the
    rest, but none that another incarnation is owed."""
    gateway = own_gateway(SOON).start()
    name = owned(connect, gateway, topic, 4)
    peer = connect(port=gateway.port)
    peer.sender(f"{topic}-other").publish("no message of ours")
    peer.sender(topic).publish("m4")
    manager = Manager(connect(port=gateway.port))
    body = acquire(manager, name, keep="", wait_ms=1_000)
    [first, *_, last] = sequences = body["acquired"][0]
    assert (len(sequences), last - first) == (5, 5)
    manager.done("SETTLE", "subscription", name, holder="h", sequences=str(first))
    gateway.kill()
    gateway.start()
    said = {"keep": f"{first}-{last}", "incarnation": body["incarnation"], "max": 0}
    manager = Manager(connect(port=gateway.port))
    kept = acquire(manager, name, **said)["kept"]
    assert list(sequences_of(kept)) == sequences[1:], "nor what is another topic's"
    manager.done("REWIND", "subscription", name, to=first)
    again = acquire(manager, name, **said)
    assert again["incarnation"] > body["incarnation"]
    assert again["kept"] == ""
    fresh = acquire(manager, name, wait_ms=5_000)["acquired"]
    assert sorted(one for part in fresh.values() for one in part) == sequences


def test_two_connections_can_not_both_be_one_holder(
    lake: Gateway, connect: Connect, topic: str
) -> None:
    """The one that began last has it; the other one is told so."""
    name = owned(connect, lake, topic, 2)
    one, two = Manager(connect(port=lake.port)), Manager(connect(port=lake.port))
    body = acquire(one, name, keep="")
    keep = f"{body['acquired'][0][0]}"
    kept = acquire(two, name, keep=keep, incarnation=body["incarnation"], max=0)["kept"]
    assert kept == keep
    text = one.refused(409, "SETTLE", "subscription", name, holder="h", sequences=keep)
    assert "begin with ACQUIRE" in text


def test_what_is_owed_can_be_seen_without_taking_it(
    lake: Gateway, connect: Connect, topic: str
) -> None:
    """Waiting messages, those in flight and those not read yet, with the selector to apply."""
    name = owned(connect, lake, topic, 4)
    consumer = connect(port=lake.port).shared_durable(topic, f"{topic}|global")
    [first, _] = consumer.take(2)
    consumer.confirm([first])
    manager = Manager(connect(port=lake.port))
    before = manager.done("READ", "subscription", name)
    body = manager.done("OWED", "subscription", name)
    owed = sequences_of(body["owed"]["0"]).tolist()
    assert len(owed) == 3
    assert (body["topic"], body["selector"]) == (topic, None)
    after = manager.done("READ", "subscription", name)
    assert (after["position"], after["in_flight"]) == (before["position"], before["in_flight"])


@pytest.mark.parametrize(
    ("status", "operation", "said", "sentence"),
    [
        (404, "ACQUIRE", {"keep": ""}, "no subscription global/"),
        (400, "ACQUIRE", {"holder": None}, "'holder' is missing"),
        (400, "SETTLE", {"sequences": "5-2"}, "no run of sequences"),
        (400, "SETTLE", {"sequences": "0-99999999"}, "more than 1000000 sequences"),
        (400, "SETTLE", {"sequences": "90000000"}, "isn't there yet"),
        (400, "SETTLE", {"sequences": "1", "outcome": "dropped"}, "'outcome' is 'dropped'"),
        (400, "ACQUIRE", {"max": 10_000_000}, "'max' is 10000000; it may be 1000000"),
        (409, "ACQUIRE", {"holder": "stranger"}, "begin with ACQUIRE and 'keep'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(
    lake: Gateway,
    connect: Connect,
    status: int,
    operation: str,
    said: dict[str, object],
    sentence: str,
) -> None:
    name = "missing" if status == 404 else owned(connect, lake, "nonsense", 1)
    manager = Manager(connect(port=lake.port))
    if status != 404:
        acquire(manager, name, keep="", max=0)
    full = name if "/" in name else f"global/{name}"
    body = {"holder": "h", **said}
    assert sentence in manager.refused(status, operation, "subscription", full, **body)


def test_an_exclusive_subscription_has_one_consumer(
    lake: Gateway, connect: Connect, topic: str
) -> None:
    """Its container's own connection may take by sequences, while it has no consumer."""
    peer = connect(f"{topic}-owner", port=lake.port)
    consumer = peer.durable(topic, "mine")
    name = f"container/{peer.container}/mine"
    said = {"holder": "h", "keep": "", "max": 1}
    text = Manager(peer).refused(409, "ACQUIRE", "subscription", name, **said)
    assert "mine" in text
    peer.leave(consumer, closed=False)
    peer.sender(topic).publish("a")
    assert len(acquire(Manager(peer), name, keep="")["acquired"][0]) == 1
    stranger = Manager(connect(port=lake.port))
    text = stranger.refused(409, "ACQUIRE", "subscription", name, holder="g", keep="", max=1)
    assert "belongs to the container" in text


def test_where_and_which_the_log_is_goes_with_every_answer(tmp_path: Path) -> None:
    """The answer has an absolute address for any spelling of the home, and the table's version with
    its entry. A request that takes nothing is told the same."""
    home = tmp_path / "work" / "build" / "home"
    home.parent.parent.mkdir()
    with Gateway(tmp_path / "lake", SOON) as gateway:
        gateway.stop()
        gateway.home = Path("build/home")
        gateway.spawn(before=lambda: os.chdir(home.parent.parent))
        until(lambda: len(gateway.events("listening")) > 1, "the gateway listens")
        with Peer(gateway.port) as peer:
            peer.leave(peer.shared_durable("t", "t|global"), closed=False)
            peer.sender("t").publish("a", "b")
            manager = Manager(peer)
            acquired = acquire(manager, "global/t", keep="", max=1)
            said = [
                acquired,
                manager.done("READ", "subscription", "global/t"),
                manager.done("OWED", "subscription", "global/t"),
            ]
            node = manager.done("READ", "node", "self")
        for one in said:
            assert one["log"] == str(home / "tables" / "topic_log")
            require_same(one["log"], {}, LogIdentity.of(one["table"]))
        assert LogIdentity.of(node["table"]).table == DeltaTable(said[0]["log"]).metadata().id
        assert "log" not in node, "a path is told to those who may consume"
        gateway.stop()


def test_a_lease_has_all_that_a_link_has() -> None:
    """It isn't made as links are, having no engine's link: what all links get, it sets itself."""

    def kept(cls: type) -> set[str]:
        code = dis.get_instructions(vars(cls)["__init__"])
        return {one.argval for one in code if one.opname == "STORE_ATTR"}

    assert kept(Link) - kept(LeasedConsumer) == {"proton", "_engine_link"}


def test_a_holder_that_is_closed_while_it_asks_is_told_so(
    lake: Gateway, connect: Connect, topic: str
) -> None:
    """Its list of kept messages takes many turns to read; meanwhile an operator ends it. Its
    connection goes on."""
    name = owned(connect, lake, topic, 16)
    manager, operator = Manager(connect(port=lake.port)), Manager(connect(port=lake.port))
    body = acquire(manager, name, keep="", max=1)
    first = body["acquired"][0][0]
    keep = ",".join([f"{first}-{first + 15}"] * 3_000)
    asked = {"holder": "h", "keep": keep, "incarnation": body["incarnation"], "max": 0}
    said = {"operation": "ACQUIRE", "type": "subscription", "name": name}
    request = encoded(asked, properties=said, id=7, reply_to=manager.address)
    manager.requests.outcome(manager.requests.send(request))
    assert operator.done("CLOSE", "subscription", name)["links"] == 1
    assert manager.answer(7).status == 409
    manager.peer.heard()


def test_the_lock_of_what_a_holder_has_back_ends_in_its_time(
    lake: Gateway, connect: Connect, topic: str
) -> None:
    """A holder that was lost has again what was released meanwhile, and hangs: it is free when its
    lock has ended, though nothing else happens."""
    name = owned(connect, lake, topic, 1)
    before = connect(port=lake.port)
    body = acquire(Manager(before), name, keep="")
    [sequence] = body["acquired"][0]
    before.drop()
    manager = Manager(connect(port=lake.port))

    def free() -> bool:
        return not manager.done("READ", "subscription", name)["in_flight"]

    until(free, "the release")
    manager.done("UPDATE", "subscription", name, policy={"lock_ms": 500})
    said = {"keep": str(sequence), "incarnation": body["incarnation"], "max": 0}
    assert acquire(manager, name, **said)["kept"] == str(sequence)
    until(free, "the end of the lock")
