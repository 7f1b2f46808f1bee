"""A selector as a function: made once, then called for each message.

Three truth values: True, False, and None for unknown, also the value of a missing property. Only
True selects a message.

Rule 1: a comparison, LIKE and IN with a missing operand are unknown. Values of different types are
        unequal; `<`, `<=`, `>` and `>=` with a value that is no number are False.
Rule 2: arithmetic gives None where JMS defines no value: a missing operand or one of another type,
        a division by zero, an exact result beyond 64 bits.
Rule 3: two exact numbers are compared and calculated exactly; otherwise both become doubles.
Rule 4: no values raise an exception.
"""

import math
import operator
from collections.abc import Callable
from typing import TypeAlias, assert_never, cast

from distributary.pipeline.selector.lexer import EXACT_END
from distributary.pipeline.selector.like import fitting
from distributary.pipeline.selector.syntax import (
    And,
    Arithmetic,
    Between,
    Comparator,
    Comparison,
    Expression,
    Identifier,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Operator,
    Or,
    Selector,
    identifiers,
)

#: The value of an identifier: bool, int (64 bits), float or str, no subclasses; None if it is
#: missing. A value of another class is equal to no value and has no order.
Accessor: TypeAlias = Callable[[str], object]
Code: TypeAlias = Callable[[Accessor], object]
#: Compares two values of the same kind, none missing: numbers, or (for `=`) strings or booleans.
Relation: TypeAlias = Callable[[object, object], object]

#: Characters of a text for LIKE, and of a result of `+`, at most. A longer one gives unknown: one
#: message must not delay others for long.
TEXT_CHARS_MAX = 65_536

_RELATIONS = cast(
    "dict[Comparator, Callable[[object, object], bool]]",
    {
        "=": operator.eq,
        "<>": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    },
)


def compiled(selector: Selector) -> Callable[[Accessor], bool]:
    """Return a function that tells whether a message with these values is selected."""
    code = truth(selector)
    return lambda get: code(get) is True


def truth(selector: Selector) -> Code:
    """Return the selector as a function of a message's values; only True itself selects."""
    return _code(selector.expression)


def _code(node: Expression) -> Code:
    """Return the expression as a function; without identifiers it is a constant."""
    code = _composed(node)
    if isinstance(node, Literal) or next(identifiers(node), None) is not None:
        return code
    constant = code(lambda _name: None)
    return lambda _get: constant


def _composed(node: Expression) -> Code:  # noqa: C901 (one case for each kind)
    match node:
        case Literal(value):
            return lambda _get: value
        case Identifier(name):
            return lambda get: get(name)
        case Negative(operand):
            return _of_one(_negative, operand)
        case Arithmetic(sign, left, right):
            return _of_two(_ARITHMETIC[sign], left, right)
        case Comparison(comparator, left, right):
            return _comparison(comparator, left, right)
        case Between(operand, low, high):
            return _joined(
                [Comparison(">=", operand, low), Comparison("<=", operand, high)], decisive=False
            )
        case Like(operand, pattern, escape):
            return _of_one(_like(pattern, escape), operand)
        case In(identifier, choices):
            return _of_one(_in(frozenset(choices)), identifier)
        case IsNull(operand):
            return _of_one(lambda value: value is None, operand)
        case Not(operand):
            return _of_one(_not, operand)
        case And(operands):
            return _joined(operands, decisive=False)
        case Or(operands):
            return _joined(operands, decisive=True)
    assert_never(node)


def _of_one(function: Callable[[object], object], operand: Expression) -> Code:
    if isinstance(operand, Identifier):
        name = operand.name
        return lambda get: function(get(name))
    inner = _code(operand)
    return lambda get: function(inner(get))


def _of_two(
    function: Callable[[object, object], object], left: Expression, right: Expression
) -> Code:
    first, second = _code(left), _code(right)
    return lambda get: function(first(get), second(get))


# Logic.


def _not(value: object) -> bool | None:
    if value is True:
        return False
    return True if value is False else None


def _joined(operands: "list[Comparison] | tuple[Expression, ...]", *, decisive: bool) -> Code:
    """Return AND, which one False decides, or OR, which one True decides; otherwise one unknown
    operand makes it unknown."""
    codes, other = [_code(operand) for operand in operands], not decisive
    first, second = codes[:2]

    def both(get: Accessor) -> bool | None:
        one = first(get)
        if one is decisive:
            return decisive
        another = second(get)
        if another is decisive:
            return decisive
        return other if one is other and another is other else None

    def joined(get: Accessor) -> bool | None:
        result: bool | None = other
        for code in codes:
            value = code(get)
            if value is decisive:
                return decisive
            if value is not other:
                result = None
        return result

    return both if len(codes) == 2 else joined  # most have two


