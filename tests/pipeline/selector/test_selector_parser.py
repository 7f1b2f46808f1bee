"""The language of selectors: what is one, what it says, and where it is wrong."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selector_trees import conditions

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.selector.lexer import SelectorError
from distributary.pipeline.selector.parser import (
    CHARS_MAX,
    DEPTH_MAX,
    FORBIDDEN,
    SelectorLimits,
    parse,
)
from distributary.pipeline.selector.syntax import printed

#: Text -> what it says, with every parenthesis that it means.
SAYS = [
    # Keywords in any case, names in theirs, white space and comments.
    ("a = 1 And nOT b", "(a = 1) AND (NOT b)"),
    ("A = a", "A = a"),
    ("\ta\n=\r\f1 ", "a = 1"),
    ("a -- the rest of the line\n= 1", "a = 1"),
    ("a/* comment ** \n */=1", "a = 1"),
    # Exact numbers.
    ("a = 0", "a = 0"),
    ("a = 12345678901234567", "a = 12345678901234567"),
    ("a = 5l OR a = 7L", "(a = 5) OR (a = 7)"),
    ("a = 0x1F", "a = 31"),
    ("a = 0XffL", "a = 255"),
    ("a = 017", "a = 15"),
    ("a = 9223372036854775807", "a = 9223372036854775807"),
    ("a = -9223372036854775808", "a = (-9223372036854775808)"),
    # Beyond 64 bits and with a point or exponent they are approximate.
    ("a = 9223372036854775808", "a = 9.223372036854776e+18"),
    ("a = 0x10000000000000000", "a = 1.8446744073709552e+19"),
    ("a = 5.", "a = 5.0"),
    ("a = 5.5", "a = 5.5"),
    ("a = .5", "a = 0.5"),
    ("a = 5E10", "a = 50000000000.0"),
    ("a = 5.5e-3", "a = 0.0055"),
    ("a = 09.5", "a = 9.5"),
    # Signs.
    ("a = -5", "a = (-5)"),
    ("a = +5", "a = 5"),
    ("a = - -5", "a = (-(-5))"),
    ("a = -(5)", "a = (-(5))"),
    ("-a < +b", "(-(a)) < b"),
    # Strings and names.
    ("a = 'it''s'", "a = 'it''s'"),
    ("a = ''", "a = ''"),
    ("a = '\\n'", "a = '\\n'"),
    ("$a_1 = _b$", "$a_1 = _b$"),
    ('"a b" = "c""d"', '"a b" = "c""d"'),
    ('"plain" = "AND"', 'plain = "AND"'),
    ("größe = 1", "größe = 1"),
    # From the loosest to the tightest.
    ("a OR b AND c", "a OR (b AND c)"),
    ("a AND b OR c", "(a AND b) OR c"),
    ("a OR b OR c", "a OR b OR c"),
    ("a OR (b OR c)", "a OR (b OR c)"),
    ("a = b < c", "a = (b < c)"),
    ("a = b = c", "(a = b) = c"),
    ("a < b + c", "a < (b + c)"),
    ("a + b * c = d", "(a + (b * c)) = d"),
    ("a - b - c = d", "((a - b) - c) = d"),
    ("a / b * c = d", "((a / b) * c) = d"),
    ("-a * b = c % d", "((-(a)) * b) = (c % d)"),
    ("(a + b) * c = d", "((a + b) * c) = d"),
    # NOT reaches over a whole comparison.
    ("NOT a = 1", "NOT (a = 1)"),
    ("NOT a = 1 AND b", "(NOT (a = 1)) AND b"),
    ("NOT a IS NULL", "NOT (a IS NULL)"),
    ("NOT NOT a", "NOT (NOT a)"),
    ("a = NOT b", "a = (NOT b)"),
    ("NOT (a OR b)", "NOT (a OR b)"),
    # The operators of words.
    ("a LIKE 'x%'", "a LIKE 'x%'"),
    ("a NOT LIKE 'x%'", "NOT (a LIKE 'x%')"),
    ("a LIKE '50!%' ESCAPE '!'", "a LIKE '50!%' ESCAPE '!'"),
    ("a BETWEEN 1 AND 2", "a BETWEEN 1 AND 2"),
    ("a NOT BETWEEN b - 1 AND 2 AND c", "(NOT (a BETWEEN (b - 1) AND 2)) AND c"),
    ("a IN ('x')", "a IN ('x')"),
    ("a NOT IN ('x', 'y')", "NOT (a IN ('x', 'y'))"),
    ("a IS NULL", "a IS NULL"),
    ("a IS NOT NULL", "NOT (a IS NULL)"),
    ("a + 1 IS NULL", "(a + 1) IS NULL"),
    # Strings are joined by +.
    ("a + 'x' = 'y' + b", "(a + 'x') = ('y' + b)"),
    ("TRUE", "TRUE"),
    ("flag = false", "flag = FALSE"),
]

#: Text, line, column, and a word of what is wrong with it.
WRONG = [
    ("", 1, 1, "expected a value, found the end"),
    ("   ", 1, 4, "expected a value"),
    ("a =", 1, 4, "expected a value, found the end"),
    ("a == 1", 1, 4, "expected a value, found '='"),
    ("a\n  =\n  ?", 3, 3, "'?' begins no word"),
    ("(a = 1", 1, 7, "expected an operator or ')', found the end"),
    ("a = 1)", 1, 6, "expected an operator or the end, found ')'"),
    ("a = 1 b = 2", 1, 7, "expected an operator or the end, found 'b'"),
    ("a = 'x", 1, 5, "the string that begins here has no end"),
    ("a = 'it''s", 1, 5, "the string that begins here has no end"),
    ('"a = 1', 1, 1, "the quoted name that begins here has no end"),
    ('"" = 1', 1, 1, "or is empty"),
    ("a = 1 -- comment", 1, 7, "needs a line's end"),
    ("a = 1 /* comment", 1, 7, "the comment that begins here has no end"),
    ("a--1 = b", 1, 2, "a minus can't follow a minus"),
    # Numbers that are none.
    ("a = 09", 1, 5, "'09' is no number"),
    ("a = 0xG", 1, 5, "'0xG' is no number"),
    ("a = 5x", 1, 5, "'5x' is no number"),
    ("a = 1.2.3", 1, 5, "'1.2.3' is no number"),
    ("a = 1e999", 1, 5, "too large"),
    ("a = " + "9" * 400, 1, 5, "too large"),
    ("a = 0x" + "F" * 80, 1, 5, "too long"),
    # NULL and the whole.
    ("a = NULL", 1, 5, "NULL stands only after IS"),
    ("NULL IS NULL", 1, 1, "NULL stands only after IS"),
    ("a IS 5", 1, 6, "expected 'NULL' or 'NOT NULL', found '5'"),
    ("a IS NOT b", 1, 10, "expected 'NULL', found 'b'"),
    ("5", 1, 1, "expected a boolean, found a number"),
    ("a + 1", 1, 1, "expected a boolean, found a number"),
    ("'x'", 1, 1, "expected a boolean, found a string"),
    # Operands that can't be.
    ("a > 'x'", 1, 5, "expected a number, found a string"),
    ("TRUE <= a", 1, 1, "expected a number, found a boolean"),
    ("(a = 1) < 2", 1, 2, "expected a number, found a boolean"),
    ("a BETWEEN 'x' AND 'y'", 1, 11, "expected a number, found a string"),
    ("a BETWEEN 1, 2", 1, 12, "expected 'AND', found ','"),
    ("a = 1 AND 'x'", 1, 11, "expected a boolean, found a string"),
    ("NOT 5", 1, 5, "expected a boolean, found a number"),
    ("-'x' = a", 1, 2, "expected a number, found a string"),
    ("'x' * 2 = a", 1, 1, "expected a number, found a string"),
    ("'x' + 2 = a", 1, 1, "expected a number, found a string"),
    ("1 = 'x'", 1, 3, "a number and a string are never equal"),
    ("TRUE <> 1", 1, 6, "a boolean and a number are never equal"),
    # LIKE and IN.
    ("a LIKE b", 1, 8, "expected a string such as 'text', found 'b'"),
    ("a LIKE 'x' ESCAPE 'ab'", 1, 19, "ESCAPE needs one character, not 2"),
    ("a LIKE 'x' ESCAPE ''", 1, 19, "ESCAPE needs one character, not 0"),
    ("a LIKE 'x!' ESCAPE '!'", 1, 8, "ends with its escape"),
    ("a IN (1)", 1, 7, "expected a string"),
    ("a IN ()", 1, 7, "expected a string"),
    ("a IN 'x'", 1, 6, "expected '('"),
    ("a IN ('x' 'y')", 1, 11, "expected ',' or ')'"),
    ("'x' IN ('x')", 1, 5, "must be a name"),
    ("a NOT = 1", 1, 7, "expected 'LIKE', 'BETWEEN' or 'IN' after 'NOT'"),
    ("a NOT NULL", 1, 7, "after 'NOT'"),
]


@pytest.mark.parametrize(("text", "says"), SAYS)
def test_a_selector_says(text, says):
    """Each text is understood as the one beside it, where every parenthesis is written."""
    assert printed(parse(text).expression) == says


@pytest.mark.parametrize(("text", "line", "column", "complaint"), WRONG)
def test_what_is_wrong_is_told_with_its_place(text, line, column, complaint):
    """Line, column and what was expected stand in the error."""
    with pytest.raises(SelectorError) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert f"line {line}, column {column}: " in str(caught.value)
    assert complaint in str(caught.value)
    assert isinstance(caught.value, InvalidRequest)


@pytest.mark.parametrize("name", sorted(FORBIDDEN))
def test_some_header_fields_are_refused(name):
    """A field that JMS doesn't allow is an error, not a property that is never there."""
    with pytest.raises(SelectorError, match=name):
        parse(f"a = 1 OR {name} IS NULL")


