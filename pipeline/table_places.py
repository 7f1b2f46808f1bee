"""Where the Delta tables of a home lie, below the folder of all its tables.

Rule: a table lies in that folder, or in the folder FOLDER of it, if it is of a topic, and nowhere
      deeper. Whoever lists a home's tables asks here.
"""

from collections.abc import Callable, Iterable
from typing import Final

#: Where typed tables lie.
FOLDER: Final = "topics"


def table_places(names: Callable[[str], Iterable[str]]) -> list[str]:
    """All places where there may be a table. `names` gives the folders in one below that of all
    tables, and none for one that isn't there."""
    return [*(one for one in names("") if one != FOLDER), *typed_places(names)]


def typed_places(names: Callable[[str], Iterable[str]]) -> list[str]:
    """Those of typed tables."""
    return [f"{FOLDER}/{one}" for one in names(FOLDER)]
