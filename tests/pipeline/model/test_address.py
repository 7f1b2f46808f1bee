"""Meaning of addresses: every way to say the kind, and every way to say it wrong."""

import pytest

from distributary.pipeline.model.address import (
    ANNOTATED,
    PREFIXES,
    Destination,
    Kind,
    destination_of,
    kind_of_topic,
    said_by,
)
from distributary.pipeline.model.amqp_error import AmqpError

TOPIC, QUEUE, TEMPORARY_TOPIC, TEMPORARY_QUEUE = Kind

ROWS = [
    # address, what is said beside it, kind, name
    ("orders", None, TOPIC, "orders"),
    ("orders", TOPIC, TOPIC, "orders"),
    ("orders", QUEUE, QUEUE, "orders"),
    ("topic://orders", None, TOPIC, "orders"),
    ("topic://orders", TOPIC, TOPIC, "orders"),
    ("queue://orders", None, QUEUE, "orders"),
    ("queue://orders", QUEUE, QUEUE, "orders"),
    ("temp-topic://1", None, TEMPORARY_TOPIC, "1"),
    ("temp-topic://1", TEMPORARY_TOPIC, TEMPORARY_TOPIC, "1"),
    ("temp-topic://1", TOPIC, TEMPORARY_TOPIC, "1"),
    ("temp-queue://1", None, TEMPORARY_QUEUE, "1"),
    ("temp-queue://1", QUEUE, TEMPORARY_QUEUE, "1"),
    ("1", TEMPORARY_QUEUE, TEMPORARY_QUEUE, "1"),
    ("a/b.c d:é", None, TOPIC, "a/b.c d:é"),
    ("pattern://a.*", None, TOPIC, "pattern://a.*"),
    ("http:/orders", None, TOPIC, "http:/orders"),
    ("a/b://orders", None, TOPIC, "a/b://orders"),
    ("queue:/orders", None, TOPIC, "queue:/orders"),
    ("a,queue://b", None, TOPIC, "a,queue://b"),
    ("x" * 255, None, TOPIC, "x" * 255),
]

BAD_ROWS = [
    # address, what is said beside it, condition
    ("topic://orders", QUEUE, "amqp:invalid-field"),
    ("queue://orders", TOPIC, "amqp:invalid-field"),
    ("queue://orders", TEMPORARY_QUEUE, "amqp:invalid-field"),
    ("temp-queue://1", TOPIC, "amqp:invalid-field"),
    ("temp-queue://1", TEMPORARY_TOPIC, "amqp:invalid-field"),
    ("", None, "amqp:not-found"),
    ("queue://", None, "amqp:not-found"),
    ("$management", None, "amqp:not-found"),
    ("queue://$cbs", None, "amqp:not-found"),
    ("topic://queue://orders", None, "amqp:invalid-field"),
    ("queue://queue://orders", None, "amqp:invalid-field"),
    ("temp-queue://topic://orders", None, "amqp:invalid-field"),
    ("foo://orders", None, "amqp:invalid-field"),
    ("Queue://orders", None, "amqp:invalid-field"),
    ("queue://foo://orders", None, "amqp:invalid-field"),
    ("orders+1.x-y://z", QUEUE, "amqp:invalid-field"),
    ("x" * 256, None, "amqp:invalid-field"),
    ("a\nb", None, "amqp:invalid-field"),
    ("queue://a\x00", None, "amqp:invalid-field"),
]


@pytest.mark.parametrize(("address", "said", "kind", "name"), ROWS)
def test_an_address_means_one_destination(
    address: str, said: Kind | None, kind: Kind, name: str
) -> None:
    assert destination_of(address, said, TOPIC) == Destination(kind, name)


@pytest.mark.parametrize(("address", "said", "condition"), BAD_ROWS)
def test_what_is_no_address_is_refused_with_a_sentence(
    address: str, said: Kind | None, condition: str
) -> None:
    amqp_error = destination_of(address, said, TOPIC)
    assert isinstance(amqp_error, AmqpError)
    assert amqp_error.condition == condition
    assert " " in amqp_error.description


def test_a_bare_address_is_what_the_settings_say() -> None:
    assert destination_of("orders", None, QUEUE) == Destination(QUEUE, "orders")
    assert destination_of("orders", TOPIC, QUEUE) == Destination(TOPIC, "orders")


@pytest.mark.parametrize("kind", Kind)
def test_the_word_in_the_log_means_the_same_destination_again(kind: Kind) -> None:
    """With any annotation and any default for bare addresses the word names its kind, except a
    topic's, which no other word can look like."""
    destination = Destination(kind, "orders")
    assert destination_of(destination.topic, None, TOPIC) == destination
    assert kind_of_topic(destination.topic) is kind
    assert len({Destination(one, "orders").topic for one in Kind}) == len(Kind)


@pytest.mark.parametrize(
    ("capabilities", "said"),
    [
        ([], None),
        (["shared", "global"], None),
        (["queue"], QUEUE),
        (["topic", "shared"], TOPIC),
        (["temporary-queue"], TEMPORARY_QUEUE),
        (["temporary-topic", "x"], TEMPORARY_TOPIC),
    ],
)
def test_capabilities_say_the_kind(capabilities: list[str], said: Kind | None) -> None:
    assert said_by(capabilities) is said


def test_two_kinds_at_once_are_refused() -> None:
    amqp_error = said_by(["queue", "topic"])
    assert isinstance(amqp_error, AmqpError)
    assert "topic and queue" in amqp_error.description


def test_every_kind_has_a_prefix_and_an_annotation() -> None:
    assert set(PREFIXES) == set(ANNOTATED.values()) == set(Kind)
