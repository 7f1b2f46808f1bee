"""Prepared transactions whose work is in another gateway's log: any gateway of the lake prepares
and ends them, and a standby that takes the log over has them.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_fleet import THREE_LOGS, Fleet, Trio
from gateway_jms import QUEUE, Jms, source, text_of
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import Gateway
from gateway_transactions import condition_of, transacted

TRANSACTION = "transaction"


def asking(gateway: Gateway) -> Manager:
    return Manager(Peer(gateway.port))


def prepare(fleet: Fleet, id_: str) -> None:
    """By the gateway that doesn't own the log: a coin is taken, and sent on."""
    with Jms(fleet.orders.port) as there:
        there.publish("orders.from", "coin", capabilities=QUEUE)
    with Jms(fleet.main.port) as jms:
        session = transacted(jms)
        to = session.producer("orders.to", QUEUE)
        session.consumer("from", source("orders.from", QUEUE), 1)
        [coin] = session.transfers(1)
        session.retire(coin)
        session.post(to, text_of(coin.payload))
        asking(fleet.main).done("PREPARE", TRANSACTION, id_, transaction=session.id)
        assert session.commit() == ""


def counts(gateway: Gateway) -> list[int]:
    """How many coins come from each of the queues."""
    found = []
    for name in ("from", "to"):
        with Jms(gateway.port) as jms:
            jms.subscribed(name, source(f"orders.{name}", QUEUE))
            jms.credit(5, drain=True)
            count = 0
            while jms.read().kind == "transfer":
                count += 1
            found.append(count)
    return found


@pytest.mark.parametrize(("verb", "after"), [("COMMIT", [0, 1]), ("ROLLBACK", [1, 0])])
def test_it_is_in_the_log_of_its_work(fleet: Fleet, verb: str, after: list[int]) -> None:
    """Named at the client's gateway, prepared by the log's owner, ended from anywhere."""
    prepare(fleet, "3:01:")
    own, other = asking(fleet.orders), asking(fleet.main)
    for one in (own, other):
        assert [row[0] for row in one.done("QUERY", TRANSACTION)["results"]] == ["3:01:"]
    assert other.done("READ", TRANSACTION, "3:01:")["messages"] == 1
    assert counts(fleet.orders) == [0, 0]
    other.done(verb, TRANSACTION, "3:01:")
    other.refused(404, verb, TRANSACTION, "3:01:")
    assert counts(fleet.orders) == after


def test_a_standby_has_it(fleet: Fleet) -> None:
    """The owner is killed between the phases, and another process owns the log."""
    prepare(fleet, "3:02:")
    standby = fleet.standby()
    standby.spawn()
    standby.await_event("standby.waiting")
    fleet.orders.kill()
    standby.await_event("listening")
    manager = asking(standby)
    assert counts(standby) == [0, 0]
    manager.done("COMMIT", TRANSACTION, "3:02:")
    assert counts(standby) == [0, 1]


def test_two_logs_end_together_by_two_branches(fleet: Fleet) -> None:
    """A coin goes from one log to another, with a session for each: both are prepared, both killed,
    then both committed. There are never two coins."""
    with Jms(fleet.orders.port) as there:
        there.publish("orders.from", "coin", capabilities=QUEUE)
    with Jms(fleet.main.port) as jms:
        giver, taker = transacted(jms), transacted(jms)
        giver.consumer("from", source("orders.from", QUEUE), 1)
        [coin] = giver.transfers(1)
        giver.retire(coin)
        taker.post(taker.producer("own.to", QUEUE), text_of(coin.payload))
        manager = asking(fleet.main)
        for session, branch in ((giver, "3:03:01"), (taker, "3:03:02")):
            manager.done("PREPARE", TRANSACTION, branch, transaction=session.id)
            assert session.commit() == ""
    for gateway in (fleet.main, fleet.orders):
        gateway.kill()
        gateway.start()
        gateway.await_event("address.said", len(gateway.events("listening")))
    assert counts(fleet.orders) == [0, 0]
    manager = asking(fleet.orders)
    for branch in ("3:03:01", "3:03:02"):
        manager.done("COMMIT", TRANSACTION, branch)
    assert counts(fleet.orders) == [0, 0]
    with Jms(fleet.main.port) as jms:
        jms.subscribed("to", source("own.to", QUEUE))
        jms.credit(2)
        assert jms.bodies(1) == ["coin"]


def test_another_log_that_is_away_is_no_matter(
    tmp_path: Path, own_gateway: Callable[..., Gateway]
) -> None:
    """But what isn't anywhere else may be there. Nor are the limits of our own log, which is full,
    a matter of another one's."""
    settings = {"fleet": {"owner_wait_ms": 1_000}, "amqp": {"prepared_of_user_max": 1}}
    with Trio(tmp_path, own_gateway, settings, THREE_LOGS) as trio:
        manager = asking(trio.main)
        with Jms(trio.main.port) as jms:
            session = transacted(jms)
            for id_, queue in (("3:05:", "own.to"), ("3:04:", "prices.to")):
                [posted] = session.post(session.producer(queue, QUEUE), "coin")
                assert condition_of(session.answer(posted)) == ""
                said = manager.done("PREPARE", TRANSACTION, id_, transaction=session.id)
                assert said == {"works": True}
                assert session.commit() == ""
        trio.all["orders"].kill()
        manager.done("COMMIT", TRANSACTION, "3:04:")
        text = manager.refused(500, "COMMIT", TRANSACTION, "3:04:")
        assert "the owner of the log 'orders' was away for 1 s" in text
