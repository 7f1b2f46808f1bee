"""Distributed transactions with a real transaction manager (Atomikos), the Qpid JMS client by the
`XAResource` of `examples/xa`, and a second resource (H2): whichever process is killed, an order is
in the table, its receipt in the queue and the order gone, or none of that. And the resource's
answers to a transaction manager while a log is away.
"""

import os
import subprocess
import time
from pathlib import Path

import pytest
from gateway_fleet import Fleet
from gateway_jms import QUEUE, Jms, source
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import Gateway
from jms_suite import ROOT
from maven_jars import JAVAC, SHORT_LIFE, jdk_missing, needs_of

from distributary.pipeline.lake.placement import Placement, Rule

SOURCES = ROOT / "examples" / "xa"
BRANCH = Path(__file__).parent / "java" / "xa" / "Branch.java"
ORDERS = [f"order {nth}" for nth in range(4)]
#: What a resource says of a commit that is to be asked for again (XAException.XAER_RMFAIL), of one
#: that is done, and of one that it doesn't know (XAER_NOTA); of a prepare without work (XA_RDONLY).
AGAIN, DONE, UNKNOWN, READ_ONLY = "-7", "0", "-4", "3"
#: How the program ends where it halts itself.
HALTED = 9
SECONDS_MAX = 120
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The classes of the example with all that they need, and of a branch by itself."""
    missing = jdk_missing()
    if missing:
        assert os.environ.get("CI") != "true", missing
        pytest.skip(missing)
    jars = needs_of(SOURCES / "pom.xml")
    classes = tmp_path_factory.mktemp("classes")
    path = ":".join(map(str, [classes, *jars]))
    sources = [*sorted(map(str, SOURCES.glob("*.java"))), str(BRANCH)]
    options = ["-Xlint:all", "-Werror", "-cp", path, "-d", str(classes)]
    subprocess.run([*JAVAC, *options, *sources], check=True)
    return path


def orders(path: str, gateway: Gateway, folder: Path, what: str = "", code: int = 0) -> str:
    """Run the program; what it says."""
    url = f"amqp://127.0.0.1:{gateway.port}"
    words = [url, str(folder / "rows"), str(folder / "logs"), *([what] if what else [])]
    (folder / "logs").mkdir(exist_ok=True)
    done = subprocess.run(
        ["java", *SHORT_LIFE, "-cp", path, "Orders", *words],
        cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


def left(gateway: Gateway, queue: str, count: int) -> list[object]:
    """The bodies of all messages of a queue."""
    with Jms(gateway.port, "looks") as jms:
        jms.subscribed("looks", source(queue, QUEUE))
        jms.credit(count + 1)
        found = jms.bodies(count)
        assert jms.empty(count=count)
    return found


def waiting(gateway: Gateway) -> list[object]:
    """The prepared transactions."""
    return [*Manager(Peer(gateway.port)).done("QUERY", "transaction")["results"]]


@pytest.mark.parametrize(
    ("crash", "prepared", "killed"),
    [
        ("before prepare", 0, False),
        ("after prepare", 1, True),
        ("before commit", 1, True),
        ("before commit", 1, False),
        ("after commit", 0, True),
    ],
)
def test_an_order_is_taken_as_a_whole_or_not_at_all(
    path: str, tmp_path: Path, crash: str, prepared: int, *, killed: bool
) -> None:
    """The program halts between the steps of the first order; then it recovers, and goes on. The
    gateway may be killed in between."""
    with Gateway(tmp_path) as gateway:
        with Jms(gateway.port, "shop") as jms:
            jms.publish("orders", *ORDERS, capabilities=QUEUE)
        orders(path, gateway, tmp_path, crash, HALTED)
        assert len(waiting(gateway)) == prepared
        if killed:
            gateway.kill()
            gateway.start()
            assert len(waiting(gateway)) == prepared
        orders(path, gateway, tmp_path, "recover")
        assert waiting(gateway) == []
        assert f"rows [{', '.join(ORDERS)}]" in orders(path, gateway, tmp_path)
        assert waiting(gateway) == []
        assert sorted(map(str, left(gateway, "receipts", len(ORDERS)))) == ORDERS
        assert left(gateway, "orders", 0) == []
        gateway.stop()
        gateway.verified()


@pytest.mark.parametrize("crash", ["after prepare", "before commit"])
def test_an_order_and_its_receipt_may_be_of_two_logs(path: str, tmp_path: Path, crash: str) -> None:
    """One session, one branch: the program halts when it is prepared, or is to be committed; both
    gateways are killed, and recovery ends it in both logs, before anything else is taken."""
    placement = Placement(1, ("main", "orders"), (Rule("queue://orders", ("orders",)),))
    with Fleet(
        tmp_path, lambda _: Gateway(tmp_path / f"at-{time.time_ns()}"), placement=placement
    ) as fleet:
        with Jms(fleet.orders.port, "shop") as jms:
            jms.publish("orders", *ORDERS, capabilities=QUEUE)
        orders(path, fleet.main, tmp_path, crash, HALTED)
        assert len(waiting(fleet.main)) == 2  # the branch, and what waits for it in `orders`
        for gateway in (fleet.main, fleet.orders):
            gateway.kill()
        fleet.start()
        orders(path, fleet.main, tmp_path, "recover")
        assert waiting(fleet.main) == []
        assert f"rows [{', '.join(ORDERS)}]" in orders(path, fleet.main, tmp_path)
        assert waiting(fleet.main) == []
        assert sorted(map(str, left(fleet.main, "receipts", len(ORDERS)))) == ORDERS
        assert left(fleet.orders, "orders", 0) == []


def test_a_log_that_is_away_is_asked_again(path: str, tmp_path: Path) -> None:
    """It says nothing of what became of the branch: a transaction manager that heard of an error
    would take it for rolled back."""
    settings = {"fleet": {"owner_wait_ms": 1_000}}
    with Fleet(
        tmp_path, lambda given: Gateway(tmp_path / f"at-{time.time_ns()}", given), settings
    ) as fleet:
        url = f"amqp://127.0.0.1:{fleet.main.port}"
        words = ["java", *SHORT_LIFE, "-cp", path, "Branch", url, "orders.to"]
        with subprocess.Popen(
            words, cwd=tmp_path, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as asked:
            said, to = asked.stdout, asked.stdin
            assert said is not None
            assert to is not None

            def committed() -> str:
                print(file=to, flush=True)
                return said.readline().strip()

            assert [said.readline().strip() for _ in range(2)] == [READ_ONLY, DONE]
            fleet.orders.kill()
            assert committed() == AGAIN
            fleet.orders.start()
            assert [committed(), committed()] == [DONE, UNKNOWN]
            to.close()
        assert left(fleet.orders, "orders.to", 1) == ["one"]
