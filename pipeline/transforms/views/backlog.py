"""Backlog of each subscription over time, from rows alone.

A message is owed from its publication, or from the beginning of an incarnation that reaches back
to it, until it is settled for good or the incarnation ends. A message settled in its own group as
`local`, `forbidden` or `redriven` was never owed, and `local` and `forbidden` messages never are.

Rule 1: a message that an incarnation was owed has been settled for good, or is pending, or was
        dropped when the incarnation ended; one of the three.
Rule 2: an incarnation settles each owed message once (the audit's check `settled_twice`), or
        messages below its floor. So a settlement needs neither topic nor selector to count.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.errors import InvalidRequest, NotInLog
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.transforms.materialize.publication_times import with_publication
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.schema.incarnations import incarnations
from distributary.pipeline.transforms.schema.lake_rows import known_in, of_logs
from distributary.pipeline.transforms.views.bucket_rows import BACKLOG, FRAME, BucketRows
from distributary.pipeline.transforms.views.claiming import Claims, claimed, once, one_row
from distributary.pipeline.transforms.views.owed_sums import Owed
from distributary.pipeline.transforms.views.pending import pending_of_all
from distributary.pipeline.transforms.views.settled_sums import (
    NEVER,
    Clip,
    can_sum,
    facts_of,
    settled_alike,
)

#: Default width of a bucket.
WIDTH = timedelta(hours=1)

#: Most buckets of one subscription: each is a row, and a chart can't show more.
BUCKETS_MAX = 10_000

_US = timedelta(microseconds=1)


def backlog(
    tables: Tables | Mapping[str, Tables],
    *,
    width: timedelta = WIDTH,
    since: datetime | None = None,
    until: datetime | None = None,
    back: timedelta | None = None,
    subscription: str | None = None,
) -> DataFrame:
    """Return one row per subscription and bucket of time in which the subscription existed:
    `begins_at`, `ends_at`, the messages `owed` at its end, those that `came`, were `settled` and
    were `dropped` (their incarnation ended) in it, and `oldest_at` and `oldest_seconds` of the
    oldest message owed at its end.

    Buckets have the given width and begin at its multiples since 1970. They go from `since`, or
    the first beginning of a subscription, to `until`, or the last group of `cursors`; the last
    bucket ends there. `back` limits how long before that end they begin. `subscription` is the id
    of the only one to return. For the tables of a lake's logs (`lake_tables`) the result has the
    rows of all logs, with a column `log` in front.

    Raises InvalidRequest for a width below a millisecond or more than BUCKETS_MAX buckets; where
    an end is open, the query fails instead. Raises InvalidRequest, too, if no log ever had that
    subscription (NotInLog for the tables of one log).

    Cost: one pass over `acks`, each row of which is joined with its message; the cost of `pending`;
    for ended incarnations the messages that they were owed. The remaining steps have as many rows
    as there are pairs of buckets in which messages came and went.
    """
    asked = Buckets(width // _US, since, until, back)
    asked.check()
    if isinstance(tables, Tables):
        return _backlog(tables, asked, subscription)
    return of_logs(known_in(tables, lambda one: _backlog(one, asked, subscription)))


def _backlog(tables: Tables, asked: "Buckets", subscription: str | None) -> DataFrame:
    known = tables.known()
    if subscription is not None:
        _require(known.subscriptions, subscription)
    claims = Claims.of(known)
    return History.of(known, claims, pending_of_all(known, claims), subscription).counted(asked)


def _require(events: DataFrame, subscription: str) -> None:
    """Raises NotInLog for an id that no event has. A deleted subscription is allowed."""
    ids = sorted(row.subscription for row in events.select("subscription").distinct().collect())
    if subscription not in ids:
        there = ", ".join(ids) or "none"
        raise NotInLog(
            f"There never was a durable subscription {subscription!r}; there are or were: {there}."
        )


@dataclass(frozen=True, slots=True)
class Buckets:
    """Request for buckets: their width, first and last time, and how far back at most."""

    width_us: int
    since: datetime | None = None
    until: datetime | None = None
    back: timedelta | None = None

    @property
    def clipped(self) -> bool:
        """Whether the request may leave out messages before the first bucket."""
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
    """Arrival and end of each message of the subscriptions: the input for every bucket width."""

    tables: Tables
    #: Incarnations; a query reads them once.
    lives: DataFrame
    #: Times in which messages were owed, or the input from which Arrow sums them up.
    stays: DataFrame | Owed
    #: The last group that all tables have, its time, and the first beginning of a subscription.
    group: Column
    known_at: Column
    begun_at: Column

    @classmethod
    def of(
        cls, tables: Tables, claims: Claims, owed: DataFrame, subscription: str | None = None
    ) -> Self:
        """`owed` is the result of `pending_of_all`; `subscription` the id of the only one read."""
        if can_sum(tables, claims):
            return cls._near(tables, claims, subscription)
        last = one_row(tables.spark).select(claims.cursors.select(F.max("group")).scalar()).scalar()
        group = F.coalesce(last, F.lit(2**63 - 1))
        events = tables.subscriptions.where(F.col("group") <= group)
        if subscription is not None:
            events = events.where(F.col("subscription") == subscription)
        lives = once(incarnations(events))
        versions = tables.log_versions.where(F.col("group") <= group).coalesce(1)
        stays = (
            _settled(tables, lives, group, claims)
            .unionByName(_waiting(owed, lives))
            .unionByName(_dropped(tables, lives, claims))
        )
        return cls(
            *(tables, lives, stays),
            group=group,
            known_at=versions.select(F.max("committed_at")).scalar(),
            begun_at=lives.select(F.min("began_at")).scalar(),
        )

    @classmethod
    def _near(cls, tables: Tables, claims: Claims, subscription: str | None) -> Self:
        """Return the history whose small inputs are read in one task."""
        spark, facts = tables.spark, facts_of(tables, subscription)
        times = {f"{name}_at": F.timestamp_micros(f"{name}_us") for name in ("began", "ended")}
        lives = one_row(spark).select(F.inline(facts["lives"])).withColumns(times)
        lowest = one_row(spark).select(facts["lowest"]).scalar()
        messages = tables.messages.where(F.col("sequence") >= lowest)
        return cls(
            *(tables, lives, Owed.of(tables.folder, messages, claims, facts["lives"])),
            group=facts["upto"],
            known_at=facts["committed_at"],
            begun_at=facts["begun_at"],
        )

    def counted(self, buckets: "Buckets") -> DataFrame:
        """The rows of `backlog`."""
        known = one_row(self.tables.spark).select(
            self.begun_at.alias("begun_at"), self.known_at.alias("known_at")
        )
        frame = known.select(_frame(buckets)).scalar()
        first = frame["first"]
        if isinstance(self.stays, Owed):
            clip = Clip(buckets.width_us, buckets.until, buckets.clipped)
            said = [self.group.alias("upto"), first.alias("first")]
            settled = settled_alike(self.tables.folder, self.lives, said, clip)
            parts = self.stays.alike(first, clip).unionByName(settled)
        else:
            parts = _alike(self.stays, first, buckets)
        parts = parts.unionByName(_lived(self.lives, buckets.width_us), allowMissingColumns=True)
        # All following steps are by subscription: rows are shuffled once.
        return (
            parts.withColumn("n", F.coalesce("n", F.lit(0).cast("long")))
            .repartition("subscription")
            .withColumn(FRAME, frame)
            .withColumn(FRAME, _bounded(F.col(FRAME)))
            .mapInArrow(BucketRows(buckets.width_us), BACKLOG)
        )


def _frame(asked: Buckets) -> Column:
    """Return the first and the last bucket, and the end of the last one, as a struct."""
    known = F.coalesce("known_at", F.current_timestamp())
    begin = F.col("begun_at") if asked.since is None else F.lit(asked.since)
    end = known if asked.until is None else F.least(known, F.lit(asked.until))
    if asked.back is not None:
        begin = F.greatest(begin, end - F.lit(asked.back))
    first, last = (_bucket(at, asked.width_us) for at in (begin, end))
    return F.struct(first.alias("first"), last.alias("last"), end.alias("ends"))


def _bounded(frame: Column) -> Column:
    """Return the frame, with an error if it has too many buckets. An error in a subquery shows the
    user a stack trace of Java, one in a row shows the sentence; so `_frame` doesn't check this."""
    text = (
        f"There are more than {BUCKETS_MAX} buckets of this width: make them wider, or say since "
        "when (`since`) or how far back (`back`)."
    )
    many = frame["last"] - frame["first"] >= BUCKETS_MAX
    return F.when(many, F.raise_error(F.lit(text))).otherwise(frame)


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
    # A message redriven in its own group was never owed.
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
    """Return the columns about a message that an incarnation was owed."""
    came_at = F.greatest("began_at", "published_at")
    return [
        *map(F.col, ("subscription", "began", "published_at")),
        came_at.alias("came_at"),
        F.when(went_at.isNotNull(), F.greatest(came_at, went_at)).alias("went_at"),
    ]


