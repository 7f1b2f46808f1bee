"""How much each subscription had waiting over time, from rows alone.

A message is owed from when it was published, or from when the incarnation began that reaches back
to it; until it is settled for good, or the incarnation ends. What is settled in its own group as
`local`, `forbidden` or `redriven` was never owed, and `local` and `forbidden` never are.
"""

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.transforms.schema.claimed_topics import by_topic
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.schema.incarnations import incarnations
from distributary.pipeline.transforms.selector.selecting import selected

#: The width of a bucket where none is said.
WIDTH = timedelta(hours=1)

#: Buckets of one subscription; more are hardly a picture, and each is a row.
BUCKETS_MAX = 10_000

_US = timedelta(microseconds=1)

#: What is counted in a bucket.
_COUNTS = ("owed", "came", "settled", "dropped")


def backlog(
    tables: Tables,
    *,
    width: timedelta = WIDTH,
    since: datetime | None = None,
    until: datetime | None = None,
    subscription: str | None = None,
) -> DataFrame:
    """One row per subscription and bucket of time in which it was there: `begins_at`, `ends_at`,
    `owed` at its end, what `came`, was `settled` and was `dropped` (its incarnation ended) in it,
    and of what was owed at its end `oldest_at` and `oldest_seconds`.

    Buckets have the given width and begin at its multiples since 1970. They go from `since`, or
    the first beginning of a subscription, to `until`, or as far as `cursors` are; the last one
    ends there. `subscription` is an id, to look at it alone.

    Raises InvalidRequest for a width below a millisecond or more than BUCKETS_MAX buckets; where
    an end is open this ends the query.

    Cost: one pass over `messages` and `acks`, columns of headers alone unless a selector asks for
    more; the rest has as many rows as there are pairs of buckets that messages came and went in.
    """
    width_us = width // _US
    _check(width, since, until)
    group = F.coalesce(tables.cursors.select(F.max("group")).scalar(), F.lit(2**63 - 1))
    events = tables.subscriptions.where(F.col("group") <= group)
    if subscription is not None:
        events = events.where(F.col("subscription") == subscription)
    incarnation_rows = incarnations(events)
    selectors = [row.selector for row in events.select("selector").distinct().collect()]
    frame = _frame(tables, incarnation_rows, group, width_us, since, until)
    stays = _stays(tables, incarnation_rows, selectors, group)
    return _counted(stays, incarnation_rows, frame, width_us)


def _check(width: timedelta, since: datetime | None, until: datetime | None) -> None:
    if width < timedelta(milliseconds=1):
        raise InvalidRequest(f"A bucket of {width} is too short: a millisecond at least.")
    if since is not None and until is not None and (until - since) / width > BUCKETS_MAX:
        raise InvalidRequest(
            f"{since} to {until} has more than {BUCKETS_MAX} buckets of {width}: "
            "make them wider, or the window shorter."
        )


def _frame(
    tables: Tables,
    incarnation_rows: DataFrame,
    group: Column,
    width_us: int,
    since: datetime | None,
    until: datetime | None,
) -> DataFrame:
    """One row: the first and the last bucket, and the moment at which all ends."""
    versions = tables.log_versions.where(F.col("group") <= group)
    known = F.coalesce(versions.select(F.max("committed_at")).scalar(), F.current_timestamp())
    begin = incarnation_rows.select(F.min("began_at")).scalar() if since is None else F.lit(since)
    end = known if until is None else F.least(known, F.lit(until))
    frame = incarnation_rows.sparkSession.range(1).select(
        _bucket(begin, width_us).alias("first"),
        _bucket(end, width_us).alias("last"),
        end.alias("ends"),
    )
    many = F.col("last") - F.col("first") >= BUCKETS_MAX
    text = f"There are more than {BUCKETS_MAX} buckets of this width: make them wider, or say since"
    return frame.withColumn(
        "first", F.when(many, F.raise_error(F.lit(text)).cast("long")).otherwise(F.col("first"))
    )


def _stays(
    tables: Tables, incarnation_rows: DataFrame, selectors: list[str | None], group: Column
) -> DataFrame:
    """Every message that an incarnation was owed: `came_at` and `went_at` (null: it is), whether
    it was `settled`, and when it was published."""
    lives = incarnation_rows.select(
        "subscription",
        "began",
        "began_at",
        "ended",
        "ended_at",
        "floor",
        F.col("topic").alias("_topic"),
        F.col("selector").alias("_selector"),
    )
    messages = tables.messages.where(F.col("group") <= group)
    life = F.broadcast(by_topic(lives, messages))
    mine = (
        (F.col("topic") == F.col("_topic"))
        & (F.col("sequence") >= F.col("floor"))
        & (F.col("group") < F.coalesce("ended", F.lit(2**63 - 1)))
    )
    owed = (
        life.join(messages, on=mine, how="inner")
        .where(selected(F.col("_selector"), selectors))
        .select(
            "subscription",
            "began",
            "sequence",
            "group",
            "published_at",
            "ended_at",
            F.greatest("began_at", "published_at").alias("came_at"),
        )
    )
    joined = owed.join(
        _endings(tables, incarnation_rows, group),
        on=["subscription", "began", "sequence"],
        how="left",
    )
    never = F.coalesce(
        F.col("outcome").isin(Outcome.LOCAL.value, Outcome.FORBIDDEN.value)
        | ((F.col("outcome") == Outcome.REDRIVEN.value) & (F.col("settled_in") == F.col("group"))),
        F.lit(False),
    )
    settled = F.coalesce(F.col("settled_at") <= F.coalesce("ended_at", "settled_at"), F.lit(False))
    went_at = F.greatest("came_at", F.least("settled_at", "ended_at"))
    return joined.where(~never).select(
        "subscription",
        "published_at",
        "came_at",
        F.when(F.col("settled_at").isNotNull() | F.col("ended_at").isNotNull(), went_at).alias(
            "went_at"
        ),
        settled.alias("was_settled"),
    )


