"""Selectors and messages drawn at random, and what a selector means, said the slow way."""

import math

from hypothesis import strategies as st

from distributary.pipeline.selector.syntax import (
    And,
    Arithmetic,
    Between,
    Comparison,
    Identifier,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Or,
)

NAMES = ("a", "b", "c", "JMSPriority", "the end", "Größe", "not")
LONG_MAX = 2**63 - 1

identifiers = st.sampled_from(NAMES).map(Identifier)
texts = st.text(alphabet="ab%_'\\\nß", max_size=4)
exact = st.one_of(st.integers(-3, 9), st.sampled_from([2**31, 2**53 + 1, LONG_MAX, -(2**63)]))
approximate = st.one_of(
    st.sampled_from([0.0, -0.0, 0.5, 1.0, 2.0, 1e300, float(2**53), 9.3e18, -7.25]),
    st.floats(allow_nan=False, allow_infinity=False, width=64),
)
numbers_only = st.one_of(exact, approximate).map(Literal)
strings_only = texts.map(Literal)


@st.composite
def patterns(draw):
    """A pattern and its escape that fit together."""
    escape = draw(st.none() | st.sampled_from("\\a%_"))
    pattern = draw(texts)
    if escape is not None:
        pattern = pattern.replace(escape, escape * 2)
    return pattern, escape


def numeric(below):
    return st.one_of(
        st.builds(Negative, st.one_of(below, identifiers)),
        st.builds(Arithmetic, st.sampled_from("+-*/%"), below, below),
    )


numbers = st.recursive(st.one_of(identifiers, numbers_only), numeric, max_leaves=6)
strings = st.one_of(
    identifiers,
    strings_only,
    st.builds(Arithmetic, st.just("+"), strings_only, st.one_of(identifiers, strings_only)),
    st.builds(Arithmetic, st.just("+"), identifiers, strings_only),
)
comparisons = st.one_of(
    st.builds(Comparison, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), numbers, numbers),
    st.builds(Comparison, st.sampled_from(["=", "<>"]), strings, strings),
    st.builds(
        Comparison,
        st.sampled_from(["=", "<>"]),
        identifiers,
        st.booleans().map(Literal),
    ),
    st.builds(Between, numbers, numbers, numbers),
    st.builds(lambda left, pattern: Like(left, *pattern), strings, patterns()),
    st.builds(In, identifiers, st.lists(texts, min_size=1, max_size=3).map(tuple)),
    st.builds(IsNull, st.one_of(identifiers, numbers)),
)


def logical(below):
    several = st.lists(below, min_size=2, max_size=3).map(tuple)
    return st.one_of(
        st.builds(Not, below),
        st.builds(And, several),
        st.builds(Or, several),
        st.builds(IsNull, below),
    )


conditions = st.recursive(
    st.one_of(comparisons, identifiers, st.booleans().map(Literal)), logical, max_leaves=8
)

values = st.one_of(
    st.none(),
    st.booleans(),
    exact,
    approximate,
    st.just(math.nan),
    st.just(math.inf),
    texts,
    st.just(object()),
)
messages = st.dictionaries(st.sampled_from(NAMES), values, max_size=len(NAMES))


def meaning(node, get):  # noqa: C901
    """The value of an expression: one rule after the other, straight from the documents."""

    def of(child):
        return meaning(child, get)

    match node:
        case Literal(value):
            return value
        case Identifier(name):
            return get(name)
        case Not(operand):
            return {True: False, False: True}.get(logic(of(operand)))
        case And(operands):
            found = {logic(of(one)) for one in operands}
            return False if False in found else None if None in found else True
        case Or(operands):
            found = {logic(of(one)) for one in operands}
            return True if True in found else None if None in found else False
        case IsNull(operand):
            return of(operand) is None
        case Between(operand, low, high):
            above = Comparison(">=", operand, low)
            return of(And((above, Comparison("<=", operand, high))))
        case Comparison("<>", left, right):
            return of(Not(Comparison("=", left, right)))
        case Comparison(comparator, left, right):
            return compared(comparator, of(left), of(right))
        case In(identifier, choices):
            equal = [compared("=", of(identifier), choice) for choice in choices]
            return None if None in equal else any(equal)
        case Like(operand, pattern, escape):
            text = of(operand)
            if text is None:
                return None
            return kind(text) == "text" and like(text, marked(pattern, escape))
        case Negative(operand):
            number = of(operand)
            return (
                of(Arithmetic("-", Literal(0), Literal(number)))
                if is_exact(number)
                else (-number if kind(number) == "number" else None)
            )
        case Arithmetic(sign, left, right):
            return calculated(sign, of(left), of(right))


def kind(value):
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else "other"


def is_exact(value):
    return kind(value) == "number" and isinstance(value, int)


def logic(value):
    return value if isinstance(value, bool) else None


def compared(comparator, left, right):
    if left is None or right is None:
        return None
    if kind(left) != kind(right) or kind(left) == "other":
        return False
    if comparator == "=" and kind(left) != "number":
        return left == right
    if kind(left) != "number":
        return False
    if not (is_exact(left) and is_exact(right)):
        left, right = float(left), float(right)
    return {
        "=": left == right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[comparator]


def calculated(sign, left, right):
    if kind(left) == kind(right) == "text" and sign == "+":
        return left + right
    if kind(left) != "number" or kind(right) != "number":
        return None
    if is_exact(left) and is_exact(right):
        return calculated_exactly(sign, left, right)
    left, right = float(left), float(right)
    if sign in "/%" and right == 0:
        return None
    if sign == "%":
        return math.nan if math.isinf(left) else math.fmod(left, right)
    return (
        {"+": left + right, "-": left - right, "*": left * right}.get(sign)
        if sign != "/"
        else (left / right)
    )


def calculated_exactly(sign, left, right):
    if sign in "/%" and right == 0:
        return None
    result = {"+": left + right, "-": left - right, "*": left * right}.get(sign)
    if sign == "/":
        result = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    if sign == "%":
        result = abs(left) % abs(right) * (-1 if left < 0 else 1)
    return result if -(2**63) <= result <= LONG_MAX else None


def marked(pattern, escape):
    """The pattern as (character, is it itself?) pairs."""
    found, characters = [], iter(pattern)
    for character in characters:
        if character == escape:
            found.append((next(characters), True))
        else:
            found.append((character, character not in "%_"))
    return found


def like(text, pattern):
    """Every way to match, tried."""
    if not pattern:
        return not text
    (character, itself), *rest = pattern
    if not itself and character == "%":
        return any(like(text[cut:], rest) for cut in range(len(text) + 1))
    fits = bool(text) and (text[0] == character if itself else True)
    return fits and like(text[1:], rest)
