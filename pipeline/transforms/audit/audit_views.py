"""The views that the checks read: one state of all tables, and views over it.

Rule 1: every table is read as of one version, `cursors` first, and up to the last group in
        `cursors`: so a job that runs meanwhile, or was killed between two tables, doesn't change
        the judged rows.
Rule 2: only complete rows are judged. Retention removes the oldest rows; the bounds say where the
        complete part begins.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from datetime import date, datetime
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession, is_remote
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.transforms.audit.audit_checks import read
from distributary.pipeline.transforms.audit.audit_selection import Claim, selection
from distributary.pipeline.transforms.audit.typed_views import register_typed
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.views.file_sums import version_of, within_reach

#: The views that are SQL, each after those that it reads.
VIEWS = (
    *("lives", "claimed", "floors", "incarnations"),
    *("settlements", "repeated", "deliveries", "owed"),
)
#: Views that can be shown: the last one is made for topics with a schema alone.
SHOWN = (*VIEWS, "reigns")
#: Views that many checks read. They are kept while the audit runs: in memory as far as Spark has
#: room, else on its disk. Their plans are dropped, because planning each check from the tables on
#: would cost more than the check. With few messages (`COMPILED_FROM`) every table and view is kept:
#: there Delta's search for the files of each reading costs more than all checks.
KEPT = frozenset({"settlements", "repeated"})
#: Views with a row for each incarnation, or for each topic that it claims: every task has all rows.
SMALL = frozenset({"lives", "claimed", "incarnations"})

#: The columns of `messages` that checks look at; selectors see all of them.
LOOKED_AT = (
    *("sequence", "topic", "group", "published_at"),
    *("priority", "expires_at", "deliver_at", "group_id", "error"),
)

#: With fewer messages Spark doesn't compile queries to Java, nor plan them anew between stages:
#: that would take ten times as long as the checks.
COMPILED_FROM = 300_000
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}

#: The property of a table with the first day that retention has left in it.
REMOVED_BEFORE = "distributary.removedBefore"

#: Sequences of a bitmap that are handed to Spark at once.
_SEQUENCES = 1 << 16


@dataclass(frozen=True, slots=True)
class Bounds:
    """The part of the tables that is complete and judged: its first and last groups, and its first
    sequences."""

    last_group: int
    first_group: int  #: of the events of subscriptions
    messages_from: int  #: the group from which on messages can be held against the log
    acks_from: int  #: likewise acks
    first_sequence: int  #: messages from here on, and their settlements, are judged
    first_logged_sequence: int  #: the first that the log still has
    messages: int  #: how many are judged
    whole: bool  #: whether `acks` has all settlements of the living incarnations
    queue_turns: bool  #: whether no queue's consumer has a selector of its own

    @property
    def few(self) -> bool:
        """Whether there are so few messages that planning costs more than the queries."""
        return self.messages < COMPILED_FROM

    @property
    def sql(self) -> str:
        """A query for one row with all bounds."""
        said = (f"{_literal(getattr(self, one.name))} AS {one.name}" for one in fields(self))
        return f"SELECT {', '.join(said)}"


def _literal(value: bool | int) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value}L"


@dataclass(frozen=True, slots=True)
class Pinned(Tables):
    """The tables of a folder, each as of one version; a table without a version as it is now."""

    versions: dict[str, int] = field(default_factory=dict)
    log: str = ""  #: topic_log, where it isn't in the folder

    def _load(self, name: str) -> DataFrame:
        if name not in self.versions:
            return Tables._load(self, name)
        rows = self.spark.read.format("delta").option("versionAsOf", self.versions[name])
        return rows.load(self.log if name == "topic_log" and self.log else f"{self.folder}/{name}")


def pin(tables: Tables, log: str = "") -> Pinned:
    """The tables at their present versions. Raises InvalidRequest when one is missing, StoreError
    when this process reads a table's log itself and can't."""
    versions: dict[str, int] = {}
    near = within_reach(tables)
    for name in ("cursors", "log_versions", "subscriptions", "acks", "messages", "topic_log"):
        path = f"{tables.folder}/{name}"
        if name == "topic_log" and log:
            versions[name] = _version(tables.spark, log)
            continue
        tables._load(name)
        versions[name] = version_of(path) if near else _version(tables.spark, path)
    return Pinned(tables.spark, tables.folder, versions, log)


def _version(spark: SparkSession, path: str) -> int:
    """A table's newest version, which costs Spark a job."""
    said = spark.sql(f"DESCRIBE HISTORY {_table(path)} LIMIT 1").first()
    return 0 if said is None else int(said.version)


