"""Links to topics of another gateway's log: as if they were local.

That they are is shown by all tests of links, too: `RELAYED=1 pytest tests/ingest/delivery` runs
them through a gateway that owns nothing of what they use.
"""

import pytest
from async_client import at, bodies, run
from deltalake import DeltaTable
from gateway_fields import make, words
from gateway_fleet import Fleet
from gateway_frames import (
    ATTACH,
    DETACH,
    begun,
    frame_of,
    receiver_frame,
    sender_frame,
    topic_target,
)
from gateway_links import encoded
from gateway_peer import Connect, selector
from proton import Delivery, Endpoint, Terminus


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


def test_a_subscription_is_found_and_ended_in_whichever_log(fleet: Fleet, connect: Connect) -> None:
    peer = connect("ends", port=fleet.main.port)
    for topic in ("news.ends", "orders.ends"):
        name = topic.replace(".", "-")
        consumer = peer.durable(topic, name)
        assert peer.leave(consumer, closed=False) == ""
        assert peer.unsubscribe(name) == ""
        assert peer.unsubscribe(name) == "amqp:not-found"


def test_a_pattern_has_the_topics_of_all_logs(fleet: Fleet, connect: Connect) -> None:
    peer = connect("patterns", port=fleet.main.port)
    all_of_them, some = peer.receiver("*.patterns"), peer.receiver("orders.*")
    for topic in ("orders.patterns", "news.patterns"):
        peer.sender(topic).publish(topic)
    assert sorted(all_of_them.bodies(2)) == ["news.patterns", "orders.patterns"]
    assert some.bodies() == ["orders.patterns"]


def test_messages_that_name_their_topics_go_where_those_are(fleet: Fleet, connect: Connect) -> None:
    peer = connect("named", port=fleet.main.port)
    consumers = [peer.receiver(f"{one}.named") for one in ("news", "orders")]
    sender = peer.sender(None)
    tos = ["news.named", "orders.named", "orders.named", "news.named", "", "orders.named"]
    sent = [sender.send(encoded(n, address=f"topic://{to}" * bool(to))) for n, to in enumerate(tos)]
    outcomes = [sender.outcome(one) for one in sent]
    assert outcomes == [Delivery.ACCEPTED] * 4 + [Delivery.REJECTED, Delivery.ACCEPTED]
    assert [one.bodies(count) for one, count in zip(consumers, (2, 3), strict=True)] == [
        [0, 3],
        [1, 2, 5],
    ]
    for _ in range(50):
        sender.publish_data([encoded(n, address="topic://orders.named") for n in range(100)])
    assert len(consumers[1].bodies(5_000)) == 5_000
    assert peer.leave(sender, closed=True) == ""


def test_answers_find_temporary_queues_of_other_gateways(fleet: Fleet, connect: Connect) -> None:
    asking, answering = (connect(one.log_path.parent.name, port=one.port) for one in
                         (fleet.orders, fleet.main))  # fmt: skip
    queue = asking.receiver(None, dynamic=True, capabilities=("temporary-queue",))
    address = queue.link.remote_source.address
    assert address.startswith("temp-queue://orders/")
    answering.sender(None).publish_data([encoded("an answer", address=address)])
    assert queue.bodies() == ["an answer"]
    direct = answering.sender(address, capabilities=("temporary-queue",))
    direct.publish("another")
    assert queue.bodies() == ["another"]
    other = answering.receiver(address, capabilities=("temporary-queue",), opened=False)
    assert answering.amqp_error(other) == "amqp:resource-locked"
    asking.leave(queue, closed=True)
    assert answering.amqp_error(direct) == "amqp:resource-deleted"


def test_a_subscription_lasts_as_long_as_its_connection(fleet: Fleet, connect: Connect) -> None:
    """Not as long as the client has a session at the owner."""
    peer = connect("lasts", port=fleet.main.port)
    session = peer.new_session()
    lasts = Terminus.EXPIRE_WITH_CONNECTION
    peer.durable("orders.lasts", "mine", session=session, expiry=lasts)
    session.close()
    peer.until(lambda: session.state & Endpoint.REMOTE_CLOSED, "a session's end")
    peer.sender("orders.lasts").publish("one")
    assert peer.durable("orders.lasts", "mine").drain(1) == 1
    peer.close()
    again = connect("lasts", port=fleet.main.port)
    assert again.unsubscribe("mine") == "amqp:not-found"


def test_names_of_links_may_be_used_again_at_once(fleet: Fleet, connect: Connect) -> None:
    """Though the owner hasn't answered the end of the link before: it would end the connection of
    the two gateways, with all clients on it."""
    peer = connect("names", port=fleet.main.port)
    consumer = peer.receiver("orders.names")
    for number in range(20):
        sender = peer.sender(None, name="same")
        sender.publish_data([encoded(number, address="topic://orders.names")])
        peer.leave(sender, closed=True)
    assert consumer.bodies(20) == list(range(20))
    for number in range(5):
        wrong = begun(fleet.main.port, "names-raw")
        for _ in range(3):  # more than its credit, then the same again
            wrong.send(sender_frame("same", topic_target("orders.names")))
            wrong.next(ATTACH)
            wrong.send(frame_of("flow", **WINDOW, handle=0, delivery_count=9_999, link_credit=0))
            assert wrong.next(DETACH).error == "amqp:link:transfer-limit-exceeded"
            wrong.send(frame_of("detach", handle=0, closed=True))
        wrong.socket.close()
        assert number or not fleet.main.events("relay.lost")
    assert not fleet.main.events("relay.lost")
    peer.sender("orders.names").publish("still")
    assert consumer.bodies() == ["still"]


@pytest.mark.parametrize(
    "source",
    [
        make(
            "source",
            address="orders.heavy",
            capabilities=words("topic", *(f"w{n}" for n in range(990))),
        ),
        make("source", address="subscription://" + "x" * 130_750, distribution_mode="copy"),
        make("source", address="orders.heavy", filter=selector("x = '" + "y" * 130_750 + "'")),
    ],
    ids=["capabilities", "address", "selector"],
)
def test_no_attach_is_too_much_for_the_owner(
    fleet: Fleet, connect: Connect, source: object
) -> None:
    """However much its client says: the two gateways' connection stands."""
    peer = connect("heavy", port=fleet.main.port)
    consumer = peer.receiver("orders.heavy")
    with begun(fleet.main.port, "heavy-raw", receiver_frame("heavy", source)) as raw:
        raw.next(ATTACH)
    assert not fleet.main.events("relay.lost")
    peer.sender("orders.heavy").publish("still")
    assert consumer.bodies() == ["still"]


#: A session's state in a flow.
WINDOW = {"next_incoming_id": 0, "incoming_window": 9, "next_outgoing_id": 0, "outgoing_window": 9}
