"""Typed tables of the job: each message of a topic with a schema in one table, whatever ends it."""

import json
from contextlib import suppress
from threading import Lock

import pytest
from deltalake import DeltaTable
from msgspec.structs import replace
from spark_log import columns_text, encoded_bytes
from spark_place import Place

from distributary.jobs.materialize.batch import Materialization
from distributary.jobs.materialize.spark_slices import SparkSlices
from distributary.jobs.session.job_settings import load
from distributary.jobs.tables.delta_files import newest_version
from distributary.jobs.tables.table_locations import TableLocations
from distributary.jobs.upkeep.spark_upkeep import run as upkeep
from distributary.jobs.views.audit_run import Settings, build
from distributary.pipeline.schemas.schema_text import text_of
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS
from distributary.pipeline.transforms.views.view_registry import register


def schema(place: Place, topic: str, version: int, **types: str) -> None:
    """The topic has this schema from the next message on."""
    definition = json.dumps(
        {
            "type": "object",
            "properties": {
                name: {"type": kind, "description": f"{name}, says the schema"}
                for name, kind in types.items()
            },
        }
    )
    said = SchemaVersion(topic, version, Format.JSON, definition)
    place.log.schema(topic, text_of(said, columns_text(definition)))


def fill(place: Place) -> None:
    """Six versions of the log: a schema, a column more, another type, a pattern's topics."""
    for nth, (topic, types, bodies) in enumerate(
        (
            ("orders", {"id": "integer"}, [{"id": 1}, {"id": "x"}]),
            ("orders", {"id": "integer", "who": "string"}, [{"id": 2, "who": "a"}, {"id": 3}]),
            ("orders", {"id": "string"}, [{"id": "four"}, {"id": 4}]),
            ("flights.*", {"carrier": "string"}, []),
        ),
        1,
    ):
        place.log.next_group()
        schema(place, topic, nth, **types)
        place.log.commit()
        place.log.next_group()
        some = [encoded_bytes(json.dumps(body).encode()) for body in bodies]
        place.log.publish(topic.replace("*", "ua"), *some, encoded_bytes(b'{"carrier": "UA"}'))
        place.log.publish("others", encoded_bytes(b"{}"))
        place.log.commit()


#: Before the names of tables that Spark itself writes, as on an object store.
STORE = "store-"


class Died(Exception):
    """The end of an attempt."""


class OneWrite:
    """Lets one table be written, and ends the attempt at the next."""

    def __init__(self) -> None:
        self.left, self.lock = 1, Lock()

    def __call__(self, step: str) -> None:
        with self.lock:
            if step != "done" and not self.left:
                raise Died(step)
            self.left -= step != "done"


def brought(place: Place, name: str) -> Materialization:
    """`name` is a folder beside the home's tables; one of a STORE is written as on an object store,
    by Spark."""
    places = TableLocations(place.places.log, f"{place.home.root}/{name}", "")
    made = Materialization(place.spark, places, load().materialize)
    if name.startswith(STORE):
        made.maker = SparkSlices(made.log, made.settings)
    return made


def rows(made: Materialization) -> dict[str, list[tuple[object, ...]]]:
    """The rows of the tables, read without Spark; `test_engines` shows that both read the same."""
    columns = {
        "topics/orders": ("_sequence", "id", "who", "_schema_version"),
        "topics/orders.v2": ("_sequence", "id", "carrier", "_schema_version"),
        "topics/flights.ua": ("_sequence", "carrier", "_schema_version"),
        "rejected": ("sequence", "topic", "schema_version", "place", "message"),
    }
    return {
        name: sorted(
            tuple(row[one] for one in some if one != "carrier" or "flights" in name)
            for row in DeltaTable(made.locations.table(name)).to_pyarrow_table().to_pylist()
        )
        for name, some in columns.items()
    }


def proven(place: Place, made: Materialization) -> None:
    """The audit's check of typed tables finds nothing."""
    asked = Settings(made.locations.tables, place.places.log, ("typed",))
    [audited] = build(place.spark, asked)
    assert (audited.judged, audited.findings) == (10, ())


