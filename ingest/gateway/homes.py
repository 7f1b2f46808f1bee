"""Which home a gateway has: a folder of a disk, or objects of a store. It is chosen once, by the
address, at the start.
"""

from pathlib import Path

from distributary.ingest.commit.home_opening import open_store
from distributary.ingest.commit.table_location import is_address
from distributary.ingest.gateway.any_home import AnyHome, HomeOwner, OwnedHome, WaitingHome
from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.home.owner import Owner, Standby, acquire


def home_at(address: str, settings: Settings) -> AnyHome:
    """The home at this address: a path, or a store's URL. Raises InvalidRequest for another."""
    if not is_address(address):
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

    def standby(self) -> WaitingHome[HomeOwner]:
        return WaitingHome(Standby(self._home, self._lease), self._owned)

    def _owned(self, owner: Owner) -> OwnedHome:
        return OwnedHome(owner, lambda settings: open_store(self._home, settings, owner))
