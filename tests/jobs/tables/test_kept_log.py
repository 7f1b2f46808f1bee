"""A log that upkeep works on, as Spark reads it: nothing comes twice, nothing is missed."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from spark_log import encoded
from table_groups import DAY_US, NOON, event, framed, group, run, settled

from distributary.jobs.materialize.batch_progress import Progress
from distributary.jobs.materialize.materialize import Settings, build
from distributary.jobs.tables.table_locations import TableLocations
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.tables.delta import log_entries
from distributary.pipeline.tables.delta.log_entries import LogEntries
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep import table_upkeep, tiers
from distributary.pipeline.tables.upkeep.table_upkeep import UpkeepLimits

LIMITS = UpkeepLimits(log_entries_max=15, log_retention_days=7, retention_days=7)


class Kept:
    """A home whose log is written by the gateway's own code, and kept by it."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self.spark, self.home = spark, Home(root)
        self.log = TopicLog.open(self.home.topic_log, limits=LIMITS)
        self.progress: list[Progress] = []
        self.now = NOON - 12 * DAY_US

    def commit(self, count: int) -> None:
        """So many groups of two messages each, an hour apart; the first message is settled."""
        for _ in range(count):
            number, first = self.log.journal_version + 1, self.log.sequence_version
            born = [event(SubscriptionEvent.CREATED, 0)] if number == 1 else []
            runs = [run("orders", [encoded(f"a{number}"), encoded(f"b{number}")])]
            outcome = [] if born else [settled(range(first, first + 1), floor=first)]
            one = group(number, first, *runs, at=self.now, settlements=outcome, subscriptions=born)
            self.log.commit([framed(one)])
            self.now += DAY_US // 24

    def upkeep(self) -> set[str]:
        kinds = set()
        while step := self.log.upkeep(now=self.now, floor=self.log.sequence_version):
            kinds.add(step.kind)
        return kinds

    def materialize(self) -> int:
        """Run the job to its end: how many messages it found."""
        self.progress.clear()
        places = TableLocations(
            str(self.home.topic_log),
            str(self.home.cursors.parent),
            str(self.home.checkpoint("materialize")),
        )
        build(self.spark, Settings(places, report=self.progress.append)).awaitTermination()
        return sum(one.messages for one in self.progress)

    def count(self, name: str) -> int:
        return DeltaTable(self.home.cursors.parent / name).to_pyarrow_dataset().count_rows()


def test_a_stream_goes_on_over_all_that_upkeep_does(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merges, checkpoints, days that go and a log that is cleaned behind it: the job has every
    message once, and a reader of the log itself finds the kept messages."""
    monkeypatch.setattr(tiers, "FAN_IN", 4)
    monkeypatch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 10)
    monkeypatch.setattr(table_upkeep, "ENTRIES_MAX", 5)
    monkeypatch.setattr(log_entries, "ENTRIES_MAX", 5)
    kept = Kept(spark, tmp_path)
    kinds: set[str] = set()
    for _ in range(2):
        kept.commit(30)
        kinds |= kept.upkeep()
        assert kept.materialize() == 60
    kept.now = NOON
    kept.commit(10)
    kept.now += table_upkeep.SEEN_INTERVAL_US
    kinds |= kept.upkeep()
    assert kinds >= {"merge", "checkpoint", "clean-up", "retention"}
    assert LogEntries(LocalStore(kept.log.path)).oldest > 5
    assert kept.materialize() == 20
    assert kept.count("messages") == 140
    assert kept.count("acks") == 69
    log = spark.read.format("delta").load(str(kept.log.path))
    messages = log.where("record = 'message'").orderBy("sequence").collect()
    assert kept.log.first_sequence > 0
    assert [row.sequence for row in messages] == list(range(kept.log.first_sequence, 140))
    assert log.where("record = 'subscription'").count() == 1
