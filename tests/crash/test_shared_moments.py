"""A coin goes from the log `orders` to another one, in one transaction, and one gateway is killed
at one step of its commit: before or after a record is on the disk. Decision 102 has the table.
"""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from faults import Fault, Layer
from gateway_http import ShownGateway
from gateway_jms import QUEUE, Jms, source, text_of
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import PATIENCE, until
from gateway_transactions import COORDINATOR_HANDLE, Transacted, condition_of, transacted
from points import POINTS

from distributary.pipeline.lake.placement import Placement, Rule
from distributary.pipeline.tables.lake.disk_lake import DiskLake

TRANSACTION = "transaction"
UNKNOWN = "amqp:transaction:unknown-id"
FORCED = "amqp:link:detach-forced"
NOTHING = "nothing, for its gateway is gone"
NOT_WRITTEN, SYNCED = "before the journal is written", "after the journal is synced"
LOGS = ("main", "orders", "prices")
FLEET = {"decision_ask_ms": 100, "member_ms": 200}
RULES = tuple(Rule(f"queue://{log}.#", (log,)) for log in LOGS[1:])


class Moment(NamedTuple):
    """A kill of the gateway of a log at the `nth` group that it writes from the commit on. What the
    client hears, and whether the coin has moved in the end."""

    log: str
    point: str
    nth: int
    hears: str
    moved: bool


#: The client is at `main`, which decides: the coin goes to its queue.
OWN = (
    Moment("orders", NOT_WRITTEN, 1, UNKNOWN, False),  # it was asked to prepare
    Moment("orders", SYNCED, 1, UNKNOWN, False),  # it has, and has told no other
    Moment("main", NOT_WRITTEN, 1, NOTHING, False),  # the other one has prepared
    Moment("main", SYNCED, 1, NOTHING, True),  # it is decided, and not told
    Moment("orders", NOT_WRITTEN, 2, "", True),  # it was told
    Moment("orders", SYNCED, 2, "", True),  # it has committed, and has told no other
    Moment("main", NOT_WRITTEN, 2, "", True),  # all have it, and that isn't written
)
#: The client is at `main`, the coin goes to `prices`, and `orders` decides, by its name.
BETWEEN = (
    Moment("prices", NOT_WRITTEN, 1, UNKNOWN, False),
    Moment("prices", SYNCED, 1, UNKNOWN, False),
    Moment("orders", NOT_WRITTEN, 1, FORCED, False),
    Moment("orders", SYNCED, 1, FORCED, True),
    Moment("prices", NOT_WRITTEN, 2, "", True),
    Moment("prices", SYNCED, 2, "", True),
)


def rows(manager: Manager) -> list[dict[str, Any]]:
    """The transactions of all logs that a gateway lists."""
    part = manager.done("QUERY", TRANSACTION)
    return [dict(zip(part["attributeNames"], row, strict=True)) for row in part["results"]]


class Lake:
    """Gateways over layers that kill them."""

    def __init__(self, folder: Path, to: str, **environment: str) -> None:
        """The coin goes to a queue of the log `to`."""
        self.home, self.to = folder / "lake", "own.to" if to == "main" else f"{to}.to"
        self.taker, self._environment = to, environment
        DiskLake(self.home).replace(None, Placement(1, LOGS, RULES))
        self.gateways: dict[str, ShownGateway] = {}
        self.layers: dict[str, Layer] = {}
        for log in dict.fromkeys(("main", "orders", to)):
            gateway = ShownGateway(folder / log, {"fleet": {"machine": log, **FLEET}})
            gateway.home, gateway.options = self.home, ["--log", log]
            below = self.home if log == "main" else self.home / "logs" / log
            self.layers[log] = Layer(folder / f"{log}.layer", below)
            self.layers[log].put_under(gateway)
            gateway.environment |= environment
            self.gateways[log] = gateway

    def start(self, log: str) -> None:
        gateway = self.gateways[log]
        gateway.start()
        gateway.await_event("address.said", len(gateway.events("listening")))

    def standby(self, log: str) -> ShownGateway:
        """A gateway that waits for a log, on the machine `heir`."""
        heir = ShownGateway(self.home.parent / "heir", {"fleet": {"machine": "heir", **FLEET}})
        heir.home, heir.options = self.home, ["--log", log, "--standby"]
        heir.environment |= self._environment
        heir.spawn()
        heir.await_event("standby.waiting")
        return heir

    def killed(self, log: str) -> None:
        """It is, or will be, by its layer."""
        gateway = self.gateways[log]
        until(lambda: not gateway.running, f"{log} is killed")
        self.layers[log].arm(None)
        gateway.kill()

    def waiting(self, log: str) -> list[str]:
        """The ids of what is prepared in a log, or decided there and not done everywhere."""
        return [str(one["name"]) for one in rows(Manager(Peer(self.gateways[log].port)))]

    def lying(self, log: str, queue: str, user: str = "") -> int:
        """How many coins come from a queue; they stay there."""
        with Jms(self.gateways[log].port, user=user) as jms:
            session, count = transacted(jms), 0
            handle = session.consumer("all", source(queue, QUEUE), 0)
            jms.credit(10, handle=handle, channel=session.channel, drain=True)
            while (one := session.read()).kind == "transfer":
                assert text_of(one.payload) == "coin"
                count += 1
            assert session.roll_back() == ""
            return count

    def coins(self, user: str = "") -> tuple[int, int]:
        places = ("orders", "orders.from"), (self.taker, self.to)
        there, here = (self.lying(log, queue, user) for log, queue in places)
        return there, here

    def ends(self) -> None:
        """Nothing is prepared any more."""
        for log in self.gateways:
            until(partial(self._ended, log), f"nothing waits in {log}")

    def _ended(self, log: str) -> bool:
        return not self.waiting(log)


