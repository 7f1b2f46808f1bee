"""The frames that the load clients send, and the little that they must understand of the answers.

Frames are built before the clock runs: `transfers` and `dispositions` lay thousands of frames of
one length behind each other, so that a range of messages is a slice of bytes. Numbers that differ
between frames are always encoded in full width for that reason. Nothing in here knows a socket.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SASL_HEADER = b"AMQP\x03\x01\x00\x00"
AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"

OPEN, BEGIN, ATTACH, FLOW, TRANSFER = 0x10, 0x11, 0x12, 0x13, 0x14
DISPOSITION, DETACH, END, CLOSE = 0x15, 0x16, 0x17, 0x18
SASL_MECHANISMS, SASL_INIT, SASL_OUTCOME = 0x40, 0x41, 0x44
ERROR, ACCEPTED, MODIFIED, SOURCE, TARGET = 0x1D, 0x24, 0x27, 0x28, 0x29
HEADER, PROPERTIES, APPLICATION_PROPERTIES, DATA = 0x70, 0x73, 0x74, 0x75

#: The descriptor of a selector (apache.org:selector-filter:string).
SELECTOR_CODE = 0x0000_468C_0000_0004

#: The session windows that the clients announce: never the limit.
WINDOW = 0x7FFFFFFF
#: The largest frame that the clients take, in bytes.
FRAME_BYTES_MAX = 1 << 20
#: The four outcomes that a source can end in, as every JMS client lists them.
OUTCOMES = tuple(f"amqp:{name}:list" for name in ("accepted", "rejected", "released", "modified"))


# --- values


def symbol(text: str) -> bytes:
    return b"\xa3" + bytes([len(text)]) + text.encode()


def string(text: str) -> bytes:
    return b"\xb1" + struct.pack(">I", len(text.encode())) + text.encode()


def short_string(text: str) -> bytes:
    """As every client writes what is shorter than 256 bytes."""
    return b"\xa1" + bytes([len(text.encode())]) + text.encode()


def binary(data: bytes) -> bytes:
    return b"\xb0" + struct.pack(">I", len(data)) + data


def uint(number: int) -> bytes:
    """An unsigned 32-bit number, always five bytes long."""
    return b"\x70" + struct.pack(">I", number)


def ubyte(number: int) -> bytes:
    return b"\x50" + bytes([number])


def symbols(names: Sequence[str]) -> bytes:
    """An array of symbols."""
    body = b"".join(bytes([len(name)]) + name.encode() for name in names)
    return b"\xf0" + struct.pack(">II", len(body) + 5, len(names)) + b"\xa3" + body


def listing(items: Sequence[bytes]) -> bytes:
    body = b"".join(items)
    return b"\xd0" + struct.pack(">II", len(body) + 4, len(items)) + body


def mapping(pairs: dict[str, bytes]) -> bytes:
    """A map with string keys and values that are encoded already."""
    body = b"".join(short_string(key) + value for key, value in pairs.items())
    return b"\xd1" + struct.pack(">II", len(body) + 4, 2 * len(pairs)) + body


def described(code: int, value: bytes) -> bytes:
    return b"\x00\x53" + bytes([code]) + value


def frame(performative: bytes, payload: bytes = b"", kind: int = 0) -> bytes:
    """One frame on channel 0; `kind` is 1 for SASL."""
    size = 8 + len(performative) + len(payload)
    return struct.pack(">IBBH", size, 2, kind, 0) + performative + payload


# --- the life of a connection


def sasl_init(mechanism: str, response: bytes) -> bytes:
    return frame(described(SASL_INIT, listing([symbol(mechanism), binary(response)])), kind=1)


def plain_response(user: str, password: str) -> bytes:
    return b"\0" + user.encode() + b"\0" + password.encode()


def open_connection(container: str, host: str) -> bytes:
    channel_max = b"\x60\x00\x00"
    fields = [string(container), string(host), uint(FRAME_BYTES_MAX), channel_max]
    return frame(described(OPEN, listing(fields)))


def begin() -> bytes:
    return frame(described(BEGIN, listing([NULL, uint(0), uint(WINDOW), uint(WINDOW)])))


def _attach(name: str, role: bytes, source: bytes, target: bytes, first_count: bytes) -> bytes:
    modes = [ubyte(0), ubyte(0)]  # unsettled, first
    fields = [string(name), uint(0), role, *modes, source, target, NULL, NULL, first_count]
    return frame(described(ATTACH, listing(fields)))


def attach_sender(name: str, topic: str, capability: str = "topic") -> bytes:
    """A link that publishes to `topic`, as a JMS producer's."""
    source = described(SOURCE, listing([string(name)]))
    target = [string(topic), NULL, NULL, NULL, NULL, NULL, symbols([capability])]
    return _attach(name, FALSE, source, described(TARGET, listing(target)), uint(0))


