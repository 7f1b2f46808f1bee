"""Messages owed to a subscription with a selector: in Spark those that the gateway will deliver."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from gateway_links import encoded as gateway_encoded
from gateway_peer import Peer, selector
from gateway_process import Gateway
from proton import Delivery
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from selector_rules import MESSAGE, TABLE
from selector_sides import encoded, rows
from spark_log import BEGIN
from spark_log import encoded as log_encoded
from spark_place import Place

from distributary.jobs.materialize.materialize import Settings, build
from distributary.jobs.tables.table_locations import TableLocations
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.transforms.views.pending import owed, pending

TEXT = "delay / 3 >= 2 AND NOT (carrier = 'UA' OR JMSPriority < 4) OR late"


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    with Gateway(tmp_path, {"commit": {"interval_ms": 20}}) as running:
        yield running


def test_pending_is_what_the_gateway_delivers(spark: SparkSession, gateway: Gateway) -> None:
    """Of two hundred messages some are settled and some came back; the gateway stops, Spark says
    what is owed; then the gateway delivers just this."""
    with Peer(gateway.port, "auditor") as peer:
        receiver = peer.durable("flights", "late", filters=selector(TEXT))
        peer.sender("flights").publish_data(flight(n) for n in range(200))
        taken = receiver.take(12)
        receiver.confirm(taken[3:7])
        receiver.confirm(taken[7:9], Delivery.RELEASED)
        peer.leave(receiver, closed=False)
    gateway.stop()
    home = Home(gateway.home)
    places = TableLocations(
        str(home.topic_log), str(home.cursors.parent), str(home.checkpoint("materialize"))
    )
    build(spark, Settings(places)).awaitTermination()
    found = pending(spark, str(gateway.home), "late").select("body_text").collect()
    gateway.start()
    with Peer(gateway.port, "auditor") as peer:
        receiver = peer.durable("flights", "late", filters=selector(TEXT))
        delivered = receiver.bodies(len(found))
        assert receiver.nothing()
    assert sorted(int(row.body_text) for row in found) == sorted(map(int, map(str, delivered)))
    assert len(found) > 20


def flight(n: int) -> bytes:
    properties = {"delay": n % 17, "carrier": ("UA", "AA", "DL")[n % 3], "late": n % 50 == 0}
    if n % 7 == 0:
        del properties["delay"]
    return gateway_encoded(n, properties=properties, priority=n % 10)


def test_pending_knows_the_selector(place: Place) -> None:
    """It stands in the log, then in the cursor, and selects what is owed; so after a rewind."""
    place.log.next_group()
    place.log.subscribe("global/large", "flights", selector="n >= 3 AND n <> 4")
    place.log.publish("flights", *(log_encoded(properties={"n": n}) for n in range(7)))
    place.log.next_group()
    place.log.settle("global/large", "flights", [5], floor=3)
    place.log.commit()
    place.materialize()
    assert sequences(place, "global/large") == [3, 6]
    place.log.next_group()
    place.log.subscribe(
        "global/large", "flights", event="rewound", floor=1, selector="n >= 3 AND n <> 4"
    )
    place.log.commit()
    place.materialize()
    assert sequences(place, "global/large") == [3, 5, 6]


def sequences(place: Place, subscription: str) -> list[int]:
    found = pending(place.spark, str(place.home.root), subscription).collect()
    return sorted(row.sequence for row in found)


def test_what_waits_and_what_is_over_is_said(place: Place) -> None:
    """Both are owed until they are settled; the columns show which are not delivered now."""
    place.log.next_group()
    place.log.subscribe("global/all", "flights")
    later = BEGIN + timedelta(days=365 * 100)
    place.log.publish("flights", log_encoded("plain"))
    place.log.publish("flights", log_encoded("over"), expires_at=BEGIN - timedelta(days=3650))
    place.log.publish("flights", log_encoded("later"), deliver_at=later, expires_at=later)
    place.log.commit()
    place.materialize()
    found = pending(place.spark, str(place.home.root), "all").collect()
    said = {row.body_text: (row.expired, row.delayed) for row in found}
    assert said == {"plain": (False, False), "over": (True, False), "later": (False, True)}


def cursor(text: str) -> Row:
    return Row(
        subscription="global/x",
        topic="flights",
        selector=text,
        floor=0,
        group=1,
        settled=b"",
        settled_count=0,
    )


def test_what_the_table_lacks_stays_in(spark: SparkSession) -> None:
    """A message that couldn't be decoded, with its error; and rows of before there were columns for
    all that selectors read, if the selector asks for that."""
    messages = [*(encoded({"a": n}) for n in range(4)), b"\x00\x53\x74\xff"]
    table = rows(spark, messages)
    found = owed(table, cursor("a > 1")).collect()
    assert [(row.sequence, row.error is None) for row in found] == [
        (2, True),
        (3, True),
        (4, False),
    ]
    older = table.drop("delivery_count", "group_sequence", "user_id", "deliver_at")
    for text, wanted in (("a > 1", 3), ("a > 1 AND JMSXDeliveryCount = 2", 5)):
        assert owed(older, cursor(text)).count() == wanted
    mixed = table.withColumn("delivery_count", F.when(F.col("sequence") > 1, F.lit(0)))
    found = owed(mixed, cursor("JMSXDeliveryCount = 2")).collect()
    assert [row.sequence for row in found] == [0, 1, 4]


def test_a_message_is_owed_only_if_its_truth_is_known(spark: SparkSession) -> None:
    """Neither what is false nor what is unknown is owed."""
    table = rows(spark, [encoded(MESSAGE)])
    some = [next((text, value) for text, value in TABLE if value is said) for said in (True, False)]
    some.append(("missing = 'x'", None))
    for text, value in some:
        assert owed(table, cursor(text)).count() == (value is True)
