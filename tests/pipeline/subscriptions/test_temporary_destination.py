"""Every row of the rights at a temporary destination, and the kinds that peers ask for."""

import pytest

from distributary.pipeline.model.address import Kind
from distributary.pipeline.model.amqp_error import INVALID_FIELD, LOCKED, NOT_FOUND, AmqpError
from distributary.pipeline.subscriptions.temporary_destination import (
    RIGHTS,
    Deed,
    Ownership,
    amqp_error,
    wanted_kind,
)

ROWS = [
    # what is wanted, whose it is, the condition of the refusal
    (Deed.SEND, Ownership.OWN, None),
    (Deed.SEND, Ownership.FOREIGN, None),
    (Deed.SEND, Ownership.ABSENT, NOT_FOUND),
    (Deed.CONSUME, Ownership.OWN, None),
    (Deed.CONSUME, Ownership.FOREIGN, LOCKED),
    (Deed.CONSUME, Ownership.ABSENT, NOT_FOUND),
    (Deed.SUBSCRIBE_DURABLY, Ownership.OWN, NOT_FOUND),
    (Deed.SUBSCRIBE_DURABLY, Ownership.FOREIGN, LOCKED),
    (Deed.SUBSCRIBE_DURABLY, Ownership.ABSENT, NOT_FOUND),
]


@pytest.mark.parametrize(("deed", "ownership", "condition"), ROWS)
def test_who_may_do_what(deed, ownership, condition):
    """A refusal has the condition that clients map to errors, and names what was asked for."""
    refused = amqp_error(deed, ownership, "temp-queue://x")
    assert (refused and refused.condition) == condition
    assert refused is None or "'temp-queue://x'" in refused.description


def test_the_table_has_no_gaps():
    """Every deed is decided for every ownership."""
    assert RIGHTS.keys() == {(deed, ownership) for deed in Deed for ownership in Ownership}
    assert {(deed, ownership) for deed, ownership, _ in ROWS} == RIGHTS.keys()


@pytest.mark.parametrize(
    ("capabilities", "kind"),
    [
        ((), Kind.TEMPORARY_QUEUE),
        (("temporary-queue",), Kind.TEMPORARY_QUEUE),
        (("queue", "temporary-queue"), Kind.TEMPORARY_QUEUE),
        (("temporary-topic",), Kind.TEMPORARY_TOPIC),
        (("topic",), Kind.TEMPORARY_TOPIC),
        (("topic", "temporary-topic", "shared"), Kind.TEMPORARY_TOPIC),
        (("shared",), Kind.TEMPORARY_QUEUE),
    ],
)
def test_the_kind_that_is_wanted(capabilities, kind):
    """A dynamic terminus that doesn't ask for a topic gets a queue: what a requester needs."""
    assert wanted_kind(capabilities) is kind


@pytest.mark.parametrize("topic", ["topic", "temporary-topic"])
@pytest.mark.parametrize("queue", ["queue", "temporary-queue"])
def test_both_kinds_at_once_are_refused(topic, queue):
    """Nothing is guessed."""
    refused = wanted_kind((topic, queue))
    assert isinstance(refused, AmqpError)
    assert refused.condition == INVALID_FIELD
