"""A log that gets its new columns while Spark's job knows it: the job goes on and lacks nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable
from msgspec.structs import replace
from pyspark.sql import SparkSession
from spark_lender import lent
from table_groups import KEY, NOON, event, framed, group, run, settled

from distributary.jobs.materialize.materialize import Settings, build
from distributary.jobs.tables.table_locations import TableLocations
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

FORMATS = Path(__file__).parents[2] / "formats"
JOBS = Path(__file__).parents[3] / "jobs"


def test_the_job_goes_on_over_the_new_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Its next run reads the version that changed only the schema, and what came after it."""
    home = Home(tmp_path)
    shutil.copytree(FORMATS / "first_format" / "topic_log", home.topic_log)
    places = TableLocations(
        str(home.topic_log),
        str(home.cursors.parent),
        str(home.checkpoint("materialize")),
    )

    def materialize() -> None:
        build(spark, Settings(places, report=lambda _progress: None)).awaitTermination()

    materialize()
    log = TopicLog.open(home.topic_log)
    materialize()
    rewound = replace(event(SubscriptionEvent.REWOUND, 1, paused=True), by="alice")
    for one in (
        group(5, 6, run("orders", [b"late"], deliver_at=[NOON]), subscriptions=[rewound]),
        group(6, 7, settlements=[settled(range(2, 3), floor=1)]),
    ):
        log.commit([framed(one)])
    materialize()
    tables = {
        name: DeltaTable(places.table(name)).to_pyarrow_table()
        for name in ("messages", "acks", "cursors", "subscriptions")
    }
    assert (tables["messages"].num_rows, tables["acks"].num_rows) == (7, 3)
    [cursor] = tables["cursors"].to_pylist()
    assert (cursor["subscription"], cursor["floor"]) == (KEY.id, 1)
    assert (cursor["settled_count"], cursor["accepted"], cursor["group"]) == (1, 1, 6)
    events = tables["subscriptions"].sort_by("group").to_pylist()
    said = [(row["event"], row["by"]) for row in events]
    assert said == [("created", None), ("rewound", "alice")]
    whole = spark.read.format("delta").load(places.log)
    assert whole.where("deliver_at IS NOT NULL").count() == 1
    assert whole.where("paused").count() == 1
    assert whole.where("published_at >= '2026-11-22T00:00:00Z'").count() == 1
    assert whole.where("priority > 4").count() == 1


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_a_job_that_runs_goes_on(tmp_path: Path) -> None:
    """Spark ends the query when it meets the new columns; the job begins it again, and says so."""
    home = Home(tmp_path)
    shutil.copytree(FORMATS / "first_format" / "topic_log", home.topic_log)
    command = [
        sys.executable,
        str(JOBS / "materialize" / "materialize.py"),
        "--home",
        str(home.root),
        "--json",
    ]
    command, environment = lent(command, {**os.environ, "PYTHONPATH": str(JOBS.parent)})
    with subprocess.Popen(
        [*command, "--trigger", "1 second"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=JOBS.parent,
        env=environment,
    ) as job:
        assert job.stdout is not None
        assert json.loads(job.stdout.readline())["last_group"] == 4
        log = TopicLog.open(home.topic_log)
        log.commit([framed(group(5, 6, run("orders", [b"late"], deliver_at=[NOON])))])
        assert json.loads(job.stdout.readline())["last_group"] == 5
        job.send_signal(signal.SIGTERM)
        _, errors = job.communicate()
    assert job.returncode == 0
    assert errors.count("topic_log has new columns") == 1
