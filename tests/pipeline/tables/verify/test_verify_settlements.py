"""Impossible settlements and floors are named: the table accepts all rows, so bad ones are simply
committed."""

import datetime as dt
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyroaring import BitMap64
from table_groups import KEY, NOON, bodies, event, framed, group, run, settled
from verify_homes import GROUPS, MadeHome, replaced

from distributary.pipeline.model.message import Settlement
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import SubscriptionEvent, SubscriptionKey
from distributary.pipeline.tables.verify.check import Verdict
from distributary.pipeline.tables.verify.home_info import take


@pytest.fixture
def made(tmp_path: Path) -> MadeHome:
    return MadeHome(tmp_path / "home")


def committed(
    made: MadeHome, *settlements: Settlement, more: int = 0
) -> dict[str, tuple[str, ...]]:
    """The problems after a commit of group 6 as it is and a group 7 with these settlements."""
    made.log.commit([framed(GROUPS[5])])
    made.log.commit([framed(group(7, 20, settlements=settlements))])
    shutil.rmtree(made.home.journal_dir)
    return made.problems()


BAD_SETTLEMENTS = {
    "the same twice": (settled(range(11, 12), floor=5), "settled sequences 11 more than once"),
    "below the floor": (settled(range(2, 3), floor=5), "settled sequences 2 more than once"),
    "twice in one": (settled(range(12, 13), range(12, 13), floor=5), "12 more than once"),
    "of another topic": (settled(range(7, 8), floor=5), "no such message in orders"),
    "not published": (settled(range(40, 42), floor=5), "sequences 40 to 41, but there is no such"),
    "for a stranger": (
        settled(range(12, 13), subscription="global/stranger"),
        "group 7 settles messages for global/stranger, which didn't exist then",
    ),
    "no outcome of ours that is open": (
        settled(range(12, 13), floor=5, outcome=Outcome.DROPPED, final=False),
        "group 7 settles messages for global/dispatchers as dropped, not final, which can't be",
    ),
    "expired without an expiry": (
        settled(range(12, 13), floor=5, outcome=Outcome.EXPIRED),
        "sequences 12 are settled as expired for one of global/dispatchers, but never expire",
    ),
    "another topic's name": (
        settled(range(12, 13), floor=5, topic="bills"),
        "settles messages of bills for global/dispatchers, which is of another topic",
    ),
}


@pytest.mark.parametrize("name", BAD_SETTLEMENTS)
def test_a_settlement_that_can_not_be_is_named(made: MadeHome, name: str) -> None:
    """Twice, of no message, of a message of another topic, or for no subscription."""
    bad, words = BAD_SETTLEMENTS[name]
    found = committed(made, bad)
    assert list(found) == ["settlements"]
    assert words in found["settlements"][0]


BAD_FLOORS = {
    "falls": (settled(range(12, 13), floor=4), "falls from 5 to 4 in group 7"),
    "passes what is owed": (
        settled(range(5, 6), range(10, 11), floor=14),
        "passes sequences 12 to 13 in group 7, but they are owed and were not settled",
    ),
    "beyond the end": (
        settled(range(5, 6), range(10, 11), range(12, 15), range(17, 20), floor=21),
        "is 21 in group 7, beyond the log's end at 20",
    ),
}


@pytest.mark.parametrize("name", BAD_FLOORS)
def test_a_floor_that_can_not_be_is_named(made: MadeHome, name: str) -> None:
    """It falls, passes owed messages, or is beyond the end of the log."""
    bad, words = BAD_FLOORS[name]
    found = committed(made, bad)
    assert list(found) == ["floors"]
    assert words in found["floors"][0]


def test_a_floor_that_is_ahead_of_its_settlement_by_a_group_is_named(made: MadeHome) -> None:
    """A message that is settled after the floor has passed it was lost to a restart in between."""
    made.log.commit(
        [
            framed(GROUPS[5]),
            framed(group(7, 20, settlements=[settled(range(12, 13), floor=11)])),
            framed(group(8, 20, settlements=[settled(range(5, 6), range(10, 11), floor=11)])),
        ]
    )
    shutil.rmtree(made.home.journal_dir)
    assert "passes sequences 5, 10 in group 7" in made.problems()["floors"][0]


