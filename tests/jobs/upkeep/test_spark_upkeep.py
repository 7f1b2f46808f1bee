"""Upkeep of Spark's tables: fewer files, the same rows."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable
from gateway_process import until
from msgspec.structs import replace
from pyspark.sql import SparkSession
from spark_log import encoded
from spark_place import Place
from spark_upkeep import DAYS, FIRST_DAY, TODAY, content, files, fill, versions

from distributary.jobs.materialize.batch import Materialization
from distributary.jobs.materialize.materialize import UpkeepBetween
from distributary.jobs.session.job_settings import UpkeepSettings, load
from distributary.jobs.tables.delta_files import newest_version
from distributary.jobs.tables.table_files import days, days_by_spark
from distributary.jobs.tables.writer_lock import writing
from distributary.jobs.upkeep.spark_upkeep import REMOVED_BEFORE, main, plan, run
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS

#: Until a JVM of its own has started and does something, on a machine where many start.
JVM_SECONDS_MAX = 600


def limits(**changes: int) -> UpkeepSettings:
    """Few small files are too many here, and no VACUUM: it has a test of its own."""
    return replace(load().upkeep, **({"small_files_max": 3, "vacuum_hours": 10**6} | changes))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """All tables."""
    made = Home(tmp_path)
    fill(made)
    return made


@pytest.fixture
def small(tmp_path: Path) -> Home:
    """The tables of which days may go, alone."""
    made = Home(tmp_path)
    fill(made, names=("messages", "cursors"))
    return made


def folder(home: Home) -> str:
    return str(home.spark_tables)


def test_small_files_become_few_and_nobody_sees_it(spark: SparkSession, home: Home) -> None:
    """Rows are the same, a stream over a table sees each of them once, transactions are kept, and
    a second run has nothing to do."""
    seen: list[int] = []

    def read() -> None:
        query = (
            spark.readStream.format("delta")
            .option("maxFilesPerTrigger", 7)
            .load(f"{folder(home)}/messages")
            .writeStream.option("checkpointLocation", str(home.checkpoint("reader")))
            .trigger(availableNow=True)
            .foreachBatch(lambda rows, _: seen.extend(row.sequence for row in rows.collect()))
            .start()
        )
        query.awaitTermination()

    read()
    before = content(home)
    assert files(home.messages) == DAYS * 5
    done = {one.table: one for one in run(spark, folder(home), limits())}
    assert content(home) == before
    assert [files(home.spark_tables / name) for name in SCHEMAS] == [DAYS, DAYS, 1, 1, 1, 1]
    assert (done["messages"].days_compacted, done["messages"].files_before) == (DAYS, DAYS * 5)
    read()
    assert sorted(seen) == list(range(40))
    assert DeltaTable(home.acks).transaction_version("job/acks") == 4
    after = versions(home)
    assert {one.days_compacted for one in run(spark, folder(home), limits())} == {0}
    assert versions(home) == after


def test_between_two_batches_it_runs_when_its_time_is(place: Place) -> None:
    """In the process that writes the tables, which goes on with what became of them."""
    writer = Materialization(place.spark, place.places, load().materialize)
    chosen = replace(load(), upkeep=limits(small_files_max=1))
    # Twice in a day, however slow the machine is.
    upkeep = UpkeepBetween(place.places, chosen, minutes=1_440, last=time.monotonic() - 86_401)
    place.log.next_group()
    place.log.subscribe("global/all", "flights")
    found = []
    for nth in range(3):
        place.log.next_group()
        place.log.publish("flights", encoded(f"m{nth}"))
        place.log.commit()
        list(writer.bring(newest_version(place.spark, place.places.log)))
        if nth:
            upkeep.between(place.spark)
        found.append(files(place.home.messages))
    assert found == [1, 1, 2]
    assert len(place.rows("messages")) == 3
    [cursor] = place.rows("cursors")
    assert (cursor["group"], cursor["log_version"]) == (4, 3)


def test_spark_and_the_driver_say_the_same_of_days(spark: SparkSession, home: Home) -> None:
    """Of a table of days, of one without, and of one record's files in topic_log."""
    paths = [str(home.messages), str(home.cursors), str(home.topic_log)]
    for path, record in zip(paths, (None, None, "message"), strict=True):
        found = days(spark, path, small_bytes=4_000, record=record)
        wanted = days_by_spark(spark, path, 4_000, record)
        assert found == sorted(wanted, key=lambda day: day.day or FIRST_DAY)
        assert found
    assert days(spark, str(home.topic_log), small_bytes=0, record="settlement") == []


def test_a_day_with_few_small_files_is_left_alone(spark: SparkSession, small: Home) -> None:
    """Rewriting costs more than three small files do."""
    assert not any(work.compact for work in plan(spark, folder(small), limits(small_files_max=5)))


@pytest.mark.parametrize(("floor", "first"), [(40, 20), (19, 18), (9, 17)])
def test_whole_days_go_that_nobody_is_owed(
    spark: SparkSession, tmp_path: Path, floor: int, first: int
) -> None:
    """Messages and acks of a day together, and the table says from which day on it has all."""
    home = Home(tmp_path)
    fill(home, floor=floor, batches=2, names=("messages", "acks", "cursors"))
    before = content(home)
    run(spark, folder(home), limits(messages_days=9, acks_days=9), today=TODAY)
    first_sequence = 10 * (first - FIRST_DAY.day)
    for name in ("messages", "acks"):
        table = DeltaTable(home.spark_tables / name)
        assert sorted(table.to_pyarrow_table().column("sequence").to_pylist()) == list(
            range(first_sequence, 40)
        )
        mark = table.metadata().configuration.get(REMOVED_BEFORE)
        assert mark == (None if first == FIRST_DAY.day else f"2026-11-{first}")
    assert content(home)["cursors"] == before["cursors"]


