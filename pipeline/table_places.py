"""Places of a home's Delta tables, below the folder of all its tables.

Rule: a table is in that folder, or in its folder FOLDER, if it is a topic's, and nowhere deeper.
      All code that lists a home's tables uses this module.
"""

from collections.abc import Callable, Iterable
from typing import Final

#: The folder of typed tables.
FOLDER: Final = "topics"


def table_places(names: Callable[[str], Iterable[str]]) -> list[str]:
    """Return all places where a table may be. `names` returns the folders in a place below the
    folder of all tables, and none for a place that doesn't exist."""
    return [*(one for one in names("") if one != FOLDER), *typed_places(names)]


def typed_places(names: Callable[[str], Iterable[str]]) -> list[str]:
    """Return the places of typed tables, by `names` as above."""
    return [f"{FOLDER}/{one}" for one in names(FOLDER)]
