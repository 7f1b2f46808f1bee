"""A table on an object store: S3 and services with its protocol, Google Cloud Storage, Azure.

An answered put is durable, and a put that must not replace anything is refused if the object
exists (`If-None-Match` on S3), so the order of durable steps is the same as on a disk. A store has
no fsync that could fail.
"""

import io
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import IO, TYPE_CHECKING, Final, TypeVar, cast

import msgspec
import obstore
import pyarrow.parquet as pq
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotFoundError,
    NotSupportedError,
    PreconditionError,
)
from obstore.store import from_url

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.tables.delta.store import UndecidedError

if TYPE_CHECKING:
    from obstore import PutMode
    from obstore.store import ClientConfig, RetryConfig
    from obstore.store import ObjectStore as Place

#: Settings of the HTTP client, which obstore separates from those of the store.
_CLIENT: Final = ("allow_http", "allow_invalid_certificates", "timeout", "connect_timeout")


T = TypeVar("T")

#: Bytes of an object's end that are read together with its size.
END_BYTES: Final = 64 << 10
#: Bytes of small data files that are kept in memory.
SMALL_BYTES_MAX: Final = 256 << 10
#: Objects that are read in parallel.
AHEAD: Final = 16
#: The shortest and the longest pause between two attempts by the client itself.
_BACKOFF_MIN: Final = timedelta(milliseconds=50)
_BACKOFF_MAX: Final = timedelta(seconds=1)


class NoBucket(OSError):
    """A put found no bucket or container to put into: nothing was written."""


class Tag(msgspec.Struct, frozen=True):
    """Tells an object from every other one under its name, earlier or later: by a hash of its bytes
    (S3, Azure) or by its number (Google)."""

    e_tag: str | None
    version: str | None


