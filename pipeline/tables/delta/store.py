"""Where a table lies, as this room needs it: few verbs, each durable when it returns.

Paths are relative to the table, with `/`. `Store` is what is asked of a place; `LocalStore` is a
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

if TYPE_CHECKING:  # who opens no file of rows needs neither
    import pyarrow.parquet as pq
    from deltalake import DeltaTable


class SyncFailed(StoreError):
    """An fsync failed: what is on the disk is unknown, and asking again would not tell."""


class UndecidedError(StoreError):
    """Whether a file was created isn't known, or it may still appear. Creating it again with the
    same bytes decides that, once the store answers."""


class Store(Protocol):
    """Where a table lies. OSError says that nothing was done and that it may be tried again."""

    @property
    def uri(self) -> str:
        """The table's address as deltalake wants it."""

    @property
    def options(self) -> dict[str, str]:
        """What deltalake needs beyond the address."""

    @property
    def answers_late(self) -> bool:
        """Whether a request that got no answer may still be carried out, even after the death of
        the process that made it."""

    def put(self, path: str, data: Bytes) -> None:
        """Write a file that is new; durable on return, its name too. After an error it's gone."""

    def create(self, path: str, data: Bytes) -> bool:
        """Make a file that appears whole and only if there is none: False when there is another.

        True also when it is there already with these bytes, so that it may be repeated after any
        error. Raises UndecidedError when it isn't known whether the file is there, or will be.
        """

    def replace(self, path: str, data: Bytes) -> None:
        """Put a whole file in the place of another, or where none was; durable on return."""

    def read(self, path: str) -> bytes:
        """The file. Raises FileNotFoundError."""

    def exists(self, path: str) -> bool: ...

    def each(self, paths: Sequence[str]) -> "Iterator[bytes]":
        """These files, in order, as `read` has each; several at once where each takes long."""

    def parquet(self, path: str) -> "pq.ParquetFile":
        """Open a Parquet file, its pages' checksums to be verified. Raises FileNotFoundError."""

    def parquets(self, paths: Sequence[str]) -> "Iterator[pq.ParquetFile]":
        """These files, in order, as `parquet` has each; the caller closes them."""

    def size(self, path: str) -> int:
        """Bytes of the file; 0 if there is none."""

    def files(self, folder: str) -> list[str]:
        """The names of the files right in a folder, in no order; none when there is no folder."""

    def folders(self, folder: str) -> list[str]:
        """The names of the folders right in a folder."""

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files, in order; those that are gone already are no error."""

    def sync(self, folders: Iterable[str]) -> None:
        """Make it durable that names have gone from these folders; the empty ones go as well."""


def beside(store: Store, name: str) -> str:
    """The address of another table in the same folder."""
    return f"{store.uri.rpartition('/')[0]}/{name}"


def delta_table(uri: str, options: dict[str, str]) -> "DeltaTable | None":
    """Another table at this address as deltalake reads it, None if there is none. The library is
    loaded if there is one: most gateways have no use for its 20 MB. Raises its DeltaError."""
    if "://" not in uri and not (Path(uri) / "_delta_log").is_dir():
        return None
    from deltalake import DeltaTable  # noqa: PLC0415
    from deltalake.exceptions import TableNotFoundError  # noqa: PLC0415

    try:
        return DeltaTable(uri, storage_options=options)
    except TableNotFoundError:
        return None


class LocalStore:
    """A folder. `token` sets apart what two owners write at the same time."""

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
            with suppress(OSError):  # no reader looks at that name; the next one removes it
                temporary.unlink(missing_ok=True)
        _sync(target.parent)
        return True

    def _is_there(self, target: Path, data: Bytes, error: OSError) -> bool:
        """Whether the file appeared although making it failed. Raises the error if there is no
        file: on a disk what wasn't made won't appear later."""
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
        """The data on the disk, under a name that nobody else uses and no reader looks at."""
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
        """The folder and those above it up to the root, each one's name durable."""
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
    """Write and fsync what was just made; an error before the fsync leaves nothing."""
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
