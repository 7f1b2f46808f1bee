"""Which messages subscriptions claim, all of them at once."""

from dataclasses import dataclass
from typing import Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from distributary.pipeline.model.topic_pattern import is_pattern
from distributary.pipeline.transforms.schema.claimed_topics import by_topic
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.selector.selecting import selected


@dataclass(frozen=True, slots=True)
class Claims:
    """What must be known before there is a plan. It has a condition for each selector that a
    subscription has or had, and how it joins follows from how much there is: sequences that cursors
    have settled above their floors, and messages."""

    selectors: frozenset[str | None]
    patterns: frozenset[str]
    settled: int
    messages: int

    @classmethod
    def of(cls, tables: Tables) -> Self:
        """By one query; the number of messages is in the table's log."""
        now = tables.cursors.select("topic", "selector", "settled_count")
        ever = tables.subscriptions.select(
            "topic", "selector", F.lit(0).cast("long").alias("settled_count")
        )
        said = now.unionByName(ever).groupBy("topic", "selector")
        found = said.agg(F.sum("settled_count").alias("settled")).collect()
        messages = tables.messages.count()
        patterns = frozenset(row.topic for row in found if is_pattern(row.topic))
        selectors = frozenset(row.selector for row in found)
        return cls(selectors, patterns, sum(row.settled for row in found), messages)


def claimed(
    subscribers: DataFrame, messages: DataFrame, condition: Column, claims: Claims
) -> DataFrame:
    """Each subscriber with each message of its topic (or of its pattern's topics) for which
    `condition` is true and which its selector selects: the columns of both.

    `subscribers` are few, with the columns `_topic` and `_selector`; those of `messages` aren't
    among theirs. `claims` are all that there are, also of subscribers that were left out: Spark
    asks for the selector before it leaves them out. A selector that isn't among them ends the query
    with an error.

    Cost: each message meets the subscribers of its topic; the plan has one condition for each
    distinct selector and doesn't grow with the subscribers.
    """
    meets = (F.col("topic") == F.col("_topic")) & condition
    return (
        F.broadcast(by_topic(subscribers, messages, claims.patterns))
        .join(messages, on=meets, how="inner")
        .where(selected(F.col("_selector"), claims.selectors))
    )
