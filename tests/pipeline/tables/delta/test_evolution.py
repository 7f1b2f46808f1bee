"""A table that the program wrote before `schema.ADDED`: taken over, or read as it is.

`first_format` was written by that program: groups 1 to 4, six messages on two topics over two days,
two of them with a ttl and one with priority 7.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field, Schema
from msgspec.structs import replace
from table_groups import DAY_US, KEY, NOON, bodies, event, framed, group, run, settled
from table_story import KEEP_ALL, paged, table_rows
from verify_homes import snapshot

from distributary.pipeline.errors import ForeignCommit, StoreError
from distributary.pipeline.model.subscription import Made, Origin, SubscriptionEvent
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.delta import evolution, table_log
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.recovery.snapshot import load
from distributary.pipeline.tables.topic_log.table_view import open_view
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep import table_upkeep, tiers
from distributary.pipeline.tables.verify import home_info
from distributary.pipeline.tables.verify.verify_home import verify

FIRST_FORMAT = Path(__file__).parents[3] / "formats" / "first_format" / "topic_log"
ROWS = [
    (nth, topic, b"\0Su\xa0" + bytes([len(text)]) + text)
    for nth, (topic, text) in enumerate(
        [
            ("orders", b"a"),
            ("orders", b"b"),
            ("orders", b"hot"),
            ("bills", b"x"),
            ("bills", b"y"),
            ("orders", b"c"),
        ]
    )
]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with that table, and no journal."""
    found = Home(tmp_path)
    shutil.copytree(FIRST_FORMAT, found.topic_log)
    return found


def test_its_owner_adds_the_columns_once(home: Home) -> None:
    """One commit, which touches no file; the next start finds nothing to do."""
    before = DeltaTable(home.topic_log)
    log = TopicLog.open(home.topic_log)
    after = DeltaTable(home.topic_log)
    assert after.version() == log.version == before.version() + 1 == 4
    assert after.schema() == Schema.from_arrow(topic_log_schema.SCHEMA)
    assert sorted(after.file_uris()) == sorted(before.file_uris())
    assert str(after.metadata().id) == str(before.metadata().id)
    assert after.metadata().created_time == before.metadata().created_time
    assert after.metadata().configuration == topic_log_schema.CONFIGURATION
    assert (log.journal_version, log.sequence_version) == (4, 6)
    assert table_rows(home.topic_log) == ROWS
    assert TopicLog.open(home.topic_log).version == 4


def test_old_and_new_rows_lie_in_one_table(home: Home) -> None:
    """Readers find both; what the old ones lack is null."""
    log = TopicLog.open(home.topic_log)
    paused = event(SubscriptionEvent.PAUSED, 0, paused=True, policy='{"lock_ms":5}')
    late = run("orders", [b"late"], deliver_at=[NOON + 9])
    log.commit([framed(group(5, 6, late, at=NOON + DAY_US, subscriptions=[paused]))])
    assert table_rows(home.topic_log) == [*ROWS, (6, "orders", b"late")]
    table = DeltaTable(home.topic_log).to_pyarrow_table()
    times = dict(zip(table["sequence"].to_pylist(), table["deliver_at"].to_pylist(), strict=True))
    assert [times[s] and times[s].microsecond for s in range(7)] == [None] * 6 + [9]
    events = [row for row in table.to_pylist() if row["record"] == "subscription"]
    assert sorted((e["group"], e["paused"], e["policy"]) for e in events) == [
        (1, None, None),
        (5, True, '{"lock_ms":5}'),
    ]
    assert paged(log, "orders") == [
        (s, m) for s, t, m in [*ROWS, (6, "orders", b"late")] if t == "orders"
    ]
    (state,) = load(log).subscriptions
    assert (state.key, state.floor, state.paused) == (KEY, 1, True)
    assert list(state.settled.runs()) == [range(2, 3)]


