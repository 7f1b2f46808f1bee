"""What a gateway asks of its home, whether that is a folder or objects of a store."""

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
        """Whether the former owner may still live without knowing."""

    @property
    def beats(self) -> int:
        """Signs of life in a lease."""

    def beat(self) -> None:
        """Show that this owner lives. Raises HomeLost and OSError when the home is lost, BeatFailed
        when it isn't known."""

    def leave(self, heir: int = NOBODY) -> float:
        """Say that the home will be given back soon, and who is to take it first. After so many
        seconds whoever waits for it has seen that; 0: nobody waits. Blocks. Raises as `beat`."""

    def stay(self) -> None:
        """Say that the home won't be given back soon, after all. Blocks. Raises as `beat`."""

    def check(self) -> None:
        """Raises HomeLost when the home has another owner; then it is lost for ever."""

    def release(self) -> None:
        """Give the home back. A second time does nothing."""


class OwnedHome(msgspec.Struct, frozen=True):
    """A home that is ours: where it is, its owner, and what opens it."""

    address: str
    owner: HomeOwner
    open: Callable[[Settings], Store]


OwnerT_co = TypeVar("OwnerT_co", bound=HomeOwner, covariant=True)


class _Waits(Protocol):
    """What whoever waits for a home knows of it."""

    @property
    def seconds(self) -> float:
        """Seconds between two attempts."""

    @property
    def leaving(self) -> bool:
        """Whether its owner said, when it was last looked at, that it will give it back soon, and
        to nobody else."""

    @property
    def named(self) -> bool:
        """Whether its owner has named this one as its heir, when it was last looked at."""

    @property
    def owner_pid(self) -> int:
        """The pid of its owner when it was last looked at; 0 when it isn't known."""

    def close(self) -> None:
        """Wait no more. A second time does nothing."""


class _Standby(_Waits, Protocol[OwnerT_co]):
    """What waits for a home, of either kind."""

    def attempt(self, clock: Callable[[], float], /) -> OwnerT_co | None:
        """Its new owner, if the former one is gone or has shown no life for a lease."""


class Waiting(_Waits, Protocol):
    """Waits for a home."""

    def read_ahead(self) -> None:
        """Read what a start needs of the home's table: the start goes on from there. Blocks; one
        thread at a time."""

    def attempt(self, clock: Callable[[], float], /) -> OwnedHome | None:
        """The home, if its owner is gone or has shown no life for a lease; `clock` says seconds and
        runs evenly. Raises StoreError."""


class WaitingHome(Generic[OwnerT_co]):
    """A home that one waits for. Implements `Waiting`."""

    def __init__(
        self,
        standby: _Standby[OwnerT_co],
        owned: Callable[[OwnerT_co], OwnedHome],
        read_ahead: Callable[[], None],
    ) -> None:
        """`owned`: the home of such an owner; `read_ahead` reads for it."""
        self._standby, self._owned, self._read_ahead = standby, owned, read_ahead

    @property
    def seconds(self) -> float:
        """Seconds between two attempts."""
        return self._standby.seconds

    @property
    def leaving(self) -> bool:
        """Whether its owner said, when it was last looked at, that it will give it back soon."""
        return self._standby.leaving

    @property
    def named(self) -> bool:
        """Whether its owner has named this one as its heir, when it was last looked at."""
        return self._standby.named

    @property
    def owner_pid(self) -> int:
        """The pid of its owner when it was last looked at; 0 when it isn't known."""
        return self._standby.owner_pid

    def attempt(self, clock: Callable[[], float]) -> OwnedHome | None:
        """The home, if its owner is gone or has shown no life for a lease."""
        owner = self._standby.attempt(clock)
        return None if owner is None else self._owned(owner)

    def read_ahead(self) -> None:
        """Read what a start needs of the home's table."""
        self._read_ahead()

    def close(self) -> None:
        """Wait no more."""
        self._standby.close()


class AnyHome(Protocol):
    """Where a gateway's home is."""

    @property
    def address(self) -> str:
        """As it is shown."""

    def acquire(self) -> OwnedHome:
        """Own it now. Raises HomeLocked, InvalidRequest, StoreError."""

    def standby(self, me: int = NOBODY) -> Waiting:
        """Wait for it; `me` is the number by which an owner may name this one as its heir."""
