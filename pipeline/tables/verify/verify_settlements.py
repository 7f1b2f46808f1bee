"""The settlements, group by group: each settles a message that exists, is owed, and wasn't settled
before; floors never fall, nor pass unsettled messages that are owed.

This fold is on purpose another one than that of the gateway and Spark
(`pipeline.tables.arrow.settlement_fold`): it checks for each message that a floor passes whether it
was settled by then, so the recorded floors are verified and not trusted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.arrow_types import Chunked, Int64s
from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.topic_log.table_view import TableView
from distributary.pipeline.tables.verify.check import Check, Findings, counted, sequences
from distributary.pipeline.tables.verify.verify_files import FileReader
from distributary.pipeline.tables.verify.verify_incarnations import Incarnation, Incarnations
from distributary.pipeline.tables.verify.verify_messages import Messages, bitmap, members, stretch

NAME = "settlements"
FLOORS = "floors"
COLUMNS = ["group", "subscription", "topic", "outcome", "final", "floor", "sequences"]
#: Outcomes after which a subscription may be owed the message again, if the row isn't final.
_BACK = (Outcome.RELEASED, Outcome.LOST, Outcome.MODIFIED)
#: Wrong rows of a batch that get a sentence, at most.
SHOWN_MAX = 100
#: Bytes of rows that are checked together: small files would cost as much as big ones otherwise.
BATCH_BYTES = 4 << 20
_MEND = "Restore the table from a copy"


@dataclass(frozen=True, slots=True)
class Standing:
    """State of a subscription after some group: its floor, and what was settled above it."""

    topic: str
    floor: int
    settled: BitMap64


@dataclass(slots=True)
class _State:
    """An incarnation while it is read: `settled` are final settlements from the floor on."""

    of: Incarnation
    floor: int
    settled: BitMap64 = field(default_factory=BitMap64)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The settlements of one incarnation in some consecutive groups, by group."""

    groups: Int64s  #: of each row
    floors: Int64s
    values: Int64s  #: finally settled sequences, ascending
    value_groups: Int64s  #: the group of each


