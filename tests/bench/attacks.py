"""Attacks of hostile peers on a gateway beside its witness: each by a name.

An attack connects, sends its frames and reads the answers; a gateway that ends it is right. All
frames are laid out before they are sent, so that the attacker's own work is little.
"""

import struct
import sys
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

from gateway_codec import Encoded, encode
from gateway_fields import make
from gateway_frames import AMQP_HEADER, Raw, frame_of
from gateway_jms import (
    QUEUE,
    consumer,
    coordinator,
    producer,
    selector,
    source,
    text_message,
)
from gateway_transactions import value_of
from proton import Described, symbol, ulong

from tests.bench.attack_frames import (
    MIB,
    PATIENCE_SECONDS,
    arrived,
    ask,
    flow,
    nulls,
    opening,
    over,
    published,
    request,
    say,
    subscribed,
    subscription,
    talking,
    transfer,
)

#: A number that stands for a delivery's in a frame that is sent many times.
NUMBER = 0x7E57AB1E
#: Permissions by which no user sees anything.
BLIND = '["*"]\npublish = ["*"]\nconsume = ["*"]\ncreate = ["*"]\n'


@dataclass(frozen=True)
class Attack:
    """An attack: `run` is done to the gateway on a port; `before` is done before the witness
    begins, and its result is held until the end. `settings` are the gateway's."""

    run: Callable[[int, object], None]
    before: Callable[[int], object] | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    permissions: str = ""


# Values that are more than their bytes.


def attach_of_nulls(port: int, _held: object) -> None:
    """Attaches of 10 KB with a list of arrays of nulls, before any open and after one, wherever one
    may stand."""
    places: list[dict[str, object]] = [
        {"source": source("t"), "properties": {symbol("p"): nulls(1_000)}},
        {"source": source("t"), "desired_capabilities": nulls(1_000)},
        {"source": make("source", address="t", filter={symbol("x"): nulls(1_000)})},
        {"source": make("source", address="t", capabilities=nulls(1_000))},
        {"source": Encoded(b"\x00\x53\x28" + nulls(1_000))},
    ]
    for fields in places:
        attach = frame_of("attach", name="n", handle=0, role=True, target=make("target"), **fields)
        with Raw(port) as raw, suppress(OSError):
            raw.send(AMQP_HEADER, attach)
            over(raw)
        say(port, attach)


def flow_of_nulls(port: int, _held: object) -> None:
    said = flow(1, properties={symbol("txn-id"): nulls(1_000)})
    say(port, *[said] * 10, links=(consumer("n", source("t")),))


def management_of_nulls(port: int, _held: object) -> None:
    body = {"policy": {"lock_ms": nulls(1_000)}}
    ask(port, *[request("CREATE", "queue", "q", body)] * 2)


def command_of_nulls(port: int, _held: object) -> None:
    said = value_of(make("discharge", txn_id=nulls(1_000)))
    say(port, *[transfer(n, said) for n in range(5)], links=(coordinator(),))


def disposition_of_nulls(port: int, _held: object) -> None:
    """An unknown state, and an error with such an info."""
    error = make("rejected", error=make("error", condition="x:y", info={symbol("i"): nulls(1_000)}))
    say(
        port,
        frame_of("disposition", role=True, first=0, state=error),
        frame_of("disposition", role=True, first=0, state=Described(ulong(0x99), nulls(1_000))),
    )


def rewind_of_nulls(port: int, _held: object) -> None:
    """A REWIND of 1 KB whose `to` is a list of a hundred arrays of nulls."""
    ask(port, *[request("REWIND", "subscription", "global/s", {"to": nulls(100)})] * 10)


@cache
def packed_sequences() -> str:
    """22 KB that say as many sequences as a packed text may."""
    steps = b"0" + b",1" * (8 * MIB - 10)
    return "~" + b64encode(zlib.compress(steps, 9)).decode()


def with_packed(port: int) -> object:
    """A subscription, and the text, which takes longer to make than to refuse."""
    packed_sequences()
    subscribed(port, "s", "t")
    return None


