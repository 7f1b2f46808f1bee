"""The gateway's interface to its home, be it a folder or objects of a store."""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from distributary.ingest.commit.home_opening import Store
from distributary.ingest.runtime.settings import Settings
from distributary.pipeline.fleet.heirs import NOBODY


class HomeOwner(Protocol):
    """The right to write under a home, as long as `check` raises nothing."""

    @property
    def taken(self) -> bool:
        """Whether the home was taken from an owner that may still live without knowing it."""

    @property
    def beats(self) -> int:
        """Signs of life in a lease."""

    def beat(self) -> None:
        """Show that this owner lives. Raises HomeLost and OSError when the home is lost, BeatFailed
        when that isn't known."""

    def leave(self, heir: int = NOBODY) -> float:
        """Announce that the home will be given back soon, and the heir that is to take it first.
        Return the seconds after which each standby has seen that; 0: there is none. Blocks. Raises
        as `beat`."""

    def stay(self) -> None:
        """Withdraw the announcement of `leave`. Blocks. Raises as `beat`."""

    def check(self) -> None:
        """Raises HomeLost when the home has another owner; this one never gets it back."""

    def release(self) -> None:
        """Give the home back. A second call does nothing."""


class OwnedHome(msgspec.Struct, frozen=True):
    """A home that this process owns: its address, its owner, and the function that opens it."""

    address: str
    owner: HomeOwner
    open: Callable[[Settings], Store]


OwnerT_co = TypeVar("OwnerT_co", bound=HomeOwner, covariant=True)


class _Waits(Protocol):
    """A standby's knowledge of the home for which it waits."""

    @property
    def seconds(self) -> float:
        """Seconds between two attempts."""

    @property
    def leaving(self) -> bool:
        """Whether the owner, at the last look, was to give the home back soon, and named no other
        heir."""

    @property
    def named(self) -> bool:
        """Whether the owner, at the last look, had named this standby as its heir."""

    @property
    def owner_pid(self) -> int:
        """The owner's pid at the last look; 0 when it isn't known."""

    def close(self) -> None:
        """Wait no more. A second call does nothing."""


class _Standby(_Waits, Protocol[OwnerT_co]):
    """A standby for a home of one kind: a folder, or objects of a store."""

    def attempt(self, clock: Callable[[], float], /) -> OwnerT_co | None:
        """Take the home, if its owner is gone or has shown no sign of life for a lease."""


class Waiting(_Waits, Protocol):
    """A standby for a home of either kind."""

    def read_ahead(self) -> None:
        """Read the part of the home's table that a start needs: the start goes on from there.
        Blocks; one thread at a time."""

    def attempt(self, clock: Callable[[], float], /) -> OwnedHome | None:
        """Take the home, if its owner is gone or has shown no sign of life for a lease. `clock`
        returns seconds and is monotonic. Raises StoreError."""


class WaitingHome(Generic[OwnerT_co]):
    """A standby for one home. Implements `Waiting`."""

    def __init__(
        self,
        standby: _Standby[OwnerT_co],
        owned: Callable[[OwnerT_co], OwnedHome],
        read_ahead: Callable[[], None],
    ) -> None:
        """`owned` makes the home of its new owner; `read_ahead` reads its table before."""
        self._standby, self._owned, self._read_ahead = standby, owned, read_ahead

    @property
    def seconds(self) -> float:
        """Seconds between two attempts."""
        return self._standby.seconds

    @property
    def leaving(self) -> bool:
        """Whether the owner, at the last look, was to give the home back soon."""
        return self._standby.leaving

    @property
    def named(self) -> bool:
        """Whether the owner, at the last look, had named this standby as its heir."""
        return self._standby.named

    @property
    def owner_pid(self) -> int:
        """The owner's pid at the last look; 0 when it isn't known."""
        return self._standby.owner_pid

    def attempt(self, clock: Callable[[], float]) -> OwnedHome | None:
        """Take the home, if its owner is gone or has shown no sign of life for a lease."""
        owner = self._standby.attempt(clock)
        return None if owner is None else self._owned(owner)

    def read_ahead(self) -> None:
        """Read the part of the home's table that a start needs."""
        self._read_ahead()

    def close(self) -> None:
        """Wait no more."""
        self._standby.close()


class AnyHome(Protocol):
    """A home of either kind, not owned yet."""

    @property
    def address(self) -> str:
        """The address as it is shown."""

    def acquire(self) -> OwnedHome:
        """Take the home now. Raises HomeLocked, InvalidRequest, StoreError."""

    def standby(self, me: int = NOBODY) -> Waiting:
        """Wait for the home; an owner may name this standby as its heir by the number `me`."""
