"""Patterns of topics: what each style's wildcards mean, and what is refused in which words."""

import re

import pytest

from distributary.pipeline.model import topic_pattern
from distributary.pipeline.model.address import Destination, Kind
from distributary.pipeline.model.amqp_error import INVALID_FIELD, AmqpError
from distributary.pipeline.model.topic_pattern import PatternStyle, consumed, published

ARTEMIS, CLASSIC, RABBITMQ, NONE = PatternStyle

READ = [
    # style, what a consumer of a topic writes, what the log has
    (ARTEMIS, "orders", "orders"),
    (ARTEMIS, "orders.*", "pattern://orders.*"),
    (ARTEMIS, "orders.#", "pattern://orders.#"),
    (ARTEMIS, "#", "pattern://#"),
    (ARTEMIS, "*.eu.*", "pattern://*.eu.*"),
    (ARTEMIS, "orders.>", "orders.>"),
    (CLASSIC, "orders.>", "pattern://orders.#"),
    (CLASSIC, "*.eu", "pattern://*.eu"),
    (CLASSIC, "a#b", "a#b"),
    (CLASSIC, ">", "pattern://#"),
    (RABBITMQ, "#.eu.#", "pattern://#.eu.#"),
    (RABBITMQ, "#.#.eu", "pattern://#.eu"),
    (NONE, "orders.*", "orders.*"),
    (NONE, "pattern://orders.*", "pattern://orders.*"),
    (CLASSIC, "pattern://#.eu", "pattern://#.eu"),
]

REFUSED = [
    (ARTEMIS, "orders*", "'orders*' is no pattern: * and # stand for whole words between dots"),
    (ARTEMIS, "#.eu", "'#.eu' is no pattern: # stands at its end alone"),
    (CLASSIC, ">.eu", "'>.eu' is no pattern: > stands at its end alone"),
    (CLASSIC, "#.*", "'#.*' is no pattern: a word of # alone can't be told from a wildcard"),
    (RABBITMQ, "a.b#", "'a.b#' is no pattern: * and # stand for whole words between dots"),
    (RABBITMQ, "#.a.#.b.#", "'#.a.#.b.#' is no pattern: # stands in it 2 times at most"),
    (
        ARTEMIS,
        "pattern://orders",
        "'pattern://orders' is no pattern: there is no wildcard in orders",
    ),
]

MATCHES = [
    # pattern, topics that match, topics that don't
    ("orders.*", ["orders.eu", "orders."], ["orders", "orders.eu.1", "order.eu", "xorders.eu"]),
    ("orders.#", ["orders", "orders.eu", "orders.eu.1"], ["ordersx", "x.orders", "order"]),
    ("*.eu", ["orders.eu", ".eu"], ["eu", "a.b.eu", "orders.eux"]),
    ("#", ["a", "a.b", "é ü"], ["queue://a", "temp-topic://a", "temp-queue://a", "pattern://#"]),
    ("#.eu.#", ["eu", "a.eu", "eu.a", "a.b.eu.c.d", "eu.eu"], ["a", "aeu.b", "a.eux"]),
    ("a.*.#", ["a.b", "a.b.c"], ["a", "b.a"]),
    ("a+.*", ["a+.b"], ["aa.b", "a.b"]),
]


@pytest.mark.parametrize(("style", "name", "topic"), READ)
def test_a_consumer_s_wildcards_mean_a_pattern(style: PatternStyle, name: str, topic: str) -> None:
    meant = consumed(Destination(Kind.TOPIC, name), style)
    assert isinstance(meant, Destination)
    assert meant.topic == topic
    assert topic_pattern.is_pattern(topic) == topic.startswith("pattern://")


@pytest.mark.parametrize(("style", "name", "text"), REFUSED)
def test_a_bad_pattern_is_refused_in_one_sentence(
    style: PatternStyle, name: str, text: str
) -> None:
    assert consumed(Destination(Kind.TOPIC, name), style) == AmqpError(INVALID_FIELD, text)


@pytest.mark.parametrize(
    ("style", "name"),
    [(ARTEMIS, "a.*"), (ARTEMIS, "a*"), (CLASSIC, "a.>"), (RABBITMQ, "#"), (NONE, "pattern://#")],
)
def test_nobody_publishes_to_a_pattern(style: PatternStyle, name: str) -> None:
    refused = published(Destination(Kind.TOPIC, name), style)
    assert refused is not None
    assert refused.description == (
        f"'{name}' is a pattern: consumers have patterns, a message has a topic"
    )


@pytest.mark.parametrize(("style", "name"), [(ARTEMIS, "a.>"), (CLASSIC, "a.#"), (NONE, "a.*")])
def test_what_is_no_wildcard_of_the_style_is_a_name(style: PatternStyle, name: str) -> None:
    assert published(Destination(Kind.TOPIC, name), style) is None
    assert consumed(Destination(Kind.TOPIC, name), style) == Destination(Kind.TOPIC, name)


def test_a_queue_has_no_pattern() -> None:
    text = "'queue://orders.*' has wildcards: patterns are for topics, a queue has one name"
    queue = Destination(Kind.QUEUE, "orders.*")
    assert consumed(queue, ARTEMIS) == AmqpError(INVALID_FIELD, text)
    assert published(queue, ARTEMIS) == AmqpError(INVALID_FIELD, text)
    inside = Destination(Kind.QUEUE, "orders*")
    assert consumed(inside, ARTEMIS) == inside
    temporary = Destination(Kind.TEMPORARY_QUEUE, "*")
    assert consumed(temporary, ARTEMIS) == temporary
    assert published(temporary, ARTEMIS) is None


@pytest.mark.parametrize(("pattern", "some", "others"), MATCHES)
def test_what_matches(pattern: str, some: list[str], others: list[str]) -> None:
    word = f"pattern://{pattern}"
    assert [one for one in some if not topic_pattern.matches(word, one)] == []
    assert [one for one in others if topic_pattern.matches(word, one)] == []
    assert all(one.startswith(topic_pattern.least(word)) for one in some)
    spoken = re.compile(topic_pattern.expression(word))
    topics = [one for one in [*some, *others] if "://" not in one]
    assert [one for one in topics if spoken.search(f"{one}.")] == [
        one for one in topics if topic_pattern.matches(word, one)
    ]


def test_a_name_matches_itself_alone() -> None:
    assert topic_pattern.matches("orders", "orders")
    assert not topic_pattern.matches("orders", "orders.eu")
    assert topic_pattern.matches("queue://a", "queue://a")
