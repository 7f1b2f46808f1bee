"""The incarnations of every subscription, from its events.

Rule: an event that begins an incarnation at group G ends the one before it, and so does `deleted`.
      If one group has several events of one subscription, an event that begins an incarnation
      wins. A settlement belongs to the incarnation that began in a group before its own.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.model.subscription import BEGINNINGS, SubscriptionEvent

#: The events that begin an incarnation, or end it.
DECISIVE = sorted(event.value for event in [*BEGINNINGS, SubscriptionEvent.DELETED])

_DELETED = SubscriptionEvent.DELETED.value


def incarnations(subscriptions: DataFrame) -> DataFrame:
    """`subscriptions` in, one row per incarnation out: `subscription`, `topic`, `selector`,
    `floor` (the first sequence that it is owed), `began` and `ended` (groups), `began_at` and
    `ended_at`, `event` and `ended_by` (the events). The end of a living incarnation is null.

    Cost: as many rows as events, a few for each subscription.
    """
    decisive = (
        subscriptions.where(F.col("event").isin(*DECISIVE))
        .groupBy("subscription", "group")
        .agg(
            F.max_by(
                F.struct("topic", "selector", "floor", "event", "recorded_at"),
                F.col("event") != _DELETED,
            ).alias("last")
        )
        .select("subscription", "group", "last.*")
    )
    life = Window.partitionBy("subscription").orderBy("group")
    return (
        decisive.withColumns(
            {
                "ended": F.lead("group").over(life),
                "ended_at": F.lead("recorded_at").over(life),
                "ended_by": F.lead("event").over(life),
            }
        )
        .where(F.col("event") != _DELETED)
        .withColumnsRenamed({"group": "began", "recorded_at": "began_at"})
        .select(
            *("subscription", "topic", "selector", "floor", "event"),
            *("began", "began_at", "ended", "ended_at", "ended_by"),
        )
    )
