"""Policies send messages only to names that links can use."""

import pytest

from distributary.pipeline.model.policy import DEFAULT, DEFAULT_TOPIC, unreachable
from distributary.pipeline.model.topic_pattern import PatternStyle
from distributary.pipeline.subscriptions.policy_table import over, topic_over

ARTEMIS, CLASSIC, NONE = PatternStyle.ARTEMIS, PatternStyle.CLASSIC, PatternStyle.NONE


@pytest.mark.parametrize(
    ("key", "value", "style"),
    [
        ("dead_letter_address", "dead.#", ARTEMIS),
        ("dead_letter_address", "queue://dead.>", CLASSIC),
        ("dead_letter_address", "*", ARTEMIS),
        ("routes", ["audit", "queue://work.* where a > 1"], ARTEMIS),
        ("routes", "copies.#", ARTEMIS),
        ("routes", "pattern://copies.#", NONE),
    ],
)
def test_no_message_is_sent_to_a_name_with_wildcards(
    key: str, value: object, style: PatternStyle
) -> None:
    said = {key: value}
    assert unreachable(topic_over(DEFAULT_TOPIC, said, "here"), style).startswith(f"{key}: ")
    if key != "routes":
        assert unreachable(over(DEFAULT, said, "here"), style).startswith(f"{key}: ")


@pytest.mark.parametrize(
    ("key", "value", "style"),
    [
        ("dead_letter_address", "dead", ARTEMIS),
        ("dead_letter_address", "dead.#", CLASSIC),
        ("dead_letter_address", "queue://a*b", ARTEMIS),
        ("routes", ["audit", "queue://work"], ARTEMIS),
        ("routes", "copies.#", NONE),
    ],
)
def test_a_name_that_links_can_use_is_allowed(key: str, value: object, style: PatternStyle) -> None:
    assert not unreachable(topic_over(DEFAULT_TOPIC, {key: value}, "here"), style)