def test_names_are_gathered():
    """A parsed selector has the names that its evaluation reads."""
    assert parse("a = 1 AND (b IN ('x') OR NOT a LIKE 'c') AND -d > 2").identifiers == {
        "a",
        "b",
        "d",
    }


def test_a_text_has_a_length():
    """The last length that is right, and the first that isn't."""
    text = "a = 1"
    assert parse(text, SelectorLimits(chars_max=5))
    with pytest.raises(SelectorError, match="beyond 4 characters"):
        parse(text, SelectorLimits(chars_max=4))


@pytest.mark.parametrize(
    "nested",
    [
        lambda depth: "(" * depth + "a" + ")" * depth,
        lambda depth: "NOT " * depth + "a",
        lambda depth: "- " * depth + "a = 1",
        lambda depth: "a = 1" + " + a" * depth,
        lambda depth: "a = (b + " * depth + "1" + ")" * depth,
    ],
)
def test_a_tree_has_a_depth(nested):
    """A tree that would cost too much stack is an error with a place, in any form of nesting."""
    assert parse(nested(10))
    for depth in (DEPTH_MAX + 1, 2_000):
        with pytest.raises(SelectorError, match=f"deeper than {DEPTH_MAX} levels"):
            parse(nested(depth))
    with pytest.raises(SelectorError, match="deeper than 9 levels"):
        parse(nested(10), SelectorLimits(depth_max=9))


