"""The numbers are exact: what metrics say is what the tables say."""

import re
from collections import Counter
from pathlib import Path

import pytest
from gateway_frames import begun, framed
from gateway_http import ShownGateway
from gateway_links import encoded
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import until
from proton import Delivery
from pyspark.sql import SparkSession

from distributary.ingest.monitoring.metric_table import METRICS
from distributary.jobs.materialize.materialize import Settings, build
from distributary.jobs.tables.table_locations import TableLocations
from distributary.jobs.views.notebook_views import register
from distributary.pipeline.tables.home.home import Home

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "monitoring.md"


def by(found: dict[tuple[str, tuple[tuple[str, str], ...]], float], name: str) -> Counter[str]:
    """The samples of a metric by the values of their labels, without those that are 0."""
    return Counter(
        {
            "/".join(value for _, value in labels): int(value)
            for (metric, labels), value in found.items()
            if metric == f"distributary_{name}" and value
        }
    )


def lived(gateway: ShownGateway, start: int) -> None:
    """Messages of two topics and a queue, settled in every way; one subscription is rewound."""
    with Peer(gateway.port, "worker") as peer:
        late = peer.durable("flights", "late")
        peer.durable("flights", "never-read")
        queue = peer.receiver("orders", capabilities=("queue",))
        plain = peer.receiver("flights")
        peer.sender("flights").publish_data(encoded(n) for n in range(start, start + 20))
        peer.sender("weather").publish(*range(5))
        orders = peer.sender("orders", capabilities=("queue",))
        orders.publish(*range(start, start + 6))
        orders.publish_data([encoded("late", ttl=0.001)])
        plain.confirm(plain.take(20))
        taken = late.take(12)
        late.confirm(taken[:4])
        late.confirm(taken[4:6], Delivery.RELEASED)
        taken[6].delivery.local.failed = True
        late.confirm(taken[6:7], Delivery.MODIFIED)
        got = queue.take(6)
        queue.confirm(got[:2], Delivery.REJECTED)
        got[2].delivery.local.failed = True
        queue.confirm(got[2:3], Delivery.MODIFIED)
        queue.confirm(got[3:])
        queue.confirm(queue.take(1))
        late.take(3)
        subscription = "container/worker/late"

        def given_up() -> list[int]:
            settled = by(gateway.metrics(), "settled_messages_total")
            return [settled[f"{outcome}/{QUEUE}"] for outcome in ("dead_lettered", "expired")]

        until(lambda: given_up() == [2, 1], "the copies are kept, and the late message has expired")
        peer.leave(late, closed=False)
        Manager(peer).done("REWIND", "subscription", subscription, to=3)


QUEUE = "queue/orders"


