"""A selector as a condition on the rows of `messages`: the same answer as the gateway's.

A selector's values have types that only each message tells, a column of Spark has one type. So a
value is several columns here, of which at most one isn't null (`_Value`).

Rule 1: truth is Spark's own, with the same three values, and each condition uses those below it
        once: the column grows with the selector, not with its exponent.
Rule 2: arithmetic, whose nodes use their operands several times, isn't nested at all: it is
        steps in postfix order that one fold takes over a stack (`_calculated`).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias, assert_never

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from pipeline.selector.evaluate import TEXT_CHARS_MAX
from pipeline.selector.lexer import EXACT_END
from pipeline.selector.syntax import (
    ANY,
    ONE,
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
    Or,
    Part,
    Selector,
    pattern_parts,
)

#: Types of AMQP whose values are strings to a selector.
_STRINGS = ("string", "symbol", "char")

#: Names that are columns of text.
_TEXTS = {
    "JMSMessageID": "message_id",
    "JMSCorrelationID": "correlation_id",
    "JMSType": "subject",
    "JMSXGroupID": "group_id",
    "JMSXUserID": "user_id",
}

#: Items of a regular expression that stand in one group.
_GROUP = 64

#: One value on the stack of a calculation; all null if it has none.
_RESULT = "struct<text: string, exact: bigint, double: double>"


@dataclass(frozen=True, slots=True)
class _Value:
    """A part that isn't of the value's kind is null in a row, and None if it is so in every row.

    An exact number is `double`, too. `there` is never null: false for what is NULL or unknown; None
    for what is always there, and then its parts are never null. A value that is there without any
    part is equal to nothing.
    """

    there: Column | None = None
    boolean: Column | None = None
    text: Column | None = None
    exact: Column | None = None
    double: Column | None = None


_PARTS = ("there", "boolean", "text", "exact", "double")

#: The values of the names in a selector.
_Names: TypeAlias = Mapping[str, _Value]


def column(selector: Selector) -> Column:
    """Whether a row of `messages` is selected; never null.

    A row with an `error` has nothing of its message but the header fields, though the gateway may
    have read more of it.
    """
    return F.coalesce(truth(selector), F.lit(False))


def truth(selector: Selector) -> Column:
    """What a selector is of a row of `messages`: true, false or null, which is unknown.

    Each name is looked up once in a row. What is in the lambda isn't compiled to Java by Spark,
    which gives up on a selector with some hundred comparisons, after half a minute.
    """
    found = {name: _named(name) for name in sorted(selector.identifiers)}
    fields = {
        (name, part): f"{part}{n}"
        for n, (name, value) in enumerate(found.items())
        for part in _PARTS
        if getattr(value, part) is not None
    }
    row = [getattr(found[name], part).alias(known) for (name, part), known in fields.items()]

    def of(bound: Column) -> Column:
        return _truth(
            selector.expression,
            {
                name: _Value(
                    **{part: bound[fields[name, part]] for part in _PARTS if (name, part) in fields}
                )
                for name in found
            },
        )

    return _bound(row or [F.lit(0).alias("nothing")], of)


def _bound(columns: Sequence[Column], body: Callable[[Column], Column]) -> Column:
    """The body, whose argument is a struct of the columns: each is evaluated once."""
    return F.get(F.transform(F.array(F.struct(*columns)), body), F.lit(0))


def _truth(node: Expression, names: _Names) -> Column:  # noqa: C901 (one case for each kind)
    """A node as a truth value; what is no boolean is unknown."""
    match node:
        case Comparison(comparator, left, right):
            if isinstance(left, _CONDITIONS) or isinstance(right, _CONDITIONS):
                return _codes_compared(comparator, _code(left, names), _code(right, names))
            return _of([left, right], names, lambda one, other: _compared(comparator, one, other))
        case Between(operand, low, high):
            return _of([operand, low, high], names, _between)
        case Like(operand, pattern, escape):
            parts = pattern_parts(pattern, escape) or []
            return _of([operand], names, lambda value: _like(value, parts))
        case In(identifier, choices):
            return _of_text(_value(identifier, names), lambda text: text.isin(*choices))
        case IsNull(operand):
            if isinstance(operand, _CONDITIONS):
                return _truth(operand, names).isNull()
            return _of([operand], names, lambda value: ~_there(value))
        case Not(operand):
            return ~_truth(operand, names)
        case And(operands):
            return _joined([_truth(operand, names) for operand in operands], Column.__and__)
        case Or(operands):
            return _joined([_truth(operand, names) for operand in operands], Column.__or__)
        case Literal() | Identifier():
            return _or_null(_value(node, names).boolean, "boolean")
        case Negative() | Arithmetic():
            return F.lit(None).cast("boolean")
    assert_never(node)


#: What is true, false or unknown, and nothing else.
_CONDITIONS = (Comparison, Between, Like, In, IsNull, Not, And, Or)


def _joined(operands: list[Column], join: Callable[[Column, Column], Column]) -> Column:
    """All of them joined; halved, so that a thousand are ten levels."""
    if len(operands) == 1:
        return operands[0]
    half = len(operands) // 2
    return join(_joined(operands[:half], join), _joined(operands[half:], join))


def _or_null(part: Column | None, kind: str) -> Column:
    return F.lit(None).cast(kind) if part is None else part


def _there(value: _Value) -> Column:
    return F.lit(True) if value.there is None else value.there


# Values.


def _value(node: Literal | Identifier, names: _Names) -> _Value:
    return names[node.name] if isinstance(node, Identifier) else _literal(node.value)


def _literal(value: bool | float | str) -> _Value:
    match value:
        case bool():
            return _Value(boolean=F.lit(value))
        case str():
            return _Value(text=F.lit(value))
        case int():
            return _exact(F.lit(value).cast("long"), always=True)
        case float():
            return _Value(double=F.lit(value))
    assert_never(value)


def _named(name: str) -> _Value:
    match name:
        case "JMSDeliveryMode":
            mode = F.when(F.col("durable"), F.lit("PERSISTENT")).otherwise(F.lit("NON_PERSISTENT"))
            return _Value(text=mode)
        case "JMSPriority":
            return _exact(F.col("priority").cast("long"), always=True)
        case "JMSXDeliveryCount":
            return _exact(F.coalesce("delivery_count", F.lit(0)) + F.lit(1), always=True)
        case "JMSTimestamp":
            return _exact(F.unix_millis("creation_time"))
        case "JMSXGroupSeq":
            return _exact(F.col("group_sequence"))
        case _ if name in _TEXTS:
            text = F.col(_TEXTS[name])
            return _Value(text.isNotNull(), text=text)
    return _property(F.try_element_at("properties", F.lit(name)))


def _exact(number: Column, *, always: bool = False) -> _Value:
    there = None if always else number.isNotNull()
    return _Value(there, exact=number, double=number.cast("double"))


def _property(found: Column) -> _Value:
    """An application property. A `ulong` that is text is beyond 63 bits, and approximate here."""
    kind, text = found["type"], found["text"]
    beyond = F.when(kind == "ulong", text).try_cast("double")
    return _Value(
        F.coalesce(kind != "null", F.lit(False)),
        boolean=found["boolean"],
        text=F.when(kind.isin(*_STRINGS), text),
        exact=found["long"],
        double=F.coalesce(found["double"], beyond, found["long"].cast("double")),
    )


def _of(operands: Sequence[Expression], names: _Names, condition: Callable[..., Column]) -> Column:
    """The condition on the values of operands; what is calculated is calculated once."""
    calculated = {
        n: _calculated(operand, names).alias(f"result{n}")
        for n, operand in enumerate(operands)
        if not isinstance(operand, Literal | Identifier)
    }

    def on(results: Column | None) -> Column:
        values = []
        for n, operand in enumerate(operands):
            if isinstance(operand, Literal | Identifier):
                values.append(_value(operand, names))
            elif results is not None:
                values.append(_result(results[f"result{n}"]))
        return condition(*values)

    if not calculated:
        return on(None)
    return _bound(list(calculated.values()), on)


# Comparison.


def _compared(comparator: Comparator, left: _Value, right: _Value) -> Column:
    """Unknown if one isn't there, false for unlike kinds; `<>` is NOT `=`."""
    if comparator == "<>":
        return ~_compared("=", left, right)
    known = left.there is None, right.there is None
    pairs = [(left.exact, right.exact), (_without_nan(left), _without_nan(right))]
    if comparator == "=":
        pairs += [(left.text, right.text), (left.boolean, right.boolean)]
    cases = [
        (_all_there((one, other), known), _ordered(comparator, one, other))
        for one, other in pairs
        if one is not None and other is not None
    ]
    cases.append((_there(left) & _there(right), F.lit(False)))
    first, *others = cases
    return reduce(lambda chain, case: chain.when(*case), others, F.when(*first))