class ObjectStore:
    """A prefix of a bucket. `options` are those of deltalake: names in either case, values as text.

    A request takes `seconds_max` at most, and the client itself repeats it for `patience` seconds
    (default: no longer than one request). With None, both limits are the client's own: minutes.
    """

    def __init__(
        self,
        url: str,
        options: Mapping[str, str],
        *,
        seconds_max: float | None = None,
        patience: float = 0.0,
    ) -> None:
        self._url, self._options = url.rstrip("/"), dict(options)
        self._lock = threading.Lock()  # guards `_small`, small files in the order of reading
        self._small: dict[str, bytes] = {}
        names = {name.lower(): value for name, value in options.items()}
        known = {name.lower(): value for name, value in os.environ.items()} | names
        client: dict[str, str] = {}
        for key in _CLIENT:
            for name in (key, f"aws_{key}", f"azure_{key}", f"google_{key}"):
                if name in known and (name != key or name in names):
                    client[key] = known[name]
                names.pop(name, None)
        allow = client.get("allow_http", "").lower() == "true"
        retries: RetryConfig | None = None
        if seconds_max is not None:
            client["timeout"] = client["connect_timeout"] = f"{round(seconds_max * 1_000)} ms"
            retries = {
                "backoff": {"init_backoff": _BACKOFF_MIN, "max_backoff": _BACKOFF_MAX, "base": 2},
                "max_retries": 10,
                "retry_timeout": timedelta(seconds=max(patience, seconds_max)),
            }
        try:
            # obstore has a type of its names for each kind of store; the URL says which it is.
            self._store = from_url(
                self._url,
                config=names or None,  # type: ignore[arg-type]
                client_options=cast("ClientConfig", {**client, "allow_http": allow}),
                retry_config=retries,
            )
        except (BaseError, ValueError) as error:
            why = str(error).splitlines()[0]  # the further lines are parts of the address
            raise InvalidRequest(f"the address {url} can't be used: {why}") from error

    @property
    def uri(self) -> str:
        return self._url

    @property
    def options(self) -> dict[str, str]:
        return self._options

    @property
    def answers_late(self) -> bool:
        return True

    def put(self, path: str, data: Bytes) -> None:
        with self._putting(path):
            obstore.put(self._store, path, bytes(data))

    def create(self, path: str, data: Bytes) -> bool:
        ours = bytes(data)
        try:
            with self._putting(path):
                obstore.put(self._store, path, ours, mode="create", use_multipart=False)
        except NoBucket:
            raise
        except OSError as error:
            # After a lost answer the client asks again: the file that exists may be ours.
            return self._is_there(path, ours, error)
        return True

    @contextmanager
    def _putting(self, path: str) -> Iterator[None]:
        try:
            with _as_os_errors(path):
                yield
        except FileNotFoundError as error:
            raise NoBucket(
                f"{self._url}: the store has no such bucket or container; make it, or correct the"
                " address"
            ) from error

    def _is_there(self, path: str, ours: bytes, error: OSError) -> bool:
        """Whether the file exists although making it failed. A file that is absent may still be
        made: the request may be under way."""
        try:
            return self.read(path) == ours
        except OSError as unread:
            raise UndecidedError(
                f"{path}: it isn't known whether it was put ({error}; {unread})"
            ) from error

    def replace(self, path: str, data: Bytes) -> None:
        self.put(path, data)

    def exchange(self, path: str, data: Bytes, seen: Tag | None) -> Tag | None:
        """Replace the object whose tag was `seen` (None: make a new one). Return the new tag, or
        None when the object isn't that one. Raises OSError when the result isn't known."""
        mode: PutMode = "create"
        if seen is not None:
            mode = {}
            if seen.e_tag is not None:
                mode["e_tag"] = seen.e_tag
            if seen.version is not None:
                mode["version"] = seen.version
        try:
            with self._putting(path):
                put = obstore.put(self._store, path, bytes(data), mode=mode, use_multipart=False)
                return Tag(put["e_tag"], put["version"])
        except FileExistsError:
            return None
        except NoBucket:
            if seen is None:
                raise
            return None  # S3 says the same of an object that is gone

    def tagged(self, path: str, bytes_max: int | None = None) -> tuple[bytes, Tag]:
        """Read an object and its tag; no bytes of one above `bytes_max`. Raises
        FileNotFoundError."""
        with _as_os_errors(path):
            found = obstore.get(self._store, path)
            fits = bytes_max is None or found.meta["size"] <= bytes_max
            data = bytes(found.bytes()) if fits else b""
            return data, Tag(found.meta["e_tag"], found.meta["version"])

    def sizes(self, folder: str) -> dict[str, int]:
        """Return names and bytes of the objects directly in a folder."""
        found: dict[str, int] = {}
        with _as_os_errors(folder):
            for some in obstore.list(self._store, prefix=folder):
                found.update({one["path"].rpartition("/")[2]: one["size"] for one in some})
        return found

    def remove(self, paths: Sequence[str]) -> None:
        """Remove objects in no order; in one request if the store can remove many at once."""
        try:
            with _as_os_errors("several objects"):
                obstore.delete(self._store, paths)
        except FileNotFoundError:  # some stores say so of an absent object
            self.delete(paths)

    def read(self, path: str) -> bytes:
        with _as_os_errors(path):
            return bytes(obstore.get(self._store, path).bytes())

    def part(self, path: str, at: int, size: int) -> bytes:
        """Read `size` bytes from `at` on, fewer at the end. Raises FileNotFoundError."""
        with _as_os_errors(path):
            return bytes(obstore.get_range(self._store, path, start=at, length=size))

    def written_at(self, path: str) -> float:
        """Return when an object was put, by the store's clock, in seconds since 1970."""
        with _as_os_errors(path):
            return obstore.head(self._store, path)["last_modified"].timestamp()

    def exists(self, path: str) -> bool:
        try:
            with _as_os_errors(path):
                obstore.head(self._store, path)
        except FileNotFoundError:
            return False
        return True

    def each(self, paths: Sequence[str]) -> Iterator[bytes]:
        return _ahead(self.read, paths)

    def parquet(self, path: str) -> pq.ParquetFile:
        size, end = self._end(path)
        return _parquet(_Ranges(self._store, path, size, end))

    def parquets(self, paths: Sequence[str]) -> Iterator[pq.ParquetFile]:
        return _ahead(self._data_file, paths)

    def _data_file(self, path: str) -> pq.ParquetFile:
        """As `parquet`; a small file is kept for a while, as it never changes and a start reads
        some files twice."""
        data = self._small.get(path)
        if data is None:
            size, data = self._end(path)
            if len(data) < size:
                return _parquet(_Ranges(self._store, path, size, data))
            self._keep(path, data)
        return _parquet(io.BytesIO(data))

    def _keep(self, path: str, data: bytes) -> None:
        with self._lock:
            self._small[path] = data
            while sum(map(len, self._small.values())) > SMALL_BYTES_MAX:
                del self._small[next(iter(self._small))]

    def _end(self, path: str) -> tuple[int, bytes]:
        """Return an object's size and its last bytes: a Parquet file's footer, or a whole small
        file. No bytes where the store can't read an object's end."""
        with _as_os_errors(path):
            try:
                found = obstore.get(self._store, path, options={"range": {"suffix": END_BYTES}})
                return found.meta["size"], bytes(found.bytes())
            except NotSupportedError:
                return obstore.head(self._store, path)["size"], b""

    def size(self, path: str) -> int:
        try:
            with _as_os_errors(path):
                return obstore.head(self._store, path)["size"]
        except FileNotFoundError:
            return 0

    def files(self, folder: str) -> list[str]:
        return self._names(folder, "objects")

    def has_any(self, folder: str) -> bool:
        """Whether any object lies below the folder: one request, however many there are."""
        with _as_os_errors(folder):
            return any(obstore.list(self._store, folder, chunk_size=1))

    def folders(self, folder: str) -> list[str]:
        return self._names(folder, "common_prefixes")

    def _names(self, folder: str, what: str) -> list[str]:
        with _as_os_errors(folder):
            found = obstore.list_with_delimiter(self._store, folder or None)
        if what == "objects":
            paths = [meta["path"] for meta in found["objects"]]
        else:
            paths = list(found["common_prefixes"])
        return [path.rstrip("/").rpartition("/")[2] for path in paths]

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                with _as_os_errors(path):
                    obstore.delete(self._store, path)
            except FileNotFoundError:
                pass

    def sync(self, folders: Iterable[str]) -> None:
        """Do nothing: an answered request is durable."""


