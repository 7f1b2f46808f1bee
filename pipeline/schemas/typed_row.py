"""Row of a message, or the reason why it has none, a misfit.

A row has a value for each column of the layout, in the layout's order. Values: bool, int, float,
`decimal.Decimal` (with exactly the column's scale or fewer digits behind the point), str, bytes,
`datetime.date`, `datetime.datetime` (with UTC), a list, a dict of columns for a struct, a dict of
texts for a map, None. Arrow makes columns of them without conversion.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias, TypeVar

from distributary.pipeline.codec.quoting import quoted

RowValue: TypeAlias = (
    "bool | int | float | Decimal | str | bytes | date | datetime | list[RowValue] | "
    "dict[str, RowValue] | None"
)
TypedRow: TypeAlias = dict[str, RowValue]
T = TypeVar("T")

#: Characters of a reason at most: an outcome with it must fit into a frame of 512 bytes.
REASON_CHARACTERS_MAX = 240


@dataclass(frozen=True, slots=True)
class Misfit:
    """The reason why a message has no row: `place` is a JSON pointer into the body (empty: the
    whole body), or `/cloudEvents:NAME`; `reason` a sentence with the value."""

    place: str
    reason: str

    @property
    def sentence(self) -> str:
        return f"{self.place}: {self.reason}" if self.place else self.reason


class NotFitting(Exception):
    """A value doesn't fit; `reason` says why. The readers of the values around it add the place,
    from the inside out."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = cut(reason)
        self._inside_out: list[str | int] = []

    def within(self, part: str | int) -> "NotFitting":
        """Add a level to the place: `part` is the name or the index of this value."""
        self._inside_out.append(part)
        return self

    @property
    def misfit(self) -> Misfit:
        return Misfit(pointer(self._inside_out[::-1]), self.reason)


def each_row(read: Callable[[T], RowValue], values: Iterable[T]) -> list[RowValue]:
    """Read the values of a list. Raises NotFitting with the index."""
    row: list[RowValue] = []
    for one in values:
        try:
            row.append(read(one))
        except NotFitting as wrong:
            raise wrong.within(len(row)) from None
    return row


def entries_row(
    read: Callable[[T], RowValue], entries: Iterable[tuple[str, T]]
) -> dict[str, RowValue]:
    """Read the entries of a map. Raises NotFitting with the key."""
    row: dict[str, RowValue] = {}
    for key, one in entries:
        try:
            row[key] = read(one)
        except NotFitting as wrong:
            raise wrong.within(key) from None
    return row


def pointer(parts: list[str | int]) -> str:
    """Return a JSON pointer (RFC 6901), cut to the length of a reason."""
    steps = (str(part).replace("~", "~0").replace("/", "~1") for part in parts)
    return "".join(f"/{step}" for step in steps)[:REASON_CHARACTERS_MAX]


def cut(reason: str) -> str:
    """Return a reason, cut to `REASON_CHARACTERS_MAX`."""
    if len(reason) <= REASON_CHARACTERS_MAX:
        return reason
    return reason[: REASON_CHARACTERS_MAX - 3] + "..."


def not_a(kind: str, value: object) -> NotFitting:
    return NotFitting(f"{quoted(value)} is no {kind}")
