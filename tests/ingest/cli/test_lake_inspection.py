"""Commands that look at a home, copy it or make it again, with a lake: they go over each log, and
say no more than needed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fork_server import commands
from gateway_peer import Connect
from gateway_process import Gateway

from distributary.pipeline.lake.placement import Placement, Rule
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import segment
from distributary.pipeline.tables.lake.disk_lake import DiskLake

Make = Callable[..., Gateway]
LAKE = Placement(1, ("main", "orders", "never"), (Rule("orders.#", ("orders",)),))


def said(*words: object, code: int = 0) -> str:
    done = commands().run(*words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def served(own_gateway: Make, connect: Connect) -> tuple[Path, Gateway]:
    """A lake of which two logs were served: 3 messages in main, 2 in orders, of which one is
    settled."""
    main, orders = own_gateway(), own_gateway()
    DiskLake(main.home).replace(None, LAKE)
    orders.home, orders.options = main.home, ["--log", "orders"]
    for gateway, topic, count in ((main, "flights", 3), (orders, "orders.eu", 2)):
        gateway.start()
        peer = connect("client", port=gateway.port)
        consumer = peer.durable(topic, "mine")
        peer.sender(topic).publish(*map(str, range(count)))
        consumer.confirm(consumer.take(1))
        gateway.stop()
    return main.home, orders


def test_info_and_verify_read_each_log(served: tuple[Path, Gateway]) -> None:
    home, _ = served
    found = json.loads(said("info", "--home", home, "--json"))
    topics = {
        log: [(one["topic"], one["messages"]) for one in info["topics"]]
        for log, info in found["logs"].items()
    }
    assert topics == {"main": [("flights", 3)], "orders": [("orders.eu", 2)]}
    shown = said("info", "--home", home)
    assert f"log orders: {home}/logs/orders" in shown
    alone = json.loads(said("info", "--home", home / "logs" / "orders", "--json"))
    assert alone == found["logs"]["orders"]
    verified = json.loads(said("verify", "--home", home, "--deep", "--json"))
    assert verified["sound"]
    assert list(verified["logs"]) == ["main", "orders"]
    assert f"{home} is sound" in said("verify", "--home", home)


def test_a_topic_that_is_placed_elsewhere_is_told(served: tuple[Path, Gateway]) -> None:
    """Only a change of `lake.json` by hand can place it so."""
    home, _ = served
    lake = DiskLake(home)
    rules = (Rule("flights", ("never",)), Rule("orders.#", LAKE.logs, 3))
    lake.replace(lake.placement(), Placement(2, LAKE.logs, rules))
    text = said("verify", "--home", home, code=1)
    assert "the log main has flights, which is placed in never" in text
    assert "orders.eu" not in text


def test_a_lake_with_one_damaged_log_is_not_sound(served: tuple[Path, Gateway]) -> None:
    home, _ = served
    table = home / "logs" / "orders" / "tables" / "topic_log"
    next(table.glob("record=message/**/*.parquet")).unlink()
    verified = json.loads(said("verify", "--home", home, "--json", code=1))
    assert not verified["sound"]
    assert [one["sound"] for one in verified["logs"].values()] == [True, False]


def test_a_lake_without_its_secret_is_told(served: tuple[Path, Gateway]) -> None:
    home, _ = served
    (home / "lake.secret").write_text("short")
    assert "lake.secret isn't 64 hexadecimal digits" in said("verify", "--home", home, code=1)


def test_a_lake_that_was_never_served_is_told(tmp_path: Path) -> None:
    DiskLake(tmp_path).replace(None, LAKE)
    for command in (("info",), ("verify",), ("upgrade", "--check")):
        assert "no log of the lake" in said(*command, "--home", tmp_path, code=2)
    folder = tmp_path.with_name("copy")
    assert "nothing to copy" in said("backup", "--home", tmp_path, "--to", folder, code=2)


def test_doctor_names_the_logs_and_who_serves_them(served: tuple[Path, Gateway]) -> None:
    home, orders = served
    orders.start()
    done = commands().run("doctor", "--home", home, "--listen", "127.0.0.1:0", "--json")
    found = [one for one in json.loads(done.stdout) if one["subject"] == "lake"]
    assert orders.process is not None
    assert [one["verdict"] for one in found] == ["good", "good"]
    assert f"main, orders (pid {orders.process.pid}), never;" in found[0]["sentence"]
    orders.stop()
    (home / "lake.secret").chmod(0o644)
    done = commands().run("doctor", "--home", home, "--listen", "127.0.0.1:0", "--json")
    assert done.returncode == 1
    assert "chmod 600" in done.stdout


def test_upgrade_looks_at_each_log(served: tuple[Path, Gateway]) -> None:
    """The worst that one of them says is the answer."""
    home, _ = served
    shown = said("upgrade", "--check", "--home", home)
    assert f"opens {home}/logs/orders as it is" in shown
    path = next(iter(segment.paths(Home(home / "logs" / "orders").journal_dir)))
    newer = (segment.MAGIC, segment.VERSION + 1, 0, 1, 1, bytes(8), 8_192)
    path.write_bytes(segment.HEADER.pack(*newer))
    found = json.loads(said("upgrade", "--check", "--home", home, "--json", code=1))
    assert {log: one["opens"] for log, one in found["logs"].items()} == {
        "main": True,
        "orders": False,
    }


def test_a_lake_is_copied_and_made_again(
    served: tuple[Path, Gateway], connect: Connect, tmp_path: Path
) -> None:
    """With its placement and its secret; what was owed comes, what was settled doesn't."""
    home, orders = served
    folder, again = tmp_path / "copy", tmp_path / "again"
    shown = said("backup", "--home", home, "--to", folder)
    assert "The log orders:" in shown
    assert "Not copied, as no gateway has served them: never." in shown
    made = json.loads(said("backup", "--home", home, "--to", folder, "--json"))
    assert sorted(made) == ["main", "orders"]
    assert (folder / "manifest.json").stat().st_mode & 0o777 == 0o600
    said("restore", "--from", folder, "--home", again)
    lake = DiskLake(again)
    assert (lake.placement(), lake.secret()) == (LAKE, DiskLake(home).secret())
    assert (again / "lake.secret").stat().st_mode & 0o777 == 0o600
    assert json.loads(said("verify", "--home", again, "--deep", "--json"))["sound"]
    orders.home = again
    orders.start()
    got = connect("client", port=orders.port).durable("orders.eu", "mine").take(1)
    assert [str(one.body) for one in got] == ["1"]
    orders.stop()
    assert "isn't empty" in said("restore", "--from", folder, "--home", again, code=2)
    DiskLake(tmp_path / "another").replace(None, Placement(1, ("main",)))
    assert "is another lake" in said(
        "restore", "--from", folder, "--home", tmp_path / "another", code=2
    )


def test_a_folder_has_the_backup_of_one_log_or_of_a_lake(own_gateway: Make, tmp_path: Path) -> None:
    gateway = own_gateway()
    gateway.start().stop()
    folder = tmp_path / "copy"
    said("backup", "--home", gateway.home, "--to", folder)
    DiskLake(gateway.home).replace(None, LAKE)
    shown = said("backup", "--home", gateway.home, "--to", folder, code=2)
    assert "has the backup of a home with one log" in shown
