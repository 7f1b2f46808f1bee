"""One object of the journal: a group's frame, or the seal that closes a journal for good.

Each owner of a home has a journal of its own, named by the owner's *epoch*. Its entries are named
by their groups' numbers, so the name tells which group an entry may have. The next owner closes
that journal: it puts a *seal* at the first name that is free.

    magic    4 bytes
    version  uint32
    crc      uint32  of all that follows
    kind     uint32  1: a group, 2: a seal
    epoch    uint64  of the owner that put it
    group    uint64  the number in the name
    writer   16 bytes, random: of the process that put it
    frame    of a group (`pipeline.tables.journal.frame`), to the object's end

One writer puts one content under a name, however often. So a writer that reads an object back knows
whether the object is its own.
"""

import struct
import zlib
from collections.abc import Sequence
from enum import IntEnum
from typing import Final

import msgspec

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.errors import JournalBroken, JournalVersion

VERSION: Final = 1
MAGIC: Final = b"DENT"
HEADER: Final = struct.Struct("<4sIIIQQ16s")
WRITER_BYTES: Final = 16
_BODY_AT: Final = 12
#: Digits of an epoch and of a group in a name: lists are sorted by names.
_EPOCH_DIGITS: Final = 10
_GROUP_DIGITS: Final = 20
#: Bytes of a seal; a group's entry has a frame as well, so a list of sizes tells them apart.
SEAL_BYTES: Final = HEADER.size


class Kind(IntEnum):
    """The kind of an entry."""

    GROUP = 1
    SEAL = 2


class Entry(msgspec.Struct, frozen=True):
    """An entry read back. `frame` is a view of the read bytes, empty for a seal."""

    kind: Kind
    epoch: int
    group: int
    writer: bytes
    frame: memoryview


def folder(epoch: int) -> str:
    """Return the folder of one owner's journal."""
    return f"{epoch:0{_EPOCH_DIGITS}d}"


def name(group: int) -> str:
    """Return the last part of the name of a group's entry, or of the seal in its place."""
    return f"{group:0{_GROUP_DIGITS}d}"


def group_of(said: str) -> int | None:
    """Return the group of a name's last part; None if it isn't an entry's name."""
    return int(said) if len(said) == _GROUP_DIGITS and said.isdigit() else None


def kind_of(size: int) -> Kind:
    """Return the kind of an object of that size."""
    return Kind.SEAL if size <= SEAL_BYTES else Kind.GROUP


def encode(kind: Kind, epoch: int, group: int, writer: bytes, parts: Sequence[Bytes] = ()) -> bytes:
    """Return the object's bytes; `parts` are the group's frame."""
    body = HEADER.pack(MAGIC, VERSION, 0, kind, epoch, group, writer)[_BODY_AT:]
    crc = zlib.crc32(body)
    for part in parts:
        crc = zlib.crc32(part, crc)
    return b"".join((MAGIC, VERSION.to_bytes(4, "little"), crc.to_bytes(4, "little"), body, *parts))


def decode(data: Bytes, where: str) -> Entry:
    """Read the entry in these bytes, which come from `where`. Raises JournalBroken if they aren't
    one, JournalVersion for another version."""
    view = memoryview(data)
    if len(view) < HEADER.size or bytes(view[:4]) != MAGIC:
        raise JournalBroken(_broken(where, "it is no entry of a journal"))
    _, version, crc, kind, epoch, group, writer = HEADER.unpack_from(view)
    if version != VERSION:
        raise JournalVersion(
            f"{where} is an entry of version {version}, this program reads version {VERSION}; "
            "start the version that wrote it once, so that it empties its journal"
        )
    if zlib.crc32(view[_BODY_AT:]) != crc or kind not in (Kind.GROUP, Kind.SEAL):
        raise JournalBroken(_broken(where, "its checksum is wrong"))
    return Entry(Kind(kind), epoch, group, writer, view[HEADER.size :])


def _broken(where: str, why: str) -> str:
    return (
        f"{where} is broken: {why}. Accepted messages would be lost by going on, so nothing was "
        "changed. Restore the object from a copy or a former version of it"
    )
