"""Owners of client ids and subscriptions' names, as an operator writes them."""

import pytest

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.amqp_error import UNAUTHORIZED
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.subscriptions.owned_names import ANYBODYS, NameKind, parse

WRITTEN = parse(
    {
        "*": {"client_ids": ["{user}", "{user}-*", "ID:*"]},
        "alice": {"client_ids": ["billing", "invoices-*"], "subscriptions": ["dispatchers"]},
        "bob": {"client_ids": ["invoices-eu"], "subscriptions": ["dispatchers", "audit*"]},
        "carol": {"client_ids": ["ID:carol"]},
    }
)
IDS, NAMES = NameKind.CLIENT_ID, NameKind.SUBSCRIPTION

#: user, kind, name -> whether he may use it.
ROWS = {
    ("alice", IDS, "billing"): True,
    ("bob", IDS, "billing"): False,
    ("alice", IDS, "invoices-us"): True,
    ("alice", IDS, "invoices-eu"): True,
    ("bob", IDS, "invoices-eu"): True,
    ("bob", IDS, "invoices-us"): False,
    ("bob", IDS, "bob"): True,
    ("bob", IDS, "bob-2"): True,
    ("bob", IDS, "alice"): False,
    ("bob", IDS, "ID:6a1f"): True,
    ("bob", IDS, "ID:carol"): False,
    ("carol", IDS, "ID:carol"): True,
    ("anonymous", IDS, "anonymous"): True,
    ("bob", IDS, ""): False,
    ("bob", IDS, "reports"): False,
    ("a*", IDS, "abc"): False,
    ("a*", IDS, "a*"): False,
    ("alice", NAMES, "dispatchers"): True,
    ("bob", NAMES, "dispatchers"): True,
    ("carol", NAMES, "dispatchers"): False,
    ("alice", NAMES, "audit-1"): False,
    ("carol", NAMES, "reports"): True,
}


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_a_name_is_for_those_whose_it_is(row: tuple[str, NameKind, str]) -> None:
    """If `["*"]` has no line of a kind, a name without an owner is free to all users."""
    user, kind, name = row
    assert WRITTEN.may_use(user, kind, name) is ROWS[row]


def test_what_nobody_has_written_is_anybodys() -> None:
    assert ANYBODYS.may_use("bob", IDS, "billing")
    assert ANYBODYS.amqp_error("bob", SubscriptionKey("billing", "x", durable=True)) is None


def test_a_subscription_has_its_containers_name_or_its_own() -> None:
    """A queue has neither: permissions say which users may use it."""
    theirs = SubscriptionKey("billing", "x", durable=True)
    amqp_error = WRITTEN.amqp_error("bob", theirs)
    assert amqp_error is not None
    assert amqp_error.condition == UNAUTHORIZED
    assert "'billing'" in amqp_error.description
    assert WRITTEN.amqp_error("alice", theirs) is None
    assert not WRITTEN.may_use_key("carol", SubscriptionKey(None, "audit", durable=False))
    assert WRITTEN.may_use_key("carol", SubscriptionKey(None, "audit", durable=True, queue=True))
    assert WRITTEN.may_use_key("carol", None)


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({"alice": 5}, "write [alice] above"),
        ({"alice": {"names": ["x"]}}, "unknown key 'names'; there are client_ids, subscriptions"),
        ({"alice": {"client_ids": "x"}}, "a list of patterns"),
        ({"alice": {"client_ids": [""]}}, "a list of patterns"),
        ({"alice": {"client_ids": ["{user}"]}}, '{user} is for ["*"] alone'),
    ],
)
def test_what_is_wrong_is_said(tree: dict[str, object], says: str) -> None:
    with pytest.raises(InvalidRequest) as error:
        parse(tree)
    assert says in str(error.value)
