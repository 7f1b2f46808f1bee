"""A kept home of each released version: restored, opened, continued and read by this one.

`tests/formats/make_home.py` made them; what each holds is in their `expected.json`.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from backup_homes import all_of, bodies_of, restored
from fork_server import clean_environment, commands
from gateway_management import Manager
from gateway_peer import Peer, selector
from gateway_process import Gateway
from pyspark.sql import SparkSession

from distributary import pending
from distributary.jobs.materialize.materialize import once
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.verify.verify_home import verify

#: Subscriptions with untaken messages: one that is due in the year 2100, and copies of "new".
WAITING = ("queue/work", "global/emptied")
RELEASES = sorted((Path(__file__).parents[2] / "formats").glob("release_*"))


@dataclass(frozen=True)
class Released:
    """A restored home of a release, which this test run may change, and what it must hold."""

    home: Home
    expected: dict[str, Any]
    settings: Path


@pytest.fixture(params=RELEASES, ids=lambda folder: folder.name)
def released(request: pytest.FixtureRequest, tmp_path: Path) -> Released:
    kept = tmp_path / "kept"
    shutil.copytree(request.param, kept)
    home, settings = tmp_path / "home", tmp_path / "settings"
    done = restored(kept / "backup", home, "--settings", settings)
    assert done.returncode == 0, done.stderr
    shutil.copy(kept / "dispatch", home / "dispatch")
    return Released(Home(home), json.loads((kept / "expected.json").read_text()), settings)


def upgrade(released: Released) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON of `upgrade --check` for the home and its settings."""
    folders = [folder for folder in released.settings.iterdir() if folder.name != "config"]
    files = {
        f"DISTRIBUTARY_{folder.name.replace('.', '_').upper()}": str(next(folder.iterdir()))
        for folder in folders
    }
    words = ("--home", released.home.root, "--config", released.settings / "config/gateway.toml")
    done = commands().run(
        "upgrade", "--check", "--json", *words, environment=clean_environment() | files
    )
    return done.returncode, json.loads(done.stdout)


def owed(peer: Peer, id_: str) -> list[object]:
    """The messages of a subscription, which are settled then."""
    kind, _, name = id_.partition("/")
    if kind == "queue":
        return bodies_of(peer.receiver(unquote(name), capabilities=("queue",)))
    topic = "orders.*" if id_ == "global/all" else "orders"
    if kind == "global":
        return bodies_of(peer.shared_durable(topic, f"{name}|global"))
    with Peer(int(peer.socket.getpeername()[1]), name.partition("/")[0]) as owner:
        dear = selector("amount > 10")
        return bodies_of(owner.durable("orders", name.partition("/")[2], filters=dear))


def test_each_released_home_goes_on(spark: SparkSession, released: Released) -> None:
    """Nothing of it is lost or changed in meaning, also over a kill; Spark's tables go on."""
    home, expected = released.home, released.expected
    code, said = upgrade(released)
    assert (code, said["opens"]) == (0 if said["rollback"] else 3, True), said
    gateway = Gateway(home.root.parent / "gateway")
    gateway.home = home.root
    with gateway:
        with Peer(gateway.port, "tests") as peer:
            manager = Manager(peer)
            rows = {id_: manager.done("READ", "subscription", id_) for id_ in expected["owed"]}
            assert [id_ for id_, row in rows.items() if row["paused"]] == expected["paused"]
            assert rows["global/billing"]["policy"] == {"lock_ms": 60_000}
            for name in expected["gone"]:
                manager.refused(404, "READ", "subscription", name)
            for name in expected["paused"]:
                manager.done("RESUME", "subscription", name)
            found = {id_: owed(peer, id_) for id_ in expected["owed"]}
            assert found == expected["owed"]
            peer.sender("orders").publish("new")
        gateway.kill()
        gateway.start()
        with Peer(gateway.port, "tests") as peer:
            assert owed(peer, "global/billing") == ["new"]
            got = all_of(peer.shared_durable("orders", "quiet|global"))
            assert [one.body for one in got] == ["new"]
        gateway.stop()
    once(spark, str(home.root))
    read = spark.read.format("delta")
    log, messages = (read.load(str(home.spark_tables / name)) for name in ("topic_log", "messages"))
    assert log.where("record = 'message'").count() == expected["messages"] + 1
    assert messages.count() == expected["messages"] + 1
    left = {id_: pending(spark, str(home.root), id_).count() for id_ in expected["owed"]}
    assert left == {id_: int(id_ in WAITING) for id_ in left}
    assert verify(home, deep=True).sound
    assert upgrade(released)[0] == 0