class _Ranges(io.RawIOBase):
    """An object as a file: each read requests only its own bytes."""

    def __init__(self, store: "Place", path: str, size: int, end: bytes) -> None:
        """`end`: the object's last bytes, if they were read already."""
        self._store, self._path, self._size = store, path, size
        self._end, self._end_at = end, size - len(end)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = base + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        if end <= self._at:
            return b""
        if self._at >= self._end_at:
            data = self._end[self._at - self._end_at : end - self._end_at]
        else:
            with _as_os_errors(self._path):
                data = bytes(obstore.get_range(self._store, self._path, start=self._at, end=end))
        self._at = end
        return data


def _parquet(source: io.IOBase) -> pq.ParquetFile:
    file = cast("IO[bytes]", source)
    return pq.ParquetFile(file, pre_buffer=False, page_checksum_verification=True)


def _ahead(read: Callable[[str], T], paths: Sequence[str]) -> Iterator[T]:
    """Read each path; yield the results in order while the next ones are being read."""
    if not paths:
        return
    with ThreadPoolExecutor(AHEAD) as pool:
        reading = deque(pool.submit(read, path) for path in paths[:AHEAD])
        for path in paths[AHEAD:]:
            yield reading.popleft().result()
            reading.append(pool.submit(read, path))
        while reading:
            yield reading.popleft().result()


@contextmanager
def _as_os_errors(path: str) -> Iterator[None]:
    try:
        yield
    except (NotFoundError, FileNotFoundError) as error:  # obstore has both
        raise FileNotFoundError(f"{path}: {_first_line(error)}") from error
    except (AlreadyExistsError, PreconditionError) as error:
        raise FileExistsError(f"{path}: {_first_line(error)}") from error
    except BaseError as error:
        raise OSError(f"{path}: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    """Return what happened; obstore's further lines list all values on the way."""
    return str(error).partition("\n")[0]
