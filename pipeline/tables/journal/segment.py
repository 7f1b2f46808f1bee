"""One file of the journal: its header block, how it is made, and what stands in it after a crash.

A segment is written from its first byte to its last, then read, then reused under a new number.
Each life has a salt of its own, which is part of every frame's header checksum: what a former
life, or a message that imitates a frame, left behind is never taken for a frame of this life.

The file is written full of zeros before its first life. Measured on ext4: fdatasync of 64 KiB
into space that is merely allocated takes 0.22 ms, as it must also commit that the space is now
in use; into space written before 0.13 ms. Writing 64 MiB of zeros takes 50 ms, once.
"""

import errno
import mmap
import os
import struct
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.errors import JournalBroken, JournalFull, JournalVersion, StoreError
from distributary.pipeline.tables.journal import frame

VERSION = 1
MAGIC = b"DSTRJRNL"
#: magic, version, crc of all that follows, number, first group, salt, size of the file.
HEADER = struct.Struct("<8sII QQ8sQ")
#: Frames begin here: the header has a block of the disk to itself.
FRAMES_START = 4096
SALT_BYTES = 8
LIVE_SUFFIX = ".journal"
SPARE_SUFFIX = ".spare"
#: A file is named by its number, which says first in which generation it was made. Whoever takes a
#: home over from an owner that may still live begins a new generation, so that the two can't meet
#: in one file or under one name.
GENERATION_SEGMENTS = 100_000_000

_CRC_AT = 12
_BODY_AT = 16
_FRAME_CRC_AT = frame.HEADER_BYTES - 8
#: Buffers that one system call takes.
_IOV_MAX = os.sysconf("SC_IOV_MAX")
_ZERO_CHUNK = bytes(1 << 20)
#: What the system says when there is no room: disk, quota, limit of a file's size.
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FrameRef(msgspec.Struct, frozen=True):
    """Where one frame lies: `size` bytes at `offset` of the segment with that number."""

    group: int
    segment: int
    offset: int
    size: int


#: Written behind each frame, where the next header goes: what isn't zero there was begun.
END_MARK = bytes(frame.HEADER_BYTES)


class Segment(msgspec.Struct):
    """One open segment. `end` is where the next frame goes; `next_group` the one it will hold;
    `salt_crc` what the checksums of its frames' headers begin with."""

    path: Path
    fd: int
    number: int
    size: int
    first_group: int
    next_group: int
    salt: bytes
    end: int = FRAMES_START
    salt_crc: int = 0

    def __post_init__(self) -> None:
        self.salt_crc = zlib.crc32(self.salt)

    @property
    def empty(self) -> bool:
        return self.end == FRAMES_START

    def seal(self, parts: Sequence[Bytes]) -> bytes:
        """The header of the frame in `parts`, with the checksums that are right in this life."""
        body_crc = 0
        for part in parts[1:]:
            body_crc = zlib.crc32(part, body_crc)
        start = bytes(parts[0][:_FRAME_CRC_AT]) + body_crc.to_bytes(4, "little")
        return start + zlib.crc32(start, self.salt_crc).to_bytes(4, "little")


class Spare(msgspec.Struct, frozen=True):
    """A file without a life, ready to become a segment."""

    path: Path
    fd: int
    size: int


class Found(msgspec.Struct, frozen=True):
    """What a scan found: the frames that are whole, and whether a torn one follows them."""

    segment: Segment
    frames: tuple[FrameRef, ...]
    torn: bool


def full(error: OSError) -> bool:
    """Whether the error says that there is no room, so that the same may work later."""
    return error.errno in _NO_SPACE


def make_spare(path: Path, size: int) -> int:
    """A file of `size` zeros that are on the disk, as a file descriptor; an error leaves none.

    The caller makes the name durable when it gives the file a life. Raises JournalFull, or OSError
    for what is no matter of space.
    """
    fd = -1
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        os.posix_fallocate(fd, 0, size)
        for at in range(0, size, len(_ZERO_CHUNK)):
            write_all(fd, [memoryview(_ZERO_CHUNK)[: size - at]], at)
        os.fsync(fd)
    except OSError as error:
        if fd >= 0:
            os.close(fd)
            path.unlink()
        if full(error):
            raise JournalFull(
                f"no space for a journal segment of {size} bytes in {path.parent}: "
                f"{os.strerror(error.errno or 0)}; free some, it is tried again"
            ) from error
        raise
    return fd


