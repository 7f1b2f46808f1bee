"""The formats of a home, and what this version of the program would do with each at its start.

Rule 1: a start reads the formats of all released versions. It changes one of them alone: a
        `topic_log` of a former format gets the missing columns, in one commit.
Rule 2: a start refuses an unknown format as a whole, before it has changed anything. So a newer
        format is never misread, and nothing of it is lost.
Rule 3: the former version can start again as long as no format has changed.

The look takes no lock and writes nothing; a gateway may run.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from distributary.pipeline import topic_log_columns
from distributary.pipeline.errors import StoreError
from distributary.pipeline.object_journal import entry
from distributary.pipeline.tables.delta.pinned_table import head_of
from distributary.pipeline.tables.delta.store import LocalStore, Store, beside
from distributary.pipeline.tables.delta.table_log import check_ours
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import segment
from distributary.pipeline.tables.object_home.object_home import ObjectHome
from distributary.pipeline.tables.recovery import dispatch_marks
from distributary.pipeline.tables.topic_log.table_view import again_if_replaced
from distributary.pipeline.tables.verify.object_home_parts import object_parts
from distributary.pipeline.tables.verify.verify_entries import made
from distributary.pipeline.tables.verify.verify_home import check_is_home
from distributary.pipeline.tables.verify.verify_journal import read_journal


class Fate(StrEnum):
    """The effect of a start of this version on a format."""

    SAME = "same"  #: it stays as it is
    CHANGES = "changes"  #: it becomes the present one: former versions refuse it from then on
    REFUSED = "refused"  #: this version can't use it, and changes nothing
    UNSEEN = "unseen"  #: it can't be read here


@dataclass(frozen=True, slots=True)
class PartFormat:
    """One part of a home. `found` and `ours` name its format and the one that this version writes;
    empty where there is none. `sentence` tells the consequence."""

    part: str
    found: str
    ours: str
    fate: Fate
    sentence: str


@dataclass(frozen=True, slots=True)
class HomeFormats:
    """All parts of a home."""

    home: str
    parts: tuple[PartFormat, ...]

    @property
    def opens(self) -> bool:
        """Whether this version can open all of it."""
        return all(part.fate is not Fate.REFUSED for part in self.parts)

    @property
    def changes(self) -> tuple[str, ...]:
        """The parts whose format would change."""
        return tuple(part.part for part in self.parts if part.fate is Fate.CHANGES)

    @property
    def rollback(self) -> bool:
        """Whether the version that wrote the home can open it again after a start of this one."""
        return not self.changes


#: The columns of a table by name, each with its type as Delta's log writes it.
Columns: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class SparkFormat:
    """One of Spark's tables as this version writes it, and the columns that a table by a former
    version may lack."""

    columns: Columns
    later: frozenset[str]


def look(
    home: Home, store: Store | None = None, spark: Mapping[str, SparkFormat] | None = None
) -> HomeFormats:
    """Return the formats of a home whose log lies in it, or in `store`. Without `spark`, where
    Spark isn't installed, its tables aren't read. Raises InvalidRequest for a folder that is no
    home, StoreError for unreadable files."""
    check_is_home(home)
    log = store or LocalStore(home.topic_log)
    return again_if_replaced(
        log, lambda: HomeFormats(str(home.root), tuple(_parts(home, log, spark)))
    )


def _parts(home: Home, log: Store, spark: Mapping[str, SparkFormat] | None) -> Iterator[PartFormat]:
    # The order is that of `verify_home`: a running gateway removes no part before it is read.
    yield _journal(home)
    yield _marks(home.marks)
    yield from _tables(log, spark)


def _tables(log: Store, spark: Mapping[str, SparkFormat] | None) -> Iterator[PartFormat]:
    yield _topic_log(log)
    for name in sorted(spark or {}):
        yield _spark_table(beside(log, name), log.options, name, (spark or {})[name])
    if spark is None:
        yield PartFormat(
            "Spark's tables",
            "",
            "",
            Fate.UNSEEN,
            "Spark isn't installed here, so its tables weren't looked at: ask where its jobs run",
        )


def look_at_store(
    home: ObjectHome, log: Store, spark: Mapping[str, SparkFormat] | None = None
) -> HomeFormats:
    """As `look`, for a home without a disk, whose log is at `log`. Raises StoreError."""

    def parts() -> Iterator[PartFormat]:
        yield _objects(home, log)
        yield from _tables(log, spark)

    return again_if_replaced(log, lambda: HomeFormats(home.url, tuple(parts())))


def _objects(home: ObjectHome, log: Store) -> PartFormat:
    ours = f"version {entry.VERSION}"
    view = object_parts(home, log.uri).journal()
    if view.problems:
        return PartFormat("journal", "", ours, Fate.REFUSED, view.problems[0])
    words = f"it has {len(view.frames):,} groups; the start commits those that the table lacks"
    found, words = (ours, words) if view.frames else ("", "it is empty")
    return PartFormat("journal", found, ours, Fate.SAME, words)


def _journal(home: Home) -> PartFormat:
    ours = f"version {segment.VERSION}"
    view = read_journal(home.journal_dir)
    there = sorted(set(segment.versions(home.journal_dir).values()))
    found = " and ".join(f"version {one}" for one in there)
    if view.problems:
        return PartFormat("journal", found, ours, Fate.REFUSED, view.problems[0])
    words = f"it has {len(view.frames):,} groups; the start commits those that the table lacks"
    return PartFormat("journal", found, ours, Fate.SAME, words if view.frames else "it is empty")


def _marks(path: Path) -> PartFormat:
    ours, found = f"version {dispatch_marks.VERSION}", ""
    try:
        head = path.read_bytes()[:12] if path.exists() else b""
        if head.startswith(dispatch_marks.MAGIC) and len(head) == 12:
            found = f"version {int.from_bytes(head[8:], 'little')}"
        words, _ = dispatch_marks.look(path)
    except (StoreError, OSError) as error:
        return PartFormat("marks", found, ours, Fate.REFUSED, str(error))
    return PartFormat("marks", found, ours, Fate.SAME, words)


def _topic_log(store: Store) -> PartFormat:
    part, newest = "topic_log", topic_log_columns.FORMAT
    ours = f"format {newest}"
    if not made(store):
        return PartFormat(part, "", ours, Fate.SAME, "there is none yet: the start makes it")
    try:
        table = DeltaTable(store.uri, storage_options=store.options)
        head = head_of(table)
        check_ours(store.uri, head)
    except (StoreError, DeltaError, OSError) as error:
        return PartFormat(part, "", ours, Fate.REFUSED, " ".join(str(error).split()))
    number = head.format or newest
    found = f"format {number}"
    if number == newest:
        return PartFormat(part, found, ours, Fate.SAME, "it has all columns of today")
    lacking = [name for later in topic_log_columns.ADDED[number - 1 :] for name in later]
    return PartFormat(
        part,
        found,
        ours,
        Fate.CHANGES,
        f"the start adds {', '.join(lacking)} in one commit, which touches no file; versions of "
        "before refuse the table from then on",
    )


def _spark_table(uri: str, options: dict[str, str], name: str, ours: SparkFormat) -> PartFormat:
    def said(fate: Fate, found: str, sentence: str) -> PartFormat:
        return PartFormat(name, found, f"{len(ours.columns)} columns", fate, sentence)

    try:
        if not DeltaTable.is_deltatable(uri, storage_options=options):
            return said(Fate.SAME, "", "there is none yet: the job makes it")
        found = _columns(DeltaTable(uri, storage_options=options))
    except (DeltaError, OSError) as error:
        return said(Fate.REFUSED, "", " ".join(str(error).split()))
    here = f"{len(found)} columns"
    foreign = [column for column, kind in found.items() if ours.columns.get(column) != kind]
    lacking = [column for column in ours.columns if column not in found]
    gone = [column for column in lacking if column not in ours.later]
    if foreign or gone:
        return said(
            Fate.REFUSED,
            here,
            f"look at {', '.join(foreign + gone)}: another version of the job wrote it, and this "
            "one refuses it. Start that one, or make Spark's tables anew",
        )
    if lacking:
        return said(
            Fate.CHANGES,
            here,
            f"`jobs materialize` adds {', '.join(lacking)}; jobs of before refuse it from then on",
        )
    return said(Fate.SAME, here, "it has all columns of today")


def _columns(table: DeltaTable) -> dict[str, object]:
    fields: list[dict[str, Any]] = json.loads(table.schema().to_json())["fields"]
    return {str(field["name"]): field["type"] for field in fields}
