"""verify reports that a sound home is sound, and names the damage of a broken one.

Goal: every promise that it checks can be broken, and its sentence comes. Method: real homes, made
by the room's own code and broken by hand, one promise at a time.
"""

import datetime as dt
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from table_groups import NOON, bodies, framed, group, run
from verify_homes import GROUPS, MadeHome, broken_middle, replaced, snapshot

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.tables.arrow import topic_log_schema as schema
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import frame, segment
from distributary.pipeline.tables.journal.journal import Journal
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep import table_upkeep
from distributary.pipeline.tables.verify.check import Verdict
from distributary.pipeline.tables.verify.verify_home import verify


@pytest.fixture
def made(tmp_path: Path) -> MadeHome:
    return MadeHome(tmp_path / "home")


def test_a_sound_home_is_sound_and_stays_as_it_is(made: MadeHome) -> None:
    """All is read and counted; nothing is written, not even a lock file."""
    before = snapshot(made.home.root)
    report = made.verify(deep=True)
    assert report.sound
    assert report.version == 2
    counted = {check.name: check.counted for check in report.checks}
    assert counted["sequences"] == "17 messages, 2 topics, from 0 to 16"
    assert counted["settlements"] == "2 rows, 6 deliveries"
    assert counted["floors"] == "1 living subscription, 1 incarnation"
    assert counted["journal"] == "1 segment, 6 frames, 1 not in the table yet"
    assert counted["log entries"] == "3 entries, no checkpoint"
    assert [c.name for c in report.checks if c.verdict is Verdict.UNKNOWN] == ["cursors"]
    assert snapshot(made.home.root) == before


def test_a_home_of_which_nothing_was_published_is_sound(tmp_path: Path) -> None:
    """A table without rows, a journal without frames."""
    home = Home(tmp_path / "home")
    Journal.open(home.journal_dir, segment_bytes=1 << 20).close()
    TopicLog.open(home.topic_log)
    assert verify(home).sound


def test_a_home_without_a_table_is_sound_if_the_journal_has_everything(made: MadeHome) -> None:
    """A gateway that was killed before it made its table makes it from the journal; but a journal
    that begins later is the remainder of a lost home."""
    shutil.rmtree(made.root)
    assert made.verify().sound
    shutil.rmtree(made.home.journal_dir)
    made.home.journal_dir.mkdir()
    (made.root / "_delta_log").mkdir(parents=True)  # a making of the table that was cut
    assert made.verify().sound
    later_journal(made)
    assert "but the journal begins with group 8" in made.problems()["table"][0]


def test_what_an_owner_left_that_had_lost_the_home_is_a_note(made: MadeHome) -> None:
    """Its segments are of an older generation than those that count."""
    path = made.segment()
    number = segment.GENERATION_SEGMENTS * 7 + 1
    shutil.move(path, path.with_name(f"{number:08d}.journal"))
    path.write_bytes(b"nothing of ours")
    report = made.verify()
    assert report.sound
    notes = [note for check in report.checks for note in check.notes]
    assert any(str(path) in note and "nothing in it was accepted" in note for note in notes)


