"""A gateway's part in the fleet of its lake, to what waits for a home and to what serves it.

`ingest.fleet` has it; it is loaded where a home has several logs.
"""

from typing import Protocol

import msgspec

from distributary.ingest.gateway.ownership.any_home import HomeOwner
from distributary.pipeline.fleet.heirs import NOBODY


class MachineSeen(msgspec.Struct, frozen=True):
    """What a machine of the fleet has, as this gateway sees it: owners of logs, gateways that stand
    by, and such that own no log."""

    machine: str
    owners: int
    standbys: int
    relays: int


class FleetPart(Protocol):
    """All methods run on the loop's thread."""

    @property
    def number(self) -> int:
        """By which an owner may name this gateway as its heir."""

    @property
    def heir(self) -> int:
        """To whom it gives its log, once it hands over."""

    def waits(self) -> None:
        """It stands by, from now on."""

    def ready(self, *, ready: bool) -> None:
        """As a standby: an owner has named it as its heir and it has read ahead; or not any
        more."""

    def serves(self, log: str, owner: HomeOwner) -> None:
        """It serves this log, from now on."""

    async def rest(self) -> None:
        """It looks no more whether its log is to move, and names nobody any more: before its owner
        leaves."""

    def seen(self) -> list[MachineSeen]:
        """The machines, by their names."""

    async def close(self) -> None:
        """It is no member any more."""


class NoFleet:
    """That of a gateway whose home has one log."""

    number = heir = NOBODY

    def waits(self) -> None:
        """Nobody looks."""

    def ready(self, *, ready: bool) -> None:
        """Nobody names it."""

    def serves(self, log: str, owner: HomeOwner) -> None:
        """Nobody asks it to hand over."""

    async def rest(self) -> None:
        """It never looks."""

    def seen(self) -> list[MachineSeen]:
        """Nobody says anything."""
        return []

    async def close(self) -> None:
        """There is nothing."""
