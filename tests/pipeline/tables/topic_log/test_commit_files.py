"""The files of a commit, made in memory and made durable later, in any process."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from table_groups import framed, group, run

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.topic_log import commit_files
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

FRAMES = [
    framed(group(1, 0, run("a", [b"1", b"22"]))),
    framed(group(2, 2, run("b", [b"333"]))),
    framed(group(3, 3)),
]


def test_files_are_what_a_commit_adds(tmp_path: Path) -> None:
    """Their bytes lie in the table as they were made, and what the log says of them is true."""
    log = TopicLog.open(tmp_path / "log")
    made = commit_files.encode(FRAMES, group=0, sequence=0)
    assert made is not None
    assert (made.group, made.sequence) == (3, 3)
    commit = log.commit_files(lambda _group, _sequence: made)
    assert (commit.last_group, commit.rows, commit.files) == (3, 3, 1)
    [file], [data] = made.added, made.data
    assert (log.path / file.path).read_bytes() == bytes(data)
    assert file.size == len(data)
    table = pq.read_table(log.path / file.path, partitioning=None)
    assert table["message"].to_pylist() == [b"1", b"22", b"333"]


def test_groups_without_rows_move_the_table_on(tmp_path: Path) -> None:
    """A commit of them adds no file, and the table has them."""
    log = TopicLog.open(tmp_path / "log")
    made = commit_files.encode([framed(group(1))], group=0, sequence=0)
    assert made is not None
    assert (made.group, made.added) == (1, [])
    log.commit_files(lambda _group, _sequence: made)
    assert log.journal_version == 1


def test_what_the_table_has_is_passed_over() -> None:
    made = commit_files.encode(FRAMES, group=1, sequence=2)
    assert made is not None
    assert [file.rows for file in made.added] == [1]
    assert commit_files.encode(FRAMES, group=3, sequence=3) is None


@pytest.mark.parametrize(("group", "sequence"), [(0, 1), (1, 1)])
def test_what_does_not_follow_the_table_is_refused(group: int, sequence: int) -> None:
    with pytest.raises(StoreError, match="should be committed next"):
        commit_files.encode(FRAMES, group=group, sequence=sequence)


def test_a_gap_between_groups_is_refused() -> None:
    with pytest.raises(StoreError, match="group 2 with sequence 2 should be committed next"):
        commit_files.encode([FRAMES[0], FRAMES[2]], group=0, sequence=0)
