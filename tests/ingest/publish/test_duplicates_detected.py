"""Duplicate detection over real links: what was published before is accepted and not kept again."""

import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest
from gateway_links import Outgoing, encoded
from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway, past
from gateway_schemas import schema
from proton import Delivery, symbol, ulong

Make = Callable[..., Gateway]

POLICIES = """
[[topic]]
match = "*"
duplicates_messages = 1000
[[topic]]
match = "queue://*"
duplicates_messages = 1000
[[topic]]
match = "three"
duplicates_messages = 3
[[topic]]
match = "moment"
duplicates_messages = 0
duplicates_ms = 300
[[topic]]
match = "plain"
duplicates_messages = 0
[[subscription]]
match = "queue/full"
backlog_messages_max = 3
"""


@pytest.fixture
def detecting(own_gateway: Make, tmp_path: Path) -> Gateway:
    """A gateway that looks for duplicates everywhere but on `plain`."""
    file = tmp_path / "policies.toml"
    file.write_text(POLICIES)
    return own_gateway({"delivery": {"policies": str(file)}}).start()


def say(link: Outgoing, *messages: tuple[object, object], **options: object) -> None:
    """Publish messages of these ids and bodies; all of them are accepted."""
    link.publish_data([encoded(body, id=name, **options) for name, body in messages])


def test_what_was_published_before_is_accepted_and_not_kept_again(
    detecting: Gateway, connect: Connect
) -> None:
    """On this link or another one, in one run or two; what has no id is no duplicate."""
    peer, other = connect(port=detecting.port), connect(port=detecting.port)
    receiver = peer.receiver("t")
    one, two = peer.sender("t"), other.sender("t")
    say(one, ("a", 1), ("b", 2), ("a", 3), (None, 4), (None, 5))
    say(two, ("b", 6), ("a", 7))
    say(two, ("c", 8), ("b", 9), ("d", 10))
    assert receiver.bodies(6) == [1, 2, 4, 5, 8, 10]
    assert receiver.nothing()
    elsewhere = peer.receiver("plain")
    say(peer.sender("plain"), ("a", 1), ("a", 2))
    assert elsewhere.bodies(2) == [1, 2]


def test_ids_of_different_types_are_different(detecting: Gateway, connect: Connect) -> None:
    """And a duplicate id of its own stands for that of the message."""
    peer = connect(port=detecting.port)
    receiver, link = peer.receiver("t"), peer.sender("t")
    same = "00000000-0000-0000-0000-000000000007"
    ids = [ulong(7), "7", UUID(same), b"7", same]
    say(link, *[(name, number) for number, name in enumerate(ids)])
    say(link, *[(name, "again") for name in ids])
    for name, body in (("x", "own"), ("y", "own again"), ("7", "of another")):
        own = {symbol("x-opt-duplicate-id"): "mine" if body != "of another" else "other"}
        say(link, (name, body), annotations=own)
    say(link, ("x", "by its own id"))
    assert receiver.bodies(8) == [0, 1, 2, 3, 4, "own", "of another", "by its own id"]
    assert receiver.nothing()


def test_a_window_has_an_end(detecting: Gateway, connect: Connect) -> None:
    """By number, or by time."""
    peer = connect(port=detecting.port)
    receiver, link = peer.receiver("three"), peer.sender("three")
    say(link, *[(name, name) for name in ("a", "b", "c", "d", "b", "a")])
    assert receiver.bodies(5) == ["a", "b", "c", "d", "a"]
    assert receiver.nothing()
    receiver, link = peer.receiver("moment"), peer.sender("moment")
    say(link, ("a", 1), ("a", 2))
    past(time.time() + 0.3)
    say(link, ("a", 3), ("a", 4))
    assert receiver.bodies(2) == [1, 3]
    assert receiver.nothing()


def test_each_way_of_publishing_is_looked_at(detecting: Gateway, connect: Connect) -> None:
    """The relay, settled and non-persistent messages; a topic and a queue of one name are two."""
    peer = connect(port=detecting.port)
    topic, queue = peer.receiver("t"), peer.receiver("queue://t", capabilities=("queue",))
    relay = peer.sender(None)
    addresses = ["t", "queue://t", "t", "t", "queue://t"]
    ids = ["a", "a", "b", "a", "a"]
    relay.publish_data(
        [
            encoded(number, id=name, address=address)
            for number, (name, address) in enumerate(zip(ids, addresses, strict=True))
        ]
    )
    say(peer.sender("t"), ("b", "non-persistent"), ("n", "new"), durable=False)
    presettled = peer.sender("t", presettled=True)
    for name in ("a", "n", "m", "m"):
        presettled.send(encoded(name, id=name), settled=True)
    assert topic.bodies(4) == [0, 2, "new", "m"]
    assert queue.bodies() == [1]
    assert topic.nothing()
    assert queue.nothing()