def _all_there(parts: tuple[Column, Column], known: tuple[bool, bool]) -> Column:
    """Whether both aren't null; one of a value that is always there isn't."""
    tests = [part.isNotNull() for part, always in zip(parts, known, strict=True) if not always]
    return _joined(tests, Column.__and__) if tests else F.lit(True)


def _without_nan(value: _Value) -> Column | None:
    """A number to compare. For Spark NaN is equal to itself and above all others; to a selector it
    is neither. What is always there is no NaN."""
    if value.double is None or value.there is None:
        return value.double
    return F.nullif(value.double, F.lit(math.nan))


def _ordered(comparator: Comparator, left: Column, right: Column) -> Column:
    match comparator:
        case "=":
            return left == right
        case "<>":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
        case ">=":
            return left >= right
    assert_never(comparator)


def _between(value: _Value, low: _Value, high: _Value) -> Column:
    return _compared(">=", value, low) & _compared("<=", value, high)


def _code(node: Expression, names: _Names) -> Column:
    """1 for true, 0 for false, 2 for what is there and no boolean, null for what is unknown."""
    if isinstance(node, _CONDITIONS):
        return _truth(node, names).cast("int")

    def code(value: _Value) -> Column:
        return F.coalesce(
            _or_null(value.boolean, "boolean").cast("int"), F.when(_there(value), F.lit(2))
        )

    return _of([node], names, code)