def test_a_settlement_of_what_is_older_than_the_subscription_is_named(made: MadeHome) -> None:
    """It is owed messages from the log's head at its creation on."""
    late = SubscriptionKey(None, "late", durable=True)
    created = [event(SubscriptionEvent.CREATED, 10, key=late)]
    early = [settled(range(5, 6), range(10, 11), subscription=late.id, floor=11)]
    made.log.commit([framed(GROUPS[5]), framed(group(7, 20, subscriptions=created))])
    made.log.commit([framed(group(8, 20, settlements=early))])
    shutil.rmtree(made.home.journal_dir)
    found = made.problems()
    assert list(found) == ["settlements"]
    assert "has settled sequences 5, but it is owed those from 10 on" in found["settlements"][0]


@pytest.mark.parametrize(("column", "value"), [("floor", 99), ("event", "forgotten")])
def test_an_event_that_can_not_be_is_named(made: MadeHome, column: str, value: object) -> None:
    """A subscription can't be owed from beyond the end on, nor can anything else befall it."""
    made.rewrite(made.file("subscription"), replaced(column, [value]))
    sentences = made.problems()["settlements"]
    assert any("of global/dispatchers in group 1 with floor" in one for one in sentences)


def test_a_policy_that_is_none_is_named(made: MadeHome) -> None:
    """A gateway would not start with it."""
    said = [event(SubscriptionEvent.CONFIGURED, 0, policy='{"lock_ms":-1}')]
    made.log.commit([framed(GROUPS[5]), framed(group(7, 20, subscriptions=said))])
    shutil.rmtree(made.home.journal_dir)
    (sentence,) = made.problems()["settlements"]
    assert "the event of global/dispatchers in group 7" in sentence
    assert "lock_ms" in sentence


@pytest.mark.parametrize(
    ("column", "value"),
    [("priority", 10), ("expires_at", dt.datetime(1969, 1, 1, tzinfo=dt.UTC))],
)
def test_attributes_that_can_not_be_are_named(made: MadeHome, column: str, value: object) -> None:
    """With the message that has them."""
    usual: object = 4 if column == "priority" else None
    values = [usual] * 6
    values[4] = value
    made.rewrite(made.file("message", 1), replaced(column, [*values, usual]))
    (sentence,) = made.problems()["sequences"]
    assert "or times before 1970: sequences" in sentence


def test_lives_with_rewinds_and_ends_without_consumers_are_sound(made: MadeHome) -> None:
    """A floor falls only with a rewind, messages settled before it are settled again, and a
    subscription that ended by itself stays ended."""
    what = SubscriptionEvent
    late = run("orders", bodies(4, 9), expires_at=[NOON, 0, NOON, 0])
    for one in (
        GROUPS[5],
        group(7, 20, late, subscriptions=[event(what.PAUSED, 20, paused=True)]),
        group(8, 24, settlements=[settled(range(5, 6), floor=6)]),
        group(9, 24, subscriptions=[event(what.REWOUND, 2)]),
        group(10, 24, settlements=[settled(range(2, 6), floor=6)]),
        group(11, 24, subscriptions=[event(what.RESUMED, 24)]),
        group(12, 24, settlements=[settled(range(20, 23, 2), floor=6, outcome=Outcome.EXPIRED)]),
        group(13, 24, settlements=[settled(range(10, 12), floor=6, outcome=Outcome.DROPPED)]),
        group(14, 24, settlements=[settled(range(12, 13), floor=6, outcome=Outcome.REDRIVEN)]),
        group(15, 24, subscriptions=[event(what.PURGED, 24)]),
        group(16, 24, subscriptions=[event(what.CONFIGURED, 0, policy='{"lock_ms":5}')]),
    ):
        made.log.commit([framed(one)])
    shutil.rmtree(made.home.journal_dir)
    assert made.problems() == {}
    (line,) = take(made.home).subscriptions
    assert (line.floor, line.backlog, line.paused, line.policy) == (24, 0, False, '{"lock_ms":5}')


@pytest.mark.parametrize(
    ("record", "values", "check"),
    [("message", [9] * 7, "sequences"), ("settlement", [9, 9], "settlements")],
)
def test_rows_of_a_group_from_the_future_are_named(
    made: MadeHome, record: str, values: list[object], check: str
) -> None:
    """The table says with which group it ends."""
    nth = 1 if record == "message" else 0
    made.rewrite(made.file(record, nth), replaced("group", values))
    assert any(f"{record}s of group 9, but " in one for one in made.problems()[check])


