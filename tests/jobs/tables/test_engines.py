"""Spark's tables are read by others: deltalake, Polars, DuckDB and pandas, SQL from a catalog, the
tests of dbt's sources; with the same content."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from copy import copy
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from shutil import copytree
from typing import TYPE_CHECKING, Any, TypeAlias

import doc_blocks
import duckdb
import jsonschema_rs
import polars as pl
import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable
from pyroaring import BitMap64
from spark_log import BEGIN, encoded, encoded_bytes
from spark_place import Place

from distributary.jobs.views import register_job
from distributary.jobs.views.register_job import Settings, build, said
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.column_types import spark_json
from distributary.pipeline.schemas.json_columns import json_columns
from distributary.pipeline.schemas.schema_text import text_of
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.transforms.catalog.relations import LEFT_OUT, ROWS, VIEWS, typed_names
from distributary.pipeline.transforms.views import view_registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[3]
#: Rows of views, by name.
Views: TypeAlias = dict[str, list[dict[str, object]]]
#: From one group to the next.
STEP = timedelta(seconds=6)
#: What of each table is compared: all that is no bitmap, and what a bitmap holds.
ORDER = {
    "messages": ["sequence"],
    "acks": ["group", "subscription", "sequence"],
    "subscriptions": ["group", "subscription"],
    "log_versions": ["log_version"],
    "cursors": ["subscription"],
}


ORDER_SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "country": {"type": "string", "description": "where it goes"},
            "total": {"type": "integer"},
        },
    }
)


@pytest.fixture(scope="module")
def lived(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A home whose tables have two days, maps, bytes, bitmaps, nulls, every kind of subscription
    and a typed table; compacted."""
    place = Place(spark, tmp_path_factory.mktemp("lived"))
    log = place.log
    log.next_group()
    log.subscribe("global/all", "flights")
    log.subscribe("container/c1/some", "flights", selector="n > 2")
    log.publish("flights", *(encoded(f"m{n}", properties=properties_of(n)) for n in range(9)))
    for nth in range(14):
        log.next_group()
        log.publish("flights", encoded_bytes(bytes([nth, 0, 255])), deliver_at=log.now)
        log.settle("global/all", "flights", [2 * nth + 1], 0)
        if nth == 6:
            log.commit()
            place.materialize()
    more(place)
    log.commit()
    place.materialize()
    for name in ("messages", "acks"):
        spark.sql(f"OPTIMIZE delta.`{place.places.table(name)}`")
    return place


@pytest.fixture
def shortened(lived: Place, tmp_path: Path) -> Place:
    """A copy of it, with the first day's acks gone."""
    place = copy(lived)
    place.home = Home(tmp_path / "home")
    copytree(lived.home.root, place.home.root)
    gone = f"DELETE FROM delta.`{place.places.table('acks')}` WHERE day = '2026-11-21'"  # noqa: S608
    place.spark.sql(gone)
    return place


def more(place: Place) -> None:
    """A topic with a schema, a pattern, a rewound subscription, and each way to fail."""
    log = place.log
    log.next_group()
    columns = json.dumps(spark_json(json_columns(ORDER_SCHEMA).columns))
    version = SchemaVersion("orders", 1, Format.JSON, ORDER_SCHEMA)
    log.schema("orders", text_of(version, columns))
    log.subscribe("global/every", "pattern://orders.#")
    log.subscribe("global/again", "orders")
    bodies = ({"country": "BE", "total": 5}, {"country": "NL", "total": 7}, {"total": "x"})
    first, *_ = log.publish("orders", *(encoded_bytes(json.dumps(b).encode()) for b in bodies))
    log.publish("orders.eu", encoded("e"))
    log.next_group()
    log.settle("global/again", "orders", [first, first + 2], first)
    log.settle("global/every", "orders", [first], first, outcome="released", consumer="w/2")
    log.settle("global/every", "orders", [first + 1], first, outcome="lost", consumer="w/2")
    log.settle("global/every", "orders", [first + 2], first, outcome="modified", consumer="w/3")
    failed = {"consumer": "w/3", "delivered_at": log.now - timedelta(seconds=1), "final": True}
    log.next_group()
    log.settle("global/every", "orders", [first + 2], first, outcome="dead_lettered", **failed)
    log.subscribe("global/again", "orders", event="rewound", floor=first)
    log.next_group()
    log.settle("global/again", "orders", [first + 1], first)


