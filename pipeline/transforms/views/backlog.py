"""How much each subscription had waiting over time, from rows alone.

A message is owed from when it was published, or from when the incarnation began that reaches back
to it; until it is settled for good, or the incarnation ends. What is settled in its own group as
`local`, `forbidden` or `redriven` was never owed, and `local` and `forbidden` never are.

Rule 1: what an incarnation was owed has been settled for good, or waits (`pending`), or was dropped
        when the incarnation ended; one of the three.
Rule 2: an incarnation settles what it is owed, once (the audit's check `settled_twice`), or what
        is below its floor. So a settlement needs neither topic nor selector to count.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import BEGINNINGS
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.schema.incarnations import incarnations
from distributary.pipeline.transforms.schema.lake_rows import of_logs
from distributary.pipeline.transforms.views.claiming import Claims, claimed
from distributary.pipeline.transforms.views.pending import pending_of_all
from distributary.pipeline.transforms.views.publication_times import with_publication
from distributary.pipeline.transforms.views.settled_sums import NEVER, Clip, can_sum, settled_alike

#: The width of a bucket where none is said.
WIDTH = timedelta(hours=1)

#: Buckets of one subscription; more are hardly a picture, and each is a row.
BUCKETS_MAX = 10_000

_US = timedelta(microseconds=1)

#: The first and the last bucket, and the moment at which all ends.
_FRAME = ("first", "last", "ends")

#: What is counted in a bucket.
_COUNTS = ("owed", "came", "settled", "dropped")


def backlog(
    tables: Tables | Mapping[str, Tables],
    *,
    width: timedelta = WIDTH,
    since: datetime | None = None,
    until: datetime | None = None,
    back: timedelta | None = None,
    subscription: str | None = None,
) -> DataFrame:
    """One row per subscription and bucket of time in which it was there: `begins_at`, `ends_at`,
    `owed` at its end, what `came`, was `settled` and was `dropped` (its incarnation ended) in it,
    and of what was owed at its end `oldest_at` and `oldest_seconds`.

    Buckets have the given width and begin at its multiples since 1970. They go from `since`, or
    the first beginning of a subscription, to `until`, or as far as `cursors` are; the last one
    ends there. `back` is how far they go back from there at most. `subscription` is an id, to look
    at it alone. Of the tables of a lake's logs (`lake_tables`) it is the rows of all, with a column
    `log` in front.

    Raises InvalidRequest for a width below a millisecond or more than BUCKETS_MAX buckets; where
    an end is open this ends the query.

    Cost: one pass over `acks`, each row of which looks for its message; what `pending` costs; for
    incarnations that have ended the messages that they were owed. The rest has as many rows as
    there are pairs of buckets that messages came and went in.
    """
    asked = Buckets(width // _US, since, until, back)
    asked.check()
    if isinstance(tables, Tables):
        return _backlog(tables, asked, subscription)
    return of_logs({log: _backlog(one, asked, subscription) for log, one in tables.items()})


def _backlog(tables: Tables, asked: "Buckets", subscription: str | None) -> DataFrame:
    known = tables.known()
    claims = Claims.of(known)
    return History.of(known, claims, pending_of_all(known, claims), subscription).counted(asked)


@dataclass(frozen=True, slots=True)
class Buckets:
    """Which buckets are wanted: their width, from when and to when, and how far back at most."""

    width_us: int
    since: datetime | None = None
    until: datetime | None = None
    back: timedelta | None = None

    @property
    def clipped(self) -> bool:
        """Whether something was before the first one."""
        return self.since is not None or self.back is not None

    def check(self) -> None:
        """Raises InvalidRequest for a width below a millisecond, or too many buckets."""
        width = self.width_us * _US
        if width < timedelta(milliseconds=1):
            raise InvalidRequest(f"A bucket of {width} is too short: a millisecond at least.")
        if self.since is None or self.until is None:
            return
        if (self.until - self.since) / width > BUCKETS_MAX:
            raise InvalidRequest(
                f"{self.since} to {self.until} has more than {BUCKETS_MAX} buckets of {width}: "
                "make them wider, or the window shorter."
            )


@dataclass(frozen=True, slots=True)
class History:
    """What came to subscriptions and went, message by message: what every width begins with."""

    tables: Tables
    events: DataFrame
    lives: DataFrame
    #: What was settled, unless Arrow sums that up; and all else.
    settled: DataFrame | None
    stays: DataFrame
    #: The last group that all of it has.
    group: Column

    @classmethod
    def of(
        cls, tables: Tables, claims: Claims, owed: DataFrame, subscription: str | None = None
    ) -> Self:
        """`owed` is what `pending_of_all` says; `subscription` is an id, to look at it alone."""
        group = F.coalesce(tables.cursors.select(F.max("group")).scalar(), F.lit(2**63 - 1))
        events = tables.subscriptions.where(F.col("group") <= group)
        if subscription is not None:
            events = events.where(F.col("subscription") == subscription)
        lives = incarnations(events)
        alone = can_sum(tables, claims.messages)
        settled = None if alone else _settled(tables, lives, group, claims)
        stays = _waiting(owed, lives).unionByName(_dropped(tables, lives, claims))
        return cls(tables, events, lives, settled, stays, group)

    def counted(self, buckets: "Buckets") -> DataFrame:
        """The rows of `backlog`."""
        frame = _frame(self.tables, self.events, self.group, buckets)
        if self.settled is None:
            known = frame.select("first", self.group.alias("upto"))
            clip = Clip(buckets.width_us, buckets.until, buckets.clipped)
            settled = settled_alike(self.tables.folder, self.lives, known, clip)
            parts = _alike(self.stays, frame, buckets).unionByName(settled)
        else:
            parts = _alike(self.settled.unionByName(self.stays), frame, buckets)
        # All that follows is by subscription: rows are brought together once.
        alike = (
            parts.repartition("subscription")
            .groupBy("subscription", "began", "came_in", "went_in", "was_settled")
            .agg(F.sum("n").alias("n"), F.min("oldest_at").alias("oldest_at"))
        )
        lived = _lived(self.lives, buckets.width_us).repartition("subscription")
        return _counted(alike.unionByName(lived, allowMissingColumns=True), frame, buckets.width_us)


def _frame(
    tables: Tables,
    events: DataFrame,
    group: Column,
    asked: Buckets,
) -> DataFrame:
    """One row: the first and the last bucket, and the moment at which all ends."""
    versions = tables.log_versions.where(F.col("group") <= group)
    known = F.coalesce(versions.select(F.max("committed_at")).scalar(), F.current_timestamp())
    begun = events.where(F.col("event").isin([event.value for event in BEGINNINGS]))
    if asked.since is None:
        begin = begun.select(F.min("recorded_at")).scalar()
    else:
        begin = F.lit(asked.since)
    end = known if asked.until is None else F.least(known, F.lit(asked.until))
    if asked.back is not None:
        begin = F.greatest(begin, end - F.lit(asked.back))
    frame = events.sparkSession.range(1).select(
        _bucket(begin, asked.width_us).alias("first"),
        _bucket(end, asked.width_us).alias("last"),
        end.alias("ends"),
    )
    many = F.col("last") - F.col("first") >= BUCKETS_MAX
    text = f"There are more than {BUCKETS_MAX} buckets of this width: make them wider, or say since"
    return frame.withColumn(
        "first", F.when(many, F.raise_error(F.lit(text)).cast("long")).otherwise(F.col("first"))
    )


def _settled(tables: Tables, lives: DataFrame, group: Column, claims: Claims) -> DataFrame:
    """Every message that an incarnation was owed and has settled for good."""
    final = tables.acks.where(
        F.col("final") & ~F.col("outcome").isin(*NEVER) & (F.col("group") <= group)
    ).select(
        *("subscription", "sequence", "outcome", "settled_at"), F.col("group").alias("settled_in")
    )
    mine = (
        (F.col("sequence") >= F.col("floor"))
        & (F.col("settled_in") > F.col("began"))
        & (F.col("settled_in") <= F.coalesce("ended", F.lit(2**63 - 1)))
    )
    # What was redriven in its message's own group was never owed.
    redriven = F.col("outcome") == Outcome.REDRIVEN.value
    rows = with_publication(_of(final, lives, mine), tables.messages, claims.messages).where(
        ~redriven | (F.col("settled_in") != F.col("published_in"))
    )
    in_time = F.col("settled_at") <= F.coalesce("ended_at", "settled_at")
    published_at = F.timestamp_micros("published_us")
    return rows.withColumn("published_at", published_at).select(
        *_stay(F.least("settled_at", "ended_at")), in_time.alias("was_settled")
    )


def _waiting(owed: DataFrame, lives: DataFrame) -> DataFrame:
    """Every message that a subscription is owed."""
    waiting = owed.select("subscription", "published_at")
    nothing = F.lit(None).cast("timestamp")
    return _of(waiting, lives, F.col("ended").isNull()).select(
        *_stay(nothing), F.lit(False).alias("was_settled")
    )


def _of(rows: DataFrame, lives: DataFrame, mine: Column) -> DataFrame:
    """Each row with the incarnation of its subscription for which `mine` is true."""
    life = F.broadcast(
        lives.select(
            F.col("subscription").alias("_of"),
            *("floor", "began", "began_at", "ended", "ended_at"),
        )
    )
    return rows.join(life, on=(F.col("subscription") == F.col("_of")) & mine, how="inner")


def _dropped(tables: Tables, lives: DataFrame, claims: Claims) -> DataFrame:
    """Every message that an incarnation was owed when it ended."""
    over = lives.where(F.col("ended").isNotNull()).select(
        *("subscription", "began", "began_at", "ended", "ended_at", "floor"),
        F.col("topic").alias("_topic"),
        F.col("selector").alias("_selector"),
    )
    mine = (F.col("sequence") >= F.col("floor")) & (F.col("group") < F.col("ended"))
    settled = (
        tables.acks.where(F.col("final"))
        .select("subscription", "sequence", F.col("group").alias("_settled_in"))
        .join(
            F.broadcast(over.select(F.col("subscription").alias("_of"), "began", "ended")),
            on=(F.col("subscription") == F.col("_of"))
            & F.col("_settled_in").between(F.col("began") + 1, F.col("ended")),
            how="inner",
        )
        .select("subscription", "began", "sequence")
    )
    return (
        claimed(over, tables.messages, mine, claims)
        .join(settled, on=["subscription", "began", "sequence"], how="left_anti")
        .select(*_stay(F.col("ended_at")), F.lit(False).alias("was_settled"))
    )


def _stay(went_at: Column) -> list[Column]:
    """What is said of a message that an incarnation was owed."""
    came_at = F.greatest("began_at", "published_at")
    return [
        *map(F.col, ("subscription", "began", "published_at")),
        came_at.alias("came_at"),
        F.when(went_at.isNotNull(), F.greatest(came_at, went_at)).alias("went_at"),
    ]


def _alike(stays: DataFrame, frame: DataFrame, asked: Buckets) -> DataFrame:
    """How many came in one bucket and went in another, and the oldest of them. What was before the
    first bucket is in the one before it, and what had gone then is left out."""
    went_at = F.col("went_at")
    if asked.until is not None:
        stays = stays.where(F.col("came_at") <= F.lit(asked.until))
        went_at = F.when(went_at <= F.lit(asked.until), went_at)
    came_in, went_in = (_bucket(at, asked.width_us) for at in (F.col("came_at"), went_at))
    if asked.clipped:
        first = frame.select("first").scalar()
        stays = stays.where(F.coalesce(went_in >= first, F.lit(True)))
        came_in = F.greatest(came_in, first - 1)
    return (
        stays.withColumns({"came_in": came_in, "went_in": went_in})
        .groupBy("subscription", "began", "came_in", "went_in", "was_settled")
        .agg(F.count("*").alias("n"), F.min("published_at").alias("oldest_at"))
    )


def _lived(lives: DataFrame, width_us: int) -> DataFrame:
    """From which bucket to which each incarnation lived: rows without an `n`."""
    return lives.select(
        *("subscription", "began"),
        _bucket(F.col("began_at"), width_us).alias("came_in"),
        _bucket(F.col("ended_at"), width_us).alias("went_in"),
    )


def _counted(alike: DataFrame, frame: DataFrame, width_us: int) -> DataFrame:
    """What came and went in each bucket, and what was there at its end."""
    parts = F.when(F.col("n").isNull(), _nothing()).otherwise(F.concat(_changes(), _oldest()))
    counted = (
        alike.join(F.broadcast(frame), how="cross")
        .withColumn("_before", _gone_before())
        .select("subscription", *_FRAME, F.explode(parts).alias("part"))
        .select("subscription", *_FRAME, "part.*")
    )
    return _rows(counted, width_us)


def _nothing() -> Column:
    """A part for every bucket that an incarnation lived in."""
    begin = F.greatest("came_in", "first")
    return _each(begin, F.least("went_in", "last"), lambda bucket: _part(bucket, {}, None))


def _changes() -> Column:
    """What messages that came in one bucket and went in another change in these two; `owed` is by
    how much what is owed rises. What was before the first bucket is as if it had been in it."""

    def part(bucket: Column, counts: dict[str, Column]) -> Column:
        counted = bucket >= F.col("first")
        own = {name: F.when(counted, counts.get(name, _none())) for name in _COUNTS[1:]}
        return _part(F.greatest(bucket, F.col("first")), {"owed": counts["owed"], **own}, None)

    n = F.col("n")
    settled = F.when(F.col("was_settled"), n).otherwise(_none())
    came = part(F.col("came_in"), {"owed": n, "came": n})
    went = part(F.col("went_in"), {"owed": -n, "settled": settled, "dropped": n - settled})
    return F.when(F.col("went_in").isNull(), F.array(came)).otherwise(F.array(came, went))


def _gone_before() -> Column:
    """The bucket in which all that were published before these had gone, of one incarnation."""
    before = (
        Window.partitionBy("subscription", "began")
        .orderBy("oldest_at", "came_in")
        .rowsBetween(Window.unboundedPreceding, -1)
    )
    return F.max(_gone_in()).over(before)


def _none() -> Column:
    return F.lit(0).cast("long")


def _gone_in() -> Column:
    always = F.lit(2**63 - 1)
    return F.when(F.col("n").isNotNull(), F.coalesce(F.col("went_in"), always))


def _oldest() -> Column:
    """The buckets at whose end these were the oldest. Of one incarnation what is published later
    doesn't come before; so each is the oldest from when all before it are gone."""
    begin = F.greatest("came_in", "first", "_before")
    end = F.least(_gone_in() - 1, F.col("last"))
    return _each(begin, end, lambda bucket: _part(bucket, {}, F.col("oldest_at")))


