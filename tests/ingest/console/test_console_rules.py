"""The console's pure parts: what is wrong, what an operation will do, what a list shows."""

from dataclasses import replace
from itertools import pairwise

import pytest

from distributary.ingest.cli.watching.metric_readings import GatewayNow, now, reading
from distributary.ingest.console.insight import subscription_facts as facts
from distributary.ingest.console.insight.entity_lists import Wanted, part
from distributary.ingest.console.insight.policy_effects import (
    PolicyEffects,
    changes,
    policy_effects,
)
from distributary.ingest.console.insight.previews import Found, Offer, effects, is_typed
from distributary.ingest.console.insight.problems import (
    NAMED_MAX,
    RULES,
    Facts,
    Neighbour,
    Thresholds,
    problems,
)
from distributary.ingest.console.insight.series import GAP_SECONDS, Point, Series
from distributary.pipeline.management.management_messages import Entity

LIMITS = Thresholds(300, 0.8, 30, 250)


def gateway(**metrics: float | str) -> GatewayNow:
    """A gateway that serves, with these metrics a second after nothing."""
    lines = ["distributary_ready 1", "distributary_journal_bytes_max 100"]
    after = [*lines, *(str(value) for value in metrics.values())]
    return now(reading(0.0, "\n".join(lines)), reading(1.0, "\n".join(after)))


def of(name: str, **values: float) -> str:
    """Metrics of one subscription."""
    return "\n".join(
        f'distributary_{key}{{subscription="{name}"}} {value}' for key, value in values.items()
    )


WELL = Facts(gateway(), 5_000.0, None, "", (), {"global/a", "global/b"}, (), {})
BACKLOG = of("global/a", backlog_messages=7)
OLD = of("global/a", backlog_messages=1, consumers=1, backlog_oldest_age_seconds=400)
DEAD = 'distributary_settled_messages_total{subscription="global/a",outcome="dead_lettered"} 2'
MISFIT = 'distributary_misfit_messages_total{topic="t",outcome="rejected"} 3'
LAG = 'distributary_commit_lag_seconds_bucket{le="60.0"} 5\n'
LAG += 'distributary_commit_lag_seconds_bucket{le="+Inf"} 5'
STALL = LAG.replace("commit_lag", "loop_stall").replace("60.0", "0.5")

TABLE = [
    (
        replace(WELL, failed_since=9_000.0, why="refused"),
        "No metrics since 1970-01-01 00:00:09",
        True,
    ),
    (replace(WELL, found=gateway(a="distributary_ready 0")), "This gateway doesn't serve", True),
    (
        replace(WELL, missing={"prices": "its owner was away"}),
        "The log prices has no gateway that answers: its owner was away.",
        True,
    ),
    (
        replace(WELL, found=gateway(a="distributary_journal_bytes 85")),
        "The journal is 85% full",
        True,
    ),
    (replace(WELL, found=gateway(a="distributary_journal_full 1")), "The disk takes nothing", True),
    (
        replace(WELL, found=gateway(a="distributary_unreadable_subscriptions 2")),
        "Subscriptions that wait for a page that can't be read: 2.",
        True,
    ),
    (
        replace(WELL, found=gateway(a="distributary_internal_errors_total 1")),
        "Bugs that ended",
        True,
    ),
    (
        replace(WELL, found=gateway(a=DEAD, b=of("global/a", backlog_messages=0))),
        "global/a gives messages up: 2 just now.",
        False,
    ),
    (
        replace(WELL, found=gateway(a=MISFIT)),
        "Messages just now that their topics' schemas don't allow: 3.",
        False,
    ),
    (replace(WELL, found=gateway(a=LAG)), "Messages reach the table 1 min after", False),
    (
        replace(WELL, found=gateway(a=STALL)),
        "The gateway's loop stood still for up to 500 ms",
        False,
    ),
    (replace(WELL, neighbours=(Neighbour("b:1", ""),)), "The standby at b:1 doesn't answer", False),
    (replace(WELL, found=gateway(a=BACKLOG)), "global/a has 7 messages and no consumer.", False),
    (
        replace(WELL, found=gateway(a=BACKLOG), paused={"global/a"}),
        "global/a is paused, and 7 messages wait.",
        False,
    ),
    (replace(WELL, found=gateway(a=OLD)), "global/a has a message that waits for 7 min.", False),
]


