"""Frames of attackers, and the time for which they listen."""

import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

from gateway_codec import Encoded, encode
from gateway_fields import make
from gateway_frames import AMQP_HEADER, Raw, frame_of
from gateway_jms import GLOBAL, QUEUE, consumer, producer, selector, source
from proton import Described, ulong

#: Seconds that an attacker waits for what it needs before it goes on.
PATIENCE_SECONDS = 60.0
MIB = 1 << 20
#: The elements that make a list of arrays of nulls expensive: 10 bytes say 60,000 values.
NULLS = 60_000
FRAME_BYTES = 60_000


def nulls(count: int) -> Encoded:
    """A list of arrays of nulls."""
    one = b"\xf0\x00\x00\x00\x05" + struct.pack(">I", NULLS) + b"\x40"
    return Encoded(b"\xd0" + struct.pack(">II", 4 + count * len(one), count) + one * count)


def opening(container: str = "hostile", window: int = 0x7FFFFFFF) -> bytes:
    """The header, an open and a session on channel 0."""
    return b"".join(
        [
            AMQP_HEADER,
            frame_of("open", container_id=container, max_frame_size=MIB, channel_max=2_000),
            frame_of(
                "begin", next_outgoing_id=0, incoming_window=window, outgoing_window=0x7FFFFFFF
            ),
        ]
    )


def flow(credit: int, handle: int = 0, **more: object) -> bytes:
    return frame_of(
        "flow",
        next_incoming_id=0,
        incoming_window=0x7FFFFFFF,
        next_outgoing_id=0,
        outgoing_window=0x7FFFFFFF,
        handle=handle,
        delivery_count=0,
        link_credit=credit,
        **more,
    )


def transfer(
    id_: int, payload: bytes, *, handle: int = 0, settled: bool = False, more: bool = False
) -> bytes:
    return frame_of(
        "transfer",
        handle=handle,
        delivery_id=id_,
        delivery_tag=id_.to_bytes(4, "big"),
        message_format=0,
        settled=settled,
        more=more,
        payload=payload,
    )


def large(id_: int, payload: bytes, handle: int = 0) -> Iterator[bytes]:
    """A message in as many frames as it needs."""
    for at in range(0, len(payload), FRAME_BYTES):
        more = at + FRAME_BYTES < len(payload)
        yield transfer(id_, payload[at : at + FRAME_BYTES], handle=handle, more=more)


@contextmanager
def talking(port: int, *attaches: bytes, container: str = "hostile") -> Iterator[Raw]:
    """A connection with a session and these links, which the gateway has answered: it takes
    transfers from now on. The gateway may end it when it likes."""
    with Raw(port) as raw, suppress(OSError):
        raw.socket.settimeout(PATIENCE_SECONDS)
        raw.send(opening(container))
        raw.expect("open", "begin")
        for attach in attaches:
            raw.send(attach)
            while raw.read().kind != "attach":
                pass
        yield raw


def say(port: int, *said: bytes, links: tuple[bytes, ...] = (), container: str = "hostile") -> None:
    """Say all of it on a connection with these links, then read until the gateway has acted on it:
    it answers an end of the socket."""
    with talking(port, *links, container=container) as raw:
        raw.send(*said)
        over(raw)


def over(raw: Raw) -> None:
    raw.socket.shutdown(1)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while raw.socket.recv(1 << 20) and time.monotonic() < deadline:
        pass


def arrived(raw: Raw, count: int) -> None:
    """Wait until so many whole messages have come."""
    while count:
        one = raw.read()
        count -= one.kind == "transfer" and not one["more"]


def request(operation: str, kind: str, name: str, body: object) -> bytes:
    """A request to the node, whose answer comes by the asking link."""
    said = {"operation": operation, "type": kind, "name": name}
    sections = ((0x73, [ulong(1), None, None, None, "answers"]), (0x74, said), (0x77, body))
    return b"".join(encode(Described(ulong(code), one)) for code, one in sections)


def ask(port: int, *requests: bytes, container: str = "hostile") -> None:
    """Ask the node all of this."""
    node = producer(None, target=make("target", address="$management"))
    answers = frame_of(
        "attach",
        name="answers",
        handle=1,
        role=True,
        target=make("target", address="answers"),
        source=make("source", address="$management"),
    )
    frames = [frame for number, one in enumerate(requests) for frame in large(number, one)]
    said = (flow(1_000, handle=1), *frames)
    say(port, *said, links=(node, answers), container=container)


def published(port: int, address: str, *messages: bytes) -> None:
    """Have these messages in a topic or queue, accepted."""
    words = QUEUE if address.startswith("queue") else ("topic",)
    with Raw(port) as raw:
        raw.send(opening("publisher"), producer(address, words))
        raw.expect("open", "begin", "attach", "flow")
        for number, message in enumerate(messages):
            raw.send(*large(number, message))
            while raw.read().kind != "disposition":
                pass


def subscription(name: str, topic: str, text: str = "") -> bytes:
    """The attach of a consumer of a global shared durable subscription."""
    filters = selector(text) if text else None
    return consumer(f"{name}|global", source(topic, GLOBAL, durable=True, filters=filters))


def subscribed(port: int, name: str, topic: str, text: str = "") -> None:
    with Raw(port) as raw:
        raw.send(
            opening("subscriber"), subscription(name, topic, text), frame_of("detach", handle=0)
        )
        raw.expect("open", "begin", "attach", "detach")
