"""A lake without a disk: objects below one address."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from secrets import token_hex
from typing import Final

import msgspec

from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.fleet.members import Member
from distributary.pipeline.fleet.moves import Move
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.lake.placement_text import read_placement
from distributary.pipeline.log_names import LOGS, MAIN, PLACEMENT, log_below, private_number
from distributary.pipeline.tables.delta.object_store import ObjectStore, Tag
from distributary.pipeline.tables.lake.lake import (
    ADDRESS,
    MEMBERS,
    MOVE,
    SAID_BYTES_MAX,
    SECRET,
    SECRET_BYTES,
    OwnerAddress,
    address_of_member,
    changed_meanwhile,
    member_number,
    member_path,
    read_address,
    read_member,
    read_move,
    read_secret,
)
from distributary.pipeline.tables.object_home.object_home import ObjectHome
from distributary.pipeline.tables.object_home.store_conditions import keeps_conditions

#: Seconds of one request at most, and seconds for which it is repeated.
_REQUEST_SECONDS: Final = 5.0
_PATIENCE_SECONDS: Final = 20.0


def object_lake(home: ObjectHome) -> "ObjectLake | None":
    """Return the lake at a store's address; None where there is no lake.json. Raises StoreError
    when the store doesn't answer."""
    lake = ObjectLake(home)
    return lake if lake.exists() else None


class ObjectLake:
    """A lake of objects, which is made by the first `replace`. Implements `Lake`."""

    def __init__(
        self,
        home: ObjectHome,
        patience: float = _PATIENCE_SECONDS,
        seconds_max: float = _REQUEST_SECONDS,
    ) -> None:
        """`patience`: seconds for which a request is repeated; each takes `seconds_max` at most.
        Raises InvalidRequest for an impossible address."""
        self.address, self._home = home.url, home
        self._store = ObjectStore(
            home.url, home.options, seconds_max=seconds_max, patience=patience
        )

    def within(self, seconds: float) -> "ObjectLake":
        return ObjectLake(self._home, 0.0, seconds)

    def exists(self) -> bool:
        """Whether there is a lake.json. Raises StoreError."""
        return self._read(PLACEMENT) is not None

    def placement(self) -> Placement:
        found = self._seen()
        if found is None:
            raise StoreError(f"{self._where(PLACEMENT)} is gone. Put back the one of a backup")
        return found[0]

    def replace(self, seen: Placement | None, new: Placement) -> None:
        if seen is None:
            self._begin()
        found = self._seen()
        if (found[0] if found is not None else None) != seen:
            raise changed_meanwhile(self._where(PLACEMENT))
        data = msgspec.json.encode(new)
        try:
            done = self._store.exchange(PLACEMENT, data, found[1] if found is not None else None)
        except OSError as error:
            raise self._silent(error) from error
        if done is None and self._read(PLACEMENT) != data:  # ours, if only the answer was lost
            raise changed_meanwhile(self._where(PLACEMENT))

    def make(self, placement: Placement, secret: str) -> None:
        if self.exists():
            raise changed_meanwhile(self._where(PLACEMENT))
        with self._asked():
            self._store.put(SECRET, secret.encode())
        self.replace(None, placement)

    def secret(self) -> str:
        said = self._read(SECRET)
        return read_secret(said or b"", self._where(SECRET))

    def log_home(self, log: str) -> str:
        return log_below(self.address, log)

    def address_of(self, log: str) -> OwnerAddress | None:
        if (number := private_number(log)) is not None:
            said, _ = self._said(member_path(number))
            return None if said is None else address_of_member(said, number)
        said, _ = self._said(_address_path(log))
        return None if said is None else read_address(said)

    def say_address(self, log: str, address: OwnerAddress) -> None:
        with self._asked():
            self._store.put(_address_path(log), msgspec.json.encode(address))

    def members(self) -> list[Member]:
        with self._asked():
            names = self._store.files(MEMBERS)
        found = []
        for number in map(member_number, names):
            if number is not None:
                said, _ = self._said(member_path(number))
                found.append(None if said is None else read_member(said, number))
        return [member for member in found if member is not None]

    def say_member(self, member: Member) -> None:
        with self._asked():
            self._store.put(member_path(member.number), msgspec.json.encode(member))

    def forget_members(self, numbers: Sequence[int]) -> None:
        with self._asked():
            self._store.delete([member_path(number) for number in numbers])

    def move(self) -> Move | None:
        said, _ = self._said(MOVE)
        return None if said is None else read_move(said)

    def replace_move(self, seen: Move | None, new: Move) -> bool:
        said, tag = self._said(MOVE)
        if (None if said is None else read_move(said)) != seen:
            return False
        data = msgspec.json.encode(new)
        with self._asked():
            done = self._store.exchange(MOVE, data, tag)
        return done is not None or self._read(MOVE) == data  # ours, if only the answer was lost

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Turn an OSError of the block into a StoreError, one sentence."""
        try:
            yield
        except OSError as error:
            raise self._silent(error) from error

    def _begin(self) -> None:
        """Check the store's conditions and make the secret, before the placement is made."""
        try:
            if not keeps_conditions(self._store):
                raise InvalidRequest(
                    f"{self.address} can't be a lake: its store ignores conditions of puts, and of "
                    "two changes at once one would be lost. Name another store"
                )
            self._store.create(SECRET, token_hex(SECRET_BYTES).encode())
        except OSError as error:
            raise self._silent(error) from error

    def _seen(self) -> tuple[Placement, Tag] | None:
        try:
            said, tag = self._store.tagged(PLACEMENT)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._silent(error) from error
        return read_placement(said, self._where(PLACEMENT)), tag

    def _said(self, path: str) -> tuple[bytes | None, Tag | None]:
        """Read a file and its tag; no bytes of one above SAID_BYTES_MAX; None if it is absent.
        Raises StoreError."""
        try:
            return self._store.tagged(path, SAID_BYTES_MAX)
        except FileNotFoundError:
            return None, None
        except OSError as error:
            raise self._silent(error) from error

    def _read(self, path: str) -> bytes | None:
        try:
            return self._store.read(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._silent(error) from error

    def _where(self, path: str) -> str:
        return f"{self.address}/{path}"

    def _silent(self, error: OSError) -> StoreError:
        return StoreError(f"the lake {self.address} can't be used: {error}. See to its store")


def _address_path(log: str) -> str:
    return ADDRESS if log == MAIN else f"{LOGS}/{log}/{ADDRESS}"
