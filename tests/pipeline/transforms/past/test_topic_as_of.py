"""A topic's typed rows as of a time or a version of the log, against a model of random schemas."""

import json
import random
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import doc_blocks
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import ArrayType, DataType, MapType, StructType
from spark_log import BEGIN, columns_text, encoded_bytes
from spark_place import Place

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.schema_text import DROPPED, text_of
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.transforms.past.state_as_of import REMOVED
from distributary.pipeline.transforms.past.topic_as_of import topic_as_of
from distributary.pipeline.transforms.typed.topic_tables import OWN
from distributary.pipeline.transforms.views.view_registry import register

#: The names that a version has, of its own and within.
Version: TypeAlias = dict[str, list[str]]
#: What a version may have: each name always means the same; `inner`, `list` and `map` grow within.
SCALARS = {"id": "integer", "who": "string", "amount": "number", "ok": "boolean"}
DRAWN = {"integer": 7, "string": "text", "number": 1.5, "boolean": True}


def time_of(group: int) -> datetime:
    return BEGIN + timedelta(seconds=6 * group)


def set_schema(place: Place, topic: str, version: int, properties: dict[str, object]) -> None:
    definition = json.dumps({"type": "object", "properties": properties})
    said = SchemaVersion(topic, version, Format.JSON, definition)
    place.log.schema(topic, text_of(said, columns_text(definition)))


def of_object(names: list[str]) -> dict[str, object]:
    return {"type": "object", "properties": {name: {"type": SCALARS[name]} for name in names}}


def definition_of(version: Version) -> dict[str, object]:
    """The properties of a version: scalars, and what holds an object of scalars."""
    made: dict[str, object] = {name: {"type": SCALARS[name]} for name in version["own"]}
    if version["inner"]:
        made["inner"] = of_object(version["inner"])
    if version["list"]:
        made["list"] = {"type": "array", "items": of_object(version["list"])}
    if version["map"]:
        made["map"] = {"type": "object", "additionalProperties": of_object(version["map"])}
    return made


def body_of(version: Version) -> dict[str, object]:
    """A body with all that the version says."""
    inner = {key: {name: DRAWN[SCALARS[name]] for name in version[key]} for key in version}
    made: dict[str, object] = dict(inner["own"])
    if version["inner"]:
        made["inner"] = inner["inner"]
    if version["list"]:
        made["list"] = [inner["list"], inner["list"]]
    if version["map"]:
        made["map"] = {"k": inner["map"]}
    return made


def plain(value: object) -> object:
    """A value of Spark's as JSON has it."""
    if isinstance(value, Row):
        return {name: plain(one) for name, one in value.asDict().items()}
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items()}
    return value


def whole(version: Version, known: dict[str, set[str]]) -> dict[str, object]:
    """The row of a body: all columns known by then, null where the version lacks one."""

    def inner(key: str) -> dict[str, object]:
        has = version[key]
        return {name: DRAWN[SCALARS[name]] if name in has else None for name in known[key]}

    made = inner("own")
    if known["inner"]:
        made["inner"] = inner("inner") if version["inner"] else None
    if known["list"]:
        made["list"] = [inner("list")] * 2 if version["list"] else None
    if known["map"]:
        made["map"] = {"k": inner("map")} if version["map"] else None
    return made


def names_of(kind: DataType) -> set[str]:
    match kind:
        case StructType():
            return set(kind.names)
        case ArrayType():
            return names_of(kind.elementType)
        case MapType():
            return names_of(kind.valueType)
    return set()


@dataclass
class Story:
    """Versions that were set, messages published, and commits, by groups."""

    versions: list[tuple[int, Version | None]] = field(default_factory=list)
    rows: list[tuple[int, int, Version]] = field(default_factory=list)  #: group, sequence, version
    commits: dict[int, int] = field(default_factory=dict)

    @property
    def current(self) -> Version | None:
        return self.versions[-1][1] if self.versions else None


def live(place: Place, dice: random.Random) -> Story:
    """Schemas that are set and dropped at random, and messages that fit."""
    log, story = place.log, Story()
    log.next_group()
    log.publish("orders", encoded_bytes(b"{}"))
    for number in range(1, 25):
        group = log.next_group()
        if number == 3 or dice.random() < 0.4:
            version: Version | None = None
            if story.current is not None and dice.random() < 0.2:
                log.schema("orders", DROPPED)
            else:
                least = {"own": 1, "inner": 0, "list": 0, "map": 0}
                version = {
                    key: dice.sample(sorted(SCALARS), dice.randrange(low, 4))
                    for key, low in least.items()
                }
                set_schema(place, "orders", number, definition_of(version))
            story.versions.append((group, version))
        else:
            log.publish("others", encoded_bytes(b"{}"))
            body = {} if story.current is None else body_of(story.current)
            [sequence] = log.publish("orders", encoded_bytes(json.dumps(body).encode()))
            if story.current is not None:
                story.rows.append((group, sequence, story.current))
        if dice.random() < 0.3:
            story.commits[log.commit()] = group
        if number == 12:
            place.materialize()
    log.publish("others", encoded_bytes(b"{}"))
    story.commits[log.commit()] = log.group
    place.materialize()
    return story