# Comparison.


def _comparison(comparator: Comparator, left: Expression, right: Expression) -> Code:
    if not isinstance(right, Literal):
        return _of_two(_related(comparator), left, right)
    against = _against(comparator, right.value)
    if comparator == "=" and isinstance(left, Identifier):
        return _equal(left.name, right.value, against)
    return _of_one(against, left)


def _equal(name: str, known: bool | float | str, otherwise: Callable[[object], object]) -> Code:
    """Return `name = literal`, the most frequent selector, without an inner call for a value of the
    literal's class; `otherwise` compares other values."""
    kind = known.__class__

    def equal(get: Accessor) -> object:
        value = get(name)
        return value == known if value.__class__ is kind else otherwise(value)

    return equal


def _against(comparator: Comparator, known: bool | float | str) -> Callable[[object], object]:
    """Return the comparison with a literal, which most comparisons are."""
    relation, unlike = _RELATIONS[comparator], comparator == "<>"
    if isinstance(known, bool | str):
        kind = known.__class__

        def same(value: object) -> bool | None:
            if value.__class__ is kind:
                return relation(value, known)
            return None if value is None else unlike

        return same
    approximate = float(known)

    def number(value: object) -> bool | None:
        kind = value.__class__
        if kind is int:
            return relation(value, known) if exact else relation(float(value), known)  # type: ignore[arg-type]
        if kind is float:
            return relation(value, approximate)
        return None if value is None else unlike

    exact = known.__class__ is int
    return number


def _related(comparator: Comparator) -> Callable[[object, object], bool | None]:
    relation, unlike = _RELATIONS[comparator], comparator == "<>"
    equality = comparator in ("=", "<>")

    def related(left: object, right: object) -> bool | None:
        if left is None or right is None:
            return None
        numbers = _numbers(left, right)
        if numbers is not None:
            return relation(*numbers)
        if equality and left.__class__ is right.__class__ and left.__class__ in (str, bool):
            return relation(left, right)
        return unlike

    return related


def _numbers(left: object, right: object) -> "tuple[int, int] | tuple[float, float] | None":
    """Return both values as numbers of one kind, or None."""
    match left, right:
        case (bool(), _) | (_, bool()):
            return None
        case int(), int():
            return left, right
        case int() | float(), int() | float():
            return float(left), float(right)
    return None


def _in(choices: frozenset[str]) -> Callable[[object], object]:
    def chosen(value: object) -> bool | None:
        if value.__class__ is str:
            return value in choices
        return None if value is None else False

    return chosen


def _like(pattern: str, escape: str | None) -> Callable[[object], object]:
    fits = fitting(pattern, escape)

    def like(value: object) -> bool | None:
        if isinstance(value, str):
            return None if len(value) > TEXT_CHARS_MAX else fits(value)
        return None if value is None else False

    return like


# Arithmetic.


def _exact(value: int) -> int | None:
    return value if -EXACT_END <= value < EXACT_END else None


def _negative(value: object) -> object:
    match value:
        case bool():
            return None
        case int():
            return _exact(-value)
        case float():
            return -value
    return None


def _add(left: object, right: object) -> object:
    if isinstance(left, str) and isinstance(right, str):
        return left + right if len(left) + len(right) <= TEXT_CHARS_MAX else None
    return _sum(left, right)


def _with_numbers(
    exact: Callable[[int, int], int | None], approximate: Callable[[float, float], float | None]
) -> Relation:
    def calculated(left: object, right: object) -> object:
        match _numbers(left, right):
            case int(a), int(b):
                return None if (result := exact(a, b)) is None else _exact(result)
            case float(a), float(b):
                return approximate(a, b)
        return None

    return calculated


def _divide_exact(left: int, right: int) -> int | None:
    """Divide and round toward zero, as in Java."""
    if not right:
        return None
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) == (right < 0) else -quotient


def _remainder_exact(left: int, right: int) -> int | None:
    """Return the remainder with the sign of `left`, as in Java."""
    if not right:
        return None
    remainder = abs(left) % abs(right)
    return -remainder if left < 0 else remainder


def _remainder(left: float, right: float) -> float | None:
    if not right:
        return None
    if math.isinf(left):
        return math.nan
    return math.fmod(left, right)


_sum = _with_numbers(operator.add, operator.add)
_ARITHMETIC: dict[Operator, Relation] = {
    "+": _add,
    "-": _with_numbers(operator.sub, operator.sub),
    "*": _with_numbers(operator.mul, operator.mul),
    "/": _with_numbers(_divide_exact, lambda a, b: a / b if b else None),
    "%": _with_numbers(_remainder_exact, _remainder),
}
