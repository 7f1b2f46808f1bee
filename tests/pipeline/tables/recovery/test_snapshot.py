"""The restart's state: from cursors or from the whole log, and equal to the model's fold."""

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from cursor_model import Cursor, fold
from deltalake import write_deltalake
from pyroaring import BitMap64
from table_groups import KEY, event, framed, group, run, settled

from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.log.failures import Failures
from distributary.pipeline.model.message import Group
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import (
    BEGINNINGS,
    NOT_OF_SUBSCRIPTIONS,
    SubscriptionEvent,
    SubscriptionKey,
)
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.recovery.snapshot import CURSOR_COLUMNS, load, read_ahead
from distributary.pipeline.tables.recovery.standpoints import WHOLE_LOG, Snapshot
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

CREATED, DELETED = SubscriptionEvent.CREATED, SubscriptionEvent.DELETED
_OTHERS = sorted({*SubscriptionEvent} - BEGINNINGS - NOT_OF_SUBSCRIPTIONS - {DELETED})
REDEFINED = SubscriptionEvent.REDEFINED
KEYS = [
    SubscriptionKey(None, "dispatchers", durable=True),
    SubscriptionKey("billing", "orders", durable=True),
    SubscriptionKey("a/b", "c|d e", durable=True),
]


class Model:
    """Subscriptions as a dict: what a restart must find."""

    def __init__(self) -> None:
        self.cursors: dict[SubscriptionKey, Cursor] = {}
        self.selectors: dict[SubscriptionKey, str | None] = {}
        self.failed: dict[SubscriptionKey, dict[int, Failures]] = {}
        self.lost: dict[SubscriptionKey, set[int]] = {}
        self.began: dict[SubscriptionKey, int] = {}
        self.said: dict[SubscriptionKey, tuple[bool, str]] = {}

    def apply(self, group: Group) -> None:
        """Settlements first: an event of the same group begins after them."""
        number = group.number
        for settlement in group.settlements:
            key = SubscriptionKey.parse(settlement.subscription)
            if key in self.cursors:
                old = self.cursors[key]
                runs = settlement.sequences if settlement.final else ()
                floor = max(old.floor, settlement.floor)
                self.cursors[key] = fold([*old.settled, *runs], floor)
                count = settlement.delivery_count + (settlement.outcome == Outcome.MODIFIED)
                for run in settlement.sequences:
                    for one in run:
                        known = self.failed[key].get(one, Failures(0, 0)).count
                        if not settlement.final and count and count >= known:
                            self.failed[key][one] = Failures(count, number)
                        if settlement.outcome == Outcome.LOST:
                            self.lost[key].add(one)
        for record in group.subscriptions:
            if record.event == DELETED:
                self.cursors.pop(record.key, None)
                continue
            if record.event in BEGINNINGS:
                self.cursors[record.key] = Cursor(record.floor)
                self.selectors[record.key] = record.definition.selector
                self.failed[record.key] = {}
                self.lost[record.key] = set()
                self.began[record.key] = number
            self.said[record.key] = (record.paused, record.policy)

    def failures(self) -> dict[SubscriptionKey, dict[int, Failures]]:
        """Return the failures of owed messages, by living subscription."""
        return {
            key: {one: what for one, what in self.failed[key].items() if one not in cursor}
            for key, cursor in self.cursors.items()
        }

    def in_doubt(self) -> dict[SubscriptionKey, set[int]]:
        """Return the owed messages that lost consumers may have seen."""
        return {
            key: {one for one in self.lost[key] if one not in cursor}
            for key, cursor in self.cursors.items()
        }


def history(seed: int, count: int) -> Iterator[Group]:
    """Groups with events and settlements of three subscriptions."""
    chance = random.Random(seed)
    floors = dict.fromkeys(KEYS, 0)
    living: set[SubscriptionKey] = set()
    for number in range(1, count + 1):
        key = chance.choice(KEYS)
        roll = chance.random()
        if number <= len(KEYS) or roll < 0.1:
            key = KEYS[number - 1] if number <= len(KEYS) else key
            floors[key] = chance.randrange(0, 50)
            what = chance.choice(sorted(BEGINNINGS)) if key in living else CREATED
            living.add(key)
            yield group(number, subscriptions=[event(what, floors[key], key=key)])
        elif roll < 0.15:
            living.discard(key)
            yield group(number, subscriptions=[event(DELETED, 0, key=key)])
        elif roll < 0.25 and key in living:
            what = chance.choice(
                sorted(set(SubscriptionEvent) - BEGINNINGS - {DELETED, *NOT_OF_SUBSCRIPTIONS})
            )
            paused, policy = chance.random() < 0.5, chance.choice(["", '{"lock_ms":5}'])
            one = event(what, chance.randrange(0, 999), key=key, paused=paused, policy=policy)
            yield group(number, subscriptions=[one])
        else:
            floors[key] += chance.randrange(0, 20)
            first = floors[key] + chance.randrange(0, 300)
            runs = [range(first, first + chance.randint(1, 40), chance.randint(1, 4))]
            final = chance.random() < 0.8
            back = chance.choice([Outcome.RELEASED, Outcome.MODIFIED, Outcome.LOST])
            one = settled(
                *runs,
                subscription=key.id,
                floor=floors[key],
                outcome=Outcome.ACCEPTED if final else back,
                final=final,
                delivery_count=chance.choice([0, 0, 1, 2]),
            )
            yield group(number, settlements=[one])