@pytest.mark.parametrize("seed", [1, 2])
def test_any_moment_of_random_schemas_equals_the_model(place: Place, seed: int) -> None:
    """Rows, columns and what lies within columns, by time and by version; before the first schema
    it is an error."""
    dice = random.Random(seed)
    story = live(place, dice)
    home, first, last = str(place.home.root), story.versions[0][0], place.log.group
    for at in (1, first - 1):
        with pytest.raises(InvalidRequest, match=r"'orders' never had a schema: its first one"):
            topic_as_of(place.spark, home, "orders", time_of(at))
    asked: list[tuple[datetime | int | None, int]] = [
        (time_of(group) + timedelta(seconds=dice.choice((0, 5))), group)
        for group in dice.sample(range(first, last), 4)
    ]
    asked += [one for one in dice.sample(sorted(story.commits.items()), 2) if one[1] >= first]
    for as_of, group in [*asked, (None, last)]:
        compare(story, topic_as_of(place.spark, home, "orders", as_of), group)


def compare(story: Story, found: DataFrame, group: int) -> None:
    """These are the rows and columns as of this group."""
    some = [one for at, one in story.versions if at <= group and one is not None]
    known = {key: {name for one in some for name in one[key]} for key in some[0]}
    within = [key for key in ("inner", "list", "map") if known[key]]
    assert set(found.columns) == {*OWN.names, *known["own"], *within}
    for key in within:
        assert names_of(found.schema[key].dataType) == known[key]
    wanted = {sequence: whole(one, known) for at, sequence, one in story.rows if at <= group}
    assert values(found) == wanted, group


def values(found: DataFrame) -> dict[int, object]:
    some = {}
    for row in found.collect():
        said = {name: plain(one) for name, one in row.asDict().items() if name not in OWN.names}
        some[row["_sequence"]] = said
    return some


@pytest.fixture(scope="module")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A group each for what its comment says."""
    place = Place(spark, tmp_path_factory.mktemp("told"))
    log = place.log
    log.next_group()  # 1: numbers
    set_schema(place, "orders", 1, {"id": {"type": "integer"}})
    log.next_group()  # 2: one of them
    log.publish("orders", encoded_bytes(b'{"id": 1}'))
    log.commit()
    log.next_group()  # 3: texts, in the next table; nothing lies in it yet
    set_schema(place, "orders", 2, {"id": {"type": "string"}})
    log.commit()
    log.group = 12  # the next day: one of these
    log.publish("orders", encoded_bytes(b'{"id": "two"}'))
    log.next_group()  # 13
    log.publish("others", encoded_bytes(b"{}"))
    log.commit()
    place.materialize()
    return place


def test_another_type_is_text_from_then_on(told: Place) -> None:
    """As in the view of now, which it is as of now."""
    home, spark = str(told.home.root), told.spark
    kinds = {
        group: topic_as_of(spark, home, "orders", time_of(group)).schema["id"].dataType.typeName()
        for group in (1, 2, 3, 12)
    }
    assert kinds == {1: "long", 2: "long", 3: "string", 12: "string"}
    assert values(topic_as_of(spark, home, "orders", time_of(1))) == {}
    assert values(topic_as_of(spark, home, "orders", time_of(2))) == {0: {"id": 1}}
    assert values(topic_as_of(spark, home, "orders", time_of(3))) == {0: {"id": "1"}}
    [program] = [one.text for one in doc_blocks.blocks("docs/guides/typed-tables.md", "python")]
    exec(program.replace("build/home", home), {})  # noqa: S102
    register(spark, home)
    now = topic_as_of(spark, home, "orders")
    assert values(now) == values(spark.table("orders")) == {0: {"id": "1"}, 1: {"id": "two"}}


def test_what_there_is_not_is_said(told: Place) -> None:
    home, spark = str(told.home.root), told.spark
    with pytest.raises(InvalidRequest, match="'others' never had a schema: no schema of it was"):
        topic_as_of(spark, home, "others")
    with pytest.raises(InvalidRequest, match="Version 99 of topic_log isn't in the tables yet"):
        topic_as_of(spark, home, "orders", 99)


def test_rows_that_were_removed_are_no_error_where_they_do_not_matter(
    told: Place, tmp_path: Path
) -> None:
    """Without the days in `messages` it can't be told which messages lay in the log then; what is
    still there tells it."""
    place = told.copied(tmp_path / "copy")
    home, spark, folder = str(place.home.root), place.spark, place.places.table("messages")
    table = DeltaTable(folder)
    table.delete("sequence < 1")
    table.alter.set_table_properties({REMOVED: "2026-11-22"}, raise_if_not_exists=False)
    with pytest.raises(InvalidRequest, match=r"can't be told any more: .* older than 2026-11-22"):
        topic_as_of(spark, home, "orders", time_of(3))
    assert len(values(topic_as_of(spark, home, "orders", time_of(12)))) == 2
    assert len(values(topic_as_of(spark, home, "orders", time_of(20)))) == 2
