"""A home with a hand-made log, the job that materializes it, and something to put in."""

import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from spark_log import LogWriter, encoded

from distributary.jobs.materialize.batch_progress import Progress
from distributary.jobs.materialize.materialize import Settings, build
from distributary.jobs.tables.table_locations import TableLocations
from distributary.pipeline.tables.home.home import Home


def assert_rows(found: DataFrame, wanted: Iterable[tuple[object, ...]]) -> None:
    """These rows in any order, each as often. They are compared here: a frame of what is wanted
    would be a job more, and to sort both two."""
    assert Counter(map(tuple, found.collect())) == Counter(wanted)


class Place:
    """A home with a hand-made log, and the job that materializes it."""

    def __init__(self, spark: SparkSession, root: Path, log: LogWriter | None = None) -> None:
        self.spark = spark
        self.home = Home(root)
        self.log = log or LogWriter(self.home.topic_log)
        self.progress: list[Progress] = []

    def copied(self, root: Path) -> "Place":
        """Another home with the same log, tables and checkpoint, as if all of it had happened
        there. No path in them is whole, so it can't tell."""
        shutil.copytree(self.home.root, root, dirs_exist_ok=True)
        path, rows, known = Home(root).topic_log, [*self.log.rows], [*self.log.known]
        log = replace(self.log, path=path, rows=rows, known=known)
        return Place(self.spark, root, log)

    @property
    def places(self) -> TableLocations:
        return TableLocations(
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

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a table, read without Spark, which takes half a second of CPU for that.
        `test_engines` shows that both read the same."""
        found = DeltaTable(self.places.table(name)).to_pyarrow_table()
        return found.to_pylist(maps_as_pydicts="strict")


def forgotten(place: Place) -> None:
    """The log's own log is cleaned up to its last version, as after a long stop of the job."""
    table = DeltaTable(place.home.topic_log)
    table.create_checkpoint()
    for entry in (place.home.topic_log / "_delta_log").glob("*.json"):
        if int(entry.stem) < table.version():
            entry.unlink()


def first_part(place: Place) -> None:
    """Two subscriptions, ten messages, the first of them settled."""
    log = place.log
    log.next_group()
    log.subscribe("global/dispatchers", "flights")
    log.subscribe("container/c1/gone", "flights")
    log.commit()
    log.next_group()
    log.publish("flights", *[encoded(f"m{i}", properties={"i": i}) for i in range(10)])
    log.next_group()
    log.settle("global/dispatchers", "flights", [0, 1, 4, 6], 2)
    log.settle("global/dispatchers", "flights", [2, 3], 2, outcome="released")
    log.settle("container/c1/gone", "flights", [0], 1)
    log.commit()


def second_part(place: Place) -> None:
    """More of both, and one subscription less; over midnight."""
    log = place.log
    log.group = 10
    log.publish("flights", *[encoded(f"m{i}") for i in range(10, 13)])
    log.subscribe("container/c1/gone", "flights", event="deleted")
    log.commit()
    log.next_group()
    log.settle("global/dispatchers", "flights", [2, 3, 5, 11], 7, consumer="worker-2/dispatchers")
    log.commit()
