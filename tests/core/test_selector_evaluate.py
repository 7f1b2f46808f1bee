"""What a selector selects: each rule of the language as rows, then all of them at random."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selector_trees import (
    NAMES,
    approximate,
    comparisons,
    conditions,
    exact,
    kind,
    meaning,
    messages,
    numbers,
    patterns,
    texts,
)

from pipeline.selector.evaluate import TEXT_CHARS_MAX, compiled
from pipeline.selector.parser import parse
from pipeline.selector.syntax import Comparison, IsNull, Like, Literal, Not, Selector

MAX, MIN = 2**63 - 1, -(2**63)

#: What a message has. `missing` and `m2` aren't there.
MESSAGE = {
    "t": True,
    "f": False,
    "n": 7,
    "z": 0,
    "max": MAX,
    "min": MIN,
    "big": 2**53 + 1,
    "d": 2.5,
    "seven": 7.0,
    "nan": math.nan,
    "inf": math.inf,
    "s": "red",
    "two": "2",
    "empty": "",
    "lines": "a\nb",
    "regex": "a.c*[x]",
    "percent": "50%",
    "bytes": object(),
}
T, F, U = True, False, None  #: true, false, unknown

TABLE = [
    # Three truth values (the column of JMS).
    ("missing = 'x'", U),
    ("missing <> 'x'", U),
    ("missing = m2", U),
    ("missing <> m2", U),
    ("missing = missing", U),
    ("missing > 1", U),
    ("1 > missing", U),
    ("missing LIKE 'x'", U),
    ("missing NOT LIKE 'x'", U),
    ("missing IN ('x')", U),
    ("missing NOT IN ('x')", U),
    ("missing BETWEEN 1 AND 2", U),
    ("n BETWEEN missing AND 8", U),
    ("n BETWEEN missing AND 6", F),
    ("n NOT BETWEEN missing AND 6", T),
    ("missing + 1 = 2", U),
    ("missing", U),
    ("missing IS NULL", T),
    ("missing IS NOT NULL", F),
    ("s IS NULL", F),
    ("s IS NOT NULL", T),
    ("f IS NULL", F),
    ("(missing > 1) IS NULL", T),
    ("(n / 0) IS NULL", T),
    ("NOT missing", U),
    ("NOT missing = 1", U),
    ("NOT f", T),
    ("NOT t", F),
    *((f"{a} AND {b}", r) for a, b, r in [("t", "t", T), ("t", "f", F), ("f", "t", F)]),
    *((f"{a} AND {b}", r) for a, b, r in [("f", "f", F), ("t", "missing", U)]),
    *((f"{a} AND {b}", r) for a, b, r in [("missing", "t", U), ("missing", "f", F)]),
    *((f"{a} AND {b}", r) for a, b, r in [("f", "missing", F), ("missing", "m2", U)]),
    *((f"{a} OR {b}", r) for a, b, r in [("t", "t", T), ("t", "f", T), ("f", "t", T)]),
    *((f"{a} OR {b}", r) for a, b, r in [("f", "f", F), ("f", "missing", U)]),
    *((f"{a} OR {b}", r) for a, b, r in [("missing", "f", U), ("missing", "t", T)]),
    *((f"{a} OR {b}", r) for a, b, r in [("t", "missing", T), ("missing", "m2", U)]),
    ("missing AND t AND f", F),
    ("missing OR f OR t", T),
    # Booleans.
    ("t", T),
    ("f", F),
    ("t = TRUE", T),
    ("t <> TRUE", F),
    ("f = FALSE", T),
    ("t = f", F),
    ("TRUE", T),
    ("FALSE", F),
    ("TRUE = FALSE", F),
    ("TRUE OR missing", T),
    ("n AND t", U),
    ("NOT s", U),
    # Strings.
    ("s = 'red'", T),
    ("s = 'Red'", F),
    ("s <> 'blue'", T),
    ("s = s", T),
    ("empty = ''", T),
    # Numbers, by promotion.
    ("n = 7", T),
    ("n = 7.0", T),
    ("seven = 7", T),
    ("n = seven", T),
    ("n < 7.5", T),
    ("7 >= n", T),
    ("d > 2", T),
    ("d BETWEEN 2 AND 3", T),
    ("n NOT BETWEEN 8 AND 9", T),
    ("n BETWEEN 7 AND 7", T),
    ("max = 9223372036854775807", T),
    ("max > 9223372036854775806", T),
    ("max < 9223372036854775808", F),  # approximate: both are 2 ** 63
    ("big = 9007199254740993", T),
    ("big = 9007199254740992", F),
    ("big = 9007199254740992.0", T),  # approximate, both
    ("nan = nan", F),
    ("nan <> nan", T),
    ("nan < 1", F),
    ("inf > 1E300", T),
    # Unlike types are never equal, and have no order.
    ("two > 1", F),
    ("two = 2", F),
    ("two <> 2", T),
    ("n = '7'", F),
    ("t = 1", F),
    ("t = 'true'", F),
    ("1 = t", F),
    ("s > n", F),
    ("s < two", F),
    ("t > f", F),
    ("NOT (s > n)", T),
    ("s BETWEEN 1 AND 2", F),
    ("bytes = bytes", F),
    ("bytes = 'x'", F),
    ("bytes IS NULL", F),
    ("bytes LIKE '%'", F),
    # LIKE.
    ("s LIKE 'red'", T),
    ("s LIKE 'r'", F),
    ("s LIKE 'r%'", T),
    ("s LIKE '%d'", T),
    ("s LIKE '%e%'", T),
    ("s LIKE 'r_d'", T),
    ("s LIKE 'r_'", F),
    ("s LIKE '%'", T),
    ("empty LIKE '%'", T),
    ("empty LIKE '_'", F),
    ("empty LIKE ''", T),
    ("s LIKE '%r%e%d%'", T),
    ("s LIKE '%d%e%'", F),
    ("s LIKE 'red%red'", F),
    ("s LIKE 'RED'", F),
    ("lines LIKE 'a_b'", T),
    ("lines LIKE 'a%'", T),
    ("lines LIKE 'a'", F),
    ("regex LIKE 'a.c*[x]'", T),
    ("s LIKE '.ed'", F),
    ("s LIKE 're*'", F),
    ("percent LIKE '50!%' ESCAPE '!'", T),
    ("s LIKE 'r!ed' ESCAPE '!'", T),
    ("s LIKE 're!%' ESCAPE '!'", F),
    ("n LIKE '7'", F),
    ("n NOT LIKE '7'", T),
    ("t LIKE 'true'", F),
    # IN.
    ("s IN ('blue', 'red')", T),
    ("s IN ('blue')", F),
    ("s NOT IN ('blue')", T),
    ("n IN ('7')", F),
    ("n NOT IN ('7')", T),
    # Arithmetic: exact in 64 bits, as in Java; approximate as soon as one is.
    ("n + 1 = 8", T),
    ("n - 8 = -1", T),
    ("n * 2 = 14", T),
    ("n / 2 = 3", T),
    ("n / -2 = -3", T),
    ("-n / 2 = -3", T),
    ("n % 4 = 3", T),
    ("-n % 4 = -3", T),
    ("n % -4 = 3", T),
    ("n / 2.0 = 3.5", T),
    ("seven / 2 = 3.5", T),
    ("d % 2 = 0.5", T),
    ("-d % 2 = -0.5", T),
    ("7 / 2 = 3", T),
    ("2 + 3 * 4 = 14", T),
    ("-(n) = -7", T),
    ("+n = 7", T),
    ("max + 1 > 0", U),
    ("min - 1 < 0", U),
    ("max * 2 > 0", U),
    ("-min > 0", U),
    ("min / -1 > 0", U),
    ("min % -1 = 0", T),
    ("max + 1.0 > 0", T),
    ("n / 0 = 1", U),
    ("n % 0 = 1", U),
    ("d / 0 > 1", U),
    ("d / z > 1", U),
    ("d % 0.0 = 1", U),
    ("inf % 2 = inf % 2", F),
    ("inf - inf = 0", F),
    ("NOT (n / 0 = 1)", U),
    # What can't be calculated is unknown, and no error.
    ("s * 2 = 4", U),
    ("two + 1 = 3", U),
    ("t + 1 = 2", U),
    ("-s = 1", U),
    ("-t = 1", U),
    ("bytes + 1 = 2", U),
    ("s * 2 = 4 OR n = 7", T),
    # Strings are joined, and with strings only.
    ("s + 'dish' = 'reddish'", T),
    ("'infra' + s = 'infrared'", T),
    ("s + two = 'red2'", T),
    ("s + n = 'red7'", U),
    ("s + missing = 'red'", U),
    ("'a' + 'b' = 'ab'", T),
]


@pytest.mark.parametrize(("text", "value"), TABLE)
def test_a_rule_of_the_language(text, value):
    """Each condition has the truth value beside it, and so it has under IS NULL and NOT."""
    tree = parse(text).expression
    assert meaning(tree, MESSAGE.get) is value
    assert selected(tree, MESSAGE) is (value is True)
    assert selected(Not(tree), MESSAGE) is (value is False)
    assert selected(IsNull(tree), MESSAGE) is (value is None)


def selected(tree, message):
    return compiled(Selector("", tree, frozenset()))(message.get)


@settings(max_examples=1_000)
@given(conditions, messages)
def test_it_means_what_the_slow_way_says(tree, message):
    """The compiled function and an interpreter of a dozen rules agree on all three values."""
    value = meaning(tree, message.get)
    assert selected(tree, message) is (value is True)
    assert selected(Not(tree), message) is (value is False)


@settings(max_examples=500)
@given(comparisons, messages)
def test_a_comparison_means_what_the_slow_way_says(tree, message):
    """The same for what isn't hidden below logic."""
    value = meaning(tree, message.get)
    assert selected(tree, message) is (value is True)
    assert selected(Not(tree), message) is (value is False)


