"""A message's expiry, delay, priority and group, as the pump reads them in its bytes."""

import time
from array import array
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Data, Message, byte, int32, short, symbol, timestamp, ubyte, uint, ulong, ushort

from distributary.ingest.commit.batches import batches_of, joined, part
from distributary.ingest.native import pump
from distributary.ingest.native.pump import ffi, lib
from distributary.pipeline.log.pattern_index import PatternIndex
from distributary.pipeline.model.message import Group, PublishBatch
from distributary.pipeline.model.record_batch import RecordBatch

PUMP = pump.Pump(1 << 20)
NOW = 1_700_000_000_000_000
NOW_MS = NOW // 1_000
#: The last microsecond of the year 9999.
LAST = 253_402_300_799_999_999

TIME, DELAY = symbol("x-opt-delivery-time"), symbol("x-opt-delivery-delay")
DUPLICATE = symbol("x-opt-duplicate-id")


@dataclass(frozen=True)
class Said:
    """Values that the pump read: times in microseconds, and the bytes of the id."""

    expires_at: int
    deliver_at: int
    id: bytes


def said(message: bytes, now: int = NOW) -> Said:
    p = PUMP.columns
    p.now = now
    assert lib.pump_inspect(ffi.from_buffer(message), len(message), p, 0) == 0
    start = p.id_at[0]
    return Said(p.expires_at[0], p.deliver_at[0], message[start : start + p.id_size[0]])


def encoded(value: object) -> bytes:
    data = Data()
    data.put_object(value)
    return bytes(data.encode())


def properties(*fields: bytes) -> bytes:
    """A message with these encoded fields in its properties."""
    body = bytes([len(fields)]) + b"".join(fields)
    return b"\x00\x53\x73\xc0" + bytes([len(body)]) + body + b"\x00\x53\x75\xa0\x01a"


def annotated(annotations: dict[object, object], **fields: object) -> bytes:
    message = Message("body", **fields)
    message.annotations = annotations
    return bytes(message.encode())


def expiring(ttl_ms: int | None, absolute_ms: int | None) -> bytes:
    """A message with a time to live, and an expiry of its own, each where it isn't None."""
    header = b""
    if ttl_ms is not None:
        header = b"\x00\x53\x70\xc0\x08\x03\x42\x40\x70" + ttl_ms.to_bytes(4, "big")
    fields = [b"\x40"] * 9
    if absolute_ms is not None:
        fields[8] = b"\x83" + absolute_ms.to_bytes(8, "big", signed=True)
    return header + properties(*fields)