def _endings(tables: Tables, incarnation_rows: DataFrame, group: Column) -> DataFrame:
    """The first final settlement of each message in each incarnation."""
    life = F.broadcast(
        incarnation_rows.select(
            F.col("subscription").alias("_of"), "began", F.col("ended").alias("_ended")
        )
    )
    mine = (
        (F.col("subscription") == F.col("_of"))
        & (F.col("group") > F.col("began"))
        & (F.col("group") <= F.coalesce("_ended", F.lit(2**63 - 1)))
    )
    final = tables.acks.where(F.col("final") & (F.col("group") <= group))
    return (
        life.join(final, on=mine, how="inner")
        .groupBy("subscription", "began", "sequence")
        .agg(F.min_by(F.struct("settled_at", "outcome", "group"), "group").alias("end"))
        .select(
            "subscription",
            "began",
            "sequence",
            "end.settled_at",
            "end.outcome",
            F.col("end.group").alias("settled_in"),
        )
    )


def _counted(
    stays: DataFrame, incarnation_rows: DataFrame, frame: DataFrame, width_us: int
) -> DataFrame:
    """What came and went in each bucket, and what was there at its end."""
    alike = (
        stays.join(F.broadcast(frame), how="cross")
        .where(F.col("came_at") <= F.col("ends"))
        .select(
            "subscription",
            "published_at",
            _bucket(F.col("came_at"), width_us).alias("came_in"),
            _bucket(F.when(F.col("went_at") <= F.col("ends"), F.col("went_at")), width_us).alias(
                "went_in"
            ),
            "was_settled",
        )
        .groupBy("subscription", "came_in", "went_in", "was_settled")
        .agg(F.count("*").alias("n"), F.min("published_at").alias("oldest_at"))
    )
    framed = alike.join(F.broadcast(frame.select("first", "last")), how="cross")
    counted = framed.select("subscription", F.explode(_parts()).alias("part")).select(
        "subscription", "part.*"
    )
    spine = _spine(incarnation_rows, frame, width_us)
    return _rows(counted.unionByName(spine, allowMissingColumns=True), frame, width_us)


def _parts() -> Column:
    """What messages that came in one bucket and went in another mean for each bucket: one part for
    each at whose end they are there, one for where they came and one for where they went."""

    def part(bucket: Column, counts: dict[str, Column]) -> Column:
        fields = [counts.get(name, none).alias(name) for name in _COUNTS]
        oldest = F.col("oldest_at") if "owed" in counts else F.lit(None).cast("timestamp")
        return F.struct(bucket.alias("bucket"), *fields, oldest.alias("oldest_at"))

    n, none = F.col("n"), F.lit(0).cast("long")
    begin = F.greatest("came_in", "first")
    end = F.least(F.coalesce(F.col("went_in") - 1, F.col("last")), F.col("last"))
    there = F.transform(
        F.when(begin <= end, F.sequence(begin, end)).otherwise(F.array().cast("array<bigint>")),
        lambda bucket: part(bucket, {"owed": n}),
    )
    settled = F.when(F.col("was_settled"), n).otherwise(none)
    went = part(F.col("went_in"), {"settled": settled, "dropped": n - settled})
    return F.concat(there, F.array(part(F.col("came_in"), {"came": n}), went))


def _spine(incarnation_rows: DataFrame, frame: DataFrame, width_us: int) -> DataFrame:
    """A row for every bucket that a subscription lived in."""
    begin = F.greatest(_bucket(F.col("began_at"), width_us), F.col("first"))
    end = F.least(F.coalesce(_bucket(F.col("ended_at"), width_us), F.col("last")), F.col("last"))
    return (
        incarnation_rows.join(F.broadcast(frame), how="cross")
        .where(begin <= end)
        .select("subscription", F.explode(F.sequence(begin, end)).alias("bucket"))
        .distinct()
    )


def _rows(counted: DataFrame, frame: DataFrame, width_us: int) -> DataFrame:
    ends_at = F.least(F.timestamp_micros((F.col("bucket") + 1) * width_us), F.col("ends"))
    age = (F.unix_micros("ends_at") - F.unix_micros("oldest_at")) / 1_000_000
    return (
        counted.groupBy("subscription", "bucket")
        .agg(
            *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in _COUNTS),
            F.min("oldest_at").alias("oldest_at"),
        )
        .join(F.broadcast(frame), how="cross")
        .where(F.col("bucket").between(F.col("first"), F.col("last")))
        .withColumn("ends_at", ends_at)
        .select(
            "subscription",
            F.timestamp_micros(F.col("bucket") * width_us).alias("begins_at"),
            "ends_at",
            *_COUNTS,
            "oldest_at",
            age.alias("oldest_seconds"),
        )
    )


def _bucket(at: Column, width_us: int) -> Column:
    """The number of the bucket that a time is in."""
    return F.floor(F.unix_micros(at) / F.lit(width_us)).cast("long")
