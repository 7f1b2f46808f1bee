"""A Spark query as a consumer, with a real gateway: what it gets, beside whom, and how often."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from doc_blocks import blocks
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Peer, selector
from gateway_process import Gateway, until
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadMaxRows

from distributary.jobs.session.job_settings import load
from distributary.jobs.subscription import drain, register
from distributary.jobs.subscription.choices import choices
from distributary.jobs.subscription.piece import Form
from distributary.jobs.subscription.stream import Stream
from distributary.pipeline.sequences.range_text import sequences_of
from distributary.pipeline.transforms.materialize.messages import messages
from distributary.pipeline.transforms.schema.spark_schema import MESSAGES

JOB = Path(__file__).parents[2] / "support" / "subscriber_job.py"
#: Commits come soon, and pages are small, so that messages come from memory and from the table.
SETTINGS = {"commit": {"interval_ms": 50}, "delivery": {"cache_bytes": 20_000}}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with Gateway(tmp_path_factory.mktemp("subscriber"), SETTINGS) as running:
        yield running
        running.stop()
        running.verified()


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return request.node.name.removeprefix("test_")


class Subscription:
    """A shared durable subscription of a topic, and what is published to it."""

    def __init__(self, gateway: Gateway, topic: str, filters: dict[str, Any] | None = None) -> None:
        self.gateway, self.topic, self.filters = gateway, topic, filters
        with Peer(gateway.port) as peer:
            peer.leave(self.attach(peer), closed=False)

    def attach(self, peer: Peer) -> Any:
        return peer.shared_durable(self.topic, f"{self.topic}|global", filters=self.filters)

    def publish(self, bodies: range) -> None:
        with Peer(self.gateway.port) as peer:
            peer.sender(self.topic).publish(*bodies)

    def row(self) -> dict[str, Any]:
        with Peer(self.gateway.port) as peer:
            found = dict(Manager(peer).done("READ", "subscription", f"global/{self.topic}"))
        del found["table"]  # says how far the log's table has come
        return found

    @property
    def options(self) -> dict[str, str]:
        gateway = f"amqp://127.0.0.1:{self.gateway.port}"
        return {"gateway": gateway, "subscription": f"global/{self.topic}"}

    def pending(self, spark: SparkSession, **options: str) -> DataFrame:
        register(spark)
        return spark.read.format("subscription").options(**self.options, **options).load()

    def settled(self) -> bool:
        row = self.row()
        return bool(row["floor"] == row["head"])


def drained(
    spark: SparkSession, subscription: Subscription, folder: Path, **options: str
) -> list[int]:
    """The bodies in the table, after the job has put into it all that is there."""
    said = subscription.options | options
    settings = drain.Settings(said, str(folder / "table"), str(folder / "checkpoint"))
    drain.build(spark, settings).awaitTermination()
    return bodies(folder)


def bodies(folder: Path) -> list[int]:
    table = DeltaTable(folder / "table").to_pyarrow_table(columns=["body_text"])
    return sorted(int(str(text)) for text in table["body_text"].to_pylist())


def test_a_query_gets_what_the_tables_say_and_settles_it(
    spark: SparkSession, lake: Gateway, topic: str, tmp_path: Path
) -> None:
    """Column by column as `messages`, in batches of the size that is wanted; looking takes nothing,
    draining takes all."""
    mine = Subscription(lake, topic)
    mine.publish(range(300))
    before = mine.row()
    seen = mine.pending(spark)
    log = spark.read.format("delta").load(str(lake.home / "tables" / "topic_log"))
    said = messages(log.where(f"topic = '{topic}'")).select(*MESSAGES.names)
    found = seen.select(*MESSAGES.names, "attempts")
    kinds = [[(one.name, one.dataType) for one in some.schema] for some in (found, said)]
    assert kinds[0][:-1] == kinds[1]
    rows, wanted = found.collect(), {row.sequence: (*row, 0) for row in said.collect()}
    assert {row.sequence: tuple(row) for row in rows} == wanted
    assert len(rows) == len(wanted) == 300
    assert mine.row() == before, "looking changes nothing"
    assert drained(spark, mine, tmp_path, maxMessagesPerTrigger="200") == list(range(300))
    assert len(list((tmp_path / "checkpoint" / "offsets").glob("[0-9]"))) == 2
    assert mine.settled()
    assert mine.pending(spark).count() == 0


def test_typed_columns_by_the_schema_of_the_topic(
    spark: SparkSession, lake: Gateway, topic: str, tmp_path: Path
) -> None:
    """A body by its columns, or why it has none; what a table gets was settled. Without a schema
    the query ends with a sentence."""
    mine = Subscription(lake, topic)
    with pytest.raises(PySparkException, match="there is none: `distributary schema set`"):
        mine.pending(spark, typed="true")
    kinds = {"id": {"type": "integer"}, "at": {"type": "string", "format": "date-time"}}
    said = json.dumps({"type": "object", "properties": kinds, "required": ["id"]})
    with Peer(lake.port) as peer:
        Manager(peer).done("UPDATE", "schema", f"{topic[:-1]}?", format="json", definition=said)
        sender = peer.sender(topic)
        for body in ('{"id": 1, "at": "2026-11-25T10:00:00Z"}', '{"id": "x"}', '{"id": 2.0}'):
            sender.publish(body)
    seen = mine.pending(spark, typed="true").orderBy("sequence")
    wanted = [(1, "2026-11-25 10:00:00", None), (None, None, "/id: "), (2, None, None)]
    found = seen.selectExpr("value.id", "string(value.at) AS at", "misfit", "body_text", "attempts")
    for row, (number, at, reason) in zip(found.collect(), wanted, strict=True):
        assert (row.id, row.at, row.attempts) == (number, at, 0)
        assert (row.misfit or "").startswith(reason or "")
        assert bool(row.misfit) == bool(reason)
    options = mine.options | {"typed": "true"}
    query = (
        spark.readStream.format("subscription")
        .options(**options)
        .load()
        .select("value.*", "misfit")
        .writeStream.format("delta")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "table"))
    )
    query.awaitTermination()
    rows = DeltaTable(tmp_path / "table").to_pyarrow_table(columns=["id"])["id"].to_pylist()
    assert sorted(rows, key=str) == [1, 2, None]
    assert mine.settled()


@pytest.mark.usefixtures("spark")
def test_the_page_of_the_source(lake: Gateway, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/guides/spark-source.md shows what `global/billing` is owed."""
    Subscription(lake, "billing").publish(range(70, 73))
    [program] = blocks("docs/guides/spark-source.md", "python")
    exec(program.text.replace("127.0.0.1:5672", f"127.0.0.1:{lake.port}"), {})  # noqa: S102
    assert re.findall(r"\| +(7\d)\| +0\|", capsys.readouterr().out) == ["70", "71", "72"]


