"""Frames: what goes in comes out, and what contradicts itself is refused."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from table_groups import event, framed, group, run, settled

from pipeline.errors import StoreError
from pipeline.message import Group, MessageRun, Settlement, SubscriptionRecord
from pipeline.outcome import Outcome
from pipeline.subscription import Definition, SubscriptionEvent, SubscriptionKey
from pipeline.tables import frame

INT64 = st.integers(0, 2**62)
TEXT = st.text(max_size=8)


@st.composite
def message_runs(draw: st.DrawFn) -> MessageRun:
    bodies = draw(st.lists(st.binary(max_size=40), min_size=1, max_size=20))
    n = len(bodies)
    numbers = st.lists(st.integers(0, 2**32 - 1), min_size=n, max_size=n)
    small = st.binary(min_size=n, max_size=n)
    return MessageRun(
        draw(TEXT),
        n,
        b"".join(bodies),
        array("I", map(len, bodies)).tobytes(),
        draw(small),
        draw(small),
        array("I", draw(numbers)).tobytes(),
    )


RANGES = st.builds(
    lambda first, step, count: range(first, first + step * count, step),
    INT64,
    st.integers(1, 50),
    st.integers(1, 500),
)
SETTLEMENTS = st.builds(
    Settlement,
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
)
KEYS = st.builds(SubscriptionKey, st.none() | TEXT, TEXT, st.booleans())
DEFINITIONS = st.builds(Definition, TEXT, st.booleans(), st.none() | TEXT, st.booleans())
EVENTS = st.builds(SubscriptionRecord, st.sampled_from(SubscriptionEvent), KEYS, DEFINITIONS, INT64)
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
    """Whatever a group holds, its frame holds the same, aligned."""
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
    for row, settlement in zip(back.records.settlements, one.settlements, strict=True):
        ranges = tuple(range(a, a + step * n, step) for a, step, n in row.sequences)
        assert ranges == settlement.sequences
        assert (row.subscription, row.outcome) == (settlement.subscription, settlement.outcome)
        assert (row.floor, row.final) == (settlement.floor, settlement.final)
    for event_row, record in zip(back.records.subscriptions, one.subscriptions, strict=True):
        assert event_row.subscription == record.key.id
        assert event_row.selector == record.definition.selector


def test_a_short_frame_is_refused() -> None:
    """A frame whose end is missing says so with its group."""
    view = framed(group(3, 0, run("orders", [b"x" * 200])))
    with pytest.raises(StoreError, match="group 3"):
        frame.decode(view[:-64])


def test_other_bytes_are_refused() -> None:
    """What doesn't begin with a frame's magic is no frame."""
    with pytest.raises(StoreError, match="no frame"):
        frame.decode(memoryview(bytes(128)))


def test_damaged_records_are_refused() -> None:
    """Records that can't be decoded are an error with the group, not a crash."""
    data = bytearray(framed(group(3, 0, run("orders", [b"x"]))))
    data[frame.HEADER_BYTES] = 0xC1
    with pytest.raises(StoreError, match="records of group 3"):
        frame.decode(memoryview(data))
