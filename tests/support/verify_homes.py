"""Homes for the tests of verify: a sound one, and the tools to break it by hand."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from table_groups import bodies, event, framed, group, run, settled

from distributary.pipeline.model.message import Group
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.journal.journal import Journal
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.verify.check import Verdict
from distributary.pipeline.tables.verify.verify_home import Report, verify

SEGMENT_BYTES = 1 << 20
#: Two topics; `dispatchers` has settled orders up to 4 and 11 above its floor.
GROUPS = (
    group(1, 0, subscriptions=[event(SubscriptionEvent.CREATED, 0)]),
    group(2, 0, run("orders", bodies(6, 100)), run("bills", bodies(4, 100))),
    group(3, 10, run("orders", bodies(5, 100)), settlements=[settled(range(3), floor=3)]),
    group(4, 15, settlements=[settled(range(3, 5), range(11, 12), floor=5)]),
    group(5, 15, run("bills", bodies(2, 100))),
    group(6, 17, run("orders", bodies(3, 100))),
)
COMMITTED = 5  #: groups of those; the rest is in the journal alone


class MadeHome:
    """A home as a gateway leaves it: the table, and a journal that is a group ahead."""

    def __init__(self, root: Path, groups: tuple[Group, ...] = GROUPS) -> None:
        self.home = Home(root)
        self.groups = groups
        journal = Journal.open(self.home.journal_dir, segment_bytes=SEGMENT_BYTES)
        for one in groups:
            journal.append(frame.encode(one))
        journal.close()
        self.log = TopicLog.open(self.home.topic_log)
        self.log.commit([framed(one) for one in groups[:2]])
        self.log.commit([framed(one) for one in groups[2:COMMITTED]])

    @property
    def root(self) -> Path:
        return self.home.topic_log

    def entry(self, version: int) -> Path:
        return self.root / "_delta_log" / f"{version:020d}.json"

    def file(self, record: str, nth: int = 0) -> Path:
        """The nth data file of that record, by the commits that added them."""
        found = []
        for version in range(self.log.version + 1):
            for line in self.entry(version).read_text().splitlines():
                add = json.loads(line).get("add")
                if add and add["partitionValues"]["record"] == record:
                    found.append(self.root / add["path"].replace("%3A", ":"))
        return found[nth]

    def segment(self) -> Path:
        return next(self.home.journal_dir.glob("*.journal"))

    def frame_at(self, number: int) -> int:
        """The offset of the frame of that group in the only segment."""
        data, at = self.segment().read_bytes(), 4096
        while True:
            header = frame.read_header(data[at : at + frame.HEADER_BYTES])
            assert header is not None
            if header.group == number:
                return at
            at += header.size

    def edit_entry(self, version: int, change: Callable[[list[dict[str, object]]], object]) -> None:
        """Change the actions of an entry in place."""
        path = self.entry(version)
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        change(actions)
        path.write_text("".join(json.dumps(action) + "\n" for action in actions))

    def rewrite(self, path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
        """Change the rows of a data file, and what the log says of it, so that they agree."""
        table = change(pq.ParquetFile(path).read())
        pq.write_table(table, path)
        name = path.relative_to(self.root).as_posix()
        for version in range(self.log.version + 1):
            self.edit_entry(version, lambda actions: _describe(actions, name, table, path))

    def verify(self, *, deep: bool = False) -> Report:
        return verify(self.home, deep=deep)

    def problems(self, *, deep: bool = False) -> dict[str, tuple[str, ...]]:
        """The sentences of each check that fails."""
        checks = self.verify(deep=deep).checks
        return {c.name: c.problems for c in checks if c.verdict is Verdict.UNSOUND}


def _describe(actions: list[dict[str, object]], name: str, table: pa.Table, path: Path) -> None:
    for action in actions:
        add = action.get("add")
        if not isinstance(add, dict) or add["path"] != name:
            continue
        stats = json.loads(add["stats"])
        stats["numRecords"] = table.num_rows
        for column in ("group", "sequence"):
            if column in table.column_names and table[column].null_count < table.num_rows:
                values = table[column].to_pylist()
                stats["minValues"][column], stats["maxValues"][column] = min(values), max(values)
        add["stats"], add["size"] = json.dumps(stats), path.stat().st_size


def replaced(name: str, values: list[object]) -> Callable[[pa.Table], pa.Table]:
    """A change of a table: one column with these values."""

    def change(table: pa.Table) -> pa.Table:
        at = table.column_names.index(name)
        return table.set_column(at, name, pa.array(values, table.schema.field(name).type))

    return change


def snapshot(home: Path) -> dict[str, bytes]:
    """Every file under the home, byte for byte."""
    return {str(p): p.read_bytes() for p in sorted(home.rglob("*")) if p.is_file()}


def flipped_bit(made: MadeHome, number: int, at: int) -> None:
    """Turn a bit over in the frame of that group."""
    path = made.segment()
    data = bytearray(path.read_bytes())
    data[made.frame_at(number) + at] ^= 1
    path.write_bytes(data)


def broken_middle(made: MadeHome) -> None:
    """A frame that isn't the last one is damaged."""
    flipped_bit(made, 3, 80)
