"""Restore of a home, or of all logs of a lake: whole, each byte compared with its digest, or left
with a marker so that no gateway serves it.

Order: look at all homes; own and mark all; compare all pieces; place all; the lake's own files;
take the markers away.

Rule 1: no gateway serves a home with the marker `restoring`. All homes have it before any file gets
        its place, and until all files have theirs. A restore that is refused before leaves none.
Rule 2: a marker names its backup, and a repeated restore takes homes with its marker for its own. A
        lake's own files are put when each log is whole and marked; so if these files and a log with
        our marker exist, a log without it is whole, and may have been served: it is left alone.
Rule 3: no file is overwritten: a home is empty, or has our marker and only files of the backup.
        That is checked again once the marker stands.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, Protocol

import msgspec

from distributary.ingest.backup.backup_run import Progress
from distributary.ingest.backup.wanted import RestoreReport, not_empty
from distributary.pipeline.backup.backup_manifest import digest_of
from distributary.pipeline.backup.lake_manifest import LakeManifest
from distributary.pipeline.errors import InvalidRequest, StoreError, of_a_file
from distributary.pipeline.log_names import LOGS, PLACEMENT
from distributary.pipeline.tables.lake.lake import ADDRESS, MEMBERS, MOVE, SECRET, Lake

#: Files of a lake that aren't its log `main`'s, and may lie in that log's home.
OF_A_LAKE: Final = frozenset({PLACEMENT, SECRET, ADDRESS, MEMBERS, MOVE, LOGS})


class Look(msgspec.Struct, frozen=True):
    """Contents of a home: whether it has our marker, and a foreign file; empty if it has none."""

    marked: bool
    foreign: str


class HomeRestore(Protocol):
    """The restore of one home; its steps in their order. `digest`: its backup's, from `open` on.
    `fresh`: it has written at most the marker. Raises StoreError for damage and for files that
    can't be written."""

    digest: str
    fresh: bool

    def open(self) -> None:
        """Read the backup's manifest. Raises InvalidRequest when there is no backup, or one of
        another kind of home; changes nothing."""

    def look(self, marker: str) -> Look:
        """Return the home's contents; changes nothing. Raises InvalidRequest where no home can
        be."""

    def begin(self, marker: str) -> None:
        """Own the home, and mark it. Raises InvalidRequest when other files came there meanwhile;
        HomeLocked while a gateway uses it."""

    def undo(self) -> None:
        """Take the marker back."""

    def check(self, progress: Progress) -> None:
        """Compare each piece with its digest; no file gets its place."""

    def place(self, progress: Progress) -> None:
        """Put all files in their places. Raises HomeLost when another process owns the home."""

    def require_ours(self) -> None:
        """Check that the home is still ours. Raises HomeLost."""

    def end(self) -> None:
        """Remove the marker: the home may be served."""

    def report(self) -> RestoreReport:
        """Return the report of the restore."""

    def close(self) -> None:
        """Let go of the home and the backup, whether it was restored or not."""


class RestoredLake(msgspec.Struct, frozen=True):
    """A backup's lake at its new address; `is_there`: there is a lake already."""

    lake: Lake
    manifest: LakeManifest
    is_there: bool

    def require_ours(self) -> None:
        """Raise InvalidRequest when another lake is there."""
        of = self.manifest
        if (self.lake.placement(), self.lake.secret()) != (of.placement, of.secret):
            raise InvalidRequest(
                f"{self.lake.address} is another lake: nothing is overwritten. Name another home"
            )

    def put(self) -> None:
        """Write the lake's own files. Raises InvalidRequest when another lake is there."""
        if not self.is_there:
            self.lake.make(self.manifest.placement, self.manifest.secret)


def restore(
    restores: Sequence[HomeRestore], progress: Progress, lake: RestoredLake | None = None
) -> list[RestoreReport]:
    """Restore all of these, of one lake if there is more than one; return their reports. Raises as
    HomeRestore does."""
    with ExitStack() as held, _told():
        for one in restores:
            held.callback(one.close)
            one.open()
        marker = digest_of("".join(one.digest for one in restores).encode())
        due = _due(restores, marker, lake)
        with _undone(due):
            for one in due:
                one.begin(marker)
            for one in due:
                one.check(progress)
        for one in due:
            one.place(progress)
        for one in due:
            one.require_ours()
        if lake is not None:
            lake.put()
        for one in due:
            one.end()
        return [one.report() for one in restores]


def _due(
    restores: Sequence[HomeRestore], marker: str, lake: RestoredLake | None
) -> list[HomeRestore]:
    """Return the restores that aren't whole yet. Raises InvalidRequest for a home with foreign
    files."""
    looks = [(one, one.look(marker)) for one in restores]
    if lake is not None and lake.is_there:
        lake.require_ours()
        looks = [(one, look) for one, look in looks if look.marked]
        if not looks:
            raise not_empty(lake.lake.address, "lake.json", "another home")
    for one, look in looks:
        require_empty(one, look)
    return [one for one, _ in looks]


def require_empty(one: HomeRestore, look: Look) -> None:
    """Raise InvalidRequest for a home with foreign files."""
    if look.foreign:
        raise not_empty(str(one), look.foreign, "a home that is empty or doesn't exist")


@contextmanager
def _undone(restores: Sequence[HomeRestore]) -> Iterator[None]:
    """Undo all beginnings if one restore is refused, but those of an earlier run."""
    try:
        yield
    except BaseException:
        if all(one.fresh for one in restores):
            for one in restores:
                one.undo()
        raise


@contextmanager
def _told() -> Iterator[None]:
    """Raise a store's error, which names no file, as StoreError with a sentence."""
    try:
        yield
    except OSError as error:
        if of_a_file(error) is not None:
            raise
        raise StoreError(f"the home couldn't be restored: {error}. Repeat it") from error
