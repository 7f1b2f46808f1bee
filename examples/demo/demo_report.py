"""Numbers of the demo, from its tables after `materialize`; `demo_show` shows them.

All numbers are read from `messages`, `acks` and `cursors`, as any Spark user could.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's usual name

from distributary.jobs.materialize.batch_progress import Progress
from distributary.jobs.materialize.materialize import QUERY, Settings, build
from distributary.jobs.session.session import delta_jars, require_java, session
from distributary.jobs.tables.table_locations import TableLocations
from distributary.pipeline.errors import DistributaryError
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.transforms.views.pending import pending

#: Time steps in the picture.
BUCKETS = 32
#: Rows of the table of carriers.
CARRIERS = 10
#: Runs of the job until the tables have all that the clients saw; the gateway commits once a
#: second, so the second run is seldom needed.
RUNS_MAX = 4

Tell = Callable[[str], None]


class SparkFailed(DistributaryError):
    """The Spark job failed; the message is the first line of Spark's error."""


@dataclass(frozen=True, slots=True)
class Run:
    """The rows that belong to this demo: messages from sequence `first` on, of one topic,
    and two subscriptions, by id."""

    home: Home
    topic: str
    first: int
    flights: int
    dispatchers: str
    auditors: str


@dataclass(frozen=True, slots=True)
class Worker:
    """One consumer of `dispatchers`. `took_over` were held by a consumer that was lost."""

    name: str
    accepted: int
    lost: int
    took_over: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """A row of `cursors`, and how many of this demo's messages are pending."""

    subscription: str
    floor: int
    settled_above: int
    accepted: int
    released: int
    pending: int
    log_version: int


@dataclass(frozen=True, slots=True)
class Carrier:
    """Flights of one carrier. `unflown` have no departure delay: they never left."""

    name: str
    flights: int
    miles: int
    delay_minutes: float
    unflown: int


@dataclass(frozen=True, slots=True)
class Numbers:
    """All shown numbers. `settled` are distinct messages accepted by a worker."""

    messages: int
    undecodable: int
    settled: int
    workers: tuple[Worker, ...]
    cursors: tuple[Cursor, ...]
    carriers: tuple[Carrier, ...]

    def pending(self, subscription: str) -> int:
        """Return the number of messages that a subscription is owed; -1 if it has no cursor."""
        owed = (one.pending for one in self.cursors if one.subscription == subscription)
        return next(owed, -1)


@dataclass(frozen=True, slots=True)
class Pace:
    """Deliveries accepted per second: for each worker, one number for each step of time; `seconds`
    are the steps' edges, one more.

    `lost` is when a consumer was lost, in seconds from the first delivery, None if none was.
    """

    seconds: tuple[float, ...]
    rates: Mapping[str, tuple[float, ...]]
    lost: float | None


def require_spark() -> None:
    """Raise SparkUnavailable if Java or the Delta jars are missing; it says how to install them."""
    require_java()
    delta_jars()


def start() -> SparkSession:
    """Start the Spark session, which takes seconds."""
    return session()


def bring_up_to_date(spark: SparkSession, run: Run, tell: Tell) -> None:
    """Materialize until the tables have all messages of the clients, or RUNS_MAX times."""
    with _in_a_sentence():
        for _ in range(RUNS_MAX):
            materialize(spark, run.home, tell)
            if _settled(_acks(spark, run)) >= run.flights:
                return
            tell("some of it was not committed yet: once more")


def ask(spark: SparkSession, run: Run) -> tuple[Numbers, Pace]:
    """Read the numbers from the tables."""
    with _in_a_sentence():
        acks = _acks(spark, run).persist()  # several questions, one scan
        try:
            return _numbers(spark, run, acks), _pace(acks)
        finally:
            acks.unpersist()


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        raise SparkFailed(f"Spark: {str(error).splitlines()[0]}") from error


def materialize(spark: SparkSession, home: Home, tell: Tell) -> None:
    """The job, as `distributary jobs materialize --home ...` runs it, to the log's end."""

    def report(progress: Progress) -> None:
        tell(f"materialize: {progress}")

    root = Home(home.root.absolute())
    places = TableLocations(
        str(root.topic_log), str(root.cursors.parent), str(root.checkpoint(QUERY))
    )
    query = build(spark, Settings(places, report=report))
    while not query.awaitTermination(1):
        pass  # interrupted, the query ends with this process: a batch that is cut runs again


def _table(spark: SparkSession, path: Path) -> DataFrame:
    return spark.read.format("delta").load(str(path.absolute()))