def selector_filter(text: str) -> bytes:
    """A source's filter with a selector, as JMS clients write it."""
    value = b"\x00\x80" + struct.pack(">Q", SELECTOR_CODE) + string(text)
    body = symbol("jms-selector") + value
    return b"\xd1" + struct.pack(">II", len(body) + 4, 2) + body


def attach_receiver(
    name: str, topic: str, capabilities: Sequence[str], *, durable: bool, selector: str = ""
) -> bytes:
    """A link that consumes; a JMS client's for the same subscription has the same fields."""
    lifetime = [uint(2), symbol("never")] if durable else [uint(0), symbol("link-detach")]
    copies = symbol("copy") if durable else NULL
    default_outcome = described(MODIFIED, listing([TRUE]))
    ends = [default_outcome, symbols(OUTCOMES), symbols(capabilities)]
    selects = selector_filter(selector) if selector else NULL
    source = [string(topic), *lifetime, NULL, NULL, NULL, copies, selects, *ends]
    target = described(TARGET, listing([]))
    return _attach(name, TRUE, described(SOURCE, listing(source)), target, NULL)


def shared_durable(subscription: str, topic: str, selector: str = "") -> bytes:
    """The link of one more consumer of the global shared durable subscription of that name."""
    link = f"{subscription}|global"
    words = ["topic", "shared", "global"]
    return attach_receiver(link, topic, words, durable=True, selector=selector)


def plain_consumer(name: str, topic: str) -> bytes:
    """The link of a consumer with a non-durable subscription of its own."""
    return attach_receiver(name, topic, ["topic"], durable=False)


def temporary_consumer(name: str) -> bytes:
    """The link of a client that makes a temporary queue and consumes from it."""
    source = [NULL, uint(0), symbol("link-detach"), NULL, TRUE]
    return _attach(
        name, TRUE, described(SOURCE, listing(source)), described(TARGET, listing([])), NULL
    )


def flow(received: int, credit: int) -> bytes:
    """The receiver of `received` messages so far will take `credit` more."""
    session = [uint(received), uint(WINDOW), uint(0), uint(WINDOW)]
    return frame(described(FLOW, listing([*session, uint(0), uint(received), uint(credit)])))


def detach(*, closed: bool) -> bytes:
    return frame(described(DETACH, listing([uint(0), TRUE if closed else FALSE])))


def close() -> bytes:
    return frame(described(CLOSE, listing([])))


# --- messages and their settlement


#: What an instrumented producer puts into a message whose trace isn't sampled.
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"


def message(
    data_bytes: int, topic: str, ttl_ms: int = 0, *, durable: bool = True, traced: bool = False
) -> bytes:
    """A message as `message_of` makes it, of so many bytes that mean nothing."""
    return message_of(b"x" * data_bytes, topic, ttl_ms, durable=durable, traced=traced)


