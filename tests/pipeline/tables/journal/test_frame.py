"""Frames: what goes in comes out, and what contradicts itself is refused."""

import datetime as dt
from array import array

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from table_groups import NOON, event, framed, group, run, settled

from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.message import Group, PublishBatch, Settlement, SubscriptionRecord
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import Definition, SubscriptionEvent, SubscriptionKey
from distributary.pipeline.tables.arrow.topic_log_schema import MESSAGE, SUBSCRIPTION
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.topic_log.group_rows import build

INT64 = st.integers(0, 2**62)
TEXT = st.text(max_size=8)


@st.composite
def message_runs(draw: st.DrawFn) -> PublishBatch:
    bodies = draw(st.lists(st.binary(max_size=40), min_size=1, max_size=20))
    n = len(bodies)
    numbers = st.lists(st.integers(0, 2**32 - 1), min_size=n, max_size=n)
    small = st.binary(min_size=n, max_size=n)
    times = st.just(b"") | st.binary(min_size=8 * n, max_size=8 * n)
    return PublishBatch(
        draw(TEXT),
        n,
        b"".join(bodies),
        array("I", map(len, bodies)).tobytes(),
        draw(small),
        draw(small),
        array("I", draw(numbers)).tobytes(),
        draw(times),
        draw(times),
    )


RANGES = st.builds(
    lambda first, step, count: range(first, first + step * count, step),
    INT64,
    st.integers(1, 50),
    st.integers(1, 500),
)
SETTLEMENTS = st.tuples(
    TEXT,
    TEXT,
    TEXT,
    st.sampled_from(Outcome),
    st.booleans(),
    st.integers(0, 2**31),
    INT64,
    INT64,
    INT64,
    st.lists(RANGES, max_size=4).map(tuple),
).map(lambda said: Settlement(*said))
KEYS = st.builds(SubscriptionKey, st.none() | TEXT, TEXT, st.booleans())
DEFINITIONS = st.builds(Definition, TEXT, st.booleans(), st.none() | TEXT, st.booleans())
EVENTS = st.builds(
    SubscriptionRecord,
    st.sampled_from(SubscriptionEvent),
    KEYS,
    DEFINITIONS,
    INT64,
    st.booleans(),
    TEXT,
)
GROUPS = st.builds(
    Group,
    INT64,
    INT64,
    INT64,
    st.lists(message_runs(), max_size=5).map(tuple),
    st.lists(SETTLEMENTS, max_size=5).map(tuple),
    st.lists(EVENTS, max_size=5).map(tuple),
)


def test_a_group_comes_back_as_it_was() -> None:
    """A known group keeps every number, name and byte."""
    one = group(
        7,
        100,
        run("orders", [b"a", b"", b"ccc"], ttl=9),
        run("flights", [b"dd"]),
        settlements=[settled(range(3, 9, 2))],
        subscriptions=[event(SubscriptionEvent.CREATED, 5)],
    )
    back = frame.decode(framed(one))
    assert (back.group, back.first_sequence, back.count) == (7, 100, 4)
    assert back.records.topics == ["orders", "flights"]
    assert back.records.runs == [(0, 3), (1, 1)]
    assert back.lengths.cast("I").tolist() == [1, 0, 3, 2]
    assert back.ttl.cast("I").tolist() == [9, 9, 9, 0]
    assert bytes(back.blob) == b"acccdd"
    assert back.records.settlements[0].sequences == [(3, 2, 3)]
    assert back.records.subscriptions[0].event == "created"


@given(GROUPS)
def test_any_group_comes_back(one: Group) -> None:
    """The frame of any group has the same content, aligned."""
    view = framed(one)
    back = frame.decode(view)
    assert len(view) % frame.FRAME_ALIGN == 0
    assert (back.group, back.first_sequence, back.written_at, back.count) == (
        one.number,
        one.first_sequence,
        one.written_at,
        one.message_count,
    )
    topics = back.records.topics
    assert [(topics[i], n) for i, n in back.records.runs] == [
        (run.topic, run.count) for run in one.messages
    ]
    for name in ("lengths", "durable", "priority", "ttl", "blob"):
        joined = b"".join(bytes(getattr(run, name)) for run in one.messages)
        assert bytes(getattr(back, name)) == joined
    for name in ("expires_at", "deliver_at"):
        columns = [(getattr(run, name), run.count) for run in one.messages]
        some = any(column for column, _ in columns)
        joined = b"".join(column or bytes(8 * count) for column, count in columns)
        assert getattr(back.records, name) == (joined if some else b"")
    for row, settlement in zip(back.records.settlements, one.settlements, strict=True):
        ranges = tuple(range(a, a + step * n, step) for a, step, n in row.sequences)
        assert ranges == settlement.sequences
        assert (row.subscription, row.outcome) == (settlement.subscription, settlement.outcome)
        assert (row.floor, row.final) == (settlement.floor, settlement.final)
    for event_row, record in zip(back.records.subscriptions, one.subscriptions, strict=True):
        assert event_row.subscription == record.key.id
        assert event_row.selector == record.definition.selector
        assert (event_row.paused, event_row.policy) == (record.paused, record.policy)


