"""The log's rows into Spark's tables, idempotently.

Rule 1: each table has the last group that is wholly in it, and gets the groups after that. So
        neither the end of the last attempt nor the state of a checkpoint matters.
Rule 2: `cursors` come last: the rows behind a cursor, up to its group, are in the other tables.
Rule 3: a slice is written wholly before the next one is begun: a long backlog takes more time, but
        no more memory.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from time import monotonic
from typing import TypeAlias

import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's customary name

from distributary.jobs.materialize.arrow_slices import ArrowSlices
from distributary.jobs.materialize.gaps import require_no_gap
from distributary.jobs.materialize.slice_rows import SliceMaker, SliceRows
from distributary.jobs.materialize.slices import Log, LogVersion, Position, Slice, slices
from distributary.jobs.materialize.spark_slices import SparkSlices
from distributary.jobs.materialize.typed_tables import TypedTables
from distributary.jobs.session.job_settings import MaterializeSettings
from distributary.jobs.tables.delta_commit import Rows
from distributary.jobs.tables.delta_files import newest_version
from distributary.jobs.tables.object_stores import elsewhere
from distributary.jobs.tables.spark_tables import SparkTable, open_tables
from distributary.jobs.tables.table_locations import TableLocations
from distributary.pipeline.transforms.materialize.cursors import (
    Cursors,
    begin,
    fold,
    found,
    listed,
    settle,
)
from distributary.pipeline.transforms.materialize.schema_versions import schema_versions
from distributary.pipeline.transforms.materialize.subscriptions import subscriptions
from distributary.pipeline.transforms.schema.spark_schema import LOG_VERSIONS
from distributary.pipeline.transforms.typed.topic_tables import in_order

#: Tables that don't wait for each other; `cursors` wait for all.
TOGETHER = ("messages", "acks", "subscriptions", "schemas", "log_versions")


@dataclass(frozen=True, slots=True)
class Written:
    """One slice that is in all tables: seconds and rows of each table."""

    last_group: int
    log_version: int
    oldest: int  #: when the first version in it was committed, milliseconds; 0 if unknown
    seconds: dict[str, float]
    rows: dict[str, int]


#: Called before each table is written, and after the last; an exception ends the attempt.
Step: TypeAlias = Callable[[str], None]


@dataclass(slots=True)
class Materialization:
    """The tables of one folder, brought up to date with the log. One process at a time has one.

    `lost_is_known`: rows that went from the log before the tables had them are skipped; else they
    are a StoreError. `before` is called before each step.
    """

    spark: SparkSession
    locations: TableLocations
    settings: MaterializeSettings
    begun: bool = False
    lost_is_known: bool = False
    before: Step = lambda _step: None
    log: Log = field(init=False)
    maker: SliceMaker = field(init=False)
    tables: dict[str, SparkTable] = field(init=False)
    typed: TypedTables = field(init=False)
    cursors: Cursors = field(init=False)
    version: int | None = field(init=False)
    first: int = field(init=False, default=0)  #: messages below it are gone, and not owed

    def __post_init__(self) -> None:
        self.log = Log(self.spark, self.locations.log)
        on_disks = not elsewhere((self.locations.log, self.locations.tables))
        maker = ArrowSlices if on_disks else SparkSlices
        self.maker = maker(self.log, self.settings)
        self.tables = open_tables(
            self.spark, self.locations.tables, self.locations.checkpoint, begun=self.begun
        )
        self._complete()
        self.typed = self._typed()
        self.cursors, said = self._found()
        self.version = self._version(said)

    @property
    def group(self) -> int:
        """The last group that all tables have."""
        return min(table.reached for table in self.tables.values())

    def bring(self, upto: int) -> Iterator[Written]:
        """Bring the tables to a version of the log, slice by slice. Raises StoreError when rows are
        gone."""
        since, looked = Position(self.group, self.version), False
        for part in slices(self.log, since, upto, self.settings):
            if part.far and not looked:
                self._look_for_gaps(upto)
                looked = True
            oldest = part.versions[0].made_at if part.versions else 0
            with self.maker.around(part):
                seconds, rows = self._write(part)
            self.version = part.log_version
            yield Written(part.last_group, part.log_version, oldest, seconds, rows)

    def _look_for_gaps(self, upto: int) -> None:
        """Look for rows that are gone: entries of the log were removed."""
        log = self.log.as_of(upto)
        self.first = require_no_gap(self.log, log, self.tables, known=self.lost_is_known) or 0

    def _complete(self) -> None:
        """Fill tables that are newer than the others up to their group."""
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

    def _typed(self) -> TypedTables:
        """Return the typed tables, with the events of schemas up to the group of `cursors`."""
        group = self.tables["cursors"].reached
        typed = TypedTables(self.spark, self.locations.tables, group)
        if group and not self.tables["schemas"].empty():
            said = self.tables["schemas"].rows().where(F.col("group") <= group).collect()
            typed.tell(in_order(row.asDict() for row in said))
        typed.find()
        return typed

    def _found(self) -> tuple[Cursors, int | None]:
        """Return the table's cursors, and the version of the log that they name; None for a table
        of an older release."""
        table = self.tables["cursors"]
        if not table.reached:
            return {}, None
        if table.complete():
            rows = table.rows().collect()
            return found(rows), max((row.log_version for row in rows), default=None)
        whole = self.spark.read.format("delta").load(self.locations.log)
        upto = whole.where(F.col("group") <= table.reached)
        return fold({}, upto, group=table.reached), None

    def _version(self, said: int | None) -> int | None:
        """Return the version of the log that is wholly in all tables, None if it isn't known, -1
        for none. `said`: the one that cursors name; it is right unless another table is behind
        them, and 0 after a read of the log by group."""
        if self.group == 0:
            return -1
        if said and self.tables["cursors"].reached == self.group:
            return said
        known = self.tables["log_versions"].rows().where(F.col("group") <= self.group)
        last = known.agg(F.max_by("log_version", F.struct("group", "log_version"))).collect()[0][0]
        return None if last is None else int(last)

    def _write(self, part: Slice) -> tuple[dict[str, float], dict[str, int]]:
        """Write a slice; return seconds and rows by table."""
        seconds: dict[str, float] = {}
        rows: dict[str, int] = {}

        def timed(name: str, work: Callable[[], int]) -> None:
            started = monotonic()
            rows[name] = work()
            seconds[name] = round(monotonic() - started, 3)

        started = monotonic()
        began = self._began(part)
        if part.has("subscription"):
            self.typed.tell(self.maker.schema_events(part, self.typed.group))
        made = self.maker.made(part, self.tables, self.typed, began)
        seconds["made"] = round(monotonic() - started, 3)
        after: list[Cursors] = []

        def fold() -> int:
            after.append(settle(began, made.sums(), group=part.last_group))
            return 0

        works = {name: self._work(name, part, made) for name in TOGETHER if self._lacks(name, part)}
        for name, topic in made.typed().items():
            works[name] = partial(self._write_typed, name, topic, part, made)
        if self._lacks("cursors", part):
            works["fold"] = fold
        _together(self.spark, [partial(timed, name, work) for name, work in works.items()])
        if after:
            timed("cursors", lambda: self._write_cursors(part, after[0]))
        self.typed.done(part.last_group)
        self.before("done")
        return seconds, rows

    def _write_typed(self, name: str, topic: str, part: Slice, made: SliceRows) -> int:
        table, rows = self.typed.table(name, topic), made.of(name)
        if not rows or table.reached >= part.last_group:
            return 0
        self.before(name)
        return table.append(rows, part.last_group)

    def _lacks(self, name: str, part: Slice) -> bool:
        return self.tables[name].reached < part.last_group

    def _work(self, name: str, part: Slice, made: SliceRows) -> Callable[[], int]:
        def work() -> int:
            table = self.tables[name]
            rows = made.of(name) if name != "log_versions" else self._versions(part, table.reached)
            if rows is None and table.marked:
                table.reached = part.last_group  # the commit of `cursors` will record it
                return 0
            self.before(name)
            return table.append([] if rows is None else rows, part.last_group)

        return work

    def _versions(self, part: Slice, after: int) -> Rows:
        return self._lines(one for one in part.versions if one.group > after)

    def _lines(self, versions: Iterable[LogVersion]) -> Rows:
        some = list(versions)
        columns = (
            pa.array([one.version for one in some], pa.int64()),
            pa.array([one.group for one in some], pa.int64()),
            pa.array([one.made_at for one in some], pa.timestamp("ms", "UTC")),
        )
        rows = pa.table(dict(zip(LOG_VERSIONS.names, columns, strict=True)))
        return self.maker.rows(self.tables["log_versions"], rows)

    def _began(self, part: Slice) -> Cursors:
        """Return the cursors before a slice, with those that its events make."""
        after, began = self.tables["cursors"].reached, self.cursors
        if after >= part.last_group:
            return began
        if part.has("subscription"):
            began = begin(began, self.maker.events(part, after))
        return {name: one.from_floor(self.first) for name, one in began.items()}

    def _write_cursors(self, part: Slice, after: Cursors) -> int:
        self.before("cursors")
        table = self.tables["cursors"]
        rows = self.maker.rows(table, listed(after, log_version=part.log_version))
        count = table.replace(rows, part.last_group)
        self.cursors = after
        return count


def _together(spark: SparkSession, works: Sequence[Callable[[], object]]) -> None:
    """Run all at the same time, each to its end; then raise the first failure. Stopping the query
    stops their jobs, too."""
    inherits = inheritable_thread_target(spark)
    with ThreadPoolExecutor(len(works)) as pool:
        running = [pool.submit(inherits(work)) for work in works]
    for one in running:
        one.result()