@contextmanager
def working(lake: Lake, user: str = "") -> Iterator[Transacted]:
    """The coin is taken, and sent, in a transaction that is open."""
    with ExitStack() as ends:
        for log, gateway in lake.gateways.items():
            ends.push(gateway)
            lake.start(log)
        with Jms(lake.gateways["orders"].port, "there", user=user) as there:
            there.publish("orders.from", "coin", capabilities=QUEUE)
        with Jms(lake.gateways["main"].port, "client", user=user) as jms:
            session = transacted(jms)
            to = session.producer(lake.to, QUEUE)
            session.consumer("from", source("orders.from", QUEUE), 1)
            [coin] = session.transfers(1)
            session.retire(coin)
            [posted] = session.post(to, "coin")
            assert condition_of(session.answer(posted)) == ""
            yield session


def heard(session: Transacted, discharge: int) -> str:
    """The condition in the client's answer to its discharge; NOTHING if the link ends first."""
    session.jms.socket.settimeout(PATIENCE)
    while discharge not in session.states:
        try:
            one = session.read()
        except (AssertionError, OSError):
            return NOTHING
        # The link to a log that stays away may end before the answer comes.
        if one.kind == "detach" and one["handle"] == COORDINATOR_HANDLE:
            return str(one.error)
    return condition_of(session.answer(discharge))


def play(lake: Lake, moment: Moment) -> None:
    with working(lake) as session:
        point = POINTS[moment.point]
        lake.layers[moment.log].arm(Fault(point, "kill", moment.nth))
        discharge = session.send_discharge(fail=False)
        lake.killed(moment.log)
        lake.start(moment.log)
        assert heard(session, discharge) == moment.hears
        lake.ends()
        assert lake.coins() == ((0, 1) if moment.moved else (1, 0))


@pytest.mark.parametrize("moment", OWN, ids=lambda one: f"{one.log} {one.point} {one.nth}")
def test_one_is_killed_where_the_clients_gateway_decides(tmp_path: Path, moment: Moment) -> None:
    play(Lake(tmp_path, "main"), moment)


@pytest.mark.parametrize("moment", BETWEEN, ids=lambda one: f"{one.log} {one.point} {one.nth}")
def test_one_is_killed_where_another_log_decides(tmp_path: Path, moment: Moment) -> None:
    play(Lake(tmp_path, "prices"), moment)


def paused(lake: Lake, session: Transacted, log: str, point: str, nth: int) -> int:
    """The gateway of a log stops at this step of the commit; the discharge."""
    lake.layers[log].arm(Fault(POINTS[point], "pause", nth))
    discharge = session.send_discharge(fail=False)
    until(lambda: lake.layers[log].fired == 1, f"{log} has stopped")
    return discharge


