"""LIKE: whether a text fits a pattern, in a time that grows with the text.

A pattern is cut at its `%`. The first piece must be at the start of the text, the last one at the
end. Each piece between them is searched behind the piece before, and only its first place is used:
if the rest fits anywhere, it fits behind that place. So a pattern goes over a text once. A piece
without `_` is found by `str.find`, whose time doesn't grow with the piece; one with `_` is tried at
each place, which counts as one pass for each of its characters (`passes`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from distributary.pipeline.selector.syntax import (
    ANY,
    ONE,
    Arithmetic,
    Comparison,
    Expression,
    Like,
    Literal,
    Part,
    children,
    pattern_parts,
)


@dataclass(frozen=True, slots=True)
class Piece:
    """The part of a pattern between two `%`."""

    parts: tuple[Part, ...]

    @property
    def literal(self) -> str | None:
        """The text of the piece; None if it has a `_`."""
        return None if ONE in self.parts else "".join(map(str, self.parts))

    def finder(self) -> Callable[[str, int, int], int]:
        """Return a function that finds the piece's first place in a text between two places; -1 if
        there is none."""
        if (literal := self.literal) is not None:
            return lambda text, start, stop: text.find(literal, start, stop)
        search = self._expression().search

        def find(text: str, start: int, stop: int) -> int:
            found = search(text, start, stop)
            return -1 if found is None else found.start()

        return find

    def fits(self) -> Callable[[str, int], bool]:
        """Return a function that tells whether the piece is at a place of a text."""
        if (literal := self.literal) is not None:
            return lambda text, at: text.startswith(literal, at)
        match = self._expression().match
        return lambda text, at: match(text, at) is not None

    def _expression(self) -> "re.Pattern[str]":
        ones = ("." if part == ONE else re.escape(str(part)) for part in self.parts)
        return re.compile(f"(?s:{''.join(ones)})")


def pieces(pattern: str, escape: str | None) -> list[Piece]:
    """Cut a pattern at its `%`: one piece more than `%`; pieces may be empty."""
    found: list[list[Part]] = [[]]
    for part in pattern_parts(pattern, escape) or []:
        if part == ANY:
            found.append([])
        else:
            found[-1].append(part)
    return [Piece(tuple(one)) for one in found]


def fitting(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Return a function that tells whether a text fits the pattern."""
    first, *rest = pieces(pattern, escape)
    size, begins = len(first.parts), first.fits()
    if not rest:
        return lambda text: len(text) == size and begins(text, 0)
    *between, last = rest
    end, ends = len(last.parts), last.fits()
    middle = [(one.finder(), len(one.parts)) for one in between if one.parts]
    shortest = size + end + sum(length for _, length in middle)

    def fits(text: str) -> bool:
        stop = len(text) - end
        if len(text) < shortest or not begins(text, 0) or not ends(text, stop):
            return False
        at = size
        for find, length in middle:
            at = find(text, at, stop)
            if at < 0:
                return False
            at += length
        return True

    return fits


def passes(expression: Expression) -> int:
    """Return how often an expression goes over the texts of a message, at most. A LIKE counts once,
    or as the characters of the longest piece with `_` between two `%` of its pattern; a `+` counts
    once, as does `=` or `<>` between two values that are no literals."""
    here = 0
    match expression:
        case Like(_, pattern, escape):
            between = pieces(pattern, escape)[1:-1]
            here = max((len(one.parts) for one in between if one.literal is None), default=1)
        case Arithmetic("+"):
            here = 1
        case Comparison("=" | "<>", left, right):
            here = int(not isinstance(left, Literal) and not isinstance(right, Literal))
    return here + sum(map(passes, children(expression)))
