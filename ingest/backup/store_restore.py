"""A home on a store from a backup: all of it, each byte as its digest says, or none that is served.

Rule 1: the object `restoring` is put first and removed last, and no gateway serves a home that has
        it. So the order of all others doesn't matter, and a restore that was cut off is repeated.
Rule 2: of a lake each log has it before the first object is put, until `lake.json` stands. Whoever
        is refused before that leaves none.
Rule 3: nothing is overwritten: the home is empty, or has `restoring` of the same backup. That is
        asked again once `restoring` stands, and then whether the lease is ours yet: whoever takes
        the lease after that sees `restoring`. Each object is put where nothing is, and nobody puts
        anything, or says that it is whole, once the lease is lost.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import msgspec

from distributary.ingest.backup.backup_folder import reading
from distributary.ingest.backup.backup_run import Progress
from distributary.ingest.backup.lake_backup import LakeFiles
from distributary.ingest.backup.restore_run import RestoreReport, Wanted, make_settings
from distributary.pipeline.backup.backup_manifest import BackedFile
from distributary.pipeline.errors import BeatFailed, HomeLost, InvalidRequest, StoreError
from distributary.pipeline.log_names import LOGS, PLACEMENT
from distributary.pipeline.tables.delta.object_store import ObjectStore, Tag
from distributary.pipeline.tables.lake.lake import ADDRESS, SECRET
from distributary.pipeline.tables.object_home.lease import BEATS, LeaseOwner, acquire_lease, renewed
from distributary.pipeline.tables.object_home.object_home import LEASE, RESTORING, ObjectHome
from distributary.pipeline.tables.object_home.store_conditions import PROBE

#: Seconds of one request, and for which it is tried again.
_REQUEST_SECONDS: Final = 60.0
#: The lease of a gateway's default; a gateway that takes it finds `restoring`.
_LEASE_SECONDS: Final = 3.0
#: Objects that are put at the same time; each is in memory meanwhile.
_PUTS: Final = 4
_AGAIN_SECONDS: Final = 0.1
#: A larger object has a client of its own, with a second more for so many bytes: it is put in one
#: request, too, as stores know no condition for what is put in parts, or don't say if they do.
_LARGE_BYTES: Final = 4 << 20
_BYTES_PER_SECOND: Final = 256 << 10
#: What an empty home may have; of a lake what isn't in its log `main`.
_EMPTY: Final = frozenset({LEASE, PROBE, PLACEMENT, SECRET, ADDRESS, LOGS})


class StoreRestore:
    """The restore of one home: `look`, `begin`, `fill`, `end`. Raises StoreError when the store
    doesn't answer."""

    def __init__(self, folder: Path, home: ObjectHome, settings: Path | None = None) -> None:
        self._began = time.monotonic()
        self._folder, self._home, self._settings = folder, home, settings
        self._store = _store(home)
        self._held = ExitStack()
        self._owner: LeaseOwner | None = None
        self._asked = 0.0  #: when the store last said that the lease is ours
        #: Whether `restoring` is there by this restore alone, and nothing else is.
        self._alone = False

    def look(self) -> None:
        """Raises InvalidRequest when there is no backup, or the home isn't empty; changes
        nothing."""
        self._source = self._held.enter_context(reading(self._folder))
        self._wanted = Wanted.of(self._source, self._home.url, self._settings, on_a_store=True)
        self._require_empty()

    def begin(self) -> None:
        """Own the home, and say that it is being restored. Raises InvalidRequest when somebody
        has put anything there meanwhile; HomeLocked while a gateway uses it."""
        self._owner = owner = acquire_lease(self._home, _LEASE_SECONDS)
        self._held.callback(owner.release)
        self._held.enter_context(renewed(owner, _LEASE_SECONDS / BEATS))
        former = self._require_empty()
        self._mark = f"{self._wanted.digest} {owner.name}".encode()
        self._alone = former is None
        if self._store.exchange(RESTORING, self._mark, former) is None:
            self._require_mark()  # the answer of our own put may have been lost
        self._require_empty()
        self._ask()

    def undo(self) -> None:
        """Take back what `begin` did, as nothing was put."""
        if self._alone:
            with suppress(OSError, HomeLost):
                self._require_mark()
                self._store.delete([RESTORING])

    def fill(self, progress: Progress) -> None:
        """Put all of it."""
        self._alone = False
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
            self._ask()  # this process may have stood still: then `check` knows nothing yet
        store = _store(self._home, file.size) if file.size > _LARGE_BYTES else self._store
        if not store.create(file.path, data):
            raise StoreError(
                f"{self._home.url} has another {file.path} than the backup: somebody else writes "
                "there, and nothing is overwritten. Name another address"
            )
        return file.size

    def require_ours(self) -> None:
        """Ask the store whether the home and `restoring` are ours yet. Raises HomeLost."""
        self._ask()
        self._require_mark()

    def end(self) -> RestoreReport:
        """It may be served."""
        self.require_ours()
        self._store.delete([RESTORING])
        return self._wanted.report(self._home.url, self._began, settings=self._settings is not None)

    def close(self) -> None:
        """Let go of the home and the backup, whether it was restored or not."""
        self._held.close()

    def _ask(self) -> None:
        """Have the store say that the lease is ours. Raises HomeLost, StoreError."""
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

    def _require_mark(self) -> None:
        try:
            ours = self._store.read(RESTORING) == self._mark
        except FileNotFoundError:
            ours = False
        if not ours:
            raise HomeLost(f"{self._home.url} is being restored by another process: this one ends")

    def _require_empty(self) -> Tag | None:
        """The tag of `restoring` of the same backup, where that is there."""
        names = {*self._store.files(""), *self._store.folders("")} - _EMPTY
        if RESTORING in names:
            said, tag = self._store.tagged(RESTORING)
            if said.decode().startswith(self._wanted.digest):
                return tag
        if names:
            raise InvalidRequest(
                f"{self._home.url} isn't empty, it has {min(names)}: nothing is overwritten. Name "
                "an address with nothing below it, or remove that"
            )
        return None


def restore(
    restores: Sequence[StoreRestore], progress: Progress, lake: "LakeObjects | None" = None
) -> list[RestoreReport]:
    """All of these, of one lake if there is more than one: served when all are whole."""
    try:
        for one in restores:
            one.look()
        with _undone(restores):
            for one in restores:
                one.begin()
        for one in restores:
            one.fill(progress)
        if lake is not None:
            for one in restores:
                one.require_ours()
            lake.put()
        return [one.end() for one in restores]
    except OSError as error:
        raise StoreError(f"the home couldn't be restored: {error}. Repeat it") from error
    finally:
        for one in restores:
            one.close()


@contextmanager
def _undone(restores: Sequence[StoreRestore]) -> Iterator[None]:
    """If one of them is refused, none has begun."""
    try:
        yield
    except BaseException:
        for one in restores:
            one.undo()
        raise


class LakeObjects:
    """The files of a lake that aren't in a log, to be put at its address."""

    def __init__(self, home: ObjectHome, files: LakeFiles) -> None:
        self._store = _store(home)
        self._files = files

    def put(self) -> None:
        """The secret, then what makes it a lake. Raises OSError."""
        self._store.put(SECRET, self._files.secret.encode())
        self._store.put(PLACEMENT, msgspec.json.encode(self._files.placement))


def _store(home: ObjectHome, size: int = 0) -> ObjectStore:
    """The home's, for objects of so many bytes."""
    seconds = _REQUEST_SECONDS + size / _BYTES_PER_SECOND
    return ObjectStore(home.url, home.options, seconds_max=seconds, patience=_REQUEST_SECONDS)
