"""One file of the journal: its header block, how it is made, and how it is read after a crash.

A segment is written from its first byte to its last, then read, then reused under a new number.
Each use has a salt of its own, which is part of every frame's header checksum: old frames of a
former use, or a message that imitates a frame, are never taken for frames of this use.

The file is written full of zeros before its first use. Measured on ext4: fdatasync of 64 KiB into
allocated but unwritten space takes 0.22 ms, as the file system must also record that the space is
in use; into written space 0.13 ms. Writing 64 MiB of zeros takes 50 ms, once.
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
#: magic, version, crc of the fields after it, number, first group, salt, size of the file.
HEADER = struct.Struct("<8sII QQ8sQ")
#: Frames begin here: the header has a block of the disk to itself.
FRAMES_START = 4096
SALT_BYTES = 8
LIVE_SUFFIX = ".journal"
SPARE_SUFFIX = ".spare"
#: A file is named by its number, which begins with its generation. An owner that takes a home over
#: from one that may still live begins a new generation, so that the two never share a file or a
#: name.
GENERATION_SEGMENTS = 100_000_000

_CRC_AT = 12
_BODY_AT = 16
_FRAME_CRC_AT = frame.HEADER_BYTES - 8
#: Buffers of one system call, at most.
_IOV_MAX = os.sysconf("SC_IOV_MAX")
_ZERO_CHUNK = bytes(1 << 20)
#: Errors for a lack of room: disk, quota, limit of a file's size.
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class FrameRef(msgspec.Struct, frozen=True):
    """The place of one frame: `size` bytes at `offset` of the segment with that number."""

    group: int
    segment: int
    offset: int
    size: int


#: Written behind each frame, in the place of the next header: other bytes there belong to a frame
#: whose write was begun.
END_MARK = bytes(frame.HEADER_BYTES)


class Segment(msgspec.Struct):
    """One open segment. `end` is the place of the next frame, `next_group` its group; `salt_crc`
    is the checksum of the salt, with which those of its frames' headers begin."""

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
        """Return the header of the frame in `parts`, with its checksums for this use."""
        body_crc = 0
        for part in parts[1:]:
            body_crc = zlib.crc32(part, body_crc)
        start = bytes(parts[0][:_FRAME_CRC_AT]) + body_crc.to_bytes(4, "little")
        return start + zlib.crc32(start, self.salt_crc).to_bytes(4, "little")


class Spare(msgspec.Struct, frozen=True):
    """A file that isn't in use, ready to become a segment."""

    path: Path
    fd: int
    size: int


class Found(msgspec.Struct, frozen=True):
    """The result of a scan: the whole frames, and whether a torn one follows them."""

    segment: Segment
    frames: tuple[FrameRef, ...]
    torn: bool


def full(error: OSError) -> bool:
    """Whether the error says that there is no room, so that a later attempt may succeed."""
    return error.errno in _NO_SPACE


def make_spare(path: Path, size: int) -> int:
    """Make a file of `size` zeros that are on the disk; return its file descriptor. After an error
    there is no file.

    `begin` makes its name durable later. Raises JournalFull, or OSError for other errors than a
    lack of room.
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
    """Begin a use of a spare file: make its header durable, then rename it to a live name.

    The caller syncs the folder before it writes a frame: none is durable in a file without a
    durable name. After an error the file has its old name.
    """
    size = os.fstat(fd).st_size
    salt = os.urandom(SALT_BYTES)
    body = HEADER.pack(MAGIC, VERSION, 0, number, first_group, salt, size)[_BODY_AT:]
    head = HEADER.pack(MAGIC, VERSION, zlib.crc32(body), number, first_group, salt, size)
    write_all(fd, [head, bytes(FRAMES_START - len(head)), END_MARK], 0)
    os.fdatasync(fd)
    live = path.with_name(f"{number:08d}{LIVE_SUFFIX}")
    path.rename(live)
    return Segment(live, fd, number, size, first_group, first_group, salt)


def write_all(fd: int, parts: Sequence[Bytes], at: int) -> None:
    """Write all bytes of the parts at `at`, in as many system calls as needed."""
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
    """Read frames that are adjacent in one file: views of one buffer. Raises StoreError where
    another group lies."""
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
    """Read exactly `size` bytes at `at`. Raises StoreError for a file that ends before."""
    data = os.pread(fd, size, at)
    while len(data) < size:  # one call returns 2 GiB at most
        more = os.pread(fd, size - len(data), at + len(data))
        if not more:
            raise StoreError(f"a journal segment ends at {at + len(data)}, {size} bytes are due")
        data += more
    return data


def stretches(refs: Sequence[FrameRef]) -> list[Sequence[FrameRef]]:
    """Split the refs where a frame doesn't begin at the end of the one before."""
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
    """Return the generation in which a journal's file was made, by its name."""
    return int(path.stem) // GENERATION_SEGMENTS if path.stem.isdigit() else 0


def paths(directory: Path) -> list[Path]:
    """Return every file of a journal: segments and spares."""
    return sorted(p for p in directory.iterdir() if p.suffix in (LIVE_SUFFIX, SPARE_SUFFIX))


def live_paths(all_of_it: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """Divide a journal's segments: those of the newest generation, and older ones, which no longer
    count.

    A generation begins when the table has all groups of the older ones and their files are removed.
    A segment of an older generation was therefore written by an owner that had lost the home: none
    of its groups was accepted.
    """
    newest = max(map(generation, all_of_it), default=0)
    live = [path for path in all_of_it if path.suffix == LIVE_SUFFIX]
    counting = [path for path in live if generation(path) == newest]
    return counting, [path for path in live if generation(path) != newest]


def scan(path: Path, *, access: int = os.O_RDWR) -> Found:
    """Open a live segment and read it to its end; the caller closes it.

    The end is where no whole frame of the expected group begins. If a header of a later group of
    this use follows, the damage is in the middle (JournalBroken): a frame's write begins only after
    the frame before it is durable.
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
    """Write the end mark over a torn frame; durable on return. Only for the last segment."""
    mark = END_MARK[: segment.size - segment.end]
    write_all(segment.fd, [mark], segment.end)
    os.fdatasync(segment.fd)


def _size(path: Path, fd: int) -> int:
    size = os.fstat(fd).st_size
    if size < FRAMES_START:
        raise JournalBroken(_broken(path, 0, "the file is shorter than its header"))
    return size


def versions(directory: Path) -> dict[Path, int]:
    """Return the version in the header of each segment that counts, except damaged ones and those
    that are removed meanwhile."""
    found = {}
    for path in live_paths(paths(directory))[0] if directory.is_dir() else ():
        with suppress(FileNotFoundError), path.open("rb") as file:
            head = file.read(_CRC_AT)
            if head.startswith(MAGIC) and len(head) == _CRC_AT:
                found[path] = int.from_bytes(head[len(MAGIC) :], "little")
    return found


def refuse_other_versions(directory: Path) -> None:
    """Raise JournalVersion if a segment that counts has another version than ours. A start calls
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
    """Return the frame header at an offset, if it was written in this use of the segment."""
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
    """Whether a frame was begun at the end and isn't whole."""
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
                    f"but group {header.group} follows it at offset {at}"
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
    """Return the error for a segment whose successor doesn't continue where it ends."""
    why = (
        f"group {segment.next_group} should follow, "
        f"but {found.path.name} begins with group {found.first_group}"
    )
    return JournalBroken(_broken(segment.path, segment.end, why))


def _body_crc(view: memoryview, at: int, size: int) -> int:
    return zlib.crc32(view[at + frame.HEADER_BYTES : at + size])
