"""Gateways of a lake: each serves a log of its own in one home, and the others can find it."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from faulty_s3 import FaultyS3
from fork_server import clean_environment, commands
from gateway_http import ShownGateway
from gateway_management import Manager
from gateway_peer import Connect
from gateway_process import Gateway, until
from proton import Delivery

from distributary.pipeline.lake.placement import Placement, Rule
from distributary.pipeline.tables.lake.disk_lake import DiskLake
from distributary.pipeline.tables.lake.lake import OwnerAddress

Make = Callable[..., Gateway]
LAKE = Placement(1, ("main", "orders"), (Rule("orders.#", ("orders",)),))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A lake with two logs."""
    DiskLake(tmp_path / "lake").replace(None, LAKE)
    return tmp_path / "lake"


def of_log(gateway: Gateway, home: Path, log: str | None = None) -> Gateway:
    gateway.home = home
    gateway.options = [] if log is None else ["--log", log]
    return gateway


def refused(*words: object) -> str:
    """The sentence of a `serve` that doesn't begin."""
    done = commands().run("serve", "--listen", "127.0.0.1:0", *words)
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_two_gateways_serve_two_logs_of_one_home(
    own_gateway: Make, connect: Connect, home: Path, topic: str
) -> None:
    main, orders = of_log(own_gateway(), home), of_log(own_gateway(), home, "orders")
    for gateway in (main, orders):
        gateway.start()
        peer = connect(topic, port=gateway.port)
        own = topic if gateway is main else f"orders.{topic}"
        consumer = peer.durable(own, "mine")
        peer.sender(own).publish(str(gateway.port))
        assert [str(one.body) for one in consumer.take(1)] == [str(gateway.port)]
        name = peer.connection.remote_container
        assert name == "distributary" + ("/orders" if gateway is orders else "")
    assert main.events("listening")[0]["log"] == "main"
    said = orders.events("listening")[0]
    assert (said["log"], said["home"]) == ("orders", str(home / "logs" / "orders"))
    lake = DiskLake(home)
    for gateway, log in ((main, "main"), (orders, "orders")):
        gateway.await_event("address.said")
        found = lake.address_of(log)
        assert found is not None
        assert found.url == f"amqp://127.0.0.1:{gateway.port}"
        assert found.container == "distributary" + ("/orders" if log == "orders" else "")
        gateway.stop()
    assert (home / "logs" / "orders" / "tables" / "topic_log").is_dir()


def test_a_log_has_one_owner_and_a_standby_takes_it(own_gateway: Make, home: Path) -> None:
    owner, standby = (of_log(own_gateway(), home, "orders") for _ in range(2))
    owner.start()
    assert (
        "is in use by the gateway"
        in commands()
        .run("serve", "--listen", "127.0.0.1:0", "--home", home, "--log", "orders")
        .stderr
    )
    standby.options.append("--standby")
    standby.spawn()
    standby.await_event("standby.waiting")
    before = owner.await_event("address.said")
    owner.kill()
    after = standby.await_event("address.said")
    assert (before["log"], after["log"]) == ("orders", "orders")
    assert DiskLake(home).address_of("orders").url == f"amqp://127.0.0.1:{standby.port}"
    standby.stop()


def test_any_log_that_is_free_is_served(own_gateway: Make, home: Path) -> None:
    """Gateways that are started alike serve all logs; one more waits for whichever owner dies."""
    one, other, third = (of_log(own_gateway(), home, "any") for _ in range(3))
    logs = []
    for gateway in (one, other):
        gateway.start()
        logs.append(gateway.await_event("address.said")["log"])
    assert sorted(logs) == ["main", "orders"]
    containers = {DiskLake(home).address_of(log).container for log in logs}
    assert containers == {"distributary", "distributary/orders"}
    said = commands().run("serve", "--listen", "127.0.0.1:0", "--home", home, "--log", "any")
    assert said.returncode == 1
    assert "has an owner (main, orders); wait for one with --standby" in said.stderr
    third.options.append("--standby")
    third.spawn()
    third.await_event("standby.waiting")
    other.kill()
    assert third.await_event("address.said")["log"] == logs[1]
    assert DiskLake(home).address_of(logs[1]).url == f"amqp://127.0.0.1:{third.port}"
    third.stop()
    one.stop()


