"""A commit that says how far a table is: its rows, and other writers' commits before it."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.jobs.tables.delta_commit import Commits
from distributary.jobs.tables.delta_files import transaction
from distributary.pipeline.errors import StoreError

OURS = "ours"


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    """One row, by a writer without transaction ids."""
    path = f"{tmp_path}/table"
    rows(spark, 0, 1).write.format("delta").save(path)
    return path


def rows(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.range(first, last).withColumn("day", F.lit("2026-11-22").cast("date"))


def ids(path: str) -> list[int]:
    return sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist())


def test_each_commit_says_its_transaction_and_counts_its_rows(
    spark: SparkSession, table: str
) -> None:
    """Appended, replaced, and of nothing at all; upon what others did to the files, too."""
    commits = Commits(spark, table, OURS)
    assert commits.append(rows(spark, 1, 4), 5, after=0) == 3
    assert commits.append(rows(spark, 4, 6), 7, after=5) == 2
    assert (ids(table), DeltaTable(table).transaction_version(OURS)) == ([*range(6)], 7)
    spark.sql(f"OPTIMIZE delta.`{table}`")
    assert commits.append(rows(spark, 6, 6), 8, after=7) == 0
    assert (ids(table), DeltaTable(table).transaction_version(OURS)) == ([*range(6)], 8)
    for nth in (1, 2):  # the first knows not which files there are, the second made them
        assert commits.replace(rows(spark, 0, nth), 8 + nth, after=7 + nth) == nth
        assert ids(table) == [*range(nth)]
    assert DeltaTable(table).transaction_version(OURS) == 10


def test_a_transaction_is_found_whoever_wrote_last(spark: SparkSession, table: str) -> None:
    """In the newest entry, or behind one that says none; and what was known of a version before
    another wrote counts no more."""
    knows = Commits(spark, table, OURS)
    knows.known_at(transaction(spark, table, OURS)[0])
    Commits(spark, table, OURS).append(rows(spark, 1, 2), 5, after=0)
    assert transaction(spark, table, OURS) == (1, 5)
    spark.sql(f"OPTIMIZE delta.`{table}`")
    assert transaction(spark, table, OURS) == (2, 5)
    assert transaction(spark, table, "theirs") == (2, None)
    with pytest.raises(StoreError, match="up to group 5"):
        knows.append(rows(spark, 7, 8), 1, after=0)


def test_who_comes_second_is_refused(spark: SparkSession, table: str) -> None:
    """A writer that finds a later transaction than its own stops, and has changed nothing."""
    one, other = Commits(spark, table, OURS), Commits(spark, table, OURS)
    one.append(rows(spark, 1, 2), 5, after=0)
    other.append(rows(spark, 2, 3), 9, after=5)
    for commit in (one.append, one.replace):
        with pytest.raises(StoreError, match=r"Another job wrote .* up to group 9"):
            commit(rows(spark, 7, 8), 6, after=5)
    assert ids(table) == [0, 1, 2]


def test_a_commit_in_between_is_a_conflict(spark: SparkSession, table: str) -> None:
    """Between the look at the table and the commit: Delta says so, as with its own option."""
    one, other = Commits(spark, table, OURS), Commits(spark, table, OURS)
    one.append(rows(spark, 1, 2), 5, after=0)
    looked = one.java.actions

    def slow(*given: object) -> object:
        other.append(rows(spark, 2, 3), 9, after=5)
        return looked(*given)

    one.java.actions = slow
    with pytest.raises(Exception, match="DELTA_CONCURRENT_TRANSACTION"):
        one.append(rows(spark, 7, 8), 6, after=5)
    assert ids(table) == [0, 1, 2]