@pytest.mark.timeout(900)
def test_what_metrics_count_is_what_the_tables_say(spark: SparkSession, tmp_path: Path) -> None:
    """Before a kill and after it together, with a rewind in each life: published by topic,
    deliveries, and every outcome, by subscription."""
    published, deliveries, settled = Counter[str](), Counter[str](), Counter[str]()
    published_bytes, given_up_bytes = Counter[str](), Counter[str]()
    redelivered, sent_bytes, again_bytes = Counter[str](), Counter[str](), Counter[str]()
    gateway = ShownGateway(tmp_path)
    with gateway:
        for life in range(2):
            if life:
                gateway.kill()
                gateway.start()
            lived(gateway, 100 * life)
            found = gateway.metrics()
            published += by(found, "published_messages_total")
            deliveries += by(found, "deliveries_total")
            settled += by(found, "settled_messages_total")
            redelivered += by(found, "redeliveries_total")
            sent_bytes += by(found, "delivered_bytes_total")
            again_bytes += by(found, "redelivered_bytes_total")
            published_bytes += by(found, "published_bytes_total")
            given_up_bytes += by(found, "given_up_bytes_total")
        for labels, backlog in by(found, "backlog_messages").items():
            assert backlog >= 0, labels
        assert found[("distributary_backlog_messages", (("subscription", NEVER),))] == 40
        gateway.stop()
    home = Home(gateway.home)
    places = TableLocations(str(home.topic_log), str(home.spark_tables), str(home.checkpoint("m")))
    build(spark, Settings(places)).awaitTermination()
    register(spark, str(home.root))
    rows = spark.sql("SELECT topic AS name, count(*) AS n FROM messages GROUP BY 1").collect()
    assert published == {row.name: row.n for row in rows}
    rows = spark.sql(
        "SELECT concat(outcome, '/', subscription) AS name, count(*) AS n FROM acks GROUP BY 1"
    ).collect()
    unnamed = {f"{one.split('/')[0]}/(unnamed)": settled[one] for one in settled if UNNAMED in one}
    assert settled - Counter(unnamed) == {row.name: row.n for row in rows}
    assert unnamed == {"accepted/(unnamed)": 40}
    spark.read.format("delta").load(places.log).createOrReplaceTempView("log")
    rows = spark.sql(
        "SELECT topic AS name, sum(octet_length(message)) AS n FROM log "
        "WHERE record = 'message' GROUP BY 1"
    ).collect()
    assert published_bytes == {row.name: row.n for row in rows}
    rows_given_up = spark.sql(
        "SELECT concat(acks.outcome, '/', acks.subscription) AS name, "
        "sum(octet_length(message)) AS n FROM acks JOIN log USING (sequence) "
        "WHERE record = 'message' AND acks.outcome IN ('dead_lettered', 'expired') GROUP BY 1"
    ).collect()
    assert given_up_bytes == {row.name: row.n for row in rows_given_up}
    assert set(given_up_bytes) == {f"dead_lettered/{QUEUE}", f"expired/{QUEUE}"}
    rows = spark.sql(
        "SELECT subscription AS name, count(*) AS n FROM deliveries GROUP BY 1"
    ).collect()
    ended = Counter({row.name: row.n for row in rows})
    # What was in flight at a kill or at the end was delivered, and has no row.
    assert all(deliveries[name] >= n for name, n in ended.items())
    assert deliveries[QUEUE] == ended[QUEUE] == 14
    assert deliveries["(unnamed)"] == 40
    deliveries_of_queue = spark.table("deliveries").where(f"subscription = '{QUEUE}'")
    stored = spark.table("log").where("record = 'message'").select("sequence", "message")
    sizes = deliveries_of_queue.join(stored, "sequence").selectExpr(
        "delivery_count > 0 AS again", "octet_length(message) AS bytes"
    )
    first, again = (
        [row.bytes for row in sizes.collect() if row.again is failed] for failed in (False, True)
    )
    assert (deliveries[QUEUE] - redelivered[QUEUE], redelivered[QUEUE]) == (len(first), len(again))
    assert len(again) == 2
    assert sent_bytes[QUEUE] - again_bytes[QUEUE] == sum(first)
    # What comes again says so in a header of its own.
    assert sum(again) < again_bytes[QUEUE] < sum(again) + 20 * len(again)


UNNAMED, NEVER = "(unnamed)", "container/worker/never-read"


def test_what_is_now_is_what_there_is(tmp_path: Path) -> None:
    """Backlog, flight, consumers, credit; of subscriptions that have no metrics of their own the
    sum."""
    with ShownGateway(tmp_path, {"http": {"metrics_subscriptions_max": 2}}) as gateway:
        with Peer(gateway.port, "c") as peer:
            receivers = [peer.durable("t", name) for name in "abcd"]
            peer.sender("t").publish(*range(10))
            for receiver in receivers:
                receiver.take(3)
            found = gateway.metrics()
            for name, each in (("backlog_messages", 10), ("in_flight_messages", 3)):
                assert by(found, name) == {
                    "container/c/a": each,
                    "container/c/b": each,
                    "(others)": 2 * each,
                }
            assert by(found, "consumers")["(others)"] == 2
            assert found[("distributary_connections", ())] == 1
            assert found[("distributary_subscriptions", ())] == 4
            assert found[("distributary_head_sequence", ())] == 10
            assert found[("distributary_backlog_oldest_age_seconds", OTHERS)] > 0
            gateway.await_metric(10, "committed_sequence")
            groups = by(found, "group_messages_count").total()
            assert groups == by(found, "accept_seconds_count").total()
            assert by(found, "group_messages_sum").total() == 10
        gateway.await_metric(0, "connections")
        gateway.stop()


OTHERS = (("subscription", "(others)"),)


def test_peers_that_were_ended_are_counted_by_the_reason(tmp_path: Path) -> None:
    with ShownGateway(tmp_path) as gateway:
        with begun(gateway.port, "x", framed(b"\x00\x53\x99\xff")):  # no performative
            until(lambda: by(gateway.metrics(), "peers_ended_total"), "the peer is counted")
        [(condition, count)] = by(gateway.metrics(), "peers_ended_total").items()
        assert (condition[:5], count) == ("amqp:", 1)
        gateway.stop()


def test_the_guide_has_every_metric() -> None:
    """Name, kind, labels and meaning, in the order in which they are shown."""
    row = r"^\| `(distributary_\w+)` \| (\w+) \| (.*?) \| (.*?) \|$"
    rows = re.findall(row, GUIDE.read_text(), re.MULTILINE)
    said = [
        (one.full_name, one.kind.value, ", ".join(f"`{label}`" for label in one.labels), one.help)
        for one in METRICS
    ]
    assert rows == said