def test_any_log_of_a_home_that_is_no_lake_is_its_own(own_gateway: Make) -> None:
    gateway = own_gateway()
    gateway.options = ["--log", "any"]
    gateway.start().stop()
    assert not list(gateway.home.glob("lake*")) + list(gateway.home.glob("address"))


def test_the_metrics_say_the_log(tmp_path: Path, home: Path) -> None:
    with of_log(ShownGateway(tmp_path / "one"), home, "orders") as gateway:
        assert gateway.metric("log_info", log="orders", container="distributary/orders") == 1
        gateway.stop()


def test_a_log_that_is_not_there_is_one_sentence(home: Path, tmp_path: Path) -> None:
    assert f"{home} has no log paid: there are main, orders. Make it by" in refused(
        "--home", home, "--log", "paid"
    )
    single = tmp_path / "single"
    assert "has one log alone, main, and no log orders" in refused(
        "--home", single, "--log", "orders"
    )
    assert not single.exists()


def test_a_log_is_not_served_as_a_home_of_its_own(home: Path, tmp_path: Path) -> None:
    """Its gateway would take what other logs have; neither by a link to its folder."""
    (home / "logs" / "orders").mkdir(parents=True)
    (tmp_path / "link").symlink_to(home / "logs" / "orders")
    for place in (home / "logs" / "orders", tmp_path / "link"):
        assert f"serve it by --home {home} --log orders" in refused("--home", place)


def test_every_home_has_the_log_main(own_gateway: Make) -> None:
    """To name it makes no lake."""
    gateway = own_gateway()
    gateway.options = ["--log", "main"]
    gateway.start().stop()
    assert "log" not in gateway.events("listening")[0]
    assert not list(gateway.home.glob("lake*")) + list(gateway.home.glob("address"))


def test_a_folder_called_logs_is_no_lake(own_gateway: Make, tmp_path: Path) -> None:
    gateway = own_gateway()
    gateway.home = tmp_path / "logs" / "orders"
    gateway.start().stop()


def test_settings_that_no_lake_can_have(home: Path, tmp_path: Path) -> None:
    config = tmp_path / "tables.toml"
    config.write_text('[tables]\nurl = "s3://bucket/tables"\n')
    assert "each keeps its tables in its own home" in refused(
        "--home", home, "--log", "orders", "--config", config
    )
    done = commands().run(
        *("serve", "--home", home, "--log", "orders", "--listen", "0.0.0.0:0"),
        environment={"DISTRIBUTARY_SECURITY_ANONYMOUS": "true"},
    )
    assert done.returncode == 2
    assert "set gateway.advertise to the HOST:PORT" in done.stderr


def test_what_it_advertises(own_gateway: Make, home: Path) -> None:
    gateway = of_log(own_gateway({"gateway": {"advertise": "[fd00::7]:5671"}}), home)
    gateway.start()
    assert gateway.await_event("address.said")["url"] == "amqp://[fd00::7]:5671"
    gateway.stop()


#: Opens a home as `serve` does before it listens, and prints what of lakes was loaded for it.
LOADS = """
import json, sys
from pathlib import Path
from distributary.ingest.gateway.homes import ServedLog
from distributary.ingest.gateway import serve
from distributary.ingest.runtime import load_settings
settings = load_settings.load(None)
served = ServedLog(sys.argv[1])
served.home(settings)
assert served.settings(settings) is settings
assert served.member(settings) is None
rooms = ("pipeline.lake", "tables.lake", "lake_member")
print(json.dumps([name for name in sys.modules if any(room in name for room in rooms)]))
"""


def test_a_home_with_one_log_loads_and_writes_nothing_of_lakes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADS, str(tmp_path / "home")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == []
    assert list(tmp_path.iterdir()) == []