#: A frame as the program wrote it before messages had times of their own: group 7 from sequence
#: 100 on, three orders with a ttl of 1.5 s and a flight, a settlement, an event.
FIRST_FORMAT = bytes.fromhex(
    "4447525001000000070000000000000064000000000000000070a119c8600600040000008f000000c6000000"
    "00000000000000000000000000000000000000009492a66f7264657273a7666c696768747392920003920101"
    "919ab2676c6f62616c2f6469737061746368657273a66f7264657273aa776f726b65722d312f61a861636365"
    "70746564c300cf000660c819a17000cf000660c819a170050091930302039197a763726561746564b2676c6f"
    "62616c2f6469737061746368657273a66f7264657273c3a561203e2031c20500010000000000000003000000"
    "0200000001010101000000000404040400000000dc050000dc050000dc050000000000006163636364640000"
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
    "000000000000000000000000"
)


def test_a_frame_of_the_first_format_is_read_as_it_was() -> None:
    """Messages expire by their ttl and wait for nothing; a subscription isn't paused."""
    back = frame.decode(memoryview(FIRST_FORMAT))
    assert (back.group, back.first_sequence, back.count) == (7, 100, 4)
    assert (back.records.expires_at, back.records.deliver_at) == (None, None)
    (row,) = back.records.subscriptions
    assert (row.selector, row.floor, row.paused, row.policy) == ("a > 1", 5, False, "")
    assert row.by is None
    tables = build([back])
    ttl = dt.timedelta(seconds=1.5)
    messages = sorted(tables[MESSAGE].to_pylist(), key=lambda one: one["sequence"])
    assert [row["expires_at"] for row in messages] == [messages[0]["published_at"] + ttl] * 3 + [
        None
    ]
    assert [row["deliver_at"] for row in messages] == [None] * 4
    (made,) = tables[SUBSCRIPTION].to_pylist()
    assert (made["paused"], made["policy"]) == (False, None)


def test_times_of_messages_come_back() -> None:
    """Runs with times and runs without share a frame, and a frame without any has no such column.
    The ttl of a run that expires never says nothing."""
    one = group(
        7,
        100,
        run("orders", [b"a", b"b"], expires_at=[5, 0]),
        run("flights", [b"c"], deliver_at=[NOON]),
        replace(run("dead", [b"d"], ttl=9), expires_at=b""),
    )
    records = frame.decode(framed(one)).records
    assert np.frombuffer(records.expires_at or b"", np.int64).tolist() == [5, 0, 0, 0]
    assert np.frombuffer(records.deliver_at or b"", np.int64).tolist() == [0, 0, NOON, 0]
    plain = frame.decode(framed(group(8, 104, replace(run("dead", [b"d"], ttl=9), expires_at=b""))))
    assert (plain.records.expires_at, plain.records.deliver_at) == (b"", b"")
    table = build([frame.decode(framed(one)), plain])[MESSAGE]
    expiry = pc.cast(table["expires_at"], pa.int64()).to_pylist()
    found = dict(zip(table["sequence"].to_pylist(), expiry, strict=True))
    assert found == {100: 5, 101: None, 102: None, 103: None, 104: None}


def test_a_column_that_is_too_short_is_refused() -> None:
    """Times that aren't one for each message are an error with the group."""
    one = group(3, 0, run("orders", [b"x", b"y"], expires_at=[5]))
    with pytest.raises(StoreError, match="expires_at of group 3"):
        frame.decode(framed(one))


def test_a_short_frame_is_refused() -> None:
    """The error for a frame whose end is missing names its group."""
    view = framed(group(3, 0, run("orders", [b"x" * 200])))
    with pytest.raises(StoreError, match="group 3"):
        frame.decode(view[:-64])


def test_other_bytes_are_refused() -> None:
    """Bytes that don't begin with a frame's magic aren't a frame."""
    with pytest.raises(StoreError, match="no frame"):
        frame.decode(memoryview(bytes(128)))


def test_damaged_records_are_refused() -> None:
    """Records that can't be decoded are an error with the group, not a crash."""
    data = bytearray(framed(group(3, 0, run("orders", [b"x"]))))
    data[frame.HEADER_BYTES] = 0xC1
    with pytest.raises(StoreError, match="records of group 3"):
        frame.decode(memoryview(data))


def test_a_group_that_no_commit_could_take_in_is_refused_before_it_is_durable() -> None:
    """A frame of more than a gigabyte: one sentence, and not a byte to write."""
    blob = memoryview(bytes(1)).cast("B")
    whole = memoryview(bytearray(frame.FRAME_BYTES_MAX + 1))
    large = replace(run("t", [b"x"]), blob=whole, lengths=array("I", [len(whole)]).tobytes())
    with pytest.raises(StoreError, match="a frame 1073741824 at most"):
        frame.encode(Group(1, 0, NOON, (large,)))
    assert frame.encode(Group(1, 0, NOON, (replace(large, blob=blob),)))


def test_more_bytes_than_one_column_counts_are_a_commit_all_the_same() -> None:
    """A home whose journal has a frame of more than 2 GiB starts: its messages become rows in
    several chunks, here of 100 bytes and less."""
    many = [b"x" * n for n in range(30)]
    one = Group(1, 0, NOON, (run("a", many), run("b", many), run("a", many)))
    back = frame.decode(framed(one))
    whole, pieces = build([back])[MESSAGE], build([back], column_bytes_max=100)[MESSAGE]
    assert pieces.column("message").num_chunks > 3
    assert pieces.equals(whole)
