"""The log of a topic: rules in order, a hash that stays, patterns that agree with topics."""

import itertools
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.pipeline.amqp.dead_letter import queue_of
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.lake.placement import (
    Placement,
    Rule,
    canonical,
    moved,
    with_log,
    with_rule,
    without_rule,
)
from distributary.pipeline.log_names import temporary_name

LOGS = ("main", "orders", "prices")
EMPTY = Placement(1, LOGS)


def placed(*rules: tuple[str, str]) -> Placement:
    """Rules as (pattern, logs with spaces between them)."""
    return Placement(1, LOGS, tuple(Rule(pattern, tuple(logs.split())) for pattern, logs in rules))


ORDERS = placed(("orders.urgent", "prices"), ("orders.#", "orders"), ("queue://work.*", "prices"))

WHERE = [
    # topic, its log
    ("orders.urgent", "prices"),
    ("orders", "orders"),
    ("orders.eu.1", "orders"),
    ("ordersx", "main"),
    ("queue://orders", "main"),
    ("queue://work.a", "prices"),
    ("queue://work", "main"),
    ("work.a", "main"),
    ("temp-queue://orders/4711", "orders"),
    ("temp-topic://4711", "main"),
    ("temp-queue://none/4711", "main"),
    ("temp-queue://none-7/4711", "none-7"),
    ("temp-queue://unknown/4711", "main"),
    ("temp-queue://No log/4711", "main"),
]


#: Queues of dead letters, whatever a rule says of all queues.
DEAD = [
    ("queue://DLQ.queue/work.a", "prices"),
    ("queue://DLQ.queue/work", "orders"),
    ("queue://DLQ.queue/w%2Fork", "orders"),
    ("queue://DLQ.queue/DLQ.queue/work.a", "prices"),
    ("queue://DLQ.topic/flights", "main"),
    ("queue://DLQ.topic/told.eu", "prices"),
    ("queue://DLQ.global/billing", "main"),
    ("queue://DLQ.container/a/billing", "main"),
    ("queue://DLQ.log/prices/global/billing", "prices"),
    ("queue://DLQ.mine", "orders"),
    ("queue://DLQ.log/No log/mine", "orders"),
    ("queue://DLQ.log/unknown/mine", "orders"),
    ("DLQ.log/prices/a", "main"),
]


@pytest.mark.parametrize(("queue", "log"), DEAD)
def test_dead_letters_are_where_they_were_written(queue: str, log: str) -> None:
    rules = (("queue://work.*", "prices"), ("queue://#", "orders"), ("told.#", "prices"))
    assert placed(*rules).logs_of(queue) == (log,)


def test_their_queue_s_name_says_the_log() -> None:
    for log, giver, queue in (
        ("main", "global/billing", "DLQ.global/billing"),
        ("prices", "global/billing", "DLQ.log/prices/global/billing"),
        ("prices", "queue/work.a", "DLQ.queue/work.a"),
    ):
        assert queue_of(giver, log) == queue
        assert placed(("queue://work.*", "prices")).logs_of(f"queue://{queue}") == (log,)


@pytest.mark.parametrize(("topic", "log"), WHERE)
def test_the_first_rule_that_matches_says_the_log(topic: str, log: str) -> None:
    assert ORDERS.logs_of(topic) == (log,)
    assert ORDERS.logs_of_pattern(topic) == (log,)


def test_a_temporary_destination_s_name_says_its_log() -> None:
    topic = f"temp-queue://{temporary_name('prices', 'a' * 32)}"
    assert ORDERS.logs_of(topic) == ("prices",)


#: The log of each topic, as it was when the first lake was made: a hash that changes loses them.
PINNED = [
    ("a", "main"),
    ("orders.eu", "orders"),
    ("prices.xetra", "main"),
    ("queue://work", "prices"),
    ("größe", "orders"),
]


@pytest.mark.parametrize(("topic", "log"), PINNED)
def test_the_hash_is_for_ever(topic: str, log: str) -> None:
    spread = placed(("#", "main orders prices"), ("queue://#", "main orders prices"))
    assert spread.logs_of(topic) == (log,)
    turned = placed(("#", "prices main orders"), ("queue://#", "orders prices main"))
    assert turned.logs_of(topic) == (log,)


def test_a_hash_spreads_evenly_and_one_log_more_moves_only_its_share() -> None:
    topics = [f"topic.{nth}" for nth in range(3_000)]
    two, three = Rule("#", ("main", "orders")), Rule("#", ("main", "orders", "prices"))
    counts = {log: sum(three.logs_of(topic) == (log,) for topic in topics) for log in LOGS}
    assert all(900 < count < 1_100 for count in counts.values()), counts
    for topic in topics:
        assert three.logs_of(topic) in (two.logs_of(topic), ("prices",))


