"""Spark's tables are read without Spark: by deltalake, Polars and DuckDB, with the same content."""

from datetime import UTC, date, datetime, timedelta

import doc_blocks
import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyroaring import BitMap64
from spark_log import BEGIN, encoded, encoded_bytes
from spark_place import Place

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


@pytest.fixture
def lived(place: Place) -> Place:
    """A home whose tables have two days, maps, bytes, bitmaps, nulls; compacted, and with the first
    day's acks gone."""
    log = place.log
    log.next_group()
    log.subscribe("global/all", "flights")
    log.subscribe("container/c1/some", "flights", selector="n > 2")
    log.publish("flights", *(encoded(f"m{n}", properties=said(n)) for n in range(9)))
    for nth in range(14):
        log.next_group()
        log.publish("flights", encoded_bytes(bytes([nth, 0, 255])), deliver_at=log.now)
        log.settle("global/all", "flights", [2 * nth + 1], 0)
        if nth == 6:
            log.commit()
            place.materialize()
    log.commit()
    place.materialize()
    spark = place.spark
    for name in ("messages", "acks"):
        spark.sql(f"OPTIMIZE delta.`{place.places.table(name)}`")
    gone = f"DELETE FROM delta.`{place.places.table('acks')}` WHERE day = '2026-11-21'"  # noqa: S608
    spark.sql(gone)
    return place


def said(n: int) -> dict[str, object]:
    return {"n": n, "carrier": "UA", "delay": n / 3, "late": n % 2 == 0, "raw": bytes([n])}


def test_other_engines_read_the_same(lived: Place, capsys: pytest.CaptureFixture[str]) -> None:
    """Every row of every table: maps, structs, bytes, bitmaps, nulls, times; of compacted files,
    and of a table that lost a day. The tables ask nothing of a reader that is new, and the examples
    of their page run."""
    for name in ORDER:
        expected = by_spark(lived, name)
        assert expected
        for engine in (by_deltalake, by_polars, by_duckdb):
            assert engine(lived, name) == expected, (engine.__name__, name)
        protocol = DeltaTable(lived.places.table(name)).protocol()
        assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
    some = by_spark(lived, "messages")
    assert some[4]["properties"]["raw"]["binary"] == bytes([4])
    assert some[9]["properties"] == {}
    assert (some[9]["body_bytes"], some[9]["deliver_at"]) == (b"\0\0\xff", BEGIN + 2 * STEP)
    assert {row["day"] for row in some} == {date(2026, 11, 21), date(2026, 11, 22)}
    assert {row["day"] for row in by_spark(lived, "acks")} == {date(2026, 11, 22)}
    by_name = {row["subscription"]: row["settled"] for row in by_spark(lived, "cursors")}
    assert by_name["global/all"] == {2 * nth + 1 for nth in range(14)}
    run_examples(lived)
    assert "not settled" in capsys.readouterr().out


def run_examples(lived: Place) -> None:
    """All that ask no gateway, of this home and this subscription."""
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
    """Those of the pages of tables and views, or of others."""
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
