"""Selectors on queues: a consumer gets of the queue what its selector matches, and what it doesn't
match stays for others. A browser's shows so much and changes nothing."""

from collections.abc import Callable

import pytest
from gateway_links import Incoming, encoded
from gateway_peer import Connect, Peer, selector
from gateway_process import Gateway
from proton import Delivery

Make = Callable[..., Gateway]


def of_queue(peer: Peer, name: str, text: str = "", **options: object) -> Incoming:
    filters = selector(text) if text else None
    return peer.receiver(name, capabilities=("queue",), filters=filters, **options)


def numbered(number: int, **fields: object) -> bytes:
    return encoded(number, properties={"n": number}, **fields)


def fill(peer: Peer, name: str, *messages: bytes) -> None:
    peer.sender(name, capabilities=("queue",)).publish_data(messages)


def all_of(incoming: Incoming) -> list[object]:
    """Everything that there is for this link now, accepted."""
    incoming.drain(5_000)
    taken, incoming.inbox = incoming.inbox, []
    incoming.confirm([got for got in taken if not got.delivery.settled])
    return [got.body for got in taken]


def test_each_consumer_gets_what_it_selects(connect: Connect, topic: str) -> None:
    """Two of them share what both match; what none matches stays for one that wants everything."""
    peer = connect()
    fill(peer, topic, *map(numbered, range(30)))
    low, high = of_queue(peer, topic, "n < 10"), of_queue(peer, topic, "n >= 20")
    assert all_of(high) == list(range(20, 30))
    assert all_of(low) == list(range(10))
    fill(peer, topic, numbered(5), numbered(25))
    assert all_of(low) == [5]
    assert all_of(high) == [25]
    assert all_of(of_queue(peer, topic)) == list(range(10, 20))


def test_the_filter_is_in_the_answer(connect: Connect, topic: str) -> None:
    """So the client knows that it is applied."""
    link = of_queue(connect(), topic, "n = 1")
    link.link.remote_source.filter.rewind()
    link.link.remote_source.filter.next()
    [(name, filter_)] = link.link.remote_source.filter.get_object().items()
    assert (str(name), filter_.value) == ("jms-selector", "n = 1")


def test_it_goes_to_whoever_has_credit_and_matches(connect: Connect, topic: str) -> None:
    """One whose messages wait for its credit doesn't hold up the others, and has them later."""
    peer = connect()
    even = of_queue(peer, topic, "n = 0 OR n = 2 OR n = 4")
    odd = of_queue(peer, topic, "n = 1 OR n = 3 OR n = 5")
    odd.link.flow(10)
    fill(peer, topic, *map(numbered, range(6)))
    assert odd.bodies(3) == [1, 3, 5]
    assert even.bodies(1) == [0]
    assert even.bodies(2) == [2, 4]


def test_what_comes_back_goes_to_who_selects_it(connect: Connect, topic: str) -> None:
    """Given back by one, it goes to another one that matches it, never to one that doesn't."""
    peer = connect()
    fill(peer, topic, *map(numbered, range(4)))
    some = of_queue(peer, topic, "n < 2")
    taken = some.take(2)
    other = of_queue(peer, topic, "n > 1")
    some.settle(taken, Delivery.RELEASED)
    peer.leave(some, closed=True)
    assert all_of(other) == [2, 3]
    assert all_of(of_queue(peer, topic, "n = 1")) == [1]
    assert all_of(of_queue(peer, topic)) == [0]


@pytest.mark.parametrize("ended", ["kill", "stop"])
def test_what_was_not_selected_is_there_after_a_restart(
    own_gateway: Make, connect: Connect, ended: str
) -> None:
    """The queue owes it still."""
    gateway = own_gateway().start()
    peer = connect(port=gateway.port)
    fill(peer, "q", *map(numbered, range(20)))
    assert all_of(of_queue(peer, "q", "n = 3 OR n = 13")) == [3, 13]
    getattr(gateway, ended)()
    peer = connect(port=gateway.start().port)
    assert all_of(of_queue(peer, "q", "n = 3 OR n = 13")) == []
    assert sorted(all_of(of_queue(peer, "q"))) == [  # type: ignore[type-var]
        n for n in range(20) if n not in (3, 13)
    ]


def test_few_among_many_are_found_in_the_table(own_gateway: Make, connect: Connect) -> None:
    """One in a hundred of a backlog far beyond memory; the others come afterwards, in order."""
    small = {"delivery": {"cache_bytes": 65_536, "page_bytes": 65_536}}
    gateway = own_gateway(small | {"commit": {"interval_ms": 50}}).start()
    peer = connect(port=gateway.port)
    fill(peer, "q", *[numbered(n, subject="x" * 200) for n in range(3_000)])
    rare = of_queue(peer, "q", " OR ".join(f"n = {n}" for n in range(0, 3_000, 100)))
    assert all_of(rare) == list(range(0, 3_000, 100))
    peer.leave(rare, closed=True)
    assert all_of(of_queue(peer, "q")) == [n for n in range(3_000) if n % 100]


def test_a_browser_sees_what_it_selects(connect: Connect, topic: str) -> None:
    """Of what waits and what came back; all of it is there afterwards."""
    peer = connect()
    fill(peer, topic, *map(numbered, range(20)))
    consumer = of_queue(peer, topic)
    consumer.settle(consumer.take(5), Delivery.RELEASED)
    peer.heard()
    for text, seen in (("n < 8", list(range(8))), ("n > 17", [18, 19]), ("n < 0", [])):
        browser = of_queue(peer, topic, text, copy=True, presettled=True)
        assert all_of(browser) == seen
        peer.leave(browser, closed=True)
    assert all_of(consumer) == list(range(20))


def test_priorities_hold_among_what_is_selected(connect: Connect, topic: str) -> None:
    """The urgent first, for each consumer."""
    peer = connect()
    fill(peer, topic, *[numbered(n, priority=9 if n % 5 == 0 else 4) for n in range(20)])
    some = of_queue(peer, topic, "n >= 10")
    assert all_of(some) == [10, 15, 11, 12, 13, 14, 16, 17, 18, 19]
    assert all_of(of_queue(peer, topic)) == [0, 5, 1, 2, 3, 4, 6, 7, 8, 9]


def test_a_selector_that_is_none_is_refused(connect: Connect, topic: str) -> None:
    """With its place, as on a topic."""
    peer = connect()
    link = of_queue(peer, topic, "n = = 1", opened=False)
    assert peer.amqp_error(link) == "amqp:invalid-field"


def test_what_nobody_selects_may_have_any_priority(connect: Connect, topic: str) -> None:
    """One of a low priority is looked at twice, when it is read and when nothing follows it, and
    waits. (The gateway stopped: "nothing becomes of 0".)"""
    peer = connect()
    fill(peer, topic, numbered(1, priority=1))
    fill(peer, f"{topic}.other", numbered(0))  # the log goes on behind it, the queue doesn't
    assert all_of(of_queue(peer, topic, "n = 2")) == []
    fill(peer, topic, numbered(2, priority=1))
    assert all_of(of_queue(peer, topic, "n = 2")) == [2]
    assert all_of(of_queue(peer, topic)) == [1]
