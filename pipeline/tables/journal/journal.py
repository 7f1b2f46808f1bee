"""The journal: it makes `accepted` true before the table has the message.

Groups lie as frames in numbered segments, dense and in order. An append is one write and one
fdatasync. Committed groups are recycled: whole segments become spare files for the next ones.
Threads: `append` on one thread at a time; `frames`, `read`, `recycle`, `prepare` on the committer
thread alone; `backlog_bytes`, `last_group` and `dead` on any; `open` and `close` while neither
thread runs. The caller owns the home; an append checks that after its fdatasync, so a group that is
reported durable was durable before another owner took over and read the files.
"""

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Self

import msgspec

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.errors import HomeLost, JournalFull, StoreError
from distributary.pipeline.tables.journal import frame, segment
from distributary.pipeline.tables.journal.segment import FrameRef, Segment, Spare

#: At 90 MB/s, the most that one core publishes, a segment lasts two thirds of a second.
SEGMENT_BYTES = 64 << 20
#: Spare files that are kept; a second's commits may give back more, which are unlinked.
SPARES_MAX = 2


class Cut(msgspec.Struct, frozen=True):
    """A torn frame at the journal's end that was cut: it was never reported durable."""

    path: Path
    offset: int
    group: int


class Opened(msgspec.Struct, frozen=True):
    """The result of opening a journal. `strays` were written by an owner that had lost the home."""

    segments: int
    frames: int
    bytes: int
    cut: Cut | None
    strays: tuple[Path, ...] = ()


def _always() -> None:
    """Do nothing: no other process can take this home."""


