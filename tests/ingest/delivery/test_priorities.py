"""Priority decides who goes first: on queues and subscriptions, from memory and from the table,
before a restart and after it. Within one priority it is the order of publishing."""

import random
from collections.abc import Callable

from gateway_links import Incoming, encoded
from gateway_peer import Connect, Peer, selector
from gateway_process import Gateway
from proton import Delivery

Make = Callable[..., Gateway]
SMALL = {
    "delivery": {"cache_bytes": 65_536, "page_bytes": 65_536},
    "commit": {"interval_ms": 50},
}


def of_queue(peer: Peer, name: str, **options: object) -> Incoming:
    return peer.receiver(name, capabilities=("queue",), **options)


def urgent(priority: int, body: object) -> bytes:
    return encoded(body, priority=priority)


def fill(peer: Peer, name: str, *messages: bytes) -> None:
    peer.sender(name, capabilities=("queue",)).publish_data(messages)


def mixed(number: int) -> list[tuple[int, int]]:
    """Messages of all priorities in no order: (priority, number)."""
    dice = random.Random(9)
    return [(dice.choice([0, 3, 4, 4, 4, 4, 5, 9]), n) for n in range(number)]


def publish(peer: Peer, name: str, messages: list[tuple[int, int]]) -> None:
    fill(peer, name, *[urgent(priority, [priority, n]) for priority, n in messages])


def ordered(messages: list[tuple[int, int]]) -> list[list[int]]:
    return [[priority, n] for priority, n in sorted(messages, key=lambda one: (-one[0], one[1]))]


def test_the_urgent_go_first(connect: Connect, topic: str) -> None:
    """A backlog comes by priority; what comes while a consumer waits comes as it comes."""
    peer = connect()
    messages = mixed(200)
    publish(peer, topic, messages)
    consumer = of_queue(peer, topic)
    assert consumer.bodies(200) == ordered(messages)
    consumer.link.flow(3)
    for priority in (1, 9, 4):
        fill(peer, topic, urgent(priority, priority))
    assert [got.body for got in consumer.take(3, credit=False)] == [1, 9, 4]


def test_so_it_is_on_every_subscription(connect: Connect, topic: str) -> None:
    """Durable ones, shared ones, and those without a name, each for itself."""
    peer = connect()
    links = [peer.durable(topic, "d"), peer.shared(topic, "s"), peer.receiver(topic)]
    messages = mixed(60)
    peer.sender(topic).publish_data([urgent(priority, [priority, n]) for priority, n in messages])
    for link in links:
        assert link.bodies(60) == ordered(messages)


def test_with_little_credit_the_order_is_the_same(connect: Connect, topic: str) -> None:
    """One by one, and what comes meanwhile takes its place."""
    peer = connect()
    messages = mixed(40)
    publish(peer, topic, messages[:20])
    consumer = of_queue(peer, topic)
    got = [consumer.bodies()[0] for _ in range(10)]
    assert got == ordered(messages[:20])[:10]
    publish(peer, topic, messages[20:])
    left = [one for one in messages if list(one) not in got]
    assert [consumer.bodies()[0] for _ in range(30)] == ordered(left)


def test_a_restart_keeps_the_order(own_gateway: Make, connect: Connect) -> None:
    """After a kill the table tells what is urgent, and after that the memory, too."""
    gateway = own_gateway().start()
    messages = mixed(300)
    publish(connect(port=gateway.port), "q", messages[:200])
    gateway.kill()
    peer = connect(port=gateway.start().port)
    publish(peer, "q", messages[200:])
    consumer = of_queue(peer, "q")
    assert consumer.bodies(300) == ordered(messages)
    assert consumer.nothing()


def test_a_backlog_that_only_the_table_has_comes_in_order(
    own_gateway: Make, connect: Connect
) -> None:
    """Ten times what memory holds: each message once, the urgent ones first though they lie on
    many pages, the others in their order, and one that comes at the end before all that wait."""
    gateway = own_gateway(SMALL).start()
    peer = connect(port=gateway.port)
    messages = mixed(2_000)
    pad = "x" * 300
    fill(peer, "q", *[urgent(priority, [priority, n, pad]) for priority, n in messages])
    consumer = of_queue(peer, "q")
    first = [body[:2] for body in consumer.bodies(500)]  # type: ignore[index]
    fill(peer, "q", urgent(9, [9, 2_000, pad]))
    rest = [body[:2] for body in consumer.bodies(1_501)]  # type: ignore[index]
    in_order = ordered(messages)
    assert first == in_order[:500]
    assert rest == ordered([(p, n) for p, n in [*map(tuple, in_order[500:]), (9, 2_000)]])
    assert consumer.nothing()


def test_what_comes_back_has_its_place_again(own_gateway: Make, connect: Connect) -> None:
    """Urgent messages given back go before what waits, though they lie on pages of long ago."""
    gateway = own_gateway(SMALL).start()
    peer = connect(port=gateway.port)
    pad = "x" * 500
    fill(peer, "q", *[urgent(9 if n % 50 == 0 else 4, [n, pad]) for n in range(1_000)])
    consumer = of_queue(peer, "q")
    taken = consumer.take(20)
    assert [got.body[0] for got in taken] == list(range(0, 1_000, 50))
    assert [body[0] for body in consumer.bodies(300)][:3] == [1, 2, 3]  # type: ignore[index]
    consumer.settle(taken, Delivery.RELEASED)
    peer.heard()
    back = [body[0] for body in consumer.bodies(21)]  # type: ignore[index]
    assert back[:20] == list(range(0, 1_000, 50))
    assert back[20] > 300


def test_a_kill_while_the_urgent_overtake_loses_nothing(
    own_gateway: Make, connect: Connect
) -> None:
    """Accepted messages come no more; those handed out come marked as redelivered, and those that
    waited come unmarked."""
    gateway = own_gateway(SMALL).start()
    peer = connect(port=gateway.port)
    fill(peer, "q", *[urgent(9 if n % 10 == 0 else 4, n) for n in range(500)])
    consumer = of_queue(peer, "q")
    taken = consumer.take(30)
    assert [got.body for got in taken] == list(range(0, 300, 10))
    consumer.confirm(taken[:20])
    gateway.kill()
    consumer = of_queue(connect(port=gateway.start().port), "q")
    again = consumer.take(480)
    accepted = set(range(0, 200, 10))
    high = [n for n in range(0, 500, 10) if n not in accepted]
    low = [n for n in range(500) if n % 10]
    assert [got.body for got in again] == high + low
    assert all(got.message.delivery_count == 1 for got in again[:10])
    assert again[-1].message.delivery_count == 0
    assert consumer.nothing()
    gateway.kill()
    gateway.verified()


def test_a_selector_leaves_the_urgent_out_that_it_does_not_match(
    connect: Connect, topic: str
) -> None:
    """A message that isn't claimed isn't owed, however urgent; claimed ones go by priority."""
    peer = connect()
    link = peer.durable(topic, "d", filters=selector("n < 20"))
    other = peer.durable(topic, "all")
    messages = [(9 if n % 3 == 0 else 4, n) for n in range(40)]
    peer.sender(topic).publish_data(
        [encoded([p, n], priority=p, properties={"n": n}) for p, n in messages]
    )
    assert link.bodies(20) == ordered(messages[:20])
    assert link.nothing()
    assert other.bodies(40) == ordered(messages)
