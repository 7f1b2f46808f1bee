"""A gateway's home without a disk."""

from distributary.ingest.commit.objects.object_home_opening import (
    object_table_ahead,
    open_object_store,
)
from distributary.ingest.commit.table_location import object_home
from distributary.ingest.gateway.ownership.any_home import OwnedHome, Waiting, WaitingHome
from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.fleet.heirs import NOBODY
from distributary.pipeline.tables.object_home.lease import (
    LeaseOwner,
    LeaseStandby,
    acquire_lease,
    lease_of,
)


class GatewayObjectHome:
    """Objects of a store. Implements `AnyHome`."""

    def __init__(self, address: str, settings: Settings) -> None:
        self._home = object_home(address, settings)
        self.address = self._home.url
        self._lease = settings.owner.lease_ms / 1_000
        self._ahead = object_table_ahead(self._home, settings)

    def acquire(self) -> OwnedHome:
        return self._owned(acquire_lease(self._home, self._lease))

    def standby(self, me: int = NOBODY) -> Waiting:
        waits = LeaseStandby(lease_of(self._home, self._lease), me)
        return WaitingHome(waits, self._owned, self._ahead.read)

    def _owned(self, owner: LeaseOwner) -> OwnedHome:
        home, ahead = self._home, self._ahead
        return OwnedHome(
            self.address,
            owner,
            lambda settings: open_object_store(home, settings, owner, ahead.taken()),
        )