PATTERNS = [
    # pattern, the logs of its topics
    ("orders.*", "orders prices"),
    ("orders.eu.#", "orders"),
    ("#", "main orders prices"),
    ("prices.#", "main"),
    ("*.eu", "main orders"),
    ("*.urgent", "main orders prices"),
    ("work.*", "main"),
]


@pytest.mark.parametrize(("pattern", "logs"), PATTERNS)
def test_a_pattern_has_all_logs_of_its_topics(pattern: str, logs: str) -> None:
    assert ORDERS.logs_of_pattern(f"pattern://{pattern}") == tuple(logs.split())


def test_a_topic_among_those_of_a_pattern_may_have_a_rule_of_several_logs() -> None:
    """Its hash is known beforehand."""
    whole = placed(("a.b", "main orders prices"), ("a.#", "orders"))
    found = whole.logs_of_pattern("pattern://a.*")
    assert found == tuple(sorted({*whole.logs_of("a.b"), "orders"}))


def test_a_partitioned_topic_is_in_so_many_logs_by_its_hash() -> None:
    """One partition is where a topic without partitions is; a log more in the rule moves topics
    into that one alone."""
    for topic in (f"topic.{nth}" for nth in range(500)):
        found = [Rule("#", LOGS, count).logs_of(topic) for count in (1, 2, 3)]
        assert [len(set(logs)) for logs in found] == [1, 2, 3]
        assert found[2][:2] == found[1]
        assert found[2][:1] == found[0]
        assert set(Rule("#", LOGS, 2).logs_of(topic)) - {"prices"} <= set(
            Rule("#", ("main", "orders"), 2).logs_of(topic)
        )


def test_dead_letters_of_a_partitioned_queue_are_in_its_logs() -> None:
    found = with_rule(EMPTY, "queue://hot", LOGS, partitions=3)
    assert set(found.logs_of("queue://hot")) == set(LOGS)
    assert found.logs_of("queue://DLQ.queue/hot") == found.logs_of("queue://hot")
    assert found.logs_of("queue://DLQ.log/prices/global/a") == ("prices",)


def test_other_partitions_move_a_topic() -> None:
    two = with_rule(EMPTY, "hot", LOGS, partitions=2)
    assert moved(two, with_rule(two, "hot", LOGS, partitions=3), ["hot", "cold"]) == ["hot"]
    assert moved(two, with_rule(two, "hot", ["main"]), ["pattern://*", "pattern://a.*"]) == [
        "pattern://*"
    ]


def test_a_rule_without_partitions_is_written_as_ever() -> None:
    assert msgspec.json.encode(Rule("a", ("main",))) == b'{"pattern":"a","logs":["main"]}'
    assert msgspec.json.encode(Rule("a", LOGS, 2)).endswith(b'"partitions":2}')


def of_words(words: str) -> st.SearchStrategy[str]:
    """One to four of these, with dots between them: one draw, where a list of words takes nine."""
    rows = itertools.product(words, repeat=4)
    return st.sampled_from([".".join(row[:count]) for row in rows for count in range(1, 5)])


NAMES, DRAWN = of_words("abc"), of_words("ab*#")
LOG_LISTS = [list(one) for n in (1, 2, 3) for one in itertools.permutations(LOGS, n)]


@st.composite
def drawn_placements(draw: st.DrawFn) -> Placement:
    found = EMPTY
    for _ in range(draw(st.integers(0, 4))):
        pattern = draw(st.sampled_from(["", "queue://"])) + draw(DRAWN)
        logs = draw(st.sampled_from(LOG_LISTS))
        try:
            count = draw(st.integers(1, len(logs)))
            found = with_rule(found, pattern, logs, partitions=count)
        except InvalidRequest:
            continue  # an earlier rule hides it, or it is no pattern
    return found


@settings(max_examples=1_000, deadline=None)
@given(drawn_placements(), DRAWN, st.lists(NAMES, min_size=20, max_size=40))
def test_the_logs_of_a_pattern_are_those_of_its_topics(
    found: Placement, pattern: str, topics: list[str]
) -> None:
    try:
        word = "pattern://" + canonical(pattern)
    except InvalidRequest:
        return
    logs = found.logs_of_pattern(word)
    for topic in topics:
        if Rule(canonical(pattern), ("main",)).matches(topic):
            assert set(found.logs_of(topic)) <= set(logs)


