"""Operators' changes of what is partitioned: as of one queue, whichever logs have a part of it."""

import pytest
from gateway_fleet import Trio
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Connect, Peer
from proton import Delivery

from distributary.pipeline.lake.placement import Placement, Rule

QUEUE = ("queue",)


def partly(peer: Peer, queue: str) -> None:
    """Send one message: it makes the queue in its own log, and in the producer's gateway's."""
    peer.sender(queue, capabilities=QUEUE).publish_data([encoded(0, id="one")])


def test_a_queue_that_only_some_logs_have_is_changed_as_a_whole(
    trio: Trio, connect: Connect
) -> None:
    peer = connect("partly", port=trio.main.port)
    manager = Manager(peer)
    for verb, done in (("PURGE", {"dropped": 1}), ("RESUME", {}), ("REDRIVE", {"redriven": 0})):
        partly(peer, "hot.partly")
        answer = manager.ask(verb, "queue", "hot.partly")
        assert answer.status == 200, answer
        assert "there is no subscription" in answer.text  # in the third one
        assert done.items() <= answer.body.items()
    assert manager.ask("DELETE", "queue", "hot.partly", force=True).status == 204
    assert manager.refused(404, "DELETE", "queue", "hot.partly", force=True)


@pytest.mark.parametrize("kind", ["queue", "subscription"])
def test_a_pause_and_a_policy_hold_for_partitions_without_a_message_yet(
    trio: Trio, connect: Connect, kind: str
) -> None:
    queue = f"hot.paused.{kind}"
    name = f"queue/{queue}" if kind == "subscription" else queue
    peer = connect("paused", port=trio.main.port)
    manager = Manager(peer)
    partly(peer, queue)
    assert manager.done("PAUSE", kind, name) == {}
    peer.sender(queue, capabilities=QUEUE).publish_data([encoded(n, id=f"m{n}") for n in range(30)])
    consumer = peer.receiver(queue, capabilities=QUEUE)
    assert consumer.drain(100) == 0
    manager.done("RESUME", kind, name)
    assert consumer.drain(100) == 31
    manager.done("DELETE", "queue", queue, force=True)
    partly(peer, queue)
    manager.done("UPDATE", kind, name, policy={"lock_ms": 30_000})
    for gateway in trio.all.values():
        there = Manager(connect("there", port=gateway.port))
        assert there.done("READ", kind, name)["policy"] == {"lock_ms": 30_000}


@pytest.mark.parametrize("queue", ["hot.again", "cold.again"])
def test_a_queue_that_any_log_has_is_made_in_none(trio: Trio, connect: Connect, queue: str) -> None:
    peer = connect("again", port=trio.main.port)
    manager = Manager(peer)
    partly(peer, queue)
    said = manager.refused(409, "CREATE", "queue", queue, policy={"lock_ms": 30_000})
    assert f"there is a queue {queue} already" in said
    for gateway in trio.all.values():
        there = Manager(connect("there", port=gateway.port))
        assert there.done("READ", "queue", queue)["policy"] == {}


def test_a_refused_deletion_takes_no_part(trio: Trio, connect: Connect) -> None:
    """One log has a message: the others keep their parts, and so the policy."""
    peer = connect("refused", port=trio.main.port)
    manager = Manager(peer)
    for nth in range(3):  # the message is in any of the logs
        queue, policy = f"hot.refused{nth}", {"lock_ms": 30_000}
        manager.done("CREATE", "queue", queue, policy=policy)
        sender = peer.sender(queue, capabilities=QUEUE)
        sender.publish_data([encoded(0, id=f"m{nth}")])
        assert peer.leave(sender, closed=True) == ""
        assert "messages" in manager.refused(409, "DELETE", "queue", queue)
        for log in trio.all:
            assert manager.ask("CREATE", "queue", queue, log=log).status == 409
        manager.done("PURGE", "queue", queue)
        manager.done("DELETE", "queue", queue)


