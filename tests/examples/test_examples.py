"""The examples of client libraries, built and run as a person runs them, with one real gateway.

Goal: a copied example is a program that loses nothing, comes back by itself, and stops when it is
told to.
Method: billing subscribes, the gateway is started anew, the shop publishes ten orders of which one
can't be billed. Then the gateway is asked for published and owed messages and dead letters; a
second subscription, without consumers, counts the published ones.
"""

import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from example_programs import EXAMPLES, SOURCES, Programs, locked_jars
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import PATIENCE, Gateway, free_port, until
from spark_lender import lent

ORDERS = 10
POISON = 7
BILLING, LEDGER = "global/billing", "global/ledger"
DEAD_LETTERS, INVOICES = "DLQ.global/billing", "invoices"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """One gateway for all examples."""
    with Gateway(tmp_path_factory.mktemp("examples")) as running:
        yield running


@pytest.fixture
def gateway(shared: Gateway) -> Iterator[Gateway]:
    """The gateway, which has nothing of what an example has made before."""
    yield shared
    if shared.process is None:
        shared.start()
    with Peer(shared.port) as peer:
        manager = Manager(peer)
        for subscription in (BILLING, LEDGER):
            manager.ask("DELETE", "subscription", subscription, force=True)
        for queue in (DEAD_LETTERS, INVOICES):
            manager.ask("DELETE", "queue", queue, force=True)


def environment(port: int) -> dict[str, str]:
    return os.environ | {"AMQP_URL": f"amqp://127.0.0.1:{port}"}


@contextmanager
def billing(programs: Programs, gateway: Gateway, log: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """The example's consumer while the block runs; it is killed if it's still there."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            programs.billing,
            cwd=programs.folder,
            env=environment(gateway.port),
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def shop(programs: Programs, port: int) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        programs.shop,
        cwd=programs.folder,
        env=environment(port),
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
        check=False,
    )


def row(manager: Manager, kind: str, name: str) -> dict[str, Any]:
    """The gateway's row of a subscription or queue; empty if there is none."""
    answer = manager.ask("READ", kind, name)
    return answer.body if answer.status == 200 else {}


def await_consumer(gateway: Gateway, process: "subprocess.Popen[bytes]", log: Path) -> None:
    """Billing consumes from the durable subscription that all examples share."""

    def consumes() -> bool:
        assert process.poll() is None, log.read_text()
        return bool(row(manager, "subscription", BILLING).get("consumers"))

    with Peer(gateway.port) as peer:
        manager = Manager(peer)
        until(consumes, f"a consumer of {BILLING}", PATIENCE * 2, every=0.1)


def await_settled(gateway: Gateway, log: Path) -> None:
    """Nothing is owed to billing, and there is a dead letter."""

    def settled() -> bool:
        owed, dead = row(manager, "subscription", BILLING), row(manager, "queue", DEAD_LETTERS)
        return owed["backlog"] == owed["in_flight"] == 0 and dead.get("backlog") == 1

    with Peer(gateway.port) as peer:
        manager = Manager(peer)
        try:
            until(settled, "all orders are settled", PATIENCE * 2, every=0.1)
        except AssertionError as late:
            owed, dead = row(manager, "subscription", BILLING), row(manager, "queue", DEAD_LETTERS)
            late.add_note(f"{owed}\n{dead}\n{log.read_text()}")
            raise


def numbers(log: Path, what: str) -> list[int]:
    return [int(number) for number in re.findall(rf"\b{what} order (\d+)", log.read_text())]


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.timeout(400)  # downloads on a machine that has none of it, and a busy one at that
def test_an_example(name: str, gateway: Gateway, tmp_path: Path) -> None:
    """Ten published, nine billed, one a dead letter; then it stops, and its subscription stays."""
    programs, log = EXAMPLES[name](), tmp_path / "billing.log"
    with Peer(gateway.port) as peer:
        Manager(peer).done("CREATE", "subscription", LEDGER, topic="orders")
    with billing(programs, gateway, log) as process:
        await_consumer(gateway, process, log)
        gateway.stop()
        gateway.start()
        await_consumer(gateway, process, log)
        done = shop(programs, gateway.port)
        assert done.returncode == 0, done.stderr
        assert f"published {ORDERS} orders" in done.stdout
        await_settled(gateway, log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == programs.exit_code, log.read_text()
    good = [number for number in range(1, ORDERS + 1) if number != POISON]
    assert sorted(numbers(log, "billed")) == good, "each once"
    with Peer(gateway.port) as peer:
        manager = Manager(peer)
        assert row(manager, "subscription", LEDGER)["backlog"] == ORDERS, "published"
        left = row(manager, "subscription", BILLING)
        assert (left["consumers"], left["durable"], left["shared"]) == (0, True, True)
        (dead,) = peer.receiver(f"queue://{DEAD_LETTERS}", capabilities=()).take()
        assert dead.message.properties["order"] == POISON
        assert dead.message.annotations["x-opt-dead-letter-reason"] == programs.reason
        invoices = row(manager, "queue", INVOICES).get("backlog", 0)
        assert invoices == (len(good) if programs.invoices else 0)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "spring-boot"])
