"""The table's own log: its JSON entries and checkpoints, read one by one.

A Delta reader needs the newest checkpoint and every later entry. Streams and audits read older
entries, too; clean-up removes them from the oldest on.
"""

import re
from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from distributary.pipeline.tables.delta import checkpoint
from distributary.pipeline.tables.delta.commits import LOG, AddedFile, json_name, parse
from distributary.pipeline.tables.delta.pinned_table import live_files
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.delta.table_log import checkpoint_name
from distributary.pipeline.tables.delta.table_state import JOURNAL_APP, SEQUENCE_APP, TableState
from distributary.pipeline.tables.topic_log.table_view import Replaced
from distributary.pipeline.tables.verify.check import Check, Findings, counted

NAME = "log entries"
_ENTRY = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")


@dataclass(frozen=True, slots=True)
class LogFolder:
    """The names in `_delta_log`: versions of entries and of checkpoints, ascending."""

    store: Store
    entries: tuple[int, ...]
    checkpoints: tuple[int, ...]

    @classmethod
    def read(cls, store: Store) -> "LogFolder":
        names = store.files(LOG)
        return cls(store, _versions(names, _ENTRY), _versions(names, _CHECKPOINT))

    @property
    def uri(self) -> str:
        return f"{self.store.uri}/{LOG}"

    def entry(self, version: int) -> str:
        """Return an entry's address for a person."""
        return f"{self.store.uri}/{json_name(version)}"


def _versions(names: list[str], pattern: re.Pattern[str]) -> tuple[int, ...]:
    found = {int(match[1]) for name in names if (match := pattern.fullmatch(name))}
    return tuple(sorted(found))


@dataclass(slots=True)
class _Position:
    """The state after the entries read so far; None until an entry tells it. `files` are the
    table's files by the entries alone, from the first version on where they are known."""

    group: int | None = None
    sequence: int | None = None
    files: set[str] | None = None


def made(store: Store) -> bool:
    """Whether the table, or anything of it, exists: not so before its first version appears."""
    folder = LogFolder.read(store)
    return bool(folder.entries or folder.checkpoints)


def check_entries(store: Store, state: TableState | None) -> Check:
    """Check entries and checkpoints up to the state's version, and that they lead to that state;
    with None, up to the last entry.

    Raises Replaced when clean-up removes entries while they are read.
    """
    findings = Findings()
    folder = LogFolder.read(store)
    last = state.version if state is not None else max(folder.entries, default=0)
    base = max((c for c in folder.checkpoints if c <= last), default=None)
    _check_pointer(folder, findings)
    _check_checkpoint(folder, base, findings)
    _check_dense(folder, base, last, findings)
    position = _Position()
    read = [v for v in folder.entries if v <= last]
    start = _start(folder, last) if state is not None else None
    for at in read:
        _check_entry(folder, at, position, findings)
        if at == start:
            position.files = _files_of(folder, at, findings)
    if state is not None and position.files is not None:
        _check_files(folder, state, position.files, findings)
    since = "no checkpoint" if base is None else f"the last checkpoint at version {base:,}"
    return findings.check(NAME, f"{counted(entries=len(read))}, {since}")


def _start(folder: LogFolder, last: int) -> int | None:
    """Return the version from which on entries alone tell the files: the oldest checkpoint that has
    its own entry and every later one. A log that begins with version 0 needs none."""
    known = set(folder.entries)
    first = last
    while first - 1 in known:
        first -= 1
    if first == 0 or last not in known:
        return None
    return min((c for c in folder.checkpoints if first <= c <= last), default=None)


def _files_of(folder: LogFolder, version: int, findings: Findings) -> set[str] | None:
    store = folder.store
    try:
        table = DeltaTable(store.uri, version=version, storage_options=store.options)
        return {file.path for file in live_files(table)}
    except (DeltaError, OSError) as error:
        if version not in LogFolder.read(store).checkpoints:
            raise Replaced(f"version {version} of {store.uri} went while it was read") from error
        findings.problem(
            f"{store.uri} can't be read as of its checkpoint of version {version}: {error}. Later "
            "ones may do; restore it from a copy"
        )
        return None


def _check_files(folder: LogFolder, state: TableState, files: set[str], findings: Findings) -> None:
    """Check that the table of the checkpoint is the one that the entries make."""
    named = {file.path for file in state.files}
    for path in sorted(files ^ named)[:1]:
        lacks, has = ("checkpoint", "entries") if path in files else ("entries", "checkpoint")
        findings.problem(
            f"the {has} of {folder.store.uri} name {path}, which the {lacks} doesn't "
            f"({len(files ^ named):,} such files). If the entries go back to version 0, stop the "
            "gateway and move the checkpoints and _last_checkpoint away; else restore the table "
            "from a copy"
        )


