"""The keys by which messages are in partitions: pinned, as what is on disks rests upon them."""

from array import array
from collections import Counter

import pytest
from proton import Message, symbol

from distributary.ingest.native.message_addresses import keys
from distributary.ingest.native.pump import Pump, ffi, lib
from distributary.ingest.native.runs import Received
from distributary.pipeline.lake.partitions import partitions_of

DUPLICATE = symbol("x-opt-duplicate-id")


def received(*messages: Message) -> Received:
    """A run of them, as the pump brings it."""
    data = [bytes(message.encode()) for message in messages]
    columns = Pump(1 << 20).columns
    at, size = array("I"), array("I")
    for one in data:
        assert lib.pump_inspect(ffi.from_buffer(one), len(one), columns, 0) == 0
        at.append(columns.id_at[0])
        size.append(columns.id_size[0])
    return Received(
        link=0,
        count=len(data),
        blob=b"".join(data),
        lengths=array("I", map(len, data)).tobytes(),
        durable=b"",
        priority=b"",
        ttl=b"",
        deliveries=b"",
        unsettled=0,
        to_at=b"",
        to_size=b"",
        id_at=at.tobytes(),
        id_size=size.tobytes(),
    )


def key(**fields: object) -> int:
    return keys(received(Message(body="x", **fields)))[0]


#: What a message says, and its key.
PINNED = [
    ({"group_id": "a"}, 0x95DA58F99F363D7D),
    ({"group_id": "größe"}, 0x24C000571761201),
    ({"group_id": "group-0123456789", "id": "other"}, 0x5E810A935E2260D7),
    ({"id": "ID:1"}, 0x9823346977AB4622),
    ({"id": 7}, 0x15FAFCFEF80B6C13),
]


@pytest.mark.parametrize(("fields", "number"), PINNED)
def test_a_key_is_for_ever(fields: dict[str, object], number: int) -> None:
    assert key(**fields) == number


def test_a_group_goes_before_an_id_and_a_duplicate_id_before_a_message_id() -> None:
    assert key(group_id="g", id="a") == key(group_id="g", id="b") == key(group_id="g")
    assert key(group_id="", id="a") == key(id="a") != key(id="b")
    told = {DUPLICATE: "d"}
    assert key(id="a", annotations=told) == key(id="b", annotations=told) != key(id="a")
    assert key() == 0


def test_ids_as_clients_count_them_are_spread_evenly() -> None:
    for name in ("ID:client-1:1:1-{}", "{}", "order-{:08}"):
        run = received(*(Message(id=name.format(number)) for number in range(6_000)))
        for count in (2, 3, 5):
            found = Counter(partitions_of(keys(run), count, 0))
            assert all(abs(one - 6_000 / count) < 600 / count for one in found.values()), found
