"""Terms as texts of SQL, and as columns that Spark reads from such a text.

A column made by calls of pyspark would take hundreds of calls into the JVM for each selector.

Rule: a user's text becomes a literal that every session reads alike, with any settings.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import assert_never

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

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

#: Signs in a literal that may mean something to Spark's parser.
_READ_OTHERWISE = frozenset("\\'$")


def as_column(term: Term) -> Column:
    """The term as a column of Spark."""
    return F.expr(as_sql(term))


def as_sql(term: Term) -> str:
    """The term as a text of SQL, with parentheses where needed; equal for equal terms."""
    return _text({}, term)


def _text(bound: Mapping[Variable, str], term: Term) -> str:  # noqa: C901, PLR0912 (one case for each kind)
    """The text of a term inside lambdas whose variables have these names."""
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
            return f"({of(inner)} IN ({', '.join(map(_string, choices))}))"
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
            return _string(value)
        case int():
            return str(value) if value >= 0 else f"({value})"
        case float() if math.isfinite(value):
            return f"{value!r}D" if value >= 0 else f"({value!r}D)"
        case float():
            return f"double('{value}')"
    assert_never(value)


def _string(value: str) -> str:
    """A text in an expression, written as bytes if a sign in it depends on settings:
    `spark.sql.parser.escapedStringLiterals` takes escapes as they stand, and
    `spark.sql.variable.substitute` looks for `${` even within quotes."""
    if _READ_OTHERWISE & set(value):
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    return f"'{value}'"


def text_literal(value: str) -> str:
    """A text as a literal in SQL."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def quoted_name(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
