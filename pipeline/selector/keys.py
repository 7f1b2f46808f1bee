"""What a selector requires of a property, so that a message's own value says which selectors it may
match: of many that compare one property, most needn't be evaluated.

Rule 1: a selector is looked at by everything it requires, and wrongly at most once too often: what
        is found this way is evaluated still.
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

#: A name, and the values one of which it must have.
Key = tuple[str, frozenset[object]]

#: Integers below it are the same when they are compared as doubles.
_SAME_AS_DOUBLE = 1 << 53


def required(expression: Expression) -> dict[str, frozenset[object]]:
    """Names and values: the expression isn't true of any message in which one of the names has
    none of its values. Values are told apart as Python does: 1, 1.0 and True are one."""
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
    """Whether what a selector finds equal to it is equal to it in Python, too."""
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
    """By which of its names each of several selectors is looked up: the one that tells most of
    them apart. None: it requires nothing."""
    values: dict[str, set[object]] = {}
    for one in all_required:
        for name, some in one.items():
            values.setdefault(name, set()).update(some)
    return [
        max(one.items(), key=lambda key: len(values[key[0]]), default=None) for one in all_required
    ]