def properties_of(n: int) -> dict[str, object]:
    return {"n": n, "carrier": "UA", "delay": n / 3, "late": n % 2 == 0, "raw": bytes([n])}


def test_other_engines_read_the_same(shortened: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Every row of every table: maps, structs, bytes, bitmaps, nulls, times; of compacted files,
    and of a table that lost a day. The tables ask nothing of a reader that is new, and the examples
    of their page run."""
    expected = {name: by_spark(shortened, name) for name in ORDER}
    for name, wanted in expected.items():
        assert wanted
        for engine in (by_deltalake, by_polars, by_duckdb):
            assert engine(shortened, name) == wanted, (engine.__name__, name)
        protocol = DeltaTable(shortened.places.table(name)).protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    some = expected["messages"]
    assert some[4]["properties"]["raw"]["binary"] == bytes([4])
    assert some[9]["properties"] == {}
    assert (some[9]["body_bytes"], some[9]["deliver_at"]) == (b"\0\0\xff", BEGIN + 2 * STEP)
    assert {row["day"] for row in some} == {date(2026, 11, 21), date(2026, 11, 22)}
    assert {row["day"] for row in expected["acks"]} == {date(2026, 11, 22)}
    by_name = {row["subscription"]: row["settled"] for row in expected["cursors"]}
    assert by_name["global/all"] == {2 * nth + 1 for nth in range(14)}
    run_examples(shortened)
    assert "not settled" in capsys.readouterr().out


def test_recipes_of_the_page(lived: Place, views: Views) -> None:
    """Each program of other-engines.md finds what Spark finds."""
    known: dict[str, Any] = {}
    for program in blocks("python", "guides/other-engines.md"):
        exec(here(program, lived), known)  # noqa: S102
    orders = [row for row in by_spark(lived, "messages") if row["topic"] == "orders"]
    assert known["last"]["sequence"].to_list() == [row["sequence"] for row in orders[::-1]]
    counts = Counter(str(row["subscription"]) for row in views["pending"])
    plain_ones = {"global/all", "global/again"}
    assert {name: n for name, n, _ in known["owed"]} == {one: counts[one] for one in plain_ones}
    assert known["by_hour"].sum() == len(by_spark(lived, "acks"))
    assert known["totals"].rows() == [("BE", 5), ("NL", 7)]


@pytest.fixture(scope="module")
def views(lived: Place) -> Views:
    """The rows of the views of Python, which are there by their names."""
    view_registry.register(lived.spark, str(lived.home.spark_tables))
    return {
        view: [plain(row.asDict(recursive=True)) for row in lived.spark.table(view).collect()]
        for view in VIEWS
    }


@pytest.fixture(scope="module")
def registered(lived: Place) -> Iterator[register_job.Registered]:
    """The home in the catalog of the tests' session, and dbt's sources in `sources.yml`."""
    place = str(lived.home.spark_tables)
    yield build(lived.spark, Settings({"": place}, "shop", dbt=lived.home.root / "sources.yml"))
    for schema in ("shop", "taken"):
        lived.spark.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.fixture(scope="module")
def shop(lived: Place, registered: register_job.Registered) -> dict[str, pa.Table]:
    """The rows of the catalog's tables and views, by name."""
    names = [one.name for one in registered.relations]
    return {name: lived.spark.table(f"shop.{name}").toArrow() for name in names}


def test_a_catalog_has_the_tables_and_views(
    lived: Place, registered: register_job.Registered, views: Views, shop: Mapping[str, pa.Table]
) -> None:
    """Views of SQL alone say the same as those of Python; comments are there; no table is written,
    and a second time changes nothing."""
    spark, place = lived.spark, str(lived.home.spark_tables)
    before = {name: DeltaTable(lived.places.table(name)).version() for name in ORDER}
    again = build(spark, Settings({"": place}, "shop"))
    assert again == registered
    assert {name: DeltaTable(lived.places.table(name)).version() for name in ORDER} == before
    names = [one.name for one in registered.relations]
    assert names == [*(one for one in ROWS if one not in VIEWS), "topics_orders", *VIEWS]
    assert registered.left_out == LEFT_OUT
    for view in VIEWS:
        rows = spark.table(f"shop.{view}")
        assert rows.columns == spark.table(view).columns
        assert Counter(map(text, of_arrow(shop[view]))) == Counter(map(text, views[view])), view
        assert all(field.metadata.get("comment") for field in rows.schema), view
    some = "subscription = 'container/c1/some'"
    assert spark.table("shop.pending").where(some).count() > 0
    [typed] = spark.table("shop.topics_orders").where("country = 'BE'").collect()
    assert typed.total == 5
    said_of = {row.col_name: row for row in spark.sql("DESCRIBE EXTENDED shop.cursors").collect()}
    assert said_of["floor"].comment == "all that it was owed below this sequence is settled"
    said_of = {row.col_name: row for row in spark.sql("DESCRIBE EXTENDED shop.pending").collect()}
    assert said_of["Comment"].data_type == ROWS["pending"]


def test_what_can_not_be_registered_says_why(
    lived: Place, registered: register_job.Registered, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each is one sentence."""
    place = str(lived.home.spark_tables)
    home = f"--home={lived.home.root}"
    assert register_job.main([home, "--schema", "shop"]) == 2
    assert "is in memory here and ends with this job" in capsys.readouterr().err
    assert register_job.main(["--tables", f"{place}/no", "--schema", "shop"]) == 2
    assert "There are no tables in" in capsys.readouterr().err
    assert register_job.main([home, "--schema", "shop", "--catalog", "lake"]) == 1
    assert "lake" in capsys.readouterr().err
    lived.spark.sql("CREATE SCHEMA taken")
    lived.spark.sql(f"CREATE TABLE taken.acks USING delta LOCATION '{place}/messages'")
    with pytest.raises(
        InvalidRequest, match=r"`acks` is there already, and isn't .*: name another"
    ):
        build(lived.spark, Settings({"": place}, "taken"))
    left = said(registered, as_json=False)[1:]
    assert "left out: stuck, as it asks a gateway" in left
    assert json.loads(said(registered, as_json=True)[0])["left_out"] == registered.left_out


def test_names_of_typed_tables_are_names() -> None:
    assert typed_names(["a.b", "a_b", "queue~3a~2f~2fA", "log"]) == {
        "a.b": "topics_a_b",
        "a_b": "topics_a_b_2",
        "log": "topics_log",
        "queue~3a~2f~2fA": "topics_queue_3a_2f_2fa",
    }


def test_the_tests_of_dbts_sources_hold(lived: Place, shop: Mapping[str, pa.Table]) -> None:
    """Every test of `sources.yml` is asked of the tables, and is right; each could be wrong."""
    document = yaml.safe_load((lived.home.root / "sources.yml").read_text())
    [source] = document["sources"]
    by_dbt = jsonschema_rs.validator_for(dbts_schema())
    assert [error.message for error in by_dbt.iter_errors(document)] == []
    assert not by_dbt.is_valid({"version": 2, "sources": [{**source, "tables": "messages"}]})
    assert source["schema"] == "shop"
    connection = duckdb.connect()
    for table in source["tables"]:
        connection.register(table["name"], shop[table["name"]])
    asked = [
        (table["name"], column["name"], test)
        for table in source["tables"]
        for column in table["columns"]
        for test in column.get("data_tests", [])
    ]
    assert len(asked) > 50
    for table, column, test in asked:
        assert connection.sql(wrong(table, column, test)).fetchall() == [], (table, column, test)
    connection.register(
        "acks", pa.table({name: [None, "x", "x"] for name in ("subscription", "outcome")})
    )
    kinds = [(column, test) for table, column, test in asked if table == "acks"]
    kinds = [one for one in kinds if one[0] in ("subscription", "outcome")]
    assert len(kinds) == 4
    for column, test in (*kinds, ("outcome", "unique")):
        assert connection.sql(wrong("acks", column, test)).fetchall(), (column, test)


def dbts_schema() -> Any:
    """The JSON Schema of such files in dbt-core. Not all of dbt is installed: it wants an older
    protobuf."""
    place = ROOT / "build" / "dbt"
    schema = place / "dbt" / "jsonschemas" / "resources" / "latest.json"
    if not schema.exists():
        wanted = ["--no-deps", "--target", str(place), "dbt-core==1.11.16"]
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", *wanted], check=True)
    return json.loads(schema.read_text())


def wrong(table: str, column: str, test: Any) -> str:
    """The rows that a generic test of dbt's finds."""
    name = f'"{column}"'
    match test:
        case "unique":
            return f"SELECT {name} FROM {table} GROUP BY 1 HAVING count({name}) > 1"  # noqa: S608
        case "not_null":
            return f"SELECT 1 FROM {table} WHERE {name} IS NULL"  # noqa: S608
        case {"relationships": {"arguments": {"to": to, "field": field}}}:
            other = to.split("'")[3]
            return f"SELECT {name} FROM {table} WHERE {name} NOT IN (SELECT {field} FROM {other})"  # noqa: S608
        case {"accepted_values": {"arguments": {"values": values}}}:
            return f"SELECT {name} FROM {table} WHERE {name} NOT IN {tuple(values)}"  # noqa: S608
    raise AssertionError(test)


def run_examples(lived: Place) -> None:
    """Run all examples that ask no gateway, with this home and this subscription."""
    programs = [one for one in blocks("python") if "gateway=" not in one]
    assert len(programs) == 5
    for program in programs:
        exec(here(program, lived), {})  # noqa: S102
    for query in blocks("sql"):
        lived.spark.sql(query).collect()
    for page in ("guides/audit.md", "guides/selectors.md"):
        known: dict[str, object] = {}  # its programs go on from one another
        for program in blocks("python", page):
            if "import" in program:
                exec(here(program, lived), known)  # noqa: S102


def here(program: str, lived: Place) -> str:
    """It, with this home and its subscription."""
    root = str(lived.home.root)
    program = program.replace("build/demo", root).replace("build/home", root)
    return program.replace("dispatchers", "all").replace("late-flights", "all")


def blocks(kind: str, *pages: str) -> list[str]:
    """The blocks of the pages of tables and views, or of others."""
    found = pages or ("tables.md", "views.md")
    return [block.text for page in found for block in doc_blocks.blocks(f"docs/{page}", kind)]


def by_spark(place: Place, name: str) -> list[dict[str, object]]:
    rows = place.table(name).orderBy(*ORDER[name]).collect()
    return [plain(row.asDict(recursive=True)) for row in rows]


def by_deltalake(place: Place, name: str) -> list[dict[str, object]]:
    table = DeltaTable(place.places.table(name)).to_pyarrow_table()
    return of_arrow(table.sort_by([(one, "ascending") for one in ORDER[name]]))


def by_polars(place: Place, name: str) -> list[dict[str, object]]:
    found = pl.read_delta(place.places.table(name)).sort(ORDER[name])
    return [plain(row) for row in found.to_dicts()]


def by_duckdb(place: Place, name: str) -> list[dict[str, object]]:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register(name, DeltaTable(place.places.table(name)).to_pyarrow_dataset())
    columns = ", ".join(f'"{one}"' for one in ORDER[name])
    found = connection.sql(f"SELECT * FROM {name} ORDER BY {columns}")  # noqa: S608
    return of_arrow(found.to_arrow_table())


def of_arrow(table: pa.Table) -> list[dict[str, object]]:
    return [plain(row) for row in table.to_pylist(maps_as_pydicts="strict")]


def plain(row: dict[str, object]) -> dict[str, object]:
    return {name: as_one(name, value) for name, value in row.items()}


def text(value: object) -> str:
    """A value as text; a map has no order."""
    match value:
        case dict():
            return str([(key, text(one)) for key, one in sorted(value.items())])
        case list():
            return str([text(one) for one in value])
    return str(value)


def as_one(name: str, value: object) -> object:
    """A value as all engines have it: times in UTC, maps by key, bitmaps as what is in them."""
    if name == "settled":
        return set(BitMap64.deserialize(bytes(value)))
    match value:
        case datetime():
            return value.astimezone(UTC)
        case bytearray() | memoryview():
            return bytes(value)
        case dict():
            return {key: as_one(key, one) for key, one in value.items()}
        case list():
            return [as_one("", one) for one in value]
    return value
