"""How long a person waits for a view: a million messages, a hundred subscriptions.

The tables are as `materialize` would leave them. Each topic has ten subscriptions, one of them
with a selector. All of them have settled the first four fifths of their topic and every third
message of the rest, so every view has something to say of each of them. Each view is asked twice,
as SQL, in a session as notebooks have it; the first one pays for what the session does once, the
second time (`again`) its code is compiled.
"""

from pathlib import Path
from time import monotonic
from typing import Final

from pyroaring import BitMap64
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - how everybody who knows Spark writes it

from distributary.jobs.session.session import session
from distributary.pipeline.transforms.materialize.cursors import EMPTY
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS, whole
from distributary.pipeline.transforms.schema.spark_schema import CURSORS
from distributary.pipeline.transforms.views.view_registry import register
from tests.bench.bench import Bench, Measurement
from tests.bench.server import fresh_home

MESSAGES: Final = 1_000_000
TOPICS: Final = 10
#: Subscriptions of each topic.
EACH: Final = 10
#: Messages of one group, which are settled in the next one.
TOGETHER: Final = 1_000
BEGIN: Final = 1_795_000_000
#: Seconds of publishing; so many hours has `backlog`.
LASTS_SECONDS: Final = 6 * 3600
#: The longest that a consumer takes, microseconds.
SETTLES_US: Final = 50_000
SELECTOR: Final = "JMSPriority >= 4"
#: Of the rest one in so many is settled.
EVERY: Final = 3

#: What is asked, and how.
QUERIES: Final = {
    "first": "SELECT count(*) FROM cursors",
    "pending": "SELECT subscription, count(*) FROM pending GROUP BY subscription",
    "backlog": "SELECT * FROM backlog",
    "backlog_minutes": "SELECT * FROM backlog_minutes",
    "stuck_summary": "SELECT * FROM stuck_summary",
    "deliveries": "SELECT outcome, count(*) FROM deliveries GROUP BY outcome",
    "consumers": "SELECT * FROM consumers",
    "events": "SELECT event, count(*) FROM events GROUP BY event",
    "dead_letters": "SELECT reason, count(*) FROM dead_letters GROUP BY reason",
}


def viewing(bench: Bench) -> Measurement:
    """Seconds of each query."""
    measurement = Measurement()
    with fresh_home(bench.folder) as folder:
        spark = session()
        make(spark, folder, bench.settings.count(MESSAGES))
        spark.stop()
        spark = session()
        for name, seconds in asked(spark, folder).items():
            measurement.facts[f"{name}_s"] = seconds
        for name, seconds in asked(spark, folder).items():
            measurement.facts[f"{name}_again_s"] = seconds
        spark.stop()
    measurement.messages = bench.settings.count(MESSAGES)
    return measurement


def asked(spark: SparkSession, folder: Path) -> dict[str, float]:
    """Each query's seconds, all of its rows brought to the driver."""
    seconds: dict[str, float] = {}
    began = monotonic()
    register(spark, str(folder))
    seconds["register"] = monotonic() - began
    for name, query in QUERIES.items():
        began = monotonic()
        spark.sql(query).collect()
        seconds[name] = monotonic() - began
    return seconds


