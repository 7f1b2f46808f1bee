"""Spark reads the logs of a lake together: each row says its log, and each log's stay its own."""

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import DeltaTable
from doc_blocks import blocks
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from spark_log import encoded_bytes
from spark_place import Place, assert_rows, first_part, second_part

from distributary import (
    backlog,
    consumers,
    lake_tables,
    pending,
    pending_as_of,
    state,
    stuck,
    stuck_summary,
    topic_as_of,
)
from distributary.jobs.materialize.materialize import once
from distributary.jobs.session.job_options import folder
from distributary.jobs.upkeep.spark_upkeep import main as upkeep
from distributary.jobs.views.audit_job import main as audit
from distributary.jobs.views.notebook_views import register
from distributary.jobs.views.register_job import Settings, build
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.schemas.column_types import spark_json
from distributary.pipeline.schemas.json_columns import json_columns
from distributary.pipeline.schemas.schema_text import text_of
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.lake.disk_lake import DiskLake
from distributary.pipeline.transforms.catalog.relations import Relation
from distributary.pipeline.transforms.catalog.united_relations import (
    United,
    together,
    united,
    why_not,
)
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.schema.lake_rows import LOG
from distributary.pipeline.transforms.typed.topic_views import topic_of_logs
from distributary.pipeline.transforms.views.view_registry import VIEWS

LAKE = Placement(1, ("main", "orders", "never"))
#: Views whose whole rows other tests of this file read.
READ = {"pending", "deliveries", "events", "consumers", "cursors", "stuck_summary"}
#: What bills are: in one log they have grown a column.
BILL: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "integer"}, "log": {"type": "string"}},
}
LATER = {**BILL, "properties": {**BILL["properties"], "paid": {"type": "boolean"}}}


