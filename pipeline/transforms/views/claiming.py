"""The messages that subscriptions claim, for all subscriptions at once."""

from dataclasses import dataclass
from typing import Final, Self, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.model.topic_pattern import is_pattern
from distributary.pipeline.transforms.materialize.settled import EXCEPTIONS_IN_MEMORY
from distributary.pipeline.transforms.schema.claimed_topics import by_topic
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.selector.selecting import selected
from distributary.pipeline.transforms.views.file_sums import count_of, small_table, within_reach

#: Columns of cursors that views read.
_CURSOR: Final = (
    *("subscription", "topic", "selector", "floor", "group"),
    *("settled", "settled_count", "failures"),
)


#: Columns that make up a claim: subscribers with equal ones are evaluated once.
ASKED: Final = ("_topic", "_selector")


@dataclass(frozen=True, slots=True)
class Claims:
    """Facts that a plan is made from. A plan has a condition for each selector that a subscription
    has or had; its joins follow from the number of messages, and of sequences that cursors have
    settled above their floors. `cursors` are rows that a query reads once, in one version."""

    selectors: frozenset[str | None]
    patterns: frozenset[str]
    settled: int
    messages: int
    cursors: DataFrame

    @classmethod
    def of(cls, tables: Tables) -> Self:
        """Read the facts; the number of messages comes from the Delta log of `messages`."""
        cursors = tables.cursors
        said, messages = (_near if within_reach(tables) else _far)(tables)
        patterns = frozenset(topic for topic, _, _ in said if is_pattern(topic))
        selectors = frozenset(selector for _, selector, _ in said)
        settled = sum(count for _, _, count in said)
        if settled <= EXCEPTIONS_IN_MEMORY:
            cursors = once(cursors.select(*_CURSOR))
        return cls(selectors, patterns, settled, messages, cursors)


#: Each topic with a selector, the number of settled sequences, and of messages.
_Known: TypeAlias = tuple[list[tuple[str, str | None, int]], int]


def _near(tables: Tables) -> _Known:
    now = small_table(tables.folder, "cursors", ("topic", "selector", "settled_count"))
    ever = small_table(tables.folder, "subscriptions", ("topic", "selector"))
    said = [(row["topic"], row["selector"], row.get("settled_count", 0)) for row in [*now, *ever]]
    return said, count_of(f"{tables.folder}/messages")


def _far(tables: Tables) -> _Known:
    now = tables.cursors.select("topic", "selector", "settled_count")
    ever = tables.subscriptions.select(
        "topic", "selector", F.lit(0).cast("long").alias("settled_count")
    )
    settled = F.sum("settled_count").alias("settled")
    found = now.unionByName(ever).groupBy("topic", "selector").agg(settled).collect()
    return [(row.topic, row.selector, row.settled) for row in found], tables.messages.count()


def once(rows: DataFrame) -> DataFrame:
    """Return rows that a query reads only once, however often it uses them: all its parts see one
    version, which is no newer than the version of the tables joined with it. The rows pass the
    driver, so they must be few; each use of them costs a task."""
    # Spark finds equal subqueries, and Delta looks for the files of subqueries first.
    said = rows.coalesce(1).select(F.collect_list(F.struct("*"))).scalar()
    return one_row(rows.sparkSession).select(F.inline(said))


def one_row(spark: SparkSession) -> DataFrame:
    """Return one row in one task, to which scalar subqueries can be added."""
    return spark.range(0, 1, 1, 1)


def claimed(
    subscribers: DataFrame, messages: DataFrame, condition: Column, claims: Claims
) -> DataFrame:
    """Join each subscriber with each message of its topic (or of its pattern's topics) for which
    `condition` is true and which its selector selects: the columns of both.

    `subscribers` are few, with the columns `_topic` and `_selector`, and no column of `messages`.
    `claims` must have the selectors of all subscribers, also of those that were filtered out, as
    Spark evaluates the selector before that filter. Another selector ends the query with an error.

    Cost: each message is joined with the distinct selectors of its topic, and then with the
    subscribers whose selectors select it. Spark doesn't compile selectors, so they are evaluated
    before subscribers are joined. The plan has one condition for each distinct selector and doesn't
    grow with the subscribers.
    """
    known = by_topic(subscribers, messages, claims.patterns)
    each = [name for name in known.columns if name not in ASKED]
    alike = known.groupBy(*ASKED).agg(F.collect_list(F.struct(*each)).alias("_alike"))
    return (
        asked(alike, messages, claims)
        .select(*messages.columns, *ASKED, F.inline("_alike"))
        .where(condition)
    )


def asked(selectors: DataFrame, messages: DataFrame, claims: Claims) -> DataFrame:
    """Join each of `selectors` (columns of ASKED, no patterns) with each message that it selects.
    Otherwise as `claimed`."""
    return (
        F.broadcast(selectors)
        .join(messages, on=F.col("topic") == F.col("_topic"), how="inner")
        .where(selected(F.col("_selector"), claims.selectors))
    )
