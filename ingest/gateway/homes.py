"""A gateway's home: a folder of a disk, or objects of a store, as its address says."""

import os
import secrets
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Self

import msgspec

from distributary.ingest.commit.home_opening import open_store, table_ahead
from distributary.ingest.commit.table_location import is_address, is_lake
from distributary.ingest.gateway.free_log import FreeLog
from distributary.ingest.gateway.ownership.any_home import AnyHome, OwnedHome, Waiting, WaitingHome
from distributary.ingest.gateway.ownership.fleet_part import FleetPart, NoFleet
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.fleet.heirs import NOBODY, NUMBERS
from distributary.pipeline.log_names import ANY, LOGS, MAIN, NONE, private_log
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.home.owner import Owner, Standby, acquire

if TYPE_CHECKING:
    from distributary.ingest.gateway.lake_member import LakeMember


class ServedLog(msgspec.Struct, frozen=True):
    """The log that a gateway serves, of the home at an address. None, without `--log`, is the log
    `main`; ANY is any log without an owner, until one is `taken`."""

    root: str
    log: str | None = None

    @classmethod
    def asked(cls, root: str, log: str | None) -> Self:
        """Return the log that `--log` asks for; NONE makes a private log."""
        if log != NONE:
            return cls(root, log)
        return cls(root, private_log(secrets.randbelow(NUMBERS - 1) + 1))

    @property
    def name(self) -> str:
        """The log's name."""
        return self.log or MAIN

    def home(self, settings: Settings) -> AnyHome:
        """Return the log's home. Blocks. Raises InvalidRequest for an address or log that isn't
        valid, StoreError."""
        if self.log is None and _above(self.root).name != LOGS:
            return home_at(self.root, settings)
        from distributary.ingest.gateway import lake_member  # noqa: PLC0415 (most homes have one log)

        if self.log is None:
            lake_member.check_is_whole(self.root, settings)
        if self.log == ANY:
            homes = lake_member.homes_of(self.root, settings)
            return FreeLog(self.root, {log: home_at(at, settings) for log, at in homes.items()})
        member = lake_member.member_of(self.root, self.log, settings)
        if member is not None and member.is_private:
            from distributary.ingest.gateway.private_home import PrivateHome  # noqa: PLC0415 (few have one)

            return PrivateHome(member.lake, member.log, settings.owner.lease_ms / 1_000)
        return home_at(self.root if member is None else member.home, settings)

    def taken(self, address: str, settings: Settings) -> "ServedLog":
        """Return this, but with ANY the log whose home at `address` was taken. Blocks. Raises as
        `home`."""
        if self.log != ANY:
            return self
        from distributary.ingest.gateway import lake_member  # noqa: PLC0415 (most homes have one log)

        homes = lake_member.homes_of(self.root, settings)
        [log] = (log for log, at in homes.items() if home_at(at, settings).address == address)
        return ServedLog(self.root, log)

    def settings(self, given: Settings) -> Settings:
        """Return the settings of the log's gateway."""
        if self.log in {None, ANY}:
            return given
        from distributary.ingest.gateway import lake_member  # noqa: PLC0415 (most homes have one log)

        return lake_member.settings_of(self.log, given)

    def member(self, settings: Settings) -> "LakeMember | None":
        """Return the part in the lake of the log's owner; None where the home is no lake. Blocks.
        Raises as `home`."""
        if self.log is None and not is_lake(self.root, settings):
            return None
        from distributary.ingest.gateway import lake_member  # noqa: PLC0415 (most homes have one log)

        return lake_member.member_of(self.root, self.log, settings)

    def fleet(self, host: Host) -> FleetPart:
        """Join the fleet of the lake's gateways. Blocks. Raises as `home`."""
        if self.log is None and not is_lake(self.root, host.settings):
            return NoFleet()
        from distributary.ingest.gateway import lake_member  # noqa: PLC0415 (most homes have one log)

        return lake_member.fleet_of(self.root, self.log, host)


def home_at(address: str, settings: Settings) -> AnyHome:
    """Return the home at a path or a store's URL. Raises InvalidRequest for another address."""
    if not is_address(address):
        return _DiskHome(Home(Path(address)), settings)
    # Loading the client of object stores takes a while, and most homes need none.
    from distributary.ingest.gateway.object_homes import GatewayObjectHome  # noqa: PLC0415

    return GatewayObjectHome(address, settings)


def _above(address: str) -> PurePath:
    """Return the folder that contains a home. A loop of symbolic links is no error here: opening
    the home reports it."""
    return PurePath(address if is_address(address) else os.path.realpath(address)).parent


class _DiskHome:
    """A home that is a folder. Implements `AnyHome`."""

    def __init__(self, home: Home, settings: Settings) -> None:
        self._home, self._lease = home, settings.owner.lease_ms / 1_000
        self._ahead = table_ahead(home, settings)
        self.address = str(home.root)

    def acquire(self) -> OwnedHome:
        return self._owned(acquire(self._home))

    def standby(self, me: int = NOBODY) -> Waiting:
        return WaitingHome(Standby(self._home, self._lease, me), self._owned, self._ahead.read)

    def _owned(self, owner: Owner) -> OwnedHome:
        home, ahead = self._home, self._ahead
        return OwnedHome(
            self.address, owner, lambda settings: open_store(home, settings, owner, ahead.taken())
        )