def test_it_shares_with_workers_and_each_message_goes_to_one(
    spark: SparkSession, lake: Gateway, topic: str, tmp_path: Path
) -> None:
    """A worker that has credit gets its turns; together they have everything, once."""
    mine = Subscription(lake, topic)
    with Peer(lake.port, "worker") as peer:
        worker = mine.attach(peer)
        worker.link.flow(20)
        mine.publish(range(100))
        theirs = worker.take(20)
        worker.confirm(theirs[:15])
        peer.leave(worker, closed=False)  # five go back
    ours = drained(spark, mine, tmp_path, consumer="lake")
    assert sorted([*ours, *(int(str(got.body)) for got in theirs[:15])]) == list(range(100))
    assert mine.settled()
    until(lambda: accepted_by(lake, topic) == {"worker", "lake"}, "the commit of what was settled")


def accepted_by(gateway: Gateway, topic: str) -> set[str]:
    """The consumers that accepted a message, by the table, which is a little behind the gateway."""
    columns = ["consumer", "subscription", "outcome"]
    rows = DeltaTable(gateway.home / "tables" / "topic_log").to_pyarrow_table(columns=columns)
    return {
        row["consumer"].split("/")[0].split("-")[0]
        for row in rows.to_pylist()
        if row["subscription"] == f"global/{topic}" and row["outcome"] == "accepted"
    }


def test_looking_applies_the_selector(spark: SparkSession, lake: Gateway, topic: str) -> None:
    """Messages not read yet are selected where they are read, as by the gateway."""
    mine = Subscription(lake, topic, selector("JMSPriority > 4 OR n = 3"))
    with Peer(lake.port) as peer:
        sender = peer.sender(topic)
        for n in range(40):
            sender.publish_data([encoded(n, properties={"n": n})])
    found = mine.pending(spark, raw="true")
    assert found.columns[-2:] == ["message", "attempts"]
    assert found.count() == 1
    said = {name: found.schema[name].dataType for name in found.columns}
    assert said["message"].simpleString() == "binary"


