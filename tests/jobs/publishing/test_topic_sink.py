"""A Spark query as a publisher, with a real gateway: each row is one message, whatever failed."""

import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from doc_blocks import blocks
from gateway_process import Gateway
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from spark_connect import client
from test_subscriber import SETTINGS, Subscription

from distributary.jobs.publishing import register
from distributary.jobs.publishing.row_messages import COLUMNS
from distributary.jobs.publishing.sink_choices import KNOWN

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "spark-sink.md"
#: One more than Spark has tasks at once (`spark_settings`): the last begins when another has ended.
PARTITIONS = 3
POLICIES = """
[[topic]]
match = "*"
duplicates_messages = 10000
[[topic]]
match = "careless"
duplicates_messages = 0
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("published")
    (folder / "policies.toml").write_text(POLICIES)
    settings = SETTINGS | {
        "delivery": {**SETTINGS["delivery"], "policies": str(folder / "policies.toml")}
    }
    with Gateway(folder, settings) as running:
        yield running
        running.stop()
        running.verified()


class Published(Subscription):
    """A topic, and a subscription that is owed all that comes there."""

    def to(self, **more: str) -> dict[str, str]:
        gateway = f"amqp://127.0.0.1:{self.gateway.port}"
        return {"gateway": gateway, "topic": self.topic, **more}

    def bodies(self, spark: SparkSession) -> list[int]:
        return sorted(int(row.body_text) for row in self.pending(spark).collect())


def save(rows: DataFrame, **options: str) -> None:
    register(rows.sparkSession)
    rows.write.format("topic").options(**options).mode("append").save()


def numbers(spark: SparkSession, count: int) -> DataFrame:
    return spark.range(count).select(F.col("id").cast("string").alias("body"))


def test_every_column_is_in_the_message(spark: SparkSession, lake: Gateway) -> None:
    mine = Published(lake, "whole")
    rows = spark.range(1).select(
        F.lit("hello").alias("body_text"),
        F.lit("a-1").alias("message_id"),
        F.struct(
            F.lit("BE").alias("country"),
            F.lit(7).alias("total"),
            F.lit(0.5).alias("share"),
            F.lit(True).alias("paid"),
            F.lit(Decimal("1.50")).alias("price"),
            F.lit(None).cast("string").alias("nothing"),
        ).alias("properties"),
        *(F.lit(f"the {name}").alias(name) for name in ("subject", "correlation_id", "reply_to")),
        *(F.lit(f"the {name}").alias(name) for name in ("to", "content_type", "group_id")),
        F.lit(7).alias("priority"),
        F.lit(False).alias("durable"),
        F.lit(3_600).alias("ttl_seconds"),
    )
    save(rows, **mine.to())
    [row] = mine.pending(spark).collect()
    assert (row.body_text, row.message_id, row.priority, row.durable) == ("hello", "a-1", 7, False)
    for name in ("subject", "correlation_id", "reply_to", "to", "content_type", "group_id"):
        assert row[name] == f"the {name}"
    said = row.properties
    assert sorted(said) == ["country", "paid", "price", "share", "total"]
    assert (said["country"].text, said["total"].long, said["price"].text) == ("BE", 7, "1.50")
    assert (said["share"].double, said["paid"].boolean) == (0.5, True)
    assert (row.expires_at - row.published_at).total_seconds() == pytest.approx(3_600, abs=30)


def test_each_save_publishes_what_it_has(spark: SparkSession, lake: Gateway) -> None:
    """Equal rows are as many messages, in several partitions or one; a second `save` is another
    write, unless its rows have ids of their own."""
    mine = Published(lake, "saved")
    rows = spark.createDataFrame([("1",)] * 5 + [("2",)], "body string")
    save(rows.repartition(2), **mine.to())
    save(rows.coalesce(1), **mine.to())
    assert Counter(mine.bodies(spark)) == {1: 10, 2: 2}
    for _ in range(2):
        save(numbers(spark, 3).withColumn("message_id", F.col("body")), **mine.to())
    assert Counter(mine.bodies(spark)) == {0: 1, 1: 11, 2: 3}


def test_bytes_go_as_bytes(spark: SparkSession, lake: Gateway) -> None:
    mine = Published(lake, "bytes")
    save(spark.range(1).select(F.lit(b"\0\xff").alias("body")), **mine.to())
    [row] = mine.pending(spark).collect()
    assert (row.body_kind, bytes(row.body_bytes)) == ("data", b"\0\xff")


class Query:
    """A streaming query from a table to a topic, each life of which ends by itself."""

    def __init__(self, spark: SparkSession, folder: Path, mine: Published) -> None:
        self.spark, self.folder, self.mine = spark, folder, mine

    def add(self, numbers: range) -> None:
        rows = self.spark.createDataFrame([(n,) for n in numbers], "n long")
        rows.write.format("delta").mode("append").save(str(self.folder / "table"))

    def run(self, *, fails: bool = False) -> None:
        """The last partition fails, if it is to."""
        register(self.spark)
        wrong = F.raise_error(F.lit("this row can't be")).cast("string")
        last = F.pmod(F.hash("n"), F.lit(PARTITIONS)) == PARTITIONS - 1
        body = F.when(F.lit(fails) & last, wrong).otherwise(F.col("n").cast("string"))
        rows = self.spark.readStream.format("delta").load(str(self.folder / "table"))
        query = (
            rows.repartition(PARTITIONS, "n")
            .select(body.alias("body"))
            .writeStream.format("topic")
            .options(**self.mine.to())
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    def forgets(self, batch: int) -> None:
        """As if it had died between the last message of a batch and Spark's commit of it."""
        for name in (str(batch), f".{batch}.crc"):
            (self.folder / "checkpoint" / "commits" / name).unlink(missing_ok=True)


