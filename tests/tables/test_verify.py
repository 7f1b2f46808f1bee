"""verify says that a sound home is sound, and of a broken one what is broken, by name.

Goal: every promise that it checks can be broken, and its sentence comes. Method: real homes, made
by the room's own code and broken by hand, one promise at a time.
"""

import json
import os
import random
import shutil
import zlib
from array import array
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyroaring import BitMap64
from table_groups import KEY, NOON, bodies, event, framed, group, run, settled
from verify_homes import GROUPS, MadeHome, replaced

from pipeline.errors import HomeLocked, InvalidRequest, StoreError
from pipeline.message import Group, Settlement
from pipeline.outcome import Outcome
from pipeline.subscription import SubscriptionEvent, SubscriptionKey
from pipeline.tables import commits, frame, segment, tiers, upkeep
from pipeline.tables.home import Home
from pipeline.tables.inventory import take
from pipeline.tables.journal import Journal
from pipeline.tables.marks import Marks, Standpoint
from pipeline.tables.owner import lock
from pipeline.tables.topic_log import TopicLog
from pipeline.tables.upkeep import UpkeepLimits
from pipeline.tables.verify.check import Verdict
from pipeline.tables.verify.home import repair, verify

HOUR_US = 3_600_000_000


@pytest.fixture
def made(tmp_path: Path) -> MadeHome:
    return MadeHome(tmp_path / "home")


def snapshot(home: Path) -> dict[str, bytes]:
    """Every file under the home, byte for byte."""
    return {str(p): p.read_bytes() for p in sorted(home.rglob("*")) if p.is_file()}


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
    that begins later is what is left of something."""
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


def flipped_bit(made: MadeHome, number: int, at: int) -> None:
    path = made.segment()
    data = bytearray(path.read_bytes())
    data[made.frame_at(number) + at] ^= 1
    path.write_bytes(data)


def broken_middle(made: MadeHome) -> None:
    flipped_bit(made, 3, 80)


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


def older_journal(made: MadeHome) -> None:
    shutil.rmtree(made.home.journal_dir)
    journal = Journal.open(made.home.journal_dir, segment_bytes=1 << 20)
    for one in GROUPS[:3]:
        journal.append(frame.encode(one))
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
    (broken_middle, "journal", "the frame of group 3 is damaged, but group 4 stands behind it"),
    (later_journal, "journal", "ends with group 5 but the journal begins with 8"),
    (other_sequence, "journal", "begins with sequence 21, but the table's next one is 17"),
    (other_count, "journal", "has 3 messages from sequence 15 on in the journal, but 2 from 15"),
    (older_journal, "journal", "the journal ends with group 3 but the table with 5"),
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


def test_a_checkpoint_that_is_not_what_the_entries_say_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers believe the checkpoint; the entries that still stand show that it is wrong. With
    entries from version 0 on, or from an older checkpoint on."""
    monkeypatch.setattr(upkeep, "CHECKPOINT_COMMITS", 5)
    monkeypatch.setattr(upkeep, "ENTRIES_MAX", 1)
    for kept in (1_000, 8):
        home = Home(tmp_path / str(kept))
        log = TopicLog.open(home.topic_log, limits=UpkeepLimits(kept, 1, 0))
        for one in _history(random.Random(5), spoiled=False)[:20]:
            log.commit([framed(one)])
            while log.upkeep(now=one.written_at, floor=0):
                pass
        assert verify(home).sound
        assert commits.json_path(home.topic_log, 0).exists() == (kept == 1_000)
        newest = max((home.topic_log / "_delta_log").glob("*.checkpoint.parquet"))
        table = pq.read_table(newest)
        adds = [n for n, row in enumerate(table["add"].to_pylist()) if row]
        pq.write_table(table.take([n for n in range(table.num_rows) if n != adds[0]]), newest)
        [check] = [one for one in verify(home).checks if one.name == "log entries"]
        assert "which the checkpoint doesn't (1 such files)" in check.problems[0]


# Settlements and floors: the table takes what it is given, so bad ones are simply committed.


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
    "another topic's name": (
        settled(range(12, 13), floor=5, topic="bills"),
        "settles messages of bills for global/dispatchers, which is of another topic",
    ),
}


@pytest.mark.parametrize("name", BAD_SETTLEMENTS)
def test_a_settlement_that_can_not_be_is_named(made: MadeHome, name: str) -> None:
    """Twice, of no message, of a message of another topic, or for nobody."""
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
    """It falls, passes what is owed, or is beyond the end of the log."""
    bad, words = BAD_FLOORS[name]
    found = committed(made, bad)
    assert list(found) == ["floors"]
    assert words in found["floors"][0]


