"""Policies as an operator writes them: what overrides what, and what can't be meant."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.policy import (
    DEFAULT,
    DEFAULT_TOPIC,
    Backlog,
    Expiry,
    Lifetime,
    Overflow,
    Policy,
    TopicPolicy,
)
from distributary.pipeline.subscriptions import policy_sources
from distributary.pipeline.subscriptions.policy_table import (
    EXPIRY_SECONDS_MOST,
    Policies,
    Table,
    dead_letter_queue,
    of_text,
    over,
    parse,
    text_of,
)
from distributary.pipeline.subscriptions.subscription_lifetimes import text_of_expiry


def written(*subscriptions: Table, topics: tuple[Table, ...] = ()) -> Policies:
    tree: dict[str, object] = {}
    if subscriptions:
        tree["subscription"] = list(subscriptions)
    if topics:
        tree["topic"] = list(topics)
    return parse(tree, DEFAULT, DEFAULT_TOPIC)


def test_nothing_written_is_the_default() -> None:
    """Of every subscription and topic."""
    policies = written()
    assert policies.of_subscription("queue/orders") == DEFAULT
    assert policies.of_topic("queue://orders") == DEFAULT_TOPIC


def test_a_later_line_overrides_single_keys_of_an_earlier_one() -> None:
    """And the subscription's own table overrides both; a key in none of them is the default."""
    policies = written(
        {"match": "queue/*", "delivery_attempts_max": 3, "redelivery_delay_ms": 5},
        {"match": "queue/orders*", "delivery_attempts_max": 7, "backlog_messages_max": 9},
        {"match": "global/*", "lock_ms": 1},
    )
    policy = policies.of_subscription("queue/orders.eu", text_of({"redelivery_delay_ms": 8}))
    assert policy == Policy(
        delivery_attempts_max=7, redelivery_delay_ms=8, backlog=Backlog(messages_max=9)
    )
    assert policies.of_subscription("queue/bills").delivery_attempts_max == 3
    assert policies.of_subscription("container/a/queue%2Forders") == DEFAULT


def test_each_value_says_where_it_comes_from() -> None:
    """The last table with a key is its source; a key with its default has none."""
    policies = written(
        {"match": "queue/*", "lock_ms": 1, "delivery_attempts_max": 2},
        {"match": "queue/orders", "lock_ms": 3},
        {"match": "global/*", "lock_ms": 4},
        topics=({"match": "queue://orders", "backlog_messages_max": 5, "duplicates_ms": 6},),
    )
    own = text_of({"consumers_max": 7})
    assert policy_sources.of_subscription(policies, "queue/orders", "queue://orders", own) == {
        "delivery_attempts_max": "[[subscription]] 'queue/*'",
        "lock_ms": "[[subscription]] 'queue/orders'",
        "backlog_messages_max": "[[topic]] 'queue://orders'",
        "consumers_max": "own",
    }
    assert policy_sources.of_subscription(policies, "container/a/b", "elsewhere") == {}
    assert policy_sources.of_topic(policies, "queue://orders") == {
        "backlog_messages_max": "[[topic]] 'queue://orders'",
        "duplicates_ms": "[[topic]] 'queue://orders'",
    }


def test_what_the_settings_say_is_no_default() -> None:
    """Of limits of the backlog, too; a line of the file and the subscription itself are nearer."""
    default = Policy(lock_ms=9, delivery_attempts_max=3, backlog=Backlog(messages_max=5))
    line = {"match": "queue/orders", "lock_ms": 3}
    policies = parse({"subscription": [line]}, default, TopicPolicy(duplicates_ms=7))
    assert policy_sources.of_subscription(policies, "queue/orders", "queue://orders") == {
        "lock_ms": "[[subscription]] 'queue/orders'",
        "delivery_attempts_max": "settings",
        "backlog_messages_max": "settings",
    }
    assert policy_sources.of_topic(policies, "anything") == {"duplicates_ms": "settings"}


def test_no_limit_of_consumers_has_two_words() -> None:
    """ActiveMQ's -1 and 0 are one; over a line with a limit, both take it away."""
    for none in (0, -1):
        policies = written(
            {"match": "queue/*", "consumers_max": 3}, {"match": "queue/many", "consumers_max": none}
        )
        assert policies.of_subscription("queue/many").consumers_max == 0
        assert policies.of_subscription("queue/few").consumers_max == 3
    with pytest.raises(InvalidRequest, match="consumers_max must be a whole number from -1"):
        written({"match": "*", "consumers_max": -2})


