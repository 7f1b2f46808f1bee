"""The logs of a lake are materialized side by side: at the same time, and none stops another."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Event

import pytest
from deltalake import DeltaTable
from gateway_process import PATIENCE, until
from pyspark.sql import SparkSession
from spark_lender import lent
from spark_log import encoded
from spark_place import Place, first_part, forgotten, second_part

from distributary.jobs.materialize.materialize import main
from distributary.jobs.materialize.side_by_side import Logs, LookAgain, SideBySide, Slots
from distributary.jobs.session.stopping import StopRequest
from distributary.jobs.tables.table_locations import TableLocations
from distributary.jobs.tables.writer_lock import NAME
from distributary.pipeline.errors import StopAsked, StoreError
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.tables.lake.disk_lake import DiskLake

ROOT = Path(__file__).parents[3]
LOGS = {log: TableLocations(f"{log}/log", f"{log}/tables", "") for log in ("main", "orders")}


@pytest.fixture
def signals() -> Iterator[None]:
    """A job takes these for its own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def in_the_way(place: Place) -> Path:
    """A file that isn't a table where `acks` belongs: the job of this log fails."""
    notes = Path(place.places.table("acks")) / "notes.txt"
    notes.parent.mkdir(parents=True)
    notes.touch()
    return notes


def test_logs_are_done_at_the_same_time(spark: SparkSession) -> None:
    """Neither comes to its end before both have begun."""
    both, done = Barrier(2), list[str]()

    def work(log: str, _where: TableLocations) -> None:
        both.wait(PATIENCE)
        done.append(log)

    SideBySide(spark, LOGS, work, StopRequest()).run()
    assert sorted(done) == ["main", "orders"]


def test_so_many_have_a_slot(spark: SparkSession) -> None:
    """A third batch waits; and a waiting one hears that the job is to stop."""
    assert spark
    request, gone, taken = StopRequest(), Event(), list[int]()
    slots = Slots(2, request)

    def work(nth: int) -> None:
        with slots.slot():
            taken.append(nth)
            gone.wait(PATIENCE)

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(work, nth) for nth in range(3)]
        until(lambda: len(taken) == 2, "two slots")
        request.asked = True
        until(lambda: any(one.done() for one in running), "the third to hear it")
        gone.set()
    errors = [one.exception() for one in running]
    assert [type(one) for one in errors if one is not None] == [StopAsked]
    assert len(taken) == 2


def test_a_bug_of_one_log_ends_all(spark: SparkSession) -> None:
    """With its traceback; the others are asked to stop."""
    request, stopped = StopRequest(), Event()

    def work(log: str, _where: TableLocations) -> None:
        if log == "main":
            raise ZeroDivisionError
        until(lambda: request.asked, "being asked to stop")
        stopped.set()

    with pytest.raises(ZeroDivisionError):
        SideBySide(spark, LOGS, work, request, LookAgain(lambda: LOGS, 1)).run()
    assert stopped.is_set()


class Counted(StopRequest):
    """A request that counts how often it was looked at."""

    looks = 0

    @property
    def asked(self) -> bool:
        self.looks += 1
        return self._asked

    @asked.setter
    def asked(self, value: bool) -> None:
        self._asked = value


