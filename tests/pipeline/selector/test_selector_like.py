"""LIKE: what fits, and that finding out goes over a text as often as is said."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.selector.evaluate import TEXT_CHARS_MAX
from distributary.pipeline.selector.lexer import SelectorError
from distributary.pipeline.selector.like import fitting, passes
from distributary.pipeline.selector.parser import PASSES_MAX, SelectorLimits, parse

TEXTS = st.text("ab\n%_.\\é", max_size=12)


def expected(pattern: str, text: str) -> bool:
    """As a regular expression that tries all the ways."""
    words = {"%": ".*", "_": "."}
    expression = "".join(words.get(one) or re.escape(one) for one in pattern)
    return re.fullmatch(f"(?s:{expression})", text) is not None


def reached(pattern: str, text: str) -> bool:
    """As `expected`, for long texts, of which a regular expression tries exponentially many ways.
    Bit n says that so much of the pattern fits the first n characters."""
    places = 1
    for one in pattern:
        if one == "%":
            places = -(places & -places)  # from the lowest on all, beyond the text's end too
        else:
            fits = sum(1 << n for n, found in enumerate(text) if one in ("_", found))
            places = (places & fits) << 1
    return bool(places >> len(text) & 1)


@given(st.text("ab%_\né", max_size=10), TEXTS)
def test_a_text_fits_as_a_regular_expression_says(pattern: str, text: str) -> None:
    """This holds for a pattern of any pieces at any places."""
    assert fitting(pattern, None)(text) is expected(pattern, text) is reached(pattern, text)


@pytest.mark.parametrize("seed", range(5))
def test_a_text_that_was_made_from_a_pattern_fits_it(seed: int) -> None:
    """Long ones, of which pieces come again and again."""
    dice = random.Random(seed)
    for _ in range(300):
        pattern = "".join(dice.choices("aab%_", k=dice.randint(0, 30)))
        text = "".join(
            {"%": "ab" * dice.randint(0, 5), "_": dice.choice("ab")}.get(one, one)
            for one in pattern
        )
        assert fitting(pattern, None)(text)
        assert fitting(pattern, None)(text + "c") is reached(pattern, text + "c")


def test_what_follows_the_escape_is_itself() -> None:
    assert fitting("a!%b!_%", "!")("a%b_c")
    assert not fitting("a!%b!_%", "!")("axb_c")


#: By selector: how often it goes over a message's texts.
PASSES = {
    "a = 1 AND b > 2 AND c IN ('x', 'y') AND d IS NULL AND e BETWEEN 1 AND 2": 0,
    "a LIKE 'x'": 1,
    "a LIKE 'x%'": 1,
    "a NOT LIKE '%x%y%'": 1,
    "a LIKE '__x__%yy%__'": 1,
    "a LIKE '%x_z%'": 3,
    "a LIKE '%x_z%12%____%'": 4,
    "a LIKE '%x!_z%' ESCAPE '!'": 1,
    "a LIKE '%x%' OR (b LIKE 'y' AND NOT c LIKE '%_%')": 3,
    "a + b + 'c' = 'abc'": 2,
    "a - b * c / d = 1": 0,
    "a = b OR c <> d OR e < f": 2,
}


@pytest.mark.parametrize("text", PASSES)
def test_passes_are_counted(text: str) -> None:
    """And a selector that makes more than it may is refused, with the number."""
    assert passes(parse(text).expression) == PASSES[text]
    parse(text, SelectorLimits(passes_max=PASSES[text]))
    if PASSES[text]:
        with pytest.raises(SelectorError, match=f"goes {PASSES[text]} times over a text"):
            parse(text, SelectorLimits(passes_max=PASSES[text] - 1))


def test_what_the_log_has_is_read_whatever_it_is() -> None:
    """A limit refuses what comes; it was another one once."""
    assert PASSES_MAX > passes(parse(" OR ".join(["a LIKE '%x%'"] * 500)).expression) == 500


def test_a_long_pattern_goes_over_a_long_text_once() -> None:
    """Two thousand of the pairs by which a piece almost fits everywhere: each would take half a
    second if the pattern's length were multiplied with the text's, so that this would take an
    hour."""
    almost = "a" * (TEXT_CHARS_MAX - 1) + "b"
    for pattern in ("%" + "a" * 8_000 + "c%", "%b" + "a" * 8_000 + "%", "%" + "a%" * 4_000 + "c%"):
        fits = fitting(pattern, None)
        assert not any(fits(almost) for _ in range(700))