def test_every_rule_has_a_row() -> None:
    assert len(TABLE) == len(RULES) + 1  # the journal has two


@pytest.mark.parametrize(("known", "sentence", "bad"), TABLE)
def test_each_wrong_thing_is_one_sentence(known: Facts, sentence: str, bad: bool) -> None:
    [found] = problems(known, LIMITS)
    assert found.sentence.startswith(sentence)
    assert found.bad is bad


def test_nothing_is_wrong_with_a_gateway_that_is_well() -> None:
    assert not problems(WELL, LIMITS)
    assert not problems(replace(WELL, neighbours=(Neighbour("b:1", "stands by"),)), LIMITS)


def test_what_may_not_be_seen_is_not_told() -> None:
    assert not problems(replace(WELL, found=gateway(a=BACKLOG), visible=()), LIMITS)


def test_many_are_one_sentence_with_a_way_to_them() -> None:
    names = [f"global/{nth}" for nth in range(NAMED_MAX + 1)]
    found = gateway(a="\n".join(of(name, backlog_messages=1) for name in names))
    [told] = problems(replace(WELL, found=found, visible=set(names)), LIMITS)
    assert told.sentence == "4 subscriptions have messages and no consumer."
    assert told.path == "/subscriptions?search=is%3Aidle"


ROW: dict[str, object] = {
    "name": "queue/orders",
    "topic": "queue://orders",
    "selector": None,
    "paused": False,
    "consumers": 2,
    "in_flight": 3,
    "outstanding": 5,
    "backlog": 10,
    "floor": 1_000,
    "unreadable": None,
    "links": [],
    "policy_in_force": {"dead_letter": True, "dead_letter_address": "", "lock_ms": 5},
    "policy_from": {"lock_ms": "own"},
}

LINKS = [{"name": "w/a", "in_flight": 2}, {"name": "w/b", "in_flight": 1}]

EFFECTS = [
    (
        Offer.PAUSE,
        Found(),
        "Nothing is delivered until it is resumed; 10 messages wait already.",
    ),
    (Offer.RESUME, Found(), "Delivery goes on: 10 messages wait for 2 consumers."),
    (Offer.PURGE, Found(), "Dropped: 10 messages: it is owed only messages that come from now on."),
    (
        Offer.CLOSE,
        Found(),
        "Ended with amqp:link:detach-forced: 2 links. Clients may come again.",
    ),
    (Offer.CLOSE, Found(consumer="w/b"), "Their deliveries go to the next consumer: 1 message."),
    (Offer.DELETE, Found(), "It is owed nothing any more. Dropped: 10 messages."),
    (
        Offer.REWIND,
        Found("2h", 400, 25),
        "It is owed 25 messages from there on: 15 more than the 10 that wait now.",
    ),
    (Offer.SKIP, Found("now", 2_000, 4), "Dropped: 6 messages; 4 of its backlog stay."),
    (Offer.SKIP, Found("now", 2_000, 4), "now is sequence 2,000. Its floor is 1,000 now and will"),
    (Offer.SKIP, Found("1200", 1_200, 4), "Its floor is 1,000 now and will be 1,200."),
    (Offer.SKIP, Found("now"), "How much that is can't be said from here"),
    (
        Offer.REDRIVE,
        Found(dead=9, letters="DLQ.x", most=4),
        "Dead letters in DLQ.x: 9. Going back: 4.",
    ),
    (
        Offer.REDRIVE,
        Found(),
        "It keeps no dead letters: its policy says dead_letter = false.",
    ),
    (Offer.POLICY, Found(), "Nothing changes."),
]


