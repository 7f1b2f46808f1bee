"""Rows of slices with Arrow alone: for homes on a disk.

A task reads rows of the log's files, makes rows of tables of them and writes those as data files,
in one pass and in one Python process; the JVM only commits them. It takes a quarter of the time of
Spark's readers and writers, and Java has no plans to compile first.

Rule: rows are made by the same functions as in `spark_slices`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row

from distributary.jobs.materialize.slices import Log, Slice
from distributary.jobs.materialize.typed_tables import TypedTables
from distributary.jobs.session.job_settings import MaterializeSettings
from distributary.jobs.tables.spark_tables import SparkTable
from distributary.pipeline.model.message_columns import COPIED
from distributary.pipeline.tables.arrow.settlement_fold import COLUMNS as FOLDED
from distributary.pipeline.tables.delta.row_files import RowFile, RowFiles, RowsLayout
from distributary.pipeline.tables.reading.log_rows import LogRows, parts
from distributary.pipeline.transforms.decoding.one_by_one import MessageLimits
from distributary.pipeline.transforms.materialize.acks import READ, acked
from distributary.pipeline.transforms.materialize.cursors import (
    EVENT,
    Cursors,
    Since,
    partials,
    since,
)
from distributary.pipeline.transforms.materialize.messages import decoded_bodies
from distributary.pipeline.transforms.materialize.schema_versions import READ as SCHEMA_READ
from distributary.pipeline.transforms.materialize.schema_versions import schemas_told
from distributary.pipeline.transforms.materialize.subscriptions import SCHEMA, told
from distributary.pipeline.transforms.schema.spark_schema import SUBSCRIPTIONS
from distributary.pipeline.transforms.schema.topic_folders import REJECTED_NAME
from distributary.pipeline.transforms.typed.topic_tables import SchemaEvent
from distributary.pipeline.transforms.typed.typed_rows import TypedPart, TypedRows, after_group

#: Slices with fewer rows are done by the driver alone: tasks of Spark would take longer.
ALONE_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Target:
    """A table that gets the rows of groups after `after`."""

    layout: RowsLayout
    after: int


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a task: files by table, and the sums of its settlements."""

    files: dict[str, list[RowFile]] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)  #: of typed tables, by their names
    sums: tuple[pa.RecordBatch, ...] = ()


@dataclass(frozen=True, slots=True)
class TypedTarget:
    """Typed tables below a folder; `after` by name for existing tables, `first` for new ones."""

    folder: str
    events: tuple[SchemaEvent, ...]
    after: Mapping[str, int]
    first: int

    def layout(self, part: TypedPart) -> RowsLayout:
        """Return the layout of a part's table."""
        if part.name == REJECTED_NAME:
            bounded: tuple[str, ...] = ("sequence", "topic", "group")
            return RowsLayout(f"{self.folder}/{part.name}", part.rows.schema, "day", bounded)
        bounded = ("_sequence", "_published_at")
        plain = frozenset({"_sequence", "_message_id"})
        return RowsLayout(f"{self.folder}/{part.name}", part.rows.schema, None, bounded, plain)


@dataclass(frozen=True, slots=True)
class MessagesTask:
    """Task that decodes messages, and makes typed rows of those with a schema."""

    rows: LogRows
    messages: Target
    typed: TypedTarget
    limits: MessageLimits

    def run(self) -> Done:
        made, topics = {"messages": RowFiles(self.messages.layout)}, dict[str, str]()
        typing = TypedRows(self.typed.events)
        for log in self.rows.read((*COPIED, "message")):
            batch = decoded_bodies(log, self.limits)
            made["messages"].add(_later(batch.rows, self.messages.after))
            for part in typing.made(log, batch) if self.typed.events else ():
                if part.name not in made:
                    made[part.name] = RowFiles(self.typed.layout(part))
                    topics[part.name] = part.topic
                after = self.typed.after.get(part.name, self.typed.first)
                made[part.name].add(after_group(part, after))
        return Done({name: files.close() for name, files in made.items()}, topics)


@dataclass(frozen=True, slots=True)
class SettlementsTask:
    """Task that makes acks of settlements, unless they exist already, and sums for cursors."""

    rows: LogRows
    acks: Target
    sums_after: int
    since: Since

    def run(self) -> Done:
        files, held = RowFiles(self.acks.layout), list[pa.RecordBatch]()
        for batch in self.rows.read((*READ, *FOLDED)):
            for rows in acked([_later(batch, self.acks.after)]):
                files.add(rows)
            if self.since:
                held.append(_later(batch, self.sums_after).select(FOLDED))
        return Done({"acks": files.close()}, sums=tuple(partials(held, self.since)))


#: A function from batches of the log's rows to batches of a table's rows.
Transform: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]

#: Tables of events, the columns of the log that they are made of, and the function.
EVENTS: tuple[tuple[str, Sequence[str], Transform], ...] = (
    ("subscriptions", SUBSCRIPTIONS.names, told),
    ("schemas", SCHEMA_READ, schemas_told),
)

