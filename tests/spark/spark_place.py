"""A home with a hand-made log, and the job that materializes it."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from spark_log import LogWriter

from jobs.batch import Places
from jobs.batch_progress import Progress
from jobs.materialize import Settings, build
from pipeline.tables.home import Home


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
