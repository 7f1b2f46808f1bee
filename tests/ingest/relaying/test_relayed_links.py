"""Links to topics of another gateway's log: as if they were local.

That they are is shown by all tests of links, too: `RELAYED=1 pytest tests/ingest/delivery` runs
them through a gateway that owns nothing of what they use.
"""

from async_client import at, bodies, run
from deltalake import DeltaTable
from gateway_fleet import Fleet
from gateway_peer import Connect, selector
from proton import Delivery


def messages_of(home: str) -> int:
    """How many messages a log's table has."""
    table = DeltaTable(f"{home}/tables/topic_log").to_pyarrow_table()
    return sum(table["record"].to_pylist().count(kind) for kind in ("message",))


def test_a_message_goes_there_and_back(fleet: Fleet) -> None:
    async def work() -> None:
        async with (
            at(fleet.main) as here,
            at(fleet.orders) as there,
            here.subscribe("mine", topic="orders.eu") as mine,
            there.consume("orders.eu") as theirs,
        ):
            for number in range(100):
                await here.publish("orders.eu", number)
            assert await bodies(mine, 100) == list(range(100))
            assert await bodies(theirs, 100) == list(range(100))

    run(work())


def test_own_topics_and_others_are_on_one_connection(fleet: Fleet, connect: Connect) -> None:
    for gateway, own, other in ((fleet.main, "news", "orders"), (fleet.orders, "orders", "news")):
        peer = connect(f"both-{own}", port=gateway.port)
        consumers = [peer.receiver(f"{one}.both-{own}") for one in (own, other)]
        for topic in (own, other):
            peer.sender(f"{topic}.both-{own}").publish(topic)
        assert [one.bodies() for one in consumers] == [[own], [other]]


def test_messages_lie_in_the_log_of_their_topic_alone(fleet: Fleet, connect: Connect) -> None:
    peer = connect("there", port=fleet.main.port)
    assert peer.durable("orders.there", "mine").nothing()
    peer.sender("orders.there").publish(*range(3))
    peer.close()  # it is answered when the owner knows that the consumer has left
    direct = connect("there", port=fleet.orders.port)
    assert direct.durable("orders.there", "mine").bodies(3) == [0, 1, 2]
    fleet.main.stop()
    fleet.orders.stop()
    rows = {log: messages_of(fleet.lake.log_home(log)) for log in ("main", "orders")}
    assert rows == {"main": 0, "orders": 3}


def test_all_outcomes_reach_the_owner(fleet: Fleet, connect: Connect) -> None:
    peer = connect("outcomes", port=fleet.main.port)
    sender = peer.sender("orders.outcomes", capabilities=("queue",))
    consumer = peer.receiver("orders.outcomes", capabilities=("queue",))
    sender.publish(*range(4))
    first = consumer.take(4)
    for got, state in zip(
        first,
        (Delivery.ACCEPTED, Delivery.RELEASED, Delivery.MODIFIED, Delivery.REJECTED),
        strict=True,
    ):
        if state == Delivery.MODIFIED:
            got.delivery.local.failed = True
        consumer.settle([got], state)
    again = consumer.take(2)
    assert sorted((one.body, one.message.delivery_count) for one in again) == [(1, 0), (2, 1)]
    consumer.settle(again)


def test_the_owner_refuses_and_the_client_hears_why(fleet: Fleet, connect: Connect) -> None:
    peer = connect("refused", port=fleet.main.port)
    wrong = selector("this is no selector (")
    link = peer.receiver("orders.refused", filters=wrong, opened=False)
    assert "invalid-field" in peer.amqp_error(link)
