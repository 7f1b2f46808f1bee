"""The journal: whole frames, dense groups, and no contradiction to the table.

The journal is read before the table. At that moment the table has every group before the journal's
first one, and the table that is read later has at least those; in the other order, segments could
be removed whose groups the older table didn't have yet.
"""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from distributary.pipeline.errors import JournalBroken, JournalVersion, StoreError
from distributary.pipeline.tables.journal import frame, segment
from distributary.pipeline.tables.journal.journal import Cut
from distributary.pipeline.tables.topic_log.table_view import Replaced, TableView
from distributary.pipeline.tables.verify.check import Check, Findings, counted
from distributary.pipeline.tables.verify.verify_messages import GroupRows

NAME = "journal"
#: Attempts before damage is reported: a frame that is being written looks torn, and one that was
#: completed during the scan looks broken in the middle.
LOOKS = 5
LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class JournalFrame:
    """One whole frame: its group, its first sequence, its messages, its bytes."""

    group: int
    first: int
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class JournalView:
    """The journal at one moment. `torn` is a frame at its end that isn't whole; `strays` were
    written by an owner that had lost the home, and count for nothing. In a `lasting` journal the
    last group stays until a later one comes."""

    segments: int
    bytes: int
    frames: tuple[JournalFrame, ...]
    torn: Cut | None
    problems: tuple[str, ...] = ()
    strays: tuple[Path, ...] = ()
    lasting: bool = True

    def after(self, group: int) -> Sequence[JournalFrame]:
        """Return the frames of later groups."""
        return [one for one in self.frames if one.group > group]


def read_journal(directory: Path) -> JournalView:
    """Read the journal as it is. Damage that all attempts see is in `problems`."""
    for _ in range(LOOKS - 1):
        with suppress(JournalBroken, FileNotFoundError, Replaced):
            return _read(directory)
        time.sleep(LOOK_SECONDS)
    try:
        return _read(directory)
    except (JournalBroken, JournalVersion) as error:
        return JournalView(0, 0, (), None, (str(error),))
    except FileNotFoundError as error:
        raise Replaced(f"{error.filename} was replaced while it was read") from error


def _read(directory: Path) -> JournalView:
    if not directory.is_dir():
        return JournalView(0, 0, (), None)
    frames: dict[int, list[JournalFrame]] = {}
    found: list[segment.Found] = []
    try:
        paths, strays = segment.live_paths(segment.paths(directory))
        for path in paths:
            one = segment.scan(path, access=os.O_RDONLY)
            found.append(one)
            frames[one.segment.number] = [_frame(one.segment, ref) for ref in one.frames]
        _still_there(found)
    except JournalVersion as error:
        return JournalView(len(found), 0, (), None, (str(error),))
    finally:
        for one in found:
            os.close(one.segment.fd)
    found.sort(key=lambda one: (one.segment.first_group, one.segment.number))
    for former, later in pairwise(one.segment for one in found):
        if former.next_group != later.first_group:
            raise segment.broken_chain(former, later)
    last = found[-1].segment if found and found[-1].torn else None
    return JournalView(
        len(found),
        sum(one.segment.size for one in found),
        tuple(one for part in found for one in frames[part.segment.number]),
        Cut(last.path, last.end, last.next_group) if last else None,
        strays=tuple(strays),
    )


def _frame(of: segment.Segment, ref: segment.FrameRef) -> JournalFrame:
    """Decode the frame: its sections must fit each other, too."""
    view = memoryview(segment.read_all(of.fd, ref.size, ref.offset))
    header = frame.read_header(view)
    if header is None or header.group != ref.group:
        raise Replaced(f"{of.path} was used again while it was read")
    return decoded(
        view, f"{of.path} is broken at offset {ref.offset}: group {ref.group}", ref.group
    )


def decoded(view: memoryview, what: str, group: int) -> JournalFrame:
    """Decode a frame with right checksums; `what` begins the error's sentence."""
    try:
        found = frame.decode(view)
        if found.group != group:
            raise StoreError(f"it is group {found.group}")  # noqa: TRY301
        if np.frombuffer(found.lengths, np.uint32).sum() != len(found.blob):
            raise StoreError("the lengths of its messages don't fit its bytes")  # noqa: TRY301
    except StoreError as error:
        raise JournalBroken(
            f"{what} has right checksums but can't be decoded: {error}. Report this, and keep it"
        ) from error
    return JournalFrame(found.group, found.first_sequence, found.count, len(view))


