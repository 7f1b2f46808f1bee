"""The home of a gateway that owns no log of its lake: a folder of its own, for as long as it runs.

Its *private log* has the temporary destinations of its clients, which leave no record; all other
links are relayed. No other gateway can take it, so it needs no lease. But a gateway without a log
doesn't prevent a change of the placement. So each of its signs of life checks that the placement is
still the one that it began with. If not, the home is lost, and no more bytes are sent.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from distributary.ingest.commit.home_opening import Store, open_store
from distributary.ingest.gateway.ownership.any_home import OwnedHome, Waiting
from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.errors import (
    BeatFailed,
    HomeLocked,
    HomeLost,
    InvalidRequest,
    StoreError,
)
from distributary.pipeline.fleet.heirs import NOBODY
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.home.owner import Owner, acquire
from distributary.pipeline.tables.lake.lake import Lake

#: Prefix of the folders' names, in the system's folder for temporary files.
_PREFIX: Final = "distributary-none-"
#: Bytes of a segment of the journal, the least allowed: nothing is written to it.
_SEGMENT_BYTES: Final = 1 << 20
#: Signs of life in a lease.
BEATS: Final = 3


class PrivateOwner:
    """The owner of a private log. Implements `HomeOwner`. Threads: `beat` and `check` on any."""

    taken: Final = False
    #: Each sign of life is a request where the lake is on a store.
    beats: Final = BEATS

    def __init__(self, lake: Lake, folder: Path, owner: Owner) -> None:
        """`owner` owns the home in the folder; `release` removes the folder. Blocks. Raises
        StoreError."""
        self._lake, self._folder, self._owner = lake, folder, owner
        self._version = lake.placement().version

    def beat(self) -> None:
        """Raises HomeLost when the placement has changed, BeatFailed when it can't be read."""
        try:
            version = self._lake.placement().version
        except StoreError as error:
            raise BeatFailed(f"the placement can't be read: {error}") from error
        if version != self._version:
            raise HomeLost(
                f"the placement of {self._lake.address} has version {version} by now, and this "
                f"gateway relays by version {self._version}. Start it again"
            )

    def leave(self, heir: int = NOBODY) -> float:  # noqa: ARG002 (no standby waits for it)
        return 0.0

    def stay(self) -> None:
        """Do nothing: `leave` told no standby."""

    def check(self) -> None:
        self._owner.check()

    def release(self) -> None:
        self._owner.release()
        shutil.rmtree(self._folder, ignore_errors=True)


class PrivateHome:
    """The home of a private log. Implements `AnyHome`."""

    def __init__(self, lake: Lake, log: str, lease_seconds: float) -> None:
        # The loop's thread may read the placement, too: it must turn again within the lease.
        self._lake, self.address = lake.within(lease_seconds / (2 * BEATS)), log

    def acquire(self) -> OwnedHome:
        _remove_left()
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        home = Home(folder)
        owner = acquire(home)

        def opened(settings: Settings) -> Store:
            journal = replace(settings.journal, segment_bytes=_SEGMENT_BYTES)
            return open_store(home, replace(settings, journal=journal), owner)

        return OwnedHome(self.address, PrivateOwner(self._lake, folder, owner), opened)

    def standby(self, me: int = NOBODY) -> Waiting:  # noqa: ARG002 (no owner could name it)
        raise InvalidRequest(
            "--standby waits for a log, and --log none serves without one: leave one of both out"
        )


def _remove_left() -> None:
    """Remove the folders of this user's killed gateways, whose locks are free. A gateway without a
    lock file is just starting."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        home = Home(folder)
        with suppress(OSError, HomeLocked, StoreError):
            is_ours = not folder.is_symlink() and folder.stat().st_uid == os.geteuid()
            if is_ours and home.lock_path.exists():
                owner = acquire(home)
                shutil.rmtree(folder, ignore_errors=True)
                owner.release()
