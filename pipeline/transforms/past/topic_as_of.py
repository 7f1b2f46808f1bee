"""A topic's typed rows as of a time or a version of the log.

Rule 1: a row is there if its message lay in the log by then, whenever it was materialized.
Rule 2: tables and columns are those of the schemas that had been set by then: what later versions
        added isn't there, within structs, lists and maps, too; a table that a later version began
        isn't, either.
Rule 3: where it can't be told any more which messages lay in the log then, that is an error.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from distributary.pipeline.errors import InvalidRequest, NotInLog
from distributary.pipeline.table_places import FOLDER
from distributary.pipeline.transforms.past.moment import AsOf, Moment, moment
from distributary.pipeline.transforms.past.state_as_of import removed_before
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.schema.lake_rows import Found, found_in
from distributary.pipeline.transforms.typed.topic_tables import in_order, topic_tables
from distributary.pipeline.transforms.typed.topic_views import together, topic_of_logs


def topic_as_of(spark: SparkSession, place: str, topic: str, as_of: AsOf = None) -> DataFrame:
    """The typed rows of a topic as of `as_of`, with the columns of then.

    `place` is the folder of Spark's tables or the home above it, `topic` a topic's whole name
    (`orders`, `queue://orders`); `as_of` a time (UTC if it doesn't say otherwise), a version of
    topic_log, or None for now: then it is the view of that name. Of a lake it is the rows of all
    logs that have typed tables of the topic, with a column `_log` in front. Raises InvalidRequest
    when the topic had no schema by then, or when the tables don't have that moment, yet or any
    more.

    Cost: a look at `schemas` and `messages`, and the files of the typed tables that have rows of
    then.
    """

    def found(tables: Tables) -> Found:
        return topic, _topic_as_of(tables, topic, as_of)

    by_version = isinstance(as_of, int)
    return found_in(spark, place, found, by_version=by_version, unite=topic_of_logs)


def _topic_as_of(tables: Tables, topic: str, as_of: AsOf) -> DataFrame:
    at = moment(tables, as_of)
    rows = [row.asDict() for row in tables.schemas.collect()]
    found = topic_tables(in_order(row for row in rows if row["group"] <= at.group), topic)
    if not found.tables:
        raise NotInLog(f"As of {at.said} '{topic}' never had a schema: {_first(rows, topic)}")
    there = tables.some(f"{FOLDER}/{name}" for name in found.tables)
    head = _head(tables, at)
    parts = [
        _of_then(there.get(f"{FOLDER}/{name}"), tables.spark, columns, head)
        for name, columns in found.tables.items()
    ]
    return together(parts)


def _first(rows: list[dict[str, object]], topic: str) -> str:
    """When it first had one."""
    for row in sorted(rows, key=lambda row: int(str(row["group"]))):
        if topic_tables(in_order([row]), topic).tables:
            return f"its first one was set at {row['recorded_at']}."
    return "no schema of it was ever set."


def _head(tables: Tables, at: Moment) -> int | None:
    """The sequence after the last message of that moment; None: all that there are lay in the log.
    Sequences have no gaps, so where a message and the next one are there, that is certain; else
    only if none was ever removed."""
    if at.time is None:
        return None
    before, after = F.col("group") <= at.group, F.col("group") > at.group
    last = F.max(F.when(before, F.col("sequence"))).alias("last")
    later = F.min(F.when(after, F.col("sequence"))).alias("later")
    [row] = tables.messages.agg(last, later).collect()
    if row.last is not None and row.last + 1 == row.later:
        return int(row.later)
    if at.newest and row.later is None:
        return None
    if removed := removed_before(tables, "messages"):
        raise InvalidRequest(
            f"Which messages lay in the log as of {at.said} can't be told any more: `messages` has "
            f"lost what is older than {removed}."
        )
    return None if row.later is None else int(row.later)


def _of_then(
    rows: DataFrame | None, spark: SparkSession, columns: StructType, head: int | None
) -> DataFrame:
    """A table's rows before `head`, with these columns."""
    if rows is None:  # a table is made with its first row
        return spark.createDataFrame([], columns)
    if head is not None:
        rows = rows.where(F.col("_sequence") < head)
    there = {field.name: field.dataType for field in rows.schema}
    return rows.select(
        *(
            _narrowed(_column(field.name), there.get(field.name), field.dataType).alias(
                field.name, metadata=field.metadata
            )
            for field in columns
        )
    )


def _narrowed(column: Column, there: DataType | None, wanted: DataType) -> Column:
    """A value without what later versions have added within it."""
    match there, wanted:
        case None, _:
            return F.lit(None).cast(wanted)
        case StructType(), StructType() if there != wanted:
            known = {field.name: field.dataType for field in there}
            fields = (
                _narrowed(column.getField(one.name), known.get(one.name), one.dataType).alias(
                    one.name, metadata=one.metadata
                )
                for one in wanted
            )
            return F.when(column.isNotNull(), F.struct(*fields))
        case ArrayType(), ArrayType() if there != wanted:
            inner, element = there.elementType, wanted.elementType
            return F.transform(column, lambda one: _narrowed(one, inner, element))
        case MapType(), MapType() if there != wanted:
            inner, value = there.valueType, wanted.valueType
            return F.transform_values(column, lambda _key, one: _narrowed(one, inner, value))
    return column


def _column(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")
