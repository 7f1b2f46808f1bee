"""A home, or all logs of a lake, from a backup: all of it, each byte as its digest says, or nothing
that anybody serves.

Order: look at all homes; own and mark all; compare all pieces; place all; the lake's own files;
take the markers away.

Rule 1: a home with the marker `restoring` is served by nobody. All have it before anything gets its
        place, until all has. Who is refused before that leaves none.
Rule 2: a marker says which backup it is of, and a repeat takes homes with its marker for its own. A
        lake's own files are put when each log is whole and marked; so beside them, and a log with
        our marker, a log without it was whole, and may have been served since: it is left alone.
Rule 3: nothing is overwritten: a home is empty, or has our marker and nothing that isn't of the
        backup. That is asked again once the marker stands.
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

#: What of a lake isn't in its log `main`, and may be in that one's home.
OF_A_LAKE: Final = frozenset({PLACEMENT, SECRET, ADDRESS, MEMBERS, MOVE, LOGS})


class Look(msgspec.Struct, frozen=True):
    """What a home has: whether our marker, and something that isn't ours; empty if all is."""

    marked: bool
    foreign: str


class HomeRestore(Protocol):
    """The restore of one home; its steps in their order. `digest` is that of its backup, from
    `open` on. `fresh`: it has left nothing but, at most, the marker. Raises StoreError for damage
    and what can't be written."""

    digest: str
    fresh: bool

    def open(self) -> None:
        """Read what there is to restore. Raises InvalidRequest when there is no backup, or of
        another kind of home; changes nothing."""

    def look(self, marker: str) -> Look:
        """What the home has; changes nothing. Raises InvalidRequest where none can be."""

    def begin(self, marker: str) -> None:
        """Own the home, and mark it. Raises InvalidRequest when somebody has put anything there
        meanwhile; HomeLocked while a gateway uses it."""

    def undo(self) -> None:
        """Take the marker back."""

    def check(self, progress: Progress) -> None:
        """Compare each piece with its digest; nothing gets its place."""

    def place(self, progress: Progress) -> None:
        """Put all of it in its place. Raises HomeLost when another one owns the home."""

    def require_ours(self) -> None:
        """Raises HomeLost unless the home is ours yet."""

    def end(self) -> None:
        """It may be served."""

    def report(self) -> RestoreReport:
        """What was restored."""

    def close(self) -> None:
        """Let go of the home and the backup, whether it was restored or not."""


class RestoredLake(msgspec.Struct, frozen=True):
    """The lake that a backup is of, at its new address; `is_there`: there is a lake already."""

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
        """It is a lake from now on. Raises InvalidRequest when it has become another one."""
        if not self.is_there:
            self.lake.make(self.manifest.placement, self.manifest.secret)


def restore(
    restores: Sequence[HomeRestore], progress: Progress, lake: RestoredLake | None = None
) -> list[RestoreReport]:
    """Restore all of these, of one lake if there is more than one, and say what each has then.
    Raises as HomeRestore does."""
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
    """Those that aren't whole yet. Raises InvalidRequest when something is in the way of one."""
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
    """Raises InvalidRequest when something else is in a home."""
    if look.foreign:
        raise not_empty(str(one), look.foreign, "a home that is empty or doesn't exist")


@contextmanager
def _undone(restores: Sequence[HomeRestore]) -> Iterator[None]:
    """If one of them is refused, none has begun; what a restore before had begun stays so."""
    try:
        yield
    except BaseException:
        if all(one.fresh for one in restores):
            for one in restores:
                one.undo()
        raise


@contextmanager
def _told() -> Iterator[None]:
    """What a store says, which names no file, as a sentence."""
    try:
        yield
    except OSError as error:
        if of_a_file(error) is not None:
            raise
        raise StoreError(f"the home couldn't be restored: {error}. Repeat it") from error