@pytest.mark.parametrize("folder", ["absent", "empty"])
def test_what_is_no_home_is_said_at_once(tmp_path: Path, folder: str) -> None:
    """One sentence that names the folder."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidRequest, match=f"{tmp_path / folder} is no "):
        verify(Home(tmp_path / folder))


# One promise broken at a time: how, which check says so, and with what words.


def missing_file(made: MadeHome) -> None:
    made.file("message", 1).unlink()


def short_file(made: MadeHome) -> None:
    path = made.file("message")
    path.write_bytes(path.read_bytes()[:-1])


def broken_footer(made: MadeHome) -> None:
    path = made.file("settlement")
    data = bytearray(path.read_bytes())
    data[-20:-8] = os.urandom(12)
    path.write_bytes(data)


def wrong_bounds(made: MadeHome) -> None:
    def change(actions: list[dict[str, dict[str, str]]]) -> None:
        for action in actions:
            if "add" in action and "record=message" in action["add"]["path"]:
                stats = json.loads(action["add"]["stats"])
                stats["maxValues"]["sequence"] = 8
                action["add"]["stats"] = json.dumps(stats)

    made.edit_entry(1, change)


def hidden_topic(made: MadeHome) -> None:
    def change(actions: list[dict[str, dict[str, str]]]) -> None:
        for action in actions:
            if "add" in action and "record=message" in action["add"]["path"]:
                stats = json.loads(action["add"]["stats"])
                stats["maxValues"]["topic"] = "bills"
                action["add"]["stats"] = json.dumps(stats)

    made.edit_entry(1, change)


def lost_row(made: MadeHome) -> None:
    shutil.rmtree(made.home.journal_dir)  # which has the row, too, and would say so
    path = made.file("message")
    made.rewrite(path, lambda table: table.slice(0, table.num_rows - 1))


def repeated_sequence(made: MadeHome) -> None:
    made.rewrite(made.file("message", 1), replaced("sequence", [15, 15, 10, 11, 12, 13, 14]))


def sequence_beyond_the_end(made: MadeHome) -> None:
    made.rewrite(made.file("message", 1), replaced("sequence", [15, 90, 10, 11, 12, 13, 14]))


def groups_against_sequences(made: MadeHome) -> None:
    shutil.rmtree(made.home.journal_dir)
    made.rewrite(made.file("message", 1), replaced("group", [3, 3, 5, 5, 5, 5, 5]))


def absent_entry(made: MadeHome) -> None:
    made.log.commit([framed(GROUPS[5])])
    made.entry(1).unlink()


def torn_entry(made: MadeHome) -> None:
    path = made.entry(2)
    path.write_bytes(path.read_bytes()[:-30])


def stale_pointer(made: MadeHome) -> None:
    (made.root / "_delta_log" / "_last_checkpoint").write_text('{"version": 1, "size": 3}')


def positions_that_fall(made: MadeHome) -> None:
    def change(actions: list[dict[str, dict[str, object]]]) -> None:
        for action in actions:
            if action.get("txn", {}).get("appId") == "journal":
                action["txn"]["version"] = 9

    made.edit_entry(1, change)


def later_journal(made: MadeHome) -> None:
    shutil.rmtree(made.home.journal_dir)
    journal = Journal.open(made.home.journal_dir, segment_bytes=1 << 20)
    journal.append(frame.encode(group(8, 17, run("orders", bodies(1, 10)))))
    journal.close()


def other_sequence(made: MadeHome) -> None:
    shutil.rmtree(made.home.journal_dir)
    journal = Journal.open(made.home.journal_dir, segment_bytes=1 << 20)
    journal.append(frame.encode(group(6, 21, run("orders", bodies(1, 10)))))
    journal.close()


def other_count(made: MadeHome) -> None:
    shutil.rmtree(made.home.journal_dir)
    journal = Journal.open(made.home.journal_dir, segment_bytes=1 << 20)
    journal.append(frame.encode(group(5, 15, run("bills", bodies(3, 10)))))
    journal.close()


def sequences_that_jump(made: MadeHome) -> None:
    shutil.rmtree(made.home.journal_dir)
    journal = Journal.open(made.home.journal_dir, segment_bytes=1 << 20)
    for one in (*GROUPS, group(7, 30, run("orders", bodies(1, 10)))):
        journal.append(frame.encode(one))
    journal.close()


def missing_segment(made: MadeHome) -> None:
    shutil.rmtree(made.home.journal_dir)
    journal = Journal.open(made.home.journal_dir, segment_bytes=1 << 20)
    for number, one in enumerate(GROUPS[:5], 6):
        big = group(number, 17, run("orders", bodies(1, 700_000)), settlements=one.settlements)
        journal.append(frame.encode(big))
    journal.close()
    sorted(made.home.journal_dir.glob("*.journal"))[1].unlink()


def flipped_message_bit(made: MadeHome) -> None:
    path = made.file("message")
    data = bytearray(path.read_bytes())
    column = pq.ParquetFile(path).metadata.row_group(0)
    names = [column.column(i).path_in_schema for i in range(column.num_columns)]
    chunk = column.column(names.index("message"))
    data[chunk.data_page_offset + chunk.total_compressed_size // 2] ^= 1
    path.write_bytes(data)


BROKEN: list[tuple[Callable[[MadeHome], None], str, str]] = [
    (missing_file, "data files", "is missing: it holds 7 messages, sequences 10 to 16"),
    (short_file, "data files", "bytes, the log says"),
    (broken_footer, "data files", "can't be read at row group 0"),
    (flipped_message_bit, "data files", "CRC checksum verification failed"),
    (wrong_bounds, "data files", "its sequences are 0 to 9, the log says 0 to 8"),
    (hidden_topic, "data files", "messages of orders, which the log says it can't have"),
    (lost_row, "sequences", "1 messages are in no file of"),
    (groups_against_sequences, "sequences", "sequences that don't rise with their groups"),
    (torn_entry, "log entries", f"{2:020d}.json can't be read"),
    (positions_that_fall, "log entries", "takes the group back from 9 to 5"),
    (broken_middle, "journal", "the frame of group 3 is damaged, but group 4 follows it"),
    (later_journal, "journal", "ends with group 5 but the journal begins with 8"),
    (other_sequence, "journal", "begins with sequence 21, but the table's next one is 17"),
    (other_count, "journal", "has 3 messages from sequence 15 on in the journal, but 2 from 15"),
    (sequences_that_jump, "journal", "begins with sequence 30, but 20 should follow"),
    (missing_segment, "journal", "group 7 should follow, but"),
]


@pytest.mark.parametrize(
    ("how", "check", "words"), BROKEN, ids=[how.__name__ for how, _, _ in BROKEN]
)
def test_what_is_broken_is_named(
    made: MadeHome, how: Callable[[MadeHome], None], check: str, words: str
) -> None:
    """The check that looks at it fails with its sentence; no other one does, beside the table that
    can't even be opened."""
    how(made)
    found = made.problems(deep=True)
    assert words in found[check][0]
    assert set(found) <= {check, "table"}


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (repeated_sequence, "sequences 15. They are delivered twice"),
        (sequence_beyond_the_end, "sequences 90, but says that the next one is 17"),
    ],
)
def test_sequences_that_are_wrong_are_named(
    made: MadeHome, how: Callable[[MadeHome], None], words: str
) -> None:
    """Twice the same, or one from the future; the place that it left is empty, too."""
    how(made)
    sentences = made.problems()["sequences"]
    assert any(words in sentence for sentence in sentences)
    assert any(
        "are in no file" in sentence and "sequences 16." in sentence for sentence in sentences
    )


