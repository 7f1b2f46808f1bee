"""The job: exactly once, whatever happens in the middle."""

from pyroaring import BitMap64
from spark_log import encoded

from conftest import Place


def test_one_batch_fills_three_tables(place: Place) -> None:
    """Messages, acks and cursors of all versions are there after one run of the job."""
    log = place.log
    log.next_group()
    log.subscribe("global/dispatchers", "flights")
    log.next_group()
    log.publish("flights", *[encoded(f"m{i}", properties={"i": i}) for i in range(10)])
    log.commit()
    log.next_group()
    log.settle("global/dispatchers", "flights", [0, 1, 4, 6], 2)
    log.commit()
    place.materialize()
    assert place.table("messages").count() == 10
    assert place.table("acks").count() == 4
    cursor = place.table("cursors").first()
    assert (cursor.floor, list(BitMap64.deserialize(bytes(cursor.settled)))) == (2, [4, 6])
    assert (cursor.group, cursor.log_version, cursor.accepted) == (3, 2, 4)
    print(place.progress)
    place.table("messages").show(truncate=False)
    place.table("acks").show(truncate=False)