@settings(max_examples=500)
@given(numbers, messages, st.one_of(exact, approximate))
def test_arithmetic_is_calculated_the_same(tree, message, other):
    """A number is the same number of the same kind."""
    value = meaning(tree, message.get)
    assert selected(IsNull(tree), message) is (value is None)
    wanted = meaning(Comparison("<", tree, Literal(other)), message.get)
    assert selected(Comparison("<", tree, Literal(other)), message) is (wanted is True)
    if kind(value) == "number" and not math.isnan(value):
        assert selected(Comparison("=", tree, Literal(value)), message)


@settings(max_examples=500)
@given(patterns(), texts)
def test_like_finds_what_all_tries_together_find(pattern, text):
    """Looking for each piece where it first stands loses no match."""
    tree = Like(Literal(text), *pattern)
    assert selected(tree, {}) is meaning(tree, {}.get)


@given(conditions)
def test_no_value_brings_an_exception(tree):
    """Whatever an identifier's value is, there is an answer."""
    for value in (None, True, MIN, MAX, 1e308, math.nan, math.inf, "", b"x", object(), [], {}):
        assert selected(tree, dict.fromkeys(NAMES, value)) in (True, False)


@pytest.mark.parametrize(
    "pattern",
    ["%a" * 2_000 + "%b", "%_a" * 1_000 + "b", "a%" * 2_000 + "b", "%" * 4_000 + "b", "_%" * 5_000],
)
def test_no_pattern_takes_for_ever(pattern):
    """A pattern that almost fits in very many ways is found not to fit before the test's time is
    over; to try all the ways would take centuries."""
    assert not selected(Like(Literal("a" * 4_000 + "c"), pattern), {})


def test_a_text_that_like_looks_at_has_a_length():
    """Beyond it nobody knows, and one text can't hold up all others."""
    tree = parse("a LIKE '%x'").expression
    for length, known in ((TEXT_CHARS_MAX, True), (TEXT_CHARS_MAX + 1, False)):
        message = {"a": "y" * (length - 1) + "x"}
        assert selected(tree, message) is known
        assert selected(Not(tree), message) is False
        assert selected(IsNull(tree), message) is not known


def test_a_text_that_is_joined_has_a_length():
    """A row of additions makes no text of a gigabyte."""
    half = "x" * (TEXT_CHARS_MAX // 2)
    tree = parse("(a + b) IS NULL").expression
    assert not selected(tree, {"a": half, "b": half})
    assert selected(tree, {"a": half, "b": half + "y"})


def test_constants_are_calculated_once():
    """Without a name in it, a condition is a constant: no message is asked."""

    def never(name):
        raise AssertionError(name)

    assert compiled(parse("2 + 3 * 4 = 14 AND 'ab' LIKE 'a%'"))(never)
    assert not compiled(parse("1 / 0 = 1"))(never)
