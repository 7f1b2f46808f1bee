"""The table of rights: what it says, and that the guide says the same."""

from pathlib import Path

from distributary.pipeline.management.management_messages import REQUESTS, Entity, Verb
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.subscriptions import owned_names
from distributary.pipeline.subscriptions.permission import Action, parse
from distributary.pipeline.subscriptions.rights import (
    LinkOperation,
    Rights,
    right,
    right_of_request,
    table,
)

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "security.md"
KEY = SubscriptionKey(None, "theirs", durable=True)
RIGHTS = Rights(
    parse(
        {
            "maker": {"create": ["orders", "old"]},
            "reader": {"consume": ["orders"]},
            "keeper": {"manage": ["orders"]},
            "stranger": {"consume": ["orders"], "create": ["orders"]},
        }
    ),
    owned_names.parse({"maker": {"subscriptions": ["*"]}, "reader": {"subscriptions": ["*"]}}),
)


def test_the_guide_has_this_table() -> None:
    """It is copied from `rights.table()`."""
    assert table() in GUIDE.read_text()


def test_every_operation_has_a_row_and_only_harmless_ones_are_free() -> None:
    free = {one for one in [*LinkOperation, *Verb] if not right(one).needs}
    assert free == {
        LinkOperation.RELAY,
        LinkOperation.COORDINATE,
        LinkOperation.SEND_TO_OWN_TEMPORARY,
        LinkOperation.CONSUME_OWN_TEMPORARY,
        LinkOperation.CONSUME_PATTERN,
        Verb.GET_TYPES,
        Verb.GET_OPERATIONS,
        # Of transactions, which are their users'.
        Verb.PREPARE,
        Verb.COMMIT,
        Verb.ROLLBACK,
    }
    free_of_needs = (Entity.NODE, Entity.TRANSACTION)
    for entity, verbs in REQUESTS.items():
        for verb in verbs:
            assert bool(right_of_request(entity, verb).needs) is (entity not in free_of_needs)


def test_a_policy_is_for_who_manages() -> None:
    """A user who may only create makes subscriptions that deliver as the operator has decided."""
    for operation in (LinkOperation.SET_POLICY, Verb.UPDATE):
        assert [need.actions for need in right(operation).needs] == [(Action.MANAGE,)]
        assert not RIGHTS.allow("maker", operation, "orders", KEY)
        assert RIGHTS.allow("keeper", operation, "orders", KEY)


def test_who_redefines_must_be_allowed_to_end_what_was_there() -> None:
    """On both topics, if there are two."""
    redefine = LinkOperation.REDEFINE
    assert RIGHTS.amqp_error("maker", redefine, "orders", KEY, "old") is None
    amqp_error = RIGHTS.amqp_error("maker", redefine, "orders", KEY, "elsewhere")
    assert amqp_error is not None
    assert "'elsewhere'" in amqp_error.description
    assert RIGHTS.amqp_error("keeper", redefine, "orders", KEY, "orders") is not None


def test_a_name_of_others_is_used_by_nobody_else_but_managed_by_who_manages() -> None:
    assert RIGHTS.allow("reader", Verb.ACQUIRE, "orders", KEY)
    assert not RIGHTS.allow("stranger", Verb.ACQUIRE, "orders", KEY)
    assert RIGHTS.allow("stranger", Verb.ACQUIRE, "orders")
    assert not RIGHTS.sees("stranger", KEY, "orders")
    for user in ("maker", "reader", "keeper"):
        assert RIGHTS.sees(user, KEY, "orders")
    assert RIGHTS.allow("keeper", Verb.DELETE, "orders", KEY)