def test_a_duplicate_waits_for_the_disk_as_the_first_one_does(
    own_gateway: Make, connect: Connect, tmp_path: Path
) -> None:
    """Killed before that, neither was accepted, and neither is known afterwards."""
    file = tmp_path / "policies.toml"
    file.write_text(POLICIES)
    settings = {"delivery": {"policies": str(file)}, "journal": {"linger_ms": 1_000}}
    gateway = own_gateway(settings).start()
    peer, other = connect("c", port=gateway.port), connect(port=gateway.port)
    peer.leave(peer.durable("t", "kept"), closed=False)
    one, two = peer.sender("t"), other.sender("t")
    first = one.send(encoded("first", id="a"))
    peer.heard()
    again = two.send(encoded("again", id="a"))
    at_once = two.send(encoded("non-persistent", id="b", durable=False))
    assert two.outcome(at_once) == Delivery.ACCEPTED
    assert not again.settled
    assert two.outcome(again) == Delivery.ACCEPTED
    assert one.outcome(first) == Delivery.ACCEPTED
    lost = one.send(encoded("lost", id="c"))
    peer.heard()
    assert not lost.settled
    peer.drop()
    gateway.kill()
    gateway.start()
    peer = connect("c", port=gateway.port)
    say(peer.sender("t"), ("c", "sent again"), ("a", "once more"))
    receiver = peer.durable("t", "kept")
    assert receiver.bodies(3) == ["first", "non-persistent", "sent again"]
    assert receiver.nothing()


def test_the_same_from_two_connections_is_kept_once(detecting: Gateway, connect: Connect) -> None:
    """Many at once from two connections: each is kept once, and all are accepted."""
    peers = [connect(port=detecting.port) for _ in range(2)]
    receiver = peers[0].receiver("t")
    links = [peer.sender("t") for peer in peers]
    sent = [[link.send(encoded(n, id=f"id-{n}")) for n in range(300)] for link in links]
    for peer in peers:
        peer.write()
    for link, deliveries in zip(links, sent, strict=True):
        assert {link.outcome(delivery) for delivery in deliveries} == {Delivery.ACCEPTED}
    assert sorted(receiver.bodies(300)) == list(range(300))
    assert receiver.nothing()


def test_what_was_refused_may_come_again(detecting: Gateway, connect: Connect) -> None:
    """An id counts only when its message was taken."""
    peer = connect(port=detecting.port)
    relay = peer.sender(None)
    lost = relay.send(encoded("nowhere", id="a"))
    assert relay.outcome(lost) == Delivery.REJECTED
    receiver = peer.receiver("t")
    relay.publish_data([encoded("somewhere", id="a", address="t")])
    assert receiver.bodies() == ["somewhere"]


def ended(gateway: Gateway, *, killed: bool) -> None:
    if killed:
        gateway.kill()
    else:
        gateway.stop()


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_what_was_published_before_a_restart_is_known_after_it(
    detecting: Gateway, connect: Connect, *, killed: bool
) -> None:
    """Also what other topics' messages lie between, and what came just before the end; as far back
    as the window reaches."""
    peer = connect(port=detecting.port)
    peer.durable("t", "kept")
    for number in range(3):
        say(peer.sender("t"), (f"t{number}", number))
        say(peer.sender("plain"), (f"t{number}", number))
        say(peer.sender("three"), *[(f"{number}-{n}", n) for n in range(3)])
    peer.drop()
    ended(detecting, killed=killed)
    detecting.start()
    peer = connect(peer.container, port=detecting.port)
    three = peer.receiver("three")
    say(peer.sender("t"), *[(f"t{number}", "again") for number in range(3)], ("t3", 3))
    say(peer.sender("three"), *[(f"2-{n}", "again") for n in range(3)])
    say(peer.sender("three"), *[(f"1-{n}", "long ago") for n in range(3)])
    assert peer.durable("t", "kept").bodies(4) == [0, 1, 2, 3]
    assert three.bodies(3) == ["long ago"] * 3
    assert three.nothing()


def test_a_duplicate_of_a_stored_message_needs_no_room(
    detecting: Gateway, connect: Connect
) -> None:
    """A publisher whose answer was lost sends its messages again to a queue that is full by them:
    they are accepted, in any run, and after a restart. New ones among them are refused."""
    yes, no = Delivery.ACCEPTED, Delivery.REJECTED
    for _ in range(2):
        link = connect(port=detecting.port).sender("queue://full")
        for _ in range(2):
            sent = [link.send(encoded(name, id=name)) for name in "abc"]
            assert [link.outcome(one) for one in sent] == [yes] * 3
        sent = [link.send(encoded(name, id=name)) for name in ("new", "a", "new", None, "b")]
        assert [link.outcome(one) for one in sent] == [no, yes, no, no, yes]
        detecting.kill()
        detecting.start()
    receiver = connect(port=detecting.port).receiver("queue://full", capabilities=("queue",))
    assert receiver.bodies(3) == ["a", "b", "c"]
    assert receiver.nothing()


def test_a_duplicate_of_a_stored_message_needs_not_fit_a_later_schema(
    detecting: Gateway, connect: Connect
) -> None:
    """A schema was set between a message and its repeat: the repeat is accepted, as a rejection
    would say that the message isn't stored. A new message is checked."""
    yes, no = Delivery.ACCEPTED, Delivery.REJECTED
    peer = connect(port=detecting.port)
    receiver, link, manager = peer.receiver("t"), peer.sender("t"), Manager(peer)
    relay = peer.sender(None)

    def outcomes(*names: str) -> list[object]:
        some = [link.send(encoded(b"no json", id=name)) for name in names]
        some += [relay.send(encoded(b"no json", id=name, address="t")) for name in names]
        return [link.outcome(one) for one in some[: len(names)]] + [
            relay.outcome(one) for one in some[len(names) :]
        ]

    peer.until(lambda: relay.link.credit > 0, "credit")
    assert outcomes("a") == [yes] * 2
    manager.done("UPDATE", "schema", "t", **schema(validate="refuse"))
    assert outcomes("new", "a", "newer") == [no, yes, no] * 2
    assert len(receiver.take(1)) == 1
    assert receiver.nothing()
