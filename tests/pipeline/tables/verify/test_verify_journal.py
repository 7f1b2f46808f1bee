"""verify's report of a journal: while it is written, with a torn end, with marks beside it."""

import shutil
import threading
import zlib
from array import array
from pathlib import Path

import pytest
from table_groups import KEY, bodies, group, run
from verify_homes import MadeHome, broken_middle, flipped_bit, snapshot

from distributary.pipeline.errors import HomeLocked, StoreError
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.home.owner import lock
from distributary.pipeline.tables.journal import frame, segment
from distributary.pipeline.tables.journal.journal import Journal
from distributary.pipeline.tables.recovery.dispatch_marks import DispatchMarks, Standpoint
from distributary.pipeline.tables.topic_log.table_view import again_if_replaced
from distributary.pipeline.tables.verify.verify_home import repair
from distributary.pipeline.tables.verify.verify_journal import read_journal

#: Groups that a journal takes in while it is read.
GROUPS_READ_BESIDE = 3_000


@pytest.fixture
def made(tmp_path: Path) -> MadeHome:
    return MadeHome(tmp_path / "home")


def test_a_journal_that_is_written_and_recycled_meanwhile_is_read_as_of_one_moment(
    tmp_path: Path,
) -> None:
    """Frames half written, segments used again under the reader: never a gap, never damage."""
    folder = tmp_path / "journal"
    journal = Journal.open(folder, segment_bytes=1 << 16)
    ended = threading.Event()

    def write() -> None:
        number = 1
        while not ended.is_set():
            journal.append(frame.encode(group(number, number - 1, run("t", bodies(1, 9_000)))))
            if number % 7 == 0:
                journal.recycle(number - 3)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    views = []
    try:
        while (journal.last_group or 0) < GROUPS_READ_BESIDE:
            views.append(again_if_replaced(LocalStore(folder), lambda: read_journal(folder)))
    finally:
        ended.set()
        writer.join()
        journal.close()
    assert [view.problems for view in views if view.problems] == []
    for view in views:
        numbers = [one.group for one in view.frames]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
    assert len({view.frames[0].group for view in views if view.frames}) > 10, "nothing moved"


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


def test_a_journal_that_ends_before_the_table_is_a_note(made: MadeHome) -> None:
    """The last frame rots when the table has it: nothing is lost, but something is wrong."""
    shutil.rmtree(made.home.journal_dir)
    journal = Journal.open(made.home.journal_dir, segment_bytes=1 << 20)
    for one in made.groups[:3]:
        journal.append(frame.encode(one))
    journal.close()
    report = made.verify()
    assert report.sound
    notes = [note for check in report.checks for note in check.notes]
    assert any("the journal ends with group 3, the table with 5" in note for note in notes)


def test_repair_is_refused_while_the_home_has_an_owner(made: MadeHome) -> None:
    """One sentence, and nothing is cut."""
    torn(made)
    before = made.segment().read_bytes()
    with lock(made.home), pytest.raises(HomeLocked, match="is in use by the gateway"):
        repair(made.home)
    assert made.segment().read_bytes() == before


def test_repair_touches_nothing_that_is_broken_before_the_end(made: MadeHome) -> None:
    """Accepted groups must not be cut away."""
    broken_middle(made)
    before = made.segment().read_bytes()
    with pytest.raises(StoreError, match=r"nothing was repaired: .* is broken at offset"):
        repair(made.home)
    assert made.segment().read_bytes() == before


# The marks.


def test_marks_are_read_and_damage_of_them_is_a_note(made: MadeHome) -> None:
    """Marks tell which messages are redelivered, not which are kept; but a file of another version
    is refused."""

    def said() -> tuple[str, tuple[str, ...]]:
        report = made.verify()
        assert report.sound
        [check] = [one for one in report.checks if one.name == "marks"]
        return check.counted, check.notes

    assert said() == ("there were no marks", ())
    file, _ = DispatchMarks.open(
        made.home.marks, [Standpoint(KEY.id, 5)], head=17, next_group=6, owned=lambda: None
    )
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
