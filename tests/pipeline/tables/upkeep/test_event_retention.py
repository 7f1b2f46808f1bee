"""Events of subscriptions are removed when no reader needs them: a start finds the same state."""

import random
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st
from table_groups import DAY_US, NOON, framed, group, run, settled

from distributary.pipeline.model.message import SubscriptionRecord, TransactionRecord
from distributary.pipeline.model.subscription import Definition, SubscriptionEvent, SubscriptionKey
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.recovery import snapshot
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep import event_retention
from distributary.pipeline.tables.upkeep.table_upkeep import UpkeepLimits
from distributary.pipeline.tables.verify.home_info import take
from distributary.pipeline.tables.verify.verify_home import verify

LIMITS = UpkeepLimits(log_entries_max=1_000_000, log_retention_days=7, retention_days=7)
NAMES = ["a", "b", "c"]


def record(what: SubscriptionEvent, name: str, floor: int, **said: object) -> SubscriptionRecord:
    key = SubscriptionKey(None, name, durable=True)
    return SubscriptionRecord(what, key, Definition("orders", shared=True), floor, **said)  # type: ignore[arg-type]


class Life:
    """A home in which subscriptions come and go, a group for each event."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self.home.journal_dir.mkdir(parents=True, exist_ok=True)
        self.log = TopicLog.open(self.home.topic_log, limits=LIMITS)
        self.groups = self.sequence = 0
        self.living: dict[str, bool] = {}  #: and whether it is paused

    def say(self, what: SubscriptionEvent, name: str, days_ago: int) -> None:
        paused = what is SubscriptionEvent.PAUSED
        if what is SubscriptionEvent.DELETED:
            del self.living[name]
        else:
            self.living[name] = paused
        one = record(what, name, self.sequence, paused=paused)
        self.commit(days_ago, subscriptions=[one])

    def publish(self, days_ago: int) -> None:
        self.commit(days_ago, run("orders", [b"x"]))

    def commit(self, days_ago: int, *runs: object, **more: object) -> None:
        self.groups += 1
        at = NOON - days_ago * DAY_US
        one = group(self.groups, self.sequence, *runs, at=at, **more)  # type: ignore[arg-type]
        self.sequence += one.message_count
        self.log.commit([framed(one)])

    def upkeep(self) -> list[str]:
        kinds = []
        while step := self.log.upkeep(now=NOON, floor=self.sequence):
            kinds.append(step.kind)
        return kinds

    def found(self) -> list[tuple[str, Definition, int, int, bool]]:
        """Return the state that a start finds."""
        fresh = TopicLog.open(self.home.topic_log, limits=LIMITS)
        assert fresh.state == self.log.state
        return [
            (one.key.id, one.definition, one.floor, one.began, one.paused)
            for one in snapshot.load(fresh).subscriptions
        ]

    def events(self) -> list[tuple[str, str]]:
        table = DeltaTable(self.home.topic_log).to_pyarrow_table(
            filters=[("record", "=", "subscription")]
        )
        rows = sorted(table.to_pylist(), key=lambda row: int(row["group"]))
        return [
            (str(row["event"]), str(row["subscription"]).removeprefix("global/")) for row in rows
        ]


@pytest.fixture
def life(tmp_path: Path) -> Life:
    return Life(tmp_path)


def test_of_what_is_gone_nothing_stays(life: Life) -> None:
    """Made and ended for days: only what retention keeps is left."""
    for days_ago in range(20, 0, -1):
        life.say(SubscriptionEvent.CREATED, "a", days_ago)
        life.say(SubscriptionEvent.DELETED, "a", days_ago)
    before = life.found()
    assert "events" in life.upkeep()
    assert life.events() == [("created", "a"), ("deleted", "a")] * 7
    assert life.found() == before == []
    assert "events" not in life.upkeep(), "it is asked once a day"


def test_of_what_lives_its_beginning_and_its_last_word_stay(life: Life) -> None:
    """Pauses and policies without number, and a second incarnation."""
    for what in ("created", "paused", "resumed", "rewound", "paused", "resumed", "paused"):
        life.say(SubscriptionEvent(what), "a", 12)
    life.publish(1)
    before = life.found()
    life.upkeep()
    assert life.events() == [("rewound", "a"), ("paused", "a")]
    assert life.found() == before
    assert before


def test_what_something_in_the_log_speaks_of_stays(life: Life) -> None:
    """A message or a settlement that is kept, although it is old, keeps the events around it."""
    life.say(SubscriptionEvent.CREATED, "a", 12)
    life.publish(12)
    life.commit(12, settlements=[settled(range(1), subscription="global/a", floor=1)])
    life.say(SubscriptionEvent.DELETED, "a", 11)
    owed = life.log.upkeep(now=NOON, floor=0)  # a subscription is owed the message
    while owed:
        owed = life.log.upkeep(now=NOON, floor=0)
    assert life.events() == [("created", "a"), ("deleted", "a")]
    report = verify(life.home)
    assert report.sound, report


def test_a_clock_that_was_set_back_raises_nobody_from_the_dead(life: Life) -> None:
    """A beginning in a day that seems young, and its end in one that seems old: the end stays."""
    life.say(SubscriptionEvent.CREATED, "a", 1)
    life.say(SubscriptionEvent.DELETED, "a", 12)
    life.say(SubscriptionEvent.CREATED, "b", 1)
    life.upkeep()
    assert ("deleted", "a") in life.events()
    assert [found[0] for found in life.found()] == ["global/b"]


def test_many_are_looked_at_a_part_at_a_time(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes the oldest; of one that finds nothing the next takes more."""
    monkeypatch.setattr(event_retention, "ROWS_MAX", 4)
    for days_ago in range(16, 9, -1):
        life.say(SubscriptionEvent.CREATED, f"s{days_ago}", days_ago)
        life.say(SubscriptionEvent.CREATED, "short", days_ago)
        life.say(SubscriptionEvent.DELETED, "short", days_ago)
    before = life.found()
    assert life.upkeep().count("events") > 1
    assert life.events() == [("created", f"s{n}") for n in range(16, 9, -1)]
    assert life.found() == before