def write_cursors(home: Home, model: Model, *, number: int, version: int) -> None:
    """Spark's table as of a group, as the job writes it."""
    rows = []
    for key, cursor in model.cursors.items():
        bitmap = BitMap64()
        for part in cursor.settled:
            bitmap.add_range(part.start, part.stop)
        rows.append(
            {
                "subscription": key.id,
                "topic": "orders",
                "shared": True,
                "selector": model.selectors[key],
                "floor": cursor.floor,
                "settled": bitmap.serialize(),
                "failures": [
                    {"sequence": one, "failures": what.count, "group": what.group}
                    for one, what in model.failures()[key].items()
                ],
                "lost": BitMap64(model.in_doubt()[key]).serialize(),
                "group": number,
                "log_version": version,
            }
        )
    fields = pa.schema([pa.field(name, kind) for name, kind in CURSOR_COLUMNS.items()])
    write_deltalake(home.cursors, pa.Table.from_pylist(rows, fields), mode="overwrite")


def check(snapshot: Snapshot, model: Model) -> None:
    found = {s.key: Cursor(s.floor, tuple(s.settled.runs())) for s in snapshot.subscriptions}
    assert found == model.cursors
    assert {s.key: s.failures for s in snapshot.subscriptions} == model.failures()
    assert {
        s.key: {one for run in s.lost.runs() for one in run} for s in snapshot.subscriptions
    } == model.in_doubt()
    for one in snapshot.subscriptions:
        assert one.began == model.began[one.key]
        assert (one.paused, one.policy) == model.said[one.key]


@pytest.mark.parametrize("seed", range(6))
def test_with_and_without_cursors_the_same(tmp_path: Path, seed: int) -> None:
    """Cursors as of any group plus the log after it are the whole log, and both are the model."""
    home = Home(tmp_path)
    log = TopicLog.open(home.topic_log)
    model = Model()
    groups = list(history(seed, 120))
    half = random.Random(seed).randrange(20, 100)
    for begin, end in ((0, half), (half, 120)):
        for one in groups[begin:end]:
            model.apply(one)
        for at in range(begin, end, 15):
            log.commit([framed(one) for one in groups[at : min(at + 15, end)]])
        if end == half:
            write_cursors(home, model, number=half, version=log.version)
    with_cursors = load(log)
    assert with_cursors.source.startswith("cursors")
    home.cursors.rename(tmp_path / "away")
    without = load(log)
    assert without.source.startswith(WHOLE_LOG)
    check(with_cursors, model)
    check(without, model)


@pytest.mark.parametrize("seed", range(6))
def test_a_start_goes_on_from_what_was_read_ahead(tmp_path: Path, seed: int) -> None:
    """By a reader beside the writer, at any of its commits, again and again."""
    home, chance, model = Home(tmp_path), random.Random(seed), Model()
    log, ahead = TopicLog.open(home.topic_log), None
    groups = list(history(seed, 120))
    for at in range(0, 120, 10):
        for one in groups[at : at + 10]:
            model.apply(one)
        log.commit([framed(one) for one in groups[at : at + 10]])
        if at == 0 or chance.random() < 0.5:
            ahead = read_ahead(TopicLog.open(home.topic_log, create=False), ahead)
    found = load(log, ahead)
    assert found.source.startswith("what was read ahead through group ")
    check(found, model)


def test_what_was_read_of_another_table_is_not_used(tmp_path: Path) -> None:
    """It may lie in the same place: a backup was put there."""
    logs, model = [TopicLog.open(Home(tmp_path / name).topic_log) for name in "ab"], Model()
    for one in history(1, 30):
        model.apply(one)
        for log in logs:
            log.commit([framed(one)])
    found = load(logs[1], read_ahead(logs[0], None))
    assert found.source.startswith(WHOLE_LOG)
    check(found, model)


