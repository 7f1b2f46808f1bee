"""Names that must differ: for others' systems, which know fewer characters than ours do, and of
columns beside ours."""

from collections.abc import Collection, Iterable


def distinct(plain: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A name for each of ours, from pairs of ours and what is left of it: no two are the same, as
    later ones have a number behind them."""
    names: dict[str, str] = {}
    for ours, wanted in plain:
        name, number = wanted, 1
        while name in names.values():
            number += 1
            name = f"{wanted}_{number}"
        names[ours] = name
    return names


def beside(fields: Iterable[str], ours: Collection[str]) -> dict[str, str]:
    """The column of each field in a table that has columns of ours, too: one that is called as ours
    has so many `_` behind its name that no other is called so. Case doesn't matter; the names of
    ours are lower case."""
    names = list(fields)
    taken = {*ours, *(name.lower() for name in names)}
    found: dict[str, str] = {}
    for name in names:
        column = name
        while column.lower() in (taken if column != name else ours):
            column += "_"
        found[name] = column
    return found