@pytest.mark.parametrize(
    ("ttl_ms", "absolute_ms", "expires_at"),
    [
        (None, None, 0),
        (0, None, 0),
        (1, None, NOW + 1_000),
        (2**32 - 1, None, NOW + (2**32 - 1) * 1_000),
        (None, 0, 0),
        (None, 1, 1_000),
        (None, NOW_MS + 5, NOW + 5_000),
        (0, NOW_MS + 5, NOW + 5_000),
        (10, NOW_MS + 5, NOW + 5_000),
        (3, NOW_MS + 5, NOW + 3_000),
        (10, 0, NOW + 10_000),
        (None, -1, 1),
        (5, -(2**63), 1),
        (None, LAST // 1_000 - 1, (LAST // 1_000 - 1) * 1_000),
        (None, LAST // 1_000 + 1, 0),
        (None, 2**63 - 1, 0),
        (7, 2**63 - 1, NOW + 7_000),
    ],
)
def test_a_message_expires_at_the_earlier_of_two_times(
    ttl_ms: int | None, absolute_ms: int | None, expires_at: int
) -> None:
    """Its time to live counts from its arrival; none, and what lies behind all years, is never."""
    assert said(expiring(ttl_ms, absolute_ms)).expires_at == expires_at


@given(st.integers(0, 2**32 - 1), st.integers(-(2**63), 2**63 - 1))
def test_any_two_times_give_one_that_can_be_kept(ttl_ms: int, absolute_ms: int) -> None:
    """Never a negative one, and none behind the year 9999."""
    found = said(expiring(ttl_ms, absolute_ms)).expires_at
    times = [NOW + ttl_ms * 1_000] if ttl_ms else []
    if absolute_ms:
        times.append(max(1, absolute_ms * 1_000))
    first = min(times, default=0)
    assert found == (first if first <= LAST else 0)


def test_another_type_than_a_timestamp_is_no_expiry() -> None:
    """The field is a timestamp, and nothing else is guessed from it."""
    fields = [b"\x40"] * 9
    for value in (ulong(NOW_MS + 5), NOW_MS + 5, "tomorrow", None):
        assert said(properties(*fields[:8], encoded(value))).expires_at == 0
    assert said(properties(*fields[:8], encoded(timestamp(NOW_MS + 5)))).expires_at


@pytest.mark.parametrize(
    ("annotations", "deliver_at"),
    [
        ({}, 0),
        ({TIME: NOW_MS + 5}, NOW + 5_000),
        ({TIME: ulong(NOW_MS + 5)}, NOW + 5_000),
        ({TIME: timestamp(NOW_MS + 5)}, NOW + 5_000),
        ({TIME: NOW_MS}, 0),
        ({TIME: NOW_MS - 1}, 0),
        ({TIME: uint(7)}, 0),
        ({TIME: 0}, 0),
        ({TIME: -(2**63)}, 0),
        ({TIME: 2**63 - 1}, LAST),
        ({TIME: ulong(2**64 - 1)}, LAST),
        ({TIME: "tomorrow"}, 0),
        ({TIME: None}, 0),
        ({DELAY: 5}, NOW + 5_000),
        ({DELAY: ulong(5)}, NOW + 5_000),
        ({DELAY: ulong(500)}, NOW + 500_000),
        ({DELAY: uint(5)}, NOW + 5_000),
        ({DELAY: uint(2**32 - 1)}, NOW + (2**32 - 1) * 1_000),
        ({DELAY: int32(5)}, NOW + 5_000),
        ({DELAY: int32(500)}, NOW + 500_000),
        ({DELAY: ushort(500)}, NOW + 500_000),
        ({DELAY: short(500)}, NOW + 500_000),
        ({DELAY: ubyte(200)}, NOW + 200_000),
        ({DELAY: byte(5)}, NOW + 5_000),
        ({DELAY: byte(-5)}, 0),
        ({DELAY: short(-5)}, 0),
        ({DELAY: int32(-5)}, 0),
        ({DELAY: int32(-500)}, 0),
        ({DELAY: -(2**63)}, 0),
        ({DELAY: 2**63 - 1}, LAST),
        ({DELAY: ulong(2**64 - 1)}, LAST),
        ({DELAY: uint(0)}, 0),
        ({DELAY: 1.5}, 0),
        ({TIME: NOW_MS + 9, DELAY: uint(5)}, NOW + 9_000),
        ({DELAY: uint(5), TIME: NOW_MS - 9}, 0),
        ({symbol("x" * 300): "y" * 300, DELAY: uint(5), symbol("z"): [1, 2]}, NOW + 5_000),
    ],
)
def test_a_message_says_when_it_may_be_delivered(
    annotations: dict[object, object], deliver_at: int
) -> None:
    """By a time, or a delay from its arrival, of any type of integer; the time is what counts if
    both are there; what lies in the past is at once."""
    assert said(annotated(annotations)).deliver_at == deliver_at


@given(st.dictionaries(st.text(max_size=20), st.integers(-128, 127)), st.integers(1, 10**9))
def test_a_delay_is_found_among_any_annotations(others: dict[str, int], delay_ms: int) -> None:
    """The delay is found beside any other annotations, in short and long maps."""
    pairs = {symbol(f"x-{name}"): value for name, value in others.items() if name.isascii()}
    found = said(annotated({**pairs, DELAY: uint(delay_ms)}))
    assert found.deliver_at == NOW + delay_ms * 1_000


@pytest.mark.parametrize(
    "broken",
    [
        lambda d: d.replace(b"\xd1\x00\x00\x00", b"\xd1\x00\x00\x7f"),
        lambda d: d.replace(b"\x00\x00\x00\x02", b"\x00\x00\x00\x03"),
        lambda d: d.replace(b"\x00\x00\x00\x02", b"\x00\x00\x00\x04"),
        lambda d: d.replace(b"\x00\x00\x00\x02", b"\x00\x00\x00\x00"),
        lambda d: d.replace(b"\x00\x00\x00\x02", b"\xff\xff\xff\xff"),
        lambda d: d.replace(b"\xa3\x14", b"\xa3\xfe"),
        lambda d: d.replace(b"\xa3\x14", b"\xa1\x14"),
    ],
    ids=["beyond", "odd", "more", "none", "huge", "key beyond", "key no symbol"],
)
def test_annotations_that_are_not_whole_delay_nothing(broken: object) -> None:
    """The message is one still, where its sections are; the whole map says what it says."""
    whole = b"\x00\x53\x72" + encoded({DELAY: uint(5)}) + b"\x00\x53\x75\xa0\x01a"
    assert said(whole).deliver_at == NOW + 5_000
    damaged = broken(whole)
    assert damaged != whole
    p = PUMP.columns
    p.now = NOW
    if lib.pump_inspect(ffi.from_buffer(damaged), len(damaged), p, 0) == 0:
        assert p.deliver_at[0] == 0


@pytest.mark.parametrize("value", ["m-1", ulong(0), ulong(7), ulong(2**63), b"\x00\x01", "x" * 300])
def test_a_message_has_an_id_of_any_type(value: object) -> None:
    """Its place has the constructor with it: 7 and "7" are two ids."""
    assert said(bytes(Message("b", id=value).encode())).id == encoded(value)
    assert said(annotated({DUPLICATE: value})).id == encoded(value)
    assert said(annotated({DUPLICATE: value}, id="other")).id == encoded(value)


def test_without_an_id_there_is_none() -> None:
    """Null is none, an annotation that is null leaves the message's own."""
    assert said(bytes(Message("b").encode())).id == b""
    assert said(properties(b"\x40", b"\x40", b"\xa1\x01t")).id == b""
    assert said(annotated({DUPLICATE: None}, id="own")).id == encoded("own")


def test_properties_that_end_within_their_first_fields_are_no_message() -> None:
    """An id, a user or an address that isn't whole is refused."""
    p = PUMP.columns
    for broken in (b"\xa1\x7fabc", b"\x98abc", b""):
        message = b"\x00\x53\x73\xc0" + bytes([len(broken) + 1, 1]) + broken
        assert lib.pump_inspect(ffi.from_buffer(message), len(message), p, 0)


@given(st.integers(0, 300), st.integers(0, 255))
def test_damaged_times_are_read_or_not(at: int, value: int) -> None:
    """One byte changed, or the end cut off, never leads outside of the message."""
    whole = annotated({TIME: NOW_MS + 5, DUPLICATE: "d"}, id="i", ttl=5.0, group_id="g")
    data = bytearray(whole)
    data[at % len(data)] = value
    p = PUMP.columns
    for message in (bytes(data), bytes(data[: at % len(data)])):
        p.now = NOW
        if lib.pump_inspect(ffi.from_buffer(message), len(message), p, 0) == 0:
            assert 0 <= p.expires_at[0] <= LAST
            assert 0 <= p.deliver_at[0] <= LAST
            assert p.id_at[0] + p.id_size[0] <= len(message)
        assert len(pump.groups(batch_of(message))) in {0, 8}


def test_the_clock_is_that_of_python() -> None:
    """Without a time given, the pump looks itself, once for all that one call brings."""
    before = time.time_ns() // 1_000
    found = said(expiring(1_000, None), now=0).expires_at
    assert before <= found - 1_000_000 <= time.time_ns() // 1_000
    assert said(expiring(2_000, None), now=PUMP.columns.now).expires_at == found + 1_000_000


def batch_of(*messages: bytes) -> RecordBatch:
    lengths = array("I", map(len, messages)).tobytes()
    return RecordBatch(0, len(messages), b"".join(messages), pump.offsets(lengths, len(messages)))


def groups(*messages: bytes) -> list[int]:
    return list(memoryview(pump.groups(batch_of(*messages))).cast("Q"))


def grouped(group: str | None, **fields: object) -> bytes:
    return bytes(Message("body", group_id=group, **fields).encode())


@given(st.lists(st.text(max_size=40).filter(lambda t: "\0" not in t), max_size=8))
def test_messages_of_one_group_have_one_number(names: list[str]) -> None:
    """Others have another one; an empty group-id is none."""
    found = groups(*(grouped(name, id="m", ttl=1.0) for name in names))
    if not any(names):
        assert found == []
        return
    for name, number in zip(names, found, strict=True):
        assert (number == 0) == (name == "")
        for other, its in zip(names, found, strict=True):
            assert (number == its) == (name == other)


def test_a_group_is_found_behind_all_other_sections() -> None:
    """One whose properties say less, or that has none, has none; the body isn't looked at."""
    deep = annotated({symbol("x-a"): "b"}, durable=True, priority=9, address="q", group_id="g")
    bare = grouped("g")
    body = b"\x00\x53\x75\xa0\x01a"
    found = groups(deep, b"\x00\x53\x75\xa0\x01a", bare, grouped(None, id="i"), body + bare)
    assert found[0] == found[2] > 0
    assert (found[1], found[3], found[4]) == (0, 0, 0)
    assert groups(properties(*[b"\x40"] * 10, b"\x43")) == []
    assert groups() == []


@given(st.lists(st.binary(max_size=120), max_size=5))
def test_no_group_is_read_beyond_a_message(run: list[bytes]) -> None:
    """Any bytes have an answer, and the same for each alone."""
    found = groups(*run) or [0] * len(run)
    assert found == [(groups(one) or [0])[0] for one in run]


def run_of(topic: str, messages: list[bytes], priority: bytes, **times: bytes) -> PublishBatch:
    n = len(messages)
    lengths = array("I", map(len, messages)).tobytes()
    return PublishBatch(
        topic, n, b"".join(messages), lengths, bytes(n), priority, bytes(4 * n), **times
    )


def test_batches_of_plain_messages_have_no_attributes() -> None:
    """A batch of plain messages has no columns; if one message has an attribute, its column has a
    value for each message."""
    body = b"\x00\x53\x75\xa0\x01a"
    plain = run_of("a", [body, body], b"\x04\x04")
    urgent = run_of("b", [body, body, body], b"\x04\x09\x04")
    later = run_of("c", [body], b"\x04", deliver_at=array("q", [NOW]).tobytes())
    team = run_of("d", [body, grouped("g")], b"\x04\x04")
    group = Group(1, 100, NOW, joined([plain, urgent, plain, later, team], PatternIndex()))
    found = dict(batches_of(group))
    assert found["a"].attributes is None
    assert (found["a"].first, found["a"].count) == (100, 4)
    b, c, d = (found[topic].attributes for topic in "bcd")
    assert b is not None
    assert (b.first, bytes(b.priority), b.expires_at, b.deliver_at, b.groups) == (
        104,
        b"\x04\x09\x04",
        b"",
        b"",
        b"",
    )
    assert c is not None
    assert (c.priority, list(memoryview(c.deliver_at).cast("q"))) == (b"", [NOW])
    assert d is not None
    none, some = memoryview(d.groups).cast("Q")
    assert (none, some > 0) == (0, True)


def test_parts_and_joins_of_runs_keep_each_message_its_times() -> None:
    """A column that isn't there is one of zeros, whatever it is joined with."""
    body = b"\x00\x53\x75\xa0\x01a"
    times = array("q", [1, 2, 3])
    dated = run_of("t", [body] * 3, b"\x04" * 3, expires_at=times.tobytes())
    cut = part(dated, 1, 3, len(body), 3 * len(body))
    assert list(memoryview(cut.expires_at).cast("q")) == [2, 3]
    (whole,) = joined([run_of("t", [body] * 2, b"\x04" * 2), cut], PatternIndex())
    assert list(memoryview(whole.expires_at).cast("q")) == [0, 0, 2, 3]
    assert whole.deliver_at == b""


@given(
    priority=st.integers(0, 9) | st.none(),
    group=st.sampled_from(["", "g", None]),
    ttl=st.sampled_from([0.0, 1.0]),
    delay=st.sampled_from([0, 5_000]),
)
def test_what_the_pump_calls_plain_has_no_attributes(
    priority: int | None, group: str | None, ttl: float, delay: int
) -> None:
    """It counts those that are not plain, so that no code looks for attributes in a plain run."""
    fields: dict[str, object] = {} if priority is None else {"priority": priority}
    message = annotated({DELAY: ulong(delay)}, group_id=group, ttl=ttl, **fields)
    p = PUMP.columns
    p.special = 0
    read = said(message)
    times = {
        name: array("q", [time]).tobytes()
        for name, time in (("expires_at", read.expires_at), ("deliver_at", read.deliver_at))
        if time
    }
    run = run_of("a", [message], bytes([p.priority[0]]), **times)
    [(_, batch)] = batches_of(Group(1, 100, NOW, (run,)))
    assert (p.special == 0) == (batch.attributes is None)
    if not p.special:
        [(_, plain)] = batches_of(Group(1, 100, NOW, (msgspec.structs.replace(run, plain=True),)))
        assert (plain.first, plain.count, plain.blob) == (100, 1, message)
        assert bytes(plain.offsets) == bytes(batch.offsets)