def sequences_packed(port: int, _held: object) -> None:
    body = {"holder": "h", "keep": packed_sequences(), "max": 1, "wait_ms": 0}
    settle = {"holder": "h", "sequences": packed_sequences()}
    asks = [
        request("ACQUIRE", "subscription", "global/s", body),
        request("SETTLE", "subscription", "global/s", settle),
    ]
    ask(port, *asks * 3)


def lists_in_lists(port: int, _held: object) -> None:
    """Ten thousand levels, wherever a value may stand."""
    data = b"\x45"
    for _ in range(5_000):
        data = b"\xd0" + struct.pack(">II", 4 + len(data), 1) + data
    deep = Encoded(data)
    attach = frame_of(
        "attach", name="n", handle=0, role=True, source=source("t"), properties={symbol("p"): deep}
    )
    for _ in range(5):
        say(port, attach)
        ask(port, request("CREATE", "queue", "q", {"policy": deep}))


# Deliveries.


def with_unsettled(port: int) -> object:
    """A consumer that holds 20,000 deliveries."""
    subscribed(port, "many", "many")
    small = text_message("x", "many")
    with Raw(port) as raw:
        raw.send(opening("publisher"), producer("many"))
        raw.expect("open", "begin", "attach", "flow")
        for start in range(0, 20_000, 1_000):
            raw.send(*[transfer(n, small, settled=True) for n in range(start, start + 1_000)])
            raw.heard()
    raw = Raw(port)
    raw.send(opening(), subscription("many", "many"), flow(20_000))
    raw.socket.settimeout(60)
    arrived(raw, 20_000)
    return raw


def disposed(port: int, held: object) -> None:
    """400 dispositions of 26 bytes, each of all 20,000 deliveries, none of which settles them."""
    assert isinstance(held, Raw)
    states = [make("released"), make("accepted")]
    said = [
        frame_of("disposition", role=True, first=0, last=19_999, settled=False, state=states[n % 2])
        for n in range(400)
    ]
    with suppress(OSError):
        held.send(*said)
        over(held)
    held.socket.close()


def like(port: int, _held: object) -> None:
    """LIKE '%aaa...b%' on ten messages that have a property of 64 KiB."""
    pattern = "%" + "a" * 7_000 + "b%"
    message = encode(Described(ulong(0x74), {"p": "a" * 65_000})) + encode(
        Described(ulong(0x77), "x")
    )
    chooses = source("like", filters=selector(f"p LIKE '{pattern}'"))
    with talking(port, consumer("l", chooses)) as raw:
        raw.send(flow(100))
        published(port, "like", *[message] * 10)
        over(raw)


