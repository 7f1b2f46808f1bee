"""Spark's cursors against the log: the same subscriptions, floors and exceptions, as of its group.

The table is read before the log, which is therefore at least as new. The log's side comes from
`verify_settlements`, on purpose not from the fold that made the table.
"""

from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from pyroaring import BitMap64

from distributary.pipeline.tables.delta.store import Store, beside
from distributary.pipeline.tables.topic_log.table_view import TableView
from distributary.pipeline.tables.verify.check import Check, Findings, counted, sequences, unknown
from distributary.pipeline.tables.verify.verify_messages import Messages, members
from distributary.pipeline.tables.verify.verify_settlements import Standing

NAME = "cursors"
_COLUMNS = ["subscription", "topic", "floor", "settled", "group", "log_version"]
_MEND = (
    "Stop the job, move tables/cursors, tables/acks, tables/messages and checkpoints away, and run "
    "it again: it makes them anew from the log"
)


@dataclass(frozen=True, slots=True)
class CursorRow:
    """One of Spark's rows, as of its group."""

    subscription: str
    topic: str
    floor: int
    settled: BitMap64
    group: int
    log_version: int


@dataclass(frozen=True, slots=True)
class CursorTable:
    """Spark's rows; or, with `absent`, the reason why there are none to check."""

    uri: str
    rows: tuple[CursorRow, ...] = ()
    absent: str = ""
    problem: str = ""

    @property
    def groups(self) -> set[int]:
        return {row.group for row in self.rows}


def read_cursors(log: Store) -> CursorTable:
    """Read the table beside this log as it is now."""
    uri = beside(log, "cursors")
    if not DeltaTable.is_deltatable(uri, storage_options=log.options):
        return CursorTable(uri, absent="no Spark job has run")
    try:
        found = DeltaTable(uri, storage_options=log.options)
        table = found.to_pyarrow_table(columns=_COLUMNS)
        rows = tuple(
            CursorRow(
                row["subscription"],
                row["topic"],
                row["floor"],
                BitMap64.deserialize(row["settled"]),
                row["group"],
                row["log_version"],
            )
            for row in table.to_pylist()
        )
    except (DeltaError, OSError, ValueError, TypeError, pa.ArrowException) as error:
        return CursorTable(uri, problem=f"{uri} can't be read: {error}. {_MEND}")
    return CursorTable(uri, rows, absent="" if rows else "the table is empty")


def check_cursors(
    cursors: CursorTable,
    view: TableView,
    messages: Messages,
    standing: dict[int, dict[str, Standing]],
) -> Check:
    """Check that each cursor equals the log's state as of the cursor's group."""
    findings = Findings()
    if cursors.problem:
        findings.problem(cursors.problem)
        return findings.check(NAME, "")
    if cursors.absent:
        return unknown(NAME, cursors.absent)
    group, version = max(cursors.groups), max(row.log_version for row in cursors.rows)
    if version > view.state.version or group > view.state.group:
        findings.problem(
            f"{cursors.uri} is as of version {version} and group {group} of the log, which is "
            f"only at {view.state.version} and {view.state.group}: it is of another log. {_MEND}"
        )
        return findings.check(NAME, counted(cursors=len(cursors.rows)))
    for row in cursors.rows:
        _check_row(row, standing[row.group].get(row.subscription), messages.first, findings)
    lacking = sorted(set(standing[group]) - {row.subscription for row in cursors.rows})
    for name in lacking:
        findings.problem(f"{cursors.uri} has no row for {name}, which lives. {_MEND}")
    return findings.check(NAME, f"{counted(cursors=len(cursors.rows))}, as of group {group:,}")


def _check_row(row: CursorRow, due: Standing | None, first: int, findings: Findings) -> None:
    """Compare a cursor with the log, both from the first retained message on."""
    where = f"the cursor of {row.subscription} as of group {row.group}"
    if due is None:
        findings.problem(f"{where} is of a subscription that did not exist then. {_MEND}")
        return
    if row.topic != due.topic:
        findings.problem(f"{where} has topic {row.topic}, the log says {due.topic}. {_MEND}")
    floor, wanted = max(row.floor, first), max(due.floor, first)
    if floor != wanted:
        findings.problem(f"{where} has floor {row.floor}, the log says {due.floor}. {_MEND}")
        return
    settled, fold = row.settled.copy(), due.settled.copy()
    for one in (settled, fold):
        one.remove_range(0, floor)
    wrong = settled ^ fold
    if wrong:
        findings.problem(
            f"{where} and the log don't agree on sequences {sequences(members(wrong))}. {_MEND}"
        )