def test_a_lake_on_a_store(own_gateway: Make, connect: Connect, s3: FaultyS3, topic: str) -> None:
    """Made by the command, served by two, found by address; nothing lies on a disk."""
    assert s3.port
    address = "s3://lake/whole"
    made = commands().run("log", "create", "orders", "--home", address)
    assert made.returncode == 0, made.stderr
    gateways = [own_gateway({"owner": {"lease_ms": 5_000}}) for _ in range(2)]
    for gateway, log in zip(gateways, ("main", "orders"), strict=True):
        gateway.address, gateway.options = address, ["--log", log]
        gateway.start()
        peer = connect(topic, port=gateway.port)
        peer.sender(topic).publish("here")
        gateway.await_event("address.said")
    shown = commands().run("log", "list", "--home", address, "--json")
    found = json.loads(shown.stdout)
    assert [one["home"] for one in found["logs"]] == [address, f"{address}/logs/orders"]
    ports = [one["owner"]["url"].rpartition(":")[2] for one in found["logs"]]
    assert ports == [str(gateway.port) for gateway in gateways]
    said = commands().run("serve", "--listen", "127.0.0.1:0", "--home", f"{address}/logs/orders")
    assert said.returncode == 2
    assert f"serve it by --home {address} --log orders" in said.stderr
    for gateway in gateways:
        assert not gateway.home.exists()
        gateway.stop()
    assert commands().run("log", "create", "never", "--home", address).returncode == 0
    for command in ("info", "verify"):
        said = commands().run(command, "--home", address, "--json")
        assert said.returncode == 0, said.stdout + said.stderr
        assert list(json.loads(said.stdout)["logs"]) == ["main", "orders", "never"]


def test_an_address_that_is_not_taken_is_said_again(own_gateway: Make, home: Path) -> None:
    """A folder stands in its way."""
    (home / "address").mkdir()
    gateway = of_log(own_gateway({"fleet": {"address_retry_ms": 100}}), home)
    gateway.start()
    assert "can't be used" in str(gateway.await_event("address.unsaid", 2)["reason"])
    (home / "address").rmdir()
    gateway.await_event("address.said")
    until(lambda: DiskLake(home).address_of("main"), "its address")
    gateway.stop()


def test_an_address_that_a_former_owner_said_too_late_does_not_stay(
    own_gateway: Make, home: Path
) -> None:
    """Other gateways would ask there for ever."""
    gateway = of_log(own_gateway({"owner": {"lease_ms": 1_000}}), home)
    gateway.start()
    gateway.await_event("address.said")
    lake = DiskLake(home)
    ours = lake.address_of("main")
    assert ours is not None
    lake.say_address("main", OwnerAddress("amqp://127.0.0.1:1", ours.container, ours.since - 1))
    until(lambda: lake.address_of("main") == ours, "its address again")
    gateway.stop()


def test_dead_letters_say_their_log(
    own_gateway: Make, connect: Connect, home: Path, topic: str
) -> None:
    """So each gateway of the lake knows where they are; they are sent back as ever."""
    gateway = of_log(own_gateway(), home, "orders").start()
    peer = connect("client", port=gateway.port)
    consumer = peer.shared_durable(f"orders.{topic}", "mine|global")
    peer.sender(f"orders.{topic}").publish("bad")
    consumer.confirm(consumer.take(1), Delivery.REJECTED)
    queue = "queue://DLQ.log/orders/global/mine"
    assert LAKE.logs_of(queue) == ("orders",)
    assert [str(one.body) for one in peer.receiver(queue, capabilities=("queue",)).take(1)] == [
        "bad"
    ]
    peer.drop()
    manager = Manager(connect("operator", port=gateway.port))
    said = manager.done("READ", "subscription", "global/mine")
    assert said["dead_letters"] == "DLQ.log/orders/global/mine"
    assert manager.done("READ", "queue", said["dead_letters"])["dead_letters"] is None
    assert manager.done("REDRIVE", "subscription", "global/mine")["redriven"] == 1
    gateway.stop()


def test_default_policies_name_what_is_in_the_log(home: Path) -> None:
    """A copy is in one group with its message, so in its log."""
    for name, value in (
        ("SUBSCRIPTION_DEAD_LETTER_ADDRESS", "graveyard"),
        ("TOPIC_DEAD_LETTER_ADDRESS", "graveyard"),
        ("TOPIC_ROUTES", "queue://graveyard"),
    ):
        done = commands().run(
            *("serve", "--home", home, "--log", "orders", "--listen", "127.0.0.1:0"),
            environment={**clean_environment(), f"DISTRIBUTARY_{name}": value},
        )
        assert done.returncode == 2
        assert "is queue://graveyard, which is in the log main" in done.stderr