def sections_rejected(port: int, _held: object) -> None:
    """A message of 16 MiB of empty data sections is rejected: its copy is for the dead letters."""
    message = (b"\x00\x53\x75\xa0\x00" * (16 * MIB // 5))[: 16 * MIB // 5 * 5 - 5_000]
    published(port, "queue://sections", message)
    with talking(port, consumer("c", source("queue://sections", QUEUE))) as raw:
        raw.send(flow(1))
        arrived(raw, 1)
        raw.send(frame_of("disposition", role=True, first=0, settled=True, state=make("rejected")))
        over(raw)


def ended_link(port: int, _held: object) -> None:
    """A link that the gateway has ended, on which transfers go on: 300,000 frames."""
    strange = frame_of("transfer", handle=0, delivery_id=0, delivery_tag=b"0", message_format=7)
    with talking(port, producer("ended")) as raw:
        raw.send(strange, *numbered(transfer(NUMBER, b"12345678"), 300_000, first=1))
        over(raw)


def numbered(frame: bytes, count: int, first: int = 0) -> list[bytes]:
    """The transfer so many times, each with the next id."""
    place = NUMBER.to_bytes(4, "big")
    parts = frame.split(place)
    return [n.to_bytes(4, "big").join(parts) for n in range(first, first + count)]


def long_names(port: int, _held: object) -> None:
    """Names of 60 KB, or as long as they may be: every settlement's record has them."""
    for size in (60_000, 1_000):
        with suppress(AssertionError):  # a name that is too long is refused
            _named(port, "s" * size, "c" * size)


def _named(port: int, name: str, container: str) -> None:
    claim = consumer(name, source("names", durable=True))
    with talking(port, claim, container=container) as raw:
        raw.send(flow(1_000))
        published(port, "names", *[text_message("x", "names")] * 400)
        arrived(raw, 400)
        settled = {"role": True, "settled": True, "state": make("accepted")}
        raw.send(*[frame_of("disposition", first=n, **settled) for n in range(0, 400, 2)])
        over(raw)


# Questions.


def with_subscriptions(port: int) -> object:
    """A thousand subscriptions."""
    with Raw(port) as raw:
        raw.send(opening("maker"))
        raw.expect("open", "begin")
        for start in range(0, 1_000, 50):
            for n in range(start, start + 50):
                raw.send(subscription(f"s{n}", "seen"), frame_of("detach", handle=0))
            for _ in range(100):
                raw.read()
    return None


def query_of_nothing(port: int, _held: object) -> None:
    """Queries by a user who sees none of the subscriptions."""
    ask(port, *[request("QUERY", "subscription", "x", {})] * 30)


# Floods.


def flood(said: bytes, times: int, *links: bytes) -> Callable[[int, object], None]:
    def run(port: int, _held: object) -> None:
        block = said * 100
        with talking(port, *links) as raw:
            raw.socket.settimeout(0.0)
            for _ in range(times // 100):
                _send_and_read(raw, block)
            raw.socket.settimeout(PATIENCE_SECONDS)
            over(raw)

    return run


def _send_and_read(raw: Raw, data: bytes) -> None:
    rest, deadline = memoryview(data), time.monotonic() + PATIENCE_SECONDS
    while rest and time.monotonic() < deadline:
        with suppress(BlockingIOError):
            rest = rest[raw.socket.send(rest) :]
        with suppress(BlockingIOError):
            if not raw.socket.recv(1 << 20):
                return
        if rest:
            time.sleep(0.0005)


def connections(port: int, _held: object) -> None:
    """Two thousand connections that open, begin and go."""
    for _ in range(2_000):
        with Raw(port) as raw:
            raw.send(opening("many"))


LINK = producer("flood") + frame_of("detach", handle=0, closed=True)
SESSION = frame_of(
    "begin", channel=1, next_outgoing_id=0, incoming_window=9, outgoing_window=9
) + frame_of("end", channel=1)


def declares(port: int, _held: object) -> None:
    """Far more transactions than a connection may have."""
    declare = transfer(NUMBER, value_of(make("declare")))
    say(port, *numbered(declare, 5_000), links=(coordinator(),))


ATTACKS: Mapping[str, Attack] = {
    "attach-nulls": Attack(attach_of_nulls),
    "flow-nulls": Attack(flow_of_nulls),
    "management-nulls": Attack(management_of_nulls),
    "command-nulls": Attack(command_of_nulls),
    "disposition-nulls": Attack(disposition_of_nulls),
    "rewind-nulls": Attack(rewind_of_nulls, before=lambda port: subscribed(port, "s", "t")),
    "sequences": Attack(sequences_packed, before=with_packed),
    "lists-in-lists": Attack(lists_in_lists),
    "dispositions": Attack(disposed, before=with_unsettled),
    "like": Attack(like),
    "sections": Attack(sections_rejected),
    "ended-link": Attack(ended_link),
    "long-names": Attack(long_names),
    "query": Attack(query_of_nothing, before=with_subscriptions, permissions=BLIND),
    "flows": Attack(flood(flow(1, echo=True), 50_000, consumer("f", source("flood")))),
    "links": Attack(flood(LINK, 5_000)),
    "sessions": Attack(flood(SESSION, 20_000)),
    "declares": Attack(declares),
    "connections": Attack(connections),
}
