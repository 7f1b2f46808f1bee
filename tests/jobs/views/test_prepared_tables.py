"""The work of a prepared transaction is in no table that Spark makes until its commit, and then in
each of them once; so it is with the parts of a transaction over several logs."""

from itertools import count
from pathlib import Path

from gateway_fleet import Fleet
from gateway_jms import Jms
from gateway_process import Gateway
from pyspark.sql import SparkSession
from test_prepared import TRANSACTION, asking, moved, prepared

from distributary.jobs.materialize.materialize import Settings, build
from distributary.jobs.tables.table_locations import TableLocations
from distributary.jobs.views.audit_run import Settings as AuditSettings
from distributary.jobs.views.audit_run import build as audit
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.transforms.schema.home_tables import find_tables
from distributary.pipeline.transforms.views.pending import pending_of_all
from tests.ingest.relaying.test_shared_transactions import Work

#: What each queue is owed before anything has ended: what a transaction has taken is not settled.
BEFORE = {"p-in": 3, "q-in": 3, "r-in": 3}
#: One transaction is committed, one rolled back, one waits.
AFTER = BEFORE | {"p-in": 2, "p-out": 1}


#: Checks of the audit that compare what transactions do with the tables; all of them take minutes.
CHECKS = ("torn", "lost", "settled_twice")


def owed(spark: SparkSession, home: Home) -> dict[str, int]:
    """Bring the tables up to date and audit them; how much is pending of each queue."""
    places = TableLocations(str(home.topic_log), str(home.spark_tables), str(home.checkpoint("m")))
    build(spark, Settings(places)).awaitTermination()
    tables = find_tables(spark, str(home.root))
    assert not [
        one for one in audit(spark, AuditSettings(places.tables, names=CHECKS)) if one.findings
    ]
    rows = pending_of_all(tables).groupBy("subscription").count().collect()
    return {row.subscription.removeprefix("queue/"): row["count"] for row in rows}


def test_prepared_work_is_pending_after_its_commit_and_not_before(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Of three transactions, between two runs of the job; the audit finds nothing in either."""
    home = Home(tmp_path / "home")
    with Gateway(tmp_path) as gateway:
        with Jms(gateway.port, "worker") as jms:
            for topic in "pqr":
                prepared(moved(jms, topic), asking(gateway), f"6:01:0{'pqr'.index(topic)}")
        gateway.stop()
        assert owed(spark, home) == BEFORE
        names = {
            row.subscription for row in find_tables(spark, str(home.root)).subscriptions.collect()
        }
        assert names == {f"queue/{topic}-{way}" for topic in "pqr" for way in ("in", "out")}
        gateway.start()
        asking(gateway).done("COMMIT", TRANSACTION, "6:01:00")
        asking(gateway).done("ROLLBACK", TRANSACTION, "6:01:02")
        gateway.stop()
    assert owed(spark, home) == AFTER
    tables = find_tables(spark, str(home.root))
    sent = tables.messages.where("topic LIKE '%-out'").select("topic").collect()
    assert [row.topic for row in sent] == ["queue://p-out"]
    [ack] = tables.acks.where("final").collect()
    assert (ack.subscription, ack.outcome) == ("queue/p-in", "accepted")


def test_a_transaction_over_two_logs_is_in_the_tables_of_both(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A coin goes from a queue of one log to one of another, and another one doesn't."""
    folders = (tmp_path / str(number) for number in count())
    with Fleet(tmp_path, lambda settings: Gateway(next(folders), settings)) as fleet:
        for commits in (False, True):
            work = Work(fleet)
            work.do()
            assert (work.session.commit if commits else work.session.roll_back)() == ""
            work.jms.socket.close()
        fleet.main.stop()
        fleet.orders.stop()
        homes = Home(fleet.home), Home(fleet.home / "logs" / "orders")
    assert [owed(spark, home) for home in homes] == [{"own.to": 1}, {"orders.from": 1}]
