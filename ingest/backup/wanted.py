"""Files that a restore makes, and their making from the backup's pieces."""

import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path, PurePosixPath
from typing import Final, Self

from distributary.ingest.backup.backup_folder import BackupFolder
from distributary.ingest.backup.backup_run import Progress
from distributary.pipeline.backup.backup_manifest import (
    SETTINGS,
    BackedFile,
    BackupPoint,
    digest_of,
)
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.tables.home.home import make_folder
from distributary.pipeline.tables.journal.segment import sync_directory, write_all

#: The folder in which files are made until they get their places.
STAGE: Final = ".restoring"
#: The part of a home that gets its place last.
LAST: Final = "tables"


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """Report of a restore: files of the home with their bytes, files of the settings; and how many
    of the latter weren't asked for."""

    home: str
    point: BackupPoint
    files: int
    bytes: int
    settings: int
    settings_left: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Wanted:
    """A backup's files: of the home and of the settings, by their paths."""

    point: BackupPoint
    of_home: Mapping[PurePosixPath, BackedFile]
    of_settings: Mapping[PurePosixPath, BackedFile]
    digest: str

    @classmethod
    def of(
        cls, source: BackupFolder, home: str, settings: Path | None, *, on_a_store: bool
    ) -> Self:
        """Return a backup's files. Raises InvalidRequest when there is no backup, it is of another
        kind of home, or `settings` has other files than these."""
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
    def tops(self) -> set[str]:
        """Names of the home's own folder that the backup has."""
        return {path.parts[0] for path in self.of_home}

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in (*self.of_home.values(), *self.of_settings.values()))

    def report(self, home: str, began: float, *, settings: bool) -> RestoreReport:
        """Return the report of a restore since `began`."""
        return RestoreReport(
            home,
            self.point,
            len(self.of_home),
            sum(file.size for file in self.of_home.values()),
            len(self.of_settings) if settings else 0,
            0 if settings else len(self.of_settings),
            round(time.monotonic() - began, 3),
        )


@dataclass(slots=True)
class Making:
    """Files that are made of pieces; `done` bytes of `total`."""

    source: BackupFolder
    progress: Progress
    total: int
    done: int = 0

    def check(self, files: Mapping[PurePosixPath, BackedFile]) -> None:
        """Compare each piece with its digest. Raises StoreError for damage."""
        for file in files.values():
            for name in file.pieces:
                self._came("compared", len(self.source.piece(name)))

    def make(self, files: Mapping[PurePosixPath, BackedFile], root: Path) -> None:
        """Make the files below STAGE of the folder, durably. After an error none of them exists.
        Raises StoreError."""
        stage = root / STAGE
        shutil.rmtree(stage, ignore_errors=True)
        try:
            stage.mkdir()
            for path, file in files.items():
                self._write(file, stage / path)
            for folder, _, _ in os.walk(stage):
                sync_directory(Path(folder))
        except BaseException as error:
            shutil.rmtree(stage, ignore_errors=True)
            if isinstance(error, OSError):
                raise not_written(root, error) from error
            raise

    def _write(self, file: BackedFile, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd, at = os.open(path, flags, 0o600), 0
        try:
            for name in file.pieces:
                piece = self.source.piece(name)
                write_all(fd, [piece], at)
                at += len(piece)
                self._came("files", len(piece))
            if at != file.size:
                raise StoreError(f"{file.path} of the backup has {at} bytes, not {file.size}")
            os.fchmod(fd, file.mode)
            os.fsync(fd)
        finally:
            os.close(fd)

    def _came(self, what: str, size: int) -> None:
        self.done += size
        self.progress(what, self.done, self.total)


def place(root: Path) -> None:
    """Move the made files to their places in the folder, durably, LAST last."""
    stage = root / STAGE
    for made in sorted(stage.iterdir(), key=lambda one: (one.name == LAST, one.name)):
        made.rename(root / made.name)
        sync_directory(root)
    stage.rmdir()


def make_settings(wanted: Wanted, source: BackupFolder, folder: Path, progress: Progress) -> None:
    """Make the files of the settings in a folder, made if it is absent; skip files that an
    interrupted restore has placed."""
    make_folder(folder, "the folder of the settings")
    missing = {
        path: file for path, file in wanted.of_settings.items() if not (folder / path).exists()
    }
    Making(source, progress, wanted.size).make(missing, folder)
    place(folder)


def _require_same(
    folder: Path, source: BackupFolder, files: Mapping[PurePosixPath, BackedFile]
) -> None:
    """Raise InvalidRequest for a folder of settings with files that differ from these; equal ones
    may be of an interrupted restore."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise InvalidRequest(f"{folder} is no folder. Name another one")
    same = {
        path.parts[0]
        for path, file in files.items()
        if (folder / path).is_file()
        and (folder / path).read_bytes() == b"".join(map(source.piece, file.pieces))
    }
    if found := {path.name for path in folder.iterdir()} - same - {STAGE, "lost+found"}:
        raise not_empty(str(folder), min(found), "a folder that is empty or doesn't exist")


def require_apart(folder: Path, home: Path | None, settings: Path | None) -> None:
    """Raise InvalidRequest where one of these folders lies in another one: the backup's, the home's
    (None: it is on a store), and that of the settings' files."""
    named = {"--from": folder, "--home": home, "--settings": settings}
    places = {name: path.resolve() for name, path in named.items() if path is not None}
    for (inner, one), (outer, other) in permutations(places.items(), 2):
        if inner != "--from" and one.is_relative_to(other):
            raise InvalidRequest(
                f"{named[inner]} ({inner}) lies in {named[outer]} ({outer}): each has a folder of "
                "its own. Name another one"
            )


def not_written(root: Path, error: OSError) -> StoreError:
    """Return the error for a folder that a restore can't write to."""
    return StoreError(
        f"{root} can't be written to: {error.strerror or error}. See to the folder's rights and "
        "its disk's room, then repeat the restore"
    )


def not_empty(place: str, found: str, other: str) -> InvalidRequest:
    """Return the error for a place that isn't empty; `other`: the place to name instead."""
    return InvalidRequest(
        f"{place} isn't empty, it has {found}: nothing is overwritten. Name {other}, or move that "
        "away"
    )
