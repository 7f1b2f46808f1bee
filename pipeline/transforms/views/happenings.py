"""All that happened, in one list: what was published, handed over and settled, and what became of
subscriptions."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.transforms.schema.deliveries import deliveries
from distributary.pipeline.transforms.schema.home_tables import Tables

#: The columns that every row has, each null where it means nothing.
COLUMNS = {
    "subscription": "string",
    "topic": "string",
    "sequence": "long",
    "consumer": "string",
    "by": "string",
}


def events(tables: Tables) -> DataFrame:
    """One row per event: `at`, the `event`, the `subscription`, `topic`, `sequence`, `consumer` and
    user (`by`) that it is about, and the `group` with which it became durable.

    `event` is `published`, `delivered`, an outcome of `acks`, or an event of `subscriptions`. In
    the order of `group`, and of `at` within one, they are the history as it was. A delivery has
    the group of its first outcome; one that has none yet isn't here.

    Cost: that of the tables that have the events asked for; a condition on `sequence`, `topic`,
    `subscription` or `group` reads no more of them than it must.
    """
    parts = (
        _named(tables.messages, at="published_at", event=F.lit("published")),
        _named(deliveries(tables), at="delivered_at", event=F.lit("delivered")),
        _named(tables.acks, at="settled_at", event=F.col("outcome")),
        _named(tables.subscriptions, at="recorded_at", event=F.col("event")),
    )
    published, *others = parts
    for part in others:
        published = published.unionByName(part)
    return published


def _named(rows: DataFrame, *, at: str, event: Column) -> DataFrame:
    about = (
        F.col(name) if name in rows.columns else F.lit(None).cast(kind).alias(name)
        for name, kind in COLUMNS.items()
    )
    return rows.select(F.col(at).alias("at"), event.alias("event"), *about, "group")
