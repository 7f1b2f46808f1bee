"""Real conversations with damage drawn by a seed: bytes, fields, frames, and their order.

The test draws a few hundred; `python tests/gateway/test_hostile_fuzz.py SEED SECONDS` goes on as
long as it is told.
"""

import random
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gateway_codec import encode
from gateway_fields import make
from gateway_frames import AMQP_HEADER, EMPTY_FRAME, SASL_HEADER, Raw, frame_of
from gateway_hostile import MIB, Attacked, rss
from gateway_jms import (
    GLOBAL,
    QUEUE,
    SHARED,
    consumer,
    coordinator,
    delivery,
    lookup,
    no_local,
    producer,
    selector,
    source,
    temporary,
    text_message,
)
from gateway_process import Gateway
from gateway_transactions import value_of
from proton import Described, symbol

#: Accepted in a transaction that never was.
IN_NONE = make("transactional-state", txn_id=bytes(8), outcome=make("accepted"))
#: Conversations of the test, and what memory may have grown by after them: less than 20 KiB each.
CONVERSATIONS = 800
GROWTH_BYTES_MAX = 16 * MIB

#: Bytes that mean something: constructors, codes of performatives, sections and states.
TELLING = bytes.fromhex("00010210111213141516171824252627283040414243444550515355"
                        "70717273757778808391a0a1a3b0b1b3c0c1d0d1e0f07f80ff")  # fmt: skip
