"""Values of properties that selectors require. A message's value then gives the selectors that it
may match: of many that compare one property, most needn't be evaluated.

Rule 1: a lookup finds every selector that matches, and perhaps others: each one found is still
        evaluated.
"""

from collections.abc import Iterable, Sequence

from distributary.pipeline.selector.syntax import (
    And,
    Comparison,
    Expression,
    Identifier,
    In,
    Literal,
    Or,
)

#: A name, and its allowed values.
Key = tuple[str, frozenset[object]]

#: Integers below it are compared as doubles without a difference.
_SAME_AS_DOUBLE = 1 << 53


def required(expression: Expression) -> dict[str, frozenset[object]]:
    """Return names with their allowed values: the expression isn't true of a message in which a
    name has another value. Values are compared as in Python: 1, 1.0 and True are equal."""
    match expression:
        case Comparison("=", Identifier(name), Literal(value)) if _plain(value):
            return {name: frozenset((value,))}
        case In(Identifier(name), choices):
            return {name: frozenset(choices)}
        case And(operands):
            return _all(map(required, operands))
        case Or(operands):
            return _any([required(operand) for operand in operands])
    return {}


def _plain(value: bool | float | str) -> bool:
    """Whether each value that a selector finds equal to this one is equal in Python, too."""
    if isinstance(value, bool | str):
        return True
    return isinstance(value, int) and abs(value) < _SAME_AS_DOUBLE


def _all(operands: Iterable[dict[str, frozenset[object]]]) -> dict[str, frozenset[object]]:
    found: dict[str, frozenset[object]] = {}
    for operand in operands:
        for name, values in operand.items():
            found[name] = found[name] & values if name in found else values
    return found


def _any(operands: Sequence[dict[str, frozenset[object]]]) -> dict[str, frozenset[object]]:
    names = set(operands[0]).intersection(*operands)
    return {
        name: frozenset[object]().union(*[operand[name] for operand in operands]) for name in names
    }


def keyed(all_required: Sequence[dict[str, frozenset[object]]]) -> list[Key | None]:
    """Return for each selector the name by which it is looked up: the one with the most different
    values in all selectors. None if the selector requires no value."""
    values: dict[str, set[object]] = {}
    for one in all_required:
        for name, some in one.items():
            values.setdefault(name, set()).update(some)
    return [
        max(one.items(), key=lambda key: len(values[key[0]]), default=None) for one in all_required
    ]
