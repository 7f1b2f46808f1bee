"""Of two processes that would write Spark's tables, one is told who the other is."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from distributary.jobs.tables import writer_lock
from distributary.jobs.tables.writer_lock import NAME, require_no_writer, writing
from distributary.pipeline.errors import TablesLocked

#: Another process that holds the lock as a JVM does, and names the pid that it is given.
HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.lockf(file, fcntl.LOCK_EX)
file.write(sys.argv[2]); file.flush()
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path: Path):
    """A function: another process holds the lock and says of itself what it is given."""
    (tmp_path / NAME).touch()
    processes = []

    def hold(says: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, tmp_path / NAME, says],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        processes.append(process)
        assert process.stdout.readline() == b"held\n"
        return process

    yield hold
    for process in processes:
        process.kill()
        process.communicate()


def test_a_second_writer_is_told_who_the_first_is(
    spark: SparkSession, tmp_path: Path, held
) -> None:
    """Before a JVM starts, and at the lock itself."""
    held(f"{os.getpid()} materialize\n")
    said = rf"being written by `materialize` with pid {os.getpid()}"
    with pytest.raises(TablesLocked, match=said):
        require_no_writer(str(tmp_path), 30)
    with pytest.raises(TablesLocked, match=said), writing(spark, str(tmp_path), "upkeep", 30):
        pytest.fail("it got the lock")


def test_two_in_one_process_are_two(spark: SparkSession, tmp_path: Path) -> None:
    """A notebook that runs one job in another's block is told so, too."""
    folder = str(tmp_path)
    with (
        writing(spark, folder, "materialize", 30),
        pytest.raises(TablesLocked, match="`materialize`"),
        writing(spark, folder, "upkeep", 30),
    ):
        pytest.fail("it got the lock")


def test_the_lock_goes_with_its_block(spark: SparkSession, tmp_path: Path) -> None:
    """The lock ends with the block in any way, and names no writer any more."""
    folder = f"file://{tmp_path}"
    with pytest.raises(ZeroDivisionError), writing(spark, folder, "materialize", 30):
        _ = 1 / 0
    with writing(spark, folder, "upkeep", 30):
        assert (tmp_path / NAME).read_text() == f"{os.getpid()} upkeep\n"
    assert (tmp_path / NAME).read_text() == ""
    require_no_writer(folder, 30)


def test_what_a_killed_job_left_is_waited_for(spark: SparkSession, tmp_path: Path, held) -> None:
    """Its Python is gone, its JVM is about to: the next one begins when it is."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = held(f"{ended.pid} materialize\n")
    require_no_writer(str(tmp_path), 30)
    threading.Timer(0.5, left.kill).start()
    with writing(spark, str(tmp_path), "materialize", 30):
        assert left.wait() != 0


def test_a_writer_that_stays_without_its_python_is_named(
    spark: SparkSession, tmp_path: Path, held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while it isn't waited for any longer."""
    monkeypatch.setattr(writer_lock, "ENDING_SECONDS_MAX", 0.3)
    held("")
    with (
        pytest.raises(TablesLocked, match="by another process"),
        writing(spark, str(tmp_path), "upkeep", 30),
    ):
        pytest.fail("it got the lock")
