"""The log's rows into Spark's tables, so that doing it again changes nothing.

Rule 1: each table says by itself up to which group it has everything; what it gets is what comes
        after. So it doesn't matter where the last attempt ended, nor what a checkpoint knows.
Rule 2: `cursors` come last: what a cursor says up to its group is in the other tables.
Rule 3: a slice is written wholly before the next one is begun: being far behind costs time, and
        no more memory.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from time import monotonic
from typing import TypeAlias

from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from distributary.jobs.materialize.gaps import require_no_gap
from distributary.jobs.materialize.slices import Log, LogVersion, Position, Slice, slices
from distributary.jobs.session.job_settings import MaterializeSettings
from distributary.jobs.tables.delta_files import newest_version
from distributary.jobs.tables.spark_tables import SparkTable, open_tables
from distributary.jobs.tables.table_locations import TableLocations
from distributary.pipeline.transforms.materialize.acks import acks
from distributary.pipeline.transforms.materialize.cursors import (
    Cursors,
    begin,
    events,
    fold,
    found,
    rows,
    settle,
    sums,
)
from distributary.pipeline.transforms.materialize.messages import messages
from distributary.pipeline.transforms.materialize.schema_versions import schema_versions
from distributary.pipeline.transforms.materialize.subscriptions import subscriptions
from distributary.pipeline.transforms.schema.spark_schema import LOG_VERSIONS

#: Slices with fewer rows are interpreted: to compile their plans to Java would take longer.
COMPILED_ROWS = 20_000
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}

#: Tables that don't wait for each other; `cursors` wait for all.
TOGETHER = ("messages", "acks", "subscriptions", "schemas", "log_versions")


@dataclass(frozen=True, slots=True)
class Written:
    """One slice that is in all tables: how long each of them took, and how many rows it got."""

    last_group: int
    log_version: int
    oldest: int  #: when the first version in it was committed, milliseconds; 0 if unknown
    seconds: dict[str, float]
    rows: dict[str, int]


#: What is called before a table is written, and after the last; an exception ends the attempt.
Step: TypeAlias = Callable[[str], None]


@dataclass(slots=True)
class Materialization:
    """The tables of one folder, brought to where the log is. One process at a time has one.

    `lost_is_known`: rows that are gone from the log before the tables had them are passed over;
    else that is a StoreError. `before` is told each step.
    """

    spark: SparkSession
    locations: TableLocations
    settings: MaterializeSettings
    begun: bool = False
    lost_is_known: bool = False
    before: Step = lambda _step: None
    log: Log = field(init=False)
    tables: dict[str, SparkTable] = field(init=False)
    cursors: Cursors = field(init=False)
    version: int | None = field(init=False)
    first: int = field(init=False, default=0)  #: what lies below it is gone, and owed to nobody

    def __post_init__(self) -> None:
        self.log = Log(self.spark, self.locations.log)
        self.tables = open_tables(
            self.spark, self.locations.tables, self.locations.checkpoint, begun=self.begun
        )
        self._complete()
        self.cursors = self._found()
        self.version = self._version()

    @property
    def group(self) -> int:
        """All tables have everything up to this group."""
        return min(table.reached for table in self.tables.values())

    def bring(self, upto: int) -> Iterator[Written]:
        """To a version of the log, slice by slice. Raises StoreError when rows are gone."""
        since, looked = Position(self.group, self.version), False
        for part in slices(self.log, since, upto, self.settings):
            if part.files is None and not looked:
                self._look_for_gaps(upto)
                looked = True
            oldest = part.versions[0].made_at if part.versions else 0
            small = part.files is not None and part.rows_about < COMPILED_ROWS
            with _interpreted(self.spark) if small else nullcontext():
                seconds, rows = self._write(part)
            self.version = part.log_version
            yield Written(part.last_group, part.log_version, oldest, seconds, rows)

    def _look_for_gaps(self, upto: int) -> None:
        """Rows of which no entry is left may be gone, too."""
        log = self.log.as_of(upto)
        self.first = require_no_gap(self.log, log, self.tables, known=self.lost_is_known) or 0

    def _complete(self) -> None:
        """Tables that came later than the others get what those have, in one go."""
        group, tables = self.tables["cursors"].reached, self.tables
        versions = tables["log_versions"]
        for name, made in (("subscriptions", subscriptions), ("schemas", schema_versions)):
            if group and not tables[name].reached:
                rows = self.spark.read.format("delta").load(self.locations.log)
                said = rows.where((F.col("record") == "subscription") & (F.col("group") <= group))
                tables[name].append(made(said).coalesce(1), group)
        if group and not versions.reached:
            known = self.log.versions(-1, newest_version(self.spark, self.locations.log))
            lines = self._lines(one for one in known if one.group <= group)
            versions.append(lines, group)

    def _found(self) -> Cursors:
        """The cursors as the table has them; what a table of before lacks, only the log can say."""
        table = self.tables["cursors"]
        if not table.reached or table.complete():
            return found(table.rows()) if table.reached else {}
        whole = self.spark.read.format("delta").load(self.locations.log)
        return fold({}, whole.where(F.col("group") <= table.reached), group=table.reached)

    def _version(self) -> int | None:
        """The version of the log that ends with the group that all tables have; -1 for none."""
        if self.group == 0:
            return -1
        known = self.tables["log_versions"].rows().where(F.col("group") <= self.group)
        last = known.agg(F.max_by("log_version", F.struct("group", "log_version"))).collect()[0][0]
        return None if last is None else int(last)

    def _write(self, part: Slice) -> tuple[dict[str, float], dict[str, int]]:
        """Seconds, and rows, by table."""
        seconds: dict[str, float] = {}
        rows: dict[str, int] = {}

        def timed(name: str, work: Callable[[], int]) -> None:
            started = monotonic()
            rows[name] = work()
            seconds[name] = round(monotonic() - started, 3)

        after: list[Cursors] = []

        def fold() -> int:
            after.append(self._folded(part))
            return 0

        works = {
            **{name: self._work(name, part) for name in TOGETHER if self._lacks(name, part)},
            "fold": fold,
        }
        _together(self.spark, [partial(timed, name, work) for name, work in works.items()])
        if self._lacks("cursors", part):
            timed("cursors", lambda: self._write_cursors(part, after[0]))
        self.before("done")
        return seconds, rows

    def _lacks(self, name: str, part: Slice) -> bool:
        return self.tables[name].reached < part.last_group

    def _work(self, name: str, part: Slice) -> Callable[[], int]:
        made: dict[str, Callable[[Slice, int], DataFrame | None]] = {
            "messages": self._messages,
            "acks": self._acks,
            "subscriptions": self._subscriptions,
            "schemas": self._schemas,
            "log_versions": self._log_versions,
        }

        def work() -> int:
            table = self.tables[name]
            rows = made[name](part, table.reached)
            if rows is None and table.marked:
                table.reached = part.last_group  # `cursors` will say so
                return 0
            self.before(name)
            if rows is None:
                rows = self.spark.createDataFrame([], table.schema)
            return table.append(rows, part.last_group)

        return work

    def _messages(self, part: Slice, after: int) -> DataFrame | None:
        if not part.has("message"):
            return None
        rows = messages(self.log.rows(part, "message", after), self.settings.message)
        return self._in_files(rows, part.bytes_of("message"))

    def _acks(self, part: Slice, after: int) -> DataFrame | None:
        if not part.has("settlement"):
            return None
        rows = acks(self.log.rows(part, "settlement", after))
        return self._in_files(rows, part.bytes_of("settlement"))

    def _subscriptions(self, part: Slice, after: int) -> DataFrame | None:
        if not part.has("subscription"):
            return None
        return subscriptions(self.log.rows(part, "subscription", after)).coalesce(1)

    def _schemas(self, part: Slice, after: int) -> DataFrame | None:
        if not part.has("subscription"):
            return None
        return schema_versions(self.log.rows(part, "subscription", after)).coalesce(1)

    def _log_versions(self, part: Slice, after: int) -> DataFrame | None:
        return self._lines(one for one in part.versions if one.group > after)

    def _lines(self, versions: Iterable[LogVersion]) -> DataFrame:
        lines = [
            (one.version, one.group, datetime.fromtimestamp(one.made_at / 1_000, UTC))
            for one in versions
        ]
        return self.spark.createDataFrame(lines, LOG_VERSIONS).coalesce(1)

    def _in_files(self, rows: DataFrame, size: int) -> DataFrame:
        """In as many tasks as its bytes are worth: each makes a file."""
        return rows.coalesce(size // self.settings.task_bytes + 1) if size else rows

    def _folded(self, part: Slice) -> Cursors:
        """The cursors after a slice; its rows, so far as they aren't in."""
        after = self.tables["cursors"].reached
        if after >= part.last_group:
            return self.cursors
        began = self.cursors
        if part.has("subscription"):
            began = begin(began, events(self.log.rows(part, "subscription", after)))
        began = {name: one.from_floor(self.first) for name, one in began.items()}
        if not began or not part.has("settlement"):
            return settle(began, None, group=part.last_group)
        summed = sums(began, self.log.rows(part, "settlement", after))
        return settle(began, summed, group=part.last_group)

    def _write_cursors(self, part: Slice, after: Cursors) -> int:
        self.before("cursors")
        table = rows(self.spark, after, log_version=part.log_version).coalesce(1)
        count = self.tables["cursors"].replace(table, part.last_group)
        self.cursors = after
        return count


@contextmanager
def _interpreted(spark: SparkSession) -> Iterator[None]:
    """Plans of the session aren't compiled inside of the block."""
    before = {key: str(spark.conf.get(key)) for key in INTERPRETED}
    for key, value in INTERPRETED.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def _together(spark: SparkSession, works: Sequence[Callable[[], object]]) -> None:
    """All at the same time, each to its end; then the first failure is raised. Whoever stops the
    query stops their jobs, too."""
    inherits = inheritable_thread_target(spark)
    with ThreadPoolExecutor(len(works)) as pool:
        running = [pool.submit(inherits(work)) for work in works]
    for one in running:
        one.result()