def begin(path: Path, fd: int, *, number: int, first_group: int) -> Segment:
    """A new life for a spare file: header durable first, then its name among the live ones.

    The folder is synced here, so that a frame is never durable in a file that has no name.
    """
    size = os.fstat(fd).st_size
    salt = os.urandom(SALT_BYTES)
    body = HEADER.pack(MAGIC, VERSION, 0, number, first_group, salt, size)[_BODY_AT:]
    head = HEADER.pack(MAGIC, VERSION, zlib.crc32(body), number, first_group, salt, size)
    write_all(fd, [head, bytes(FRAMES_START - len(head)), END_MARK], 0)
    os.fdatasync(fd)
    live = path.with_name(f"{number:08d}{LIVE_SUFFIX}")
    path.rename(live)
    sync_directory(live.parent)
    return Segment(live, fd, number, size, first_group, first_group, salt)


def write_all(fd: int, parts: Sequence[Bytes], at: int) -> None:
    """Write every byte of the parts at `at`, however little the system takes at once."""
    for i in range(0, len(parts), _IOV_MAX):
        some = parts[i : i + _IOV_MAX]
        size = sum(map(len, some))
        done = os.pwritev(fd, some, at)
        if done < size:
            rest = memoryview(b"".join(some))
            while done < size:
                done += os.pwrite(fd, rest[done:], at + done)
        at += size


def read_frames(path: Path, fd: int, refs: Sequence[FrameRef]) -> list[memoryview]:
    """The bytes of frames that lie side by side in one file: views of one buffer. Raises StoreError
    where another group lies."""
    first = refs[0]
    size = refs[-1].offset + refs[-1].size - first.offset
    data = memoryview(read_all(fd, size, first.offset))
    views = [data[r.offset - first.offset :][: r.size] for r in refs]
    for ref, view in zip(refs, views, strict=True):
        header = frame.read_header(view)
        if header is None or header.group != ref.group:
            raise StoreError(f"{path} holds no group {ref.group} at {ref.offset}")
    return views


def read_all(fd: int, size: int, at: int) -> bytes:
    """Exactly `size` bytes at `at`; a file that ends before is damaged."""
    data = os.pread(fd, size, at)
    while len(data) < size:  # the system gives at most 2 GiB at once
        more = os.pread(fd, size - len(data), at + len(data))
        if not more:
            raise StoreError(f"a journal segment ends at {at + len(data)}, {size} bytes are due")
        data += more
    return data


def stretches(refs: Sequence[FrameRef]) -> list[Sequence[FrameRef]]:
    """The refs cut where one doesn't begin at the end of the one before."""
    cuts = [0]
    for i in range(1, len(refs)):
        before, ref = refs[i - 1], refs[i]
        if ref.segment != before.segment or ref.offset != before.offset + before.size:
            cuts.append(i)
    return [refs[a:b] for a, b in zip(cuts, [*cuts[1:], len(refs)], strict=True) if a < b]


def sync_directory(directory: Path) -> None:
    """Make the names in a folder durable."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def generation(path: Path) -> int:
    """In which generation a journal's file was made, by its name."""
    return int(path.stem) // GENERATION_SEGMENTS if path.stem.isdigit() else 0


def paths(directory: Path) -> list[Path]:
    """Every file of a journal: segments and spares."""
    return sorted(p for p in directory.iterdir() if p.suffix in (LIVE_SUFFIX, SPARE_SUFFIX))


