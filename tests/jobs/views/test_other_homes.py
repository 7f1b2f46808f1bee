"""Results from one home are never used against another one's gateway: two homes that are copies of
each other and went on by themselves, so that the same sequences are other messages."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import Gateway
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from test_subscriber import SETTINGS, Subscription, bodies, drained

from distributary.jobs.materialize.materialize import Settings, build
from distributary.jobs.subscription import drain
from distributary.jobs.tables.table_locations import TableLocations
from distributary.jobs.views import backfill
from distributary.jobs.views.notebook_views import register, stuck
from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.home.home import Home

BEFORE, OURS, THEIRS = range(100), range(100, 150), range(1_100, 1_150)


@pytest.fixture(scope="module")
def homes(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Gateway, Gateway]]:
    """A hundred messages with their tables, copied; then fifty more, others in each."""
    folder = tmp_path_factory.mktemp("homes")
    first = Gateway(folder / "first", SETTINGS).start()
    mine = Subscription(first, "orders")
    with Peer(first.port) as peer:
        peer.leave(peer.shared_durable("orders", "two|global"), closed=False)
    mine.publish(BEFORE)
    first.stop()
    home = Home(first.home)
    places = TableLocations(str(home.topic_log), str(home.spark_tables), str(home.checkpoint("m")))
    build(spark, Settings(places)).awaitTermination()
    second = Gateway(folder / "second", SETTINGS)
    shutil.copytree(first.home, second.home)
    with first, second:
        mine.publish(OURS)
        Subscription(second, "orders").publish(THEIRS)
        yield first, second


def query(gateway: Gateway, name: str = "orders") -> Subscription:
    one = Subscription.__new__(Subscription)
    one.gateway, one.topic, one.filters = gateway, name, None
    return one


def failed(spark: SparkSession, one: Subscription, folder: Path, **options: str) -> str:
    """The sentence that a job ends with."""
    said = drain.Settings(one.options | options, str(folder / "table"), str(folder / "checkpoint"))
    with pytest.raises(PySparkException) as error:
        drain.build(spark, said).awaitTermination()
    return str(error.value)


def test_a_query_that_sees_another_table_takes_nothing(
    spark: SparkSession, homes: tuple[Gateway, Gateway], tmp_path: Path
) -> None:
    """A copy that went on, another table, no table: one sentence, and the subscription is as it
    was. Looking is refused in the same way."""
    first, second = homes
    mine, before = query(first), query(first).row()
    assert (before["consumers"], before["backlog"]) == (0, 150)
    other = str(Home(second.home).topic_log)
    assert f"the topic_log in {other} isn't the gateway's" in failed(
        spark, mine, tmp_path, log=other
    )
    nowhere = str(tmp_path / "nowhere")
    assert f"no topic_log can be reached in {nowhere}" in failed(spark, mine, tmp_path, log=nowhere)
    with pytest.raises(PySparkException, match="isn't the gateway's"):
        mine.pending(spark, log=other).count()
    assert mine.row() == before


def test_a_checkpoint_belongs_to_the_gateway_that_it_was_begun_with(
    spark: SparkSession, homes: tuple[Gateway, Gateway], tmp_path: Path
) -> None:
    """Another gateway isn't asked to settle what it may never have written; its own goes on."""
    first, second = homes
    ours, theirs = query(first), query(second)
    assert drained(spark, ours, tmp_path) == [*BEFORE, *OURS]
    before = theirs.row()
    assert "the query's checkpoint is of another gateway" in failed(spark, theirs, tmp_path)
    assert theirs.row() == before, "nothing was taken, nothing settled"
    assert drained(spark, ours, tmp_path) == [*BEFORE, *OURS]
    assert drained(spark, theirs, tmp_path / "new") == [*BEFORE, *THEIRS]
    assert bodies(tmp_path) == [*BEFORE, *OURS]


def test_tables_of_one_home_are_not_shown_or_told_to_the_other_gateway(
    spark: SparkSession, homes: tuple[Gateway, Gateway], capsys: pytest.CaptureFixture[str]
) -> None:
    """Why messages are stuck, the views, and hints of a backfill, which would hide messages."""
    first, second = homes
    place, right, wrong = (str(first.home), *(f"127.0.0.1:{one.port}" for one in homes))
    assert stuck(spark, place, "two", right).count() >= 100
    for ask in (
        lambda: stuck(spark, place, "two", wrong),
        lambda: register(spark, place, wrong),
    ):
        with pytest.raises(StoreError, match="isn't the gateway's"):
            ask()
    begin = ["global/new", "--topic", "orders", "--since", "0", "--selector", "JMSPriority = 4"]
    assert backfill.main([*begin, "--home", place, "--gateway", wrong]) == 1
    assert "isn't the gateway's: it is another one, or a copy" in capsys.readouterr().err
    with Peer(second.port) as peer:
        Manager(peer).refused(404, "READ", "subscription", "global/new")
    assert backfill.main([*begin, "--home", place, "--gateway", right]) == 0
