"""The messages of the topic that a subscription claims, or of its pattern's topics."""

from collections.abc import Collection, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.model.topic_pattern import NOT_TOPICS, expression, is_pattern

_PATTERNS = "_pattern string, _expression string"


def is_of(topic: str) -> Column:
    """Whether a row with the column `topic` is of this topic, or its topic matches this pattern."""
    if not is_pattern(topic):
        return F.col("topic") == topic
    dotted = F.concat(F.col("topic"), F.lit("."))
    return _is_topic() & dotted.rlike(expression(topic))


def by_topic(claims: DataFrame, messages: DataFrame, patterns: Collection[str]) -> DataFrame:
    """`claims` have a column `_topic`. A claim of one of these patterns becomes a claim for each
    topic of `messages` that matches it, so that claims and messages join by equal topics.

    Cost: if there are patterns, one reading of the topics of `messages`.
    """
    if not patterns:
        return claims
    pairs = _pairs(sorted(patterns), messages)
    known = claims.where(~F.col("_topic").isin(list(patterns)))
    each = claims.withColumnRenamed("_topic", "_pattern").join(pairs, on="_pattern", how="inner")
    return known.unionByName(each.drop("_pattern"))


def _pairs(patterns: Sequence[str], messages: DataFrame) -> DataFrame:
    """Each pattern with each topic that matches it: `_pattern`, `_topic`."""
    rows = [(pattern, expression(pattern)) for pattern in patterns]
    expressions = F.broadcast(messages.sparkSession.createDataFrame(rows, _PATTERNS))
    topics = messages.select("topic").distinct().where(_is_topic())
    return topics.join(expressions, on=F.expr("concat(topic, '.') RLIKE _expression")).select(
        "_pattern", F.col("topic").alias("_topic")
    )


def _is_topic() -> Column:
    other = F.lit(False)
    for prefix in NOT_TOPICS:
        other |= F.col("topic").startswith(prefix)
    return ~other