def test_the_gateway_of_the_client_is_lost_between_two_other_logs(tmp_path: Path) -> None:
    """One has prepared; the one that decides finds its peer gone before it was asked."""
    lake = Lake(tmp_path, "prices")
    with working(lake) as session:
        paused(lake, session, "prices", SYNCED, 1)
        lake.gateways["main"].kill()
        lake.gateways["prices"].process.send_signal(signal.SIGCONT)
        lake.start("main")
        lake.ends()
        assert lake.coins() == (1, 0)


def test_the_client_is_lost_when_it_is_being_decided(tmp_path: Path) -> None:
    """All of its work is done, without a client that waits."""
    lake = Lake(tmp_path, "main")
    with working(lake) as session:
        paused(lake, session, "main", NOT_WRITTEN, 1)
        session.jms.socket.close()
        lake.gateways["main"].process.send_signal(signal.SIGCONT)
        lake.gateways["main"].await_event("transaction.completed")
        assert lake.coins() == (0, 1)


def test_another_owner_takes_over_what_was_prepared(tmp_path: Path) -> None:
    """A standby has what the former owner prepared, and is told."""
    lake = Lake(tmp_path, "main")
    with working(lake) as session:
        standby = lake.standby("orders")
        with ExitStack() as ends:
            ends.push(standby)
            lake.layers["orders"].arm(Fault(POINTS[NOT_WRITTEN], "kill", 2))
            discharge = session.send_discharge(fail=False)
            lake.killed("orders")
            standby.await_event("listening")
            assert heard(session, discharge) == ""
            lake.gateways["orders"] = standby
            assert lake.coins() == (0, 1)


def test_the_client_waits_no_longer_than_a_link_does(tmp_path: Path) -> None:
    """A decided commit is answered as done, though a prepared log stays away: it will commit."""
    lake = Lake(tmp_path, "main", DISTRIBUTARY_FLEET_OWNER_WAIT_MS="1000")
    with working(lake) as session:
        lake.layers["orders"].arm(Fault(POINTS[NOT_WRITTEN], "kill", 2))
        discharge = session.send_discharge(fail=False)
        lake.killed("orders")
        assert heard(session, discharge) == ""
        lake.start("orders")
        lake.gateways["main"].await_event("transaction.completed")
        assert lake.coins() == (0, 1)


def test_users_end_what_logs_decide_by_force_alone(tmp_path: Path) -> None:
    """The log that decides is away for good, so to speak; what it says later comes too late."""
    lake = Lake(tmp_path, "main")
    with working(lake) as session:
        lake.layers["main"].arm(Fault(POINTS[SYNCED], "kill", 1))
        session.send_discharge(fail=False)
        lake.killed("main")
        [name] = lake.waiting("orders")
        manager = Manager(Peer(lake.gateways["orders"].port))
        for verb in ("COMMIT", "ROLLBACK"):
            manager.refused(403, verb, TRANSACTION, name)
        with Jms(lake.gateways["orders"].port) as there:
            own = transacted(there)
            manager.refused(400, "PREPARE", TRANSACTION, name, transaction=own.id)
        assert manager.done("READ", TRANSACTION, name)["own"] is False
        manager.done("ROLLBACK", TRANSACTION, name, force=True)
        lake.start("main")
        lake.gateways["main"].await_event("transaction.completed")
        assert lake.coins() == (1, 1)  # done in one, and not in the other


def test_order_is_lost_in_a_log_that_stays_away_after_the_answer(tmp_path: Path) -> None:
    """The commit was answered without it. What is sent there next comes first, if its owner is back
    before it has heard from the one that decided."""
    lake = Lake(tmp_path, "prices", DISTRIBUTARY_FLEET_OWNER_WAIT_MS="1000")
    with working(lake) as session:
        lake.layers["prices"].arm(Fault(POINTS[NOT_WRITTEN], "kill", 2))
        discharge = session.send_discharge(fail=False)
        lake.killed("prices")
        assert heard(session, discharge) == ""
        decides = lake.gateways["orders"].process
        decides.send_signal(signal.SIGSTOP)
        lake.start("prices")
        with Jms(lake.gateways["main"].port, "next") as jms:
            jms.publish(lake.to, "later", capabilities=QUEUE)
        decides.send_signal(signal.SIGCONT)
        lake.ends()
        with Jms(lake.gateways["prices"].port, "last") as jms:
            both = transacted(jms)
            both.consumer("all", source(lake.to, QUEUE), 2)
            assert [text_of(one.payload) for one in both.transfers(2)] == ["later", "coin"]
