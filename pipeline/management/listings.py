"""Lists of queries, remembered between their parts: finding and sorting all names for each part of
a hundred would make a list of 10,000 cost a hundred times as much.

Rule 1: the first part (`offset` 0) always begins a new list; later parts go on in the same list
        while it is remembered.
Rule 2: LISTINGS_MAX lists are remembered, each for SECONDS; a later request gets a new list.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from distributary.pipeline.management.management_messages import Entity
from distributary.pipeline.model.subscription import SubscriptionKey

#: An entity's name, the topic whose permissions show it to users, and its subscription's key.
Name: TypeAlias = tuple[str, str, SubscriptionKey | None]

LISTINGS_MAX: Final = 4
SECONDS: Final = 60.0


class Listings:
    """The newest lists, by user and entity. `clock` gives seconds and never goes back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, Entity], tuple[float, list[Name]]] = {}

    def keep(self, user: str, entity: Entity, names: list[Name]) -> None:
        """Remember the list that this user begins to read."""
        self._kept.pop((user, entity), None)
        while len(self._kept) >= LISTINGS_MAX:
            del self._kept[next(iter(self._kept))]
        self._kept[user, entity] = (self._clock(), names)

    def of(self, user: str, entity: Entity) -> list[Name] | None:
        """Return the list that this user reads, if it is remembered."""
        began, names = self._kept.get((user, entity), (0.0, None))
        if names is not None and self._clock() - began > SECONDS:
            del self._kept[user, entity]
            return None
        return names
