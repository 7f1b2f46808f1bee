"""Values that no client sends: sizes and counts that lie, and nesting without end, wherever a peer
may put a value. Whatever comes of it concerns that peer alone, and none of it stays.
"""

import struct
from collections.abc import Callable, Iterator

import pytest
from gateway_codec import Encoded, encode
from gateway_frames import (
    AMQP_HEADER,
    FLOW,
    Raw,
    begin_frame,
    durable_source,
    frame_of,
    make,
    open_frame,
    receiver_frame,
    sender_frame,
    topic_target,
    transfer_frame,
)
from gateway_hostile import Attacked
from gateway_links import encoded
from gateway_process import Gateway
from proton import symbol, ulong

LEVELS = 30_000
#: In a conversation: wait until there is credit.
CREDIT = b""


def nested_lists(levels: int) -> bytes:
    """A list in a list in a list ..."""
    sizes = range(4 + 9 * levels, 4, -9)
    return b"".join(struct.pack(">BII", 0xD0, size - 4, 1) for size in sizes) + b"\x40"


def nested_arrays(levels: int) -> bytes:
    """An array of one array of one array ..., of null."""
    sizes = range(5 + 9 * levels, 5, -9)
    return b"".join(struct.pack(">BII", 0xF0, size - 4, 1) for size in sizes) + b"\x40"


def nested_maps(levels: int) -> bytes:
    """A map that is the value of a map that is the value of a map ..."""
    sizes = range(4 + 10 * levels, 4, -10)
    return b"".join(struct.pack(">BIIB", 0xD1, size - 5, 2, 0x40) for size in sizes) + b"\x40"


VALUES = {
    "lists in lists": nested_lists(LEVELS),
    "maps in maps": nested_maps(LEVELS),
    "arrays in arrays": nested_arrays(LEVELS),
    "described values in described values": b"\x00\x40" * LEVELS + b"\x40",
    "descriptors with descriptors": b"\x00" * LEVELS + b"\x40" * (LEVELS + 1),
    "a list of 2^31 values": b"\xd0" + struct.pack(">II", 8, 1 << 31) + b"\x40" * 4,
    "a list of 2^32 - 1 bytes": b"\xd0" + struct.pack(">II", 0xFFFFFFFF, 1) + b"\x40",
    "a map of 2^32 - 2 values": b"\xd1" + struct.pack(">II", 8, 0xFFFFFFFE) + b"\x40" * 4,
    "an array of 2^32 - 1 nulls": b"\xf0" + struct.pack(">II", 5, 0xFFFFFFFF) + b"\x40",
    "an array of 2^31 truths": b"\xf0" + struct.pack(">II", 5, 1 << 31) + b"\x41",
    "an array of 2^31 empty lists": b"\xf0" + struct.pack(">II", 5, 1 << 31) + b"\x45",
    "an array of 2^24 nulls": b"\xf0" + struct.pack(">II", 5, 1 << 24) + b"\x40",
    "an array of 2^31 described": b"\xf0" + struct.pack(">II", 8, 1 << 31) + b"\x00\x53\x05\x40",
    "a binary of 2^32 - 1 bytes": b"\xb0" + struct.pack(">I", 0xFFFFFFFF) + b"x" * 100,
    "a symbol of 2^31 bytes": b"\xb3" + struct.pack(">I", 1 << 31) + b"x" * 100,
    "an array that ends early": b"\xe0\x02\x05\x53\x03",
    "an array of what isn't": b"\xe0\x02\x04\xc1\x01\x43\x02\x04\x45",
    "a list of a list of nothing": b"\xc0\x01\xff",
    "an unknown constructor": b"\x3f",
}  # fmt: skip


def opening(value: Encoded, field: str) -> list[bytes]:
    return [frame_of("open", container_id="hostile", hostname="h", **{field: value})]


def session(*frames: bytes) -> list[bytes]:
    return [open_frame("hostile"), begin_frame(), *frames]


def consumer(to: object = None, **source: object) -> bytes:
    termini = {"source": make("source", address="t", **source), "target": to or make("target")}
    return frame_of("attach", name="r", handle=0, role=True, **termini)


def producer(target: object, **more: object) -> bytes:
    fields = {"source": make("source"), "target": target, "initial_delivery_count": 0, **more}
    return frame_of("attach", name="s", handle=0, role=False, **fields)


def delivering(*frames: bytes) -> list[bytes]:
    """A session in which these frames are sent when the producer has its credit."""
    return session(sender_frame("s", topic_target("t")), CREDIT, *frames)


def message(section: int, value: bytes) -> bytes:
    return b"\x00\x53" + bytes([section]) + value + encoded("x")


def keyed(value: bytes) -> Encoded:
    """A map with the value under one key."""
    inner = encode(symbol("k")) + value
    return Encoded(b"\xd1" + struct.pack(">II", len(inner) + 4, 2) + inner)


def described(code: int, value: bytes) -> Encoded:
    """A filter of this kind."""
    return keyed(b"\x00" + encode(ulong(code)) + value)


