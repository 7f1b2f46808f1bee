"""What a subscription is owed: the messages of its topic that it has not settled."""

from collections.abc import Callable, Iterator
from typing import Any, cast
from urllib.parse import unquote

import numpy as np
import pandas as pd
from pyroaring import BitMap64
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import BooleanType

from pipeline.errors import InvalidRequest
from pipeline.selector.parser import parse
from pipeline.transforms.schema import MESSAGES
from pipeline.transforms.selector import column

#: Header fields whose columns came later than the table; in a row that has them, `delivery_count`
#: isn't null.
LATER = frozenset({"JMSXUserID", "JMSXGroupSeq", "JMSXDeliveryCount"})


def pending(spark: SparkSession, tables: str, subscription: str) -> DataFrame:
    """The rows of `messages` that a durable subscription is owed, as of the last materialization.

    `tables` is the folder of Spark's tables or the home above it. `subscription` is an id, such as
    `global/dispatchers`, or a bare name that only one subscription has. Raises InvalidRequest when
    there are no tables, no such subscription or several.
    """
    root = tables.rstrip("/")
    for folder in (root, f"{root}/tables"):
        try:
            cursors = spark.read.format("delta").load(f"{folder}/cursors")
        except AnalysisException:
            continue
        cursor = find(cursors, subscription)
        return owed(spark.read.format("delta").load(f"{folder}/messages"), cursor)
    raise InvalidRequest(
        f"There are no tables in {tables}: run `distributary jobs materialize` first."
    )


def find(cursors: DataFrame, subscription: str) -> Row:
    """The one cursor with this id, or with this name if no id is equal to it."""
    rows = cursors.collect()
    same_id = [row for row in rows if row.subscription == subscription]
    same_name = [row for row in rows if _name(row.subscription) == subscription]
    found = same_id or same_name
    if len(found) == 1:
        return found[0]
    if found:
        ids = ", ".join(sorted(row.subscription for row in found))
        raise InvalidRequest(f"{subscription!r} names several subscriptions, give an id: {ids}.")
    ids = ", ".join(sorted(row.subscription for row in rows)) or "none"
    raise InvalidRequest(f"There is no durable subscription {subscription!r}; there are: {ids}.")


def owed(messages: DataFrame, cursor: Row) -> DataFrame:
    """Of `messages`, those that the subscription of `cursor` is owed and has not settled, and
    whether they are `expired` or `delayed` now.

    A row that lacks what a selector asks for stays in, whatever the gateway selects: one with an
    `error`, or one that was made before `messages` had the columns in LATER.
    """
    lacking = {
        field.name: F.lit(None).cast(field.dataType)
        for field in MESSAGES.fields
        if field.name not in messages.columns
    }
    mine = (
        (F.col("topic") == cursor.topic)
        & (F.col("sequence") >= cursor.floor)
        & (F.col("group") <= cursor.group)
    )
    rows = messages.where(mine).withColumns(lacking)
    if cursor.settled_count:
        rows = rows.where(~_in(bytes(cursor.settled))(F.col("sequence")))
    if cursor.selector is not None:
        selector = parse(cursor.selector)
        known = F.col("error").isNull()
        if selector.identifiers & LATER:
            known &= F.col("delivery_count").isNotNull()
        rows = rows.where(~known | column(selector))
    now = F.current_timestamp()
    return rows.select(
        *MESSAGES.names,
        F.coalesce(F.col("expires_at") <= now, F.lit(False)).alias("expired"),
        F.coalesce(F.col("deliver_at") > now, F.lit(False)).alias("delayed"),
    )


def _in(bitmap: bytes) -> Callable[[Column], Column]:
    """Whether a sequence is in a bitmap. A worker unpacks the bitmap once per task, and sees
    sequences only, so bodies that nobody asked for are never read."""

    def contained(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        members = np.asarray(BitMap64.deserialize(bitmap).to_array(), dtype=np.int64)
        for sequences in batches:
            yield pd.Series(np.isin(sequences.to_numpy(), members))

    # pyspark's stubs want a deprecated argument here; at run time the annotations say it.
    predicate: Callable[[Column], Column] = cast("Any", pandas_udf)(contained, BooleanType())
    return predicate


def _name(subscription: str) -> str:
    return unquote(subscription.rpartition("/")[2])
