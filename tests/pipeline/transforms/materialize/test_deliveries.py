"""One delivery counts once: what clients of a real gateway were handed is what `acks` comes to, in
every way in which it may be counted."""

import re
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from gateway_links import Got, Incoming
from gateway_links import encoded as message
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import Gateway
from proton import Delivery
from pyspark.sql import SparkSession
from spark_log import encoded
from spark_place import Place

from distributary.jobs.materialize.materialize import Settings, build
from distributary.jobs.tables.table_locations import TableLocations
from distributary.jobs.views.audit_run import Settings as AuditSettings
from distributary.jobs.views.audit_run import build as audit
from distributary.jobs.views.notebook_views import register
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.transforms.schema.home_tables import find_tables
from distributary.pipeline.transforms.views.consumers import OUTCOMES, consumers

TABLES = Path(__file__).parents[4] / "docs" / "tables.md"
#: What failed so often is given up, of one queue without a copy.
ATTEMPTS = {"orders": 3, "plain": 2}


def ended(incoming: Incoming, got: Got, body: str) -> None:
    """By what the message says: each outcome that a consumer may give."""
    state = Delivery.ACCEPTED
    match body.partition("-")[0]:
        case "fail":
            state, got.delivery.local.failed = Delivery.MODIFIED, True
        case "here":
            state, got.delivery.local.undeliverable = Delivery.MODIFIED, True
        case "reject":
            state = Delivery.REJECTED
        case "once" if got.message.delivery_count == 0:
            state, got.delivery.local.failed = Delivery.MODIFIED, True
    incoming.confirm([got], state)


def handed(gateway: Gateway, queue: str, attempts: int) -> Counter[str]:
    """All deliveries to a client until nothing is left, each with its outcome; one message expires
    undelivered, one is lost with its consumer."""
    bodies = [f"{what}-{n}" for what in ("ok", "fail", "here", "reject", "once") for n in (1, 2)]
    due = Counter(bodies) + Counter({"once-1": 1, "once-2": 1, "ok-1": 1})
    due += Counter({"fail-1": attempts - 1, "fail-2": attempts - 1})
    received: Counter[str] = Counter()
    with Peer(gateway.port, "worker") as peer:
        policy = {"delivery_attempts_max": attempts, "dead_letter": attempts > 2}
        Manager(peer).done("CREATE", "queue", queue, policy=policy)
        sender = peer.sender(queue, capabilities=("queue",))
        sender.publish_data([message("late", ttl=0.001)])
        sender.publish(*bodies)
        incoming = peer.receiver(queue, capabilities=("queue",))
        received[str(incoming.take()[0].body)] += 1
        peer.leave(incoming, closed=True)
        incoming = peer.receiver(queue, capabilities=("queue",))
        while received.total() < due.total():
            [got] = incoming.take()
            received[str(got.body)] += 1
            ended(incoming, got, str(got.body))
        assert received == due
        assert incoming.nothing()
    return received


def test_what_clients_were_handed_is_what_the_tables_come_to(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By the view, by `consumers`, by the way that docs/tables.md gives for any engine; and the
    audit agrees."""
    with Gateway(tmp_path) as gateway:
        received = {name: handed(gateway, name, most) for name, most in ATTEMPTS.items()}
        gateway.stop()
    home = Home(gateway.home)
    places = TableLocations(str(home.topic_log), str(home.spark_tables), str(home.checkpoint("m")))
    build(spark, Settings(places)).awaitTermination()
    register(spark, str(home.root))
    text = re.search(r"To count deliveries.*?```sql\n(.*?)```", TABLES.read_text(), re.DOTALL)
    assert text
    counted = {row.subscription: row.deliveries for row in spark.sql(text[1]).collect()}
    viewed = {
        row.subscription: row.n
        for row in spark.sql(
            "SELECT subscription, count(*) AS n FROM deliveries GROUP BY 1"
        ).collect()
    }
    found = consumers(find_tables(spark, str(home.root))).collect()
    for name, had in received.items():
        queue, total = f"queue/{name}", sum(had.values())
        assert (counted[queue], viewed[queue]) == (total, total), had
        mine = [row for row in found if row.subscription == queue]
        assert sum(row.deliveries for row in mine) == total
        assert all(row.deliveries == sum(row[one] for one in OUTCOMES) for row in mine)
        if name == "orders":
            assert sum(row.dead_lettered for row in mine) == 6, "each is the end of one delivery"
    assert spark.sql("SELECT * FROM acks WHERE outcome = 'dead_lettered'").count() == 6
    assert not [one for one in audit(spark, AuditSettings(places.tables)) if one.findings]


def test_a_window_between_its_two_rows_counts_it_once(place: Place) -> None:
    """In the window in which the delivery ended, though its copy was durable on another day."""
    log = place.log
    log.next_group()
    log.subscribe("global/late", "late")
    log.next_group()
    [sequence] = log.publish("late", encoded())
    end = log.now.replace(hour=23, minute=59, second=59)
    failed: dict[str, Any] = {
        "delivered_at": end - timedelta(seconds=5),
        "settled_at": end,
        "outcome": "modified",
    }
    log.settle("global/late", "late", [sequence], sequence, **failed)
    log.next_group()
    dead_lettered = {"outcome": "dead_lettered", "final": True, "delivery_count": 1}
    later = {"settled_at": end + timedelta(seconds=2)}
    log.settle("global/late", "late", [sequence], sequence + 1, **failed | dead_lettered | later)
    log.commit()
    place.materialize()
    tables = find_tables(place.spark, str(place.home.root))
    middle = end + timedelta(seconds=1)
    [row] = consumers(tables, until=middle).collect()
    assert (row.deliveries, row.dead_lettered, row.modified) == (1, 1, 0)
    assert row.settle_seconds_p50 == 5.0
    assert consumers(tables, since=middle).collect() == []
