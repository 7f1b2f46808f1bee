"""Terms as columns of Spark, and as texts of SQL that Spark reads as the same columns."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import assert_never

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from distributary.pipeline.transforms.selector.terms import (
    Call,
    Case,
    Cast,
    Field,
    In,
    Lambda,
    Literal,
    Name,
    Operation,
    Plain,
    Struct,
    Term,
    Test,
    Variable,
)

_OPERATORS: Mapping[str, Callable[[Column, Column], Column]] = {
    "AND": Column.__and__,
    "OR": Column.__or__,
    "=": Column.__eq__,
    "<>": Column.__ne__,
    "<": Column.__lt__,
    "<=": Column.__le__,
    ">": Column.__gt__,
    ">=": Column.__ge__,
    "+": Column.__add__,
    "-": Column.__sub__,
    "*": Column.__mul__,
}


# A column.


def as_column(term: Term) -> Column:
    """The column of Spark."""
    return _Columns({}).of(term)


class _Columns:
    """Columns of terms within one lambda, or outside of all: what several terms share is made
    once."""

    def __init__(self, bound: Mapping[Variable, Column]) -> None:
        """`bound` are the columns of variables."""
        self._bound = bound
        self._made: dict[int, Column] = {}  #: by the nodes' ids; the terms hold the nodes

    def of(self, term: Term) -> Column:
        known = id(term.node)
        if known not in self._made:
            self._made[known] = self._new(term)
        return self._made[known]

    def _new(self, term: Term) -> Column:  # noqa: C901 (one case for each kind)
        of = self.of
        match term.node:
            case Name(name):
                return F.col(name)
            case Variable() as variable:
                return self._bound[variable]
            case Literal(value):
                return F.lit(value)
            case Operation(sign, left, right):
                return _OPERATORS[sign](of(left), of(right))
            case Struct(fields):
                return F.struct(*(of(one).alias(name) for name, one in fields))
            case Field(inner, name):
                return of(inner)[name]
            case Cast(inner, kind, is_safe):
                return of(inner).try_cast(kind) if is_safe else of(inner).cast(kind)
            case Test(inner, test):
                return _tested(of(inner), test)
            case In(inner, choices):
                return of(inner).isin(*choices)
            case Case(cases, otherwise):
                found = [(of(one), of(value)) for one, value in cases]
                return _cased(found, None if otherwise is None else of(otherwise))
            case Call(function, arguments):
                return self._called(function, arguments)
        assert_never(term.node)

    def _called(self, function: str, arguments: "tuple[Term | Lambda, ...]") -> Column:
        columns = [self.of(one) for one in arguments if isinstance(one, Term)]
        bodies = [one for one in arguments if isinstance(one, Lambda)]
        match function, bodies:
            case "transform", [body]:
                return F.transform(columns[0], lambda one: self._within(body, one))
            case "aggregate", [step]:
                return F.aggregate(
                    columns[0], columns[1], lambda one, other: self._within(step, one, other)
                )
            case "aggregate", [step, end]:
                return F.aggregate(
                    columns[0],
                    columns[1],
                    lambda one, other: self._within(step, one, other),
                    lambda one: self._within(end, one),
                )
        return F.call_function(function, *columns)

    def _within(self, body: Lambda, *arguments: Column) -> Column:
        more = dict(zip(body.variables, arguments, strict=True))
        return _Columns({**self._bound, **more}).of(body.body)


def _tested(column: Column, test: str) -> Column:
    match test:
        case "NOT":
            return ~column
        case "IS NULL":
            return column.isNull()
    return column.isNotNull()


def _cased(cases: Sequence[tuple[Column, Column]], otherwise: Column | None) -> Column:
    (condition, value), *more = cases
    found = F.when(condition, value)
    for one, then in more:
        found = found.when(one, then)
    return found if otherwise is None else found.otherwise(otherwise)


# A text.


def as_sql(term: Term) -> str:
    """The text of SQL, in parentheses where it needs them; of one term always the same."""
    return _text({}, term)


def _text(bound: Mapping[Variable, str], term: Term) -> str:  # noqa: C901, PLR0912 (as above)
    """The same within lambdas, whose variables have these names."""
    of = partial(_text, bound)
    match term.node:
        case Name(name):
            return quoted_name(name)
        case Variable() as variable:
            return bound[variable]
        case Literal(value):
            return _literal(value)
        case Operation(sign, left, right):
            return f"({of(left)} {sign} {of(right)})"
        case Struct(fields):
            said = ", ".join(f"{text_literal(name)}, {of(one)}" for name, one in fields)
            return f"named_struct({said})"
        case Field(inner, name):
            return f"{of(inner)}.{quoted_name(name)}"
        case Cast(inner, kind, is_safe):
            return f"{'TRY_CAST' if is_safe else 'CAST'}({of(inner)} AS {kind})"
        case Test(inner, "NOT"):
            return f"(NOT {of(inner)})"
        case Test(inner, test):
            return f"({of(inner)} {test})"
        case In(inner, choices):
            return f"({of(inner)} IN ({', '.join(map(text_literal, choices))}))"
        case Case(cases, otherwise):
            whens = " ".join(f"WHEN {of(one)} THEN {of(value)}" for one, value in cases)
            end = "" if otherwise is None else f" ELSE {of(otherwise)}"
            return f"CASE {whens}{end} END"
        case Call("div", (Term() as left, Term() as right)):
            return f"({of(left)} div {of(right)})"
        case Call(function, arguments):
            given = (of(one) if isinstance(one, Term) else _lambda(bound, one) for one in arguments)
            return f"{function}({', '.join(given)})"
    assert_never(term.node)


def _lambda(bound: Mapping[Variable, str], one: Lambda) -> str:
    names = [f"v{nth}" for nth in range(len(bound), len(bound) + len(one.variables))]
    said = names[0] if len(names) == 1 else f"({', '.join(names)})"
    inner = {**bound, **dict(zip(one.variables, names, strict=True))}
    return f"{said} -> {_text(inner, one.body)}"


def _literal(value: Plain) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case str():
            return text_literal(value)
        case int():
            return str(value) if value >= 0 else f"({value})"
        case float() if math.isfinite(value):
            return f"{value!r}D" if value >= 0 else f"({value!r}D)"
        case float():
            return f"double('{value}')"
    assert_never(value)


def text_literal(value: str) -> str:
    """A text in SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quoted_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