def test_each_message_is_written_once_whatever_dies(
    spark: SparkSession, tmp_path: Path, topic: str
) -> None:
    """Spark dies before a batch is written, between the write and Spark's own commit, and between
    that and the settlement; then the gateway dies. A worker takes its share in between."""
    with Gateway(tmp_path / "gateway", SETTINGS) as gateway:
        mine = Subscription(gateway, topic)
        mine.publish(range(200))
        theirs: list[int] = []
        for point in ("before", "after", "committed"):
            _killed(mine, tmp_path, point)
            assert mine.row()["in_flight"] == 50, "what the batch has stays with the query"
            with Peer(gateway.port) as peer:
                worker = mine.attach(peer)
                taken = worker.take(20)
                worker.confirm(taken)
                theirs += [int(str(got.body)) for got in taken]
                peer.leave(worker, closed=False)
        assert bodies(tmp_path) == list(range(50)), "written once, not settled"
        gateway.kill()
        gateway.start()
        ours = drained(spark, mine, tmp_path)
        assert sorted([*ours, *theirs]) == list(range(200))
        assert mine.settled()
        gateway.stop()
        gateway.verified()


def _killed(mine: Subscription, folder: Path, point: str) -> None:
    """Run the job as a process of its own until it kills itself at this point."""
    options = json.dumps({**mine.options, "maxMessagesPerTrigger": "50"})
    places = [str(folder / "table"), str(folder / "checkpoint")]
    paths = [str(JOB.parent), str(JOB.parents[1] / "core"), str(JOB.parents[2])]
    done = subprocess.run(
        [sys.executable, str(JOB), options, *places, point],
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -9, done.stderr[-3_000:]


def test_a_run_takes_all_that_was_there_before_later_urgent_messages(
    lake: Gateway, topic: str
) -> None:
    """More urgent messages than a batch has come after the begin of a run: it leaves them, and ends
    when all earlier ones are settled."""
    mine = Subscription(lake, topic)
    mine.publish(range(5))
    first = mine.row()["head"] - 5
    stream = Stream(choices(mine.options), Form(raw=False, typed=None))
    stream.prepareForTriggerAvailableNow()
    with Peer(lake.port) as peer:
        urgent = [encoded(body, priority=9) for body in range(5, 12)]
        peer.sender(topic).publish_data(urgent)
    at, taken = stream.initialOffset(), list[int]()
    try:
        while (then := stream.latestOffset(at, ReadMaxRows(2))) != at:
            at = then
            taken += sequences_of(then["sequences"])
    finally:
        stream.stop()
    assert taken == [*range(first, first + 5)]
    until(lambda: mine.row()["in_flight"] == 0, "the later ones are given back")
    assert mine.row()["backlog"] == 7


def test_a_batch_that_runs_again_has_the_tasks_that_it_had(lake: Gateway, topic: str) -> None:
    """Whatever the settings say now: the sink `topic` knows its messages by their tasks."""
    mine = Subscription(lake, topic)
    mine.publish(range(20))
    ends = []
    for size in (None, 3, 20):
        stream = Stream(choices(mine.options), Form(raw=False, typed=None))
        start = stream.initialOffset()
        try:
            if not ends:
                ends.append(stream.latestOffset(start, ReadMaxRows(20)))
                assert ends[0]["task_messages"] == load().subscription.task_messages
            end = ends[0] if size is None else {**ends[0], "task_messages": size}
            tasks = [one.part.count for one in stream.partitions(start, end)]
        finally:
            stream.stop()
        assert tasks == ([3] * 6 + [2] if size == 3 else [20])


def test_a_query_whose_gateway_died_says_so_and_goes_on(
    spark: SparkSession, tmp_path: Path, topic: str
) -> None:
    """It fails with a sentence; started again it has everything once."""
    with Gateway(tmp_path / "gateway", SETTINGS) as gateway:
        mine = Subscription(gateway, topic)
        mine.publish(range(50))
        table, checkpoint = str(tmp_path / "table"), str(tmp_path / "checkpoint")
        query = drain.build(
            spark, drain.Settings(mine.options, table, checkpoint, trigger="1 second")
        )
        until(lambda: query.lastProgress and DeltaTable.is_deltatable(table), "a batch")
        gateway.kill()
        with pytest.raises(StreamingQueryException, match="start the query again when the gateway"):
            query.awaitTermination()
        gateway.start()
        mine.publish(range(50, 60))
        assert drained(spark, mine, tmp_path) == list(range(60))
        assert mine.settled()


def test_a_wrong_option_is_one_sentence(spark: SparkSession) -> None:
    """It is said when the source is loaded, before anything is asked."""
    register(spark)
    options = {"gateway": "localhost:1", "subscription": "global/orders", "offset": "5"}
    with pytest.raises(PySparkException, match="'subscription' has no option 'offset'; it has"):
        spark.readStream.format("subscription").options(**options).load()


def test_a_subscription_that_is_not_there_is_one_sentence(
    spark: SparkSession, lake: Gateway
) -> None:
    """The gateway's own."""
    register(spark)
    options = {"gateway": f"127.0.0.1:{lake.port}", "subscription": "global/nobody"}
    with pytest.raises(PySparkException, match="there is no subscription global/nobody"):
        spark.read.format("subscription").options(**options).load().count()
