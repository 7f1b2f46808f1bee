"""Reasons why messages wait in a running gateway, asked by the command and by a notebook."""

import json
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable
from gateway_peer import Peer
from gateway_process import Gateway, until
from pyspark.sql import SparkSession
from test_engines import blocks

from distributary.ingest.cli.subscription_commands import subscription
from distributary.jobs.materialize.materialize import Settings, build
from distributary.jobs.tables.table_locations import TableLocations
from distributary.jobs.views.notebook_views import register
from distributary.pipeline.tables.home.home import Home


def settlements(home: Home) -> int:
    rows = DeltaTable(home.topic_log).to_pyarrow_dataset()
    return rows.count_rows(filter=ds.field("record") == "settlement")


def test_a_gateway_says_why(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of five messages one is settled, two are held, two wait for credit; one more came after the
    tables were made. The command, the example of docs/views.md and SQL say so."""
    with Gateway(tmp_path, {"commit": {"interval_ms": 20}}) as gateway:
        home, address = Home(gateway.home), f"127.0.0.1:{gateway.port}"
        with Peer(gateway.port, "auditor") as peer:
            receiver = peer.durable("flights", "late")
            sender = peer.sender("flights")
            sender.publish(*map(str, range(5)))
            receiver.confirm(receiver.take(3)[:1])
            until(lambda: settlements(home) == 1, "the settlement in the log")
            places = TableLocations(
                str(home.topic_log), str(home.spark_tables), str(home.checkpoint("materialize"))
            )
            build(spark, Settings(places)).awaitTermination()
            sender.publish("5")
            asked = ["stuck", "late", "--home", str(home.root), "--gateway", address]
            said = CliRunner().invoke(subscription, [*asked, "--json"])
            people = CliRunner().invoke(subscription, asked, env={"COLUMNS": "160"})
            [program] = [one for one in blocks("python") if "gateway=" in one]
            program = program.replace("build/demo", str(home.root)).replace("dispatchers", "late")
            exec(program.replace("127.0.0.1:5672", address), {})  # noqa: S102
            register(spark, str(home.root), gateway=address)
            held = spark.sql(
                "SELECT consumer, since, published_at FROM stuck WHERE since IS NOT NULL"
            ).collect()
    rows = {row["reason"]: row for row in json.loads(said.stdout)}
    assert {reason: row["messages"] for reason, row in rows.items()} == {
        "in flight": 2,
        "no credit": 2,
        "not yet materialized": 1,
    }
    assert rows["in flight"]["detail"].endswith("by consumer auditor/late")
    assert "in flight since 20" in people.stdout
    assert "no credit" in capsys.readouterr().out
    assert {row.consumer for row in held} == {"auditor/late"}
    assert all(row.since >= row.published_at for row in held)
