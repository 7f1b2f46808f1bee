"""A home changes hands while its former owner may still live: the two meet in no file."""

from contextlib import suppress
from pathlib import Path

import pytest
from table_groups import framed, group, run
from test_journal import SMALL, append, change, filled

from distributary.pipeline.errors import HomeLost, StoreError
from distributary.pipeline.tables.journal import segment
from distributary.pipeline.tables.journal.journal import Journal
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep.tiers import FAN_IN


def taken_over(directory: Path, epoch: int = 0) -> Journal:
    """The journal of a new owner whose table has all groups that were in it."""
    journal = Journal.open(directory, segment_bytes=SMALL, epoch=epoch, adopt=False)
    journal.clear()
    journal.recycle(0)
    return journal


def append_all(journal: Journal, groups: range) -> None:
    for number in groups:
        append(journal, number, size=1000)


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in directory.iterdir()}


def test_a_journal_that_is_not_ours_yet_is_only_read(tmp_path: Path) -> None:
    """Neither a torn end nor a spare of it is touched: another process may have them open."""
    filled(tmp_path, 40, size=1000)
    last = max(tmp_path.glob("*.journal"))
    cut = Journal.open(tmp_path, segment_bytes=SMALL)
    end = cut.frames()[-1]
    cut.close()
    change(last, end.offset + end.size - 70, b"torn")
    before = contents(tmp_path)
    journal = Journal.open(tmp_path, segment_bytes=SMALL, adopt=False)
    assert journal.opened.cut is not None
    assert [ref.group for ref in journal.frames()] == list(range(1, 40))
    assert len(journal.read(journal.frames())) == 39
    assert contents(tmp_path) == before
    journal.close()


def test_a_new_owner_meets_the_former_one_in_no_file(tmp_path: Path) -> None:
    """The former owner may still write under any name that it knows: the new one's groups are
    there, and groups that the former one wrote too late are not."""
    former = Journal.open(tmp_path, segment_bytes=SMALL)
    append_all(former, range(1, 41))
    former.recycle(20)
    journal = taken_over(tmp_path)
    append_all(journal, range(41, 61))
    with pytest.raises(StoreError):  # it meets the end of its segment, and its spare is gone
        append_all(former, range(41, 121))
    append_all(journal, range(61, 81))
    journal.recycle(50)
    journal.close()
    former.close()
    again = Journal.open(tmp_path, segment_bytes=SMALL)
    groups = [ref.group for ref in again.frames()]
    assert groups == list(range(groups[0], 81))
    assert groups[0] <= 51
    again.close()


def test_what_an_owner_wrote_too_late_does_not_count(tmp_path: Path) -> None:
    """Segments and spares of an older generation are said, and go."""
    journal = taken_over(tmp_path / "home")
    append_all(journal, range(1, 41))
    journal.close()
    filled(tmp_path / "elsewhere", 60, size=1000)
    late = max((tmp_path / "elsewhere").glob("*.journal"))
    stray = late.rename(tmp_path / "home" / late.name)
    spare = stray.with_suffix(".spare")
    spare.write_bytes(bytes(SMALL))
    again = Journal.open(tmp_path / "home", segment_bytes=SMALL)
    assert again.opened.strays == (stray,)
    assert [ref.group for ref in again.frames()] == list(range(1, 41))
    assert append(again, 41).segment >= segment.GENERATION_SEGMENTS
    assert not stray.exists()
    assert not spare.exists()
    again.close()