def test_a_queue_is_read_where_it_is(trio: Trio, connect: Connect) -> None:
    """Two gateways send to it through their own logs; each reads it, the third one, too."""
    partly(connect("reads", port=trio.main.port), "hot.read")
    for gateway in trio.all.values():
        there = Manager(connect("there", port=gateway.port))
        assert there.done("READ", "queue", "hot.read")["name"] == "hot.read"


def test_a_most_is_of_all_partitions(trio: Trio, connect: Connect) -> None:
    peer = connect("most", port=trio.main.port)
    manager = Manager(peer)
    made = manager.ask("CREATE", "queue", "hot.most", policy={"delivery_attempts_max": 1})
    assert made.status == 201
    peer.sender("hot.most", capabilities=QUEUE).publish_data(
        [encoded(n, id=f"m{n}") for n in range(30)]
    )
    consumer = peer.receiver("hot.most", capabilities=QUEUE)
    consumer.confirm(consumer.take(30), Delivery.REJECTED)
    back = {"redriven": 5, "stayed": 0, "misfits": 0}
    assert manager.done("REDRIVE", "queue", "DLQ.queue/hot.most", max=5) == back
    assert consumer.drain(100) == 5


def test_dead_letters_can_not_go_where_their_queue_is_not(trio: Trio, connect: Connect) -> None:
    manager = Manager(connect("letters", port=trio.main.port))
    wrong, right = {"dead_letter_address": "plain.dead"}, {"dead_letter_address": "hot.dead"}
    assert "prices" in manager.refused(400, "CREATE", "queue", "hot.letters", policy=wrong)
    assert manager.refused(404, "READ", "queue", "hot.letters")
    manager.done("CREATE", "queue", "hot.letters", policy=right)
    assert manager.refused(400, "UPDATE", "queue", "hot.letters", policy=wrong)
    assert manager.done("READ", "queue", "hot.letters")["policy"] == right
    manager.done("CREATE", "queue", "plain.letters", policy=wrong)
    manager.done("UPDATE", "queue", "plain.letters", policy=right)  # its own log has a part


def test_a_subscription_is_changed_in_each_log_from_where_it_has_no_part(
    trio: Trio, connect: Connect
) -> None:
    manager = Manager(connect("elsewhere", port=trio.main.port))
    name, topic, logs = "global/cold.away", "cold.away", ("orders", "prices")
    manager.done("CREATE", "subscription", name, topic=topic)
    sender = manager.peer.sender(topic)
    sender.publish_data([encoded(n, id=f"m{n}") for n in range(30)])
    manager.done("PAUSE", "subscription", name)
    assert all(manager.done("READ", "subscription", name, log=log)["paused"] for log in logs)
    assert "'log'" in manager.refused(501, "REWIND", "subscription", name, to=0)
    assert manager.done("PURGE", "subscription", name) == {"dropped": 30}
    manager.done("DELETE", "subscription", name)
    for log in logs:
        assert manager.refused(404, "READ", "subscription", name, log=log)
    assert manager.refused(404, "DELETE", "subscription", name)


def test_a_policy_whose_dead_letters_went_elsewhere_can_be_changed(
    trio: Trio, connect: Connect
) -> None:
    """A queue without a message is placed anew after another one's policy has named it."""
    wrong, queue = {"dead_letter_address": "later.dead"}, "plain.letters"
    Manager(connect("before", port=trio.main.port)).done("CREATE", "queue", queue, policy=wrong)
    before = trio.lake.placement()
    rules = (Rule("queue://later.#", ("orders",)), *before.rules)
    trio.main.kill()
    trio.lake.replace(before, Placement(before.version + 1, before.logs, rules))
    trio.main.start()
    manager = Manager(connect("after", port=trio.main.port))
    policy = {**wrong, "lock_ms": 30_000}
    manager.done("UPDATE", "queue", queue, policy=policy)
    other = {"dead_letter_address": "later.other"}
    assert "orders" in manager.refused(400, "UPDATE", "queue", queue, policy=other)
    assert manager.done("READ", "queue", queue)["policy"] == policy
    manager.done("UPDATE", "queue", queue, policy={"dead_letter_address": "plain.dead"})
    assert "orders" in manager.refused(400, "UPDATE", "queue", queue, policy=policy)