NEXT = {
    None: ["created"],
    False: ["paused", "redefined", "rewound", "purged", "configured", "deleted"],
    True: ["resumed", "redefined", "rewound", "purged", "deleted"],
}


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_any_life_is_found_as_it_was(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Random lives over random days, with messages and settlements between them: a start finds
    the same before and after, and the home is sound."""
    dice = random.Random(seed)
    life = Life(tmp_path_factory.mktemp("life"))
    for days_ago in sorted(dice.choices(range(1, 14), k=25), reverse=True):
        name = dice.choice(NAMES)
        if dice.random() < 0.2:
            life.publish(days_ago)
            continue
        what = SubscriptionEvent(dice.choice(NEXT[life.living.get(name)]))
        life.say(what, name, days_ago)
    before, events = life.found(), life.events()
    assert sorted(life.living) == sorted(one[0].removeprefix("global/") for one in before)
    life.upkeep()
    first = life.log.first_sequence  # below it no subscription is owed a message
    assert life.found() == [(n, d, max(floor, first), *rest) for n, d, floor, *rest in before]
    assert len(life.events()) <= len(events)
    report = verify(life.home)
    assert report.sound, [one.problems for one in report.checks if one.problems]


def test_a_prepared_transaction_stays_until_it_has_ended(tmp_path: Path) -> None:
    """With its work, however old it is; then both go, and an id may be used again. Another user's
    with the same id is another one."""
    life = Life(tmp_path)

    def said(
        event: SubscriptionEvent, id_: str, days_ago: int, work: bytes = b"", user: str = "a/b"
    ) -> None:
        record_ = TransactionRecord(event, id_, life.sequence, user, work, user)
        life.commit(days_ago, subscriptions=[record_])

    said(SubscriptionEvent.PREPARED, "1:01:", 12, b"first")
    said(SubscriptionEvent.PREPARED, "1:02:", 12, b"second")
    said(SubscriptionEvent.PREPARED, "1:03:", 11, b"third")
    said(SubscriptionEvent.PREPARED, "1:01:", 11, b"another", "c")
    said(SubscriptionEvent.COMMITTED, "1:01:", 11)
    said(SubscriptionEvent.ROLLED_BACK, "1:03:", 11)
    said(SubscriptionEvent.PREPARED, "1:03:", 10, b"again")
    life.publish(1)
    open_ = [
        ("1:02:", b"second", "a/b"),
        ("1:01:", b"another", "c"),
        ("1:03:", b"again", "a/b"),
    ]

    def found() -> list[tuple[str, bytes, str]]:
        records = [one.record for one in snapshot.load(life.log).open]
        return [(one.transaction, one.work, one.user) for one in records]

    assert found() == open_
    assert take(life.home).prepared == ("1:01:/c", "1:02:/a%2Fb", "1:03:/a%2Fb")
    life.upkeep()
    assert found() == open_
    assert len(life.events()) == 3
    report = verify(life.home)
    assert report.sound, [one.problems for one in report.checks if one.problems]
    said(SubscriptionEvent.COMMITTED, "1:04:", 1)
    [problem] = [one for check in verify(life.home).checks for one in check.problems]
    assert "transaction/1:04:" in problem
    assert "neither prepared nor decided" in problem


def test_a_merge_leaves_out_work_that_has_ended(tmp_path: Path) -> None:
    """The rows stay; an open transaction keeps its work, also under an id that was used before."""
    life = Life(tmp_path)

    def said(event: SubscriptionEvent, id_: str, work: bytes = b"", user: str = "a") -> None:
        record_ = TransactionRecord(event, id_, life.sequence, user, work, user)
        life.commit(2, subscriptions=[record_])

    def works() -> list[tuple[str, bytes | None]]:
        table = DeltaTable(life.home.topic_log).to_pyarrow_table(
            filters=[("record", "=", "subscription")]
        )
        rows = sorted(table.to_pylist(), key=lambda row: int(row["group"]))
        return [(str(row["event"]), row["message"]) for row in rows]

    said(SubscriptionEvent.PREPARED, "1:01:", b"first")
    said(SubscriptionEvent.PREPARED, "1:02:", b"open")
    said(SubscriptionEvent.PREPARED, "1:01:", b"another's", "b")
    said(SubscriptionEvent.COMMITTED, "1:01:")
    said(SubscriptionEvent.PREPARED, "1:01:", b"again")
    said(SubscriptionEvent.PREPARED, "1:03:", b"undone")
    said(SubscriptionEvent.ROLLED_BACK, "1:03:")
    life.say(SubscriptionEvent.CREATED, "s", 2)
    before = snapshot.load(life.log).open
    assert [one.record.work for one in before] == [b"open", b"another's", b"again"]
    assert "merge" in life.upkeep()
    assert works() == [
        ("prepared", None),
        ("prepared", b"open"),
        ("prepared", b"another's"),
        ("committed", None),
        ("prepared", b"again"),
        ("prepared", None),
        ("rolled_back", None),
        ("created", None),
    ]
    assert snapshot.load(life.log).open == before
    report = verify(life.home)
    assert report.sound, [one.problems for one in report.checks if one.problems]


def test_an_event_that_nobody_knows_is_not_passed_over() -> None:
    """Columns are looked at, and a word of a later version still stops a start."""
    assert wanted("a created", "a blessed", "a paused") == [True, True, True]


def test_a_start_makes_nothing_of_what_is_gone() -> None:
    """However many have come and gone, only events of those that live are more than columns; one
    that was deleted and made again lives, also when both are in one group."""
    gone = [f"s{nth} {what}" for nth in range(50) for what in ("created", "paused", "deleted")]
    assert wanted(*gone) == [False] * 150
    assert wanted("a created", "a deleted", "a created") == [False, False, True]
    assert wanted("a created", "a deleted", "a created", groups=[1, 2, 2]) == [False, True, True]
    assert wanted("a created", "b created", "b deleted") == [True, False, False]
    assert wanted("a created", "a blessed", "a deleted") == [False, True, False]


def wanted(*events: str, groups: list[int] | None = None) -> list[bool]:
    """Whether a start looks at each of these events, each in a group of its own."""
    said = [one.split() for one in events]
    table = {
        "group": groups or list(range(1, len(events) + 1)),
        "subscription": [name for name, _ in said],
        "event": [what for _, what in said],
    }
    return [bool(one) for one in snapshot.latest_events(pa.table(table))]