class Settlements:
    """Reads all settlements in the order of their groups. `findings` are about the settlements,
    `floors` about the floors; `standing` has the states after the groups in `standing_after`."""

    def __init__(
        self,
        view: TableView,
        messages: Messages,
        incarnations: Incarnations,
        standing_after: set[int],
        findings: Findings,
    ) -> None:
        self._view, self._messages, self._incarnations = view, messages, incarnations
        self._states = [_State(one, one.floor) for one in incarnations.all]
        self._cuts = sorted(standing_after)
        self.standing: dict[int, dict[str, Standing]] = {}
        self.findings, self.floors = findings, Findings()
        self.rows = self.deliveries = 0

    def read(self, reader: FileReader, step: Callable[[int], None]) -> None:
        """Read the whole table; calls `step` with the bytes of each file that is done."""
        for table in _in_order(self._view.of(topic_log_schema.SETTLEMENT), reader, step):
            rest = table
            while self._cuts and rest["group"].to_numpy()[-1] > self._cuts[0]:
                at = int(np.searchsorted(rest["group"].to_numpy(), self._cuts[0], side="right"))
                self._add(rest.slice(0, at))
                rest = rest.slice(at)
                self._stand(self._cuts.pop(0))
            self._add(rest)
        for group in self._cuts:
            self._stand(group)

    def checks(self) -> tuple[Check, Check]:
        living = sum(one.ended is None for one in self._incarnations.all)
        return (
            self.findings.check(NAME, counted(rows=self.rows, deliveries=self.deliveries)),
            self.floors.check(
                FLOORS,
                counted(living_subscriptions=living, incarnations=len(self._states)),
            ),
        )

    def _stand(self, group: int) -> None:
        self.standing[group] = {
            state.of.subscription: Standing(state.of.topic, state.floor, state.settled.copy())
            for state in self._states
            if state.of.covers(group)
        }

    def _add(self, table: pa.Table) -> None:
        """Add rows of consecutive groups, ascending."""
        if not table.num_rows:
            return
        groups = table["group"].to_numpy()
        self.rows += table.num_rows
        self.deliveries += int(pc.sum(pc.list_value_length(table["sequences"])).as_py() or 0)
        if groups[-1] > self._view.state.group:
            self.findings.problem(
                f"{self._view.uri} has settlements of group {groups[-1]}, but ends with group "
                f"{self._view.state.group}. {_MEND}"
            )
        of_row = self._incarnations.find(table["subscription"], groups)
        self._check_owned(table, of_row)
        self._check_outcomes(table)
        for nth, part in _parts(table, of_row):
            self._check_values(self._states[nth], part)
            self._check_floors(self._states[nth], part)

    def _check_owned(self, table: pa.Table, of_row: Int64s) -> None:
        strangers = np.flatnonzero(of_row < 0)
        for row in table.take(strangers[:SHOWN_MAX]).to_pylist():
            self.findings.problem(
                f"group {row['group']} settles messages for {row['subscription']}, which didn't "
                f"exist then. {_MEND}"
            )
        topics = np.array([one.topic for one in self._incarnations.all] or [""], np.object_)
        wrong = table["topic"].to_numpy() != topics[of_row]
        for row in table.take(np.flatnonzero(wrong & (of_row >= 0))[:SHOWN_MAX]).to_pylist():
            self.findings.problem(
                f"group {row['group']} settles messages of {row['topic']} for "
                f"{row['subscription']}, which is of another topic. {_MEND}"
            )

    def _check_outcomes(self, table: pa.Table) -> None:
        words: Chunked = table["outcome"]
        known = pc.is_in(words, pa.array([one.value for one in Outcome], pa.string()))
        back = pc.is_in(words, pa.array([one.value for one in _BACK], pa.string()))
        wrong = pc.invert(pc.and_(known, pc.or_(back, table["final"])))
        for row in table.filter(wrong).slice(0, SHOWN_MAX).to_pylist():
            self.findings.problem(
                f"group {row['group']} settles messages for {row['subscription']} as "
                f"{row['outcome']}, {'' if row['final'] else 'not '}final, which can't be. {_MEND}"
            )
        self._check_expired(table.filter(pc.equal(words, pa.scalar(Outcome.EXPIRED.value))))

    def _check_expired(self, table: pa.Table) -> None:
        values = pc.list_flatten(table["sequences"]).to_numpy()
        lasting = bitmap(values[values >= self._messages.first]) - self._messages.expiring
        if lasting:
            self.findings.problem(
                f"sequences {sequences(members(lasting))} are settled as expired for one of "
                f"{', '.join(sorted(map(str, table['subscription'].unique().to_pylist())))}, but "
                f"never expire. {_MEND}"
            )

    def _check_values(self, state: _State, part: _Part) -> None:
        name, values = state.of.subscription, part.values
        if not len(values):
            return
        retained = values[values >= self._messages.first]
        new = bitmap(values)
        strange = bitmap(retained) - self._messages.of(state.of.topic)
        if strange:
            self.findings.problem(
                f"{name} has settled sequences {sequences(members(strange))}, but there is no such "
                f"message in {state.of.topic}. {_MEND}"
            )
        early = values[values < state.of.floor]
        if len(early):
            self.findings.problem(
                f"{name} has settled sequences {sequences(np.unique(early))}, but it is owed those "
                f"from {state.of.floor} on. {_MEND}"
            )
        again = new & state.settled
        if state.of.owes_all:
            again |= new & stretch(state.of.floor, state.floor)
        repeated = np.union1d(members(again), values[1:][np.diff(values) == 0])
        if len(repeated):
            self.findings.problem(
                f"{name} has finally settled sequences {sequences(repeated)} more than once "
                f"(up to group {part.groups[-1]}). {_MEND}"
            )

    def _check_floors(self, state: _State, part: _Part) -> None:
        starts = np.flatnonzero(np.diff(part.groups, prepend=-1))
        groups, floors = part.groups[starts], np.maximum.reduceat(part.floors, starts)
        running = np.maximum.accumulate(np.maximum(floors, state.floor))
        before = np.concatenate([[state.floor], running[:-1]])
        for at in np.flatnonzero(floors < before).tolist():
            self.floors.problem(
                f"the floor of {state.of.subscription} falls from {before[at]} to {floors[at]} in "
                f"group {groups[at]}: what was settled would be delivered again. {_MEND}"
            )
        after = int(running[-1])
        if after > self._messages.next:
            self.floors.problem(
                f"the floor of {state.of.subscription} is {after} in group {groups[-1]}, beyond "
                f"the log's end at {self._messages.next}. {_MEND}"
            )
        if state.of.owes_all and after > state.floor:
            self._check_passed(state, part, groups, running)
        state.floor = after
        state.settled |= bitmap(part.values)
        state.settled.remove_range(0, after)

    def _check_passed(self, state: _State, part: _Part, groups: Int64s, running: Int64s) -> None:
        """Check that all messages owed below a floor were settled in its group or before."""
        owed = self._messages.of(state.of.topic) & stretch(
            max(state.floor, self._messages.first), int(running[-1])
        )
        unsettled = members(owed - state.settled)
        if not len(unsettled):
            return
        passed_in = groups[np.searchsorted(running, unsettled, side="right")]
        at = np.searchsorted(part.values, unsettled)
        inside = np.minimum(at, max(len(part.values) - 1, 0))
        in_time = (
            (part.values[inside] == unsettled) & (part.value_groups[inside] <= passed_in)
            if len(part.values)
            else np.zeros(len(unsettled), np.bool_)
        )
        lost = unsettled[~in_time]
        if len(lost):
            self.floors.problem(
                f"the floor of {state.of.subscription} passes sequences {sequences(lost)} in group "
                f"{passed_in[~in_time][0]}, but they are owed and were not settled: they would "
                f"never be delivered. {_MEND}"
            )


