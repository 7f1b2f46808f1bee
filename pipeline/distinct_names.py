"""Names for others' systems, which know fewer characters than ours do."""

from collections.abc import Iterable


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