@pytest.mark.parametrize(
    ("said", "now"),
    [
        ({"redelivery_delay_ms": 20}, {"redelivery_delay_ms_max": 10}),
        ({"dead_letter_address": "dead"}, {"dead_letter": False}),
        ({"dead_letter_expired": True}, {"dead_letter": False}),
        ({"backlog_overflow": "dead_letter"}, {"dead_letter": False}),
    ],
)
def test_a_recorded_policy_holds_under_other_defaults(said: Table, now: dict[str, object]) -> None:
    """It was right when it was written. A start by other settings takes it key by key, as it takes
    two lines; only a new one may not contradict the defaults."""
    own, settings = text_of(said), over(DEFAULT, now, "settings")
    policies = Policies(settings, DEFAULT_TOPIC)
    assert policies.of_subscription("queue/orders", own) == over(settings, said, "own")
    with pytest.raises(InvalidRequest, match="subscription queue/orders: "):
        policies.check_own(own, "queue/orders")
    with pytest.raises(InvalidRequest, match="unknown key 'later'"):
        policies.of_subscription("queue/orders", text_of({"later": 1}))


def test_a_lifetime_is_a_word_and_its_seconds() -> None:
    """Also what a client says of one, which is cut to what a policy may say."""
    said = text_of_expiry(Expiry(Lifetime.SESSION_END, 2**32 - 1))
    policy = written({"match": "*", "expiry": "link-detach"}).of_subscription("container/c/s", said)
    assert policy.ends == Expiry(Lifetime.SESSION_END, EXPIRY_SECONDS_MOST)
    assert text_of_expiry(Expiry()) == ""
    with pytest.raises(InvalidRequest, match="expiry is 'later'; it must be one of link-detach"):
        written({"match": "*", "expiry": "later"})


def test_topics_and_queues_have_patterns_of_their_own() -> None:
    """As permissions have: a name, or one behind a prefix."""
    policies = written(
        topics=(
            {"match": "orders.*", "duplicates_messages": 10},
            {"match": "queue://orders.*", "duplicates_ms": 20, "backlog_overflow": "drop_oldest"},
        )
    )
    assert policies.of_topic("orders.eu") == TopicPolicy(duplicates_messages=10)
    assert policies.of_topic("queue://orders.eu") == TopicPolicy(
        duplicates_ms=20, backlog=Backlog(overflow=Overflow.DROP_OLDEST)
    )
    assert policies.of_topic("temp-queue://orders.eu") == DEFAULT_TOPIC


def flat(policy: Policy) -> dict[str, object]:
    """A whole policy as a table."""
    said = msgspec.structs.asdict(policy)
    backlog = msgspec.structs.asdict(said.pop("backlog"))
    return said | {f"backlog_{key}": value for key, value in backlog.items()}


_MS = st.integers(0, 10**9)
_POLICIES = st.builds(
    Policy,
    delivery_attempts_max=st.integers(0, 1_000_000),
    redelivery_delay_ms=_MS,
    redelivery_multiplier=st.floats(1, 1_000),
    redelivery_delay_ms_max=st.just(10**9),
    redelivery_jitter=st.floats(0, 1),
    dead_letter_address=st.sampled_from(["", "dead", "queue://dead"]),
    dead_letter_expired=st.booleans(),
    consumers_max=st.integers(0, 99),
    single_active=st.booleans(),
    lost_consumer_counts=st.booleans(),
    message_groups=st.booleans(),
    sharing_may_change=st.booleans(),
    create_on_use=st.booleans(),
    expiry=st.sampled_from(Lifetime),
    expiry_seconds=st.integers(0, EXPIRY_SECONDS_MOST),
    page_bytes=st.sampled_from([0, 4_096, 1 << 28]),
    lock_ms=_MS,
    backlog=st.builds(Backlog, _MS, _MS, _MS, st.sampled_from(Overflow)),
)


@given(_POLICIES)
def test_every_key_of_a_policy_can_be_written(policy: Policy) -> None:
    """In a file or in a subscription's record, where it is a text."""
    line = {"match": "*", **flat(policy)}
    assert written(line).of_subscription("queue/x") == policy
    assert written().of_subscription("queue/x", text_of(flat(policy))) == policy


def test_what_says_nothing_has_no_text() -> None:
    """Neither an empty table nor keys without a value; equal tables have equal texts."""
    assert text_of({}) == text_of({"lock_ms": None}) == ""
    assert of_text("", "here") == {}
    assert text_of({"b": 1, "a": 2}) == text_of({"a": 2, "b": 1})


