"""Topics and queues that are divided over logs: as if they were in one, but for the order."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from async_client import at, bodies, run
from gateway_fleet import PARTITIONED, Trio
from gateway_jms import QUEUE as JMS_QUEUE
from gateway_jms import Jms, source
from gateway_links import Got, encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer, no_local, selector
from gateway_process import Gateway, until
from gateway_transactions import transacted
from proton import Delivery

from distributary.ingest.security.users import user_of
from distributary.ingest.security.users_file import changing
from tests.ingest.relaying.test_relayed_links import messages_of

QUEUE = ("queue",)


def rows(trio: Trio) -> dict[str, int]:
    """How many messages each log has, when all have ended."""
    for gateway in trio.all.values():
        gateway.stop()
    return {log: messages_of(str(trio.lake.log_home(log))) for log in trio.all}


def test_messages_go_to_all_partitions_and_come_from_all(trio: Trio) -> None:
    async def work() -> None:
        async with (
            at(trio.main) as here,
            at(trio.all["prices"]) as there,
            here.subscribe("mine", topic="hot.a") as mine,
            there.consume("hot.a") as theirs,
            here.subscribe("cold", topic="cold.a") as cold,
        ):
            for topic in ("hot.a", "cold.a"):
                async with here.publisher(topic) as publisher:
                    for number in range(300):
                        await publisher.send(number)
            for subscription in (mine, theirs, cold):
                assert sorted(await bodies(subscription, 300)) == list(range(300))

    run(work())
    found = rows(trio)
    assert sum(found.values()) == 600
    assert all(count > 60 for count in found.values()), found


def test_a_group_is_in_one_partition_and_in_order(trio: Trio, connect: Connect) -> None:
    peer = connect("groups", port=trio.main.port)
    consumers = [peer.receiver("hot.groups", capabilities=QUEUE) for _ in range(2)]
    for consumer in consumers:
        consumer.link.flow(210)
    sender = peer.sender("hot.groups", capabilities=QUEUE)
    sent = [sender.send(encoded(n, group_id=f"g{n % 7}")) for n in range(210)]
    assert {sender.outcome(one) for one in sent} == {Delivery.ACCEPTED}
    peer.until(lambda: sum(len(one.inbox) for one in consumers) == 210, "all of it")
    of_group: dict[str, list[tuple[int, object]]] = {}
    for nth, consumer in enumerate(consumers):
        for got in consumer.inbox:
            of_group.setdefault(got.message.group_id, []).append((nth, got.body))
    for number, name in enumerate(f"g{n}" for n in range(7)):
        assert [body for _, body in of_group[name]] == list(range(number, 210, 7))
        assert len({nth for nth, _ in of_group[name]}) == 1


@pytest.mark.parametrize("queue", ["hot.one", "cold.one"])
def test_one_credit_finds_the_one_message_wherever_it_is(
    trio: Trio, connect: Connect, queue: str
) -> None:
    peer = connect("one", port=trio.main.port)
    consumer = peer.receiver(queue, capabilities=QUEUE)
    sender = peer.sender(queue, capabilities=QUEUE)
    for number in range(20):
        if number % 2:
            consumer.link.flow(1)
        sender.publish(number)
        assert consumer.bodies(1) == [number]


def test_a_drain_ends_when_all_partitions_have_nothing_more(trio: Trio, connect: Connect) -> None:
    peer = connect("drains", port=trio.main.port)
    consumer = peer.receiver("hot.drains", capabilities=QUEUE)
    assert consumer.drain(10) == 0
    peer.sender("hot.drains", capabilities=QUEUE).publish(*range(20))
    assert consumer.drain(5) == 5
    assert consumer.drain(1) == 1
    assert consumer.drain(100) == 14
    assert consumer.drain(1) == 0
    assert sorted(consumer.bodies(20)) == list(range(20))


def test_a_browser_sees_all_partitions_and_takes_nothing(trio: Trio, connect: Connect) -> None:
    peer = connect("browses", port=trio.main.port)
    peer.sender("hot.browsed", capabilities=QUEUE).publish(*range(30))
    for gateway in trio.all.values():
        browser = connect("browses-too", port=gateway.port).receiver(
            "hot.browsed", capabilities=QUEUE, copy=True
        )
        assert browser.drain(1_000) == 30
    assert sorted(peer.receiver("hot.browsed", capabilities=QUEUE).bodies(30)) == list(range(30))


def test_all_outcomes_reach_the_owners(trio: Trio, connect: Connect) -> None:
    peer = connect("outcomes", port=trio.main.port)
    peer.sender("hot.outcomes", capabilities=QUEUE).publish(*range(30))
    consumer = peer.receiver("hot.outcomes", capabilities=QUEUE)
    got = consumer.take(30)
    consumer.confirm(got[::3])
    for one in got[1::3]:
        one.delivery.local.failed = True
    consumer.settle(got[1::3], Delivery.MODIFIED)
    consumer.settle(got[2::3], Delivery.RELEASED)

    def said(some: list[Got]) -> dict[object, int]:
        return {one.body: one.message.delivery_count for one in some}

    again = said(consumer.take(20))
    assert again == {one.body: 1 for one in got[1::3]} | {one.body: 0 for one in got[2::3]}


def test_what_a_consumer_held_comes_again_when_it_is_lost(trio: Trio, connect: Connect) -> None:
    peer = connect("lost", port=trio.main.port)
    peer.sender("hot.lost", capabilities=QUEUE).publish(*range(30))
    consumer = peer.receiver("hot.lost", capabilities=QUEUE)
    consumer.confirm(consumer.take(10))
    held = {got.body for got in consumer.take(10)}
    peer.drop()
    other = connect("lost-too", port=trio.all["prices"].port)
    again = other.receiver("hot.lost", capabilities=QUEUE).take(20)
    assert {got.body for got in again if got.message.delivery_count} == held


def test_a_durable_subscription_is_in_all_logs_and_ends_in_all(
    trio: Trio, connect: Connect
) -> None:
    peer = connect("durable", port=trio.main.port)
    consumer = peer.durable("hot.durable", "mine")
    sender = peer.sender("hot.durable")
    sender.publish(*range(30))
    other = connect("durable", port=trio.all["orders"].port)
    refused = other.receiver("hot.durable", "mine", durable=True, opened=False)
    assert other.amqp_error(refused) == "amqp:resource-locked"
    assert sorted(consumer.bodies(30)) == list(range(30))
    assert peer.leave(consumer, closed=False) == ""
    sender.publish(*range(30))
    again = other.durable("hot.durable", "mine")
    assert sorted(again.bodies(30)) == list(range(30))
    third = connect("durable", port=trio.all["prices"].port)
    assert third.unsubscribe("mine") == "amqp:resource-locked"
    assert other.leave(again, closed=False) == ""
    assert other.unsubscribe("mine") == ""
    for gateway in trio.all.values():
        direct = connect("durable", port=gateway.port)
        assert direct.unsubscribe("mine") == "amqp:not-found"


def test_another_subscription_of_the_same_name_stays(trio: Trio, connect: Connect) -> None:
    """Its topic is in a log alone that has none of the other one's."""
    peer = connect("names", port=trio.main.port)
    for topic in ("cold.names", "plain.names"):
        assert peer.leave(peer.durable(topic, "mine"), closed=False) == ""
    assert peer.unsubscribe("mine") == ""
    assert peer.unsubscribe("mine") == ""
    assert peer.unsubscribe("mine") == "amqp:not-found"


