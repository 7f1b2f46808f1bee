"""Results of selectors: each rule of the language as rows, then all of them at random."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selector_rules import MAX, MESSAGE, MIN, TABLE
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

from distributary.pipeline.selector.evaluate import TEXT_CHARS_MAX, compiled
from distributary.pipeline.selector.parser import parse
from distributary.pipeline.selector.syntax import Comparison, IsNull, Like, Literal, Not, Selector


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
    """A comparison without logic above it means the same."""
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
    """For any value of an identifier there is an answer."""
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
    """The result for a longer text is unknown, so that one text can't hold up all others."""
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
