"""The files that a backup reads, in which order, and which of them must be copied.

The order of reading makes the copy a state that a crash could have left:

1. `cursors`, then Spark's other tables: these have everything that a cursor refers to.
2. The journal. Every group that was accepted before is in it, or was in the table before it was
   removed from the journal.
3. `topic_log` at its newest version. It has every group that was removed from the journal until
   then, and everything that Spark had read. Later versions are ignored.

Rule 1: a segment that is used again while it is read is left out: the table, which is pinned
        later, has all of its groups.
Rule 2: a segment whose groups the pinned table has is left out, too.
Rule 3: a data file never changes under its name, so a file in the former backup isn't read again,
        if its pieces have their sizes: a copy of the folder may have cut some. Other files are read
        each time; only their new pieces are written.
Rule 4: a folder holds backups of one log as it continues, never of another log or of a fork.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from distributary.pipeline.backup.backup_manifest import (
    PIECE_BYTES,
    BackedFile,
    BackupManifest,
)
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log.log_identity import LogIdentity

#: The tables whose order matters; each other table comes between them.
FIRST_TABLE: Final = "cursors"
LAST_TABLE: Final = "topic_log"

_ENTRY: Final = re.compile(r"(\d{20})\.json")
_CHECKPOINT: Final = re.compile(r"(\d{20})\.checkpoint.*\.parquet")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of the home. `fixed`: its bytes never change under its name."""

    path: str
    size: int
    fixed: bool


@dataclass(frozen=True, slots=True)
class SegmentGroups:
    """The groups of one segment of the journal, whose file is `path`: from `first` to before `end`;
    `next_sequence` is the first sequence after them, None if it has no message."""

    path: str
    first: int
    end: int
    next_sequence: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """The work for a list of files: `kept` are as the former backup has them, `copied` are read."""

    kept: tuple[BackedFile, ...]
    copied: tuple[SourceFile, ...]

    @property
    def copied_bytes(self) -> int:
        return sum(file.size for file in self.copied)


def order_of_tables(names: Iterable[str]) -> list[str]:
    """Return the order in which tables are pinned."""
    return sorted(names, key=lambda name: (name == LAST_TABLE, name != FIRST_TABLE, name))


def work(
    sources: Iterable[SourceFile], known: Mapping[str, BackedFile], present: Mapping[str, int]
) -> Work:
    """Choose the files to read. `known` are files of the former backup by path, `present` the
    sizes of the pieces in the folder: a file with a piece of another size is read again."""
    kept: list[BackedFile] = []
    copied: list[SourceFile] = []
    for source in sources:
        one = known.get(source.path)
        same = one is not None and source.fixed and one.size == source.size
        if one is not None and same and _is_whole(one, present):
            kept.append(one)
        else:
            copied.append(source)
    return Work(tuple(kept), tuple(copied))


def _is_whole(file: BackedFile, present: Mapping[str, int]) -> bool:
    sizes = (min(PIECE_BYTES, file.size - at) for at in range(0, file.size, PIECE_BYTES))
    return [present.get(piece) for piece in file.pieces] == list(sizes)


def log_of_version(names: Iterable[str], version: int, pointed: int | None) -> list[str] | None:
    """Return the files of a table's `_delta_log` that make up a version: a checkpoint and the
    entries from there on. None when some of them are gone, so that it must be read again.

    `pointed` is the checkpoint that the table's pointer named before the version was read: it is
    taken, so that the pointer can be copied as well, even if newer ones appear. Without a pointer
    the entries alone do if all are there, else the newest checkpoint is taken.
    """
    names = list(names)
    entries = {int(found[1]): name for name in names if (found := _ENTRY.fullmatch(name))}
    points = [
        (int(found[1]), name)
        for name in names
        if (found := _CHECKPOINT.fullmatch(name)) and int(found[1]) <= version
    ]
    base = pointed
    if base is None:
        whole = entries.keys() >= set(range(version + 1))
        base = -1 if whole else max((at for at, _ in points), default=-1)
    taken = [name for at, name in sorted(points) if at == base]
    due = range(max(base, 0), version + 1)
    if any(at not in entries for at in due) or (base >= 0 and not taken):
        return None
    return [*taken, *(entries[at] for at in due)]


def segments_of(segments: Sequence[SegmentGroups], group: int) -> list[SegmentGroups] | None:
    """Return the segments that a table which ends with `group` needs beside it, in order; None when
    groups between the two are missing, so that all must be read again."""
    later = (one for one in segments if one.first < one.end and one.end - 1 > group)
    needed = sorted(later, key=lambda one: one.first)
    if needed and needed[0].first > group + 1:
        return None
    if any(former.end != later.first for former, later in pairwise(needed)):
        return None
    return needed


def standing(segments: Sequence[SegmentGroups], group: int) -> list[SegmentGroups]:
    """Return the entries of a journal of objects behind the table's last group, up to the first
    gap. Several are put at a time and accepted in order, so entries behind a gap were never
    accepted."""
    found: list[SegmentGroups] = []
    for one in sorted(segments, key=lambda one: one.first):
        if one.first == group + len(found) + 1:
            found.append(one)
    return found


def require_same_log(former: LogIdentity, now: LogIdentity, entry: str | None, where: str) -> None:
    """Raise InvalidRequest unless the log of `now` is the one that was backed up before, and has
    continued from there. `entry` is the digest of the former version's entry there, None if it was
    cleaned up."""
    if former.table != now.table:
        why = "another home"
    elif now.version < former.version:
        why = f"this log as of version {former.version}, and the home has only {now.version}"
    elif entry is not None and entry != former.entry:
        why = "a copy of this home that went on by itself"
    else:
        return
    raise InvalidRequest(
        f"{where} has a backup of {why}. Nothing was changed there; name another folder"
    )


def unneeded(present: Iterable[str], manifest: BackupManifest) -> list[str]:
    """Return the pieces that the newest backup doesn't need."""
    return sorted(set(present) - manifest.pieces)