def test_retention_asks_topic_log(spark: SparkSession, small: Home) -> None:
    """Without it nothing goes, and it is said what to do."""
    with pytest.raises(InvalidRequest, match=r"There is no topic_log at .*: give --log"):
        plan(spark, folder(small), limits(messages_days=1), log=f"{folder(small)}/elsewhere")


def test_a_dry_run_changes_nothing(
    spark: SparkSession, small: Home, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says what there is to do; then the same command without it does that. No day is old enough
    to be removed, whenever this runs."""
    chosen = tmp_path / "jobs.toml"
    chosen.write_text("[upkeep]\nsmall_files_max = 3\nmessages_days = 3650\nvacuum_hours = 1000\n")
    before = versions(small)
    command = ["--home", str(tmp_path), "--settings", str(chosen), "--json"]
    assert main([*command, "--dry-run"]) == 0
    assert versions(small) == before
    would = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main(command) == 0
    did = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    same = ("table", "days_compacted", "days_removed", "first_day", "files_before")
    assert [[one[key] for key in same] for one in would] == [
        [one[key] for key in same] for one in did
    ]
    assert would[0]["days_removed"] == 0
    assert (would[0]["files_after"], did[0]["files_after"]) == (None, DAYS)
    assert main([*command[:-1], "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "There is to do" in shown
    assert "compacted" in shown


def test_vacuum_removes_what_nobody_names(spark: SparkSession, small: Home) -> None:
    """A file that a killed writer left a month ago goes; what was removed an hour ago stays."""
    day = small.messages / f"day={FIRST_DAY}"
    left, recent = day / "left.parquet", day / "recent.parquet"
    month_ago = time.time() - 30 * 86_400
    left.write_bytes(b"x")
    recent.write_bytes(b"x")
    os.utime(left, (month_ago, month_ago))
    before = set(day.glob("part-*.parquet"))
    run(spark, folder(small), limits(vacuum_hours=0))
    assert not left.exists()
    assert recent.exists()
    assert before < set(day.glob("part-*.parquet"))
    properties = DeltaTable(small.cursors).metadata().configuration
    assert properties["delta.deletedFileRetentionDuration"] == "interval 24 hours"


def test_old_entries_of_the_log_go(spark: SparkSession, small: Home) -> None:
    """About as many stay as there may be, and the table can be read as before."""
    table = DeltaTable(small.cursors)
    for number in range(24):
        table.alter.set_table_properties({"delta.checkpointInterval": str(number + 10)})
        if number % 5 == 0:  # entries go up to one
            table.create_checkpoint()
    log = small.cursors / "_delta_log"
    for entry in log.iterdir():
        if entry.name.partition(".")[0].isdigit():
            then = time.time() - 3_600 * (40 - int(entry.name.partition(".")[0]))
            os.utime(entry, (then, then))
    before = content(small)
    done = run(spark, folder(small), limits(log_entries_max=9))[-1]
    assert done.entries_removed > 0
    there = sorted(int(entry.stem) for entry in log.glob("*.json"))
    assert there[-1] - there[0] == len(there) - 1
    assert 9 <= len(there) < 9 + 6
    assert content(small) == before


def entries(home: Home) -> int:
    """How many versions all tables have together, if none was removed; a look at names alone."""
    return len(list(home.spark_tables.glob("*/_delta_log/*.json")))


def test_killed_between_two_commits_it_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """kill -9 after its first commit: no row is lost or doubled, the next run does the rest."""
    home, three = Home(tmp_path), ("messages", "acks", "cursors")
    fill(home, names=three)
    before, begun = content(home), entries(home)
    chosen = home.root / "jobs.toml"
    chosen.write_text("[upkeep]\nsmall_files_max = 3\nvacuum_hours = 1000\n")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "distributary.jobs", "upkeep"),
            *("--home", str(home.root), "--settings", str(chosen)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        until(
            lambda: entries(home) != begun or process.poll() is not None,
            "its first commit",
            JVM_SECONDS_MAX,
        )
        assert process.poll() is None, process.stdout.read().decode()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    assert content(home) == before
    assert files(home.cursors) + files(home.acks) > 1 + DAYS
    run(spark, folder(home), limits())
    assert content(home) == before
    assert [files(home.spark_tables / name) for name in three] == [DAYS, DAYS, 1]


def test_another_writer_is_named(
    spark: SparkSession, small: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, and nothing is touched."""
    before = versions(small)
    with writing(spark, folder(small), "materialize", 30):
        assert main(["--home", str(small.root)]) == 1
    assert "by `materialize` with pid" in capsys.readouterr().err
    assert versions(small) == before


def test_no_tables_are_said(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And bad arguments, with exit code 2."""
    assert main(["--home", str(tmp_path)]) == 2
    assert "run `distributary jobs materialize` first" in capsys.readouterr().err
    assert main([]) == 2
    assert "give --home or --tables" in capsys.readouterr().err
