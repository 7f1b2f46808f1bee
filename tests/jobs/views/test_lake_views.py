"""Spark reads the logs of a lake together: each row says its log, and each log's stay its own."""

import json
import re
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from doc_blocks import blocks
from pyspark.sql import SparkSession
from spark_place import Place, assert_rows, first_part, second_part

from distributary.jobs.materialize.materialize import once
from distributary.jobs.session.job_options import folder
from distributary.jobs.upkeep.spark_upkeep import main as upkeep
from distributary.jobs.views.audit_job import main as audit
from distributary.jobs.views.notebook_views import register
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.tables.lake.disk_lake import DiskLake
from distributary.pipeline.transforms.schema.lake_rows import lake_tables
from distributary.pipeline.transforms.views.view_registry import VIEWS

LAKE = Placement(1, ("main", "orders", "never"))


@pytest.fixture(scope="module")
def root(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two logs with the same sequences, groups and ids of subscriptions: `orders` has gone on."""
    root = tmp_path_factory.mktemp("lake")
    main_log, orders = Place(spark, root), Place(spark, root / "logs" / "orders")
    first_part(main_log)
    first_part(orders)
    second_part(orders)
    DiskLake(root).replace(None, LAKE)
    assert {one.batch for one in once(spark, str(root))} == {0}
    return root


def test_each_row_says_its_log(spark: SparkSession, root: Path) -> None:
    tables = register(spark, str(root))
    assert tables.folder == f"{root}/tables"
    counts = "SELECT log, count(*) FROM {} GROUP BY log"
    assert_rows(spark.sql(counts.format("messages")), [("main", 10), ("orders", 13)])
    subscriptions = spark.sql("SELECT log, event, count(*) FROM subscriptions GROUP BY ALL")
    assert_rows(
        subscriptions, [("main", "created", 2), ("orders", "created", 2), ("orders", "deleted", 1)]
    )
    acks = spark.sql("SELECT log, count(*) FROM acks WHERE final GROUP BY log")
    assert_rows(acks, [("main", 5), ("orders", 9)])


def test_what_is_owed_is_a_log_s_own(spark: SparkSession, root: Path) -> None:
    """A settlement of one log settles nothing in the other, though all their numbers are alike."""
    register(spark, str(root))
    owed = spark.sql("SELECT log, subscription, sequence FROM pending")
    main_log = [("main", "global/dispatchers", n) for n in (2, 3, 5, 7, 8, 9)]
    main_log += [("main", "container/c1/gone", n) for n in range(1, 10)]
    orders = [("orders", "global/dispatchers", n) for n in (7, 8, 9, 10, 12)]
    assert_rows(owed, [*main_log, *orders])
    reasons = spark.sql("SELECT log, sum(messages) FROM stuck_summary GROUP BY log")
    assert_rows(reasons, [("main", 15), ("orders", 5)])


def test_every_view_has_the_log_in_front(spark: SparkSession, root: Path) -> None:
    register(spark, str(root))
    for name in (*VIEWS, "messages", "acks", "subscriptions", "cursors", "rejected"):
        rows = spark.table(name)
        assert rows.columns[0] == "log", name
        rows.collect()


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
        "main": 10,
        "orders": 13,
    }
    assert not lake_tables(spark, str(root / "logs" / "orders"))


def test_a_home_with_one_log_has_no_such_column(spark: SparkSession, root: Path) -> None:
    """Neither has one log of a lake, asked by itself."""
    register(spark, str(root / "logs" / "orders"))
    assert "log" not in spark.table("messages").columns
    assert spark.table("messages").count() == 13


def test_a_log_without_tables_is_not_left_out(spark: SparkSession, tmp_path: Path) -> None:
    first_part(Place(spark, tmp_path))
    once(spark, str(tmp_path))
    first_part(Place(spark, tmp_path / "logs" / "orders"))
    DiskLake(tmp_path).replace(None, LAKE)
    with pytest.raises(InvalidRequest, match=r"no tables in .*logs/orders"):
        register(spark, str(tmp_path))


def test_a_job_about_one_log_says_which(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert folder(root, None) == f"{root}/tables"
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
    spark: SparkSession, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is found in one of them is said of it, and is the exit code of all."""
    lake = tmp_path / "lake"
    shutil.copytree(root, lake)
    assert audit(["--home", str(lake), "--check", "lost"]) == 0
    assert re.findall(r"^log (\w+)$", capsys.readouterr().out, re.MULTILINE) == ["main", "orders"]
    orders = lake / "logs" / "orders"
    DeltaTable(orders / "tables" / "acks").delete("sequence = 4")
    kept = str(tmp_path / "found")
    asked = ["--home", str(lake), "--check", "lost", "--json", "--write", kept]
    assert audit(asked) == 1
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {one["log"]: one["violations"] for one in said}
    assert found["main"] == 0 < found["orders"]
    assert spark.read.format("delta").load(f"{kept}/orders/lost").count() == found["orders"]
    assert audit([*asked[:-2], "--keep"]) == 1
    assert [len(list((home / "audits").iterdir())) for home in (lake, orders)] == [1, 1]
