"""A home on a store from a backup: all of it, each byte as its digest says, or none that is served.

Rule 1: the object `restoring` is put first and removed last, and no gateway serves a home that has
        it. So the order of all others doesn't matter, and a restore that was cut off is repeated.
Rule 2: of a lake each log has it before the first object is put, until `lake.json` stands.
Rule 3: nothing is overwritten: the home is empty, or has `restoring` of the same backup.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import msgspec

from distributary.ingest.backup.backup_folder import reading
from distributary.ingest.backup.backup_run import Progress
from distributary.ingest.backup.lake_backup import LakeFiles
from distributary.ingest.backup.restore_run import RestoreReport, Wanted, make_settings
from distributary.pipeline.backup.backup_manifest import BackedFile
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.log_names import LOGS, PLACEMENT
from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.lake.lake import ADDRESS, SECRET
from distributary.pipeline.tables.object_home.lease import BEATS, acquire_lease, renewed
from distributary.pipeline.tables.object_home.object_home import LEASE, RESTORING, ObjectHome
from distributary.pipeline.tables.object_home.store_conditions import PROBE

#: Seconds of one request, and for which it is tried again.
_REQUEST_SECONDS: Final = 60.0
#: The lease of a gateway's default; a gateway that takes it finds `restoring`.
_LEASE_SECONDS: Final = 3.0
#: Objects that are put at the same time; each is in memory meanwhile.
_PUTS: Final = 4
#: What an empty home may have; of a lake what isn't in its log `main`.
_EMPTY: Final = frozenset({LEASE, PROBE, PLACEMENT, SECRET, ADDRESS, LOGS})


class StoreRestore:
    """The restore of one home: `begin`, `fill`, `end`. Raises StoreError when the store doesn't
    answer."""

    def __init__(self, folder: Path, home: ObjectHome, settings: Path | None = None) -> None:
        self._began = time.monotonic()
        self._folder, self._home, self._settings = folder, home, settings
        self._store = ObjectStore(
            home.url, home.options, seconds_max=_REQUEST_SECONDS, patience=_REQUEST_SECONDS
        )
        self._held = ExitStack()

    def begin(self) -> None:
        """Own the home, and say that it is being restored. Raises InvalidRequest when there is no
        backup, or the home isn't empty; HomeLocked while a gateway uses it."""
        self._source = self._held.enter_context(reading(self._folder))
        self._wanted = Wanted.of(self._source, self._home.url, self._settings, on_a_store=True)
        self._require_empty()
        owner = acquire_lease(self._home, _LEASE_SECONDS)
        self._held.callback(owner.release)
        self._held.enter_context(renewed(owner, _LEASE_SECONDS / BEATS))
        self._store.put(RESTORING, self._wanted.digest.encode())

    def fill(self, progress: Progress) -> None:
        """Put all of it."""
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
        self._store.put(file.path, data)
        return file.size

    def end(self) -> RestoreReport:
        """It may be served."""
        self._store.delete([RESTORING])
        return self._wanted.report(self._home.url, self._began, settings=self._settings is not None)

    def close(self) -> None:
        """Let go of the home and the backup, whether it was restored or not."""
        self._held.close()

    def _require_empty(self) -> None:
        names = {*self._store.files(""), *self._store.folders("")} - _EMPTY
        if RESTORING in names and self._store.read(RESTORING).decode() == self._wanted.digest:
            return
        if names:
            raise InvalidRequest(
                f"{self._home.url} isn't empty, it has {min(names)}: nothing is overwritten. Name "
                "an address with nothing below it, or remove that"
            )


def restore(
    restores: Sequence[StoreRestore], progress: Progress, lake: "LakeObjects | None" = None
) -> list[RestoreReport]:
    """All of these, of one lake if there is more than one: served when all are whole."""
    try:
        for one in restores:
            one.begin()
        for one in restores:
            one.fill(progress)
        if lake is not None:
            lake.put()
        return [one.end() for one in restores]
    except OSError as error:
        raise StoreError(f"the home couldn't be restored: {error}. Repeat it") from error
    finally:
        for one in restores:
            one.close()


class LakeObjects:
    """The files of a lake that aren't in a log, to be put at its address."""

    def __init__(self, home: ObjectHome, files: LakeFiles) -> None:
        self._store = ObjectStore(
            home.url, home.options, seconds_max=_REQUEST_SECONDS, patience=_REQUEST_SECONDS
        )
        self._files = files

    def put(self) -> None:
        """The secret, then what makes it a lake. Raises OSError."""
        self._store.put(SECRET, self._files.secret.encode())
        self._store.put(PLACEMENT, msgspec.json.encode(self._files.placement))