def _check_pointer(folder: LogFolder, findings: Findings) -> None:
    uri = f"{folder.store.uri}/{checkpoint.POINTER}"
    try:
        said = checkpoint.pointed(folder.store)
    except FileNotFoundError:
        if folder.checkpoints:
            findings.note(f"{uri} is missing; readers list the folder instead")
        return
    except (OSError, ValueError, KeyError, TypeError):
        findings.note(f"{uri} is torn; readers list the folder instead")
        return
    if said in folder.checkpoints:
        return
    if said < max(folder.checkpoints, default=-1):
        findings.note(
            f"{uri} names an older checkpoint, of version {said}, which is gone: a former owner of "
            "the home said so too late; readers find the newer one, and the next one is named again"
        )
    else:
        findings.problem(
            f"{uri} names a checkpoint of version {said}, which isn't there, so Delta readers "
            f"can't open the table. If the entries go back to version 0 or to an older "
            "checkpoint, delete that file: readers then list the folder"
        )


def _check_checkpoint(folder: LogFolder, base: int | None, findings: Findings) -> None:
    if base is None:
        return
    name = checkpoint_name(base)
    try:
        with folder.store.parquet(name) as file:
            file.read()
    except FileNotFoundError as error:
        raise Replaced(f"{folder.store.uri}/{name} went while it was read") from error
    except (OSError, pa.ArrowException) as error:
        findings.problem(
            f"the checkpoint {folder.store.uri}/{name} can't be read: {error}. If the entries from "
            "version 0 or from an older checkpoint on are there, move it and _last_checkpoint away"
        )


def _check_dense(folder: LogFolder, base: int | None, last: int, findings: Findings) -> None:
    """Check that every needed entry is there, and that the older ones have no gap."""
    first = 0 if base is None else base + 1
    missing = sorted(set(range(first, last + 1)) - set(folder.entries))
    if missing:
        if LogFolder.read(folder.store).checkpoints != folder.checkpoints:
            raise Replaced(f"{folder.uri} was cleaned while it was listed")
        findings.problem(
            f"{folder.entry(missing[0])} is missing ({len(missing)} of the entries {first} to "
            f"{last} are), and no checkpoint stands for it: the table can't be read as it was. "
            "Restore it from a copy"
        )
    older = [v for v in folder.entries if v < first]
    if older and older[-1] - older[0] + 1 != len(older):
        findings.note(
            f"of the entries {older[0]} to {older[-1]} in {folder.uri} some are missing; a "
            "stream that has not come past them will stop there"
        )


def _check_entry(folder: LogFolder, at: int, position: _Position, findings: Findings) -> None:
    path = folder.entry(at)
    try:
        text = folder.store.read(json_name(at))
        if not text:
            raise ValueError("it is empty")  # noqa: TRY301 (said as any other damage)
        entry = parse(text)
    except FileNotFoundError as error:
        raise Replaced(f"{path} went while it was read") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        findings.problem(f"the entry {path} can't be read: {error}. Restore it from a copy")
        position.group = position.sequence = position.files = None
        return
    if at == 0:
        position.group, position.sequence, position.files = 0, 0, set()
    if position.files is not None:
        position.files.difference_update(entry.removed)
        position.files.update(file.path for file in entry.added)
    group = entry.transactions.get(JOURNAL_APP, position.group)
    sequence = entry.transactions.get(SEQUENCE_APP, position.sequence)
    _check_rows(path, entry.changed, _Position(group, sequence), position, findings)
    position.group, position.sequence = group, sequence


def _check_rows(
    path: str,
    added: tuple[AddedFile, ...],
    after: _Position,
    before: _Position,
    findings: Findings,
) -> None:
    """Check that an entry adds rows between its positions before and after: whole groups, once."""
    for name, low_of, past in (("group", before.group, 1), ("sequence", before.sequence, 0)):
        high_of = after.group if name == "group" else after.sequence
        if low_of is None or high_of is None:
            continue
        if high_of < low_of:
            findings.problem(
                f"the entry {path} takes the {name} back from {low_of} to {high_of}: two programs "
                "wrote to this table. Stop the other one, and restore the table from a copy"
            )
            return
        for file in added:
            low, high = file.low, file.high
            if name == "group":
                low, high = file.group_low, file.group_high
            if low is None or high is None:
                continue
            if low < low_of + past or high >= high_of + past:
                findings.problem(
                    f"the entry {path} adds rows of {name}s {low} to {high}, but it goes from "
                    f"{low_of} to {high_of}: a group is in two commits, or in none. "
                    "Restore the table from a copy"
                )
