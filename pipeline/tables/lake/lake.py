"""A lake: a home that may have several logs. What every gateway of it reads and says.

lake.json            the placement (`pipeline.lake.placement`): what makes a home a lake
lake.secret          by which gateways of the lake log in at each other: 64 hexadecimal digits
address              where the owner of `main` listens
logs/LOG/            another log, laid out as a home; `address` in it likewise
members/NUMBER       what a gateway of the lake says of itself, again and again
lake.move            the order to move a log that stands (`pipeline.fleet.moves`)

Whatever stands in `address`, `members/NUMBER` and `lake.move` is read or is nothing: no gateway
stops because of it.

The placement and the order are replaced by whoever has read them, if they still stand. An address
may be stale, and so may be what a member says: nothing safe rests on it.
"""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.fleet.members import Count, Member
from distributary.pipeline.fleet.moves import Move
from distributary.pipeline.lake.placement import Placement

#: Names below the home, beside those of `pipeline.log_names`.
SECRET: Final = "lake.secret"  # noqa: S105 (the name of the file)
ADDRESS: Final = "address"
MEMBERS: Final = "members"
MOVE: Final = "lake.move"
#: Random bytes of the secret.
SECRET_BYTES: Final = 32
#: Bytes of an address, of what a member says, of an order: a longer file is none. A member names
#: the logs that it waits for, of which thousands have room.
SAID_BYTES_MAX: Final = 256 << 10

T = TypeVar("T")


class OwnerAddress(msgspec.Struct, frozen=True):
    """Where a log's owner listens: `amqp://HOST:PORT`, or `amqps://`; its container id; since when,
    in microseconds since 1970."""

    url: str
    container: str
    since: Count


class Lake(Protocol):
    """All that blocks on a disk or a network: a gateway asks on a thread."""

    @property
    def address(self) -> str:
        """The address of the home that is the lake."""

    def within(self, seconds: float) -> "Lake":
        """The same lake, for what is asked of it again soon: where a request isn't answered in so
        many seconds it fails."""

    def placement(self) -> Placement:
        """The placement as it stands. Raises StoreError."""

    def replace(self, seen: Placement | None, new: Placement) -> None:
        """Put a placement in the place of the one that was seen, durably; of None: make the lake.
        Raises InvalidRequest when another one stands there by now, StoreError."""

    def make(self, placement: Placement, secret: str) -> None:
        """Make the lake of a backup, durably. Raises InvalidRequest where there is one,
        StoreError."""

    def secret(self) -> str:
        """The secret of the lake's gateways. Raises StoreError."""

    def log_home(self, log: str) -> str:
        """The address of the home of a log."""

    def address_of(self, log: str) -> OwnerAddress | None:
        """Where the log's owner said that it listens, or the gateway that has a private log; None
        if nothing that can be read was said. Raises StoreError when the disk or store doesn't
        answer."""

    def say_address(self, log: str, address: OwnerAddress) -> None:
        """Say where the log's owner listens, which only the owner does. Raises StoreError."""

    def members(self) -> list[Member]:
        """What gateways have said of themselves last, also such that are no more; in no order.
        Raises StoreError."""

    def say_member(self, member: Member) -> None:
        """Say this of oneself, in the place of what was said before; it needn't be durable. Raises
        StoreError."""

    def forget_members(self, numbers: Sequence[int]) -> None:
        """These say nothing any more; those that nothing is known of are no error. Raises
        StoreError."""

    def move(self) -> Move | None:
        """The order that stands; None where there never was one, or where it can't be read. Raises
        StoreError."""

    def replace_move(self, seen: Move | None, new: Move) -> bool:
        """Put an order in the place of the one that was seen. False when another one stands there
        by now. Raises StoreError."""


def read_secret(said: bytes, where: str) -> str:
    """What a lake.secret says. Raises StoreError."""
    text = said.decode("ascii", "replace").strip()
    if len(text) != 2 * SECRET_BYTES or set(text) - set("0123456789abcdef"):
        raise StoreError(
            f"{where} isn't {2 * SECRET_BYTES} hexadecimal digits. Put back the one of a backup, "
            "or write other ones while no gateway of the lake runs"
        )
    return text


def read_address(said: bytes) -> OwnerAddress | None:
    """What an owner has said; None if it can't be understood."""
    return _read(said, OwnerAddress)


def address_of_member(said: bytes, number: int) -> OwnerAddress | None:
    """Where the gateway with this number listens, by what it has said of itself."""
    member = read_member(said, number)
    return None if member is None else OwnerAddress(member.url, "", member.said_at)


def member_path(number: int) -> str:
    """Where the gateway with this number says what it is, in the lake."""
    return f"{MEMBERS}/{number}"


def member_number(name: str) -> int | None:
    """The number of the gateway whose file has this name; None where that is none's."""
    return int(name) if name.isdecimal() and name == str(int(name)) else None


def read_member(said: bytes, number: int) -> Member | None:
    """What the gateway with this number has said of itself; None if it can't be understood, or was
    said by another one: a file that was copied would let that one live twice."""
    member = _read(said, Member)
    return member if member is not None and member.number == number else None


def read_move(said: bytes) -> Move | None:
    """The order that stands; None if it can't be understood, so that the next one replaces it."""
    return _read(said, Move)


def _read(said: bytes, kind: type[T]) -> T | None:
    """What gateways have said, whatever stands there by now; with more than SAID_BYTES_MAX it is
    nothing. (JSON that is nested deeply is a RecursionError.)"""
    if len(said) > SAID_BYTES_MAX:
        return None
    try:
        return msgspec.json.decode(said, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def changed_meanwhile(where: str) -> InvalidRequest:
    """Somebody else was quicker."""
    return InvalidRequest(
        f"{where} was changed by somebody else meanwhile. Look again and repeat it"
    )