def register(
    tables: Pinned, *, since: datetime | None = None, queue_turns: bool = False
) -> tuple[SparkSession, Bounds]:
    """A session that has all views under their names, and its bounds.

    With `since`, only messages published from then on are judged. Raises InvalidRequest when
    nothing is materialized, or nothing was published since.
    """
    spark = _session_beside(tables.spark)
    mine = Pinned(spark, tables.folder, tables.versions, tables.log)
    mine = replace(mine, found={"cursors": _kept(mine.cursors, eager=False)})
    bounds = _bounds(mine, since, queue_turns=queue_turns)
    if bounds.few:
        for name, value in INTERPRETED.items():
            spark.conf.set(name, value)
    spark.sql(bounds.sql).createOrReplaceTempView("bounds")
    upto = F.col("group") <= bounds.last_group
    log = mine.topic_log.where(upto)
    messages, acks = mine.messages.where(upto), mine.acks.where(upto)
    if since is not None:
        # A message is settled, and its group written, on the day of its publication or later. One
        # day less, as midnight may pass while a group is written.
        day = F.date_sub(F.lit(since.date()), 1)
        messages = messages.where(F.col("sequence") >= bounds.first_sequence)
        acks = acks.where(F.col("day") >= day)
        log = log.where(
            (F.col("record") == "subscription")
            | ((F.col("day") >= day) & (F.col("group") >= bounds.first_group))
        )
    for name, rows in (
        ("topic_log", log),
        ("messages", _kept(messages.select(*LOOKED_AT), eager=False)),
        ("acks", acks),
        ("subscriptions", mine.subscriptions.where(upto)),
        ("log_versions", mine.log_versions.where(upto)),
        ("cursors", mine.cursors),
    ):
        more = bounds.few and name not in {"messages", "cursors"}
        kept = _kept(rows, eager=False) if more else rows
        kept.createOrReplaceTempView(name)
    for name, bitmaps in (
        (
            "settled_in_cursors",
            mine.cursors.where("settled_count > 0").select("subscription", "settled"),
        ),
        ("lost_in_cursors", mine.cursors.where("lost IS NOT NULL").select("subscription", "lost")),
    ):
        members = bitmaps.mapInArrow(_unpacked, "subscription string, sequence long")
        members.createOrReplaceTempView(name)
    for name in VIEWS:
        rows = spark.sql(read("views", name))
        if name in SMALL:
            rows = F.broadcast(_kept(rows, eager=True))
        elif bounds.few or name in KEPT:
            rows = _kept(rows, eager=False)
        rows.createOrReplaceTempView(name)
        if name == "claimed":
            selection(messages, _claims(spark), rows).createOrReplaceTempView("selection")
    register_typed(mine, messages, bounds.last_group)
    return spark, bounds


def _session_beside(spark: SparkSession) -> SparkSession:
    """Another session of the same Spark, with views and settings of its own. With Spark Connect it
    begins with a copy of the first one's."""
    made: SparkSession = cast("Any", spark).cloneSession() if is_remote() else spark.newSession()
    return made


def _kept(rows: DataFrame, *, eager: bool) -> DataFrame:
    """The rows, kept while the audit runs. With Spark Connect they aren't kept: kept rows belong to
    the client's first session (pyspark 4.2), and many platforms behind it keep none."""
    return rows if is_remote() else rows.localCheckpoint(eager=eager)