#: Values to put where others stood.
VALUES = [
    *(b"\x40", b"\x41", b"\x43", b"\x45", b"\x44", b"\x52\xff", b"\x70\xff\xff\xff\xff"),
    *(b"\x70\x7f\xff\xff\xff", b"\x80" + b"\xff" * 8, b"\xa1\x00", b"\xa1\x03N|2", b"\xc1\x01\x00"),
    *(b"\xc0\x01\x00", b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40", b"\xa3\x03\xff\xfe\x00"),
    *(b"\x00\x53\x27\xc0\x03\x02\x41\x41", b"\x00\x53\x24\x45", b"\x00\xa3\x01x\x40"),
    encode("x" * 300),
]  # fmt: skip


def opening(dice: random.Random) -> list[bytes]:
    begin = {"next_outgoing_id": 1, "incoming_window": 2_047, "outgoing_window": 0x7FFFFFFF}
    return [
        frame_of("open", container_id=f"fuzz-{dice.randrange(4)}", channel_max=100),
        *(frame_of("begin", channel=channel, **begin) for channel in range(dice.randint(1, 3))),
    ]


def links(dice: random.Random) -> Iterator[bytes]:
    """Links of every kind, each with something to do."""
    name = dice.choice(["N", "N|2", "N|global", "N|volatile1", "N|global-volatile1", "q", "x"])
    durable, browser = dice.random() < 0.4, dice.random() < 0.3
    filters = dice.choice([None, None, None, selector("a = 1"), no_local()])
    words = dice.choice([("topic",), QUEUE, SHARED, GLOBAL])
    yield consumer(name, source("fuzz", words, durable=durable, browser=browser, filters=filters))
    yield frame_of(
        "flow", next_incoming_id=0, incoming_window=2_047, next_outgoing_id=1,
        outgoing_window=0x7FFFFFFF, handle=0, delivery_count=0, link_credit=dice.choice([1, 900]),
        drain=dice.random() < 0.3, echo=dice.random() < 0.2,
    )  # fmt: skip
    target = dice.choice(["fuzz", "queue://fuzz", None])
    yield producer(target, dice.choice([("topic",), QUEUE]) if target == "fuzz" else (), handle=1)
    for n in range(dice.randint(1, 4)):
        body = dice.choice(["x", 7, {"a": [1, None]}, b"y" * 5_000])
        message = text_message(body, dice.choice(["fuzz", "queue://fuzz", "", "$x"]))
        yield delivery(1 + n, message, handle=1, settled=dice.random() < 0.2)
    yield from dice.sample(
        [
            temporary("temporary-topic", handle=2),
            temporary("temporary-queue", handle=3),
            coordinator(handle=4),
            lookup("N", handle=5),
            lookup("N|global", handle=6),
            EMPTY_FRAME,
            frame_of(
                "transfer", handle=1, delivery_id=9, delivery_tag=b"z", more=True, payload=b"q"
            ),
            frame_of("transfer", handle=1, aborted=True),
            command(make("declare")),
            command(make("discharge", txn_id=bytes(8), fail=True)),
            frame_of(
                "transfer",
                handle=1,
                delivery_id=8,
                delivery_tag=b"y",
                message_format=0,
                state=make("transactional-state", txn_id=bytes(8)),
                payload=b"q",
            ),
            frame_of(
                "transfer",
                handle=1,
                more=False,
                state=make("transactional-state", txn_id=bytes(8)),
                payload=b"q",
            ),
            frame_of(
                "flow",
                incoming_window=9,
                next_outgoing_id=0,
                outgoing_window=9,
                handle=0,
                link_credit=3,
                properties={symbol("txn-id"): bytes(8)},
            ),
        ],
        dice.randint(0, 4),
    )
    state = dice.choice([None, make("accepted"), make("rejected"), make("released"),
                         make("modified", delivery_failed=True, undeliverable_here=True),
                         make("received", section_number=0, section_offset=0),
                         make("transactional-state", txn_id=b"1"), IN_NONE])  # fmt: skip
    for role in (True, False):
        yield frame_of("disposition", role=role, first=dice.randrange(3), last=dice.randrange(2, 9),
                       settled=dice.random() < 0.7, state=state)  # fmt: skip
    for handle in dice.sample(range(7), dice.randint(0, 4)):
        yield frame_of("detach", handle=handle, closed=dice.random() < 0.5)


def command(value: Described) -> bytes:
    """A message to the coordinator."""
    return frame_of("transfer", handle=4, delivery_id=7, delivery_tag=b"c", message_format=0,
                    payload=value_of(value))  # fmt: skip


def conversation(dice: random.Random) -> list[bytes]:
    ending = [frame_of("end"), frame_of("close")][dice.randrange(2) :]
    return [*opening(dice), *links(dice), *ending]


def damaged(frames: list[bytes], dice: random.Random) -> list[bytes]:
    """The conversation with a few things wrong; most frames stay whole, so that it goes on."""
    for _ in range(dice.choice([0, 1, 1, 2, 3, 6])):
        at = dice.randrange(len(frames))
        frames[at] = one_damaged(frames[at], dice)
    if dice.random() < 0.3:
        frames.insert(dice.randrange(len(frames)), dice.choice(frames))
    if dice.random() < 0.2:
        frames.pop(dice.randrange(len(frames)))
    if dice.random() < 0.2:
        first, last = sorted(dice.sample(range(len(frames) + 1), 2))
        frames[first:last] = dice.sample(frames[first:last], last - first)
    return frames


def one_damaged(frame: bytes, dice: random.Random) -> bytes:
    body = bytearray(frame[8:])
    at = dice.randrange(len(body) + 1)
    match dice.randrange(7):
        case 0:
            body[at : at + 1] = [dice.choice(TELLING)]
        case 1:
            body[at : at + 1] = [dice.randrange(256)]
        case 2:
            body[at : at + dice.randrange(6)] = dice.choice(VALUES)
        case 3:
            del body[at : at + dice.randint(1, 8)]
        case 4:
            body[at:at] = body[dice.randrange(len(body) + 1) :][:40]
        case 5:
            return frame[:6] + dice.randrange(4).to_bytes(2, "big") + frame[8:]
        case _:
            head = bytearray(frame[:8])
            head[dice.randrange(8)] = dice.choice(TELLING)
            return bytes(head) + frame[8:]
    return struct.pack(">I", 8 + len(body)) + frame[4:8] + bytes(body)


def converse(port: int, dice: random.Random) -> None:
    sasl = [frame_of("sasl-init", mechanism="ANONYMOUS", initial_response=b""), AMQP_HEADER]
    if dice.random() < 0.1:
        sasl = damaged(sasl, dice)
    hello = [SASL_HEADER, *sasl] if dice.random() < 0.3 else [AMQP_HEADER]
    frames = damaged(conversation(dice), dice)
    with suppress(OSError), Raw(port) as raw:
        raw.socket.settimeout(0.001)
        raw.send(*hello)
        while frames:
            part = dice.randint(1, 5)
            raw.send(*frames[:part])
            del frames[:part]
            with suppress(TimeoutError):
                raw.exactly(1 << 20)


def test_whatever_is_damaged_the_gateway_serves(tmp_path: Path) -> None:
    """It survives hundreds of damaged conversations, serves somebody else all the while, and has
    about as much memory after the last of them as after the first."""
    with Gateway(tmp_path) as gateway, Attacked(gateway) as attacked:
        for n in range(CONVERSATIONS):
            converse(gateway.port, random.Random(n))
            if n % 100 == 0:
                attacked.serves()
            if n == CONVERSATIONS // 2:
                before = rss(gateway)
        attacked.serves()
        assert rss(gateway) - before < GROWTH_BYTES_MAX
        gateway.stop()


def main(seed: int, seconds: float) -> None:
    folder = Path(tempfile.mkdtemp())
    end = time.monotonic() + seconds
    with Gateway(folder) as gateway, Attacked(gateway) as attacked:
        done = 0
        while time.monotonic() < end:
            converse(gateway.port, random.Random(f"{seed} {done}"))
            done += 1
            if done % 100 == 0:
                attacked.serves()
        rest = f"{done} conversations, {rss(gateway) // MIB} MiB; its log: {gateway.log_path}"
        sys.stdout.write(f"seed {seed}: {rest}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
