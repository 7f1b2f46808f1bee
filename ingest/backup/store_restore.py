"""The restore of a home without a disk: see `restore_run`.

The marker is an object, put first and removed last, so the order of all others doesn't matter. The
lease is ours before the marker is put: a process that takes it later sees the marker. Each object
is put where none exists. Once the lease is lost, no object is put, and success isn't reported.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from distributary.ingest.backup.backup_folder import reading
from distributary.ingest.backup.backup_run import Progress
from distributary.ingest.backup.restore_run import OF_A_LAKE, Look, require_empty
from distributary.ingest.backup.wanted import Making, RestoreReport, Wanted, make_settings
from distributary.pipeline.backup.backup_manifest import BackedFile
from distributary.pipeline.errors import BeatFailed, HomeLost, StoreError
from distributary.pipeline.log_names import RESTORING
from distributary.pipeline.tables.delta.object_store import ObjectStore, Tag
from distributary.pipeline.tables.object_home.lease import BEATS, LeaseOwner, acquire_lease, renewed
from distributary.pipeline.tables.object_home.object_home import LEASE, ObjectHome
from distributary.pipeline.tables.object_home.store_conditions import PROBE

#: Seconds of one request, and of its retries.
_REQUEST_SECONDS: Final = 60.0
#: The lease of a gateway's default; a gateway that takes it finds the marker.
_LEASE_SECONDS: Final = 3.0
#: Objects that are put at the same time; each is in memory meanwhile.
_PUTS: Final = 4
_AGAIN_SECONDS: Final = 0.1
#: A larger object has a client of its own, with a second more for `_BYTES_PER_SECOND`: it is put in
#: one request, too, as stores have no conditions for uploads in parts, or don't document them.
_LARGE_BYTES: Final = 4 << 20
_BYTES_PER_SECOND: Final = 256 << 10
#: Names that an empty home may have.
_EMPTY: Final = frozenset({LEASE, PROBE, *OF_A_LAKE})


class StoreRestore:
    """Objects below one address. Implements `HomeRestore`."""

    def __init__(self, folder: Path, home: ObjectHome, settings: Path | None = None) -> None:
        self._began = time.monotonic()
        self._folder, self._home, self._settings = folder, home, settings
        self._store = _store(home)
        self._held = ExitStack()
        self._owner: LeaseOwner | None = None
        self._asked = 0.0  #: when the store last confirmed the lease
        self.digest, self.fresh, self._marked = "", True, False

    def __str__(self) -> str:
        return self._home.url

    def open(self) -> None:
        self._source = self._held.enter_context(reading(self._folder))
        self._wanted = Wanted.of(self._source, self._home.url, self._settings, on_a_store=True)
        self.digest = self._wanted.digest

    def look(self, marker: str) -> Look:
        return self._looked(marker)[0]

    def _looked(self, marker: str) -> tuple[Look, Tag | None]:
        """Return the home's contents, and the tag of our marker."""
        names = {*self._store.files(""), *self._store.folders("")} - _EMPTY
        tag = self._tag(marker) if RESTORING in names else None
        if tag is not None:
            names -= {RESTORING, *(set() if self._marked and self.fresh else self._wanted.tops)}
        return Look(tag is not None, min(names, default="")), tag

    def _tag(self, marker: str) -> Tag | None:
        with suppress(FileNotFoundError):
            said, tag = self._store.tagged(RESTORING)
            if said.decode(errors="replace").startswith(marker):
                return tag
        return None

    def begin(self, marker: str) -> None:
        self._owner = owner = acquire_lease(self._home, _LEASE_SECONDS)
        self._held.callback(owner.release)
        self._held.enter_context(renewed(owner, _LEASE_SECONDS / BEATS))
        look, former = self._looked(marker)
        require_empty(self, look)
        self._marker = f"{marker} {owner.name}".encode()
        self.fresh, self._marked = former is None, True
        if self._store.exchange(RESTORING, self._marker, former) is None:
            self._require_marker()  # the answer of our own put may have been lost
        require_empty(self, self.look(marker))
        self._ask()

    def undo(self) -> None:
        if self._marked:
            with suppress(OSError, HomeLost):
                self._require_marker()
                self._store.delete([RESTORING])

    def check(self, progress: Progress) -> None:
        making = Making(self._source, progress, self._wanted.size)
        making.check(self._wanted.of_home)
        if self._settings is not None:
            making.check(self._wanted.of_settings)

    def place(self, progress: Progress) -> None:
        wanted = self._wanted
        if self._settings is not None:
            make_settings(wanted, self._source, self._settings, progress)
        done = 0
        with ThreadPoolExecutor(_PUTS) as pool:
            for size in pool.map(self._put, wanted.of_home.values()):
                done += size
                progress("files", done, wanted.size)

    def _put(self, file: BackedFile) -> int:
        data = b"".join(map(self._source.piece, file.pieces))
        if len(data) != file.size:
            raise StoreError(f"{file.path} of the backup has {len(data)} bytes, not {file.size}")
        self._owned.check()
        if time.monotonic() - self._asked > _LEASE_SECONDS:
            self._ask()  # this process may have been paused, which `check` doesn't notice at once
        store = _store(self._home, file.size) if file.size > _LARGE_BYTES else self._store
        if not store.create(file.path, data):
            raise StoreError(
                f"{self._home.url} has another {file.path} than the backup: another process "
                "writes there, and nothing is overwritten. Name another address"
            )
        return file.size

    def require_ours(self) -> None:
        """Ask the store whether the home and the marker are still ours. Raises HomeLost."""
        self._ask()
        self._require_marker()

    def end(self) -> None:
        self.require_ours()
        self._store.delete([RESTORING])

    def report(self) -> RestoreReport:
        return self._wanted.report(str(self), self._began, settings=self._settings is not None)

    def close(self) -> None:
        self._held.close()

    def _ask(self) -> None:
        """Have the store confirm that the lease is ours. Raises HomeLost, StoreError."""
        until = time.monotonic() + _REQUEST_SECONDS
        while True:
            try:
                self._owned.beat()
                break
            except BeatFailed:
                if time.monotonic() > until:
                    raise
            time.sleep(_AGAIN_SECONDS)
        self._asked = time.monotonic()

    @property
    def _owned(self) -> LeaseOwner:
        assert self._owner is not None  # noqa: S101 (`begin` was called)
        return self._owner

    def _require_marker(self) -> None:
        try:
            ours = self._store.read(RESTORING) == self._marker
        except FileNotFoundError:
            ours = False
        if not ours:
            raise HomeLost(f"{self._home.url} is being restored by another process: this one ends")


def _store(home: ObjectHome, size: int = 0) -> ObjectStore:
    """Return the home's store, for objects of `size` bytes."""
    seconds = _REQUEST_SECONDS + size / _BYTES_PER_SECOND
    return ObjectStore(home.url, home.options, seconds_max=seconds, patience=_REQUEST_SECONDS)
