"""The index of claimed patterns: the same answers as one pattern at a time, and one look-up."""

import random

import pytest

from distributary.pipeline.log import pattern_index
from distributary.pipeline.log.pattern_index import PatternIndex
from distributary.pipeline.model.topic_pattern import matches

WORDS = ["a", "b", "eu", ""]


def _topic(rng: random.Random) -> str:
    return ".".join(rng.choices(WORDS, k=rng.randint(1, 4)))


def _pattern(rng: random.Random) -> str:
    words = rng.choices([*WORDS, "*", "*"], k=rng.randint(0, 3))
    for _ in range(rng.randint(0, 2)):
        words.insert(rng.randint(0, len(words)), "#")
    shortened = [w for n, w in enumerate(words) if n == 0 or not w == words[n - 1] == "#"]
    return "pattern://" + ".".join(shortened or ["*"])


def test_a_topic_finds_the_patterns_that_match_it_while_they_come_and_go() -> None:
    rng, index, there = random.Random(17), PatternIndex(), set[str]()
    for _ in range(3_000):
        pattern = rng.choice(sorted(there)) if there and rng.random() < 0.45 else _pattern(rng)
        if pattern in there:
            index.remove(pattern)
            there.discard(pattern)
        else:
            index.add(pattern)
            there.add(pattern)
        topic = _topic(rng)
        assert index.of(topic) == tuple(sorted(one for one in there if matches(one, topic)))
        assert len(index) == len(there)
    for pattern in there:
        index.remove(pattern)
    assert index.of("a") == ()


def test_other_destinations_match_nothing() -> None:
    index = PatternIndex()
    index.add("pattern://#")
    assert index.of("orders.eu") == ("pattern://#",)
    assert index.of("queue://orders") == ()
    assert index.of("temp-topic://1") == ()
    assert index.of("pattern://orders.*") == ()
    index.add("pattern://#")
    assert len(index) == 1
    index.remove("pattern://nobody.*")
    assert "pattern://#" in index


def test_a_topic_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    index = PatternIndex()
    for nth in range(10_000):
        index.add(f"pattern://some.{nth}.*")
    first = index.of("some.77.x")
    assert first == ("pattern://some.77.*",)
    assert index.of("some.77.x") is first
    monkeypatch.setattr(pattern_index, "TOPICS_MAX", 2)
    for nth in range(10):
        assert index.of(f"some.{nth}.x") == (f"pattern://some.{nth}.*",)