def test_a_refusal_by_one_log_takes_nothing_from_the_others(trio: Trio, connect: Connect) -> None:
    """In `main` another link has the name; the first log to be asked is another one."""
    topic = next(
        name
        for name in (f"hot.refused{nth}" for nth in range(100))
        if PARTITIONED.logs_of(name)[0] != "main"
    )
    peer = connect("refusals", port=trio.main.port)
    assert peer.leave(peer.durable(topic, "mine"), closed=False) == ""
    peer.sender(topic).publish_data([encoded(n, id=f"m{n}") for n in range(30)])
    holds = peer.durable("plain.refused", "mine")
    other = connect("refusals", port=trio.all["orders"].port)
    refused = other.receiver(topic, "mine", durable=True, opened=False)
    assert other.amqp_error(refused) == "amqp:resource-locked"
    assert peer.leave(holds, closed=True) == ""
    assert other.durable(topic, "mine").drain(100) > 10


def test_shared_subscriptions_and_selectors(trio: Trio, connect: Connect) -> None:
    peers = [connect(f"shares-{log}", port=one.port) for log, one in trio.all.items()]
    consumers = [
        peer.shared_durable("hot.shared", "all|global", filters=selector("n >= 10"))
        for peer in peers
    ]
    for consumer in consumers:
        consumer.link.flow(100)
    peers[0].sender("hot.shared").publish_data(
        [encoded(n, properties={"n": n}) for n in range(100)]
    )
    until(
        lambda: [peer.turn() for peer in peers] and sum(one.received for one in consumers) >= 90,
        "all that is selected",
    )
    assert sorted(got.body for one in consumers for got in one.inbox) == list(range(10, 100))