Place = Callable[[Encoded], list[bytes]]
PLACES: dict[str, Place] = {
    "open.properties": lambda value: opening(value, "properties"),
    "a value of open.properties": lambda value: opening(keyed(value), "properties"),
    "open.container-id": lambda value: [frame_of("open", container_id=value)],
    "open.desired-capabilities": lambda value: opening(value, "desired_capabilities"),
    "begin.properties": lambda value: session(
        frame_of("begin", channel=1, next_outgoing_id=0, incoming_window=1, outgoing_window=1,
                 properties=keyed(value))
    ),
    "attach.name": lambda value: session(frame_of("attach", name=value, handle=0, role=True)),
    "attach.properties": lambda value: session(
        producer(make("target", address="t"), properties=keyed(value))
    ),
    "attach.unsettled": lambda value: session(
        producer(make("target", address="t"), unsettled=keyed(value))
    ),
    "attach.desired-capabilities": lambda value: session(
        producer(make("target", address="t"), desired_capabilities=value)
    ),
    "source.address": lambda value: session(
        frame_of("attach", name="r", handle=0, role=True, source=make("source", address=value))
    ),
    "source.filter": lambda value: session(consumer(filter=keyed(value))),
    "source.default-outcome": lambda value: session(consumer(default_outcome=value)),
    "source.capabilities": lambda value: session(consumer(capabilities=value)),
    "source.outcomes": lambda value: session(consumer(outcomes=value)),
    "a producer's source.filter": lambda value: session(
        producer(make("target", address="t"), source=make("source", filter=keyed(value)))
    ),
    "a producer's source.outcomes": lambda value: session(
        producer(make("target", address="t"), source=make("source", outcomes=value))
    ),
    "a producer's source.capabilities": lambda value: session(
        producer(make("target", address="t"), source=make("source", capabilities=value))
    ),
    "a consumer's target.capabilities": lambda value: session(
        consumer(to=make("target", capabilities=value))
    ),
    "a consumer's target.dynamic-node-properties": lambda value: session(
        consumer(to=make("target", dynamic_node_properties=keyed(value)))
    ),
    "a refused producer's source.outcomes": lambda value: session(
        producer(None, source=make("source", outcomes=value))
    ),
    "a refused producer's source.capabilities": lambda value: session(
        producer(None, source=make("source", capabilities=value))
    ),
    "a refused producer's source.filter": lambda value: session(
        producer(None, source=make("source", filter=value))
    ),
    "a refused consumer's target.capabilities": lambda value: session(
        consumer(to=make("target", capabilities=value), dynamic=True)
    ),
    "a refused consumer's target.dynamic-node-properties": lambda value: session(
        consumer(to=make("target", dynamic_node_properties=value), dynamic=True)
    ),
    "a lookup's target.capabilities": lambda value: session(
        receiver_frame("kept", durable_source("t")),
        frame_of("detach", handle=0, closed=False),
        frame_of("attach", name="kept", handle=0, role=True,
                 target=make("target", capabilities=value))
    ),
    "a selector": lambda value: session(consumer(filter=described(0x0000468C00000004, value))),
    "no-local": lambda value: session(consumer(filter=described(0x0000468C00000003, value))),
    "target.dynamic-node-properties": lambda value: session(
        producer(make("target", dynamic=True, dynamic_node_properties=keyed(value)))
    ),
    "target.capabilities": lambda value: session(
        producer(make("target", address="t", capabilities=value))
    ),
    "coordinator.capabilities": lambda value: session(
        producer(make("coordinator", capabilities=value))
    ),
    "flow.properties": lambda value: delivering(
        frame_of("flow", next_incoming_id=0, incoming_window=9, next_outgoing_id=0,
                 outgoing_window=9, properties=keyed(value))
    ),
    "transfer.state": lambda value: delivering(
        frame_of("transfer", handle=0, delivery_id=0, delivery_tag=b"0", state=value,
                 payload=encoded("x"))
    ),
    "transfer.delivery-tag": lambda value: delivering(
        frame_of("transfer", handle=0, delivery_id=0, delivery_tag=value, payload=encoded("x"))
    ),
    "disposition.state": lambda value: delivering(
        transfer_frame(0, encoded("x")),
        frame_of("disposition", role=False, first=0, settled=True, state=value),
    ),
    "detach.error": lambda value: delivering(
        frame_of("detach", handle=0, closed=True,
                 error=make("error", condition="x:y", info=keyed(value)))
    ),
    "close.error": lambda value: session(
        frame_of("close", error=make("error", condition="x:y", info=keyed(value)))
    ),
    "message-annotations": lambda value: delivering(
        transfer_frame(0, message(0x72, keyed(value))), transfer_frame(1, encoded("y"))
    ),
    "a message's properties": lambda value: delivering(
        transfer_frame(0, message(0x73, b"\x00\x53\x00" + value)), transfer_frame(1, encoded("y"))
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """Its frames may be larger than by default: more fits into them."""
    folder = tmp_path_factory.mktemp("values")
    with Gateway(folder, {"amqp": {"frame_bytes_max": 1 << 20}}) as gateway:
        with Attacked(gateway) as attacked:
            yield attacked
        gateway.stop()


@pytest.mark.parametrize("place", PLACES)
def test_no_value_harms_more_than_its_sender(attacked: Attacked, place: str) -> None:
    """It is ignored, or its link or its connection ends with an error; the gateway's answer is
    well-formed. Another client is served after each value, and none of them takes memory for
    good."""
    conversations = [PLACES[place](Encoded(value)) for value in VALUES.values()]

    def attack() -> None:
        for kind, said in zip(VALUES, conversations, strict=True):
            with Raw(attacked.gateway.port, hello=AMQP_HEADER) as raw:
                for one in said:
                    if one is CREDIT:
                        raw.next(FLOW)
                    else:
                        raw.send(one)
                raw.send(frame_of("close"))
                try:
                    frames = raw.until_end()
                except Exception as error:
                    raise AssertionError(f"{kind}: the answer can't be read") from error
                assert frames, f"{kind}: it ended without a word"
                assert frames[-1].kind == "close", f"{kind}: {frames}"

    size = sum(len(one) for said in conversations for one in said)
    attacked.withstands(attack, size=size, times=6)
