"""The parts of a home that `verify` and `info` read, on a disk or a store."""

from collections.abc import Callable
from dataclasses import dataclass

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta.store import LocalStore, Store
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.recovery import dispatch_marks
from distributary.pipeline.tables.verify.check import Check, Findings
from distributary.pipeline.tables.verify.verify_journal import JournalView, read_journal


@dataclass(frozen=True, slots=True)
class HomeParts:
    """A home's address, the store of its log's table, and the readers of its journal and marks."""

    address: str
    store: Store
    journal: Callable[[], JournalView]
    marks: Callable[[], Check]


def disk_parts(home: Home, store: Store | None) -> HomeParts:
    """Return the parts of a folder; the log's table lies in it, or in `store`."""
    return HomeParts(
        str(home.root),
        store or LocalStore(home.topic_log),
        lambda: read_journal(home.journal_dir),
        lambda: check_marks(str(home.marks), lambda: dispatch_marks.look(home.marks)),
    )


def check_marks(name: str, look: Callable[[], tuple[str, bool]]) -> Check:
    """Check the marks called `name`; `look` returns their description, and whether some of them are
    damaged."""
    findings = Findings()
    try:
        words, damaged = look()
    except StoreError as error:
        findings.problem(str(error))
        return findings.check("marks", "")
    if damaged:
        findings.note(
            f"{name} is damaged, or being written now: after a restart more messages are marked as "
            "redelivered than were delivered. None is lost"
        )
    return findings.check("marks", words)
