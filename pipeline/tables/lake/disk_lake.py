"""A lake in a folder. Files appear whole: each is written under another name, then renamed."""

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import Final

import msgspec

from distributary.pipeline.errors import StoreError
from distributary.pipeline.fleet.members import Member
from distributary.pipeline.fleet.moves import Move
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.lake.placement_text import read_placement
from distributary.pipeline.log_names import PLACEMENT, log_below, private_number
from distributary.pipeline.tables.home.home import Home, make_folder
from distributary.pipeline.tables.journal.segment import sync_directory, write_all
from distributary.pipeline.tables.lake.lake import (
    ADDRESS,
    MEMBERS,
    MOVE,
    SAID_BYTES_MAX,
    SECRET,
    SECRET_BYTES,
    OwnerAddress,
    address_of_member,
    changed_meanwhile,
    member_number,
    member_path,
    read_address,
    read_member,
    read_move,
    read_secret,
)

#: A process that changes the placement or the order holds a flock on this file meanwhile.
CHANGING: Final = "lake.change"
_SECRET_MODE: Final = 0o600
_MODE: Final = 0o644


def disk_lake(root: Path) -> "DiskLake | None":
    """Return the lake in this folder; None where there is no lake.json."""
    # If the folder can't be read, opening the home reports the error.
    return DiskLake(root) if os.path.exists(root / PLACEMENT) else None  # noqa: PTH110


class DiskLake:
    """A lake in a folder, which it makes by the first `replace`. Implements `Lake`."""

    def __init__(self, root: Path) -> None:
        """Raises InvalidRequest for the address of a store."""
        self._home = Home(root)
        self._root = self._home.root
        self.address = str(self._root)

    def within(self, seconds: float) -> "DiskLake":  # noqa: ARG002 (a disk's answer is waited for)
        return self

    def placement(self) -> Placement:
        path = self._root / PLACEMENT
        with self._home.used():
            return read_placement(path.read_bytes(), str(path))

    def replace(self, seen: Placement | None, new: Placement) -> None:
        make_folder(self._root, "a lake")
        with self._home.used(), self._changing():
            path = self._root / PLACEMENT
            there = read_placement(path.read_bytes(), str(path)) if path.exists() else None
            if there != seen:
                raise changed_meanwhile(str(path))
            if not (self._root / SECRET).exists():
                write_whole(self._root / SECRET, token_hex(SECRET_BYTES).encode(), _SECRET_MODE)
            write_whole(path, msgspec.json.encode(new), _MODE)

    def make(self, placement: Placement, secret: str) -> None:
        make_folder(self._root, "a lake")
        with self._home.used(), self._changing():
            path = self._root / PLACEMENT
            if path.exists():
                raise changed_meanwhile(str(path))
            write_whole(self._root / SECRET, secret.encode(), _SECRET_MODE)
            write_whole(path, msgspec.json.encode(placement), _MODE)

    def secret(self) -> str:
        path = self._root / SECRET
        with self._home.used():
            return read_secret(path.read_bytes(), str(path))

    def log_home(self, log: str) -> str:
        return log_below(self.address, log)

    def address_of(self, log: str) -> OwnerAddress | None:
        try:
            with self._home.used():
                if (number := private_number(log)) is not None:
                    return address_of_member(_said(self._root / member_path(number)), number)
                return read_address(_said(self._address_path(log)))
        except StoreError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return None
            raise

    def say_address(self, log: str, address: OwnerAddress) -> None:
        path = self._address_path(log)
        with self._home.used():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, msgspec.json.encode(address), _MODE)

    def members(self) -> list[Member]:
        found = []
        with self._home.used(), suppress(FileNotFoundError):
            for path in list((self._root / MEMBERS).iterdir()):
                if (number := member_number(path.name)) is not None:
                    with suppress(FileNotFoundError):  # the gateway has just removed it
                        found.append(read_member(_said(path), number))
        return [member for member in found if member is not None]

    def say_member(self, member: Member) -> None:
        folder = self._root / MEMBERS
        with self._home.used():
            folder.mkdir(exist_ok=True)
            beside = folder / f".{member.number}"
            beside.write_bytes(msgspec.json.encode(member))
            beside.replace(folder / str(member.number))

    def forget_members(self, numbers: Sequence[int]) -> None:
        with self._home.used():
            for number in numbers:
                (self._root / member_path(number)).unlink(missing_ok=True)

    def move(self) -> Move | None:
        with self._home.used(), suppress(FileNotFoundError):
            return read_move(_said(self._root / MOVE))
        return None

    def replace_move(self, seen: Move | None, new: Move) -> bool:
        with self._home.used(), self._changing():
            if self.move() != seen:
                return False
            write_whole(self._root / MOVE, msgspec.json.encode(new), _MODE)
        return True

    def _address_path(self, log: str) -> Path:
        return Path(self.log_home(log)) / ADDRESS

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock on changes: one process at a time."""
        fd = os.open(self._root / CHANGING, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def _said(path: Path) -> bytes:
    """Read a file's content; of a longer one SAID_BYTES_MAX + 1 bytes. Raises OSError."""
    with path.open("rb") as file:
        return file.read(SAID_BYTES_MAX + 1)


def write_whole(path: Path, data: bytes, mode: int) -> None:
    """Write a file durably, whole or not at all. Raises OSError."""
    beside = path.with_name(f".{path.name}.{token_hex(4)}")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            write_all(fd, [data], 0)
            os.fsync(fd)
        finally:
            os.close(fd)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)