def _in_order(
    files: tuple[AddedFile, ...], reader: FileReader, step: Callable[[int], None]
) -> Iterator[pa.Table]:
    """Yield all rows by group, in tables of whole groups. Rows that overlap with later files wait.

    Within a file rows are sorted by group; a row group is read after the one before was yielded.
    """
    waiting: list[pa.Table] = []
    ordered = sorted(files, key=lambda file: (file.group_low or 0, file.group_high or 0))
    for nth, file in enumerate(ordered):
        following = ordered[nth + 1].group_low if nth + 1 < len(ordered) else None
        if reader.present(file):
            for table, bound in _with_bound(reader.row_groups_of(file), following):
                waiting.append(table.select(COLUMNS))
                if sum(one.nbytes for one in waiting) < BATCH_BYTES:
                    continue
                done, waiting = _before(waiting, bound)
                if done is not None:
                    yield done
        step(file.size)
    done, _ = _before(waiting, None)
    if done is not None:
        yield done


def _with_bound(
    tables: Iterator[pa.Table], later: int | None
) -> Iterator[tuple[pa.Table, int | None]]:
    """Yield each row group, with the lowest group that a later row group or file may have."""
    former: pa.Table | None = None
    for table in tables:
        if former is not None:
            low = int(table["group"].to_numpy().min())
            yield former, low if later is None else min(low, later)
        former = table
    if former is not None:
        yield former, later


def _before(waiting: list[pa.Table], group: int | None) -> tuple[pa.Table | None, list[pa.Table]]:
    """Return the rows below that group, sorted, and the other rows."""
    if not waiting:
        return None, []
    table = pa.concat_tables(waiting)
    groups = table["group"].to_numpy()
    if (np.diff(groups) < 0).any():
        order = np.argsort(groups, kind="stable")
        table, groups = table.take(order), groups[order]
    at = len(groups) if group is None else int(np.searchsorted(groups, group))
    return (table.slice(0, at) if at else None), ([table.slice(at)] if at < len(groups) else [])


def _parts(table: pa.Table, of_row: Int64s) -> Iterator[tuple[int, _Part]]:
    """Yield each incarnation's index, and its rows."""
    groups, floors = table["group"].to_numpy(), table["floor"].to_numpy()
    final = table["final"].to_numpy()
    lists = table["sequences"].filter(table["final"])
    counts = pc.list_value_length(lists).to_numpy()
    values = pc.list_flatten(lists).to_numpy()
    of_value, value_groups = np.repeat(of_row[final], counts), np.repeat(groups[final], counts)
    order = np.lexsort((value_groups, values, of_value))
    values, of_value, value_groups = values[order], of_value[order], value_groups[order]
    for nth in np.unique(of_row[of_row >= 0]).tolist():
        mine = of_row == nth
        begin, end = np.searchsorted(of_value, [nth, nth + 1])
        yield (
            nth,
            _Part(groups[mine], floors[mine], values[begin:end], value_groups[begin:end]),
        )
