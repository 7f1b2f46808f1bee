"""Overlap and cover of patterns, against all short topics."""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.pipeline.lake.pattern_overlap import covers, overlap
from distributary.pipeline.model.topic_pattern import matches

WORDS = st.lists(st.sampled_from(["a", "b", "*", "#"]), min_size=1, max_size=4)
#: With a word that is in no pattern, and more words than patterns without a rest have.
TOPICS = [".".join(words) for size in range(1, 7) for words in product("abx", repeat=size)]


def topics_of(words: list[str]) -> set[str]:
    text = ".".join(words)
    if not {"*", "#"} & set(words):
        return {text}
    return {topic for topic in TOPICS if matches(f"pattern://{text}", topic)}


@settings(max_examples=600, deadline=None)
@given(WORDS, WORDS)
def test_patterns_overlap_where_a_topic_matches_both(one: list[str], other: list[str]) -> None:
    """With up to four words each, one of six is enough."""
    both = topics_of(one) & topics_of(other)
    assert overlap(one, other) == overlap(other, one) == bool(both)


@settings(max_examples=600, deadline=None)
@given(WORDS, WORDS)
def test_what_covers_another_has_all_its_topics(wide: list[str], narrow: list[str]) -> None:
    if covers(wide, narrow):
        assert topics_of(narrow) <= topics_of(wide)


def test_plain_cases_of_covering() -> None:
    yes = ["a.# a.b", "a.# a", "# *.*", "a.# a.*.#", "*.b a.b", "#.b a.#.b", "a.* a.*", "# #"]
    no = ["a.b a.#", "a.* a.#", "*.# #", "a.# #.a", "* a.b", "a.#.b a.#"]
    # `*.#` and `#` have the same topics, as a name has one word at least; a no is always safe.
    for case, said in [(case, True) for case in yes] + [(case, False) for case in no]:
        wide, narrow = (text.split(".") for text in case.split())
        assert covers(wide, narrow) is said, case