def _claims(spark: SparkSession) -> list[Claim]:
    rows = spark.sql("SELECT DISTINCT topic, claim, selector FROM lives WHERE claim IS NOT NULL")
    return [Claim(row.topic, row.claim, row.selector) for row in rows.collect()]


def _bounds(tables: Pinned, since: datetime | None, *, queue_turns: bool) -> Bounds:
    last_group = _last_group(tables)
    upto = F.col("group") <= last_group
    messages = tables.messages.where(upto)
    if since is not None:
        messages = messages.where(F.col("published_at") >= F.lit(since))
    first = _row(
        messages.agg(
            F.min("sequence").alias("sequence"),
            F.min("group").alias("group"),
            F.count("*").alias("count"),
        )
    )
    if since is not None and first["sequence"] is None:
        raise InvalidRequest(f"Nothing was published since {since.isoformat()}.")
    from_group = (first["group"] or 0) if since is not None else 0
    kept = kept_from(tables, "acks")
    settled = F.col("record") == "settlement"
    # A group with a settlement of a removed day isn't whole in `acks`.
    gone = F.lit(False) if kept is None else F.col("settled_at") < F.lit(kept).cast("timestamp")
    said = _row(
        tables.topic_log.where(upto).agg(
            F.min(F.when(F.col("record") == "message", F.col("group"))).alias("messages"),
            F.min(F.when(settled, F.col("group"))).alias("settlements"),
            F.max(F.when(settled & gone, F.col("group"))).alias("gone"),
            F.min("sequence").alias("sequence"),
        )
    )
    whole_acks = max(said["settlements"] or 0, (said["gone"] or -1) + 1)
    return Bounds(
        last_group=last_group,
        first_group=from_group,
        messages_from=max(from_group, said["messages"] or 0),
        acks_from=max(from_group, whole_acks),
        first_sequence=first["sequence"] or 0,
        first_logged_sequence=said["sequence"] or 0,
        messages=first["count"],
        whole=kept is None and since is None,
        queue_turns=queue_turns,
    )


def _last_group(tables: Pinned) -> int:
    """The group up to which every table is filled."""
    cursors = _row(tables.cursors.agg(F.max("group").alias("group")))
    if cursors["group"] is not None:
        return cursors["group"]
    versions = _row(tables.log_versions.agg(F.max("group").alias("group")))
    events = tables.subscriptions.groupBy("subscription").agg(
        F.max_by("event", "group").alias("event")
    )
    if versions["group"] is None or not events.where("event <> 'deleted'").isEmpty():
        raise InvalidRequest(
            f"The tables in {tables.folder} aren't filled yet: "
            "run `distributary jobs materialize` first."
        )
    return versions["group"]


def kept_from(tables: Pinned, name: str) -> date | None:
    """The first day that retention has left in a table; None if it has removed nothing."""
    said = tables.spark.sql(f"DESCRIBE DETAIL {_table(f'{tables.folder}/{name}')}").first()
    text = None if said is None else said.properties.get(REMOVED_BEFORE)
    return None if text is None else date.fromisoformat(text)


def _row(rows: DataFrame) -> dict[str, int]:
    found = rows.first()
    return {} if found is None else found.asDict()


def _table(path: str) -> str:
    return f"delta.`{path.replace('`', '``')}`"


def _unpacked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Bitmaps as one row per sequence, `_SEQUENCES` rows at a time."""
    for batch in batches:
        for name, settled in zip(*(one.to_pylist() for one in batch.columns), strict=True):
            members = np.frombuffer(BitMap64.deserialize(settled).to_array(), np.int64)
            for at in range(0, len(members), _SEQUENCES):
                part = members[at : at + _SEQUENCES]
                names = pa.repeat(name, len(part))
                yield pa.RecordBatch.from_arrays(
                    [names, pa.array(part)], names=["subscription", "sequence"]
                )
