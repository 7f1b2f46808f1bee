"""info counts what a home holds, by reading alone."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from verify_homes import MadeHome

from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal.journal import Journal
from distributary.pipeline.tables.verify.home_info import SparkLine, SubscriptionLine, take


@pytest.fixture
def made(tmp_path: Path) -> MadeHome:
    return MadeHome(tmp_path / "home")


def names(home: Home) -> set[Path]:
    return set(home.root.rglob("*"))


def test_everything_is_counted_and_nothing_is_written(made: MadeHome) -> None:
    """As of the last commit; what only the journal has is counted apart."""
    before = names(made.home)
    found = take(made.home)
    assert names(made.home) == before
    counted = [(line.topic, line.messages, line.first, line.last) for line in found.topics]
    assert counted == [("bills", 6, 6, 16), ("orders", 11, 0, 14)]
    assert found.subscriptions == (SubscriptionLine("global/dispatchers", "orders", 5, 1, 5),)
    assert found.table is not None
    assert (found.table.version, found.table.group, found.table.next_sequence) == (2, 5, 17)
    assert [(f.record, f.tier, f.files, f.rows) for f in found.table.files] == [
        ("message", 0, 2, 17),
        ("settlement", 0, 1, 2),
        ("subscription", 0, 1, 1),
    ]
    on_disk = sum(path.stat().st_size for path in made.root.rglob("*.parquet"))
    assert sum(line.bytes for line in found.table.files) == on_disk
    assert 0 < sum(line.bytes for line in found.topics) < on_disk
    assert (found.table.entries, found.table.checkpoint) == (3, None)
    assert found.table.oldest_day == "2026-11-21"
    assert (found.journal.segments, found.journal.frames, found.journal.uncommitted) == (1, 6, 1)
    assert 0 < found.journal.uncommitted_bytes < found.journal.bytes


def test_what_spark_wrote_is_shown_with_its_versions(made: MadeHome) -> None:
    """The cursors say which version of the log they are as of."""
    assert take(made.home).spark == ()
    for version in (3, 1):
        rows = pa.table({"log_version": pa.array([version, 2], pa.int64())})
        write_deltalake(made.home.cursors, rows, mode="append")
    write_deltalake(made.home.acks, pa.table({"sequence": [1]}))
    assert take(made.home).spark == (SparkLine("acks", 0, None), SparkLine("cursors", 1, 3))


def test_a_home_without_a_table_has_only_a_journal(tmp_path: Path) -> None:
    """A gateway that was killed before it made one."""
    home = Home(tmp_path)
    Journal.open(home.journal_dir, segment_bytes=1 << 20).close()
    before = names(home)
    found = take(home)
    assert (found.table, found.topics, found.subscriptions) == (None, (), ())
    assert names(home) == before


def test_a_file_that_is_missing_is_an_error_that_names_it(made: MadeHome) -> None:
    """Wrong numbers would be worse than none."""
    path = made.file("settlement")
    path.unlink()
    with pytest.raises(StoreError, match=rf"{path.name} is missing.*verify"):
        take(made.home)


def test_what_is_no_home_is_said(tmp_path: Path) -> None:
    """And nothing is made there."""
    with pytest.raises(InvalidRequest, match="is no gateway's home"):
        take(Home(tmp_path))
    assert not names(Home(tmp_path))
