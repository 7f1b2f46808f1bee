"""A gateway's home without a disk."""

from distributary.ingest.commit.objects.object_home_opening import open_object_store
from distributary.ingest.commit.table_location import object_home
from distributary.ingest.gateway.any_home import OwnedHome, WaitingHome
from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.tables.object_home.lease import LeaseOwner, LeaseStandby, acquire_lease
from distributary.pipeline.tables.object_home.object_home import ObjectHome


class GatewayObjectHome:
    """Objects of a store. Implements `AnyHome`."""

    def __init__(self, address: str, settings: Settings) -> None:
        self._home = object_home(address, settings)
        self.address = self._home.url
        self._lease = settings.owner.lease_ms / 1_000

    def acquire(self) -> OwnedHome:
        return _owned(self._home, acquire_lease(self._home, self._lease))

    def standby(self) -> WaitingHome:
        return _ObjectStandby(self._home, LeaseStandby(self._home, self._lease))


class _ObjectStandby:
    def __init__(self, home: ObjectHome, standby: LeaseStandby) -> None:
        self._home, self._standby = home, standby
        self.seconds = standby.seconds

    @property
    def owner_pid(self) -> int:
        return self._standby.owner_pid

    def attempt(self, now: float) -> OwnedHome | None:
        owner = self._standby.attempt(now)
        return None if owner is None else _owned(self._home, owner)


def _owned(home: ObjectHome, owner: LeaseOwner) -> OwnedHome:
    return OwnedHome(owner, lambda settings: open_object_store(home, settings, owner))
