"""Which home a gateway has: a folder of a disk, or objects of a store. It is chosen once, by the
address, at the start.
"""

from collections.abc import Callable
from pathlib import Path

from distributary.ingest.commit.home_opening import open_store
from distributary.ingest.gateway.any_home import AnyHome, OwnedHome, WaitingHome
from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.home.owner import Owner, Standby, acquire


def home_at(address: str, settings: Settings) -> AnyHome:
    """The home at this address: a path, or a store's URL. Raises InvalidRequest for another."""
    if "://" not in address:
        return _DiskHome(Home(Path(address)), settings)
    # Loading the client of object stores takes a while, and most homes need none.
    from distributary.ingest.gateway.object_homes import GatewayObjectHome  # noqa: PLC0415

    return GatewayObjectHome(address, settings)


class _DiskHome:
    """A folder."""

    def __init__(self, home: Home, settings: Settings) -> None:
        self._home, self._lease = home, settings.owner.lease_ms / 1_000
        self.address = str(home.root)

    def acquire(self) -> OwnedHome:
        return self._owned(acquire(self._home))

    def standby(self) -> WaitingHome:
        return _DiskStandby(Standby(self._home, self._lease), self._owned)

    def _owned(self, owner: Owner) -> OwnedHome:
        return OwnedHome(owner, lambda settings: open_store(self._home, settings, owner))


class _DiskStandby:
    def __init__(self, standby: Standby, owned: Callable[[Owner], OwnedHome]) -> None:
        self._standby, self._owned = standby, owned
        self.seconds = standby.seconds

    @property
    def owner_pid(self) -> int:
        return self._standby.owner_pid

    def attempt(self, now: float) -> OwnedHome | None:
        owner = self._standby.attempt(now)
        return None if owner is None else self._owned(owner)
