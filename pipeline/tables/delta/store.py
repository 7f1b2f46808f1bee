"""The place of a table: a few operations, each durable when it returns.

Paths are relative to the table, with `/`. `Store` is the protocol of all places; `LocalStore` is a
folder on a disk. Data is on the disk before anything that names it is made.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.journal.segment import sync_directory, write_all

if TYPE_CHECKING:  # a process that opens no Parquet file needs neither
    import pyarrow.parquet as pq
    from deltalake import DeltaTable


class SyncFailed(StoreError):
    """An fsync failed: the disk's content is unknown, and a second fsync would not tell."""


class UndecidedError(StoreError):
    """It isn't known whether a file was created, or whether it will still appear. Creating it again
    with the same bytes decides that, once the store answers."""


class Store(Protocol):
    """The place of a table. After an OSError nothing was done, and the call may be repeated."""

    @property
    def uri(self) -> str:
        """The table's address for deltalake."""

    @property
    def options(self) -> dict[str, str]:
        """Options that deltalake needs in addition to the address."""

    @property
    def answers_late(self) -> bool:
        """Whether a request that got no answer may still be carried out, even after the death of
        the process that made it."""

    def put(self, path: str, data: Bytes) -> None:
        """Write a new file; durable on return, with its name. After an error there is no file."""

    def create(self, path: str, data: Bytes) -> bool:
        """Make a file that appears whole, only if it doesn't exist: False when another one does.

        True also when it exists with these bytes, so that it may be repeated after any error.
        Raises UndecidedError when it isn't known whether the file is there, or will be.
        """

    def replace(self, path: str, data: Bytes) -> None:
        """Write a whole file over a former one, if there is any; durable on return."""

    def read(self, path: str) -> bytes:
        """Read the file. Raises FileNotFoundError."""

    def exists(self, path: str) -> bool: ...

    def each(self, paths: Sequence[str]) -> "Iterator[bytes]":
        """Read these files, in order; several at once where each takes long."""

    def parquet(self, path: str) -> "pq.ParquetFile":
        """Open a Parquet file; its pages' checksums are verified. Raises FileNotFoundError."""

    def parquets(self, paths: Sequence[str]) -> "Iterator[pq.ParquetFile]":
        """Open these Parquet files, in order, as `parquet` does; the caller closes them."""

    def size(self, path: str) -> int:
        """Bytes of the file; 0 if there is none."""

    def files(self, folder: str) -> list[str]:
        """List the files directly in a folder, in no order; none if there is no such folder."""

    def folders(self, folder: str) -> list[str]:
        """List the folders directly in a folder."""

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files, in order; absent ones are no error."""

    def sync(self, folders: Iterable[str]) -> None:
        """Make removals from these folders durable; folders that are empty are removed, too."""


def beside(store: Store, name: str) -> str:
    """Return the address of another table in the same folder."""
    return f"{store.uri.rpartition('/')[0]}/{name}"


def delta_table(uri: str, options: dict[str, str]) -> "DeltaTable | None":
    """Open another table at this address with deltalake; None if there is none. The library is
    loaded only if there is one: most gateways don't need its 20 MB. Raises its DeltaError."""
    if "://" not in uri and not (Path(uri) / "_delta_log").is_dir():
        return None
    from deltalake import DeltaTable  # noqa: PLC0415
    from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415

    try:
        return DeltaTable(uri, storage_options=options)
    except TableNotFoundError:
        return None


class LocalStore:
    """A folder. Its `_token` keeps two owners from using the same temporary name."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._token = os.urandom(4).hex()

    @property
    def uri(self) -> str:
        return str(self.root)

    @property
    def options(self) -> dict[str, str]:
        return {}

    @property
    def answers_late(self) -> bool:
        return False

    def put(self, path: str, data: Bytes) -> None:
        target = self.root / path
        fd = self._open_new(target)
        _write_new(target, fd, data)
        _sync(target.parent)

    def create(self, path: str, data: Bytes) -> bool:
        target = self.root / path
        temporary = self.temporary_path(target, data)
        try:
            os.link(temporary, target)
        except OSError as error:
            if not self._is_there(target, data, error):
                return False
        finally:
            with suppress(OSError):  # no reader opens that name; the next call removes it
                temporary.unlink(missing_ok=True)
        _sync(target.parent)
        return True

    def _is_there(self, target: Path, data: Bytes, error: OSError) -> bool:
        """Whether the file appeared although making it failed. Raises the error if there is no
        file: on a disk a file that wasn't made won't appear later."""
        try:
            return target.read_bytes() == bytes(data)
        except FileNotFoundError:
            raise error from None
        except OSError as unread:
            raise UndecidedError(f"{target} can't be made ({error}) nor read ({unread})") from error

    def replace(self, path: str, data: Bytes) -> None:
        target = self.root / path
        self.temporary_path(target, data).rename(target)
        _sync(target.parent)

    def temporary_path(self, target: Path, data: Bytes) -> Path:
        """Write the data to the disk under a name that no reader and no other writer uses."""
        temporary = target.with_name(f".{target.stem}.{self._token}{target.suffix}.tmp")
        temporary.unlink(missing_ok=True)
        _write_new(temporary, self._open_new(temporary), data)
        return temporary

    def _open_new(self, target: Path) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(target, flags, 0o644)
        except FileNotFoundError:
            self._make_folder(target.parent)
            return os.open(target, flags, 0o644)

    def _make_folder(self, folder: Path) -> None:
        """Make the folder and its parents up to the root; each one's name is durable."""
        if folder.is_dir():
            return
        self._make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def each(self, paths: Sequence[str]) -> Iterator[bytes]:
        return map(self.read, paths)

    def parquets(self, paths: Sequence[str]) -> "Iterator[pq.ParquetFile]":
        return map(self.parquet, paths)

    def parquet(self, path: str) -> "pq.ParquetFile":
        import pyarrow.parquet as pq  # noqa: PLC0415 (35 MB, which a home without rows needn't load)

        return pq.ParquetFile(self.root / path, pre_buffer=False, page_checksum_verification=True)

    def size(self, path: str) -> int:
        try:
            return (self.root / path).stat().st_size
        except FileNotFoundError:
            return 0

    def files(self, folder: str) -> list[str]:
        return self._names(folder, folders=False)

    def folders(self, folder: str) -> list[str]:
        return self._names(folder, folders=True)

    def _names(self, folder: str, *, folders: bool) -> list[str]:
        try:
            with os.scandir(self.root / folder) as found:
                return [one.name for one in found if one.is_dir() == folders]
        except FileNotFoundError:
            return []

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            (self.root / path).unlink(missing_ok=True)

    def sync(self, folders: Iterable[str]) -> None:
        for folder in folders:
            path = self.root / folder
            if path.is_dir():
                _sync(path)
                with suppress(OSError):  # not empty
                    path.rmdir()


def _write_new(path: Path, fd: int, data: Bytes) -> None:
    """Write and fsync a file that was just made; after an error before the fsync it is removed."""
    try:
        try:
            write_all(fd, [memoryview(data)], 0)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        try:
            os.fsync(fd)
        except OSError as error:
            raise SyncFailed(_sync_failed(path, error)) from error
    finally:
        os.close(fd)


def _sync(folder: Path) -> None:
    try:
        sync_directory(folder)
    except OSError as error:
        raise SyncFailed(_sync_failed(folder, error)) from error


def _sync_failed(path: Path, error: OSError) -> str:
    return (
        f"fsync of {path} failed ({error}). What is on the disk is unknown; see to the disk and "
        "start again"
    )
