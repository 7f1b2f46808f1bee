"""`distributary log`: logs are made, topics are placed, and no topic in use moves."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_s3 import FaultyS3
from fork_server import clean_environment, commands
from gateway_peer import Connect
from gateway_process import Gateway

Make = Callable[..., Gateway]
#: What commits nothing by itself while a test lasts.
SLOW = {"commit": {"interval_ms": 600_000}}


def ask(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = commands().run("log", *words)
    assert done.returncode == code, done.stdout + done.stderr
    if code:
        assert done.stderr.startswith("distributary: ")
        assert done.stderr.count("\n") == 1
    return done


def placed(home: object) -> list[tuple[str, list[str]]]:
    found = json.loads(ask("list", "--home", home, "--json").stdout)
    return [(rule["pattern"], rule["logs"]) for rule in found["rules"]]


def test_a_home_becomes_a_lake(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for words in (("list",), ("place", "a", "main"), ("move", "main", "machine-b")):
        said = ask(*words, "--home", home, code=2).stderr
        assert f"{home} is no folder: there are no logs" in said
    assert not home.exists()
    home.mkdir()
    said = ask("list", "--home", home, code=2).stderr
    assert "has one log alone, main: it is no lake" in said
    ask("create", "orders", "--home", home)
    ask("create", "prices", "--home", home)
    ask("place", "orders.#", "orders", "--home", home)
    ask("place", "queue://work.*", "main", "prices", "--home", home)
    ask("place", "orders.urgent", "prices", "--before", "orders.#", "--home", home)
    assert ask("list", "--home", home).stdout == (
        f"main    {home}  never served\n"
        f"orders  {home}/logs/orders  never served\n"
        f"prices  {home}/logs/prices  never served\n"
        "orders.urgent -> prices\n"
        "orders.# -> orders\n"
        "queue://work.* -> main, prices\n"
        "all else -> main\n"
    )
    shown = json.loads(ask("place", "orders.#", "--remove", "--home", home, "--json").stdout)
    assert shown == json.loads(ask("list", "--home", home, "--json").stdout)
    assert shown["version"] == 6
    assert [rule["pattern"] for rule in shown["rules"]] == ["orders.urgent", "queue://work.*"]
    assert shown["logs"][1] == {
        "log": "orders",
        "home": f"{home}/logs/orders",
        "owner": None,
        "machine": None,
        "standbys": [],
    }
    assert (shown["relays"], shown["move"]) == ([], None)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("create", "orders"), "there is a log orders already"),
        (("create", "Orders"), "can't be the name of a log"),
        (("place", "a", "paid"), "there is no log paid: there are main, orders. Create it first"),
        (("place", "a"), "name the log of a, or give --remove"),
        (("place", "a*", "orders"), "stand for whole words"),
        (("place", "a", "orders", "--remove"), "--remove takes a pattern alone"),
        (("place", "a", "--remove"), "there is no rule a"),
        (("place", "a", "orders", "--before", "b"), "there is no rule b"),
    ],
)
def test_what_can_not_be_is_said_in_one_sentence(
    tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    ask("create", "orders", "--home", tmp_path)
    assert text in ask(*words, "--home", tmp_path, code=2).stderr


def test_a_log_has_no_logs(tmp_path: Path) -> None:
    ask("create", "orders", "--home", tmp_path)
    said = ask("create", "prices", "--home", tmp_path / "logs" / "orders", code=2).stderr
    assert f"make logs by --home {tmp_path}" in said
    ask("create", "prices", "--home", tmp_path / "logs" / "other")


def test_there_are_limits(tmp_path: Path) -> None:
    config = tmp_path / "few.toml"
    config.write_text("[fleet]\nlogs_max = 2\nrules_max = 1\n")
    given = ("--home", tmp_path / "home", "--config", config)
    ask("create", "orders", *given)
    assert "2 are the most (fleet.logs_max)" in ask("create", "prices", *given, code=2).stderr
    ask("place", "a", "orders", *given)
    assert "there may be 1 rules at most" in ask("place", "b", "orders", *given, code=2).stderr


def test_nothing_is_placed_while_a_gateway_runs(own_gateway: Make) -> None:
    """No gateway of any log may run, and none can begin meanwhile: the command has all locks."""
    gateway = own_gateway()
    ask("create", "orders", "--home", gateway.home)
    gateway.options = ["--log", "orders"]
    gateway.start()
    said = ask("place", "a", "orders", "--home", gateway.home, code=4).stderr
    assert "while no gateway of the lake runs, and the log orders has one" in said
    assert "pid" in said
    gateway.stop()
    ask("place", "a", "orders", "--home", gateway.home)
    gateway.start()
    gateway.stop()


def test_what_a_log_has_stays_there(own_gateway: Make, connect: Connect, tmp_path: Path) -> None:
    """Messages, subscriptions without any, queues, patterns, schemas."""
    gateway = own_gateway().start()
    peer = connect("client", port=gateway.port)
    peer.sender("said.eu").publish("1")
    peer.durable("heard.eu", "mine")
    peer.durable("some.*", "those")
    peer.sender("queue://work").publish("2")
    schema = tmp_path / "checked.json"
    schema.write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    where = {**clean_environment(), "DISTRIBUTARY_GATEWAY": f"127.0.0.1:{gateway.port}"}
    made = commands().run("schema", "set", "checked", "--json-schema", schema, environment=where)
    assert made.returncode == 0, made.stderr
    gateway.stop()
    home = gateway.home
    ask("create", "orders", "--home", home)
    for pattern, found in (
        ("said.#", "said.eu"),
        ("heard.eu", "heard.eu"),
        ("checked", "checked"),
        ("#.eu", "heard.eu, pattern://some.*, said.eu"),
        ("some.where", r"pattern://some.*"),
        ("queue://*", "queue://work"),
    ):
        said = ask("place", pattern, "orders", "--home", home, code=4).stderr
        assert f"the log main has {found}, which would be placed elsewhere" in said
    assert placed(home) == []
    ask("place", "other.#", "orders", "--home", home)
    ask("place", "said.#", "main", "--home", home)
    assert placed(home) == [("other.#", ["orders"]), ("said.#", ["main"])]
    gateway.start()
    gateway.stop()


def test_what_another_log_has_stays_there_too(own_gateway: Make, connect: Connect) -> None:
    gateway = own_gateway()
    home = gateway.home
    ask("create", "orders", "--home", home)
    ask("place", "orders.#", "orders", "--home", home)
    gateway.options = ["--log", "orders"]
    gateway.start()
    connect(port=gateway.port).sender("orders.eu").publish("1")
    gateway.stop()
    said = ask("place", "orders.#", "--remove", "--home", home, code=4).stderr
    assert "the log orders has orders.eu" in said
    both = ("place", "orders.#", "orders", "main", "--partitions")
    said = ask(*both, 2, "--home", home, code=4).stderr
    assert "the log orders has orders.eu, which would be placed elsewhere" in said
    said = ask(*both, 3, "--home", home, code=2).stderr
    assert "the rule orders.# has 2 logs and 3 partitions" in said
    ask("place", "orders.urgent", "main", "--before", "orders.#", "--home", home)


def test_what_a_kill_left_is_not_passed_over(own_gateway: Make, connect: Connect) -> None:
    """The topics in its journal aren't in the table."""
    gateway = own_gateway(SLOW).start()
    connect(port=gateway.port).sender("a").publish("1")
    gateway.kill()
    ask("create", "orders", "--home", gateway.home)
    said = ask("place", "a", "orders", "--home", gateway.home, code=4).stderr
    assert "the log main was left by a kill" in said
    gateway.start()
    gateway.stop()
    said = ask("place", "a", "orders", "--home", gateway.home, code=4).stderr
    assert "the log main has a, which would be placed elsewhere" in said


def test_the_same_on_a_store(own_gateway: Make, connect: Connect, s3: FaultyS3) -> None:
    assert s3.port
    home = "s3://lake/placed"
    gateway = own_gateway({"owner": {"lease_ms": 5_000}})
    gateway.address = home
    gateway.start()
    connect(port=gateway.port).sender("a.b").publish("1")
    ask("create", "orders", "--home", home)
    config = ("--config", gateway.config)
    said = ask("place", "c", "orders", "--home", home, *config, code=4).stderr
    assert "the log main has one: s3://lake/placed is in use" in said
    gateway.stop()
    said = ask("place", "a.*", "orders", "--home", home, *config, code=4).stderr
    assert "the log main has a.b, which would be placed elsewhere" in said
    ask("place", "c", "orders", "--home", home, *config)
    assert placed(home) == [("c", ["orders"])]
    gateway.start()
    gateway.stop()