def _alike(stays: DataFrame, first: Column, asked: Buckets) -> DataFrame:
    """Count the messages that came in one bucket and went in another, with the oldest of them.
    Earlier times count in the bucket before the first; messages that went there are left out."""
    went_at = F.col("went_at")
    if asked.until is not None:
        stays = stays.where(F.col("came_at") <= F.lit(asked.until))
        went_at = F.when(went_at <= F.lit(asked.until), went_at)
    came_in, went_in = (_bucket(at, asked.width_us) for at in (F.col("came_at"), went_at))
    if asked.clipped:
        stays = stays.where(F.coalesce(went_in >= first, F.lit(True)))
        came_in = F.greatest(came_in, first - 1)
    return (
        stays.withColumns({"came_in": came_in, "went_in": went_in})
        .groupBy("subscription", "began", "came_in", "went_in", "was_settled")
        .agg(F.count("*").alias("n"), F.min("published_at").alias("oldest_at"))
    )


def _lived(lives: DataFrame, width_us: int) -> DataFrame:
    """Return each incarnation's first and last bucket, as rows without an `n`."""
    return lives.select(
        *("subscription", "began"),
        _bucket(F.col("began_at"), width_us).alias("came_in"),
        _bucket(F.col("ended_at"), width_us).alias("went_in"),
    )


def _bucket(at: Column, width_us: int) -> Column:
    """Return the number of the bucket of a time."""
    return F.floor(F.unix_micros(at) / F.lit(width_us)).cast("long")
