"""Cost of the audit: all checks over a home of a million messages, and a tenth of it.

The tables are made by Spark as `materialize` would leave them: a shared subscription whose four
workers settled everything in turns, and one with a selector that is true of half. Nothing is at
fault, so every check reads all that it must.
"""

import os
from pathlib import Path
from time import monotonic
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.jobs.session.session import session
from distributary.jobs.views.audit_run import Settings, build
from distributary.pipeline.transforms.materialize.cursors import EMPTY
from distributary.pipeline.transforms.schema.spark_schema import (
    ACKS,
    CURSORS,
    LOG_VERSIONS,
    MESSAGES,
    SUBSCRIPTIONS,
)
from tests.bench.bench import Bench, Measurement
from tests.bench.peer import LoadError
from tests.bench.server import fresh_home

MESSAGES_COUNT: Final = 1_000_000
#: Messages of one group, which are settled in the next one.
TOGETHER: Final = 100
BEGIN: Final = 1_795_000_000
SELECTOR: Final = "parity = 0"


def auditing(bench: Bench) -> Measurement:
    """Seconds of all checks, at two sizes: what a message costs is their difference."""
    measurement = Measurement()
    count = bench.settings.count(MESSAGES_COUNT)
    with fresh_home(bench.folder) as folder:
        spark = session()
        seconds, cpu = {}, {}
        for size in (count // 10, count):
            tables = folder / str(size)
            make(spark, tables, size)
            began, used = monotonic(), _cpu_seconds(spark)
            results = list(build(spark, Settings(str(tables))))
            seconds[size], cpu[size] = monotonic() - began, _cpu_seconds(spark) - used
            if any(one.violations for one in results):
                raise LoadError(f"the audit found something in a sound home: {results}")
            for one in results:
                measurement.facts[f"{one.check.name}_s"] = one.seconds
        measurement.facts["tenth_s"], measurement.facts["all_s"] = seconds.values()
        measurement.facts["tenth_cpu_s"], measurement.facts["all_cpu_s"] = cpu.values()
        more = cpu[count] - cpu[count // 10]
        measurement.facts["message_us"] = more / (count - count // 10) * 1e6
        measurement.rss_mb = _highest_mb(spark)
        measurement.rates.append(count / seconds[count])
        measurement.messages = count
        spark.stop()
    return measurement


def make(spark: SparkSession, folder: Path, count: int) -> None:
    """The tables of so many messages."""
    at = F.timestamp_micros(F.lit(BEGIN * 1_000_000) + F.col("group") * 20_000)
    value = F.struct(
        F.lit("int").alias("type"),
        F.lit(None).cast("string").alias("text"),
        (F.col("sequence") % 2).alias("long"),
        F.lit(None).cast("double").alias("double"),
        F.lit(None).cast("boolean").alias("boolean"),
        F.lit(None).cast("binary").alias("binary"),
    )
    published = (
        spark.range(count)
        .select(F.col("id").alias("sequence"))
        .withColumn("group", 2 + 2 * F.floor(F.col("sequence") / TOGETHER))
        .withColumn("published_at", at)
        .withColumn("day", F.to_date("published_at"))
        .withColumn("topic", F.lit("flights"))
        .withColumn("durable", F.lit(True))
        .withColumn("priority", F.lit(4).cast("byte"))
        .withColumn("properties", F.create_map(F.lit("parity"), value))
    )
    every = _settled(published, "global/all", count)
    half = _settled(published.where("sequence % 2 = 0"), "global/half", count)
    acks = every.unionByName(half)
    events = spark.createDataFrame(
        [("global/all", None), ("global/half", SELECTOR)], "subscription string, selector string"
    ).selectExpr(
        *("subscription", "selector", "'flights' AS topic", "'created' AS event"),
        *("true AS shared", "false AS no_local", "0L AS floor", "1L AS `group`"),
        f"timestamp_seconds({BEGIN}) AS recorded_at",
    )
    last = 3 + 2 * ((count - 1) // TOGETHER)
    cursors = events.select("subscription", "topic", "shared", "selector").selectExpr(
        "*",
        f"{count}L AS floor",
        "0L AS settled_count",
        f"if(selector IS NULL, {count}L, {(count + 1) // 2}L) AS accepted",
        "0L AS rejected",
        "0L AS released",
        "0L AS modified",
        f"{last}L AS `group`",
    )
    cursors = cursors.withColumn("failures", F.array().cast(CURSORS["failures"].dataType))
    cursors = cursors.withColumn("lost", F.lit(bytearray(EMPTY)))
    versions = spark.range(1).selectExpr("1L AS log_version", f"{last}L AS `group`")
    for name, rows, schema in (
        ("messages", published, MESSAGES),
        ("acks", acks, ACKS),
        ("subscriptions", events, SUBSCRIPTIONS),
        ("log_versions", versions, LOG_VERSIONS),
        ("cursors", cursors, CURSORS),
    ):
        whole = [
            F.col(f.name) if f.name in rows.columns else F.lit(None).cast(f.dataType).alias(f.name)
            for f in schema
        ]
        rows.select(*whole).write.format("delta").save(str(folder / name))
    _log(published, acks, events).write.format("delta").partitionBy("record", "day").save(
        str(folder / "topic_log")
    )


def _settled(published: DataFrame, subscription: str, count: int) -> DataFrame:
    """Acks of all messages, accepted in the next group by four consumers in turn."""
    nth = F.floor(F.col("sequence") / (2 if subscription.endswith("half") else 1))
    end = (F.floor(F.col("sequence") / TOGETHER) + 1) * TOGETHER
    return published.select(
        F.lit(subscription).alias("subscription"),
        "topic",
        "sequence",
        F.concat(F.lit("worker-"), (nth % 4).cast("string"), F.lit("/w")).alias("consumer"),
        F.lit("accepted").alias("outcome"),
        F.lit(True).alias("final"),
        F.lit(0).alias("delivery_count"),
        (F.col("published_at") + F.expr("INTERVAL 2 MILLISECONDS")).alias("delivered_at"),
        (F.col("published_at") + F.expr("INTERVAL 10 MILLISECONDS")).alias("settled_at"),
        F.least(end, F.lit(count)).alias("floor"),
        (F.col("group") + 1).alias("group"),
        "day",
    )


def _log(published: DataFrame, acks: DataFrame, events: DataFrame) -> DataFrame:
    """The log that says the same: a settlement for each consumer and group."""
    settlements = acks.groupBy(
        *("subscription", "topic", "consumer", "outcome", "final", "delivery_count"),
        *("delivered_at", "settled_at", "floor", "group", "day"),
    ).agg(F.sort_array(F.collect_list("sequence")).alias("sequences"))
    parts = (
        published.drop("properties").withColumn("record", F.lit("message")),
        settlements.withColumn("record", F.lit("settlement")),
        events.withColumn("record", F.lit("subscription")).withColumn(
            "day", F.to_date("recorded_at")
        ),
    )
    first, *others = parts
    for one in others:
        first = first.unionByName(one, allowMissingColumns=True)
    return first


def _highest_mb(spark: SparkSession) -> float:
    """The most memory that the JVM had."""
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def _cpu_seconds(spark: SparkSession) -> float:
    """The JVM's processor time: on a machine with other load, elapsed time says little."""
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