def test_an_empty_log_has_no_subscriptions(tmp_path: Path) -> None:
    """A new home starts with group 1 and sequence 0."""
    home = Home(tmp_path)
    snapshot = load(TopicLog.open(home.topic_log))
    assert (snapshot.next_group, snapshot.next_sequence) == (1, 0)
    assert snapshot.subscriptions == ()


def test_the_next_numbers_follow_the_last_commit(tmp_path: Path) -> None:
    """A restart never gives a group or a sequence twice."""
    home = Home(tmp_path)
    log = TopicLog.open(home.topic_log)
    log.commit([framed(group(1, 0, run("t", [b"x"] * 7)))])
    snapshot = load(log)
    assert (snapshot.next_group, snapshot.next_sequence) == (2, 7)


def test_the_definition_is_whole(tmp_path: Path) -> None:
    """Topic, sharing and selector come back as they were recorded last."""
    home = Home(tmp_path)
    log = TopicLog.open(home.topic_log)
    created = event(CREATED, 0)
    redefined = event(REDEFINED, 9, topic="flights", selector="carrier = 'UA'")
    log.commit([framed(group(1, subscriptions=[created]))])
    log.commit([framed(group(2, subscriptions=[redefined]))])
    (state,) = load(log).subscriptions
    assert (state.key, state.definition, state.floor) == (KEY, redefined.definition, 9)


def test_a_redefinition_forgets_what_was_settled(tmp_path: Path) -> None:
    """Settlements of the former incarnation don't count, not even in the same group."""
    home = Home(tmp_path)
    log = TopicLog.open(home.topic_log)
    log.commit([framed(group(1, subscriptions=[event(CREATED, 0)]))])
    both = group(2, settlements=[settled(range(20, 30))], subscriptions=[event(REDEFINED, 10)])
    after = group(3, settlements=[settled(range(12, 14), floor=10)])
    log.commit([framed(both), framed(after)])
    (state,) = load(log).subscriptions
    assert (state.floor, list(state.settled.runs())) == (10, [range(12, 14)])


def test_a_rewound_floor_falls_and_nothing_before_counts(tmp_path: Path) -> None:
    """Messages settled or failed before a rewind are owed again as for the first time, also those
    that came back in the same group."""
    home = Home(tmp_path)
    log = TopicLog.open(home.topic_log)
    back = settled(range(40, 42), outcome=Outcome.MODIFIED, final=False, floor=40)
    rewound = event(SubscriptionEvent.REWOUND, 10, paused=True)
    for one in (
        group(1, subscriptions=[event(CREATED, 30)]),
        group(2, settlements=[settled(range(30, 40), floor=40), back]),
        group(3, settlements=[settled(range(50, 60), floor=40)], subscriptions=[rewound]),
        group(4, settlements=[settled(range(12, 14), floor=10)]),
    ):
        log.commit([framed(one)])
    (state,) = load(log).subscriptions
    assert (state.floor, list(state.settled.runs())) == (10, [range(12, 14)])
    assert (state.failures, state.began, state.paused) == ({}, 3, True)


@pytest.mark.parametrize("turned", [False, True])
def test_in_one_group_a_beginning_wins_then_an_end(tmp_path: Path, turned: bool) -> None:
    """This holds for any order of rows: a surplus subscription can be deleted, a lost one can't be
    restored."""
    home = Home(tmp_path)
    log = TopicLog.open(home.topic_log)
    first, second, third = KEYS
    made = [event(CREATED, 7, key=key) for key in KEYS]
    events = [
        event(DELETED, 20, key=first),
        event(SubscriptionEvent.REWOUND, 3, key=first, policy="{}"),
        event(SubscriptionEvent.PAUSED, 20, key=second, paused=True),
        event(DELETED, 20, key=second),
        event(SubscriptionEvent.PAUSED, 20, key=third, paused=True),
    ]
    log.commit([framed(group(1, subscriptions=made))])
    log.commit([framed(group(2, subscriptions=events[::-1] if turned else events))])
    found = {one.key: (one.floor, one.paused, one.policy) for one in load(log).subscriptions}
    assert found == {first: (3, False, "{}"), third: (7, True, "")}


