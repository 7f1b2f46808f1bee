"""Which messages subscriptions claim, all of them at once."""

from dataclasses import dataclass
from typing import Final, Self, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from distributary.pipeline.model.topic_pattern import is_pattern
from distributary.pipeline.transforms.materialize.settled import EXCEPTIONS_IN_MEMORY
from distributary.pipeline.transforms.schema.claimed_topics import by_topic
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.selector.selecting import selected
from distributary.pipeline.transforms.views.file_sums import count_of, small_table, within_reach

#: What views ask cursors for.
_CURSOR: Final = (
    *("subscription", "topic", "selector", "floor", "group"),
    *("settled", "settled_count", "failures"),
)


#: What subscribers ask for: those that ask for the same are asked about together.
ASKED: Final = ("_topic", "_selector")


@dataclass(frozen=True, slots=True)
class Claims:
    """What must be known before there is a plan. It has a condition for each selector that a
    subscription has or had, and how it joins follows from how much there is: sequences that cursors
    have settled above their floors, and messages. `cursors` are rows of a query: what it asks them
    for has one version."""

    selectors: frozenset[str | None]
    patterns: frozenset[str]
    settled: int
    messages: int
    cursors: DataFrame

    @classmethod
    def of(cls, tables: Tables) -> Self:
        """The number of messages is in the table's log."""
        cursors = tables.cursors
        said, messages = (_near if within_reach(tables) else _far)(tables)
        patterns = frozenset(topic for topic, _, _ in said if is_pattern(topic))
        selectors = frozenset(selector for _, selector, _ in said)
        settled = sum(count for _, _, count in said)
        if settled <= EXCEPTIONS_IN_MEMORY:
            cursors = once(cursors.select(*_CURSOR))
        return cls(selectors, patterns, settled, messages, cursors)


#: Each topic with a selector, and how much is settled; how many messages.
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
    """These rows, which a query reads once, however often it asks for them: all of it sees one
    version, which is no newer than that of the tables that these rows meet. They pass the driver,
    so they must be few; what is derived of them costs a task."""
    # Spark finds equal subqueries, and Delta looks for the files of subqueries first.
    said = rows.coalesce(1).select(F.collect_list(F.struct("*"))).scalar()
    return one_row(rows.sparkSession).select(F.inline(said))


def one_row(spark: SparkSession) -> DataFrame:
    """One row, in one task, for what follows from scalar subqueries."""
    return spark.range(0, 1, 1, 1)


def claimed(
    subscribers: DataFrame, messages: DataFrame, condition: Column, claims: Claims
) -> DataFrame:
    """Each subscriber with each message of its topic (or of its pattern's topics) for which
    `condition` is true and which its selector selects: the columns of both.

    `subscribers` are few, with the columns `_topic` and `_selector`; those of `messages` aren't
    among theirs. `claims` are all that there are, also of subscribers that were left out: Spark
    asks for the selector before it leaves them out. A selector that isn't among them ends the query
    with an error.

    Cost: each message meets the distinct selectors of its topic, and then the subscribers that have
    those which select it. What is in a selector Spark doesn't compile, so it is asked before there
    are pairs. The plan has one condition for each distinct selector and doesn't grow with the
    subscribers.
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
    """Each of `selectors`, with the columns of ASKED, of which none is a pattern, with each message
    that it selects. As `claimed` else."""
    return (
        F.broadcast(selectors)
        .join(messages, on=F.col("topic") == F.col("_topic"), how="inner")
        .where(selected(F.col("_selector"), claims.selectors))
    )
