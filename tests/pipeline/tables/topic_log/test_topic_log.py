"""Commits into topic_log: what a reader of Delta sees, exactly once, from one writer."""

import datetime as dt
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, Schema, write_deltalake
from table_groups import DAY_US, KEY, NOON, bodies, event, framed, group, run, settled

from distributary.pipeline.errors import ForeignCommit, StoreError
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.tables.arrow import topic_log_schema as schema
from distributary.pipeline.tables.delta.pinned_table import live_files
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.journal.journal import Journal
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

TIME = dt.datetime.fromtimestamp(NOON / 1e6, dt.UTC)


def rows(path: Path, record: str | None = None) -> list[dict[str, object]]:
    """Return the table's rows, by a foreign reader, in the order of groups and sequences."""
    found = DeltaTable(path).to_pyarrow_table().to_pylist()
    wanted = [row for row in found if record in (None, row["record"])]
    return sorted(wanted, key=lambda row: (row["group"], row["sequence"] or 0))


def test_a_group_is_the_rows_that_the_contract_says(tmp_path: Path) -> None:
    """Every column of every kind of row has the group's value, and null where the group has
    none."""
    log = TopicLog.open(tmp_path / "log")
    one = group(
        1,
        0,
        run("orders", [b"a", b""], ttl=1500),
        run("flights", [b"ccc"]),
        settlements=[
            settled(range(0, 6, 2), range(1, 4, 2), floor=4),
            settled(range(9, 10), outcome=Outcome.RELEASED, final=False),
        ],
        subscriptions=[event(SubscriptionEvent.CREATED, 7, selector="a > 1")],
    )
    commit = log.commit([framed(one)])
    assert (commit.version, commit.last_group, commit.rows) == (1, 1, 6)
    common = dict.fromkeys(schema.SCHEMA.names) | {"day": TIME.date(), "group": 1}
    message = common | {
        "record": "message",
        "topic": "orders",
        "published_at": TIME,
        "durable": True,
        "priority": 4,
    }
    late = TIME + dt.timedelta(milliseconds=1500)
    assert rows(log.path, "message") == [
        message | {"sequence": 0, "message": b"a", "expires_at": late},
        message | {"sequence": 1, "message": b"", "expires_at": late},
        message | {"sequence": 2, "topic": "flights", "message": b"ccc"},
    ]
    settlement = common | {
        "record": "settlement",
        "topic": "orders",
        "subscription": KEY.id,
        "consumer": "worker-1/a",
        "delivery_count": 0,
        "delivered_at": TIME,
        "settled_at": TIME + dt.timedelta(microseconds=5),
    }
    accepted = {"outcome": "accepted", "final": True, "sequences": [0, 1, 2, 3, 4], "floor": 4}
    released = {"outcome": "released", "final": False, "sequences": [9], "floor": 0}
    assert rows(log.path, "settlement") == [settlement | accepted, settlement | released]
    assert rows(log.path, "subscription") == [
        common
        | {
            "record": "subscription",
            "topic": "orders",
            "subscription": KEY.id,
            "floor": 7,
            "event": "created",
            "shared": True,
            "selector": "a > 1",
            "no_local": False,
            "recorded_at": TIME,
            "paused": False,
            "origin": "client",
            "dropped": 0,
        }
    ]


def test_the_table_says_what_it_took_in(tmp_path: Path) -> None:
    """The last group and the next sequence stand in the commit, for every reader."""
    log = TopicLog.open(tmp_path / "log")
    assert (log.journal_version, log.sequence_version) == (0, 0)
    log.commit([framed(group(1, 0, run("t", [b"x"] * 5))), framed(group(2, 5))])
    table = DeltaTable(log.path)
    assert table.transaction_version("journal") == log.journal_version == 2
    assert table.transaction_version("sequence") == log.sequence_version == 5
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)


def test_a_commit_without_rows_takes_its_groups_in(tmp_path: Path) -> None:
    """An empty group moves the journal's position, so that its frame can be recycled."""
    log = TopicLog.open(tmp_path / "log")
    assert log.commit([framed(group(1))]).rows == 0
    assert TopicLog.open(log.path).journal_version == 1