@settings(max_examples=1_000, deadline=None)
@given(drawn_placements(), st.lists(NAMES, min_size=1, max_size=20))
def test_the_first_rule_wins(found: Placement, topics: list[str]) -> None:
    for topic in [*topics, *(f"queue://{name}" for name in topics)]:
        matching = [rule for rule in found.rules if rule.matches(topic)]
        assert found.logs_of(topic) == (matching[0].logs_of(topic) if matching else ("main",))


@settings(max_examples=500, deadline=None)
@given(drawn_placements(), DRAWN, st.sampled_from(LOGS), NAMES)
def test_a_change_moves_what_it_says_it_moves(
    found: Placement, pattern: str, log: str, topic: str
) -> None:
    try:
        after = with_rule(found, pattern, [log])
    except InvalidRequest:
        return
    same = found.logs_of(topic) == after.logs_of(topic)
    assert moved(found, after, [topic]) == ([] if same else [topic])
    assert after.version == found.version + 1
    assert msgspec.json.decode(msgspec.json.encode(after), type=Placement) == after


def test_a_rule_goes_to_the_end_before_another_or_into_its_place() -> None:
    found = with_rule(EMPTY, "a.#", ["orders"])
    found = with_rule(found, "pattern://b.*", ["prices"])
    found = with_rule(found, "a.b", ["main"], before="a.#")
    assert [rule.pattern for rule in found.rules] == ["a.b", "a.#", "b.*"]
    found = with_rule(found, "topic://a.b", ["orders", "prices"])
    assert found.rules[0] == Rule("a.b", ("orders", "prices"))
    found = with_rule(found, "b.*", ["prices"], before="a.b")
    assert [rule.pattern for rule in without_rule(found, "a.b").rules] == ["b.*", "a.#"]
    assert found.version == 6


REFUSED = [
    (lambda: with_log(EMPTY, "orders"), "there is a log orders already"),
    (lambda: with_log(EMPTY, "none"), "'none' can't be the name of a log"),
    (lambda: with_log(EMPTY, "a/b"), "'a/b' can't be the name of a log"),
    (lambda: with_log(EMPTY, "Orders"), "'Orders' can't be the name of a log"),
    (lambda: with_rule(EMPTY, "a", ["paid"]), "there is no log paid: there are main, orders,"),
    (lambda: with_rule(EMPTY, "a", []), "one log or several different ones"),
    (lambda: with_rule(EMPTY, "a", ["main", "main"]), "one log or several different ones"),
    (lambda: with_rule(EMPTY, "a", ["main"], partitions=2), "has 1 logs and 2 partitions"),
    (lambda: with_rule(EMPTY, "a", ["main"], partitions=0), "one partition at least"),
    (lambda: with_rule(EMPTY, "a*", ["main"]), "stand for whole words"),
    (lambda: with_rule(EMPTY, "#.a.#.b.#", ["main"]), "stands in it 2 times at most"),
    (lambda: with_rule(EMPTY, "temp-queue://a", ["main"]), "temporary"),
    (lambda: with_rule(EMPTY, "", ["main"]), "is not the name of a topic or queue"),
    (lambda: with_rule(ORDERS, "orders.eu", ["main"]), "orders.# stands before it"),
    (lambda: with_rule(ORDERS, "a", ["main"], before="b"), "no rule b: there are orders.urgent,"),
    (lambda: without_rule(EMPTY, "b"), "there is no rule b: there are none at all"),
    (lambda: Placement(1, ("orders",)), "the log main is missing"),
    (lambda: Placement(1, ("main", "main")), "named twice"),
    (lambda: placed(("pattern://a.*", "main")), "isn't written as it is kept"),
]


@pytest.mark.parametrize(("change", "text"), REFUSED)
def test_what_can_not_be_is_refused_in_one_sentence(change: object, text: str) -> None:
    assert callable(change)
    with pytest.raises(InvalidRequest, match=re.escape(text)):
        change()


def test_a_rule_for_queues_hides_none_for_topics() -> None:
    found = with_rule(with_rule(EMPTY, "queue://#", ["orders"]), "#", ["prices"])
    assert (found.logs_of("queue://a"), found.logs_of("a")) == (("orders",), ("prices",))
    assert found.logs_of_pattern("pattern://#") == ("prices",)


def test_what_another_version_has_written_is_not_half_understood() -> None:
    said = b'{"version": 1, "logs": ["main"], "rules": [], "partitions": {}}'
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(said, type=Placement)
