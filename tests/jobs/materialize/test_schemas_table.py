"""The table `schemas`: each version that a real gateway took, and each drop; `subscriptions` has
none of them."""

import json
from pathlib import Path

import pytest
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import Gateway
from pyspark.sql import SparkSession

from distributary.jobs.materialize.materialize import once
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.verify.verify_home import verify
from distributary.pipeline.transforms.schema.home_tables import find_tables

ORDER = {"type": "object", "properties": {"id": {"type": "integer"}}}


def test_versions_and_drops_are_rows(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    gateway = Gateway(tmp_path / "home")
    request.addfinalizer(lambda: gateway.kill() if gateway.running else None)
    gateway.start()
    peer = Peer(gateway.port)
    manager, said = Manager(peer), {"format": "json", "definition": json.dumps(ORDER)}
    peer.sender("orders").publish("before")
    peer.shared_durable("orders", "billing|global")
    manager.done("UPDATE", "schema", "orders", **said, validate="refuse")
    manager.done("DELETE", "schema", "orders")
    manager.done("UPDATE", "schema", "orders.*", **said, registry_id="17")
    peer.drop()
    gateway.stop()
    once(spark, str(gateway.home))
    tables = find_tables(spark, str(gateway.home))
    rows = tables.schemas.orderBy("group", "topic").collect()
    assert [(one.topic, one.event, one.version) for one in rows] == [
        ("orders", "set", 1),
        ("orders", "dropped", None),
        ("orders.*", "set", 1),
    ]
    first, dropped, last = rows
    assert (first.format, first.validate, first.by) == ("json", "refuse", "anonymous")
    assert json.loads(first.definition) == ORDER
    assert json.loads(first.columns)["fields"][0]["name"] == "id"
    assert first.floor == 1
    assert (dropped.definition, dropped.columns, last.registry_id) == (None, None, "17")
    assert {one.event for one in tables.subscriptions.collect()} == {"created"}
    assert verify(Home(gateway.home)).sound
