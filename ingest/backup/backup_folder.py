"""The folder of a backup: pieces, and the manifest that names the pieces of the last whole backup.

Rule 1: a piece is on the disk before it has its name, and all names are on the disk before the
        manifest replaces the former one. So a kill leaves the former backup, and pieces that the
        next backup uses or removes.
Rule 2: one process writes: it holds a flock on the file `lock`. Restores share the lock.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from distributary.pipeline.backup.backup_manifest import (
    PIECE_BYTES,
    BackedFile,
    BackupManifest,
    digest_of,
)
from distributary.pipeline.errors import BackupLocked, InvalidRequest, StoreError
from distributary.pipeline.tables.home.home import make_folder
from distributary.pipeline.tables.journal.segment import sync_directory, write_all

MANIFEST: Final = "manifest.json"
_PIECES: Final = "pieces"
_LOCK: Final = "lock"
#: No log has this name.
_LAKE_LOCK: Final = "lake.lock"
_TEMPORARY: Final = ".new"
#: Folders of a file system's root.
_OF_THE_DISK: Final = frozenset({"lost+found"})


class BackupFolder:
    """The folder, open to this process. `present` are the sizes of the pieces in it;
    `written_bytes` are of those that this process wrote."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._pieces = root / _PIECES
        self.present = _sizes(self._pieces)
        self.written_bytes = 0

    def manifest(self) -> BackupManifest | None:
        """Return the manifest of the last whole backup; None if there is none. Raises StoreError
        for a damaged one, InvalidRequest for a newer format."""
        data = manifest_bytes(self.root)
        return None if data is None else BackupManifest.decode(data, str(self.root / MANIFEST))

    def keep(
        self, path: str, mode: int, read: Callable[[int, int], bytes], size: int
    ) -> BackedFile:
        """Copy `size` bytes, which `read` gives by size and offset, as the file `path`. Pieces of
        their whole size aren't written again. Raises EOFError where `read` gives fewer bytes,
        StoreError where this folder can't be written to."""
        pieces: list[str] = []
        for at in range(0, size, PIECE_BYTES):
            due = min(PIECE_BYTES, size - at)
            data = read(due, at)
            if len(data) < due:
                raise EOFError(path)
            pieces.append(self._put(data))
        return BackedFile(path, size, mode & 0o777, tuple(pieces))

    def _put(self, data: bytes) -> str:
        piece = digest_of(data)
        if self.present.get(piece) != len(data):
            with _told(self.root):
                _write_durably(self._pieces / piece, data)
            self.present[piece] = len(data)
            self.written_bytes += len(data)
        return piece

    def complete(self, manifest: BackupManifest) -> None:
        """Replace the former manifest; the backup is whole on return. Raises StoreError."""
        with _told(self.root):
            sync_directory(self._pieces)
        complete(self.root, manifest.encode())

    def remove(self, names: list[str]) -> None:
        """Remove pieces that no manifest needs, and half written files."""
        for name in names:
            (self._pieces / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """Return the names of all files in the folder of pieces."""
        return _names(self._pieces)

    def piece(self, name: str) -> bytes:
        """Return a piece's bytes, compared with its name's digest. Raises StoreError for a missing
        or damaged one."""
        path = self._pieces / name
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise _unusable(path, "is gone") from error
        except OSError as error:
            raise _unusable(path, f"can't be read: {error.strerror}") from error
        if digest_of(data) != name:
            raise _unusable(path, "is damaged: its bytes have another digest")
        return data


@contextmanager
def writing(root: Path) -> Iterator[BackupFolder]:
    """Open a folder, made if it is absent, to write a backup to. Raises InvalidRequest for one with
    other files in it, BackupLocked while another process has it."""
    new = not root.exists()
    make_folder(root, "the folder of a backup")
    if new:
        root.chmod(0o700)
    _require_no_other(root, _others(root) - {_PIECES, _LOCK})
    make_folder(root / _PIECES, "the folder of a backup")
    with _locked(root / _LOCK, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX):
        yield BackupFolder(root)


@contextmanager
def reading(root: Path) -> Iterator[BackupFolder]:
    """Open a folder to restore from it. Raises InvalidRequest if it is no folder, BackupLocked
    while a backup is being made."""
    if not root.is_dir():
        raise InvalidRequest(f"{root} is no folder; --from takes the folder of a backup")
    # A copy of the folder needs no lock. Without pieces it is another folder, such as a home, whose
    # lock is its gateway's.
    if not (root / _LOCK).exists() or not (root / _PIECES).is_dir():
        yield BackupFolder(root)
        return
    with _locked(root / _LOCK, os.O_RDONLY, fcntl.LOCK_SH):
        yield BackupFolder(root)


@contextmanager
def writing_of_lake(root: Path) -> Iterator[None]:
    """Open the folder of a lake's backup, made if it is absent; its logs' backups lie in it, beside
    the lock or a manifest. Raises as `writing`."""
    new = not root.exists()
    make_folder(root, "the folder of a backup")
    if new:
        root.chmod(0o700)
    if not {MANIFEST, _LAKE_LOCK} & set(_names(root)):
        _require_no_other(root, _others(root))
    with _locked(root / _LAKE_LOCK, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX):
        yield


def manifest_bytes(root: Path) -> bytes | None:
    """Return the manifest's bytes in the folder of a backup; None if there is none."""
    try:
        return (root / MANIFEST).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None


def complete(root: Path, manifest: bytes) -> None:
    """Replace the former manifest, durably. Raises StoreError."""
    with _told(root):
        _write_durably(root / MANIFEST, manifest)
        sync_directory(root)


@contextmanager
def _locked(path: Path, access: int, kind: int) -> Iterator[None]:
    fd = os.open(path, access | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BackupLocked(_in_use(path)) from None
        yield
    finally:
        os.close(fd)


def _in_use(lock: Path) -> str:
    said = f"{lock.parent} is being used by another backup or restore. Wait until it is done"
    if lock.stat().st_nlink > 1:
        said += (
            f"; or it is a copy by hard links, which shares {lock.name} with the folder in use: "
            "remove that file from the copy"
        )
    return said


def _others(root: Path) -> set[str]:
    """Return the names in the folder but those that any backup may have."""
    return set(_names(root)) - {MANIFEST, MANIFEST + _TEMPORARY} - _OF_THE_DISK


def _require_no_other(root: Path, found: set[str]) -> None:
    if found:
        raise InvalidRequest(
            f"{root} has other files in it than a backup, such as {min(found)}. Name an empty "
            "folder, or one that doesn't exist yet"
        )


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return []


def _sizes(folder: Path) -> dict[str, int]:
    try:
        return {path.name: path.stat().st_size for path in folder.iterdir()}
    except FileNotFoundError:
        return {}


@contextmanager
def _told(root: Path) -> Iterator[None]:
    """Raise an error of writing as StoreError: the errors of writes name no file."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"{root} can't be written to: {error.strerror or error}. The last backup is as it was. "
            "See to the folder's rights and its disk's room and repeat it, or name another folder"
        ) from error


def _write_durably(path: Path, data: bytes) -> None:
    """Write a file that gets its name when its bytes are on the disk; the name isn't synced."""
    temporary = path.with_name(path.name + _TEMPORARY)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, [data], 0)
        os.fsync(fd)
    finally:
        os.close(fd)
    temporary.rename(path)


def _unusable(path: Path, why: str) -> StoreError:
    return StoreError(
        f"{path} {why}. The backup can't be restored; take another one, or another copy of that "
        "file"
    )