def live_paths(all_of_it: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Of a journal's files the segments of the newest generation, and those of older ones, which
    count no more.

    A generation begins when the table has all that the older ones were accepted with, and their
    files are gone. What stands there again was written by an owner that had lost the home: nothing
    of it was accepted.
    """
    newest = max(map(generation, all_of_it), default=0)
    live = [path for path in all_of_it if path.suffix == LIVE_SUFFIX]
    counting = [path for path in live if generation(path) == newest]
    return counting, [path for path in live if generation(path) != newest]


def scan(path: Path, *, access: int = os.O_RDWR) -> Found:
    """Open a live segment and read it to its end; the caller closes it.

    The end is where no whole frame of the expected group begins. If a header of a later group
    of this life stands behind it, the damage is in the middle: a later frame is begun only when
    the one before is durable.
    """
    fd = os.open(path, access | os.O_CLOEXEC)
    try:
        with mmap.mmap(fd, _size(path, fd), prot=mmap.PROT_READ) as data:
            segment = _read_header(path, fd, data)
            refs = _read_frames(segment, data)
            torn = _torn_at(segment, data)
            _refuse_broken_middle(segment, data)
    except BaseException:
        os.close(fd)
        raise
    return Found(segment, tuple(refs), torn)


def cut_torn(segment: Segment) -> None:
    """Write the end's mark where a frame was begun that didn't come to be whole; durable on
    return. Never called on anything but the last segment."""
    mark = END_MARK[: segment.size - segment.end]
    write_all(segment.fd, [mark], segment.end)
    os.fdatasync(segment.fd)


def _size(path: Path, fd: int) -> int:
    size = os.fstat(fd).st_size
    if size < FRAMES_START:
        raise JournalBroken(_broken(path, 0, "the file is shorter than its header"))
    return size


def versions(directory: Path) -> dict[Path, int]:
    """Of each segment that counts the version that its header says; damaged ones aren't among them,
    nor those that go meanwhile."""
    found = {}
    for path in live_paths(paths(directory))[0] if directory.is_dir() else ():
        with suppress(FileNotFoundError), path.open("rb") as file:
            head = file.read(_CRC_AT)
            if head.startswith(MAGIC) and len(head) == _CRC_AT:
                found[path] = int.from_bytes(head[len(MAGIC) :], "little")
    return found


def refuse_other_versions(directory: Path) -> None:
    """Raise JournalVersion if a segment that counts is of another version than ours. A start asks
    this before it changes anything: only the version that wrote a journal can empty it."""
    for path, version in versions(directory).items():
        _require_version(path, version)


def _require_version(path: Path, version: int) -> None:
    if version != VERSION:
        raise JournalVersion(
            f"{path} is a journal of version {version}, this program reads version {VERSION}; "
            "start the version that wrote it once, so that it empties its journal"
        )


def _read_header(path: Path, fd: int, data: mmap.mmap) -> Segment:
    magic, version, crc, number, first_group, salt, size = HEADER.unpack_from(data)
    if magic == MAGIC:
        _require_version(path, version)
    if magic != MAGIC or crc != zlib.crc32(data[_BODY_AT : HEADER.size]):
        raise JournalBroken(_broken(path, 0, "the segment's header is damaged"))
    return Segment(path, fd, number, min(size, len(data)), first_group, first_group, salt)


def _read_frames(segment: Segment, data: mmap.mmap) -> list[FrameRef]:
    refs: list[FrameRef] = []
    with memoryview(data) as view:
        while header := _header_at(segment, view, segment.end):
            end = segment.end + header.size
            if header.group != segment.next_group or end > segment.size:
                break
            if _body_crc(view, segment.end, header.size) != header.body_crc:
                break
            refs.append(FrameRef(header.group, segment.number, segment.end, header.size))
            segment.end, segment.next_group = end, header.group + 1
    return refs


def _header_at(segment: Segment, view: memoryview, at: int) -> frame.FrameHeader | None:
    """The frame header at an offset, if it was written there in this life of the segment."""
    head = bytes(view[at : at + frame.HEADER_BYTES])
    if len(head) < frame.HEADER_BYTES or head[:4] != frame.MAGIC:
        return None
    if int.from_bytes(head[-4:], "little") != zlib.crc32(head[:-4], segment.salt_crc):
        return None
    version = int.from_bytes(head[4:8], "little")
    if version != frame.VERSION:
        raise JournalVersion(
            f"{segment.path} has a frame of version {version} at offset {at}, "
            f"this program reads version {frame.VERSION}"
        )
    return frame.read_header(head)


def _torn_at(segment: Segment, data: mmap.mmap) -> bool:
    """Whether a frame was begun at the end and didn't come to be whole."""
    mark = data[segment.end : min(segment.end + len(END_MARK), segment.size)]
    return any(mark)


def _refuse_broken_middle(segment: Segment, data: mmap.mmap) -> None:
    at = data.find(frame.MAGIC, segment.end + 1)
    with memoryview(data) as view:
        while at >= 0:
            header = None if at % frame.FRAME_ALIGN else _header_at(segment, view, at)
            if header is not None and header.group > segment.next_group:
                why = (
                    f"the frame of group {segment.next_group} is damaged, "
                    f"but group {header.group} stands behind it at offset {at}"
                )
                raise JournalBroken(_broken(segment.path, segment.end, why))
            at = data.find(frame.MAGIC, at + 1)


def _broken(path: Path, offset: int, why: str) -> str:
    return (
        f"{path} is broken at offset {offset}: {why}. Accepted messages would be lost by going "
        "on, so nothing was changed. Restore the file from a copy; or move the journal folder "
        "away, keep it, and start with what the tables hold"
    )


def broken_chain(segment: Segment, found: Segment) -> JournalBroken:
    """The error for a segment whose successor doesn't go on where it ends."""
    why = (
        f"group {segment.next_group} should follow, "
        f"but {found.path.name} begins with group {found.first_group}"
    )
    return JournalBroken(_broken(segment.path, segment.end, why))


def _body_crc(view: memoryview, at: int, size: int) -> int:
    return zlib.crc32(view[at + frame.HEADER_BYTES : at + size])