def test_a_floor_that_is_ahead_of_its_settlement_by_a_group_is_named(made: MadeHome) -> None:
    """What is settled later than the floor passes it was lost to a restart in between."""
    made.log.commit(
        [
            framed(GROUPS[5]),
            framed(group(7, 20, settlements=[settled(range(12, 13), floor=11)])),
            framed(group(8, 20, settlements=[settled(range(5, 6), range(10, 11), floor=11)])),
        ]
    )
    shutil.rmtree(made.home.journal_dir)
    assert "passes sequences 5, 10 in group 7" in made.problems()["floors"][0]


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
    """A new incarnation is owed what comes from its floor on, and may settle what a former one
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


# The journal's end.


def torn(made: MadeHome) -> int:
    """Tear the last frame; its offset."""
    at = made.frame_at(6)
    flipped_bit(made, 6, 80)
    return at


def test_a_torn_tail_is_a_note_and_repair_cuts_it_and_nothing_else(made: MadeHome) -> None:
    """The file differs in the end's mark alone, a gateway opens it, and a second repair finds
    nothing."""
    at = torn(made)
    before = snapshot(made.home.root)
    report = made.verify()
    assert report.sound
    assert any(
        f"at offset {at} that isn't whole" in note for c in report.checks for note in c.notes
    )
    assert snapshot(made.home.root) == before
    cut = repair(made.home)
    assert cut is not None
    assert (cut.offset, cut.group) == (at, 6)
    after = snapshot(made.home.root)
    segment_name = str(made.segment())
    changed = {name for name in before if after.get(name) != before[name]}
    assert changed == {segment_name}
    assert {name for name in after if name not in before} <= {
        str(made.home.lock_path),
        str(made.home.takeover_path),
    }
    old, new = before[segment_name], after[segment_name]
    mark = len(segment.END_MARK)
    assert new == old[:at] + segment.END_MARK + old[at + mark :]
    assert repair(made.home) is None
    journal = Journal.open(made.home.journal_dir, segment_bytes=1 << 20)
    assert (journal.opened.cut, journal.last_group) == (None, 5)
    journal.close()


def test_repair_is_refused_while_the_home_has_an_owner(made: MadeHome) -> None:
    """One sentence, and nothing is cut."""
    torn(made)
    before = made.segment().read_bytes()
    with lock(made.home), pytest.raises(HomeLocked, match="is in use by the gateway"):
        repair(made.home)
    assert made.segment().read_bytes() == before


def test_repair_touches_nothing_that_is_broken_before_the_end(made: MadeHome) -> None:
    """What was accepted is not to be cut away."""
    broken_middle(made)
    before = made.segment().read_bytes()
    with pytest.raises(StoreError, match=r"nothing was repaired: .* is broken at offset"):
        repair(made.home)
    assert made.segment().read_bytes() == before


# The marks.


def test_marks_are_read_and_damage_of_them_is_a_note(made: MadeHome) -> None:
    """They say what is redelivered, not what is kept; but a file of another version is refused."""

    def said() -> tuple[str, tuple[str, ...]]:
        report = made.verify()
        assert report.sound
        [check] = [one for one in report.checks if one.name == "marks"]
        return check.counted, check.notes

    assert said() == ("there were no marks", ())
    file, _ = Marks.open(made.home.marks, [Standpoint(KEY.id, 5)], head=17, next_group=6)
    file.attach(KEY.id)
    file.close()
    assert said() == ("marks of this boot", ())
    whole = made.home.marks.read_bytes()
    made.home.marks.write_bytes(b"x" + whole[1:])
    assert "is damaged, or being written now" in said()[1][0]
    made.home.marks.write_bytes(_of_version(whole, 9))
    assert "is of version 9, ours is 1" in made.problems()["marks"][0]


def _of_version(data: bytes, version: int) -> bytes:
    """The file with another version in its header, and the checksum that fits."""
    header = data[:8] + version.to_bytes(4, "little") + data[12:48]
    return header + zlib.crc32(header).to_bytes(4, "little") + data[52:]


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


# Many at once.


@pytest.mark.parametrize("seed", range(6))
def test_random_histories_are_sound(tmp_path: Path, seed: int) -> None:
    """Whatever a correct engine does to several subscriptions, in whatever order, is sound; one
    settlement left out of it is not."""
    dice = random.Random(seed)
    for spoiled in (False, True):
        home = Home(tmp_path / str(spoiled) / "home")
        dice.seed(seed)
        history = _history(dice, spoiled=spoiled)
        log = TopicLog.open(home.topic_log)
        while history:
            part = [history.pop(0) for _ in range(min(len(history), dice.randint(1, 9)))]
            log.commit([framed(one) for one in part])
        report = verify(home)
        wrong = {c.name for c in report.checks if c.verdict is Verdict.UNSOUND}
        assert wrong == ({"floors"} if spoiled else set()), f"seed {seed}: {report}"


def test_upkeep_and_retention_leave_a_sound_home_at_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Days of groups, merged, checkpointed, cleaned and forgotten while they come; what retention
    took is not missed, and what is owed it didn't take."""
    monkeypatch.setattr(tiers, "FAN_IN", 2)
    monkeypatch.setattr(upkeep, "CHECKPOINT_COMMITS", 5)
    monkeypatch.setattr(upkeep, "ENTRIES_MAX", 5)
    home = Home(tmp_path / "home")
    log = TopicLog.open(home.topic_log, limits=UpkeepLimits(20, 1, 2))
    floors = dict.fromkeys((f"global/s{n}" for n in range(5)), 0)
    kinds = set()
    for one in _history(random.Random(3), spoiled=False, hours=5):
        log.commit([framed(one)])
        floors |= {settlement.subscription: settlement.floor for settlement in one.settlements}
        while step := log.upkeep(now=one.written_at, floor=min(floors.values())):
            kinds.add(step.kind)
        report = verify(home)
        assert report.sound, f"after group {one.number}: {report}"
    assert {"merge", "checkpoint", "retention"} < kinds
    assert 0 < log.first_sequence <= min(floors.values())
    assert not commits.json_path(home.topic_log, 1).exists()
    found = take(home)
    assert found.table is not None
    assert {file.tier for file in found.table.files} >= {0, 1, 2}
    assert [line.backlog for line in found.subscriptions] == [0] * 5