def test_a_shop_without_a_gateway_says_so(name: str) -> None:
    """It fails at once, with a sentence."""
    done = shop(EXAMPLES[name](), free_port())
    assert done.returncode == 1, done.stderr
    assert "refused" in done.stderr.lower()
    assert "published 10" not in done.stdout


@pytest.mark.spark
@pytest.mark.timeout(600)  # a JVM: half a minute, unless others want the same cores
def test_the_spark_jobs(gateway: Gateway, tmp_path: Path) -> None:
    """A worker has billed ten orders; the query bills the ten that come next, beside a table of
    what it can't; the report says what the worker did."""
    programs, log = EXAMPLES["python"](), tmp_path / "billing.log"
    with billing(programs, gateway, log) as process:
        await_consumer(gateway, process, log)
        assert shop(programs, gateway.port).returncode == 0
        await_settled(gateway, log)
    assert shop(programs, gateway.port).returncode == 0
    gateway.stop()  # all that the worker did is in the table then
    gateway.start()
    said = submitted(gateway, tmp_path)
    assert "bills [1, 2, 3, 4, 5, 6, 8, 9, 10]\nrefused [7]\n" in said
    assert re.search(r"global\b.*\|accepted +\|9 +\|9048 ", said), said
    assert re.search(r"global\b.*\|dead_lettered *\|1 +\|-1 ", said), said
    with Peer(gateway.port) as peer:
        assert row(Manager(peer), "subscription", BILLING)["backlog"] == 0


def submitted(gateway: Gateway, folder: Path) -> str:
    """The output of the Spark examples, which must end well."""
    jobs = str(Path(__file__).with_name("spark_jobs.py"))
    words = [sys.executable, jobs, str(gateway.home), str(folder)]
    command, variables = lent(words, environment(gateway.port))
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4_000:]
    return done.stdout


def test_the_jars_of_spring_boot_are_those_of_its_pom() -> None:
    """The parent's version, and what the pom names with a version of its own."""
    space = "{http://maven.apache.org/POM/4.0.0}"
    pom = ET.parse(SOURCES / "spring-boot" / "pom.xml").getroot()  # noqa: S314 (our own)
    locked = {(group, name): version for group, name, version in locked_jars()}
    named = {
        tuple(str(one.findtext(f"{space}{part}")) for part in ("groupId", "artifactId", "version"))
        for one in pom.iter(f"{space}dependency")
    }
    parent = pom.findtext(f"{space}parent/{space}version")
    assert locked["org.springframework.boot", "spring-boot"] == parent
    for group, artifact, version in named:
        assert locked[group, artifact] == (parent if version == "None" else version)