def test_a_row_of_conditions_is_no_depth():
    """Thousands of alternatives are one node."""
    text = " OR ".join(f"a = {n}" for n in range(4_000))
    assert len(text) < CHARS_MAX
    assert parse(text, SelectorLimits(depth_max=3))


KEYWORDS = "NOT AND OR BETWEEN LIKE ESCAPE IN IS TRUE FALSE NULL"
WORDS = st.sampled_from(
    [
        *"()+-*/%=<>,' \n\"",
        "a",
        "b",
        "1",
        "0x1",
        ".5",
        "'x'",
        "<>",
        ">=",
        "/*",
        "*/",
        "--",
        *KEYWORDS.split(" "),
    ]
)


@settings(max_examples=500)
@given(st.one_of(st.text(), st.lists(WORDS).map(" ".join), st.lists(WORDS).map("".join)))
def test_any_text_is_a_selector_or_an_error(text):
    """Nothing else comes out of the parser, and the error's place is in the text."""
    error = None
    try:
        parse(text)
    except SelectorError as caught:
        error = caught
    if error:
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert 1 <= error.column <= len(lines[error.line - 1]) + 1


@settings(max_examples=500)
@given(conditions)
def test_what_is_printed_is_parsed_to_the_same(tree):
    """Printing loses nothing; `repr` tells 1, 1.0 and TRUE apart."""
    assert repr(parse(printed(tree)).expression) == repr(tree)
