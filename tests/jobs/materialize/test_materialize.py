"""The job: exactly once, whatever happens in the middle."""

import json
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Lock

import msgspec
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyroaring import BitMap64
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from spark_log import encoded
from spark_place import Place, first_part, forgotten, second_part

from distributary.jobs.materialize.batch import Materialization
from distributary.jobs.materialize.found_logs import require_log
from distributary.jobs.materialize.materialize import Settings, last_version, run
from distributary.jobs.session.job_settings import load
from distributary.jobs.session.stopping import StopRequest
from distributary.jobs.tables.delta_files import newest_version
from distributary.jobs.tables.spark_tables import SHAPES, SparkTable
from distributary.jobs.tables.table_locations import TableLocations
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS

KEYS = {
    "messages": ["sequence"],
    "acks": ["subscription", "sequence", "group", "consumer"],
    "subscriptions": ["group", "subscription"],
    "schemas": ["group", "topic"],
    "log_versions": ["log_version"],
    "cursors": ["subscription"],
}
TABLES = tuple(KEYS)


def state(places: TableLocations) -> dict[str, pa.Table]:
    """The tables as they are, without when that was written. Read without Spark, which takes a
    second for each: that both read the same is `test_engines`."""
    found = {}
    for name, order in KEYS.items():
        table = DeltaTable(places.table(name)).to_pyarrow_table()
        said = [column for column in table.column_names if column != "updated_at"]
        found[name] = table.select(said).sort_by([(key, "ascending") for key in order])
    return found


def assert_same(
    found: dict[str, pa.Table], wanted: dict[str, pa.Table], names: Iterable[str] = TABLES
) -> None:
    for name in names:
        assert found[name].schema == wanted[name].schema
        assert found[name].to_pylist(maps_as_pydicts="strict") == wanted[name].to_pylist(
            maps_as_pydicts="strict"
        )