def _history(dice: random.Random, *, spoiled: bool, hours: int = 0) -> list[Group]:
    """Groups of messages of three topics, and of settlements of five subscriptions by a model that
    settles what is owed in random order. Between two groups so many hours pass."""
    keys = [SubscriptionKey(None, f"s{n}", durable=True) for n in range(5)]
    topics = {key: f"t{nth % 3}" for nth, key in enumerate(keys)}
    created = [event(SubscriptionEvent.CREATED, 0, key=key, topic=topics[key]) for key in keys]
    groups: list[Group] = [group(1, 0, subscriptions=created)]
    owed: dict[object, list[int]] = {key: [] for key in keys}
    sequence = 0
    for number in range(2, 60):
        runs, settlements, first = [], [], sequence
        for key in dice.sample(keys, dice.randint(0, 3)):
            if not owed[key]:
                continue
            taken = sorted(dice.sample(owed[key], dice.randint(1, len(owed[key]))))
            owed[key] = [one for one in owed[key] if one not in set(taken)]
            floor = min(owed[key], default=first)
            ranges = [range(one, one + 1) for one in taken]
            if spoiled and number > 30:
                spoiled = False
                continue  # its settlement is lost, but the floor will pass
            settlements.append(
                settled(*ranges, subscription=key.id, floor=floor, topic=topics[key])
            )
        for topic in dice.sample(["t0", "t1", "t2"], dice.randint(0, 3)):
            count = dice.randint(1, 20)
            runs.append(run(topic, bodies(count, 20)))
            for key in keys:
                if topics[key] == topic:
                    owed[key] += range(sequence, sequence + count)
            sequence += count
        at = NOON + number * hours * HOUR_US
        groups.append(group(number, first, *runs, at=at, settlements=settlements))
    last = [
        settled(
            *[range(one, one + 1) for one in owed[key]],
            subscription=key.id,
            floor=sequence,
            topic=topics[key],
        )
        for key in keys
    ]
    at = NOON + 60 * hours * HOUR_US
    groups.append(group(60, sequence, at=at, settlements=[s for s in last if s.sequences]))
    return groups


def test_a_frame_with_right_checksums_and_wrong_lengths_is_named(made: MadeHome) -> None:
    """Our own bug would be seen, not only the disk's."""
    shutil.rmtree(made.home.journal_dir)
    journal = Journal.open(made.home.journal_dir, segment_bytes=1 << 20)
    bad = run("orders", bodies(1, 10))
    lengths = array("I", [11]).tobytes()
    wrong = type(bad)(bad.topic, 1, bad.blob, lengths, bad.durable, bad.priority, bad.ttl)
    journal.append(frame.encode(group(6, 17, wrong)))
    journal.close()
    assert "don't fit its bytes" in made.problems()["journal"][0]