def test_a_replay_repeats_nothing(tmp_path: Path) -> None:
    """Frames that were committed before a restart are passed over, the others taken in."""
    journal = Journal.open(tmp_path / "journal", segment_bytes=1 << 20)
    for number in range(1, 11):
        first = (number - 1) * 3
        journal.append(frame.encode(group(number, first, run("t", [b"%d" % number] * 3))))
    log = TopicLog.open(tmp_path / "log")
    log.commit(journal.read(journal.frames()[:6]))
    journal.close()
    again = Journal.open(tmp_path / "journal", segment_bytes=1 << 20)
    log = TopicLog.open(tmp_path / "log")
    assert log.commit(again.read(again.frames())).rows == 12
    assert log.commit(again.read(again.frames())).rows == 0
    found = rows(log.path)
    assert [row["sequence"] for row in found] == list(range(30))
    assert [row["message"] for row in found] == [b"%d" % (i // 3 + 1) for i in range(30)]
    again.close()


def test_a_gap_between_groups_is_refused(tmp_path: Path) -> None:
    """A group that is missing, or a sequence that is, is never written over."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", [b"x"])))])
    for wrong in (group(3, 1), group(2, 5, run("t", [b"x"]))):
        with pytest.raises(StoreError, match="group 2 with sequence 1 should be committed next"):
            log.commit([framed(wrong)])
    assert log.version == 1


def test_a_foreign_commit_is_noticed(tmp_path: Path) -> None:
    """After any foreign commit the owner stops without delay and writes no more."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", [b"x"])))])
    DeltaTable(log.path).delete("sequence = 0")
    with pytest.raises(ForeignCommit, match="version 2 or later, we left it at 1"):
        log.commit([framed(group(2, 1, run("t", [b"x"])))])


def test_two_owners_do_not_both_commit(tmp_path: Path) -> None:
    """A second open handle finds that the table moved; its groups are in the table once."""
    first, second = TopicLog.open(tmp_path / "log"), TopicLog.open(tmp_path / "log")
    first.commit([framed(group(1, 0, run("t", [b"x"])))])
    with pytest.raises(ForeignCommit):
        second.commit([framed(group(1, 0, run("t", [b"x"])))])
    assert len(rows(first.path)) == 1


def test_another_schema_is_refused(tmp_path: Path) -> None:
    """A table that isn't a topic_log is left alone."""
    write_deltalake(tmp_path / "log", pa.table({"record": ["message"]}))
    with pytest.raises(StoreError, match="another schema than topic_log"):
        TopicLog.open(tmp_path / "log")


def test_another_protocol_is_refused(tmp_path: Path) -> None:
    """A table with features that we don't write is left alone."""
    DeltaTable.create(
        tmp_path / "log",
        schema=Schema.from_arrow(schema.SCHEMA),
        partition_by=schema.PARTITIONS,
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    with pytest.raises(StoreError, match="Delta protocol"):
        TopicLog.open(tmp_path / "log")


def test_a_folder_with_other_things_is_refused(tmp_path: Path) -> None:
    """A table is never made in a folder with foreign files."""
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "mine.txt").write_text("hands off")
    with pytest.raises(StoreError, match="isn't empty"):
        TopicLog.open(tmp_path / "log")


def test_rows_lie_in_order_in_one_row_group_after_the_other(tmp_path: Path) -> None:
    """Many frames of one topic come to lie as one ascending file with disjoint row groups."""
    log = TopicLog.open(tmp_path / "log")
    log.commit(
        [
            framed(
                group(n + 1, n * 700, run("t", bodies(700, 50)), settlements=[settled(range(3))])
            )
            for n in range(40)
        ]
    )
    (path,) = log.files("message", 0)
    file = pq.ParquetFile(path)
    assert file.num_row_groups > 3
    assert file.read(columns=["sequence"])["sequence"].to_pylist() == list(range(28_000))
    file.close()


def test_big_messages_get_small_row_groups(tmp_path: Path) -> None:
    """The memory of a page doesn't grow with the size of messages."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", bodies(64, 512 * 1024))))])
    (path,) = log.files("message", 0)
    assert pq.read_metadata(path).row_group(0).num_rows == 16


def test_groups_of_two_days_lie_in_two_partitions(tmp_path: Path) -> None:
    """A group's day is the UTC day of its writing, also inside of one commit."""
    log = TopicLog.open(tmp_path / "log")
    midnight = NOON - NOON % DAY_US
    log.commit(
        [
            framed(group(1, 0, run("t", [b"x"]), at=midnight - 1)),
            framed(group(2, 1, run("t", [b"y"]), at=midnight)),
        ]
    )
    days = [row["day"] for row in rows(log.path)]
    assert days == [dt.date(2026, 11, 20), dt.date(2026, 11, 21)]


