"""A restored home has no checkpoint: the job goes on where Spark's tables are, and ends where it
would have ended on the home itself."""

from pathlib import Path

import pytest
from backup_homes import require_sound
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from spark_log import columns_text, encoded_bytes
from table_groups import NOON, event, framed, group, run, settled

from distributary.ingest.backup.backup_run import back_up
from distributary.ingest.backup.disk_reader import DiskReader
from distributary.ingest.backup.disk_restore import DiskRestore
from distributary.ingest.backup.restore_run import restore
from distributary.jobs.materialize.materialize import once
from distributary.pipeline.model.message import SchemaRecord
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.schemas.schema_text import text_of
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.tables.delta import log_entries
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep import table_upkeep
from distributary.pipeline.tables.upkeep.table_upkeep import UpkeepLimits
from distributary.pipeline.tables.verify.verify_home import quiet

KEYS = {
    "messages": ["sequence", "topic", "group"],
    "acks": ["sequence", "subscription", "outcome", "group"],
    "subscriptions": ["subscription", "event", "group"],
    "log_versions": ["log_version", "group"],
    "cursors": ["subscription", "floor", "group", "log_version"],
    "topics/orders": ["_sequence", "id"],
}
#: `orders` has typed rows.
DEFINITION = '{"type": "object", "properties": {"id": {"type": "integer"}}}'
MINUTE_US = 60_000_000


def commit(log: TopicLog, count: int) -> None:
    """So many groups of two messages each, a commit for each; the first of each is settled. The
    topic has a schema."""
    for _ in range(count):
        number, first = log.journal_version + 1, log.sequence_version
        born = [event(SubscriptionEvent.CREATED, 0)] if number == 1 else []
        runs = [run("orders", [encoded_bytes(b'{"id": %d}' % number) for _ in "ab"])]
        if number == 1:
            said = SchemaVersion("orders", 1, Format.JSON, DEFINITION)
            born.append(SchemaRecord("orders", text_of(said, columns_text(DEFINITION)), 0))
        outcome = [] if born else [settled(range(first - 2, first - 1), floor=0)]
        at = NOON + number * MINUTE_US
        log.commit(
            [framed(group(number, first, *runs, at=at, settlements=outcome, subscriptions=born))]
        )


def rows(home: Home) -> dict[str, list[object]]:
    """The rows of each of Spark's tables."""
    return {
        name: sorted(
            tuple(row[column] for column in columns)
            for row in DeltaTable(home.spark_tables / name)
            .to_pyarrow_table(columns=columns)
            .to_pylist()
        )
        for name, columns in KEYS.items()
    }


def test_the_job_goes_on_where_its_tables_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over a log whose old entries aren't in the copy: a part of it was materialized before the
    backup, a part comes after the restore."""
    monkeypatch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 10)
    monkeypatch.setattr(log_entries, "ENTRIES_MAX", 5)
    home, copy = Home(tmp_path / "home"), Home(tmp_path / "copy")
    log = TopicLog.open(home.topic_log, limits=UpkeepLimits(1_000, 7, 7))
    commit(log, 8)
    once(spark, str(home.root))
    commit(log, 25)
    while log.upkeep(now=NOON + 40 * MINUTE_US, floor=0):
        pass
    commit(log, 2)
    back_up(DiskReader(home), tmp_path / "backup", {}, quiet)
    restore([DiskRestore(tmp_path / "backup", copy)], quiet)
    entries = sorted(path.name for path in (copy.topic_log / "_delta_log").glob("*.json"))
    assert len(entries) < 20, "the test is about entries that aren't in the copy"
    require_sound(copy.root)
    once(spark, str(copy.root))
    once(spark, str(home.root))
    mine, theirs = rows(copy), rows(home)
    # Which version ended with which group is in entries of the log: the copy has the last ones.
    assert set(mine.pop("log_versions")) < set(theirs.pop("log_versions"))
    assert mine == theirs
    commit(TopicLog.open(copy.topic_log), 3)
    once(spark, str(copy.root))
    require_sound(copy.root)
    assert len(rows(copy)["messages"]) == (8 + 25 + 2 + 3) * 2