def test_a_query_that_failed_or_died_publishes_each_row_once(
    spark: SparkSession, lake: Gateway, tmp_path: Path
) -> None:
    """A task fails when another has published its rows; then the batch runs again. A batch that is
    published and not committed runs again. Rows of the same content in two batches are two."""
    mine = Published(lake, "streamed")
    query = Query(spark, tmp_path, mine)
    query.add(range(100))
    with pytest.raises(PySparkException, match="this row can't be"):
        query.run(fails=True)
    there = mine.bodies(spark)
    assert 0 < len(there) < 100, "one task had published"
    query.run()
    assert mine.bodies(spark) == list(range(100))
    query.forgets(0)
    query.run()
    assert mine.bodies(spark) == list(range(100))
    query.add(range(50))
    query.run()
    assert mine.bodies(spark) == sorted([*range(100), *range(50)])


def test_a_gateway_that_goes_and_comes_back(
    spark: SparkSession, tmp_path: Path, lake: Gateway
) -> None:
    """Rows published before the kill aren't published again by the query's next life."""
    settings = {"delivery": {"policies": str(lake.config.parent / "policies.toml")}}
    with Gateway(tmp_path / "own", SETTINGS | settings) as own:
        mine = Published(own, "killed")
        query = Query(spark, tmp_path, mine)
        query.add(range(100))
        with pytest.raises(PySparkException):
            query.run(fails=True)
        own.kill()
        own.start()
        query.run()
        assert mine.bodies(spark) == list(range(100))
        own.stop()
        own.verified()


def test_a_client_of_spark_connect_publishes(
    connect_url: str, spark: SparkSession, lake: Gateway
) -> None:
    mine = Published(lake, "connected")
    with client(connect_url) as remote:
        save(numbers(remote, 10), **mine.to())
    assert mine.bodies(spark) == list(range(10))


@pytest.mark.parametrize(
    ("columns", "options", "says"),
    [
        ("'x' AS body", {"topic": "careless"}, "no duplicates are detected in careless"),
        ("'x' AS body", {"tpoic": "orders"}, "the sink 'topic' has no option 'tpoic'"),
        ("'x' AS body", {"topic": ""}, "the option 'topic' is missing"),
        ("'x' AS body, 1 AS total", {}, "has no column 'total'; it has body, body_text"),
        ("1 AS body", {}, "the column 'body' is int; it must be the body: text, or bytes"),
        ("'x' AS body, map('a', array(1)) AS properties", {}, "must be application properties"),
        ("'x' AS subject", {}, "needs a column body or body_text or body_bytes"),
        ("'x' AS body, 12 AS priority", {}, "a priority is a number from 0 to 9, not 12"),
        ("'x' AS body", {"gateway": "127.0.0.1:1"}, "127.0.0.1:1"),
    ],
)
def test_what_cant_be_is_a_sentence(
    spark: SparkSession, lake: Gateway, columns: str, options: dict[str, str], says: str
) -> None:
    told = {"gateway": f"127.0.0.1:{lake.port}", "topic": "refused", **options}
    with pytest.raises(PySparkException) as error:
        save(spark.sql(f"SELECT {columns}"), **told)
    assert says in str(error.value)


@pytest.mark.usefixtures("spark")
def test_the_page_of_the_sink(lake: Gateway, spark: SparkSession) -> None:
    """docs/guides/spark-sink.md publishes two bills."""
    mine = Published(lake, "bills")
    [program] = blocks("docs/guides/spark-sink.md", "python")
    exec(program.text.replace("127.0.0.1:5672", f"127.0.0.1:{lake.port}"), {})  # noqa: S102
    rows = mine.pending(spark).collect()
    assert {row.body_text: row.properties["total"].long for row in rows} == {
        "bill 1": 12,
        "bill 2": 7,
    }


def test_every_option_and_column_is_on_the_page() -> None:
    """In the order of the code."""
    names = re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE)
    assert names == [*KNOWN, *COLUMNS]


def test_at_least_once_is_said_aloud(spark: SparkSession, lake: Gateway) -> None:
    mine = Published(lake, "careless")
    save(numbers(spark, 3), **mine.to(atLeastOnce="true"))
    assert mine.bodies(spark) == [0, 1, 2]
