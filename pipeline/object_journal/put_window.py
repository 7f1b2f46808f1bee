"""The groups of one owner that are on their way to the store: several at a time, accepted in order.

A group is accepted when its entry stands and those of all groups before it are accepted. Where
something else stands under its name, another owner has closed this journal: nothing that isn't
accepted by then ever will be, whatever stands behind it.
"""

from enum import Enum
from typing import Final

import msgspec

#: Groups under way at once at most, whatever the settings say: what a take-over may find behind
#: the seal, which is void.
WINDOW_MAX: Final = 64


class Put(Enum):
    """What became of a put that must not replace anything."""

    STANDS = "our entry stands under its name"
    TAKEN = "something else stands there"
    UNKNOWN = "nobody knows: it may stand, or come to stand later"


class Accept(msgspec.Struct, frozen=True):
    """The group is durable, and so are all before it."""

    group: int


class Again(msgspec.Struct, frozen=True):
    """Put the same bytes under the same name once more, after a while."""

    group: int


class Lost(msgspec.Struct, frozen=True):
    """Another owner has closed the journal at this group. Nothing more is accepted."""

    group: int


Effect = Accept | Again | Lost


class PutWindow:
    """Which groups are under way. `most`: how many may be at once."""

    def __init__(self, most: int) -> None:
        self._most = min(most, WINDOW_MAX)
        self._under_way: dict[int, bool] = {}  # in order; whether its entry stands
        self.lost = False

    @property
    def room(self) -> bool:
        """Whether another group may be begun."""
        return not self.lost and len(self._under_way) < self._most

    def begin(self, group: int) -> None:
        """The group's entry is put now. Groups come in order, without gaps."""
        if not self.room or (self._under_way and group != next(reversed(self._under_way)) + 1):
            raise ValueError(f"group {group} may not be begun")
        self._under_way[group] = False

    def answered(self, group: int, put: Put) -> list[Effect]:
        """One put of the group has ended: what follows, in order."""
        if self.lost or group not in self._under_way:
            return []
        match put:
            case Put.TAKEN:
                self.lost = True
                return [Lost(group)]
            case Put.UNKNOWN:
                return [Again(group)]
            case Put.STANDS:
                self._under_way[group] = True
        accepted: list[Effect] = []
        for first in list(self._under_way):
            if not self._under_way[first]:
                break
            del self._under_way[first]
            accepted.append(Accept(first))
        return accepted