@pytest.fixture(scope="module")
def whole(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Both parts, and one run of the job over all of it. To be read, or copied."""
    made = Place(spark, tmp_path_factory.mktemp("whole"))
    first_part(made)
    second_part(made)
    made.materialize()
    return made


@pytest.fixture
def halfway(once: Place, tmp_path: Path) -> Place:
    """A home of the test's own where the job has seen the first part."""
    return once.copied(tmp_path)


@pytest.fixture
def done(whole: Place, tmp_path: Path) -> Place:
    """A home of the test's own where the job has seen both parts."""
    return whole.copied(tmp_path)


def test_one_run_fills_three_tables(once: Place) -> None:
    """Messages, acks and cursors of all versions are there after one run of the job."""
    place = once
    assert len(place.rows("messages")) == 10
    assert sum(row["final"] for row in place.rows("acks")) == 5
    cursors = {row["subscription"]: row for row in place.rows("cursors")}
    cursor = cursors["global/dispatchers"]
    assert (cursor["floor"], list(BitMap64.deserialize(cursor["settled"]))) == (2, [4, 6])
    assert (cursor["settled_count"], cursor["accepted"], cursor["released"]) == (2, 4, 2)
    assert (cursor["group"], cursor["log_version"]) == (3, 2)
    (progress,) = place.progress
    assert (progress.messages, progress.acks, progress.subscription_events) == (10, 7, 2)
    assert (progress.log_version, progress.lag_versions) == (2, 0)


def test_acks_have_one_row_per_delivery(whole: Place) -> None:
    """Each row has the consumer, the message, the time, and its UTC day."""
    acks = state(whole.places)["acks"].to_pylist()
    said = [
        (row["outcome"], row["final"], row["consumer"], str(row["day"]))
        for row in acks
        if row["sequence"] == 2
    ]
    assert said == [
        ("released", False, "worker-1/dispatchers", "2026-11-21"),
        ("accepted", True, "worker-2/dispatchers", "2026-11-22"),
    ]


def test_a_table_without_a_transaction_says_by_its_rows_how_far_it_is(
    once: Place, tmp_path: Path
) -> None:
    """One of an older release, whose first or second version has rows; one that was only made has
    nothing."""
    rows = DeltaTable(once.places.table("subscriptions")).to_pyarrow_table()
    none, shape = rows.slice(0, 0), SHAPES["subscriptions"]
    for nth, (versions, reached) in enumerate([([rows], 1), ([none, rows], 1), ([none], 0)]):
        path = f"{tmp_path}/{nth}"
        for some in versions:
            write_deltalake(path, some, mode="append")
        table = SparkTable(once.spark, "subscriptions", path, SCHEMAS["subscriptions"], shape)
        table.find()
        assert (table.reached, table.marked) == (reached, False)


def test_a_batch_that_runs_twice_changes_nothing(done: Place) -> None:
    """The second time no table gets a commit, and nothing is told."""
    place = done
    before = {name: newest_version(place.spark, place.places.table(name)) for name in TABLES}
    commits = place.home.checkpoint("materialize") / "commits"
    (commits / "0").unlink()
    (commits / ".0.crc").unlink()
    place.materialize()
    assert (commits / "0").exists()
    assert not place.progress
    assert {
        name: newest_version(place.spark, place.places.table(name)) for name in TABLES
    } == before


def brought(place: Place, name: str, **limits: int) -> Materialization:
    """Tables of their own, for the same log; not begun yet."""
    places = TableLocations(place.places.log, f"{place.home.root}/{name}", "")
    changed = msgspec.structs.replace(load().materialize, **limits)
    return Materialization(place.spark, places, changed)


def newest(place: Place) -> int:
    return newest_version(place.spark, place.places.log)


class Died(Exception):
    """The end of a batch in the middle."""


class Permits:
    """Lets so many writes happen and ends the attempt at the next one."""

    def __init__(self, left: int) -> None:
        self.left, self.lock = left, Lock()

    def __call__(self, step: str) -> None:
        with self.lock:
            if step in TABLES and not self.left:
                raise Died(step)
            self.left -= step in TABLES


def test_a_batch_cut_at_each_write_converges(whole: Place, done: Place) -> None:
    """Every attempt dies after one more write, in the middle of slices too, and forgets all that
    the process knew: in the end the tables are those of an undisturbed job."""
    died = 0
    while True:
        cut = brought(done, "cut", slice_rows=8)
        cut.before = Permits(1)
        with suppress(Died):
            list(cut.bring(newest(done)))
            break
        died += 1
    assert died > len(TABLES)
    assert_same(state(cut.locations), state(whole.places))


def test_far_behind_it_is_read_by_group(whole: Place, done: Place) -> None:
    """A log whose entries are too many to read one by one gives the same tables, also slice by
    slice, and also when upkeep has merged its files."""
    version = newest(done)
    done.log.compact()
    far = brought(done, "far", near_versions=0, slice_rows=4)
    slices = list(far.bring(version))
    assert len(slices) > 2
    assert [one.last_group for one in slices] == sorted({one.last_group for one in slices})
    assert_same(state(far.locations), state(whole.places))


def test_a_restart_in_the_middle_ends_as_one_run(halfway: Place) -> None:
    """Two runs over the log's halves make what one run over the whole makes."""
    place = halfway
    second_part(place)
    place.materialize()
    halves = state(place.places)
    assert halves["cursors"]["subscription"].to_pylist() == ["global/dispatchers"]
    for name in TABLES:
        shutil.rmtree(place.places.table(name))
    shutil.rmtree(place.places.checkpoint)
    place.materialize()
    assert_same(state(place.places), halves)


def test_a_lost_checkpoint_writes_nothing_twice(halfway: Place) -> None:
    """A query that begins anew on filled tables adds what they lack, and no more."""
    place = halfway
    shutil.rmtree(place.places.checkpoint)
    second_part(place)
    place.materialize()
    assert len(place.rows("messages")) == 13
    assert len(place.rows("acks")) == 11
    assert place.rows("cursors")[0]["accepted"] == 8


def begun(place: Place, name: str) -> Path:
    """A table of which the job was killed before its first entry had its name."""
    log = Path(place.places.table(name)) / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    (log / ".00000000000000000000.json.7c9e.tmp").write_text('{"commitInfo"')
    return log


def test_what_was_only_begun_is_made(place: Place) -> None:
    """Kills while the job makes its tables and its checkpoint leave nothing in its way."""
    first_part(place)
    offsets = Path(place.places.checkpoint) / "offsets"
    offsets.mkdir(parents=True)
    (offsets / ".0.37b3.tmp").touch()
    for name in TABLES:
        begun(place, name)
    place.materialize()
    assert len(place.rows("messages")) == 10
    assert len(place.rows("cursors")) == 2


@pytest.mark.parametrize("theirs", ["notes.txt", "_delta_log/00000000000000000003.crc"])
def test_no_table_is_made_over_files(place: Place, theirs: str) -> None:
    """They may be a user's: the error names them, and they stay."""
    first_part(place)
    file = begun(place, "acks").parent / theirs
    file.write_text("mine")
    with pytest.raises(StreamingQueryException, match=f"and has {theirs} in it"):
        place.materialize()
    assert file.read_text() == "mine"


def test_lost_tables_are_said(halfway: Place) -> None:
    """Tables that went missing behind a checkpoint would stay incomplete: the job refuses."""
    shutil.rmtree(halfway.places.table("acks"))
    second_part(halfway)
    with pytest.raises(StreamingQueryException, match="remove the checkpoint"):
        halfway.materialize()


def settings_of(place: Place, *, restart: bool = False) -> Settings:
    return Settings(place.places, report=place.progress.append, restart=restart)


@pytest.mark.parametrize("torn", ["_delta_log/*1.json", "day=*/*.parquet"])
def test_what_a_power_cut_tore_comes_again(halfway: Place, torn: str) -> None:
    """A table whose last entries are taken away, or empty, is behind, and no more."""
    place = halfway
    wanted = state(place.places)
    acks = Path(place.places.table("acks"))
    next(acks.glob(torn)).write_bytes(b"")
    if "parquet" in torn:
        for entry in acks.glob("_delta_log/*00000000001.*"):
            entry.unlink()
    place.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # another JVM, after a cut
    run(place.spark, settings_of(place, restart=True), StopRequest())
    assert_same(state(place.places), wanted)


def test_versions_that_are_gone_are_said(whole: Place, halfway: Place) -> None:
    """A stream can't pass them; by group the job goes on, and lacks nothing that the log has."""
    place = halfway
    second_part(place)
    forgotten(place)
    with pytest.raises(StoreError, match="--restart-from-snapshot"):
        run(place.spark, settings_of(place), StopRequest())
    run(place.spark, settings_of(place, restart=True), StopRequest())
    found, wanted = state(place.places), state(whole.places)
    assert_same(found, wanted, ("messages", "acks", "subscriptions", "cursors"))
    assert max(found["log_versions"]["log_version"].to_pylist()) == newest(place)


def test_rows_that_are_gone_are_said(halfway: Place) -> None:
    """Messages that retention took before the job saw them: it names them and goes on only when it
    is told to."""
    place = halfway
    second_part(place)
    place.log.group = 20_000
    place.log.publish("flights", encoded("new"))
    place.log.commit()
    DeltaTable(place.home.topic_log).delete("record = 'message' AND day = '2026-11-22'")
    forgotten(place)
    shutil.rmtree(place.places.checkpoint)
    with pytest.raises(StreamingQueryException, match="messages 10 to 12 were removed"):
        place.materialize()
    assert len(place.rows("messages")) == 10
    run(place.spark, settings_of(place, restart=True), StopRequest())
    assert sorted(row["sequence"] for row in place.rows("messages")) == [*range(10), 13]
    assert place.rows("cursors")[0]["floor"] >= 7


def test_a_table_that_is_not_ours_is_said(place: Place) -> None:
    """Its path, and what is wrong with it; nothing is written to it."""
    first_part(place)
    rows = place.spark.createDataFrame([("a", 1)], "subscription string, sequence int")
    rows.write.format("delta").save(place.places.table("acks"))
    with pytest.raises(StreamingQueryException, match="sequence is int"):
        place.materialize()
    assert len(place.rows("acks")) == 1


def test_a_table_that_lies_otherwise_is_said(place: Place) -> None:
    """All columns are there, but its files aren't where a reader of one day would look."""
    first_part(place)
    place.spark.createDataFrame([], SCHEMAS["acks"]).write.format("delta").save(
        place.places.table("acks")
    )
    with pytest.raises(StreamingQueryException, match="it is partitioned by nothing"):
        place.materialize()


def test_a_log_that_is_none_is_said(place: Place, tmp_path: Path) -> None:
    """Any other table is refused by the first column that it lacks."""
    place.spark.range(1).write.format("delta").save(f"{tmp_path}/other")
    with pytest.raises(InvalidRequest, match="isn't a topic_log: it has no column 'day'"):
        require_log(place.spark, f"{tmp_path}/other")


def test_compaction_adds_nothing(place: Place) -> None:
    """The log's files may be swapped for bigger ones, before the job's start or while it rests."""
    first_part(place)
    second_part(place)
    place.log.compact()
    place.materialize()
    before = state(place.places)
    place.log.compact()
    place.log.next_group()
    place.log.publish("flights", encoded("last"))
    place.log.commit()
    place.log.next_group()
    place.log.publish("flights", encoded("very last"))
    place.log.commit()
    place.log.compact()
    place.materialize()
    after = state(place.places)
    assert after["messages"].num_rows == before["messages"].num_rows + 2
    assert_same(after, before, ["acks"])


def test_a_batch_within_a_version_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Groups would be split; it can only be the checkpoint of another program."""
    (tmp_path / "offsets").mkdir()
    offset = {"reservoirVersion": 7, "index": 3}
    (tmp_path / "offsets" / "0").write_text("v1\n{}\n" + json.dumps(offset))
    with pytest.raises(StoreError, match="within version 7"):
        last_version(spark, str(tmp_path), 0)
