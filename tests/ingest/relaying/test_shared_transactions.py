"""Transactions with work in several logs of a lake: all of it is done or none, whichever process is
lost.

The log that decides is `main` where it has a part, for that is the gateway's own here.
"""

import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from gateway_fleet import Fleet
from gateway_jms import QUEUE, Jms, source, text_of
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import Gateway, Settings, until
from gateway_transactions import Transacted, condition_of, transacted

from distributary.pipeline.lake.placement import Placement, Rule
from distributary.pipeline.tables.lake.disk_lake import DiskLake

Make = Callable[..., Gateway]
TRANSACTION = "transaction"
UNKNOWN = "amqp:transaction:unknown-id"
ILLEGAL_STATE = "amqp:illegal-state"
#: Of a lost owner: it had the transaction, or was about to.
ROLLED_BACK = (UNKNOWN, ILLEGAL_STATE)
LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
PRECONDITION_FAILED = "amqp:precondition-failed"


class Work:
    """A client's session at the gateway of `main`: a coin was taken from the queue `orders.from`,
    which is the other log's, and goes to the queue `own.to`."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        with Jms(fleet.orders.port) as there:
            there.publish("orders.from", "coin", capabilities=QUEUE)
        self.jms = Jms(fleet.main.port)
        self.session = session = transacted(self.jms)
        self.to = session.producer("own.to", QUEUE)
        session.consumer("from", source("orders.from", QUEUE), 1)
        [self.coin] = session.transfers(1)

    def do(self) -> None:
        self.session.retire(self.coin)
        [posted] = self.session.post(self.to, "coin")
        assert condition_of(self.session.answer(posted)) == ""


class Between:
    """A client at the gateway of `main`; a coin of the log `orders` goes to the log `prices`."""

    def __init__(self, folder: Path, make: Make, settings: Settings | None = None) -> None:
        self.home = folder / "lake"
        logs = ("main", "orders", "prices")
        rules = tuple(Rule(f"queue://{log}.#", (log,)) for log in logs[1:])
        DiskLake(self.home).replace(None, Placement(1, logs, rules))
        self.gateways = {log: make(settings) for log in logs}
        for log, gateway in self.gateways.items():
            gateway.home, gateway.options = self.home, ["--log", log]

    def __enter__(self) -> Self:
        for gateway in self.gateways.values():
            gateway.start()
            gateway.await_event("address.said", 1)
        with Jms(self.gateways["orders"].port) as there:
            there.publish("orders.from", "coin", capabilities=QUEUE)
        self.jms = Jms(self.gateways["main"].port)
        return self

    def do(self) -> None:
        self.session = session = transacted(self.jms)
        to = session.producer("prices.to", QUEUE)
        session.consumer("from", source("orders.from", QUEUE), 1)
        [coin] = session.transfers(1)
        session.retire(coin)
        [posted] = session.post(to, "coin")
        assert condition_of(session.answer(posted)) == ""

    def coins(self) -> tuple[int, int]:
        """The numbers of coins in both queues."""
        ports = [self.gateways[log].port for log in ("orders", "prices")]
        first, second = zip(ports, ("orders.from", "prices.to"), strict=True)
        return lying(*first), lying(*second)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.jms.socket.close()
        for gateway in self.gateways.values():
            if gateway.process is not None:
                gateway.__exit__(kind, error, trace)


def lying(port: int, queue: str) -> int:
    """How many coins come from a queue; they stay there."""
    with Jms(port) as jms:
        session, count = transacted(jms), 0
        handle = session.consumer("all", source(queue, QUEUE), 0)
        jms.credit(10, handle=handle, channel=session.channel, drain=True)
        while (one := session.read()).kind == "transfer":
            assert text_of(one.payload) == "coin"
            count += 1
        assert session.roll_back() == ""
        return count


@contextmanager
def working(fleet: Fleet) -> Iterator[Work]:
    work = Work(fleet)
    with work.jms:
        yield work


def coins(fleet: Fleet) -> Counter[str]:
    """The coins in both queues, by their owners."""
    queues = {"orders.from": fleet.orders, "own.to": fleet.main}
    return +Counter({queue: lying(gateway.port, queue) for queue, gateway in queues.items()})


def test_a_commit_is_one_in_both_logs(fleet: Fleet) -> None:
    with working(fleet) as work:
        work.do()
        assert coins(fleet) == {}
        assert work.session.commit() == ""
        assert coins(fleet) == {"own.to": 1}


def test_a_rollback_undoes_it_in_both(fleet: Fleet) -> None:
    with working(fleet) as work:
        work.do()
        assert work.session.roll_back() == ""
        assert coins(fleet) == {"orders.from": 1}


def test_work_of_two_other_logs_is_one_too(tmp_path: Path, own_gateway: Make) -> None:
    """The client's gateway has no part in it: another one's log decides."""
    with Between(tmp_path, own_gateway) as between:
        between.do()
        assert between.session.commit() == ""
        assert between.coins() == (0, 1)


def test_a_client_finds_what_it_did_before(fleet: Fleet) -> None:
    """A commit is answered when it is done in all logs: what its client sends next comes next."""
    with working(fleet) as work:
        session, orders = work.session, work.session.producer("orders.to", QUEUE)
        for number in range(5):
            session.post(work.to, f"{number}")
            session.post(orders, f"{number}-first")
            assert session.commit() == ""
            session.post(orders, f"{number}-then")
            assert session.commit() == ""
        session.consumer("all", source("orders.to", QUEUE), 10)
        both = [f"{number}-{what}" for number in range(5) for what in ("first", "then")]
        assert session.bodies(10) == both


def test_what_fails_in_one_log_is_undone_in_both(fleet: Fleet) -> None:
    """A delivery that was given back meanwhile can't be settled; nor a message be sent there."""
    with working(fleet) as work:
        work.do()
        Manager(Peer(fleet.orders.port)).done("PURGE", "queue", "orders.from")
        assert work.session.commit() == ILLEGAL_STATE
        assert coins(fleet) == {}  # the purge took it
        [posted] = work.session.post(work.to, "no")
        assert work.session.roll_back() == ""
        assert condition_of(work.session.answer(posted)) == ""
        assert coins(fleet) == {}


