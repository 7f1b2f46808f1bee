"""Choice of a message's consumer: groups, locks, single active consumers, consumers' priority."""

import time
from collections.abc import Callable, Iterable

from gateway_links import Got, Incoming, encoded
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from in_time import InTime, in_time
from proton import Delivery, int32, symbol

Make = Callable[..., Gateway]


def of_queue(peer: Peer, name: str, **options: object) -> Incoming:
    return peer.receiver(name, capabilities=("queue",), **options)


def fill(peer: Peer, name: str, *messages: bytes) -> None:
    peer.sender(name, capabilities=("queue",)).publish_data(messages)


def of_group(group: str, n: int) -> bytes:
    return encoded([group, n], group_id=group)


def bodies(taken: Iterable[Got]) -> list[object]:
    return [got.body for got in taken]


def come(link: Incoming) -> list[Got]:
    """The messages that have come by now."""
    link.peer.heard()
    taken, link.inbox = link.inbox, []
    return taken


def prior(peer: Peer, name: str, priority: object, key: str = "priority") -> Incoming:
    """A consumer that says its priority when it attaches; its answer is not waited for if that is
    no number."""
    link = peer.session.receiver(f"prior-{priority}-{key}")
    link.source.address = name
    link.source.capabilities.put_array(False, 21)
    link.source.capabilities.enter()
    link.source.capabilities.put_symbol(symbol("queue"))
    link.source.capabilities.exit()
    number = isinstance(priority, int)
    link.properties = {symbol(key): int32(priority) if number else priority}
    link.owner = incoming = Incoming(peer, link)
    peer.links.append(link)
    link.open()
    if number:
        peer.attached(link)
    return incoming


# Groups.


def test_a_group_goes_to_one_consumer_in_its_order(connect: Connect, topic: str) -> None:
    """However many there are; messages of no group are dealt out as ever."""
    peer = connect()
    links = [of_queue(peer, topic) for _ in range(3)]
    for link in links:
        link.link.flow(100)
    fill(peer, topic, *[of_group("abcdefghi"[n % 9], n) for n in range(90)])
    got = [bodies(come(link)) for link in links]
    assert sum(map(len, got)) == 90
    owners: dict[str, set[int]] = {}
    for nth, some in enumerate(got):
        for group, _ in some:  # type: ignore[misc]
            owners.setdefault(group, set()).add(nth)
        for group in "abcdefghi":
            mine = [n for name, n in some if name == group]  # type: ignore[misc]
            assert mine == sorted(mine)
    assert all(len(who) == 1 for who in owners.values())
    assert len(owners) == 9
    assert all(got)


def test_a_group_moves_when_its_consumer_goes(connect: Connect, topic: str) -> None:
    """Messages that the first consumer held come first, in order, to the group's new consumer."""
    peer = connect()
    first = of_queue(peer, topic)
    fill(peer, topic, *[of_group("a", n) for n in range(6)])
    held = first.take(3)
    second = of_queue(peer, topic)
    second.link.flow(10)
    assert come(second) == []
    first.confirm(held[:1])
    peer.leave(first, closed=True)
    assert bodies(second.take(5, credit=False)) == [["a", n] for n in range(1, 6)]


def test_a_group_that_waits_holds_up_no_other(connect: Connect, topic: str) -> None:
    """Its consumer has no credit; others get what isn't of this group."""
    peer = connect()
    first = of_queue(peer, topic)
    fill(peer, topic, of_group("a", 0))
    assert bodies(first.take()) == [["a", 0]]
    second = of_queue(peer, topic)
    second.link.flow(10)
    fill(peer, topic, of_group("a", 1), of_group("b", 2), encoded("free"), of_group("a", 3))
    assert bodies(second.take(2, credit=False)) == [["b", 2], "free"]
    assert bodies(first.take(2)) == [["a", 1], ["a", 3]]
    assert come(second) == []


def test_groups_are_known_where_only_the_table_has_them(
    own_gateway: Make, connect: Connect
) -> None:
    """After a restart and beyond memory: one consumer for each, in order."""
    small = {"delivery": {"cache_bytes": 65_536, "page_bytes": 65_536}}
    gateway = own_gateway(small | {"commit": {"interval_ms": 50}}).start()
    peer = connect(port=gateway.port)
    fill(peer, "q", *[of_group(f"g{n % 20}", n) for n in range(1_000)])
    peer.close()
    gateway.stop()
    peer = connect(port=gateway.start().port)
    links = [of_queue(peer, "q") for _ in range(3)]
    for link in links:
        link.link.flow(1_000)
    peer.until(lambda: sum(len(link.inbox) for link in links) == 1_000, "all of them")
    seen: dict[str, list[tuple[int, int]]] = {}
    for nth, link in enumerate(links):
        for group, n in bodies(link.inbox):  # type: ignore[misc]
            seen.setdefault(group, []).append((nth, n))
    assert len(seen) == 20
    for some in seen.values():
        assert len({nth for nth, _ in some}) == 1
        assert [n for _, n in some] == sorted(n for _, n in some)