def test_each_take_over_begins_a_generation(tmp_path: Path) -> None:
    """Also where no file is left to tell of the last one: the owner's epoch is no less."""
    numbers = []
    for epoch in (3, 4):
        journal = taken_over(tmp_path, epoch)
        numbers.append(append(journal, 1).segment // segment.GENERATION_SEGMENTS)
        journal.close()
        for path in tmp_path.iterdir():
            path.unlink()
    journal = taken_over(tmp_path, 4)
    append(journal, 1)
    journal.close()
    journal = taken_over(tmp_path, 2)
    numbers.append(append(journal, 2).segment // segment.GENERATION_SEGMENTS)
    assert numbers == [3, 4, 5]


def test_nothing_is_reported_durable_once_the_home_is_lost(tmp_path: Path) -> None:
    """The frame may be in the file, its group is accepted nowhere; no name changes any more."""
    lost = False

    def owned() -> None:
        if lost:
            raise HomeLost("it is another's")

    journal = Journal.open(tmp_path, segment_bytes=SMALL, owned=owned)
    append_all(journal, range(1, 41))
    lost = True
    names = sorted(tmp_path.iterdir())
    with pytest.raises(HomeLost):
        append(journal, 41)
    with pytest.raises(HomeLost):
        journal.recycle(40)
    lost = False
    with pytest.raises(StoreError, match="another's"):
        append(journal, 42)
    assert sorted(tmp_path.iterdir()) == names
    journal.close()


def test_an_owner_that_is_paused_in_its_start_unlinks_nothing_of_the_next(tmp_path: Path) -> None:
    """It has read the journal and would empty it; meanwhile the next one has, and has accepted."""
    filled(tmp_path, 10)
    lost = False

    def owned() -> None:
        if lost:
            raise HomeLost("it is another's")

    former = Journal.open(tmp_path, segment_bytes=SMALL, epoch=2, adopt=False, owned=owned)
    journal = taken_over(tmp_path, 3)
    append_all(journal, range(11, 21))
    lost = True
    with pytest.raises(HomeLost):
        former.clear()
    lost = False  # it had looked before it was paused
    former.clear()
    journal.close()
    again = Journal.open(tmp_path, segment_bytes=SMALL)
    assert [ref.group for ref in again.frames()] == list(range(11, 21))
    again.close()


def test_an_empty_journal_begins_with_a_name_that_no_owner_had(tmp_path: Path) -> None:
    """A paused owner may still unlink its own segment."""
    former = Journal.open(tmp_path, segment_bytes=SMALL, epoch=1)
    paused = append(former, 1).segment
    taken_over(tmp_path, 2).close()
    journal = Journal.open(tmp_path, segment_bytes=SMALL, epoch=3)
    assert append(journal, 2).segment > paused
    journal.close()
    former.close()


def test_what_the_former_owner_commits_at_the_last_moment_is_no_orphan(tmp_path: Path) -> None:
    """Its files are there when the new owner opens the table, its commit comes after that and
    before the fence. Upkeep removes what no commit names, and only that."""
    former = TopicLog.open(tmp_path / "log")
    former.commit([framed(group(1, 0, run("t", [b"first"])))])
    name = former.path / "_delta_log" / f"{2:020d}.json"
    former.commit([framed(group(2, 1, run("t", [b"last"])))])
    hidden = name.rename(tmp_path / "later")
    new = TopicLog.open(former.path)
    (path,) = new.files("message", 0)
    path.with_name("t0-half.parquet").write_bytes(b"PAR1")
    hidden.rename(name)
    new.fence(2, lambda: None)
    for now in range(100):
        new.upkeep(now=now, floor=0)
    assert path.with_name("t0-half.parquet").exists()
    new.commit([framed(group(3, 2, run("t", [b"new"])))])
    for now in range(100):
        new.upkeep(now=now, floor=0)
    assert not path.with_name("t0-half.parquet").exists()
    assert len(new.files("message", 0)) == 3
    assert all(file.exists() for file in new.files("message", 0))
    page = new.page("t", 0, 1_000)
    assert b"".join(bytes(batch.blob) for batch in page.batches) == b"firstlastnew"


def test_a_former_owner_that_wakes_takes_no_file_of_the_next_for_an_orphan(tmp_path: Path) -> None:
    """Wherever it was paused in its upkeep: the next one has committed and merged meanwhile, which
    the former one sees on the disk and knows nothing of."""
    for paused_after in range(4):
        log = tmp_path / f"log-{paused_after}"
        former = TopicLog.open(log)
        former.commit([framed(group(1, 0, run("t", [b"0"])))])
        (path,) = former.files("message", 0)
        path.with_name("t0-half.parquet").write_bytes(b"PAR1")
        for now in range(paused_after):
            former.upkeep(now=now, floor=0)
            if now == 1:
                former.commit([framed(group(2, 1, run("t", [b"1"])))])
        new = TopicLog.open(log)
        new.fence(2, lambda: None)
        first, n = new.journal_version + 1, new.sequence_version
        for nth in range(FAN_IN):
            one = group(first + nth, n + nth, run("t", [b"x"]))
            new.commit([framed(one)])
        upkeep(new)
        for now in range(20):
            with suppress(StoreError):
                former.upkeep(now=now, floor=0)
        assert all(file.exists() for file in new.files("message", 0))
        page = TopicLog.open(log).page("t", 0, 1 << 20)
        assert sum(batch.count for batch in page.batches) == n + FAN_IN
        assert not path.with_name("t0-half.parquet").exists()


def upkeep(log: TopicLog) -> None:
    while log.upkeep(now=0, floor=0) is not None:
        pass


def test_a_fence_is_above_all_epochs_that_the_table_had(tmp_path: Path) -> None:
    """Also where the lock file was lost, and with it the number of owners. A process that has lost
    the home fences no other off."""
    log = TopicLog.open(tmp_path / "log")
    log.fence(7, lambda: None)
    again = TopicLog.open(log.path)
    again.fence(1, lambda: None)
    assert again.state.epoch == TopicLog.open(log.path).state.epoch == 8

    def lost() -> None:
        raise HomeLost("it is another's")

    with pytest.raises(HomeLost):
        log.fence(9, lost)
    again.commit([framed(group(1, 0, run("t", [b"x"])))])