def test_released_and_modified_settle_nothing_and_may_come_again(made: MadeHome) -> None:
    """Only final outcomes count, so a message may be given back often and settled once."""
    again = [
        settled(range(5, 6), floor=5, outcome=Outcome.RELEASED, final=False),
        settled(range(5, 6), floor=5, outcome=Outcome.MODIFIED, final=False),
        settled(range(5, 6), floor=10),
    ]
    assert committed(made, *again) == {}


def test_a_deleted_subscription_settles_no_more_and_one_made_again_begins_anew(
    made: MadeHome,
) -> None:
    """A new incarnation is owed messages from its floor on, and may settle those that a former one
    has settled; a settlement in the group of the deletion still belongs to the former one."""
    deleted, created = SubscriptionEvent.DELETED, SubscriptionEvent.CREATED
    made.log.commit(
        [
            framed(GROUPS[5]),
            framed(
                group(
                    7,
                    20,
                    settlements=[settled(range(5, 6), floor=10)],
                    subscriptions=[event(deleted, 20)],
                )
            ),
            framed(group(8, 20, subscriptions=[event(created, 11)])),
            framed(group(9, 20, settlements=[settled(range(11, 12), floor=12)])),
        ]
    )
    shutil.rmtree(made.home.journal_dir)
    assert made.problems() == {}
    made.log.commit(
        [
            framed(group(10, 20, subscriptions=[event(deleted, 20)])),
            framed(group(11, 20, settlements=[settled(range(12, 13), floor=13)])),
        ]
    )
    assert "didn't exist then" in made.problems()["settlements"][0]


# Spark's cursors.


def cursor_row(made: MadeHome, **changed: object) -> dict[str, object]:
    row: dict[str, object] = {
        "subscription": KEY.id,
        "topic": "orders",
        "floor": 5,
        "settled": BitMap64([11]).serialize(),
        "group": 4,
        "log_version": 2,
    }
    return row | changed


def write_cursors(made: MadeHome, *rows: dict[str, object]) -> None:
    kinds = {"subscription": pa.string(), "topic": pa.string(), "floor": pa.int64()}
    kinds |= {"settled": pa.binary(), "group": pa.int64(), "log_version": pa.int64()}
    schema = pa.schema(list(kinds.items()))
    write_deltalake(made.home.cursors, pa.Table.from_pylist(list(rows), schema=schema))


def test_cursors_that_agree_with_the_log_are_sound(made: MadeHome) -> None:
    """As of their own group, though the log has gone on since."""
    write_cursors(made, cursor_row(made))
    made.log.commit([framed(GROUPS[5])])
    made.log.commit([framed(group(7, 20, settlements=[settled(range(5, 6), floor=10)]))])
    shutil.rmtree(made.home.journal_dir)
    report = made.verify()
    assert {c.name: (c.verdict, c.counted) for c in report.checks}["cursors"] == (
        Verdict.SOUND,
        "1 cursor, as of group 4",
    )


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"floor": 4}, "has floor 4, the log says 5"),
        ({"floor": 10}, "has floor 10, the log says 5"),
        ({"group": 3, "settled": b"\0" * 8}, "has floor 5, the log says 3"),
        ({"settled": b"\0" * 8}, "don't agree on sequences 11"),
        ({"topic": "bills"}, "has topic bills, the log says orders"),
        ({"subscription": "global/other"}, "that did not exist then"),
        ({"group": 40}, "it is of another log"),
        ({"settled": b"?"}, "can't be read"),
    ],
)
def test_a_cursor_that_is_not_what_the_log_says_is_named(
    made: MadeHome, changed: dict[str, object], words: str
) -> None:
    """Floor, exceptions, topic, existence, and which log it is of."""
    write_cursors(made, cursor_row(made, **changed))
    found = made.problems()
    assert list(found) == ["cursors"]
    assert words in found["cursors"][0]


def test_a_subscription_without_a_cursor_is_named(made: MadeHome) -> None:
    """One that was there at the cursors' group."""
    other = {"subscription": "global/other"}
    write_cursors(made, cursor_row(made, **other))
    assert any(f"no row for {KEY.id}" in s for s in made.problems()["cursors"])