@pytest.mark.parametrize("what", _OTHERS)
def test_what_begins_nothing_forgets_nothing(tmp_path: Path, what: SubscriptionEvent) -> None:
    """A pause, a resumption, another policy: floor and exceptions stay as they were."""
    home = Home(tmp_path)
    log, model = only_dispatchers(home)
    one = group(3, subscriptions=[event(what, 99, paused=True, policy="{}")])
    model.apply(one)
    log.commit([framed(one)])
    check(load(log), model)
    assert model.said[KEY] == (True, "{}")


@pytest.mark.parametrize(
    "outcome", [Outcome.EXPIRED, Outcome.DEAD_LETTERED, Outcome.DROPPED, Outcome.REDRIVEN]
)
def test_what_ended_without_a_consumer_is_settled(tmp_path: Path, outcome: Outcome) -> None:
    """After a restart no subscription is owed it."""
    home = Home(tmp_path)
    log, _ = only_dispatchers(home)
    log.commit([framed(group(3, settlements=[settled(range(20, 22), outcome=outcome)]))])
    (state,) = load(log).subscriptions
    assert list(state.settled.runs()) == [range(3, 9), range(20, 22)]


def test_an_event_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    """The messages that the subscription is owed after it can't be guessed."""
    home = Home(tmp_path)
    log, _ = only_dispatchers(home)
    later = cast("SubscriptionEvent", SimpleNamespace(value="forked"))
    log.commit([framed(group(3, subscriptions=[event(later, 0)]))])
    with pytest.raises(StoreError, match="'forked' of global/dispatchers"):
        load(log)


def only_dispatchers(home: Home) -> tuple[TopicLog, Model]:
    log = TopicLog.open(home.topic_log)
    model = Model()
    for one in (
        group(1, subscriptions=[event(CREATED, 0)]),
        group(2, settlements=[settled(range(3, 9))]),
    ):
        model.apply(one)
        log.commit([framed(one)])
    return log, model


def test_cursors_ahead_of_the_log_are_not_used(tmp_path: Path) -> None:
    """A table of another log, or of a later one, is told in the source and left aside."""
    home = Home(tmp_path)
    log, model = only_dispatchers(home)
    for number, version in ((2, 99), (99, 2)):
        write_cursors(home, model, number=number, version=version)
        snapshot = load(log)
        assert f"log version {version} and group {number}" in snapshot.source
        assert snapshot.source.startswith(WHOLE_LOG)
        check(snapshot, model)


def test_cursors_of_another_schema_are_not_used(tmp_path: Path) -> None:
    """A column that is missing, or of another type, is told in the source."""
    home = Home(tmp_path)
    log, model = only_dispatchers(home)
    write_deltalake(home.cursors, pa.table({"subscription": ["global/dispatchers"]}))
    missing = load(log)
    columns = {name: pa.array([], kind) for name, kind in CURSOR_COLUMNS.items()}
    columns["floor"] = pa.array([], pa.string())
    write_deltalake(home.cursors, pa.table(columns), mode="overwrite", schema_mode="overwrite")
    other = load(log)
    assert "floor of cursors is string, not int64" in other.source
    for snapshot in (missing, other):
        assert snapshot.source.startswith(WHOLE_LOG)
        check(snapshot, model)


def test_a_damaged_bitmap_is_not_used(tmp_path: Path) -> None:
    """A bitmap that can't be decoded is never guessed."""
    home = Home(tmp_path)
    log, model = only_dispatchers(home)
    write_cursors(home, model, number=2, version=log.version)
    columns = {
        "subscription": [KEY.id],
        "topic": ["orders"],
        "shared": [True],
        "selector": pa.array([None], pa.string()),
        "floor": [0],
        "settled": [b"\x07damaged"],
        "lost": [BitMap64().serialize()],
        "failures": pa.array([[]], CURSOR_COLUMNS["failures"]),
        "group": [2],
        "log_version": [2],
    }
    write_deltalake(home.cursors, pa.table(columns), mode="overwrite")
    snapshot = load(log)
    assert "damaged" in snapshot.source
    check(snapshot, model)


@pytest.mark.parametrize("key", [*KEYS, SubscriptionKey("", "", durable=False)])
def test_an_id_names_its_key(key: SubscriptionKey) -> None:
    """A key comes back from its id, whatever characters it has."""
    assert SubscriptionKey.parse(key.id) == key


@pytest.mark.parametrize("text", ["", "dispatchers", "global", "global/a/b", "else/a"])
def test_what_is_no_id_is_refused(text: str) -> None:
    """A text that no key has as its id is an error that shows one; of a bare name its three."""
    with pytest.raises(InvalidRequest, match="global/dispatchers"):
        SubscriptionKey.parse(text)