WRONG = [
    ({"delivery_attempts": 3}, "unknown key 'delivery_attempts'; there are delivery_attempts_max"),
    ({"delivery_attempts_max": -1}, "delivery_attempts_max must be a whole number from 0"),
    ({"delivery_attempts_max": True}, "delivery_attempts_max must be a whole number"),
    ({"delivery_attempts_max": 2.0}, "delivery_attempts_max must be a whole number"),
    ({"lock_ms": 2**63}, "lock_ms must be a whole number from 0 to 315360000000"),
    ({"lock_ms": 1.5}, "lock_ms must be a whole number"),
    ({"redelivery_delay_ms": -1}, "redelivery_delay_ms must be a whole number"),
    ({"redelivery_delay_ms_max": 2**63}, "redelivery_delay_ms_max must be a whole number"),
    ({"redelivery_jitter": float("inf")}, "redelivery_jitter must be a number from 0 to 1"),
    ({"page_bytes": 4_095}, "page_bytes must be 0, or 4096 at least"),
    ({"page_bytes": 2**40}, "page_bytes must be a whole number from 0 to 268435456"),
    ({"consumers_max": 10**30}, "consumers_max must be a whole number"),
    ({"redelivery_multiplier": 0.5}, "redelivery_multiplier must be a number from 1"),
    ({"redelivery_multiplier": float("nan")}, "redelivery_multiplier must be a number"),
    ({"redelivery_multiplier": 10**400}, "redelivery_multiplier must be a number"),
    ({"redelivery_jitter": 1.5}, "redelivery_jitter must be a number from 0 to 1"),
    ({"redelivery_jitter": "much"}, "redelivery_jitter must be a number"),
    ({"redelivery_delay_ms": 60_001}, "is more than redelivery_delay_ms_max"),
    ({"redelivery_delay_ms": 5, "redelivery_delay_ms_max": 4}, "is more than"),
    ({"dead_letter": 1}, "dead_letter must be true or false"),
    ({"dead_letter": False, "dead_letter_address": "x"}, "dead_letter_address is of no use"),
    ({"dead_letter": False, "dead_letter_expired": True}, "dead_letter_expired is of no use"),
    ({"dead_letter": False, "backlog_overflow": "dead_letter"}, "can't be with dead_letter = f"),
    ({"dead_letter_address": "topic://x"}, "must name a queue"),
    ({"dead_letter_address": 7}, "dead_letter_address must be a string"),
    ({"backlog_overflow": "explode"}, "refuse, drop_oldest, dead_letter"),
    ({"backlog_overflow": []}, "backlog_overflow must be a string"),
]


@pytest.mark.parametrize(("said", "says"), WRONG)
def test_what_can_not_be_meant_is_refused(said: dict[str, object], says: str) -> None:
    """In one sentence, beginning with where it stands; in a file as in a subscription's words."""
    with pytest.raises(InvalidRequest, match=says) as refused:
        written({"match": "queue/*"}, {"match": "global/x", **said})
    assert str(refused.value).startswith("[[subscription]] 'global/x': ")
    if "NaN" not in (text := json.dumps(said)):
        with pytest.raises(InvalidRequest, match=says) as refused:
            written().check_own(text, "queue/x")
        assert str(refused.value).startswith("subscription queue/x: ")


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({"queue": []}, "unknown section 'queue'"),
        ({"subscription": {"match": "x"}}, r"must be written \[\[subscription\]\]"),
        ({"topic": [{"match": "x"}, 3]}, r"\[\[topic\]\] number 2 must be a table"),
        ({"topic": [{"duplicates_ms": 1}]}, r"\[\[topic\]\] number 1 must say what it is for"),
        ({"topic": [{"match": "queue://"}]}, "is no pattern of topics"),
        ({"topic": [{"match": "x", "duplicates_messages": 10**7}]}, "from 0 to 1000000"),
        ({"topic": [{"match": "x", "lock_ms": 1}]}, "unknown key 'lock_ms'"),
    ],
)
def test_what_is_no_line_is_refused(tree: dict[str, object], says: str) -> None:
    """With its number where it has no pattern."""
    with pytest.raises(InvalidRequest, match=says):
        parse(tree, DEFAULT, DEFAULT_TOPIC)


@pytest.mark.parametrize("text", ["nonsense", "[]", "7", "[" * 100_000])
def test_a_text_that_is_no_table_is_refused(text: str) -> None:
    """With the subscription whose it is."""
    with pytest.raises(InvalidRequest, match="subscription queue/x: "):
        written().of_subscription("queue/x", text)


def test_two_right_lines_make_no_wrong_policy() -> None:
    """Each is right over the defaults alone; together the maximum holds, and nothing is raised."""
    policies = written(
        {"match": "*", "redelivery_delay_ms": 50_000},
        {"match": "queue/*", "redelivery_delay_ms_max": 10},
    )
    assert policies.of_subscription("queue/x").redelivery_delay_ms_max == 10


def test_dead_letters_go_to_queues() -> None:
    """A bare address is a queue's; a temporary queue or a topic keeps nothing."""
    found = dead_letter_queue("dead")
    assert found is not None
    assert found == dead_letter_queue("queue://dead")
    assert found.topic == "queue://dead"
    for address in ("topic://dead", "temp-queue://dead", "$management", "queue://"):
        assert dead_letter_queue(address) is None