def test_a_full_log_refuses_to_prepare(tmp_path: Path, own_gateway: Make) -> None:
    """Its limit is the client's answer, and nothing is done."""
    fleet = Fleet(tmp_path, own_gateway)
    fleet.orders.environment["DISTRIBUTARY_AMQP_PREPARED_MAX"] = "0"
    with fleet, working(fleet) as work:
        work.do()
        assert work.session.commit() == LIMIT_EXCEEDED
        assert coins(fleet) == {"orders.from": 1}


def prepare(port: int, session: Transacted, id_: str) -> Manager:
    """The first phase of a transaction manager; it asks this gateway."""
    manager = Manager(Peer(port))
    assert manager.done("PREPARE", TRANSACTION, id_, transaction=session.id) == {"works": True}
    assert session.commit() == ""
    return manager


def ids(manager: Manager) -> list[str]:
    """Ids of prepared transactions that a transaction manager gave."""
    part = manager.done("QUERY", TRANSACTION, attributeNames=["name", "own"])
    return [name for name, own in part["results"] if own]


@pytest.mark.parametrize(("verb", "after"), [("COMMIT", "own.to"), ("ROLLBACK", "orders.from")])
def test_a_transaction_manager_ends_it_in_both_logs(fleet: Fleet, verb: str, after: str) -> None:
    """One branch, in one list, whatever logs it is about; after restarts of both, too."""
    with working(fleet) as work:
        work.do()
        manager = prepare(fleet.main.port, work.session, "3:0a:")
        assert ids(manager) == ["3:0a:"]
        assert coins(fleet) == {}
        for gateway in (fleet.main, fleet.orders):
            gateway.kill()
            gateway.start()
            gateway.await_event("address.said", len(gateway.events("listening")))
        assert coins(fleet) == {}
        manager = Manager(Peer(fleet.orders.port))  # which is told by the log that decides
        assert ids(manager) == ["3:0a:"]
        manager.done(verb, TRANSACTION, "3:0a:")
        assert coins(fleet) == {after: 1}
        manager.refused(404, verb, TRANSACTION, "3:0a:")
        assert ids(manager) == []


def test_its_work_may_be_in_two_other_logs(tmp_path: Path, own_gateway: Make) -> None:
    """The client's gateway has no part in it. A commit is answered when both logs have it."""
    with Between(tmp_path, own_gateway) as between:
        between.do()
        manager = prepare(between.gateways["main"].port, between.session, "3:0b:")
        assert between.coins() == (0, 0)
        manager.done("COMMIT", TRANSACTION, "3:0b:")
        assert between.coins() == (0, 1)


def test_an_id_that_is_taken_prepares_nothing(tmp_path: Path, own_gateway: Make) -> None:
    """In the log that decides, as that one says when it is asked; what the other one has prepared
    is rolled back by its word."""
    with Between(tmp_path, own_gateway) as between:
        with Jms(between.gateways["orders"].port) as jms:
            first = transacted(jms)
            first.post(first.producer("orders.from", QUEUE), "coin")
            prepare(between.gateways["orders"].port, first, "3:0c:")
        between.do()
        manager = Manager(Peer(between.gateways["main"].port))
        manager.done("PREPARE", TRANSACTION, "3:0c:", transaction=between.session.id)
        assert between.session.commit() == PRECONDITION_FAILED
        until(lambda: between.coins() == (1, 0), "it is rolled back")
        assert ids(manager) == ["3:0c:"]  # the first one
        manager.done("ROLLBACK", TRANSACTION, "3:0c:")


# Decision 102 has the moments at which a process is lost; `tests/crash/test_shared_moments.py` has
# those between two steps.


def test_the_other_log_is_lost_with_the_work(fleet: Fleet) -> None:
    with working(fleet) as work:
        work.do()
        fleet.orders.kill()
        fleet.main.await_event("relay.lost", 1)
        fleet.orders.start()
        assert work.session.commit() in ROLLED_BACK
        assert coins(fleet) == {"orders.from": 1}


def test_the_other_log_is_lost_when_it_is_asked_to_prepare(fleet: Fleet) -> None:
    """The outcome isn't in doubt, as the commit wasn't decided."""
    with working(fleet) as work:
        work.do()
        fleet.orders.process.send_signal(signal.SIGSTOP)
        discharge = work.session.send_discharge(fail=False)
        work.jms.heard()
        fleet.orders.kill()
        assert condition_of(work.session.answer(discharge)) in ROLLED_BACK
        fleet.orders.start()
        assert coins(fleet) == {"orders.from": 1}
