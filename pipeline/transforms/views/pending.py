"""Pending messages of a subscription: those of its topic that it is owed and has not settled."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, cast
from urllib.parse import unquote

import numpy as np
import pandas as pd
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.sql.types import BooleanType

from distributary.pipeline.errors import InvalidRequest, NotInLog
from distributary.pipeline.transforms.materialize.settled import blocks, without_settled
from distributary.pipeline.transforms.schema.claimed_topics import is_of
from distributary.pipeline.transforms.schema.home_tables import Tables, whole
from distributary.pipeline.transforms.schema.lake_rows import Found, found_in
from distributary.pipeline.transforms.schema.spark_schema import MESSAGES
from distributary.pipeline.transforms.selector.selecting import selects
from distributary.pipeline.transforms.views.claiming import Claims, claimed
from distributary.pipeline.transforms.views.file_sums import small_table, within_reach

#: What is asked of one cursor.
_CURSOR: Final = (
    *("subscription", "topic", "selector", "floor", "group"),
    *("settled", "settled_count", "log_version"),
)


def pending(spark: SparkSession, place: str, subscription: str) -> DataFrame:
    """The rows of `messages` that a durable subscription is owed, as of the last materialization.

    `place` is the folder of Spark's tables or the home above it. `subscription` is an id, such as
    `global/dispatchers`, or a bare name that only one subscription has. Of a lake it is the rows of
    all logs that have the subscription, with a column `log` in front. Raises InvalidRequest when
    there are no tables, no such subscription or several.

    Cost: the files and row groups of the topic from the floor on, and of those the columns that
    are asked for.
    """

    def found(tables: Tables) -> Found:
        cursor = find(tables, subscription)
        return cursor.subscription, owed(tables.messages, cursor)

    return found_in(spark, place, found)


def pending_of_all(tables: Tables, claims: Claims | None = None) -> DataFrame:
    """Return the messages owed to every durable subscription: `subscription` and the columns of
    `pending`. `claims` are read unless they are given.

    Cost: each message from the lowest floor on meets the cursors of its topic. The plan has one
    condition for each distinct selector and doesn't grow with the subscriptions.
    """
    claims = Claims.of(tables) if claims is None else claims
    cursors = claims.cursors
    subscribers = cursors.select(
        "subscription",
        F.col("topic").alias("_topic"),
        F.col("selector").alias("_selector"),
        F.col("floor").alias("_floor"),
        F.col("group").alias("_group"),
    )
    lowest = cursors.select(F.min("floor")).scalar()
    messages = tables.messages.where(F.col("sequence") >= lowest)
    mine = (F.col("sequence") >= F.col("_floor")) & (F.col("group") <= F.col("_group"))
    rows = claimed(subscribers, messages, mine, claims)
    rows = rows.select("subscription", *MESSAGES.names)
    return _with_states(without_settled(rows, blocks(cursors), claims.settled), "subscription")


def find(tables: Tables, subscription: str) -> Row:
    """The one cursor with this id, or with this name if no id is equal to it. No other cursor's
    bitmap becomes an object of the driver. Raises InvalidRequest, and NotInLog when there is none.

    Cost: no job of Spark where the files are within reach.
    """
    cursors, folder = tables.cursors, tables.folder
    if within_reach(tables):
        known = [row["subscription"] for row in small_table(folder, "cursors", ("subscription",))]
        name = meant(known, subscription)
        rows = small_table(folder, "cursors", _CURSOR, only=("subscription", name))
        cursor = Row(**rows[0]) if rows else None
    else:
        name = meant([row[0] for row in cursors.select("subscription").collect()], subscription)
        cursor = cursors.where(F.col("subscription") == name).select(*_CURSOR).first()
    if cursor is None:
        raise NotInLog(f"The subscription {name} has just ended.")
    return cursor


def meant(known: Iterable[str], subscription: str) -> str:
    """The one of these ids that is meant, by itself or by its bare name. Raises InvalidRequest,
    and NotInLog when there is none."""
    ids = sorted(known)
    found = [one for one in ids if one == subscription]
    found = found or [one for one in ids if _name(one) == subscription]
    if len(found) > 1:
        several = ", ".join(found)
        raise InvalidRequest(
            f"{subscription!r} names several subscriptions, give an id: {several}."
        )
    if not found:
        there = ", ".join(ids) or "none"
        raise NotInLog(f"There is no durable subscription {subscription!r}; there are: {there}.")
    return found[0]


def owed(messages: DataFrame, cursor: Row) -> DataFrame:
    """Of `messages`, those that the subscription of `cursor` is owed and has not settled, and
    whether they are `expired` or `delayed` now. Columns that `messages` lacks are null."""
    mine = (
        is_of(cursor.topic) & (F.col("sequence") >= cursor.floor) & (F.col("group") <= cursor.group)
    )
    rows = whole(messages, MESSAGES).where(mine)
    if cursor.settled_count:
        rows = rows.where(~_in(bytes(cursor.settled))(F.col("sequence")))
    if cursor.selector is not None:
        rows = rows.where(selects(cursor.selector))
    return _with_states(rows)


def _with_states(rows: DataFrame, *before: str) -> DataFrame:
    now = F.current_timestamp()
    return rows.select(
        *before,
        *MESSAGES.names,
        F.coalesce(F.col("expires_at") <= now, F.lit(False)).alias("expired"),
        F.coalesce(F.col("deliver_at") > now, F.lit(False)).alias("delayed"),
    )


def _in(bitmap: bytes) -> Callable[[Column], Column]:
    """Whether a sequence is in a bitmap. A worker unpacks the bitmap once per task, and sees
    sequences only, so bodies are read only if the query asks for them."""

    def contained(batches: Iterator[pd.Series]) -> Iterator[pd.Series]:
        members = np.asarray(BitMap64.deserialize(bitmap).to_array(), dtype=np.int64)
        for sequences in batches:
            yield pd.Series(np.isin(sequences.to_numpy(), members))

    # pyspark's stubs want a deprecated argument here; at run time the annotations say it.
    predicate: Callable[[Column], Column] = cast("Any", pandas_udf)(contained, BooleanType())
    return predicate


def _name(subscription: str) -> str:
    return unquote(subscription.rpartition("/")[2])
