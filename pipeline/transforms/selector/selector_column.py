"""A selector as a condition on the rows of `messages`: the same answer as the gateway's.

Truth values are Spark's own: true, false and null for unknown. Each condition uses those below it
once, so the column's size grows linearly with the selector's.
"""

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import assert_never

from pyspark.sql import Column

from distributary.pipeline.selector.evaluate import TEXT_CHARS_MAX
from distributary.pipeline.selector.like import Piece, pieces
from distributary.pipeline.selector.syntax import (
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
    Selector,
)
from distributary.pipeline.transforms.selector import terms as F  # noqa: N812 - functions, called as Spark's
from distributary.pipeline.transforms.selector.selector_values import (
    PARTS,
    Names,
    Value,
    calculated,
    named,
    or_null,
    result,
    value_of,
)
from distributary.pipeline.transforms.selector.term_renderings import as_column
from distributary.pipeline.transforms.selector.terms import Term

#: Most items of a regular expression in one group.
_GROUP = 64


def column(selector: Selector) -> Column:
    """`condition` as a column."""
    return as_column(condition(selector))


def condition(selector: Selector) -> Term:
    """Whether a row of `messages` is selected; never null.

    Of a row with an `error` only the header fields are known, though the gateway may have read
    more of the message.
    """
    return F.coalesce(truth(selector), F.lit(False))


def truth(selector: Selector) -> Term:
    """Return a selector's result for a row of `messages`: true, false, or null for unknown.

    Each name is looked up once in a row. Spark doesn't compile the inside of a lambda to Java. It
    would give up on a selector with some hundred comparisons, after half a minute.
    """
    found = {name: named(name) for name in sorted(selector.identifiers)}
    fields = {
        (name, part): f"{part}{n}"
        for n, (name, value) in enumerate(found.items())
        for part in PARTS
        if getattr(value, part) is not None
    }
    row = [getattr(found[name], part).alias(known) for (name, part), known in fields.items()]

    def of(bound: Term) -> Term:
        return _truth(
            selector.expression,
            {
                name: Value(
                    **{part: bound[fields[name, part]] for part in PARTS if (name, part) in fields}
                )
                for name in found
            },
        )

    return _bound(row or [F.lit(0).alias("nothing")], of)


def _bound(columns: Sequence[Term], body: Callable[[Term], Term]) -> Term:
    """The body with a struct of the columns as its argument, so that each is evaluated once."""
    return F.get(F.transform(F.array(F.struct(*columns)), body), F.lit(0))


def _truth(node: Expression, names: Names) -> Term:  # noqa: C901 (one case for each kind)
    """A node as a truth value; a value that is no boolean is unknown."""
    match node:
        case Comparison(comparator, left, right):
            if isinstance(left, _CONDITIONS) or isinstance(right, _CONDITIONS):
                return _codes_compared(comparator, _code(left, names), _code(right, names))
            return _of([left, right], names, lambda one, other: _compared(comparator, one, other))
        case Between(operand, low, high):
            return _of([operand, low, high], names, _between)
        case Like(operand, pattern, escape):
            return _of([operand], names, lambda value: _like(value, pattern, escape))
        case In(identifier, choices):
            return _of_text(value_of(identifier, names), lambda text: text.isin(*choices))
        case IsNull(operand):
            if isinstance(operand, _CONDITIONS):
                return _truth(operand, names).isNull()
            return _of([operand], names, lambda value: ~_there(value))
        case Not(operand):
            return ~_truth(operand, names)
        case And(operands):
            return _joined([_truth(operand, names) for operand in operands], Term.__and__)
        case Or(operands):
            return _joined([_truth(operand, names) for operand in operands], Term.__or__)
        case Literal() | Identifier():
            return or_null(value_of(node, names).boolean, "boolean")
        case Negative() | Arithmetic():
            return F.lit(None).cast("boolean")
    assert_never(node)


#: Nodes whose value is always true, false or unknown.
_CONDITIONS = (Comparison, Between, Like, In, IsNull, Not, And, Or)


def _joined(operands: list[Term], join: Callable[[Term, Term], Term]) -> Term:
    """All operands joined, by halves: a thousand are ten levels deep."""
    if len(operands) == 1:
        return operands[0]
    half = len(operands) // 2
    return join(_joined(operands[:half], join), _joined(operands[half:], join))


def _there(value: Value) -> Term:
    return F.lit(True) if value.there is None else value.there


def _of(operands: Sequence[Expression], names: Names, condition: Callable[..., Term]) -> Term:
    """The condition on the values of operands; each calculation is made once."""
    steps = {
        n: calculated(operand, names).alias(f"result{n}")
        for n, operand in enumerate(operands)
        if not isinstance(operand, Literal | Identifier)
    }

    def on(results: Term | None) -> Term:
        values = []
        for n, operand in enumerate(operands):
            if isinstance(operand, Literal | Identifier):
                values.append(value_of(operand, names))
            elif results is not None:
                values.append(result(results[f"result{n}"]))
        return condition(*values)

    if not steps:
        return on(None)
    return _bound(list(steps.values()), on)