@pytest.mark.parametrize(("offer", "found", "sentence"), EFFECTS)
def test_an_operation_says_what_it_will_do(offer: Offer, found: Found, sentence: str) -> None:
    assert any(one.startswith(sentence) for one in effects(offer, {**ROW, "links": LINKS}, found))


def test_every_operation_has_a_row() -> None:
    assert {offer for offer, _, _ in EFFECTS} == set(Offer)


def test_with_a_selector_numbers_are_the_most() -> None:
    """The gateway doesn't know before how many fit."""
    row = {**ROW, "selector": "n > 1"}
    assert effects(Offer.PURGE, row, Found())[0].startswith("Dropped: at most 10 messages")


def test_a_policy_that_changes_says_each_key() -> None:
    assert changes({"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 4, "d": 5}) == (
        "a: 1 no more, but the file's value or the default.",
        "c: 4 instead of 3.",
        "d: 5 from now on.",
    )


LIMITED = {"backlog_messages_max": 4, "backlog_overflow": "drop_oldest"}
POLICIES = [
    ({"lock_ms": 7}, "", False),
    ({**LIMITED, "lock_ms": 5}, "Of more than 4 messages the oldest are dropped, 6 of them", True),
    (
        {"backlog_bytes_max": 2_000, "backlog_overflow": "dead_letter"},
        "Of more than 2.0 KB the oldest become dead letters: it has 1.0 KB.",
        True,
    ),
    (
        {"backlog_age_ms_max": 60_000, "backlog_overflow": "drop_oldest"},
        "Of messages that wait for longer than 1 min the oldest are dropped.",
        True,
    ),
    ({"backlog_messages_max": 10}, "Publishers are refused while 10 messages", False),
    ({"backlog_messages_max": 11}, "", False),
    (
        {"expiry": "connection-close", "expiry_seconds": 120},
        "It ends by itself, with all that it is owed then, 2 min after connection-close",
        True,
    ),
    ({"expiry": "never"}, "", False),
    ({"dead_letter": False}, "Messages given up from now on are gone", True),
]


@pytest.mark.parametrize(("wanted", "sentence", "drops"), POLICIES)
def test_a_policy_that_drops_messages_is_typed(
    wanted: dict[str, object], sentence: str, drops: bool
) -> None:
    """The effects on messages stand below the keys that change."""
    row = {
        **ROW,
        "name": "global/orders",
        "backlog_bytes": 1_000,
        "policy": {"lock_ms": 5},
        "policy_in_force": {"lock_ms": 5, "dead_letter": True, "backlog_overflow": "refuse"},
    }
    found = policy_effects(row, wanted)
    keys = changes({"lock_ms": 5}, wanted)
    assert found.sentences[: len(keys)] == keys
    rest = found.sentences[len(keys) :]
    assert len(rest) == bool(sentence)
    assert all(one.startswith(sentence) for one in rest)
    assert is_typed(Offer.POLICY, Found(policy=found)) is found.drops is drops


def test_what_is_typed() -> None:
    """Always where messages are dropped, never for what can be undone."""
    typed = {offer for offer in Offer if is_typed(offer, Found())}
    assert typed == {Offer.REWIND, Offer.SKIP, Offer.PURGE, Offer.DELETE}
    assert not PolicyEffects().drops


LINK = {"name": "c/1", "credit": 5, "active": True, "in_flight": 0, "oldest_delivered_at": None}
STUCK = [
    ({"backlog": 0}, []),
    ({"paused": True}, ["It is paused", "No consumer is attached"]),
    ({}, ["No consumer is attached: 10 messages wait for one."]),
    ({"unreadable": "no file"}, ["A page of its messages can't be read: no file."]),
    ({"links": [{**LINK, "active": False}]}, ["It serves one consumer at a time"]),
    ({"links": [{**LINK, "credit": 0, "in_flight": 3}]}, ["No consumer has credit left"]),
    ({"links": [{**LINK, "credit": 0}]}, ["No consumer gives credit: they are attached"]),
    (
        {"links": [{**LINK, "in_flight": 3, "oldest_delivered_at": 0}]},
        ["c/1 holds 3 messages, the oldest for 2 min."],
    ),
    ({"links": [LINK], "in_flight": 0}, ["Consumers have credit and nothing is in flight"]),
    ({"links": [LINK]}, []),
]


@pytest.mark.parametrize(("differs", "reasons"), STUCK)
def test_what_stands_still_says_why(differs: dict[str, object], reasons: list[str]) -> None:
    found = facts.why_stuck({**ROW, **differs}, 120_000.0)
    assert len(found) == len(reasons)
    assert all(one.startswith(reason) for one, reason in zip(found, reasons, strict=True))


@pytest.mark.parametrize("backlog", [0, 1, 10, 10**12])
def test_a_strip_is_as_wide_as_it_is(backlog: int) -> None:
    """Each part that isn't empty can be seen."""
    row = {**ROW, "backlog": backlog, "outstanding": min(backlog, 5), "in_flight": min(backlog, 3)}
    parts = facts.strip(row, 7 if backlog else 0)
    assert all(one.width >= facts.PART_WIDTH_MIN for one in parts if one.count)
    assert max(one.x + one.width for one in parts) <= facts.STRIP_WIDTH
    assert all(a.x + a.width == b.x for a, b in pairwise(parts))


def test_dead_letters_have_a_queue() -> None:
    """By its name, by the policy's word, or none."""
    assert facts.dead_letter_queue(ROW) == "DLQ.queue/orders"
    named = {"dead_letter": True, "dead_letter_address": "queue://failed"}
    assert facts.dead_letter_queue({**ROW, "policy_in_force": named}) == "failed"
    assert facts.dead_letter_queue({**ROW, "dead_letters": "DLQ.log/a/global/b"}) == (
        "DLQ.log/a/global/b"
    )
    assert facts.dead_letter_queue({**ROW, "dead_letters": None}) is None
    none = {"dead_letter": False, "dead_letter_address": ""}
    assert facts.dead_letter_queue({**ROW, "policy_in_force": none}) is None


ROWS = [
    {
        "log": "main",
        "name": f"q-{nth}",
        "topic": "T",
        "backlog": nth % 4,
        "consumers": nth % 2,
        "paused": nth == 3,
    }
    for nth in range(10)
]


def shown(**wanted: object) -> list[str]:
    found = part(Entity.QUEUE, ROWS, Wanted(**wanted), 4)  # type: ignore[arg-type]
    return [str(row["name"]) for row in found.rows]


def test_a_list_is_searched_sorted_and_cut() -> None:
    """Equal rows by name; a page that isn't there is the last one."""
    assert shown() == ["q-0", "q-1", "q-2", "q-3"]
    assert shown(page=9) == ["q-8", "q-9"]
    assert shown(sort="backlog", down=True) == ["q-3", "q-7", "q-2", "q-6"]
    assert shown(sort="password") == shown()
    assert shown(search="Q 7") == ["q-7"]
    assert shown(search="is:paused") == ["q-3"]
    assert shown(search="is:idle") == ["q-2", "q-6"]
    assert shown(search="nothing") == []


def test_a_series_keeps_the_newest_and_knows_gaps() -> None:
    series = Series(60)
    for at in (1.0, 2.0, 3.0 + GAP_SECONDS, 65.0):
        series.add(Point(at, published=at))
    columns = series.columns(0)
    assert columns["published"] == [3.0 + GAP_SECONDS, None, 65.0]
    assert series.columns(64.9)["published"] == [65.0]
