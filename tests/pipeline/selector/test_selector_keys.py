"""Values of one property that a selector requires: never more than needed to be true."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from selector_trees import comparisons, identifiers, logical, meaning, messages, texts

from distributary.pipeline.selector.keys import keyed, required
from distributary.pipeline.selector.parser import parse
from distributary.pipeline.selector.syntax import And, Comparison, Identifier, In, Literal

BIG = 2**53

#: Selectors, and what they require.
TABLE = [
    ("a = 1", {"a": {1}}),
    ("a = -1", {"a": {-1}}),
    ("a = 'x'", {"a": {"x"}}),
    ("a = TRUE", {"a": {True}}),
    ("a IN ('x', 'y')", {"a": {"x", "y"}}),
    ("a = 1 AND b > 2", {"a": {1}}),
    ("a = 1 AND b = 2 AND c <> 3", {"a": {1}, "b": {2}}),
    ("a = 1 AND a = 2", {"a": set()}),
    ("a = 1 OR a = 2", {"a": {1, 2}}),
    ("a = 1 OR b = 2", {}),
    ("a = 1 OR a > 2", {}),
    ("a = 'x' AND b = 1 OR a = 'y' AND c = 1", {"a": {"x", "y"}}),
    ("NOT a = 1", {}),
    ("NOT (NOT a = 1)", {}),
    ("a <> 1", {}),
    ("a NOT IN ('x')", {}),
    ("a IS NULL", {}),
    ("a LIKE 'x'", {}),
    ("a = b", {}),
    ("a + 1 = 2", {}),
    # 0.5 is a double, and doubles are equal to integers that aren't equal in Python.
    ("a = 0.5", {}),
    ("a = 9007199254740991", {"a": {BIG - 1}}),
    ("a = 9007199254740992", {}),
]


@pytest.mark.parametrize(("text", "values"), TABLE)
def test_what_is_required(text, values):
    """Each has the values beside it."""
    assert required(parse(text).expression) == values


equalities = st.one_of(
    st.builds(
        Comparison,
        st.just("="),
        identifiers,
        st.one_of(
            st.integers(-1, 2),
            st.booleans(),
            texts,
            st.floats(-1, 2),
            st.integers(BIG - 2, BIG + 2),
        ).map(Literal),
    ),
    st.builds(In, identifiers, st.lists(texts, min_size=1, max_size=3).map(tuple)),
)
# `logical` nests them: conditions that are nested already would only be drawn for longer.
others = st.one_of(comparisons, identifiers, st.booleans().map(Literal))
trees = st.recursive(st.one_of(equalities, equalities, others), logical, max_leaves=6)


@settings(max_examples=2_000)
@given(trees, messages, st.data())
@example(Comparison("=", Identifier("a"), Literal(BIG + 1)), {"a": float(BIG)}, None)
@example(Comparison("=", Identifier("a"), Literal(float(BIG))), {"a": BIG + 1}, None)
@example(Comparison("=", Identifier("a"), Literal(1)), {"a": 1.0}, None)
def test_what_is_true_has_all_that_it_requires(tree, message, data):
    """A message that a selector selects has one of the values, whatever it requires."""
    needs = required(tree)
    for name, values in needs.items():
        if values and data and data.draw(st.booleans()):
            message[name] = data.draw(st.sampled_from(sorted(values, key=repr)))
    if meaning(tree, message.get) is True:
        assert all(message.get(name) in values for name, values in needs.items())


def test_it_is_looked_up_by_what_tells_most_apart():
    """Not by what all of them require; each by something that it requires itself."""
    selectors = [And((parse("k = 'v'").expression, parse(f"n = {n}").expression)) for n in range(3)]
    selectors += [parse("k = 'w'").expression, parse("m > 1").expression]
    assert keyed([required(one) for one in selectors]) == [
        *(("n", frozenset({n})) for n in range(3)),
        ("k", frozenset({"w"})),
        None,
    ]