def test_a_commit_that_was_not_on_the_disk_is_refused_at_start(tmp_path: Path) -> None:
    """After a power cut a commit may name files that aren't whole; moving it away and replaying
    the journal heals it."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", [b"x"])))])
    log.commit([framed(group(2, 1, run("t", [b"y"])))])
    (path,) = log.files("message", 1)
    path.write_bytes(b"")
    with pytest.raises(StoreError, match=r"move .*2\.json away"):
        TopicLog.open(log.path)
    (log.path / "_delta_log" / f"{2:020d}.json").unlink()
    again = TopicLog.open(log.path)
    again.commit([framed(group(2, 1, run("t", [b"y"])))])
    assert [row["message"] for row in rows(log.path)] == [b"x", b"y"]


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 2 MiB, where mounting is allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "none", disk]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small disk needs root")
    yield disk
    subprocess.run(["umount", "-l", disk], check=True)


def test_a_full_disk_keeps_the_groups_for_a_retry(tiny_disk: Path) -> None:
    """A commit without room changes nothing and leaves nothing; with room the same one works."""
    log = TopicLog.open(tiny_disk / "log")
    log.commit([framed(group(1, 0, run("t", [b"x"])))])
    (tiny_disk / "else").write_bytes(bytes(1 << 20))
    more = [framed(group(2, 1, run("t", bodies(100, 15_000))))]
    files = sorted(log.path.rglob("*.parquet*"))
    for _ in range(3):
        with pytest.raises(StoreError, match="version 2"):
            log.commit(more)
        assert sorted(log.path.rglob("*.parquet*")) == files
        assert log.journal_version == 1
    (tiny_disk / "else").unlink()
    assert log.commit(more).version == 2
    assert len(rows(log.path)) == 101


def test_after_a_fence_only_the_new_owner_commits(tmp_path: Path) -> None:
    """A process that opened the table before the fence can't commit; the fence's maker continues,
    with all commits of the former owner."""
    old, new = TopicLog.open(tmp_path / "log"), TopicLog.open(tmp_path / "log")
    old.commit([framed(group(1, 0, run("t", [b"x"])))])
    new.fence(7, lambda: None)
    with pytest.raises(ForeignCommit):
        old.commit([framed(group(2, 1, run("t", [b"y"])))])
    assert (new.version, new.journal_version, new.sequence_version) == (2, 1, 1)
    new.commit([framed(group(2, 1, run("t", [b"z"])))])
    assert [row["message"] for row in rows(new.path)] == [b"x", b"z"]
    assert DeltaTable(new.path).transaction_version("owner") == 7


def test_what_a_cut_commit_left_does_no_harm(tmp_path: Path) -> None:
    """No reader sees a temporary commit or a data file that no commit names."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", [b"x"])))])
    (log.path / "_delta_log" / f".{2:020d}.0.json.tmp").write_bytes(b'{"add":')
    (path,) = log.files("message", 0)
    path.with_name("t0-half.parquet").write_bytes(b"PAR1")
    again = TopicLog.open(log.path)
    again.commit([framed(group(2, 1, run("t", [b"y"])))])
    assert [row["message"] for row in rows(log.path)] == [b"x", b"y"]


def test_a_making_that_was_cut_is_begun_anew(tmp_path: Path) -> None:
    """The table exists when its first version does, and the earlier files don't count as
    foreign."""
    (tmp_path / "log" / "_delta_log").mkdir(parents=True)
    (tmp_path / "log" / "_delta_log" / f".{0:020d}.0.json.tmp").write_bytes(b"{")
    assert TopicLog.open(tmp_path / "log").version == 0


def test_only_who_may_make_a_table_makes_it(tmp_path: Path) -> None:
    """A process that only reads leaves no table behind."""
    with pytest.raises(StoreError, match="can't be opened"):
        TopicLog.open(tmp_path / "log", create=False)
    assert not (tmp_path / "log").exists()


def test_a_file_holds_the_columns_of_its_record_only(tmp_path: Path) -> None:
    """Columns that are null in all rows of a record take no room; readers of Delta see the
    nulls."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", [b"x"]), settlements=[settled(range(1))]))])
    (path,) = log.files("message", 0)
    assert pq.read_schema(path).names == schema.FILES["message"].names
    assert [row["floor"] for row in rows(log.path, "message")] == [None]


def test_big_topics_have_row_groups_to_themselves(tmp_path: Path) -> None:
    """A topic with rows enough is read without its neighbours; small ones lie together."""
    log = TopicLog.open(tmp_path / "log")
    counts = {"a": 10, "b": 300, "c": 20, "d": 30, "e": 5000}
    log.commit([framed(group(1, 0, *(run(t, [b"x"] * n) for t, n in counts.items())))])
    (path,) = log.files("message", 0)
    meta = pq.read_metadata(path)
    bounds = [meta.row_group(i).column(1).statistics for i in range(meta.num_row_groups)]
    assert [(b.min, b.max) for b in bounds] == [
        ("a", "a"),
        ("b", "b"),
        ("c", "d"),
        ("e", "e"),
        ("e", "e"),
    ]


def test_the_log_says_what_the_files_hold(tmp_path: Path) -> None:
    """A commit's own words about its files are what another engine reads in them."""
    log = TopicLog.open(tmp_path / "log")
    name = "a topic with a rather long name / 100% é"
    log.commit([framed(group(1, 0, run(name, [b"x"] * 3), settlements=[settled(range(2))]))])
    found = {f.record: f for f in live_files(DeltaTable(log.path))}
    message, settlement = found["message"], found["settlement"]
    assert (message.rows, message.low, message.high) == (3, 0, 2)
    assert (message.topic_low, message.topic_high) == (name, name)
    assert (settlement.rows, settlement.low, settlement.group_low) == (1, None, 1)
    assert message.size == (log.path / message.path).stat().st_size
    assert TopicLog.open(log.path).state == log.state