def test_no_local_is_as_ever(trio: Trio, connect: Connect) -> None:
    """Of a connection, also where its gateway is a client of itself, and of a client id."""
    mine, other = (connect(name, port=trio.main.port) for name in ("mine", "other"))
    deaf = mine.receiver("hot.deaf", filters=no_local())
    kept = mine.durable("hot.deaf", "deaf", filters=no_local())
    for peer, numbers in ((mine, range(30)), (other, range(30, 60))):
        peer.sender("hot.deaf").publish_data([encoded(n, id=f"m{n}") for n in numbers])
    for consumer in (deaf, kept):
        assert sorted(consumer.bodies(30)) == list(range(30, 60))
        assert consumer.drain(1) == 0


def test_messages_that_name_a_partitioned_topic_are_divided(trio: Trio, connect: Connect) -> None:
    peer = connect("named", port=trio.all["orders"].port)
    consumer = peer.receiver("hot.named")
    sender = peer.sender(None)
    sent = [
        sender.send(encoded(n, id=f"m{n}", address=f"topic://{'hot' if n % 2 else 'plain'}.named"))
        for n in range(60)
    ]
    assert {sender.outcome(one) for one in sent} == {Delivery.ACCEPTED}
    assert sorted(consumer.bodies(30)) == list(range(1, 60, 2))


def test_messages_without_an_id_go_round(trio: Trio, connect: Connect) -> None:
    peer = connect("round", port=trio.main.port)
    consumer = peer.durable("hot.round", "mine")
    sender = peer.sender("hot.round")
    for number in range(9):
        sender.publish(number)
    assert sorted(consumer.bodies(9)) == list(range(9))
    assert set(rows(trio).values()) == {3}


def test_the_users_rights_hold(tmp_path: Path, own_gateway: Callable[..., Gateway]) -> None:
    """At a gateway with a partition, and at one without."""
    users, permissions = tmp_path / "users.toml", tmp_path / "permissions.toml"
    with changing(users) as known:
        known["alice"] = user_of("x")
    mine = ["hot.mine", "cold.mine"]
    permissions.write_text(f"[alice]\npublish = {mine}\nconsume = {mine}\ncreate = {mine}\n")
    settings = {"security": {"users": str(users), "permissions": str(permissions)}}
    hers = {"user": "alice", "password": "x"}
    with (
        Trio(tmp_path, own_gateway, settings) as trio,
        Peer(trio.main.port, "alices", **hers) as peer,
    ):
        for topic in ("hot.", "cold."):
            consumer = peer.receiver(f"{topic}mine")
            peer.sender(f"{topic}mine").publish(*range(10))
            assert sorted(consumer.bodies(10)) == list(range(10))
            for link in (
                peer.receiver(f"{topic}others", opened=False),
                peer.sender(f"{topic}others", opened=False),
            ):
                assert peer.amqp_error(link) == "amqp:unauthorized-access"


def test_dead_letters_are_in_all_partitions_of_their_queue(
    tmp_path: Path, own_gateway: Callable[..., Gateway], connect: Connect
) -> None:
    with Trio(tmp_path, own_gateway, {"subscription": {"delivery_attempts_max": 1}}) as trio:
        peer = connect("dead", port=trio.main.port)
        peer.sender("hot.dead", capabilities=QUEUE).publish(*range(30))
        consumer = peer.receiver("hot.dead", capabilities=QUEUE)
        consumer.confirm(consumer.take(30), Delivery.REJECTED)
        dead = peer.receiver("DLQ.queue/hot.dead", capabilities=QUEUE)
        assert sorted(dead.bodies(30)) == list(range(30))