def message_of(
    data: bytes, topic: str, ttl_ms: int = 0, *, durable: bool = True, traced: bool = False
) -> bytes:
    """A message: header, properties, two or (traced) three application properties, data last."""
    properties = [string("ID:0000-1111:1:1"), NULL, string(topic)]
    trace = {"traceparent": short_string(TRACEPARENT)} if traced else {}
    small = mapping({"k": short_string("v"), "n": b"\x71" + struct.pack(">i", 5), **trace})
    lasts = TRUE if durable else FALSE
    header = [lasts, ubyte(4), uint(ttl_ms)] if ttl_ms else [lasts, ubyte(4)]
    sections = [
        described(HEADER, listing(header)),
        described(PROPERTIES, listing(properties)),
        described(APPLICATION_PROPERTIES, small),
        described(DATA, binary(data)),
    ]
    return b"".join(sections)


def short_list(items: Sequence[bytes]) -> bytes:
    body = b"".join(items)
    return b"\xc0" + bytes([len(body) + 1, len(items)]) + body


def transfer(delivery: int, payload: bytes) -> bytes:
    """One unsettled message; its tag is its delivery id, so all transfers are of one length."""
    tag = b"\xa0\x08" + struct.pack(">Q", delivery)
    fields = [uint(0), uint(delivery), tag, uint(0), FALSE, FALSE]
    return frame(described(TRANSFER, short_list(fields)), payload)


def disposition(first: int, last: int) -> bytes:
    """The receiver accepts and settles the deliveries `first` to `last`."""
    fields = [TRUE, uint(first), uint(last), TRUE, described(ACCEPTED, b"\x45")]
    return frame(described(DISPOSITION, short_list(fields)))


