"""Bytes changed by hand while no gateway runs: frames of the journal, and what crashes leave."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from distributary.pipeline.tables.journal import frame, segment
from distributary.pipeline.tables.journal.segment import FrameRef

#: Where each part of a frame's header begins; the body's parts depend on what is in it.
HEADER_PARTS = {
    "magic": 0,
    "version": 4,
    "group": 8,
    "first sequence": 16,
    "time": 24,
    "count of messages": 32,
    "length of the records": 36,
    "length of the body": 40,
    "reserved": 48,
    "checksum of the body": 56,
    "checksum of the header": 60,
}


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it lies in its segment's file."""

    path: Path
    ref: FrameRef
    header: frame.FrameHeader

    @property
    def parts(self) -> dict[str, int]:
        """Each class of bytes that a frame is made of, by the offset in its file of one of it."""
        at = self.ref.offset
        found = {name: at + offset for name, offset in HEADER_PARTS.items()}
        records = at + frame.HEADER_BYTES
        end = records + self.header.body_bytes
        found["records"] = records + self.header.records_bytes // 2
        if self.header.count:
            found["lengths"] = records + (self.header.records_bytes + 7) // 8 * 8
            found["messages"] = end - 1
        if end < at + self.ref.size:
            found["padding"] = end
        return found


def frames(home: Path) -> list[Frame]:
    """The whole frames of the journal, in order."""
    found: list[Frame] = []
    for path in sorted((home / "journal").glob("*.journal")):
        data = path.read_bytes()
        for ref in _scan(path):
            header = frame.read_header(data[ref.offset : ref.offset + frame.HEADER_BYTES])
            assert header is not None
            found.append(Frame(path, ref, header))
    return sorted(found, key=lambda one: one.ref.group)


def _scan(path: Path) -> tuple[FrameRef, ...]:
    found = segment.scan(path, access=os.O_RDONLY)
    os.close(found.segment.fd)
    return found.frames


def flip(path: Path, at: int, bit: int = 0) -> None:
    """Turn one bit of a file over; a second time turns it back."""
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << bit)]))


def digest(home: Path) -> dict[str, str]:
    """Every file of a home and its contents; but not its lock, which says who was there."""
    return {
        str(path.relative_to(home)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(home.rglob("*"))
        if path.is_file() and not path.name.startswith("lock")
    }


def newest_version(home: Path) -> int:
    """The highest version that the log of topic_log has an entry for."""
    return max(int(path.stem) for path in _log(home).glob("[0-9]*.json"))


def leave_temporary_files(home: Path) -> list[Path]:
    """Leave the temporary files that a crash may leave at every place where files are made, some of
    them garbage."""
    log = _log(home)
    entry = (log / f"{newest_version(home):020d}.json").read_bytes()
    days = list(log.parent.glob("record=*/day=*"))
    left = {
        log / f".{newest_version(home) + 1:020d}.abcd.json.tmp": entry[: len(entry) // 2],
        log / f".{newest_version(home):020d}.abcd.json.tmp": entry,
        log / f".{newest_version(home) + 7:020d}.json.tmp": b"",
        log / "._last_checkpoint.abcd.tmp": b'{"ver',
        home / "journal" / "99999990.spare": b"too short",
        home / "journal" / "99999991.spare": b"",
        **{day / "t0-00000000-dead-beef-0000-000000000000.parquet": b"PAR1torn" for day in days},
        **{day / "t1-00000000-dead-beef-0000-000000000001.parquet": b"" for day in days},
    }
    for path, data in left.items():
        path.write_bytes(data)
    return list(left)


def _log(home: Path) -> Path:
    return home / "tables" / "topic_log" / "_delta_log"
