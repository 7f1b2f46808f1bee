"""Check whether a home is sound: without a lock, and nothing is written.

The order of reading makes the result true while a gateway runs. First the journal, whose groups the
table takes in later; then Spark's cursors, which are never ahead of the log; then the table at one
version, whose files stay long after a later version has dropped them. If a file is replaced while
it is read all the same, reading begins again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from distributary.pipeline.errors import InvalidRequest, StoreError, being_restored
from distributary.pipeline.log_names import RESTORING
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.home.owner import lock
from distributary.pipeline.tables.journal.journal import Cut
from distributary.pipeline.tables.topic_log.table_view import (
    TableView,
    again_if_replaced,
    open_view,
)
from distributary.pipeline.tables.verify import verify_cursors as cursor_audit
from distributary.pipeline.tables.verify import (
    verify_entries,
    verify_files,
    verify_messages,
    verify_settlements,
)
from distributary.pipeline.tables.verify import verify_journal as journals
from distributary.pipeline.tables.verify.check import Check, Findings, Verdict, unknown
from distributary.pipeline.tables.verify.home_parts import HomeParts, disk_parts
from distributary.pipeline.tables.verify.verify_incarnations import read_incarnations

#: Called with the part being read, the bytes of it that are done, and all its bytes.
Progress: TypeAlias = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Report:
    """The results: one check after the other, as of one version of the table."""

    home: str
    version: int | None
    checks: tuple[Check, ...]

    @property
    def sound(self) -> bool:
        return all(check.verdict is not Verdict.UNSOUND for check in self.checks)


def quiet(_what: str, _done: int, _total: int) -> None:
    """Show no progress."""


def verify(
    home: Home,
    *,
    store: Store | None = None,
    deep: bool = False,
    progress: Progress = quiet,
) -> Report:
    """Read the home and check it; `deep` reads the messages' bytes, too. The log's table lies in
    the home, or in `store`.

    Raises InvalidRequest for a folder that is no home, StoreError when it changes faster than it
    can be read.
    """
    check_is_home(home)
    return verify_parts(disk_parts(home, store), deep=deep, progress=progress)


def verify_parts(parts: HomeParts, *, deep: bool = False, progress: Progress = quiet) -> Report:
    """As `verify`, for a home whose parts lie anywhere. Raises StoreError as above."""
    return again_if_replaced(parts.store, lambda: _verify(parts, deep, progress))


def repair(home: Home) -> Cut | None:
    """Cut a torn frame at the journal's end, and nothing else; None if there is none.

    Raises HomeLocked while a gateway runs, StoreError when the damage isn't a torn end.
    """
    check_is_home(home)
    with lock(home) as owner:
        view = journals.read_journal(home.journal_dir)
        if view.problems:
            raise StoreError(f"nothing was repaired: {view.problems[0]}")
        owner.check()  # a standby may have taken the home during a long read
        return journals.cut_torn(view)


def check_is_home(home: Home) -> None:
    """Raise InvalidRequest for a folder that no gateway has used as a home, and for one that a
    restore has left half done."""
    if not home.root.is_dir():
        raise InvalidRequest(f"{home.root} is no folder; --home takes the folder of a gateway")
    if (home.root / RESTORING).exists():
        raise being_restored(str(home.root))
    if not home.topic_log.is_dir() and not home.journal_dir.is_dir():
        raise InvalidRequest(
            f"{home.root} is no gateway's home: there is neither tables/topic_log nor journal in it"
        )


def _verify(parts: HomeParts, deep: bool, progress: Progress) -> Report:
    store = parts.store
    progress("journal", 0, 0)
    journal = parts.journal()
    cursors = cursor_audit.read_cursors(store)
    if not verify_entries.made(store):
        return Report(parts.address, None, _check_without_table(store, journal))
    opened = _open(store)
    if not isinstance(opened, TableView):
        return Report(parts.address, None, (*opened, journals.check_journal(journal, None, None)))
    state = opened.state
    log = verify_entries.check_entries(store, state)
    shared = _shared(journal, opened)
    rows = _check_rows(opened, shared, cursors, deep, progress)
    table = Check("table", Verdict.SOUND, f"version {state.version:,}, group {state.group:,}")
    behind = bool(journal.frames) and journal.frames[-1].group < state.group
    later = parts.journal() if behind and journal.lasting else journal
    last = journals.check_journal(journal, opened, shared if rows.whole else None, later=later)
    checks = (table, log, *rows.checks, last, parts.marks(), *rows.audit)
    return Report(parts.address, state.version, checks)


def _open(store: Store) -> TableView | tuple[Check, ...]:
    """Open the table; if that fails, return the checks that tell why."""
    try:
        return open_view(store)
    except StoreError as error:
        findings = Findings()
        findings.problem(f"{error}. Restore it from a copy")
        return (findings.check("table", ""), verify_entries.check_entries(store, None))


def _check_without_table(store: Store, journal: journals.JournalView) -> tuple[Check, ...]:
    """Check a home without a table: a gateway that was killed before it made its table has an empty
    journal, or one from the first group on."""
    findings = Findings()
    first = journal.frames[0].group if journal.frames else 1
    if first > 1:
        findings.problem(
            f"{store.uri} is missing, but the journal begins with group {first}: the groups "
            "before it are nowhere. Restore the table from a copy"
        )
    table = findings.check("table", "there is none yet")
    return (table, journals.check_journal(journal, None, None))


def _shared(journal: journals.JournalView, view: TableView) -> verify_messages.GroupRows:
    """Make counters for the groups that both the table and the journal have."""
    if not journal.frames:
        return verify_messages.GroupRows(0, -1)
    return verify_messages.GroupRows(
        journal.frames[0].group, min(journal.frames[-1].group, view.state.group)
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Results from the data files; not `whole` when some are unreadable: then nothing follows."""

    whole: bool
    checks: tuple[Check, ...]
    audit: tuple[Check, ...]


def _check_rows(
    view: TableView,
    shared: verify_messages.GroupRows,
    cursors: cursor_audit.CursorTable,
    deep: bool,
    progress: Progress,
) -> _Rows:
    reader = verify_files.FileReader(view, deep)
    reader.check_records()
    total, done = sum(file.size for file in view.state.files), 0

    def step(size: int) -> None:
        nonlocal done
        done += size
        progress("data files", done, total)

    step(0)
    sequences, found = verify_messages.check_messages(view, reader, shared, step)
    events = Findings()
    incarnations = read_incarnations(view, reader, events)
    fold = verify_settlements.Settlements(view, found, incarnations, cursors.groups, events)
    fold.read(reader, step)
    whole = reader.check()
    if whole.verdict is Verdict.UNSOUND:
        why = "some data files can't be read"
        names = (verify_messages.NAME, verify_settlements.NAME, verify_settlements.FLOORS)
        skipped = tuple(unknown(name, why) for name in names)
        return _Rows(False, (whole, *skipped), (unknown(cursor_audit.NAME, why),))
    audit = cursor_audit.check_cursors(cursors, view, found, fold.standing)
    return _Rows(True, (whole, sequences, *fold.checks()), (audit,))
