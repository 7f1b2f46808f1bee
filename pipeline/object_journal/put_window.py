"""The groups of one owner whose puts are under way: several at a time, accepted in order.

A group is accepted when its entry is stored and all groups before it are accepted. If another entry
has its name, another owner has closed this journal: no group that isn't accepted by then ever will
be, even if its entry is stored.
"""

from enum import Enum
from typing import Final

import msgspec

#: Groups under way at a time, whatever the settings say, at most: a take-over may find as many
#: entries behind the seal, which are void.
WINDOW_MAX: Final = 64


class Put(Enum):
    """The result of a put that must not replace anything."""

    STANDS = "our entry is stored under its name"
    TAKEN = "another object has the name"
    UNKNOWN = "not known: the entry may be stored now or later"


class Accept(msgspec.Struct, frozen=True):
    """The group is durable, and so are all groups before it."""

    group: int


class Again(msgspec.Struct, frozen=True):
    """Put the same bytes under the same name again, after a while."""

    group: int


class Lost(msgspec.Struct, frozen=True):
    """Another owner has closed the journal at this group. Nothing more is accepted."""

    group: int


Effect = Accept | Again | Lost


class PutWindow:
    """The groups under way, `most` at a time."""

    def __init__(self, most: int) -> None:
        self._most = min(most, WINDOW_MAX)
        self._under_way: dict[int, bool] = {}  # in order; whether the entry is stored
        self.lost = False

    @property
    def room(self) -> bool:
        """Whether another group may be begun."""
        return not self.lost and len(self._under_way) < self._most

    def begin(self, group: int) -> None:
        """Note that the put of the group's entry begins. Groups come in order, without gaps."""
        if not self.room or (self._under_way and group != next(reversed(self._under_way)) + 1):
            raise ValueError(f"group {group} may not be begun")
        self._under_way[group] = False

    def answered(self, group: int, put: Put) -> list[Effect]:
        """Note the end of one put of the group; return the effects, in order."""
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