class Journal:
    """The open journal of one home. The module's docstring has the thread of each method."""

    def __init__(
        self, directory: Path, segment_bytes: int, *, adopt: bool, owned: Callable[[], None]
    ) -> None:
        self._directory = directory
        self._segment_bytes = segment_bytes
        self._adopt, self._owned = adopt, owned
        self._making = threading.Lock()  # a thread that needs a spare waits until it is made
        self._names = threading.Lock()  # the system reports a failed sync once: no other may follow
        self._lock = threading.Lock()  # guards the fields below; never held during I/O
        self._live: list[Segment] = []  # ascending; the last one is written
        self._spares: list[Spare] = []
        self._frames: deque[FrameRef] = deque()  # not recycled, ascending
        #: Bytes of frames that aren't recycled: the committer hasn't taken them in yet.
        self.backlog_bytes = 0
        self._number = 0  # the highest number that a file has or had
        self._read: list[Path] = []  # every file of the journal when it was opened
        self.dead: str | None = None  #: why nothing is appended or recycled until a restart
        self.opened = Opened(0, 0, 0, None)

    @classmethod
    def open(
        cls,
        directory: Path,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        epoch: int = 0,
        adopt: bool = True,
        owned: Callable[[], None] = _always,
    ) -> Self:
        """Read the journal, cut a torn end, and adopt spare files; the result is in `opened`.

        Raises JournalBroken for damage before the end and JournalVersion for another format. The
        caller commits the groups that the table lacks, then calls `recycle` with the table's last
        group: until then, frames that the table has are still here. Without `adopt`, another
        process may have the files open: they are only read, and the caller calls `clear` when the
        table has all groups; new files are of a new generation, no lower than the owner's `epoch`
        even where no old file tells its generation, so that no name comes twice. `owned` raises
        HomeLost when the home is no longer ours.
        """
        if segment_bytes < segment.FRAMES_START + frame.HEADER_BYTES:
            raise StoreError(f"segment_bytes = {segment_bytes} is too small for any frame")
        directory.mkdir(parents=True, exist_ok=True)
        segment.sync_directory(directory.parent)
        journal = cls(directory, segment_bytes, adopt=adopt, owned=owned)
        try:
            journal._read_all(epoch)
            if adopt:
                journal._adopt_spares()
        except BaseException:
            journal.close()
            raise
        return journal

    def close(self) -> None:
        """Close every file. Appended groups stay."""
        with self._lock:
            for fd in [live.fd for live in self._live] + [spare.fd for spare in self._spares]:
                with suppress(OSError):
                    os.close(fd)
            self._live.clear()
            self._spares.clear()

    @property
    def last_group(self) -> int | None:
        """The last durable group in the journal; None when it has no segment."""
        with self._lock:
            return self._live[-1].next_group - 1 if self._live else None

    # The appending thread

    def fits(self, size: int) -> bool:
        """Whether a frame of `size` bytes needs no new segment. Between appends only."""
        return bool(self._live) and self._live[-1].end + size <= self._live[-1].size

    def append(self, parts: Sequence[Bytes]) -> FrameRef:
        """Make one encoded group durable. When it returns, the group survives a power cut.

        Groups come in order, each one above the last. After JournalFull nothing has changed and
        the same append may be tried again. After any other StoreError the journal is dead: the
        disk's content is unknown until a restart reads it.
        """
        self._refuse_dead()
        header = frame.read_header(parts[0])
        if header is None or sum(map(len, parts)) != header.size:
            raise StoreError("the bytes given to the journal are no frame")
        try:
            target = self._room(header)
            self._write(target, parts, header)
        except OSError as error:
            if segment.full(error):
                raise JournalFull(
                    f"no space in {self._directory} for group {header.group}: {error.strerror}"
                ) from error
            raise self._die(f"group {header.group} can't be written", error) from error
        try:
            os.fdatasync(target.fd)
        except OSError as error:
            raise self._die(f"fdatasync of group {header.group} failed", error) from error
        try:
            self._owned()
        except HomeLost as error:
            self.dead = str(error)
            raise
        return self._added(target, header)

    def _write(self, target: Segment, parts: Sequence[Bytes], header: frame.FrameHeader) -> None:
        whole = [target.seal(parts), *parts[1:]]
        if target.end + header.size < target.size:
            whole.append(segment.END_MARK)
        segment.write_all(target.fd, whole, target.end)

    def _added(self, target: Segment, header: frame.FrameHeader) -> FrameRef:
        ref = FrameRef(header.group, target.number, target.end, header.size)
        with self._lock:
            target.end += header.size
            target.next_group = header.group + 1
            self._frames.append(ref)
            self.backlog_bytes += header.size
        return ref

    def _refuse_dead(self) -> None:
        if self.dead is not None:
            raise StoreError(self.dead)

    def _die(self, what: str, error: OSError) -> StoreError:
        self.dead = (
            f"the journal in {self._directory} stopped: {what} ({error.strerror}). Nothing more "
            "is accepted; see to the disk and start again"
        )
        return StoreError(self.dead)

    def _room(self, header: frame.FrameHeader) -> Segment:
        """Return the segment for the frame: the active one, or a new one when it doesn't fit."""
        active = self._live[-1] if self._live else None
        if active is not None and active.next_group != header.group:
            raise StoreError(
                f"the journal goes on with group {active.next_group}, not with {header.group}"
            )
        if active is not None and active.end + header.size <= active.size:
            return active
        self._owned()  # names change from here on; another owner knows its files by them
        if active is not None and active.empty:
            self._retire([active])
        return self._begin(self._take_spare(segment.FRAMES_START + header.size), header.group)

    def _begin(self, spare: Spare, first_group: int) -> Segment:
        number = self._next_number()
        with self._names:
            self._refuse_dead()
            try:
                new = segment.begin(spare.path, spare.fd, number=number, first_group=first_group)
            except OSError as error:
                with self._lock:
                    self._spares.append(spare)
                if segment.full(error):
                    raise
                raise self._die(f"group {first_group} can't be written", error) from error
            with self._lock:
                self._live.append(new)
            self._sync_names()
        return new

    def _take_spare(self, needed: int) -> Spare:
        with self._making:
            with self._lock:
                for spare in self._spares:
                    if needed <= spare.size:
                        self._spares.remove(spare)
                        return spare
            return self._make_spare(max(needed, self._segment_bytes))

    def _make_spare(self, size: int) -> Spare:
        path = self._directory / f"{self._next_number():08d}{segment.SPARE_SUFFIX}"
        return Spare(path, segment.make_spare(path, size), size)

    def _next_number(self) -> int:
        with self._lock:
            self._number += 1
            return self._number

    # The committer thread

    def frames(self) -> tuple[FrameRef, ...]:
        """Return the frames that aren't recycled, in order. After `open`: all in the files."""
        with self._lock:
            return tuple(self._frames)

    def read(self, refs: Sequence[FrameRef]) -> list[memoryview]:
        """Read the frames' bytes. Adjacent frames are read together and share one buffer.

        The caller limits the memory by its choice of frames, none of which may be recycled.
        """
        views: list[memoryview] = []
        for stretch in segment.stretches(refs):
            live = self._holding(stretch[0])
            views += segment.read_frames(live.path, live.fd, stretch)
        return views

    def places(self, refs: Sequence[FrameRef]) -> list[tuple[Path, Sequence[FrameRef]]]:
        """Return the files with these frames, for a process that reads them by itself; it must
        finish before they are recycled."""
        return [(self._holding(one[0]).path, one) for one in segment.stretches(refs)]

    def _holding(self, ref: FrameRef) -> Segment:
        with self._lock:
            found = [live for live in self._live if live.number == ref.segment]
        if not found:
            raise StoreError(f"group {ref.group} was recycled, it can't be read")
        return found[0]

    def recycle(self, through_group: int) -> None:
        """Give back every group up to this one, which the table holds durably.

        Segments without later groups become spares or are unlinked; the active one stays, unless
        the table is ahead of it, since its end was damaged and cut: then the next group goes to a
        new one. Work that a full disk prevents is left to the next call. After a StoreError the
        journal is dead.
        """
        with self._lock:
            while self._frames and self._frames[0].group <= through_group:
                self.backlog_bytes -= self._frames.popleft().size
            done = [s for s in self._live[:-1] if s.next_group - 1 <= through_group]
            done += [s for s in self._live[-1:] if s.next_group <= through_group]
        self._owned()
        if done:
            self._give_back(done)

    def _give_back(self, done: Iterable[Segment]) -> None:
        with self._names:
            self._refuse_dead()
            try:
                self._retire(done)
            except OSError as error:
                if not segment.full(error):
                    raise self._die("a segment can't be given back", error) from error
            self._sync_names()

    def _sync_names(self) -> None:
        try:
            segment.sync_directory(self._directory)
        except OSError as error:  # a full disk, too: which names are durable is unknown
            raise self._die("fsync of the folder failed", error) from error

    def _retire(self, done: Iterable[Segment]) -> None:
        """Retire segments, oldest first, so that a crash in between leaves a dense chain."""
        for old in done:
            with self._lock:
                keep = len(self._spares) < SPARES_MAX and old.size == self._segment_bytes
            path = old.path.with_suffix(segment.SPARE_SUFFIX)
            if keep:
                old.path.rename(path)
            else:
                old.path.unlink()
            with self._lock:
                self._live.remove(old)
                if keep:
                    self._spares.append(Spare(path, old.fd, old.size))
            if not keep:
                os.close(old.fd)

    def leave(self) -> None:
        """Do nothing: the remaining work is little."""

    def prepare(self) -> None:
        """Make a spare if there is none and the disk has room. After a StoreError it's dead."""
        with self._making:
            with self._lock:
                if self._spares:
                    return
            self._owned()
            try:
                spare = self._make_spare(self._segment_bytes)
            except JournalFull:
                return
            except OSError as error:
                raise self._die("no new segment can be made", error) from error
            with self._lock:
                self._spares.append(spare)

    def clear(self) -> None:
        """Unlink every file that was there at `open`: the table has all groups. The next append
        begins a new file. Raises HomeLost. Files of a later owner aren't among these names, so it
        is safe even if this process has just lost the home."""
        self.close()
        self._owned()
        with self._lock:
            self._frames.clear()
            self.backlog_bytes = 0
        for path in self._read:
            path.unlink(missing_ok=True)
        segment.sync_directory(self._directory)

    # Opening

    def _read_all(self, epoch: int) -> None:
        """Scan the segments in order and check that each continues where the former ends."""
        self._read = segment.paths(self._directory)
        paths, strays = segment.live_paths(self._read)
        found: list[segment.Found] = []
        for path in paths:
            try:
                found.append(segment.scan(path))
            except FileNotFoundError:
                if self._adopt:
                    raise
                continue  # the former owner still lives and has recycled it: the table has it
            self._live.append(found[-1].segment)
        found.sort(key=lambda one: (one.segment.first_group, one.segment.number))
        self._live = [one.segment for one in found]
        for former, later in pairwise(self._live):
            if former.next_group != later.first_group:
                raise segment.broken_chain(former, later)
        self._frames = deque(ref for one in found for ref in one.frames)
        self.backlog_bytes = sum(ref.size for ref in self._frames)
        self._number = max((live.number for live in self._live), default=0)
        newest = max(map(segment.generation, self._read), default=0)
        if not self._adopt:
            self._number = max(newest + 1, epoch) * segment.GENERATION_SEGMENTS
        elif not self._read:
            self._number = epoch * segment.GENERATION_SEGMENTS
        cut = self._cut_end() if found and found[-1].torn else None
        self.opened = Opened(len(found), len(self._frames), self.backlog_bytes, cut, tuple(strays))

    def _cut_end(self) -> Cut:
        last = self._live[-1]
        if self._adopt:
            segment.cut_torn(last)
        return Cut(last.path, last.end, last.next_group)

    def _adopt_spares(self) -> None:
        """Keep spares of this size and generation, unlink others: a former owner may write them."""
        self._owned()  # so no file in `_read` is a later owner's
        for stray in self.opened.strays:
            stray.unlink()
        now = max(map(segment.generation, self._read), default=0)
        for path in [path for path in self._read if path.suffix == segment.SPARE_SUFFIX]:
            self._number = max(self._number, int(path.stem))
            size, old = path.stat().st_size, segment.generation(path) != now
            if old or size != self._segment_bytes or len(self._spares) >= SPARES_MAX:
                path.unlink()
                continue
            self._spares.append(Spare(path, os.open(path, os.O_RDWR | os.O_CLOEXEC), size))
