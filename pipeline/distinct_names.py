"""Names that must differ: for foreign systems, which allow fewer characters than ours, and for
columns beside our own."""

from collections.abc import Collection, Iterable


def distinct(plain: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return a distinct name for each of ours, from pairs of our name and the wanted one: a number
    is added to later duplicates."""
    names: dict[str, str] = {}
    for ours, wanted in plain:
        name, number = wanted, 1
        while name in names.values():
            number += 1
            name = f"{wanted}_{number}"
        names[ours] = name
    return names


def beside(fields: Iterable[str], ours: Collection[str]) -> dict[str, str]:
    """Return the column of each field in a table that also has our columns. A field with the name
    of one of ours gets as many `_` behind it as make it distinct. Case is ignored; `ours` are in
    lower case."""
    names = list(fields)
    taken = {*ours, *(name.lower() for name in names)}
    found: dict[str, str] = {}
    for name in names:
        column = name
        while column.lower() in (taken if column != name else ours):
            column += "_"
        found[name] = column
    return found
