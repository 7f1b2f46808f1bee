"""Forecast of a rewind from the tables, before it is done."""

from dataclasses import dataclass

from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.log.log_position import Place
from distributary.pipeline.transforms.materialize.acks import NEVER_OWED
from distributary.pipeline.transforms.past.history_matches import matches, stretch
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.views.pending import find, owed


@dataclass(frozen=True, slots=True)
class Rewinding:
    """Forecast of a subscription's rewind to `sequence`, as of a version of topic_log, in messages.

    `again`: settled messages that would be owed again; `anyway`: owed ones that stay owed;
    `expired`: messages of both kinds that have expired and wouldn't be delivered: they are in
    neither count. `dropped`: owed messages before the place, which wouldn't be owed any more.
    `gone`: messages that would be owed again if the log still had them; unless it is 0, or
    `sequence` is beyond them, the gateway refuses the rewind and names `log_from`, the first
    sequence that the log has.
    """

    subscription: str
    topic: str
    selector: str | None
    sequence: int
    again: int
    anyway: int
    expired: int
    dropped: int
    gone: int
    log_from: int
    possible: bool
    log_version: int


def rewinding(tables: Tables, subscription: str, to: Place) -> Rewinding:
    """Forecast a rewind. `subscription` as in `pending`. Raises InvalidRequest as that does.

    Cost: the messages of the topic from the place on, and the subscription's acks of what it was
    never owed.
    """
    cursor = find(tables, subscription)
    within = stretch(tables, to)
    now = F.current_timestamp()
    never = (
        tables.acks.where(F.col("subscription") == cursor.subscription)
        .where(F.col("outcome").isin(*NEVER_OWED) & (F.col("sequence") >= within.start))
        .select("sequence")
        .distinct()
    )
    pending = owed(tables.messages, cursor).select("sequence", F.lit(True).alias("owed"))
    selected = (
        matches(tables, cursor.topic, cursor.selector, within)
        .select("sequence", "expires_at")
        .join(never, on="sequence", how="left_anti")
        .join(pending, on="sequence", how="left")
    )
    there = F.col("sequence") >= within.log_from
    over = F.coalesce(F.col("expires_at") <= now, F.lit(False))
    is_owed = F.col("owed").isNotNull()
    counts = selected.agg(
        F.count_if(there & ~over & ~is_owed).alias("again"),
        F.count_if(there & ~over & is_owed).alias("anyway"),
        F.count_if(there & over).alias("expired"),
        F.count_if(~there).alias("gone"),
    )
    before = pending.where(F.col("sequence") < within.start).agg(F.count("*").alias("dropped"))
    [row] = counts.crossJoin(before).collect()
    return Rewinding(
        subscription=cursor.subscription,
        topic=cursor.topic,
        selector=cursor.selector,
        sequence=within.start,
        again=row.again,
        anyway=row.anyway,
        expired=row.expired,
        dropped=row.dropped,
        gone=row.gone,
        log_from=within.log_from,
        possible=within.start >= within.log_from,
        log_version=cursor.log_version,
    )