def _acks(spark: SparkSession, run: Run) -> DataFrame:
    """Deliveries of this demo's messages to the dispatchers, with the worker's name."""
    mine = (F.col("subscription") == run.dispatchers) & (F.col("sequence") >= run.first)
    name = F.substring_index("consumer", "/", 1)
    at = F.unix_micros("settled_at") / 1e6
    return (
        _table(spark, run.home.acks)
        .where(mine)
        .select("sequence", "outcome", "final", name.alias("worker"), at.alias("at"))
    )


def _accepted(acks: DataFrame) -> DataFrame:
    return acks.where("outcome = 'accepted' and final")


def _settled(acks: DataFrame) -> int:
    return _accepted(acks).select("sequence").distinct().count()


def _numbers(spark: SparkSession, run: Run, acks: DataFrame) -> Numbers:
    mine = (F.col("topic") == run.topic) & (F.col("sequence") >= run.first)
    messages = _table(spark, run.home.messages).where(mine)
    totals = messages.select(F.count("*"), F.count("error")).first()
    count, undecodable = totals if totals is not None else (0, 0)
    return Numbers(
        messages=count,
        undecodable=undecodable,
        settled=_settled(acks),
        workers=_workers(acks),
        cursors=_cursors(spark, run),
        carriers=_carriers(messages),
    )


def _workers(acks: DataFrame) -> tuple[Worker, ...]:
    lost = acks.where("outcome = 'lost'").select("sequence").distinct()
    took = _accepted(acks).join(F.broadcast(lost), on="sequence", how="left_semi")
    took_over = {row.worker: row["count"] for row in took.groupBy("worker").count().collect()}
    rows = (
        acks.groupBy("worker")
        .agg(
            F.count_if(F.col("outcome") == "accepted").alias("accepted"),
            F.count_if(F.col("outcome") == "lost").alias("lost"),
        )
        .orderBy("worker")
        .collect()
    )
    return tuple(
        Worker(row.worker, row.accepted, row.lost, took_over.get(row.worker, 0)) for row in rows
    )


def _cursors(spark: SparkSession, run: Run) -> tuple[Cursor, ...]:
    rows = _table(spark, run.home.cursors).drop("settled").orderBy("subscription").collect()
    home = str(run.home.root.absolute())
    return tuple(
        Cursor(
            subscription=row.subscription,
            floor=row.floor,
            settled_above=row.settled_count,
            accepted=row.accepted,
            released=row.released,
            pending=pending(spark, home, row.subscription)
            .where(F.col("sequence") >= run.first)
            .count(),
            log_version=row.log_version,
        )
        for row in rows
    )


def _carriers(messages: DataFrame) -> tuple[Carrier, ...]:
    delay = F.col("properties")["dep_delay"]["long"]
    rows = (
        messages.groupBy(F.col("properties")["carrier"]["text"].alias("carrier"))
        .agg(
            F.count("*").alias("flights"),
            F.sum(F.col("properties")["distance"]["long"]).alias("miles"),
            F.avg(delay).alias("delay"),
            F.count_if(delay.isNull()).alias("unflown"),
        )
        .orderBy(F.desc("flights"), "carrier")
        .limit(CARRIERS)
        .collect()
    )
    return tuple(
        Carrier(row.carrier, row.flights, row.miles, round(row.delay or 0.0, 1), row.unflown)
        for row in rows
    )


def _pace(acks: DataFrame) -> Pace:
    """Deliveries of each worker over time."""
    accepted = acks.where("outcome = 'accepted'")
    ends = accepted.select(F.min("at"), F.max("at")).first()
    first, last = ends if ends is not None and ends[0] is not None else (0.0, 0.0)
    width = max((last - first) / BUCKETS, 0.01)
    bucket = F.least(F.floor((F.col("at") - first) / width), F.lit(BUCKETS - 1))
    rows = accepted.groupBy("worker", bucket.alias("bucket")).count().collect()
    counts: dict[str, list[float]] = {}
    for row in rows:
        counts.setdefault(row.worker, [0.0] * BUCKETS)[row.bucket] = row["count"] / width
    gone = acks.where("outcome = 'lost'").select(F.min("at")).first()
    return Pace(
        seconds=tuple(number * width for number in range(BUCKETS + 1)),
        rates={worker: tuple(counts[worker]) for worker in sorted(counts)},
        lost=None if gone is None or gone[0] is None else gone[0] - first,
    )
