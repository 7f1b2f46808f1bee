"""A home from a backup: all of it, each byte as its digest says, or nothing.

Rule 1: the files are made in a folder within the home, `.restoring`, and get their places when all
        are on the disk: the journal first, the tables last. Until then there is no table, and a
        gateway would begin an empty log or refuse to start.
Rule 2: the home's lock is held meanwhile, so no gateway starts and no other restore runs.
Rule 3: nothing is overwritten: the home is absent or empty, or has what a killed restore has left.
        While `.restoring` has the tables and the home has none, no gateway was ever started there,
        and what has its place was placed by that restore.
"""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Self

from distributary.ingest.backup.backup_folder import BackupFolder, reading
from distributary.ingest.backup.backup_run import Progress
from distributary.pipeline.backup.backup_manifest import (
    SETTINGS,
    BackedFile,
    BackupPoint,
    digest_of,
)
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.log_names import LOGS, PLACEMENT
from distributary.pipeline.tables.home.home import Home, make_folder
from distributary.pipeline.tables.home.owner import lock
from distributary.pipeline.tables.journal.segment import sync_directory, write_all
from distributary.pipeline.tables.lake.lake import SECRET

_STAGE: Final = ".restoring"
#: What an empty home may have: files of its lock, what a killed restore left, what a file system
#: has at its root; of a lake what isn't in its log `main`.
_EMPTY: Final = frozenset(
    {"lock", "lock.takeover", "lock.new", _STAGE, "lost+found", PLACEMENT, SECRET, LOGS}
)
#: What of a home gets its place last.
_LAST: Final = "tables"


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """What was restored: files of the home with their bytes, files of the settings; and how many
    of these nobody asked for."""

    home: str
    point: BackupPoint
    files: int
    bytes: int
    settings: int
    settings_left: int
    seconds: float


def restore(folder: Path, home: Home, settings: Path | None, progress: Progress) -> RestoreReport:
    """Make the home that the backup in the folder is of, and files of its settings in `settings`.

    Raises InvalidRequest when there is no backup, or the home or `settings` isn't empty;
    HomeLocked while a gateway uses the home; StoreError for damage: then nothing was restored.
    """
    began = time.monotonic()
    with reading(folder) as source:
        wanted = Wanted.of(source, str(home.root), settings, on_a_store=False)
        require_empty(home.root, wanted.of_home)
        making = _Making(source, progress, wanted.size)
        with lock(home) as owner:
            if settings is not None:
                make_settings(wanted, source, settings, progress)
            making.make(wanted.of_home, home.root, before_names=owner.check)
    return wanted.report(str(home.root), began, settings=settings is not None)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a backup has: files of the home by their paths, those of the settings by theirs."""

    point: BackupPoint
    of_home: Mapping[PurePosixPath, BackedFile]
    of_settings: Mapping[PurePosixPath, BackedFile]
    digest: str

    @classmethod
    def of(
        cls, source: BackupFolder, home: str, settings: Path | None, *, on_a_store: bool
    ) -> Self:
        """Raises InvalidRequest when there is no backup, it is of another kind of home, or
        `settings` has other files than these."""
        manifest = source.manifest()
        if manifest is None:
            raise InvalidRequest(
                f"{source.root} has no manifest.json: it is no backup, or none was ever completed "
                "there"
            )
        manifest.require_place(home, on_a_store=on_a_store)
        files = {PurePosixPath(file.path): file for file in manifest.files}
        of_home = {path: file for path, file in files.items() if not file.of_settings}
        short = {
            path.relative_to(SETTINGS): file for path, file in files.items() if file.of_settings
        }
        if settings is not None:
            _require_same(settings, source, short)
        return cls(manifest.point, of_home, short, digest_of(manifest.encode()))

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return sum(file.size for file in (*self.of_home.values(), *self.of_settings.values()))

    def report(self, home: str, began: float, *, settings: bool) -> RestoreReport:
        """What was made of them since `began`."""
        return RestoreReport(
            home,
            self.point,
            len(self.of_home),
            sum(file.size for file in self.of_home.values()),
            len(self.of_settings) if settings else 0,
            0 if settings else len(self.of_settings),
            round(time.monotonic() - began, 3),
        )


def make_settings(wanted: Wanted, source: BackupFolder, folder: Path, progress: Progress) -> None:
    """The files of the settings in a folder, made if it is absent; without those that a restore
    which was cut off has placed."""
    make_folder(folder, "the folder of the settings")
    missing = {
        path: file for path, file in wanted.of_settings.items() if not (folder / path).exists()
    }
    _Making(source, progress, wanted.size).make(missing, folder)


def _require_same(
    folder: Path, source: BackupFolder, files: Mapping[PurePosixPath, BackedFile]
) -> None:
    """Raises InvalidRequest for a folder of settings with anything else in it than these files:
    those may be what a restore that was cut off has placed."""
    same = {
        path.parts[0]
        for path, file in files.items()
        if (folder / path).is_file()
        and (folder / path).read_bytes() == b"".join(map(source.piece, file.pieces))
    }
    require_empty(folder, placed=same)


def require_empty(
    folder: Path, files: Iterable[PurePosixPath] = (), *, placed: AbstractSet[str] = frozenset()
) -> None:
    """Raises InvalidRequest for a folder with other things in it than an empty home has, or than a
    killed restore of these files has left, or than what was `placed`."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InvalidRequest(f"{folder} is no folder. Name another one")
    found = {path.name for path in folder.iterdir()} - _EMPTY - _placed(folder, files) - placed
    if found:
        raise InvalidRequest(
            f"{folder} isn't empty, it has {min(found)}: nothing is overwritten. Name a folder "
            "that is empty or doesn't exist, or move that one away"
        )


def _placed(folder: Path, files: Iterable[PurePosixPath]) -> set[str]:
    """Names of the files, or of folders that they are in, which a killed restore has placed."""
    if (folder / _LAST).exists() or not (folder / _STAGE / _LAST).exists():
        return set()
    names = {path.parts[0] for path in files}
    return {name for name in names if (folder / name).exists()}


@dataclass(slots=True)
class _Making:
    """Files being made of pieces; `done` bytes of `total`."""

    source: BackupFolder
    progress: Progress
    total: int
    done: int = 0

    def make(
        self,
        files: Mapping[PurePosixPath, BackedFile],
        root: Path,
        before_names: Callable[[], None] = lambda: None,
    ) -> None:
        """The files in the folder, durable; after an error none of them is there."""
        stage = root / _STAGE
        for name in _placed(root, files):
            shutil.rmtree(root / name)
        shutil.rmtree(stage, ignore_errors=True)
        try:
            stage.mkdir()
            for path, file in files.items():
                self._write(file, stage / path)
            for folder, _, _ in os.walk(stage):
                sync_directory(Path(folder))
            before_names()
            for made in sorted(stage.iterdir(), key=lambda one: (one.name == _LAST, one.name)):
                made.rename(root / made.name)
                sync_directory(root)
        finally:
            shutil.rmtree(stage, ignore_errors=True)

    def _write(self, file: BackedFile, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd, at = os.open(path, flags, 0o600), 0
        try:
            for name in file.pieces:
                piece = self.source.piece(name)
                write_all(fd, [piece], at)
                at += len(piece)
                self.done += len(piece)
                self.progress("files", self.done, self.total)
            if at != file.size:
                raise StoreError(f"{file.path} of the backup has {at} bytes, not {file.size}")
            os.fchmod(fd, file.mode)
            os.fsync(fd)
        finally:
            os.close(fd)