def make(spark: SparkSession, folder: Path, count: int) -> None:
    """The tables of so many messages."""
    last = 3 + 2 * ((count - 1) // TOGETHER)
    messages = _messages(spark, count)
    subscriptions = _subscriptions(spark)
    rows = {
        "messages": messages,
        "acks": _acks(messages, subscriptions, count),
        "subscriptions": subscriptions,
        "log_versions": spark.range(1).selectExpr(
            "1L AS log_version",
            f"{last}L AS `group`",
            f"timestamp_seconds({BEGIN + LASTS_SECONDS}) AS committed_at",
        ),
        "cursors": _cursors(spark, count, last),
    }
    for name, schema in SCHEMAS.items():
        one = rows.get(name, spark.createDataFrame([], schema))
        whole(one, schema).write.format("delta").save(str(folder / name))


def floor_of(count: int) -> int:
    """Everything below is settled."""
    return count // 5 * 4


def _messages(spark: SparkSession, count: int) -> DataFrame:
    step_us = LASTS_SECONDS * 1_000_000 // count
    return (
        spark.range(count)
        .withColumnRenamed("id", "sequence")
        .withColumn("group", 2 + 2 * F.floor(F.col("sequence") / TOGETHER))
        .withColumn(
            "published_at",
            F.timestamp_micros(F.lit(BEGIN * 1_000_000) + F.col("sequence") * step_us),
        )
        .withColumn("day", F.to_date("published_at"))
        .withColumn("topic", F.concat(F.lit("orders."), F.col("sequence") % TOPICS))
        .withColumn("durable", F.lit(True))
        .withColumn("priority", (F.col("sequence") % 7).cast("byte"))
        .withColumn("message_id", F.concat(F.lit("ID:"), F.sha1(F.col("sequence").cast("string"))))
        .withColumn("body_kind", F.lit("value"))
        .withColumn("body_text", F.repeat(F.sha1(F.col("sequence").cast("string")), 6))
    )


def _subscriptions(spark: SparkSession) -> DataFrame:
    rows = [
        (f"global/service-{topic}-{nth}", f"orders.{topic}", None if nth else SELECTOR)
        for topic in range(TOPICS)
        for nth in range(EACH)
    ]
    return spark.createDataFrame(
        rows, "subscription string, topic string, selector string"
    ).selectExpr(
        *("subscription", "selector", "topic", "'created' AS event"),
        *("true AS shared", "false AS no_local", "0L AS floor", "1L AS `group`"),
        f"timestamp_seconds({BEGIN}) AS recorded_at",
    )


def _acks(messages: DataFrame, subscriptions: DataFrame, count: int) -> DataFrame:
    """Everything accepted in the next group, in turns of four workers."""
    done = (F.col("sequence") < floor_of(count)) | (F.col("sequence") % EVERY == 0)
    claimed = F.col("selector").isNull() | (F.col("priority") >= 4)
    took = F.pmod(F.xxhash64("sequence", "subscription"), F.lit(SETTLES_US))
    worker = F.floor(F.col("sequence") / TOPICS) % 4
    return (
        messages.where(done)
        .join(F.broadcast(subscriptions.select("subscription", "topic", "selector")), on="topic")
        .where(claimed)
        .select(
            *("subscription", "topic", "sequence"),
            F.concat(F.lit("worker-"), worker.cast("string"), F.lit("/w")).alias("consumer"),
            F.lit("accepted").alias("outcome"),
            F.lit(True).alias("final"),
            F.lit(0).alias("delivery_count"),
            (F.col("published_at") + F.expr("INTERVAL 2 MILLISECONDS")).alias("delivered_at"),
            F.timestamp_micros(F.unix_micros("published_at") + 2_000 + took).alias("settled_at"),
            F.lit(0).cast("long").alias("floor"),
            (F.col("group") + 1).alias("group"),
            "day",
        )
    )


def _cursors(spark: SparkSession, count: int, last: int) -> DataFrame:
    floor, rows = floor_of(count), []
    for topic in range(TOPICS):
        every = range(floor + (topic - floor) % TOPICS, count, TOPICS)
        for nth in range(EACH):
            settled = BitMap64(n for n in every if n % EVERY == 0 and (nth or n % 7 >= 4))
            rows.append(
                (
                    f"global/service-{topic}-{nth}",
                    f"orders.{topic}",
                    None if nth else SELECTOR,
                    floor,
                    bytearray(settled.serialize()),
                    len(settled),
                )
            )
    made = spark.createDataFrame(
        rows,
        "subscription string, topic string, selector string, floor long, settled binary, "
        "settled_count long",
    )
    return made.selectExpr(
        *("*", "true AS shared", "0L AS accepted", "0L AS rejected", "0L AS released"),
        *("0L AS modified", f"{last}L AS `group`"),
    ).withColumns(
        {
            "failures": F.array().cast(CURSORS["failures"].dataType),
            "lost": F.lit(bytearray(EMPTY)),
        }
    )