def _codes_compared(comparator: Comparator, left: Column, right: Column) -> Column:
    """A comparison in which one side is a condition, and so each side is used once."""
    match comparator:
        case "=":
            return left == right
        case "<>":
            return left != right
        case "<" | "<=" | ">" | ">=":  # booleans have no order
            return (left + right) < 0
    assert_never(comparator)


def _of_text(value: _Value, result: Callable[[Column], Column]) -> Column:
    """The result for a text, false for what is no text, null for what isn't there."""
    no_text = F.when(_there(value), F.lit(False))
    if value.text is None:
        return no_text
    return F.when(value.text.isNotNull(), result(value.text)).otherwise(no_text)


def _like(value: _Value, parts: list[Part]) -> Column:
    def matches(text: Column) -> Column:
        return F.when(F.length(text) <= TEXT_CHARS_MAX, F.rlike(text, F.lit(_expression_of(parts))))

    return _of_text(value, matches)


def _expression_of(parts: list[Part]) -> str:
    """As `pipeline.selector.evaluate.expression_of`, for Java."""
    pieces: list[list[str]] = [[]]
    for part in parts:
        if part == ANY:
            pieces.append([])
        elif part == ONE:
            pieces[-1].append(".")
        else:
            text = str(part)
            pieces[-1].append(text if text.isalnum() or not text.isascii() else f"\\{text}")
    first, *rest = map(_grouped, pieces)
    if not rest:
        return rf"(?s)\A{first}\z"
    middle = _grouped([f"(?>.*?{piece})" for piece in rest[:-1] if piece])
    return rf"(?s)\A{first}{middle}.*{rest[-1]}\z"


