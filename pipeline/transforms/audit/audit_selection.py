"""Result of each selector for each message of its topic, decided by Spark for the audit."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import groupby

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.selector.parser import parse
from distributary.pipeline.transforms.selector.selector_column import column

#: Header fields whose columns came later than the table; in a row that has them, `delivery_count`
#: isn't null.
LATER = frozenset({"JMSXUserID", "JMSXGroupSeq", "JMSXDeliveryCount"})

#: Selectors that are evaluated in one reading of the messages: a plan of a thousand conditions
#: takes longer to make than the reading.
TOGETHER_MAX = 32


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """A selector on a topic or pattern, and its number."""

    topic: str
    number: int
    selector: str


def selection(messages: DataFrame, claims: Iterable[Claim], claimed: DataFrame) -> DataFrame:
    """One row per claim and message of its topics: `claim`, `sequence`, `group` and `selected`,
    which is null if the message's row lacks columns that the selector needs. `claimed` has the
    topics of each word."""
    ordered = sorted(claims)
    words = messages.withColumn("word", F.col("topic"))
    if any(claim.topic.startswith("pattern://") for claim in ordered):
        words = messages.join(claimed, on="topic", how="inner")
    lots = [
        _together(words, ordered[at : at + TOGETHER_MAX])
        for at in range(0, len(ordered), TOGETHER_MAX)
    ]
    if not lots:
        nothing = F.lit(None).cast("boolean").alias("selected")
        number = F.lit(0).cast("long").alias("claim")
        return messages.select(number, "sequence", "group", nothing).limit(0)
    return reduce(DataFrame.unionByName, lots)


def _together(words: DataFrame, claims: Sequence[Claim]) -> DataFrame:
    """The selection of some claims. `words` are the messages, once for each word of theirs."""
    answers: Column | None = None
    topics = []
    for topic, same in groupby(claims, lambda claim: claim.topic):
        topics.append(topic)
        here = F.col("word") == topic
        listed = F.array(*(_answer(claim) for claim in same))
        answers = F.when(here, listed) if answers is None else answers.when(here, listed)
    assert answers is not None  # noqa: S101 (a lot isn't empty)
    return (
        words.where(F.col("word").isin(*topics))
        .select("sequence", "group", F.explode(answers).alias("answer"))
        .select("answer.claim", "sequence", "group", "answer.selected")
    )


def _answer(claim: Claim) -> Column:
    selector = parse(claim.selector)
    known = F.col("error").isNull()
    if selector.identifiers & LATER:
        known &= F.col("delivery_count").isNotNull()
    return F.struct(
        F.lit(claim.number).cast("long").alias("claim"),
        F.when(known, column(selector)).alias("selected"),
    )
