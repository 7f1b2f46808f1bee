"""Permissions of users at destinations, as an operator writes them."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.amqp_error import UNAUTHORIZED
from distributary.pipeline.subscriptions.permission import EVERYTHING, Action, parse

WRITTEN = parse(
    {
        "*": {"consume": ["news"]},
        "alice": {
            "publish": ["orders.*", "topic://audit"],
            "consume": ["orders.*", "queue://billing/*"],
            "create": ["orders.eu", "temp-queue://*"],
        },
        "bob": {"manage": ["orders.?"]},
    }
)

#: user, action, destination -> whether it is allowed.
ROWS = {
    ("alice", Action.PUBLISH, "orders.eu"): True,
    ("alice", Action.PUBLISH, "orders."): True,
    ("alice", Action.PUBLISH, "orders.eu.berlin/x"): True,
    ("alice", Action.PUBLISH, "orders"): False,
    ("alice", Action.PUBLISH, "my-orders.eu"): False,
    ("alice", Action.PUBLISH, "ORDERS.eu"): False,
    ("alice", Action.PUBLISH, "audit"): True,
    ("alice", Action.PUBLISH, "queue://orders.eu"): False,
    ("alice", Action.CONSUME, "queue://billing/eu"): True,
    ("alice", Action.CONSUME, "billing/eu"): False,
    ("alice", Action.CONSUME, "news"): True,
    ("alice", Action.CREATE, "news"): False,
    ("alice", Action.CREATE, "temp-queue://6a1f"): True,
    ("alice", Action.CREATE, "temp-topic://6a1f"): False,
    ("alice", Action.MANAGE, "orders.eu"): False,
    ("bob", Action.MANAGE, "orders.x"): True,
    ("bob", Action.MANAGE, "orders.eu"): False,
    ("bob", Action.PUBLISH, "orders.x"): False,
    ("carol", Action.CONSUME, "news"): True,
    ("carol", Action.PUBLISH, "news"): False,
    ("anonymous", Action.CONSUME, "news"): True,
    ("*", Action.PUBLISH, "news"): False,
}


@pytest.mark.parametrize("row", ROWS, ids=" ".join)
def test_what_a_line_allows_is_allowed_and_nothing_else(row: tuple[str, Action, str]) -> None:
    """Each row by itself."""
    assert WRITTEN.allow(*row) is ROWS[row]


def test_nothing_written_allows_everything_and_an_empty_file_nothing() -> None:
    """No permissions are not the same as an empty table of permissions."""
    assert EVERYTHING.allow("anonymous", Action.MANAGE, "queue://orders")
    assert not parse({}).allow("alice", Action.CONSUME, "orders")


def test_a_refusal_says_who_what_and_where() -> None:
    """With the condition that clients know; one of several actions is enough."""
    amqp_error = WRITTEN.amqp_error("bob", "queue://billing/eu", Action.CREATE, Action.MANAGE)
    assert amqp_error is not None
    assert amqp_error.condition == UNAUTHORIZED
    for word in ("'bob'", "create or manage", "'queue://billing/eu'"):
        assert word in amqp_error.description
    assert WRITTEN.amqp_error("bob", "orders.x", Action.CREATE, Action.MANAGE) is None


_TEXTS = st.text("ab./", max_size=8)
_PATTERNS = st.text("ab./*?", min_size=1, max_size=8)


@given(_PATTERNS, _TEXTS)
def test_a_pattern_is_a_shell_pattern_without_brackets(pattern: str, name: str) -> None:
    """Against the standard library's, which is made in another way."""
    permissions = parse({"u": {"publish": [pattern]}})
    assert permissions.allow("u", Action.PUBLISH, name) is fnmatchcase(name, pattern)


def test_brackets_mean_themselves() -> None:
    """A queue may bear them."""
    permissions = parse({"u": {"publish": ["a[1]"]}})
    assert permissions.allow("u", Action.PUBLISH, "a[1]")
    assert not permissions.allow("u", Action.PUBLISH, "a1")


def test_many_stars_take_no_time() -> None:
    """Trying all ways to share the name among them would take longer than the world is old."""
    permissions = parse({"u": {"publish": ["a*" * 60 + "b"]}})
    assert not permissions.allow("u", Action.PUBLISH, "a" * 250)


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({"alice": "orders"}, "entry of 'alice' is no table"),
        ({"alice": {"delete": ["x"]}}, "unknown action 'delete'"),
        ({"alice": {"publish": "orders"}}, "a list of patterns"),
        ({"alice": {"publish": [7]}}, "a list of patterns"),
        ({"alice": {"publish": [""]}}, "is no pattern"),
        ({"alice": {"publish": ["queue://"]}}, "is no pattern"),
        ({"alice": {"publish": ["topic://queue://x"]}}, "is no pattern"),
    ],
)
def test_what_can_not_be_meant_is_refused(tree: dict[str, object], says: str) -> None:
    """In a sentence that says whose line it is."""
    with pytest.raises(InvalidRequest, match=says) as refused:
        parse(tree)
    assert "alice" in str(refused.value)