def _each(begin: Column, end: Column, part: Callable[[Column], Column]) -> Column:
    none = F.array().cast("array<bigint>")
    return F.transform(F.when(begin <= end, F.sequence(begin, end)).otherwise(none), part)


def _part(bucket: Column, counts: dict[str, Column], oldest_at: Column | None) -> Column:
    oldest = F.lit(None) if oldest_at is None else oldest_at
    return F.struct(
        bucket.alias("bucket"),
        *(F.coalesce(counts.get(name, _none()), _none()).alias(name) for name in _COUNTS),
        oldest.cast("timestamp").alias("oldest_at"),
    )


def _rows(counted: DataFrame, width_us: int) -> DataFrame:
    ends_at = F.least(F.timestamp_micros((F.col("bucket") + 1) * width_us), F.col("ends"))
    so_far = Window.partitionBy("subscription").orderBy("bucket")
    age = (F.unix_micros("ends_at") - F.unix_micros("oldest_at")) / 1_000_000
    return (
        counted.groupBy("subscription", "bucket", *_FRAME)
        .agg(
            *(F.coalesce(F.sum(name), _none()).alias(name) for name in _COUNTS),
            F.min("oldest_at").alias("oldest_at"),
        )
        .withColumn("owed", F.sum("owed").over(so_far))
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
