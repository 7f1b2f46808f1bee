"""The restore of a home on a disk: see `restore_run`.

The files are made in a folder within the home, compared there, and get their places by renames:
the journal first, the tables last. So a home with our marker and tables is whole.
"""

import shutil
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

from distributary.ingest.backup.backup_folder import reading
from distributary.ingest.backup.backup_run import Progress
from distributary.ingest.backup.restore_run import OF_A_LAKE, Look, require_empty
from distributary.ingest.backup.wanted import (
    LAST,
    STAGE,
    Making,
    RestoreReport,
    Wanted,
    make_settings,
    not_written,
    place,
)
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log_names import RESTORING
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.home.owner import Owner, lock
from distributary.pipeline.tables.journal.segment import sync_directory
from distributary.pipeline.tables.lake.disk_lake import CHANGING, write_whole

_MODE: Final = 0o644
#: Files that an empty home may have: its lock's, and those at a file system's root. Names with a
#: dot are of a restore that was killed.
_EMPTY: Final = frozenset(
    {"lock", "lock.takeover", "lock.new", "lock.standby", "lost+found", CHANGING, *OF_A_LAKE}
)


class DiskRestore:
    """A folder. Implements `HomeRestore`."""

    def __init__(self, folder: Path, home: Home, settings: Path | None = None) -> None:
        self._began = time.monotonic()
        self._folder, self._home, self._settings = folder, home, settings
        self._held = ExitStack()
        self._owner: Owner | None = None
        self.digest, self.fresh, self._marked = "", True, False

    def __str__(self) -> str:
        return str(self._home.root)

    def open(self) -> None:
        self._source = self._held.enter_context(reading(self._folder))
        self._wanted = Wanted.of(self._source, str(self), self._settings, on_a_store=False)
        self.digest = self._wanted.digest

    def look(self, marker: str) -> Look:
        root = self._home.root
        if not root.exists():
            return Look(marked=False, foreign="")
        if not root.is_dir():
            raise InvalidRequest(f"{root} is no folder. Name another one")
        names = {path.name for path in root.iterdir() if path.name[0] != "."} - _EMPTY
        marked = self._is_marked(marker)
        if marked:
            names -= {RESTORING, *(set() if self._marked and self.fresh else self._wanted.tops)}
        return Look(marked, min(names, default=""))

    def _is_marked(self, marker: str) -> bool:
        with suppress(FileNotFoundError):
            return (self._home.root / RESTORING).read_text(errors="replace") == marker
        return False

    def begin(self, marker: str) -> None:
        self._owner = self._held.enter_context(lock(self._home))
        look = self.look(marker)
        require_empty(self, look)
        self.fresh, self._marked = not look.marked, True
        if self.fresh:
            try:
                write_whole(self._home.root / RESTORING, marker.encode(), _MODE)
            except OSError as error:
                raise not_written(self._home.root, error) from error
        require_empty(self, self.look(marker))
        self._whole = look.marked and (self._home.root / LAST).exists()

    def undo(self) -> None:
        if self._marked:
            shutil.rmtree(self._home.root / STAGE, ignore_errors=True)
            with suppress(OSError):
                self._unmark()

    def check(self, progress: Progress) -> None:
        making = Making(self._source, progress, self._wanted.size)
        if self._settings is not None:
            making.check(self._wanted.of_settings)
        if not self._whole:
            for name in self._wanted.tops:  # a restore that was cut off has placed these
                shutil.rmtree(self._home.root / name, ignore_errors=True)
            making.make(self._wanted.of_home, self._home.root)

    def place(self, progress: Progress) -> None:
        if self._settings is not None:
            make_settings(self._wanted, self._source, self._settings, progress)
        self.require_ours()
        if not self._whole:
            place(self._home.root)

    def require_ours(self) -> None:
        assert self._owner is not None  # noqa: S101 (`begin` was called)
        self._owner.check()

    def end(self) -> None:
        self.require_ours()
        self._unmark()

    def _unmark(self) -> None:
        (self._home.root / RESTORING).unlink()
        sync_directory(self._home.root)

    def report(self) -> RestoreReport:
        return self._wanted.report(str(self), self._began, settings=self._settings is not None)

    def close(self) -> None:
        self._held.close()