def _numbered(template: bytes, marker: int, numbers: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """One copy of the template per number, with the number wherever the marker stands in it."""
    needle = struct.pack(">I", marker)
    rows = np.tile(np.frombuffer(template, np.uint8), (len(numbers), 1))
    columns = np.ascontiguousarray(numbers, ">u4").view(np.uint8).reshape(-1, 4)
    place = template.find(needle)
    while place >= 0:
        rows[:, place : place + 4] = columns
        place = template.find(needle, place + 4)
    return rows


#: A number that stands nowhere else in a frame.
_MARKER = 0x7A5B6C8D


def transfers(count: int, payload: bytes, *, random_bytes: int = 0) -> NDArray[np.uint8]:
    """Transfers of the deliveries 0 to `count - 1`, one row each.

    The last `random_bytes` bytes of every payload are replaced by random ones, which no
    compression makes smaller.
    """
    template = transfer(_MARKER, payload)
    rows = _numbered(template, _MARKER, np.arange(count, dtype=np.uint32))
    if random_bytes:
        noise = np.random.default_rng(1).integers(0, 256, (count, random_bytes), np.uint8)
        rows[:, -random_bytes:] = noise
    return rows


def with_kinds(rows: NDArray[np.uint8], kinds: int) -> NDArray[np.uint8]:
    """The same transfers, whose property `n` goes through 0 to `kinds - 1` over and over."""
    place = rows[0].tobytes().index(short_string("n") + b"\x71") + len(short_string("n")) + 1
    numbers = np.arange(len(rows), dtype=np.uint32) % kinds
    rows[:, place : place + 4] = np.ascontiguousarray(numbers, ">u4").view(np.uint8).reshape(-1, 4)
    return rows


def with_ids(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The same transfers, each with an id of its own."""
    place = rows[0].tobytes().index(b"ID:0000-1111") + len("ID:")
    digits = np.arange(len(rows))[:, None] // 10 ** np.arange(8, -1, -1) % 10 + ord("0")
    rows[:, place : place + 9] = digits
    return rows


def with_traces(rows: NDArray[np.uint8], every: int) -> NDArray[np.uint8]:
    """The same transfers, of which one in so many has its trace sampled."""
    place = rows[0].tobytes().index(TRACEPARENT.encode()) + len(TRACEPARENT) - 1
    rows[::every, place] = ord("1")
    return rows


def with_priorities(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The same transfers with priorities 0 to 9, drawn at random."""
    place = rows[0].tobytes().index(TRUE + ubyte(4)) + 2
    rows[:, place] = np.random.default_rng(1).integers(0, 10, len(rows), np.uint8)
    return rows


def dispositions(count: int, first: int) -> NDArray[np.uint8]:
    """Dispositions of the deliveries `first` to `first + count - 1`, each in a frame of its own."""
    numbers = (np.arange(count, dtype=np.uint64) + first).astype(np.uint32)
    return _numbered(disposition(_MARKER, _MARKER), _MARKER, numbers)


# --- reading


@dataclass(frozen=True, slots=True)
class Described:
    """A value with a numeric descriptor, or a symbolic one."""

    code: object
    value: object


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame that came: the code of its performative (-1: empty) and its whole bytes."""

    code: int
    data: bytes

    def fields(self, count_max: int = 255) -> list[object]:
        """The first fields of the performative; those that were not sent are None."""
        if self.code < 0:
            return [None] * count_max
        _, at = read_value(self.data, 4 * self.data[4] + 1)
        found = read_list(self.data, at, count_max)
        return found + [None] * (count_max - len(found))


def code_at(data: bytes | bytearray, start: int) -> int:
    """The code of the performative of the frame that begins at `start`, -1 for an empty frame."""
    at = start + 4 * data[start + 4]
    if int.from_bytes(data[start : start + 4]) <= at - start:
        return -1
    if data[at + 1] == 0x53:
        return data[at + 2]
    code, _ = read_value(bytes(data[at + 1 : at + 10]), 0)
    return code if isinstance(code, int) else -1


def split(buffer: bytearray) -> list[Frame]:
    """Take the complete frames out of the buffer; what is left is the beginning of the next."""
    start, found = 0, []
    while len(buffer) - start >= 8:
        size = int.from_bytes(buffer[start : start + 4])
        if len(buffer) - start < size:
            break
        found.append(Frame(code_at(buffer, start), bytes(buffer[start : start + size])))
        start += size
    del buffer[:start]
    return found


_SINGLE: dict[int, object] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0, 0x45: []}
#: Width in bytes of a fixed value, or of the size of a variable one, by the type's upper half.
_WIDTH = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16, 0xA: 1, 0xB: 4}
_SIGNED = frozenset({0x51, 0x54, 0x55, 0x61, 0x71, 0x81})


def read_value(data: bytes, at: int) -> tuple[object, int]:
    """The value at `at`, and where the next one begins. Arrays and maps come as their bytes."""
    kind = data[at]
    if kind in _SINGLE:
        return _SINGLE[kind], at + 1
    if kind == 0x00:
        code, at = read_value(data, at + 1)
        value, at = read_value(data, at)
        return Described(code, value), at
    if kind >= 0xC0:
        width = 1 if kind >> 4 in (0xC, 0xE) else 4
        stop = at + 1 + width + int.from_bytes(data[at + 1 : at + 1 + width])
        is_list = kind in (0xC0, 0xD0)
        return (read_list(data, at, 255) if is_list else data[at:stop]), stop
    width = _WIDTH[kind >> 4]
    raw = data[at + 1 : at + 1 + width]
    if kind < 0xA0:
        return int.from_bytes(raw, signed=kind in _SIGNED), at + 1 + width
    stop = at + 1 + width + int.from_bytes(raw)
    body = data[at + 1 + width : stop]
    return (body if kind & 0x0F == 0 else body.decode()), stop


def read_list(data: bytes, at: int, count_max: int) -> list[object]:
    """The first values of the list at `at`, at most `count_max`."""
    if data[at] == 0x45:
        return []
    width = 1 if data[at] == 0xC0 else 4
    count = int.from_bytes(data[at + 1 + width : at + 1 + 2 * width])
    at += 1 + 2 * width
    found = []
    for _ in range(min(count, count_max)):
        value, at = read_value(data, at)
        found.append(value)
    return found


def number(value: object) -> int | None:
    """A field that is a number, or None if it was not sent."""
    return value if isinstance(value, int) else None


def error_text(fields: Sequence[object]) -> str:
    """The error in a detach, end or close as a text; '' if it has none."""
    for value in fields:
        if isinstance(value, Described) and value.code == ERROR and isinstance(value.value, list):
            return ": ".join(str(part) for part in value.value[:2] if part)
    return ""
