"""One Spark session for the whole run, small and never stopped in between."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from spark_log import LogWriter

from jobs.batch import Places
from jobs.materialize import Progress, Settings, build
from jobs.session import session
from pipeline.tables.home import Home

FAST = {
    "spark.master": "local[2]",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.adaptive.enabled": "false",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever needs the session needs a JVM, and is marked so."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    made = session(FAST)
    yield made
    made.stop()


class Place:
    """A home with a hand-made log, and the job that materializes it."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark = spark
        self.home = Home(root)
        self.log = LogWriter(self.home.topic_log)
        self.progress: list[Progress] = []

    @property
    def places(self) -> Places:
        return Places(
            str(self.home.topic_log),
            str(self.home.cursors.parent),
            str(self.home.checkpoint("materialize")),
        )

    def materialize(self) -> None:
        """The job with `available-now`, to its end."""
        query = build(self.spark, Settings(self.places, report=self.progress.append))
        query.awaitTermination()

    def table(self, name: str) -> DataFrame:
        return self.spark.read.format("delta").load(self.places.table(name))


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    return Place(spark, tmp_path)
