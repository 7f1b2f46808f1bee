"""A Spark query, and a subscription in the past, by any gateway of a lake: the log that has it
answers."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import Gateway
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from test_subscriber import SETTINGS, Subscription, drained

from distributary.jobs.materialize.materialize import once
from distributary.jobs.views import backfill
from distributary.pipeline.lake.placement import Placement, Rule
from distributary.pipeline.tables.lake.disk_lake import DiskLake

LAKE = Placement(1, ("main", "orders"), (Rule("orders.#", ("orders",)),))


@pytest.fixture(scope="module")
def gateways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Gateway]]:
    """One for each log of a lake."""
    folder = tmp_path_factory.mktemp("lake")
    made = {log: Gateway(folder / log, SETTINGS) for log in LAKE.logs}
    DiskLake(folder / "lake").replace(None, LAKE)
    for log, gateway in made.items():
        gateway.home, gateway.options = folder / "lake", ["--log", log]
        gateway.start()
        gateway.await_event("address.said")
    yield made
    for gateway in made.values():
        gateway.stop()


def seen_from(gateway: Gateway, name: str) -> Subscription:
    """A subscription that is there, asked at this gateway."""
    one = Subscription.__new__(Subscription)
    one.gateway, one.topic, one.filters = gateway, name, None
    return one


def named(gateway: Gateway, topic: str, name: str) -> None:
    """A shared durable subscription of that name, and ten messages."""
    with Peer(gateway.port) as peer:
        peer.leave(peer.shared_durable(topic, f"{name}|global"), closed=False)
        peer.sender(topic).publish(*range(10))


def test_a_query_takes_from_the_log_that_has_it(
    spark: SparkSession, gateways: dict[str, Gateway], tmp_path: Path
) -> None:
    """By the gateway of another log, which owns nothing of it."""
    mine = Subscription(gateways["orders"], "orders.taken")
    mine.publish(range(50))
    theirs = seen_from(gateways["main"], mine.topic)
    assert theirs.pending(spark).count() == 50
    by_home = {"home": str(gateways["main"].home), "subscription": "global/orders.taken"}
    assert spark.read.format("subscription").options(**by_home).load().count() == 50
    assert drained(spark, theirs, tmp_path) == list(range(50))
    assert mine.settled()


def test_several_logs_that_have_it_are_named(
    spark: SparkSession, gateways: dict[str, Gateway], tmp_path: Path
) -> None:
    """Nothing is taken from either until one is said."""
    main, orders = gateways["main"], gateways["orders"]
    named(main, "both", "both")
    named(orders, "orders.both", "both")
    asked = seen_from(main, "both")
    with pytest.raises(PySparkException, match=r"in the logs main and orders, one in each: name"):
        asked.pending(spark).count()
    assert asked.pending(spark, lakeLog="orders").select("topic").distinct().first() == (
        "orders.both",
    )
    assert drained(spark, asked, tmp_path, lakeLog="main") == list(range(10))
    with Peer(orders.port) as peer:
        row = Manager(peer).done("READ", "subscription", "global/both")
    assert row["backlog"] == 10, "of the other one nothing was taken"


def test_a_subscription_begins_in_the_past_of_its_log(
    spark: SparkSession, gateways: dict[str, Gateway], capsys: pytest.CaptureFixture[str]
) -> None:
    """The home of the lake says enough: the tables of the log are asked that has the topic, and it
    is made, and rewound, there, by whichever gateway."""
    main, orders = gateways["main"], gateways["orders"]
    with Peer(orders.port) as peer:
        peer.leave(peer.shared_durable("orders.past", "keeps|global"), closed=False)
        peer.sender("orders.past").publish(*range(20))
    for gateway in gateways.values():
        gateway.stop()
    assert once(spark, str(main.home))
    for gateway in gateways.values():
        gateway.start()
    of_lake = ["--home", str(main.home), "--gateway", f"127.0.0.1:{main.port}", "--json"]
    made = [
        "global/late",
        "--topic",
        "orders.past",
        "--since",
        "0",
        "--selector",
        "JMSPriority = 4",
    ]
    assert backfill.main([*made, *of_lake, "--dry-run"]) == 0
    assert json.loads(capsys.readouterr().out)["matches"] == 20
    assert backfill.main([*made, *of_lake]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["matches"], said["floor"]) == (20, 0)
    assert said["hint_to"] is not None
    assert backfill.main(["global/late", "--since", "0", "--rewind", *of_lake]) == 0
    with Peer(orders.port) as peer:
        row = Manager(peer).done("READ", "subscription", "global/late")
    assert row["topic"] == "orders.past"
    assert row["backlog"] >= 20
    capsys.readouterr()
    several = ["global/any", "--topic", "pattern://#", "--since", "0", *of_lake]
    assert backfill.main(several) == 2
    assert "may be in several logs of" in capsys.readouterr().err