def test_a_job_whose_logs_have_all_failed_waits(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """It looks again when it is time, and keeps no core busy meanwhile. A look that fails is said,
    once, and the next one is taken."""
    request, looks = Counted(), list[int]()

    def work(log: str, _where: TableLocations) -> None:
        raise StoreError(f"{log} is away")

    def look() -> Logs:
        looks.append(request.looks)
        if len(looks) < 3:
            raise StoreError("the lake is away")
        request.asked = True
        return LOGS

    SideBySide(spark, LOGS, work, request, LookAgain(look, 2)).run()
    assert looks[1] < 50
    said = capsys.readouterr().err.splitlines()
    assert said[-1] == "Error: the lake is away"
    assert sorted(said[:-1]) == [f"Error: log {log}: {log} is away" for log in sorted(LOGS)]


def test_each_log_is_brought_to_its_end(
    spark: SparkSession, tmp_path: Path, signals: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each from where it was; one that fails is named, and stops no other one."""
    places = [Place(spark, tmp_path), Place(spark, tmp_path / "logs" / "orders")]
    for place in places:
        first_part(place)
    DiskLake(tmp_path).replace(None, Placement(1, ("main", "orders", "never")))
    notes = in_the_way(places[0])
    assert main(["--home", str(tmp_path), "--json"]) == 1
    said = capsys.readouterr()
    assert [json.loads(line)["log"] for line in said.out.splitlines()] == ["orders"]
    assert said.err == (
        f"Error: log main: {notes.parent} is where the table `acks` belongs, but it is no table "
        "and has notes.txt in it. Name another folder by --tables, or move that away.\n"
    )
    notes.unlink()
    second_part(places[1])
    assert main(["--home", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert sorted(line.partition(",")[0] for line in said.out.splitlines()) == [
        "log main",
        "log orders",
    ]
    assert [len(place.rows("messages")) for place in places] == [10, 13]
    assert main(["--home", str(tmp_path)]) == 0
    assert "Nothing new" in capsys.readouterr().out


def test_a_job_that_goes_on_finds_new_logs(spark: SparkSession, tmp_path: Path) -> None:
    """One process for all logs, those that are made later, too. A log that failed begins anew when
    what was in its way is gone, past rows that aren't there, as it was told; a signal ends all of
    it, and no lock is left."""
    lake, settings = tmp_path / "lake", tmp_path / "jobs.toml"
    homes = {log: lake / "logs" / log for log in ("orders", "prices")} | {"main": lake}
    places = {log: Place(spark, home) for log, home in homes.items()}
    settings.write_text("[materialize]\nlake_seconds = 1\n")
    for log in ("main", "orders"):
        first_part(places[log])
    orders = places["orders"]
    orders.log.group = 20_000
    orders.log.publish("flights", encoded("new"))
    orders.log.commit()
    DeltaTable(orders.home.topic_log).delete("record = 'message' AND day < '2026-11-22'")
    forgotten(orders)
    notes = in_the_way(places["orders"])
    DiskLake(lake).replace(None, Placement(1, ("main", "orders")))
    command = [sys.executable, "-m", "distributary.jobs", "materialize", "--home", str(lake)]
    command += ["--trigger", "1 second", "--settings", str(settings), "--json"]
    command += ["--restart-from-snapshot"]
    out, errors = tmp_path / "out", tmp_path / "errors"

    def told() -> set[str]:
        return {json.loads(line)["log"] for line in out.read_text().splitlines()}

    command, environment = lent(command, os.environ)
    with out.open("w") as to, errors.open("w") as beside:
        job = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=to, stderr=beside)
        try:
            until(lambda: "log orders: " in errors.read_text(), "the error", seconds=4 * PATIENCE)
            until(lambda: told() == {"main"}, "the other log", seconds=4 * PATIENCE)
            assert job.poll() is None
            notes.unlink()
            until(lambda: told() == {"main", "orders"}, "the second log", seconds=4 * PATIENCE)
            first_part(places["prices"])
            made = Placement(2, ("main", "orders", "prices"))
            DiskLake(lake).replace(Placement(1, ("main", "orders")), made)
            until(lambda: len(told()) == 3, "the new log", seconds=4 * PATIENCE)
            job.send_signal(signal.SIGTERM)
            assert job.wait(4 * PATIENCE) == 0
        finally:
            job.kill()
            job.wait()
    assert errors.read_text().count("Error: ") == 1
    assert "Traceback" not in errors.read_text()
    for log, place in places.items():
        assert len(place.rows("messages")) == (1 if log == "orders" else 10)
        assert (place.home.spark_tables / NAME).read_text() == ""