def bills(place: Place, schema: dict[str, object], *some: dict[str, object]) -> None:
    """A topic with a schema, and messages of it."""
    text = json.dumps(schema)
    columns = json.dumps(spark_json(json_columns(text).columns))
    place.log.next_group()
    place.log.schema("bills", text_of(SchemaVersion("bills", 1, Format.JSON, text), columns))
    place.log.publish("bills", *(encoded_bytes(json.dumps(one).encode()) for one in some))
    place.log.commit()


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two logs with the same sequences, groups and ids of subscriptions: `orders` has gone on."""
    root = tmp_path_factory.mktemp("lake")
    main_log, orders = Place(spark, root), Place(spark, root / "logs" / "orders")
    first_part(main_log)
    first_part(orders)
    second_part(orders)
    bills(main_log, BILL, {"total": 5, "log": "book"})
    bills(orders, LATER, {"total": 7, "paid": True}, {"total": 8})
    DiskLake(root).replace(None, LAKE)
    assert {one.batch for one in once(spark, str(root))} == {0}
    return root


@pytest.fixture(scope="module")
def views(spark: SparkSession, root: Path) -> Tables:
    """The views of the lake, in the session of all tests; a test that makes others has a session of
    its own."""
    return register(spark, str(root))


def test_each_row_says_its_log(spark: SparkSession, root: Path, views: Tables) -> None:
    assert views.folder == f"{root}/tables"
    counts = "SELECT log, count(*) FROM {} GROUP BY log"
    assert_rows(spark.sql(counts.format("messages")), [("main", 11), ("orders", 15)])
    subscriptions = spark.sql("SELECT log, event, count(*) FROM subscriptions GROUP BY ALL")
    assert_rows(
        subscriptions, [("main", "created", 2), ("orders", "created", 2), ("orders", "deleted", 1)]
    )
    acks = spark.sql("SELECT log, count(*) FROM acks WHERE final GROUP BY log")
    assert_rows(acks, [("main", 5), ("orders", 9)])


@pytest.mark.usefixtures("views")
def test_what_is_owed_is_a_log_s_own(spark: SparkSession) -> None:
    """A settlement of one log settles nothing in the other, though all their numbers are alike."""
    owed = spark.sql("SELECT log, subscription, sequence FROM pending")
    main_log = [("main", "global/dispatchers", n) for n in (2, 3, 5, 7, 8, 9)]
    main_log += [("main", "container/c1/gone", n) for n in range(1, 10)]
    orders = [("orders", "global/dispatchers", n) for n in (7, 8, 9, 10, 12)]
    assert_rows(owed, [*main_log, *orders])
    reasons: Counter[str] = Counter()
    for row in spark.table("stuck_summary").collect():
        reasons[row.log] += row.messages
    assert reasons == {"main": 15, "orders": 5}


@pytest.mark.usefixtures("views")
def test_every_view_has_the_log_in_front(spark: SparkSession) -> None:
    for name in (*VIEWS, "messages", "acks", "subscriptions", "cursors", "rejected"):
        rows = spark.table(name)
        assert rows.columns[0] == "log", name
        if name not in READ:
            rows.collect()


@pytest.mark.usefixtures("views")
def test_a_topic_is_of_all_logs_that_have_it(spark: SparkSession, root: Path) -> None:
    """By its name, with the columns of all; a column of its own may be called as ours is."""
    wanted = [("main", 5, "book", None), ("orders", 7, None, True), ("orders", 8, None, None)]
    rows = spark.table("bills")
    assert rows.columns[0] == "_log"
    assert_rows(rows.select("_log", "total", "log", "paid"), wanted)
    then = topic_as_of(spark, str(root), "bills")
    assert_rows(then.select("_log", "total", "log", "paid"), wanted)


def test_functions_have_the_rows_of_all_logs(spark: SparkSession, root: Path) -> None:
    """Of those that have what is asked for; each by its own numbers."""
    lake, logs = str(root), lake_tables(spark, str(root))
    owed = pending(spark, lake, "global/dispatchers").select("log", "sequence")
    orders = [("orders", n) for n in (7, 8, 9, 10, 12)]
    main_log = [("main", n) for n in (2, 3, 5, 7, 8, 9)]
    assert_rows(owed, [*main_log, *orders])
    then = pending_as_of(spark, lake, "dispatchers").select("log", "sequence")
    assert_rows(then, [*main_log, *orders])
    found = state(spark, lake, "global/dispatchers").select("log", "subscription", "pending")
    assert_rows(found, [("main", "global/dispatchers", 6), ("orders", "global/dispatchers", 5)])
    gone = state(spark, lake, "container/c1/gone").select("log", "pending")
    assert_rows(gone, [("main", 9)])
    assert_rows(stuck(spark, lake, "gone").select("log").distinct(), [("main",)])
    summed = stuck_summary(spark, lake).groupBy("log").agg({"messages": "sum"})
    assert_rows(summed, [("main", 15), ("orders", 5)])
    by_log = {log: consumers(tables).collect() for log, tables in logs.items()}
    every = [(log, *row) for log, rows in by_log.items() for row in rows]
    assert_rows(consumers(logs), every)
    hours = backlog(logs).groupBy("log").agg({"came": "sum"})
    # Two subscriptions of ten messages; of those of `orders` one has three more, one was deleted.
    assert_rows(hours, [("main", 20), ("orders", 23)])


def test_what_a_lake_can_not_be_asked_is_said(spark: SparkSession, root: Path) -> None:
    """Each in a sentence that says what to do."""
    with pytest.raises(InvalidRequest, match=r"^Log main: There is no .* Log orders: There is no"):
        pending(spark, str(root), "global/nobody")
    with pytest.raises(InvalidRequest, match=rf"home of one log: {root}, {root}/logs/orders"):
        state(spark, str(root), "global/dispatchers", 1)
    with pytest.raises(InvalidRequest, match=r"^Log main: As of now 'flights' never had a schema"):
        topic_as_of(spark, str(root), "flights")


@pytest.mark.usefixtures("views")
def test_a_catalog_has_all_logs(spark: SparkSession, root: Path, tmp_path: Path) -> None:
    """A schema for each, and views over all of them in the one that was named."""
    places = {log: one.folder for log, one in lake_tables(spark, str(root)).items()}
    dbt = tmp_path / "sources.yml"
    settings = Settings(places, "united", dbt=dbt)
    try:
        made = build(spark, settings)
        assert build(spark, settings) == made
        counts = spark.sql("SELECT log, count(*) FROM united.messages GROUP BY log")
        assert_rows(counts, [("main", 11), ("orders", 15)])
        for view in ("pending", "deliveries", "events", "consumers", "cursors"):
            rows, wanted = spark.table(f"united.{view}"), spark.table(view)
            assert rows.columns == wanted.columns, view
            counted = Counter(row.log for row in rows.collect())
            assert counted == Counter(row.log for row in wanted.collect()), view
        bills = spark.sql("SELECT _log, total, paid FROM united.topics_bills")
        assert_rows(bills, [("main", 5, None), ("orders", 7, True), ("orders", 8, None)])
        assert spark.table("united_orders.messages").count() == 15
        assert {"backlog", "stuck"} < set(made.left_out)
        field = spark.table("united.pending").schema["log"]
        assert field.metadata["comment"] == "the log of the lake that the row is in"
    finally:
        for schema in ("united", "united_main", "united_orders"):
            spark.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
    [source] = yaml.safe_load(dbt.read_text())["sources"]
    tests = {
        (table["name"], column["name"]): column.get("data_tests", [])
        for table in source["tables"]
        for column in table["columns"]
    }
    logs = ["not_null", {"accepted_values": {"arguments": {"values": ["main", "orders"]}}}]
    assert tests["messages", "log"] == tests["topics_bills", "_log"] == logs
    assert tests["topics_bills", "log"] == []
    assert not [one for one, said in tests.items() if "unique" in said]


def test_columns_of_two_types_are_no_view() -> None:
    """It is left out, and the sentence names both."""
    kinds = {"main": StructType().add("total", "integer"), "b": StructType().add("total", "string")}
    assert why_not(kinds) == "its column total is int in the log main and string in the log b"
    assert why_not(dict.fromkeys(("main", "b"), kinds["b"])) == ""


def test_the_program_of_the_guide(
    root: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    """docs/logs.md, in the session that is there."""
    assert spark
    [program] = blocks("docs/logs.md", "python")
    exec(program.text.replace("/srv/lake", str(root)), {})  # noqa: S102
    found = re.findall(r"\| *(\w+)\| *([\w/]+)\| *(\d+)\|", capsys.readouterr().out)
    assert set(found) == {
        ("main", "global/dispatchers", "6"),
        ("main", "container/c1/gone", "9"),
        ("orders", "global/dispatchers", "5"),
    }


def test_each_log_s_tables_are_there_by_its_name(spark: SparkSession, root: Path) -> None:
    found = lake_tables(spark, str(root))
    assert {log: tables.messages.count() for log, tables in found.items()} == {
        "main": 11,
        "orders": 15,
    }
    assert not lake_tables(spark, str(root / "logs" / "orders"))


def test_a_home_with_one_log_has_no_such_column(spark: SparkSession, root: Path) -> None:
    """Neither has one log of a lake, asked by itself."""
    spark = spark.newSession()
    register(spark, str(root / "logs" / "orders"))
    assert "log" not in spark.table("messages").columns
    assert spark.table("messages").count() == 15
    assert "_log" not in spark.table("bills").columns
    home = str(root / "logs" / "orders")
    assert "log" not in pending(spark, home, "global/dispatchers").columns


def test_a_log_without_tables_yet_is_named_and_stops_nothing(
    spark: SparkSession, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Functions leave it out with a warning; jobs do the others, and end with 1."""
    spark = spark.newSession()
    shutil.copytree(root, tmp_path, dirs_exist_ok=True)
    orders = Home(tmp_path / "logs" / "orders")
    for table in orders.spark_tables.iterdir():
        if table.is_dir() and table != orders.topic_log:
            shutil.rmtree(table)
    with pytest.warns(UserWarning, match=r"The log orders is left out: There are no tables in"):
        register(spark, str(tmp_path))
    assert {row.log for row in spark.sql("SELECT log FROM messages").collect()} == {"main"}
    for job, words in ((upkeep, ["--dry-run"]), (audit, ["--check", "lost"])):
        assert job(["--home", str(tmp_path), "--json", *words]) == 1
        said = capsys.readouterr()
        assert {json.loads(line)["log"] for line in said.out.splitlines()} == {"main"}
        assert said.err.startswith("Error: log orders: There are no tables in")
    folders = {"a_b": f"{tmp_path}/tables", "orders": f"{tmp_path}/logs/orders/tables"}
    build(spark, Settings(folders, "begun", logs=("main", "a-b", "a_b", "orders")))
    assert "log orders is left out" in capsys.readouterr().err
    assert spark.catalog.databaseExists("begun_a_b_2"), "begun_a_b is that of a-b"
    shutil.rmtree(tmp_path / "tables" / "cursors")
    with (
        pytest.warns(UserWarning, match="left out"),
        pytest.raises(InvalidRequest, match="No log of"),
    ):
        register(spark, str(tmp_path))