def _still_there(found: Sequence[segment.Found]) -> None:
    """Check that every segment that was read still has its name and its salt."""
    for one in found:
        path, fd = one.segment.path, one.segment.fd
        head = os.pread(fd, segment.HEADER.size, 0)
        salt = segment.HEADER.unpack(head)[5]
        if salt != one.segment.salt or path.stat().st_ino != os.fstat(fd).st_ino:
            raise Replaced(f"{path} was used again while it was read")


def check_journal(
    view: JournalView,
    table: TableView | None,
    rows: GroupRows | None,
    *,
    later: JournalView | None = None,
) -> Check:
    """Check the journal by itself, and against the table and its rows if those were read.

    `later` is the journal read again, after a table that was ahead of `view`.
    """
    findings = Findings(list(view.problems))
    if view.torn is not None:
        findings.note(
            f"{view.torn.path} has a frame of group {view.torn.group} at offset "
            f"{view.torn.offset} that isn't whole: it was never accepted, or is being written "
            "now. The gateway cuts it when it starts, or --repair does"
        )
    for path in view.strays:
        findings.note(
            f"{path} was written by an owner that had lost the home; nothing in it was accepted, "
            "and the gateway removes it when it starts"
        )
    _check_dense(view, findings)
    waiting = len(view.frames)
    if table is not None and view.frames:
        _check_table(view, table, findings)
        _check_end(later or view, table, findings)
        waiting = len(view.after(table.state.group))
    if table is not None and rows is not None:
        _check_shared(view, table, rows, findings)
    words = counted(segments=view.segments, frames=len(view.frames))
    return findings.check(NAME, f"{words}, {waiting:,} not in the table yet")


def _check_dense(view: JournalView, findings: Findings) -> None:
    """Check that each frame's messages begin where those of the frame before end."""
    following: int | None = None
    for one in view.frames:
        if following is not None and one.count and one.first != following:
            findings.problem(
                f"group {one.group} of the journal begins with sequence {one.first}, but "
                f"{following} should follow: another home's segment was put here. Take it away"
            )
        if one.count or following is None:
            following = one.first + one.count


def _check_table(view: JournalView, table: TableView, findings: Findings) -> None:
    first, state = view.frames[0].group, table.state
    if first > state.group + 1:
        findings.problem(
            f"the table ends with group {state.group} but the journal begins with {first}: groups "
            "are missing. Was another home's journal or table put here?"
        )
        return
    for one in view.after(state.group):
        if one.count:
            if one.first != state.sequence:
                findings.problem(
                    f"group {one.group} of the journal begins with sequence {one.first}, but the "
                    f"table's next one is {state.sequence}. Was another home's journal or table "
                    "put here?"
                )
            return


def _check_end(view: JournalView, table: TableView, findings: Findings) -> None:
    """Note a journal that ends before the table: its last group should stay until a later one
    comes, so it lost its end, or is an older one."""
    group = table.state.group
    if view.lasting and view.frames and not view.problems and view.frames[-1].group < group:
        findings.note(
            f"the journal ends with group {view.frames[-1].group}, the table with {group}: its end "
            "was damaged, or an older journal was put here. The table has all of it, and the "
            "gateway begins a new segment when it starts"
        )


def _check_shared(view: JournalView, table: TableView, rows: GroupRows, findings: Findings) -> None:
    """Check that groups in both are equal, except for messages that retention has removed."""
    retained = table.state.first_sequence
    for one in view.frames:
        if one.group > table.state.group or not rows.first <= one.group <= rows.last:
            continue
        at = one.group - rows.first
        count = int(rows.counts[at])
        first = max(one.first, retained)
        due = max(one.first + one.count - first, 0)
        if count != due or (count and int(rows.firsts[at]) != first):
            findings.problem(
                f"group {one.group} has {one.count} messages from sequence {one.first} on in the "
                f"journal, but {count} from {int(rows.firsts[at]) if count else 'nowhere'} on in "
                f"{table.uri}. Was another home's journal or table put here?"
            )


def cut_torn(view: JournalView) -> Cut | None:
    """Cut the torn frame at the journal's end, as the gateway does when it starts.

    The caller holds the home's lock, and read the view while holding it.
    """
    if view.torn is None:
        return None
    found = segment.scan(view.torn.path)
    try:
        segment.cut_torn(found.segment)
    finally:
        os.close(found.segment.fd)
    return view.torn