def test_another_table_in_its_place_is_named(made: MadeHome) -> None:
    """A table with another schema is not read as a topic_log."""
    shutil.rmtree(made.root)
    write_deltalake(made.root, pa.table({"sequence": [1]}))
    assert "has another schema than topic_log" in made.problems()["table"][0]


def test_a_table_that_can_not_be_opened_is_named(made: MadeHome) -> None:
    """With what Delta says of it."""
    made.entry(0).write_text("{}\n")
    assert "can't be opened as a Delta table" in made.problems()["table"][0]


def test_rows_that_no_gateway_writes_are_named(made: MadeHome) -> None:
    """Another program has appended to the table; the log entries tell of it, too."""
    rows = [{"record": "rumour", "day": dt.date(2026, 11, 21), "group": 1, "topic": "orders"}]
    table = pa.Table.from_pylist(rows, schema=schema.SCHEMA)
    write_deltalake(made.root, table, mode="append")
    found = made.problems()
    assert "holds rows of record rumour" in found["data files"][0]
    assert "adds rows of groups 1 to 1, but it goes from 5 to 5" in found["log entries"][0]


def test_a_group_in_two_commits_is_named(made: MadeHome) -> None:
    """An entry must add groups behind those of earlier entries."""
    path = made.file("message", 1)
    made.rewrite(path, replaced("group", [5, 5, 2, 2, 2, 2, 2]))
    sentences = made.problems()["log entries"]
    assert "adds rows of groups 2 to 5, but it goes from 2 to 5" in sentences[0]


def test_an_entry_that_is_missing_makes_the_table_unreadable(made: MadeHome) -> None:
    """The log says which."""
    absent_entry(made)
    assert f"{1:020d}.json is missing" in made.problems()["log entries"][0]


def test_a_pointer_to_no_checkpoint_is_named_and_a_torn_one_is_a_note(made: MadeHome) -> None:
    """Readers list the folder when the pointer is torn or missing, but follow one that is whole."""
    pointer = made.root / "_delta_log" / "_last_checkpoint"
    stale_pointer(made)
    assert "names a checkpoint of version 1, which isn't there" in made.problems()["log entries"][0]
    pointer.write_text('{"versi')
    report = made.verify()
    assert report.sound
    assert any("_last_checkpoint is torn" in note for c in report.checks for note in c.notes)


def test_a_pointer_to_an_older_checkpoint_that_is_gone_is_a_note(
    made: MadeHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A former owner that woke may have named it, and readers find the newer one."""
    monkeypatch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 1)
    while made.log.upkeep(now=NOON, floor=0):
        pass
    stale_pointer(made)
    report = made.verify()
    assert report.sound
    assert any(
        "an older checkpoint, of version 1" in note for c in report.checks for note in c.notes
    )
