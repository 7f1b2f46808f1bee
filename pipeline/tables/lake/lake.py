"""A lake: a home that may have several logs. The files by which its gateways know each other.

    lake.json            the placement (`pipeline.lake.placement`): it makes a home a lake
    lake.secret          the secret for logins between its gateways: 64 hexadecimal digits
    address              where the owner of `main` listens
    logs/LOG/            another log, laid out as a home, with an `address` of its own
    members/NUMBER       a gateway's report about itself, written again and again
    lake.move            the current order to move a log (`pipeline.fleet.moves`)

A gateway ignores `address`, `members/NUMBER` and `lake.move` if it can't read them, and never stops
because of them.

The placement and the order are replaced only if they are still as the writer has read them. An
address and a member's report may be stale: nothing safe rests on them.
"""

from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.fleet.members import Count, Member
from distributary.pipeline.fleet.moves import Move
from distributary.pipeline.lake.placement import Placement

#: Names in the home, beside those of `pipeline.log_names`.
SECRET: Final = "lake.secret"  # noqa: S105 (the name of the file)
ADDRESS: Final = "address"
MEMBERS: Final = "members"
MOVE: Final = "lake.move"
#: Random bytes of the secret.
SECRET_BYTES: Final = 32
#: Bytes of an address, of a member's report, of an order, at most: a longer file is ignored. A
#: member names the logs that it waits for; thousands fit.
SAID_BYTES_MAX: Final = 256 << 10

T = TypeVar("T")


class OwnerAddress(msgspec.Struct, frozen=True):
    """The address of a log's owner: `amqp://HOST:PORT`, or `amqps://`; its container id; since when
    it listens, in microseconds since 1970."""

    url: str
    container: str
    since: Count


class Lake(Protocol):
    """A lake's files. Each call blocks on a disk or a network: a gateway makes it on a thread."""

    @property
    def address(self) -> str:
        """The address of the home that is the lake."""

    def within(self, seconds: float) -> "Lake":
        """Return the same lake for requests that are repeated soon anyway: each fails without an
        answer after `seconds`."""

    def placement(self) -> Placement:
        """Read the placement. Raises StoreError."""

    def replace(self, seen: Placement | None, new: Placement) -> None:
        """Replace the placement `seen`, durably; None: make the lake. Raises InvalidRequest when
        the current placement is another one by now, StoreError."""

    def make(self, placement: Placement, secret: str) -> None:
        """Make the lake of a backup, durably. Raises InvalidRequest if it exists, StoreError."""

    def secret(self) -> str:
        """Read the secret of the lake's gateways. Raises StoreError."""

    def log_home(self, log: str) -> str:
        """Return the address of a log's home."""

    def address_of(self, log: str) -> OwnerAddress | None:
        """Read the address of the log's owner, or of the gateway that has a private log; None if
        it is absent or can't be read. Raises StoreError when the disk or store doesn't answer."""

    def say_address(self, log: str, address: OwnerAddress) -> None:
        """Write where the log's owner listens; only the owner calls it. Raises StoreError."""

    def members(self) -> list[Member]:
        """Read the last report of each gateway, in no order; some gateways may have ended. Raises
        StoreError."""

    def say_member(self, member: Member) -> None:
        """Write a gateway's own report over its last one; it needn't be durable. Raises
        StoreError."""

    def forget_members(self, numbers: Sequence[int]) -> None:
        """Remove the reports of these gateways; absent ones are no error. Raises StoreError."""

    def move(self) -> Move | None:
        """Read the current order; None if there is none or it can't be read. Raises StoreError."""

    def replace_move(self, seen: Move | None, new: Move) -> bool:
        """Replace the order `seen`. False when the current order is another one by now. Raises
        StoreError."""


def read_secret(said: bytes, where: str) -> str:
    """Parse a lake.secret. Raises StoreError."""
    text = said.decode("ascii", "replace").strip()
    if len(text) != 2 * SECRET_BYTES or set(text) - set("0123456789abcdef"):
        raise StoreError(
            f"{where} isn't {2 * SECRET_BYTES} hexadecimal digits. Put back the one of a backup, "
            "or write other ones while no gateway of the lake runs"
        )
    return text


def read_address(said: bytes) -> OwnerAddress | None:
    """Parse an owner's address; None if it can't be understood."""
    return _read(said, OwnerAddress)


def address_of_member(said: bytes, number: int) -> OwnerAddress | None:
    """Return where the gateway with this number listens, by its report."""
    member = read_member(said, number)
    return None if member is None else OwnerAddress(member.url, "", member.said_at)


def member_path(number: int) -> str:
    """Return the path of the report of the gateway with this number."""
    return f"{MEMBERS}/{number}"


def member_number(name: str) -> int | None:
    """Return the number of the gateway whose report has this name; None for other names."""
    return int(name) if name.isdecimal() and name == str(int(name)) else None


def read_member(said: bytes, number: int) -> Member | None:
    """Parse the report of the gateway with this number; None if it can't be understood or has
    another number: in a copied file, the other gateway would seem to live twice."""
    member = _read(said, Member)
    return member if member is not None and member.number == number else None


def read_move(said: bytes) -> Move | None:
    """Parse the current order; None if it can't be understood, so that the next one replaces it."""
    return _read(said, Move)


def _read(said: bytes, kind: type[T]) -> T | None:
    """Parse a gateway's file; None if it has more than SAID_BYTES_MAX or can't be understood.
    (Deeply nested JSON raises RecursionError.)"""
    if len(said) > SAID_BYTES_MAX:
        return None
    try:
        return msgspec.json.decode(said, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def changed_meanwhile(where: str) -> InvalidRequest:
    """Return the error for a file that another process changed first."""
    return InvalidRequest(
        f"{where} was changed by another process meanwhile. Look again and repeat it"
    )
