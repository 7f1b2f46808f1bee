"""The data files that a version names: present, whole, readable, and as the log describes them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.delta.data_file import completed
from distributary.pipeline.tables.delta.message_file import MessageFile
from distributary.pipeline.tables.topic_log.table_view import Replaced, TableView
from distributary.pipeline.tables.verify.check import Check, Findings, counted

NAME = "data files"
#: Columns that are never null in a record's rows.
_REQUIRED = {
    topic_log_schema.MESSAGE: ("group", "topic", "sequence", "published_at"),
    topic_log_schema.SETTLEMENT: ("group", "topic", "subscription", "final", "floor", "sequences"),
    topic_log_schema.SUBSCRIPTION: ("group", "topic", "subscription", "event", "floor"),
}
_RESTORE = "Restore the file from a copy; no other file has its rows"


@dataclass(slots=True)
class FileReader:
    """Reads data files a row group at a time, and collects their problems.

    All columns are read, the messages' bytes only if `deep`; Parquet's page checksums are verified
    where the writer made them. A row group with nulls in required columns isn't handed out.
    """

    view: TableView
    deep: bool
    findings: Findings = field(default_factory=Findings)
    row_groups: int = 0
    rows: int = 0

    def check(self) -> Check:
        files = len(self.view.state.files)
        size = sum(file.size for file in self.view.state.files)
        return self.findings.check(
            NAME, counted(files=files, bytes=size, row_groups=self.row_groups, rows=self.rows)
        )

    def check_records(self) -> None:
        """Check that every file has messages, settlements or events."""
        for file in self.view.state.files:
            if file.record not in topic_log_schema.FILES:
                self.findings.problem(
                    f"{self.view.uri}/{file.path} holds rows of record {file.record}: another "
                    "program has written to this table. Restore the table from a copy"
                )

    def present(self, file: AddedFile) -> bool:
        """Whether the file is there with its size. Raises Replaced if the table has dropped it."""
        path = f"{self.view.uri}/{file.path}"
        size = self.view.store.size(file.path)
        if not size and not self.view.store.exists(file.path):
            self._refuse_replaced(file)
            self.findings.problem(f"{path} is missing: {_held(file)}. {_RESTORE}")
            return False
        if size != file.size:
            self.findings.problem(
                f"{path} has {size:,} bytes, the log says {file.size:,}: {_held(file)}. {_RESTORE}"
            )
            return False
        return True

    def row_groups_of(self, file: AddedFile) -> Iterator[pa.Table]:
        """Yield the checked columns, a row group at a time; ends at an unreadable row group."""
        path = f"{self.view.uri}/{file.path}"
        summary = _Summary(file)
        at = 0
        try:
            with self.view.store.parquet(file.path) as parquet:
                names = set(parquet.schema_arrow.names)
                due = self._columns(file.record)
                columns = [name for name in due.names if name in names]
                for at in range(parquet.num_row_groups):
                    table = completed(
                        parquet.read_row_group(at, columns=columns, use_threads=False), due
                    )
                    self.row_groups += 1
                    self.rows += table.num_rows
                    summary.add(table)
                    if table.num_rows and not summary.nulls:
                        yield table
        except FileNotFoundError:
            self._refuse_replaced(file)
            self.findings.problem(f"{path} is missing: {_held(file)}. {_RESTORE}")
            return
        except (OSError, pa.ArrowException) as error:
            self.findings.problem(
                f"{path} can't be read at row group {at}: {error}. {_held(file)}. {_RESTORE}"
            )
            return
        for sentence in summary.differences():
            self.findings.problem(f"{path}: {sentence}. {_RESTORE}")

    def _columns(self, record: str) -> pa.Schema:
        return pa.schema(
            [f for f in topic_log_schema.FILES[record] if self.deep or f.name != "message"]
        )

    def _refuse_replaced(self, file: AddedFile) -> None:
        if self.view.replaced(file):
            raise Replaced(f"{file.path} was replaced while it was read")


def _held(file: AddedFile) -> str:
    if file.low is None:
        return f"it holds {file.rows:,} rows of record {file.record}"
    return f"it holds {file.rows:,} messages, sequences {file.low} to {file.high}"


@dataclass(slots=True)
class _Summary:
    """Summary of a file's rows, to be compared with the log's statistics of it."""

    file: AddedFile
    rows: int = 0
    groups: list[int] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)
    nulls: set[str] = field(default_factory=set)

    def add(self, table: pa.Table) -> None:
        if not table.num_rows:
            return
        self.rows += table.num_rows
        due = _REQUIRED[self.file.record]
        self.nulls.update(name for name in due if table[name].null_count)
        if self.nulls:
            return
        self.groups += _ends(table["group"].to_numpy())
        if self.file.record == topic_log_schema.MESSAGE:
            self.sequences += _ends(table["sequence"].to_numpy())
            self.topics.update(str(name) for name in table["topic"].unique().to_pylist())

    def differences(self) -> Iterator[str]:
        """Yield sentences about differences between the log and the rows."""
        file = self.file
        if self.nulls:
            yield f"rows without {', '.join(sorted(self.nulls))}"
            return
        if self.rows != file.rows:
            yield f"it has {self.rows:,} rows, the log says {file.rows:,}"
        pairs = [("groups", self.groups, (file.group_low, file.group_high))]
        if file.record == topic_log_schema.MESSAGE:
            pairs.append(("sequences", self.sequences, (file.low, file.high)))
        for name, ends, said in pairs:
            found = (min(ends), max(ends)) if ends else (None, None)
            if found != said:
                yield f"its {name} are {_words(*found)}, the log says {_words(*said)}"
        if self.topics:
            index = MessageFile(file.path, 0, 0, file.topic_low, file.topic_high, 0)
            hidden = sorted(topic for topic in self.topics if not index.may_hold(topic))
            if hidden:
                yield f"it has messages of {hidden[0]}, which the log says it can't have"


def _ends(values: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> list[int]:
    return [int(values.min()), int(values.max())]


def _words(low: int | None, high: int | None) -> str:
    return "unknown" if low is None else f"{low} to {high}"