def test_a_lost_owner_holds_up_its_part_alone(trio: Trio, connect: Connect) -> None:
    peer = connect("killed", port=trio.main.port)
    consumer = peer.durable("hot.killed", "mine")
    consumer.link.flow(1_000)
    sender = peer.sender("hot.killed")
    first = [sender.send(encoded(n, id=f"m{n}")) for n in range(100)]
    assert {sender.outcome(one) for one in first} == {Delivery.ACCEPTED}
    settled = consumer.take(40)
    consumer.confirm(settled)
    trio.all["orders"].kill()
    trio.main.await_event("relay.lost", 1)
    more = [sender.send(encoded(n, id=f"m{n}")) for n in range(100, 200)]
    peer.until(lambda: sum(one.settled for one in more) > 40, "outcomes of the others")
    peer.until(lambda: consumer.received > 140, "messages of the others")
    assert not all(one.settled for one in more)
    trio.all["orders"].start()
    assert {sender.outcome(one) for one in more} == {Delivery.ACCEPTED}
    peer.until(
        lambda: (
            {got.body for got in consumer.inbox} | {got.body for got in settled} == set(range(200))
        ),
        "all of it",
    )
    found = Counter(got.body for got in consumer.inbox)
    assert not {got.body for got in settled} & set(found)
    assert consumer.drain() == 0


def test_a_change_of_what_is_partitioned_is_made_in_all_logs(trio: Trio, connect: Connect) -> None:
    peer = connect("manager", port=trio.main.port)
    manager = Manager(peer)
    for queue, logs in (("hot.q", 3), ("cold.q", 2)):
        made = manager.ask("CREATE", "queue", queue, policy={"lock_ms": 30_000})
        assert (made.status, made.text.count("orders: "), made.text.count("main: ")) == (
            201,
            1,
            logs - 2,
        )
        peer.sender(queue, capabilities=QUEUE).publish_data(
            [encoded(n, id=f"m{n}") for n in range(30)]
        )
        assert manager.done("READ", "queue", queue)["policy"] == {"lock_ms": 30_000}
        assert manager.done("PURGE", "queue", queue) == {"dropped": 30}
        assert peer.receiver(queue, capabilities=QUEUE, copy=True).drain(10) == 0
        manager.done("DELETE", "queue", queue, force=True)
    assert manager.refused(404, "READ", "queue", "cold.q")


def test_what_is_of_one_log_must_name_it(trio: Trio, connect: Connect) -> None:
    peer = connect("sequences", port=trio.main.port)
    manager, there = Manager(peer), Manager(connect("there", port=trio.all["orders"].port))
    for topic in ("hot.s", "cold.s"):
        peer.leave(peer.durable(topic, topic), closed=False)
        key = f"container/sequences/{topic}"
        assert manager.refused(501, "REWIND", "subscription", key, to=1)
        assert "cold" not in topic or not there.done("PAUSE", "subscription", key).get("dropped")
    assert manager.done("READ", "subscription", "container/sequences/hot.s")
    # A change that names no sequence is made in each log that has a part.
    assert manager.done("PAUSE", "subscription", "container/sequences/cold.s") == {}
    assert there.done("READ", "subscription", "container/sequences/cold.s")["paused"]


def test_a_transaction_is_of_all_partitions(trio: Trio) -> None:
    """Its work in each partition is done together, also in our own log's. A transaction in one
    partition is like any other."""
    with Jms(trio.main.port) as jms, Jms(trio.main.port) as giver:
        session = transacted(jms)
        to = session.producer("hot.to", JMS_QUEUE)
        session.consumer("from", source("hot.from", JMS_QUEUE), 100)
        for count in (1, 12):
            giver.publish("hot.from", *["coin"] * count, capabilities=JMS_QUEUE)
            for commits in (False, True):
                coins = session.transfers(count)
                for coin in coins:
                    session.retire(coin)
                    session.post(to, "coin")
                if commits:
                    assert session.commit() == ""
                else:
                    assert session.roll_back() == ""
        session.consumer("to", source("hot.to", JMS_QUEUE), 100)
        assert session.bodies(13) == ["coin"] * 13
        assert session.roll_back() == ""
    with Jms(trio.main.port) as other:
        other.subscribed("from", source("hot.from", JMS_QUEUE))
        other.credit(5, drain=True)
        assert other.read().kind == "flow"  # nothing is left there