# Comparison.


def _compared(comparator: Comparator, left: Value, right: Value) -> Term:
    """Two values compared: unknown if one is absent, false for unlike kinds; `<>` is NOT `=`."""
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


def _all_there(parts: tuple[Term, Term], known: tuple[bool, bool]) -> Term:
    """Whether both aren't null; a value known to be always there isn't tested."""
    tests = [part.isNotNull() for part, always in zip(parts, known, strict=True) if not always]
    return _joined(tests, Term.__and__) if tests else F.lit(True)


def _without_nan(value: Value) -> Term | None:
    """A number to compare, null for NaN. To Spark NaN is equal to itself and above all others, to a
    selector neither. A value that is always there is never NaN."""
    if value.double is None or value.there is None:
        return value.double
    return F.nullif(value.double, F.lit(math.nan))


def _ordered(comparator: Comparator, left: Term, right: Term) -> Term:
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


def _between(value: Value, low: Value, high: Value) -> Term:
    return _compared(">=", value, low) & _compared("<=", value, high)


def _code(node: Expression, names: Names) -> Term:
    """1 for true, 0 for false, 2 for a value that is no boolean, null for unknown."""
    if isinstance(node, _CONDITIONS):
        return _truth(node, names).cast("int")

    def code(value: Value) -> Term:
        return F.coalesce(
            or_null(value.boolean, "boolean").cast("int"), F.when(_there(value), F.lit(2))
        )

    return _of([node], names, code)


def _codes_compared(comparator: Comparator, left: Term, right: Term) -> Term:
    """A comparison of which one side is a condition; each side is used once."""
    match comparator:
        case "=":
            return left == right
        case "<>":
            return left != right
        case "<" | "<=" | ">" | ">=":  # booleans have no order
            return (left + right) < 0
    assert_never(comparator)


def _of_text(value: Value, result: Callable[[Term], Term]) -> Term:
    """The result for a text, false for any other value, null for an absent one."""
    no_text = F.when(_there(value), F.lit(False))
    if value.text is None:
        return no_text
    return F.when(value.text.isNotNull(), result(value.text)).otherwise(no_text)


def _like(value: Value, pattern: str, escape: str | None) -> Term:
    """LIKE as in `pipeline.selector.like`: the text's end is tested by itself, so the test of all
    the rest goes over the text once."""
    first, *rest = pieces(pattern, escape)
    *between, last = rest or [Piece(())]
    middle, end = [one for one in between if one.parts], len(last.parts)
    shortest = sum(len(one.parts) for one in (first, *middle, last))

    def fits(text: Term) -> Term:
        if not rest:
            return F.rlike(text, F.lit(rf"(?s)\A{_expression_of(first)}\z"))
        body = F.left(text, F.length(text) - end) if end else text
        conditions = [F.length(text) >= shortest, _begins(body, first, middle)]
        if end:
            ending = F.right(text, F.lit(end))
            conditions.append(F.rlike(ending, F.lit(rf"(?s)\A{_expression_of(last)}\z")))
        return _joined(conditions, Term.__and__)

    def matches(text: Term) -> Term:
        return F.when(F.length(text) <= TEXT_CHARS_MAX, fits(text))

    return _of_text(value, matches)


def _begins(text: Term, first: Piece, middle: list[Piece]) -> Term:
    """Whether a text begins with the first piece and has the others behind it, in order.

    Few long pieces are searched one by one. Many short ones are one regular expression, which tries
    a piece at each place and comes to the next piece without going over the text again.
    """
    begin = rf"(?s)\A{_expression_of(first)}"
    longest = max((len(one.parts) for one in middle), default=0)
    literals = [one.literal for one in middle if one.literal is not None]
    if longest <= len(middle) or len(literals) < len(middle):
        found = _grouped([f"(?>.*?{_expression_of(one)})" for one in middle])
        return F.rlike(text, F.lit(begin + found))

    def behind(at: Term, literal: Term) -> Term:
        place = F.call_function("locate", literal, text, at + 1)
        return F.nullif(place, F.lit(0)) - 1 + F.length(literal)

    at = F.aggregate(F.array(*map(F.lit, literals)), F.lit(len(first.parts)), behind)
    return F.rlike(text, F.lit(begin)) & at.isNotNull()


def _expression_of(piece: Piece) -> str:
    """Java's regular expression for a piece, the part of a pattern between two `%`."""
    items = []
    for part in piece.parts:
        if part == ONE:
            items.append(".")
        else:
            text = str(part)
            items.append(text if text.isalnum() or not text.isascii() else f"\\{text}")
    return _grouped(items)


def _grouped(items: list[str]) -> str:
    """Items one after the other, as groups of groups. Java's matcher recurses at each item, and
    returns at the end of a group: 8,000 items in a row would overflow its stack, and end the JVM.
    An atomic group changes no result here, because each item can match in one way only."""
    while len(items) > _GROUP:
        chunks = [items[at : at + _GROUP] for at in range(0, len(items), _GROUP)]
        items = [f"(?>{''.join(chunk)})" for chunk in chunks]
    return "".join(items)