def test_a_job_about_one_log_says_which(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert folder(str(root), None) == f"{root}/tables"
    assert "this is about its log main; another one is --home" in capsys.readouterr().err


def test_upkeep_is_of_each_log(
    spark: SparkSession, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One home of it alone by its own address."""
    assert spark
    assert upkeep(["--home", str(root), "--dry-run", "--json"]) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    tables = {log: [one["table"] for one in said if one["log"] == log] for log in LAKE.logs}
    assert tables["main"] == tables["orders"] != tables["never"] == []
    assert upkeep(["--home", str(root), "--dry-run"]) == 0
    assert re.findall(r"There is to do in log (\w+)", capsys.readouterr().out) == ["main", "orders"]
    assert upkeep(["--home", str(root / "logs" / "orders"), "--dry-run", "--json"]) == 0
    assert '"log"' not in capsys.readouterr().out


def test_an_audit_is_of_each_log(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finding in one log is reported for that log, and decides the exit code of all."""
    lake = tmp_path / "lake"
    shutil.copytree(root, lake)
    assert audit(["--home", str(lake), "--check", "lost"]) == 0
    assert re.findall(r"^log (\w+)$", capsys.readouterr().out, re.MULTILINE) == ["main", "orders"]
    orders = lake / "logs" / "orders"
    DeltaTable(orders / "tables" / "acks").delete("sequence = 4")
    kept = str(tmp_path / "found")
    asked = ["--home", str(lake), "--check", "lost", "--json", "--write", kept, "--keep"]
    assert audit(asked) == 1
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {one["log"]: one["violations"] for one in said}
    assert found["main"] == 0 < found["orders"]
    assert DeltaTable(f"{kept}/orders/lost").to_pyarrow_dataset().count_rows() == found["orders"]
    assert [len(list((home / "audits").iterdir())) for home in (lake, orders)] == [1, 1]
    shutil.rmtree(orders / "audits")
    assert audit(["--home", f"file://{orders}", "--check", "lost", "--keep"]) == 1
    [report] = (orders / "audits").iterdir()
    assert DeltaTable(report / "lost").to_pyarrow_dataset().count_rows() == found["orders"]


def test_a_column_that_a_log_lacks_may_have_fields_of_any_name(spark: SparkSession) -> None:
    """It is null there, and of its type."""
    text = "struct<`first name`: string, `a``b`: array<map<string, struct<`x y`: int>>>>"
    rows = {
        "main": spark.sql(f"SELECT 1 AS n, CAST(NULL AS {text}) AS who"),
        "orders": spark.sql("SELECT 2 AS n"),
    }
    for log, some in rows.items():
        some.createOrReplaceTempView(f"part_{log}")
    view = Relation("both", "", {LOG: "", "n": "", "who": ""}, "")
    kinds = {log: some.schema for log, some in rows.items()}
    one = United(view, {log: f"part_{log}" for log in rows}, ["n", "who"])
    made = spark.sql(together(one, {log: f"part_{log}" for log in rows}, kinds))
    assert_rows(made.select(LOG, "n"), [("main", 1), ("orders", 2)])
    assert made.schema["who"].dataType == kinds["main"]["who"].dataType
    assert why_not(kinds) == ""


def test_a_field_that_is_called_as_the_log_stays(spark: SparkSession) -> None:
    """Under another name, in sessions and in catalogs; in one log it keeps its own."""
    rows = {
        "main": spark.sql("SELECT 1 AS _sequence, 'theirs' AS _log"),
        "orders": spark.sql("SELECT 2 AS _sequence, 'other' AS _LOG, 3 AS _log_"),
    }
    for log, some in rows.items():
        some.createOrReplaceTempView(f"part_{log}")
    parts = {
        log: [Relation(f"part_{log}", "", dict.fromkeys(some.columns, ""), "topics/orders")]
        for log, some in rows.items()
    }
    found = topic_of_logs(rows)
    assert found.columns == ["_log", "_sequence", "_log__", "_log_"]
    assert_rows(found, [("main", 1, "theirs", None), ("orders", 2, "other", 3)])
    parts["orders"] = [replace(parts["main"][0], name="part_main")]
    [one] = united(parts)
    assert list(one.view.columns) == ["_log", "_sequence", "_log_"]
    kinds = dict.fromkeys(rows, rows["main"].schema)
    made = spark.sql(together(one, one.parts, kinds))
    assert_rows(made, [("main", 1, "theirs"), ("orders", 1, "theirs")])


def test_columns_whose_names_differ_in_case_are_no_view() -> None:
    """SQL can't tell them apart."""
    kinds = {"main": StructType().add("Id", "string"), "b": StructType().add("id", "string")}
    assert why_not(kinds) == "its column Id is called id in the log b"