def test_typed_tables_are_views_and_have_upkeep(place: Place) -> None:
    """By their topics' names, over all tables of a topic; with comments; and few files stay few."""
    fill(place)
    made = brought(place, "kept")
    for version in range(newest_version(place.spark, place.places.log) + 1):
        list(made.bring(version))
    before, spark, tables = rows(made), place.spark, made.locations.tables
    register(spark, tables)
    found = spark.sql("SELECT _sequence, id, who FROM orders ORDER BY 1").collect()
    assert [tuple(row) for row in found] == [
        *((0, "1", None), (2, None, None)),
        *((4, "2", "a"), (5, "3", None), (6, None, None)),
        *((8, "four", None), (10, None, None)),
    ]
    assert spark.sql("SELECT carrier FROM `flights.ua`").collect()[0].carrier == "UA"
    assert spark.sql("SELECT count(*) FROM rejected").collect()[0][0] == 2
    detail = spark.sql(f"DESCRIBE DETAIL delta.`{tables}/topics/orders`").collect()[0]
    assert (detail.minReaderVersion, detail.minWriterVersion, detail.numFiles) == (1, 2, 2)
    columns = spark.read.format("delta").load(f"{tables}/topics/orders").schema
    assert columns["who"].metadata["comment"] == "who, says the schema"
    for name in SCHEMAS:  # as if VACUUM had just been there: these have tests of their own
        (place.home.root / "kept" / name / "_delta_log" / "_last_vacuum_info").touch()
    settings = replace(load().upkeep, small_files_max=1)
    done = {one.table: one for one in upkeep(spark, tables, settings, log=place.places.log)}
    assert done["topics/orders"].files_after == 1
    assert {"rejected", "topics/orders.v2", "topics/flights.ua"} <= done.keys()
    assert rows(made) == before
    list(brought(place, "kept").bring(newest_version(spark, place.places.log)))
    assert rows(made) == before


@pytest.mark.parametrize("where", ["", STORE], ids=["disk", "store"])
def test_each_message_is_in_one_table_whatever_ends_the_job(place: Place, where: str) -> None:
    """Attempts that die after each single write, and forget all, end as an undisturbed one; columns
    are added, and another type begins a table beside."""
    fill(place)
    newest = newest_version(place.spark, place.places.log)
    whole = brought(place, f"{where}whole")
    list(whole.bring(newest))
    found = rows(whole)
    assert found["topics/orders"] == [
        (0, 1, None, 1),
        (2, None, None, 1),
        (4, 2, "a", 2),
        (5, 3, None, 2),
        (6, None, None, 2),
    ]
    assert found["topics/orders.v2"] == [(8, "four", 3), (10, None, 3)]
    assert found["topics/flights.ua"] == [(12, "UA", 4)]
    assert [one[:4] for one in found["rejected"]] == [
        (1, "orders", 1, "/id"),
        (9, "orders", 3, "/id"),
    ]
    assert DeltaTable(whole.tables["messages"].path).to_pyarrow_dataset().count_rows() == 14
    proven(place, whole)
    died = 0
    for upto in (newest // 2, newest):
        while True:
            cut = brought(place, f"{where}cut")
            cut.before = OneWrite()
            with suppress(Died):
                list(cut.bring(upto))
                break
            died += 1
            assert died < 40
    assert died > 6
    assert rows(cut) == found


def test_events_count_in_their_order_however_files_lie(place: Place) -> None:
    """One commit with a file for each of six days, which lie in it in no order: each message is
    read by the version that was in force."""
    for version in range(1, 7):
        place.log.next_group()
        schema(place, "orders", version, **{f"in_{version}": "integer"})
        place.log.next_group()
        body = {f"in_{one}": one for one in range(1, 7)}
        place.log.publish("orders", encoded_bytes(json.dumps(body).encode()))
        place.log.group += 14_400  # a day
    place.log.commit()
    made = brought(place, "days")
    list(made.bring(newest_version(place.spark, place.places.log)))
    found = place.spark.read.format("delta").load(made.locations.table("topics/orders"))
    names = [f"in_{one}" for one in range(1, 7)]
    assert [name for name in found.columns if name[0] != "_"] == names
    for row in found.collect():
        version = row["_sequence"] + 1
        assert row["_schema_version"] == version
        assert [name for name in names if row[name] is not None] == [f"in_{version}"]


def test_names_of_fields_may_have_any_characters(place: Place) -> None:
    """And the audit reads them: a backtick, a dot, a space, and one of our own."""
    place.log.next_group()
    schema(place, "odd", 1, **dict.fromkeys(("a`b", "a.b", "a b", "_sequence"), "string"))
    place.log.commit()
    place.log.next_group()
    body = {"a`b": "1", "a.b": "2", "a b": "3", "_sequence": "4"}
    place.log.publish("odd", encoded_bytes(json.dumps(body).encode()))
    place.log.commit()
    place.materialize()
    [row] = place.rows("topics/odd")
    assert [row[name] for name in ("a`b", "a.b", "a_b", "_sequence_")] == ["1", "2", "3", "4"]
    [audited] = build(place.spark, Settings(place.places.tables, place.places.log, ("typed",)))
    assert (audited.judged, audited.findings) == (1, ())
