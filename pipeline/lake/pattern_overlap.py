"""Comparison of two patterns of topics: whether a topic matches both, and whether one has all
topics of the other. A pattern is the list of its words, `*` for one word and `#` for any number.

Each pattern is read as a machine whose states are the positions between its words. The other one is
run through it word by word, so the work is the product of their lengths.
"""

from collections.abc import Sequence

from distributary.pipeline.model.topic_pattern import REST, WORD


def overlap(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether there is a topic that matches both."""
    at = _closed(one, {0})
    for word in other:
        if word == REST:  # any words: every later position can be reached
            at = set(range(min(at), len(one) + 1))
        else:
            at = _closed(one, _after(one, at, word, any_word=word == WORD))
        if not at:
            return False
    return len(one) in at


def covers(wide: Sequence[str], narrow: Sequence[str]) -> bool:
    """Whether every topic that matches `narrow` matches `wide`. False may be wrong for patterns
    that mean the same in different forms (`*.#` and `#.*`), True never is."""
    at = _closed(wide, {0})
    for word in narrow:
        if word == REST:  # only a rest of the wide pattern takes any number of words
            at = _closed(wide, {nth for nth in at if nth < len(wide) and wide[nth] == REST})
        else:
            at = _closed(wide, _after(wide, at, word, any_word=False))
    return len(wide) in at


def _after(words: Sequence[str], at: set[int], word: str, *, any_word: bool) -> set[int]:
    """Return the positions after one more word; `any_word`: it stands for every word."""
    found = set()
    for nth in at:
        if nth == len(words):
            continue
        if words[nth] == REST:
            found.add(nth)
        elif any_word or words[nth] in (WORD, word):
            found.add(nth + 1)
    return found


def _closed(words: Sequence[str], at: set[int]) -> set[int]:
    """Return these positions, and those behind rests that take no word."""
    found = set(at)
    for nth, word in enumerate(words):
        if word == REST and nth in found:
            found.add(nth + 1)
    return found
