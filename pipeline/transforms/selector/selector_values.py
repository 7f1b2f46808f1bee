"""Values of a selector's names and expressions in a row of `messages`, as columns.

The type of a selector's value depends on the message, and a column of Spark has one type. So a
value is several columns (`Value`).

Rule 1: arithmetic isn't nested, as its nodes use their operands several times: it becomes steps in
        postfix order, and one fold takes them over a stack. So a column grows with its selector.
Rule 2: arithmetic is that of `pipeline.selector.evaluate`: exact in 64 bits or without a value.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from distributary.pipeline.selector.evaluate import TEXT_CHARS_MAX
from distributary.pipeline.selector.lexer import EXACT_END
from distributary.pipeline.selector.syntax import (
    Arithmetic,
    Expression,
    Identifier,
    Literal,
    Negative,
)
from distributary.pipeline.transforms.selector import terms as F  # noqa: N812 - functions, called as Spark's
from distributary.pipeline.transforms.selector.terms import Term

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

#: One value on the stack of a calculation; an item without a value has only nulls.
_RESULT = "struct<text: string, exact: bigint, double: double>"


@dataclass(frozen=True, slots=True)
class Value:
    """One value as a column for each kind: null in rows with another kind, None if all rows are so.

    An exact number stands in `double`, too. `there` is never null in a row: it is false for NULL
    and unknown. It is None for a value that is always present, whose parts are never null then. A
    value that is present without any part is equal to no other.
    """

    there: Term | None = None
    boolean: Term | None = None
    text: Term | None = None
    exact: Term | None = None
    double: Term | None = None


PARTS = ("there", "boolean", "text", "exact", "double")

#: The values of the names in a selector.
Names: TypeAlias = Mapping[str, Value]


def value_of(node: Literal | Identifier, names: Names) -> Value:
    """Return the value of an operand that is no calculation."""
    return names[node.name] if isinstance(node, Identifier) else _literal(node.value)


def _literal(value: bool | float | str) -> Value:
    match value:
        case bool():
            return Value(boolean=F.lit(value))
        case str():
            return Value(text=F.lit(value))
        case int():
            return _exact(F.lit(value).cast("long"), always=True)
        case float():
            return Value(double=F.lit(value))
    assert_never(value)


def named(name: str) -> Value:
    """A header field or an application property, as columns of `messages`."""
    match name:
        case "JMSDeliveryMode":
            mode = F.when(F.col("durable"), F.lit("PERSISTENT")).otherwise(F.lit("NON_PERSISTENT"))
            return Value(text=mode)
        case "JMSPriority":
            return _exact(F.col("priority").cast("long"), always=True)
        case "JMSXDeliveryCount":
            return _exact(F.coalesce(F.col("delivery_count"), F.lit(0)) + F.lit(1), always=True)
        case "JMSTimestamp":
            return _exact(F.unix_millis(F.col("creation_time")))
        case "JMSXGroupSeq":
            return _exact(F.col("group_sequence"))
        case _ if name in _TEXTS:
            text = F.col(_TEXTS[name])
            return Value(text.isNotNull(), text=text)
    return _property(F.try_element_at(F.col("properties"), F.lit(name)))


def _exact(number: Term, *, always: bool = False) -> Value:
    there = None if always else number.isNotNull()
    return Value(there, exact=number, double=number.cast("double"))


def _property(found: Term) -> Value:
    """An application property. A `ulong` that is text is beyond 63 bits, and approximate here."""
    kind, text = found["type"], found["text"]
    beyond = F.when(kind == "ulong", text).try_cast("double")
    return Value(
        F.coalesce(kind != "null", F.lit(False)),
        boolean=found["boolean"],
        text=F.when(kind.isin(*_STRINGS), text),
        exact=found["long"],
        double=F.coalesce(found["double"], beyond, found["long"].cast("double")),
    )


def or_null(part: Term | None, kind: str) -> Term:
    """A part of a value, or a null of that type if the value has no such part."""
    return F.lit(None).cast(kind) if part is None else part


# Arithmetic.


def calculated(node: Expression, names: Names) -> Term:
    """The result of an expression as _RESULT: a fold over its steps, with a stack."""
    steps = F.array(*_steps(node, names))
    stack = F.array().cast(f"array<{_RESULT}>")
    return F.aggregate(steps, stack, _step, lambda left: F.element_at(left, 1))


def _steps(node: Expression, names: Names) -> Iterator[Term]:
    """Steps in postfix order: a value is pushed, an operator takes two and pushes one."""
    match node:
        case Literal() | Identifier():
            yield _pushing(value_of(node, names))
        case Arithmetic(sign, left, right):
            yield from _steps(left, names)
            yield from _steps(right, names)
            yield F.struct(F.lit(sign).alias("sign"), F.lit(None).cast(_RESULT).alias("value"))
        case Negative(operand):  # the sign of a zero has no effect
            yield from _steps(Arithmetic("-", Literal(0), operand), names)
        case _:  # a condition is no number and no text
            yield _pushing(Value())


def _pushing(value: Value) -> Term:
    parts = F.struct(
        or_null(value.text, "string").alias("text"),
        or_null(value.exact, "long").alias("exact"),
        or_null(value.double, "double").alias("double"),
    )
    return F.struct(F.lit(None).cast("string").alias("sign"), parts.cast(_RESULT).alias("value"))


def _step(stack: Term, step: Term) -> Term:
    left, right = (F.try_element_at(stack, F.lit(at)) for at in (-2, -1))
    below = F.slice_of(stack, F.lit(1), F.greatest(F.size(stack) - 2, F.lit(0)))
    applied = _applied(step["sign"], left, right).cast(_RESULT)
    pushed = F.concat(stack, F.array(step["value"]))
    return F.when(step["sign"].isNull(), pushed).otherwise(F.concat(below, F.array(applied)))


def result(of: Term) -> Value:
    """Return the value of a result, or of an item on the stack."""
    text, exact = of["text"], of["exact"]
    double = F.coalesce(of["double"], exact.cast("double"))
    return Value(text.isNotNull() | double.isNotNull(), None, text, exact, double)


def _applied(sign: Term, left: Term, right: Term) -> Term:
    """Return an operator's result for two values, without a value if it isn't defined for them."""
    exactly = left["exact"].isNotNull() & right["exact"].isNotNull()
    doubles = [F.coalesce(of["double"], of["exact"].cast("double")) for of in (left, right)]
    short = F.length(left["text"]) + F.length(right["text"]) <= TEXT_CHARS_MAX
    joined = F.concat(left["text"], right["text"])
    return F.struct(
        F.when((sign == "+") & short, joined).alias("text"),
        F.when(exactly, _exactly(sign, left["exact"], right["exact"])).alias("exact"),
        F.when(~exactly, _approximately(sign, *doubles)).alias("double"),
    )


def _exactly(sign: Term, left: Term, right: Term) -> Term:
    """The exact result: null beyond 64 bits and for a division by zero."""
    divides = (right != 0) & ~((left == -EXACT_END) & (right == -1))
    return (
        F.when(sign == "+", F.try_add(left, right))
        .when(sign == "-", F.try_subtract(left, right))
        .when(sign == "*", F.try_multiply(left, right))
        .when((sign == "/") & divides, F.call_function("div", left, right))
        .when(sign == "%", F.try_mod(left, right))
    )


def _approximately(sign: Term, left: Term, right: Term) -> Term:
    """The approximate result: null if a side is no number, and for a division by zero."""
    return (
        F.when(sign == "+", left + right)
        .when(sign == "-", left - right)
        .when(sign == "*", left * right)
        .when(sign == "/", F.try_divide(left, right))
        .when(sign == "%", F.try_mod(left, right))
    )