def _grouped(items: list[str]) -> str:
    """Items one after the other, as groups of groups. Java's matcher goes a level deeper with each
    item, and comes back at the end of a group: 8,000 in a row would be the end of its stack, and of
    the JVM. An atomic group changes nothing here, because each item has one way to fit."""
    while len(items) > _GROUP:
        chunks = [items[at : at + _GROUP] for at in range(0, len(items), _GROUP)]
        items = [f"(?>{''.join(chunk)})" for chunk in chunks]
    return "".join(items)


# Arithmetic.


def _calculated(node: Expression, names: _Names) -> Column:
    """The result of an expression, as _RESULT: a fold over its steps, which keeps a stack."""
    steps = F.array(*_steps(node, names))
    stack = F.array().cast(f"array<{_RESULT}>")
    return F.aggregate(steps, stack, _step, lambda left: F.element_at(left, 1))


def _steps(node: Expression, names: _Names) -> Iterator[Column]:
    """In postfix order: a value is pushed, an operator takes two and pushes one."""
    match node:
        case Literal() | Identifier():
            yield _pushing(_value(node, names))
        case Arithmetic(sign, left, right):
            yield from _steps(left, names)
            yield from _steps(right, names)
            yield F.struct(F.lit(sign).alias("sign"), F.lit(None).cast(_RESULT).alias("value"))
        case Negative(operand):  # nobody sees the sign of a zero
            yield from _steps(Arithmetic("-", Literal(0), operand), names)
        case _:  # a condition is no number and no text
            yield _pushing(_Value())


def _pushing(value: _Value) -> Column:
    parts = F.struct(
        _or_null(value.text, "string").alias("text"),
        _or_null(value.exact, "long").alias("exact"),
        _or_null(value.double, "double").alias("double"),
    )
    return F.struct(F.lit(None).cast("string").alias("sign"), parts.cast(_RESULT).alias("value"))


def _step(stack: Column, step: Column) -> Column:
    left, right = (F.try_element_at(stack, F.lit(at)) for at in (-2, -1))
    below = F.slice(stack, F.lit(1), F.greatest(F.size(stack) - 2, F.lit(0)))
    applied = _applied(step["sign"], left, right).cast(_RESULT)
    pushed = F.concat(stack, F.array(step["value"]))
    return F.when(step["sign"].isNull(), pushed).otherwise(F.concat(below, F.array(applied)))


def _result(of: Column) -> _Value:
    text, exact = of["text"], of["exact"]
    double = F.coalesce(of["double"], exact.cast("double"))
    return _Value(text.isNotNull() | double.isNotNull(), None, text, exact, double)


def _applied(sign: Column, left: Column, right: Column) -> Column:
    """What an operator makes of two values; nothing where it makes nothing of them."""
    exactly = left["exact"].isNotNull() & right["exact"].isNotNull()
    doubles = [F.coalesce(of["double"], of["exact"].cast("double")) for of in (left, right)]
    short = F.length(left["text"]) + F.length(right["text"]) <= TEXT_CHARS_MAX
    joined = F.concat(left["text"], right["text"])
    return F.struct(
        F.when((sign == "+") & short, joined).alias("text"),
        F.when(exactly, _exactly(sign, left["exact"], right["exact"])).alias("exact"),
        F.when(~exactly, _approximately(sign, *doubles)).alias("double"),
    )


def _exactly(sign: Column, left: Column, right: Column) -> Column:
    """Null beyond 64 bits and for a division by zero."""
    divides = (right != 0) & ~((left == -EXACT_END) & (right == -1))
    return (
        F.when(sign == "+", F.try_add(left, right))
        .when(sign == "-", F.try_subtract(left, right))
        .when(sign == "*", F.try_multiply(left, right))
        .when((sign == "/") & divides, F.call_function("div", left, right))
        .when(sign == "%", F.try_mod(left, right))
    )


def _approximately(sign: Column, left: Column, right: Column) -> Column:
    """Null if one of them is no number, and for a division by zero."""
    return (
        F.when(sign == "+", left + right)
        .when(sign == "-", left - right)
        .when(sign == "*", left * right)
        .when(sign == "/", F.try_divide(left, right))
        .when(sign == "%", F.try_mod(left, right))
    )
