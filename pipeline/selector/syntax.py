"""A selector as a tree, and the tree as text again.

`NOT LIKE`, `NOT IN`, `NOT BETWEEN` and `IS NOT NULL` are a Not around the plain form, which means
the same with three truth values. A minus in front of a literal is part of the literal.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias, assert_never

from distributary.pipeline.selector.lexer import KEYWORDS

Comparator: TypeAlias = OneOf["=", "<>", "<", "<=", ">", ">="]
Operator: TypeAlias = OneOf["+", "-", "*", "/", "%"]


@dataclass(frozen=True, slots=True)
class Literal:
    """A boolean, an exact number (64 bits), an approximate one, or a string."""

    value: bool | int | float | str


@dataclass(frozen=True, slots=True)
class Identifier:
    """A header field or an application property."""

    name: str


@dataclass(frozen=True, slots=True)
class Negative:
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`+` with strings joins them."""

    operator: Operator
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Comparison:
    comparator: Comparator
    left: "Expression"
    right: "Expression"


@dataclass(frozen=True, slots=True)
class Between:
    """`low <= operand AND operand <= high`."""

    operand: "Expression"
    low: "Expression"
    high: "Expression"


@dataclass(frozen=True, slots=True)
class Like:
    """In the pattern `%` is any text, `_` one character; `escape` makes the next one literal."""

    operand: "Expression"
    pattern: str
    escape: str | None = None


@dataclass(frozen=True, slots=True)
class In:
    identifier: Identifier
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class Not:
    operand: "Expression"


@dataclass(frozen=True, slots=True)
class And:
    """Two operands at least."""

    operands: "tuple[Expression, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    """Two operands at least."""

    operands: "tuple[Expression, ...]"


Expression: TypeAlias = (
    Literal
    | Identifier
    | Negative
    | Arithmetic
    | Comparison
    | Between
    | Like
    | In
    | IsNull
    | Not
    | And
    | Or
)


@dataclass(frozen=True, slots=True)
class Selector:
    """A parsed selector: its original text, its tree, and the names in it."""

    text: str
    expression: Expression
    identifiers: frozenset[str]


#: Part of a LIKE pattern: literal text, one character (ONE), any text (ANY).
ONE, ANY = 1, 2
Part: TypeAlias = str | int

_PLAIN_NAME = re.compile(r"[^\W\d][\w$]*|\$[\w$]*")


def children(expression: Expression) -> "tuple[Expression, ...]":
    """Return the expressions directly below this one."""
    match expression:
        case Literal() | Identifier():
            return ()
        case Negative(operand) | Not(operand) | IsNull(operand) | Like(operand):
            return (operand,)
        case Arithmetic(_, left, right) | Comparison(_, left, right):
            return (left, right)
        case Between(operand, low, high):
            return (operand, low, high)
        case In(identifier):
            return (identifier,)
        case And(operands) | Or(operands):
            return operands
    assert_never(expression)


def identifiers(expression: Expression) -> Iterator[str]:
    """Return the names in an expression, once for each use."""
    if isinstance(expression, Identifier):
        yield expression.name
    for child in children(expression):
        yield from identifiers(child)


def pattern_parts(pattern: str, escape: str | None) -> list[Part] | None:
    """Split a LIKE pattern into parts; None if it ends with its escape."""
    parts: list[Part] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            follows = next(characters, None)
            if follows is None:
                return None
            parts.append(follows)
        elif character == "%":
            parts.append(ANY)
        else:
            parts.append(ONE if character == "_" else character)
    return parts


def printed(expression: Expression) -> str:  # noqa: C901 (one case for each kind)
    """Return a text that is parsed to an equal expression."""
    match expression:
        case Literal(value):
            return _literal(value)
        case Identifier(name):
            return _name(name)
        case Negative(operand):
            return f"-({printed(operand)})"
        case Arithmetic(sign, left, right) | Comparison(sign, left, right):
            return f"{_closed(left)} {sign} {_closed(right)}"
        case Between(operand, low, high):
            return f"{_closed(operand)} BETWEEN {_closed(low)} AND {_closed(high)}"
        case Like(operand, pattern, escape):
            ending = "" if escape is None else f" ESCAPE {_literal(escape)}"
            return f"{_closed(operand)} LIKE {_literal(pattern)}{ending}"
        case In(identifier, choices):
            return f"{printed(identifier)} IN ({', '.join(map(_literal, choices))})"
        case IsNull(operand):
            return f"{_closed(operand)} IS NULL"
        case Not(operand):
            return f"NOT {_closed(operand)}"
        case And(operands):
            return " AND ".join(map(_closed, operands))
        case Or(operands):
            return " OR ".join(map(_closed, operands))
    assert_never(expression)


def _closed(expression: Expression) -> str:
    text = printed(expression)
    match expression:
        case Identifier():
            return text
        case Literal() if not text.startswith("-"):
            return text
    return f"({text})"


def _literal(value: bool | float | str) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            return repr(value)


def _name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'