Task: TypeAlias = MessagesTask | SettlementsTask


def _later(batch: pa.RecordBatch, after: int) -> pa.RecordBatch:
    """Return the rows of groups after this one."""
    later = pc.greater(batch.column("group"), pa.scalar(after))
    return batch if pc.all(later).as_py() else batch.filter(later)


@dataclass(frozen=True, slots=True)
class ArrowSlices:
    """Makes data files, by tasks of Spark; few rows in the driver."""

    log: Log
    settings: MaterializeSettings

    def around(self, part: Slice) -> AbstractContextManager[None]:
        del part
        return nullcontext()

    def events(self, part: Slice, after: int) -> list[Row]:
        return [
            Row(**event)
            for rows in self._read(part, "subscription", after)
            for batch in rows.read(EVENT)
            for event in batch.select(EVENT).to_pylist()
        ]

    def made(
        self, part: Slice, tables: Mapping[str, SparkTable], typed: TypedTables, began: Cursors
    ) -> "ArrowSliceRows":
        tasks = [*self._messages(part, tables, typed), *self._settlements(part, tables, began)]
        done = self._run(tasks, alone=not part.far and part.rows_about < ALONE_ROWS)
        files: dict[str, list[RowFile]] = {}
        for one in done:
            for name, some in one.files.items():
                files.setdefault(name, []).extend(some)
        if part.has("subscription"):
            for name, columns, transform in EVENTS:
                files[name] = self._events(part, tables[name], columns, transform)
        sums = [batch for one in done for batch in one.sums]
        topics = {name: topic for one in done for name, topic in one.topics.items()}
        return ArrowSliceRows(files, topics, pa.Table.from_batches(sums) if sums else None)

    def schema_events(self, part: Slice, after: int) -> list[SchemaEvent]:
        found = [
            event
            for rows in self._read(part, "subscription", after)
            for batch in rows.read(SCHEMA_READ)
            for event in batch.filter(
                pc.equal(batch.column("event"), pa.scalar(SCHEMA))
            ).to_pylist()
        ]
        found.sort(key=lambda event: (event["group"], event["floor"]))  # files have no order
        return [SchemaEvent.of(one["topic"], one["floor"], one["policy"]) for one in found]

    def rows(self, table: SparkTable, rows: pa.Table) -> list[RowFile]:
        return _written(table, rows.cast(table.layout.schema).to_batches())

    def _read(self, part: Slice, record: str, after: int) -> list[LogRows]:
        return parts(
            self.log.path,
            record,
            part.files or (),
            after,
            part.last_group,
            part_bytes=self.settings.task_bytes,
        )

    def _messages(
        self, part: Slice, tables: Mapping[str, SparkTable], typed: TypedTables
    ) -> Iterator[Task]:
        table, after = tables["messages"], tables["cursors"].reached
        target = TypedTarget(typed.folder, tuple(typed.events), typed.reached(), after)
        lowest = min(table.reached, typed.lowest(after)) if target.events else table.reached
        if lowest < part.last_group:
            for rows in self._read(part, "message", lowest):
                yield MessagesTask(
                    rows, Target(table.layout, table.reached), target, self.settings.message
                )

    def _settlements(
        self, part: Slice, tables: Mapping[str, SparkTable], began: Cursors
    ) -> Iterator[Task]:
        table, after = tables["acks"], tables["cursors"].reached
        for rows in self._read(part, "settlement", min(table.reached, after)):
            yield SettlementsTask(rows, Target(table.layout, table.reached), after, since(began))

    def _events(
        self, part: Slice, table: SparkTable, columns: Sequence[str], made: Transform
    ) -> list[RowFile]:
        rows = (
            batch.select([name for name in columns if name in batch.schema.names])
            for rows in self._read(part, "subscription", table.reached)
            for batch in rows.read(columns)
        )
        return _written(table, made(rows))

    def _run(self, tasks: Sequence[Task], *, alone: bool) -> list[Done]:
        if alone or not tasks:
            return [task.run() for task in tasks]
        parts = self.log.spark.sparkContext.parallelize(tasks, len(tasks))
        return parts.map(_run).collect()


@dataclass(frozen=True, slots=True)
class ArrowSliceRows:
    """The written files by table, and the sums of settlements."""

    files: Mapping[str, list[RowFile]]
    topics: Mapping[str, str]
    summed: pa.Table | None

    def of(self, name: str) -> list[RowFile] | None:
        return self.files.get(name)

    def typed(self) -> Mapping[str, str]:
        return self.topics

    def sums(self) -> pa.Table | None:
        return self.summed


def _run(task: Task) -> Done:
    return task.run()


def _written(table: SparkTable, batches: Iterable[pa.RecordBatch]) -> list[RowFile]:
    files = RowFiles(table.layout)
    for batch in batches:
        files.add(batch)
    return files.close()