def test_an_operator_may_want_no_groups(own_gateway: Make, connect: Connect) -> None:
    """`message_groups = false`: every message is dealt out."""
    gateway = own_gateway({"subscription": {"message_groups": False}}).start()
    peer = connect(port=gateway.port)
    links = [of_queue(peer, "q") for _ in range(2)]
    for link in links:
        link.link.flow(10)
    fill(peer, "q", *[of_group("a", n) for n in range(10)])
    assert [len(come(link)) for link in links] == [5, 5]


# Locks.


def test_a_delivery_held_too_long_goes_to_the_next(own_gateway: Make, connect: Connect) -> None:
    """With one failure counted; what the first consumer says afterwards changes nothing."""
    gateway = own_gateway({"subscription": {"lock_ms": 400}}).start()
    peer = connect(port=gateway.port)
    fill(peer, "q", encoded("x"))
    first, second = of_queue(peer, "q"), of_queue(peer, "q")
    began = time.time()
    [late] = first.take()
    [again] = second.take()
    assert time.time() - began >= 0.399
    assert (again.body, again.message.delivery_count) == ("x", 1)
    first.confirm([late], Delivery.REJECTED)
    second.confirm([again])
    assert of_queue(peer, "q").nothing()
    assert of_queue(peer, "queue://DLQ.queue/q").nothing()


def test_locks_that_end_are_failures_that_add_up(own_gateway: Make, connect: Connect) -> None:
    """A consumer that never answers: after so many attempts the message is given up, and others
    are delivered."""
    gateway = own_gateway({"subscription": {"lock_ms": 100, "delivery_attempts_max": 3}}).start()
    peer = connect(port=gateway.port)
    fill(peer, "q", encoded("poison"))
    consumer = of_queue(peer, "q")
    assert [got.message.delivery_count for got in consumer.take(3)] == [0, 1, 2]
    [got] = of_queue(peer, "queue://DLQ.queue/q").take()
    assert got.message.annotations["x-opt-dead-letter-reason"] == "exhausted"
    assert got.message.annotations["x-opt-dead-letter-attempts"] == 3
    assert consumer.nothing()


def test_in_time_is_in_time(own_gateway: Make, connect: Connect) -> None:
    """A lock that ends for one delivery ends for no other: what is given again has a new one."""

    def attempt(lock: InTime) -> None:
        gateway = own_gateway({"subscription": {"lock_ms": lock.ms}}).start()
        peer = connect(port=gateway.port)
        fill(peer, "q", encoded("x"))
        consumer = of_queue(peer, "q")
        for _ in range(4):
            with lock.within():
                taken = consumer.take()
                assert taken[0].message.delivery_count == 0
                time.sleep(lock.seconds / 2)  # the stimulus: held for half of a lock's time
                consumer.settle(taken, Delivery.RELEASED)
                peer.heard()
        assert consumer.bodies() == ["x"]

    in_time(attempt, 0.6)


# One consumer, or some before others.


def test_one_consumer_gets_all_and_the_next_takes_over(own_gateway: Make, connect: Connect) -> None:
    """`single_active`: in their order of coming, and what the first one held comes first."""
    gateway = own_gateway({"subscription": {"single_active": True}}).start()
    peer = connect(port=gateway.port)
    first, second, third = (of_queue(peer, "q") for _ in range(3))
    for link in (first, second, third):
        link.link.flow(100)
    fill(peer, "q", *map(encoded, range(10)))
    assert bodies(come(first)) == list(range(10))
    assert come(second) == come(third) == []
    peer.leave(first, closed=True)
    assert bodies(second.take(10, credit=False)) == list(range(10))
    fill(peer, "q", encoded(10))
    assert bodies(second.take(1, credit=False)) == [10]
    assert come(third) == []


def test_a_priority_is_a_number(connect: Connect, topic: str) -> None:
    """Anything else is refused, and the connection goes on."""
    peer = connect()
    assert peer.amqp_error(prior(peer, topic, "high")) == "amqp:invalid-field"
    fill(peer, topic, encoded(1))
    assert bodies(prior(peer, topic, 1).take(1)) == [1]


def test_who_goes_first_says_so_when_it_attaches(connect: Connect, topic: str) -> None:
    """While one of a higher priority has credit it gets all; then the next lower ones share."""
    peer = connect()
    usual = of_queue(peer, topic)
    lowest = prior(peer, topic, -3, "rabbitmq:priority")
    highest = prior(peer, topic, 5)
    for link, credit in ((usual, 4), (lowest, 100), (highest, 3)):
        link.link.flow(credit)
    peer.heard()
    fill(peer, topic, *map(encoded, range(10)))
    assert bodies(come(highest)) == [0, 1, 2]
    assert bodies(come(usual)) == [3, 4, 5, 6]
    assert bodies(come(lowest)) == [7, 8, 9]