def test_merges_of_old_and_new_files_keep_every_row(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also checkpoints say the new schema: without the entries before them the table is whole."""
    monkeypatch.setattr(tiers, "FAN_IN", 3)
    monkeypatch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 3)
    log = TopicLog.open(home.topic_log, limits=KEEP_ALL)
    for nth in range(6):
        one = run("orders", bodies(2, 20), deliver_at=[NOON + 9] * 2)
        settlements = [settled(range(6 + 2 * nth, 7 + 2 * nth), floor=1)]
        log.commit(
            [framed(group(5 + nth, 6 + 2 * nth, one, at=NOON + DAY_US, settlements=settlements))]
        )
    rows = table_rows(home.topic_log)
    assert rows[:6] == ROWS
    kinds = set()
    while step := log.upkeep(now=NOON + 3 * DAY_US, floor=0):
        kinds.add(step.kind)
    assert kinds >= {"merge", "checkpoint"}
    assert table_rows(home.topic_log) == rows
    assert verify(home, deep=True).sound
    newest = max((home.topic_log / "_delta_log").glob("*.checkpoint.parquet"))
    for entry in (home.topic_log / "_delta_log").glob("*.json"):
        if entry.name.split(".")[0] <= newest.name.split(".")[0]:
            entry.unlink()
    table = DeltaTable(home.topic_log)
    assert table.schema() == Schema.from_arrow(topic_log_schema.SCHEMA)
    assert table_rows(home.topic_log) == rows
    times = table.to_pyarrow_table(columns=["deliver_at"], filters=[("record", "=", "message")])
    assert times["deliver_at"].null_count == 6


def test_who_only_looks_reads_it_as_it_is(home: Home) -> None:
    """verify and info find it sound and write nothing."""
    before = snapshot(home.root)
    assert verify(home, deep=True).sound
    found = home_info.take(home)
    assert [(topic.topic, topic.messages) for topic in found.topics] == [
        ("bills", 2),
        ("orders", 4),
    ]
    log = TopicLog.open(home.topic_log, create=False)
    assert paged(log, "bills") == [(s, m) for s, t, m in ROWS if t == "bills"]
    assert snapshot(home.root) == before


def test_any_other_difference_is_refused(home: Home) -> None:
    """A table with an unknown column isn't ours, and stays as it is."""
    DeltaTable(home.topic_log).alter.add_columns([Field("deliver_at", "string", nullable=True)])
    before = snapshot(home.root)
    with pytest.raises(
        StoreError, match="look at by, created_by, deliver_at, dropped, origin, paused, policy"
    ):
        TopicLog.open(home.topic_log)
    with pytest.raises(StoreError, match="another schema"):
        open_view(LocalStore(home.topic_log))
    assert snapshot(home.root) == before


@pytest.mark.parametrize("lacking", [1, 2, 3])
def test_a_table_of_any_former_format_is_taken_over(tmp_path: Path, lacking: int) -> None:
    """Each lacks the last columns of those that came later; the gateway's next start adds them."""
    home = Home(tmp_path)
    former = topic_log_schema.FORMER_SCHEMAS[len(topic_log_schema.ADDED) - lacking]
    DeltaTable.create(
        home.topic_log,
        former,
        partition_by=topic_log_schema.PARTITIONS,
        configuration=topic_log_schema.CONFIGURATION,
    )
    assert open_view(LocalStore(home.topic_log)).state.group == 0
    log = TopicLog.open(home.topic_log)
    assert DeltaTable(home.topic_log).schema() == Schema.from_arrow(topic_log_schema.SCHEMA)
    made = Made(Origin.OPERATOR, "ops")
    born = replace(event(SubscriptionEvent.CREATED, 0), made=made)
    log.commit([framed(group(1, 0, run("orders", bodies(0, 3)), subscriptions=[born]))])
    purged = replace(event(SubscriptionEvent.PURGED, 3), made=made, dropped=3, by="hand")
    log.commit([framed(group(2, 3, subscriptions=[purged]))])
    events = DeltaTable(home.topic_log).to_pyarrow_table(filters=[("record", "=", "subscription")])
    rows = sorted(events.to_pylist(), key=lambda row: row["group"])
    assert [(row["origin"], row["created_by"], row["dropped"], row["by"]) for row in rows] == [
        ("operator", "ops", 0, None),
        ("operator", "ops", 3, "hand"),
    ]
    (state,) = load(log).subscriptions
    assert (state.made, state.floor) == (made, 3)


def test_who_made_what_is_of_before_nobody_knows(home: Home) -> None:
    """It counts as a client's."""
    (state,) = load(TopicLog.open(home.topic_log)).subscriptions
    assert state.made == Made(Origin.CLIENT, "")


DIES = """
import os, sys
from pathlib import Path
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

link, after = os.link, sys.argv[2] == "after"
def dies(source, target):
    if after:
        link(source, target)
    os._exit(9)
os.link = dies
TopicLog.open(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_dies_in_it_leaves_the_old_or_the_new(home: Home, when: str) -> None:
    """Whichever it is, the next start goes on from it, and nothing is lost."""
    died = subprocess.run([sys.executable, "-c", DIES, home.topic_log, when], check=False)
    assert died.returncode == 9
    table = DeltaTable(home.topic_log)
    assert table.version() == (4 if when == "after" else 3)
    assert table_rows(home.topic_log) == ROWS
    log = TopicLog.open(home.topic_log)
    assert log.version == 4
    log.commit([framed(group(5, 6, run("orders", [b"d"])))])
    assert table_rows(home.topic_log) == [*ROWS, (6, "orders", b"d")]
    assert verify(home, deep=True).sound


def test_of_two_owners_one_adds_them_and_the_former_stops(home: Home) -> None:
    """A process of any version that opened the table before can't commit any more; a version that
    came in between is taken in."""
    store = LocalStore(home.topic_log)
    stale = table_log.read(store)
    former = TopicLog.open(home.topic_log, create=False)
    former.commit([framed(group(5, 6, run("orders", [b"d"])))])
    evolution.evolve(store, stale, NOON)
    assert DeltaTable(home.topic_log).version() == 4
    log = TopicLog.open(home.topic_log)
    assert (log.version, log.sequence_version) == (5, 7)
    with pytest.raises(ForeignCommit):
        former.commit([framed(group(6, 7, run("orders", [b"e"])))])
    assert table_rows(home.topic_log) == [*ROWS, (6, "orders", b"d")]
