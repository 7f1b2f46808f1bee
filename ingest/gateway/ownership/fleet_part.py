"""A gateway's part in the fleet of its lake: the interface for a standby and for an owner.

`ingest.fleet` implements it, and is loaded where a home has several logs.
"""

from typing import Protocol

import msgspec

from distributary.ingest.gateway.ownership.any_home import HomeOwner
from distributary.pipeline.fleet.heirs import NOBODY


class MachineSeen(msgspec.Struct, frozen=True):
    """The gateways of a machine, as this one sees them: numbers of owners of logs, of standbys, and
    of gateways that own no log."""

    machine: str
    owners: int
    standbys: int
    relays: int


class FleetPart(Protocol):
    """A gateway's membership in a fleet. All methods run on the loop's thread."""

    @property
    def number(self) -> int:
        """The number by which an owner may name this gateway as its heir."""

    @property
    def heir(self) -> int:
        """The number of the gateway to which this one hands over its log."""

    def waits(self) -> None:
        """Report that this gateway stands by, from now on."""

    def ready(self, *, ready: bool) -> None:
        """Report whether an owner has named this standby as its heir, and it has read ahead."""

    def serves(self, log: str, owner: HomeOwner) -> None:
        """Report that this gateway serves a log, from now on."""

    async def rest(self) -> None:
        """Stop looking for moves of the log, and stop naming heirs: before the owner leaves."""

    def seen(self) -> list[MachineSeen]:
        """Return the machines, by their names."""

    async def close(self) -> None:
        """End the membership."""


class NoFleet:
    """The part of a gateway whose home has one log: there is no fleet, and it does nothing."""

    number = heir = NOBODY

    def waits(self) -> None:
        """Do nothing."""

    def ready(self, *, ready: bool) -> None:
        """Do nothing: no owner names heirs."""

    def serves(self, log: str, owner: HomeOwner) -> None:
        """Do nothing: no log moves."""

    async def rest(self) -> None:
        """Do nothing."""

    def seen(self) -> list[MachineSeen]:
        """Return no machines."""
        return []

    async def close(self) -> None:
        """Do nothing."""
