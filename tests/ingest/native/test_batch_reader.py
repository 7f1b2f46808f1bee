"""The reader in C says of every message what the one in Python says."""

import struct
from array import array

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proton import Message, symbol, timestamp, uint, ulong

from distributary.ingest.native.batch_reader import READ_MAX, BatchReader
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import Definition
from distributary.pipeline.selector.evaluate import compiled
from distributary.pipeline.selector.matching import Selections
from distributary.pipeline.selector.parser import parse
from distributary.pipeline.selector.reading import FIELDS, Reader

#: Shorter and longer ones, those of one length, one that begins another, and one that isn't ASCII.
NAMES = ("a", "b", "bb", "ab", "größe", "not there")


def batch(messages, between=b"", kind=bytes):
    """The batch of these messages; `between` lies before the first and behind the last."""
    offsets = array("i", [len(between)])
    for data in messages:
        offsets.append(offsets[-1] + len(data))
    return RecordBatch(
        0, len(messages), kind(between + b"".join(messages) + between), offsets.tobytes()
    )


def shown(columns):
    """Types and values, also of NaN and of what is equal to nothing."""
    return {
        name: ["other" if type(one) is object else repr(one) for one in column]
        for name, column in columns.items()
    }


def agree(messages, names=(*NAMES, *FIELDS), between=b"", kind=bytes):
    """Both say the same, and it is returned."""
    some = batch(messages, between, kind)
    said = shown(Reader(names).columns(some, 0, len(messages))[0])
    assert shown(BatchReader(names).columns(some, 0, len(messages))[0]) == said
    return said


def text(value, code=0xA1):
    raw = value.encode() if isinstance(value, str) else value
    size = bytes([len(raw)]) if code >> 4 in (0xA, 0xC) else len(raw).to_bytes(4, "big")
    return bytes([code]) + size + raw


#: Values of each type, and bytes that are none.
VALUES = [
    *(b"\x40", b"\x41", b"\x42", b"\x56\x00", b"\x56\x01", b"\x56\x07", b"\x43", b"\x44", b"\x45"),
    *(b"\x50\x07", b"\x50\xff", b"\x51\xff", b"\x52\x80", b"\x53\x80", b"\x54\x80", b"\x55\x80"),
    *(b"\x60\xff\xfe", b"\x61\xff\xfe", b"\x70\xff\xff\xff\xfe", b"\x71\xff\xff\xff\xfe"),
    *(b"\x80" + b"\xff" * 8, b"\x80\x7f" + b"\xff" * 7, b"\x81" + b"\xff" * 8),
    *(b"\x83" + b"\x80" * 8, b"\x72" + struct.pack(">f", 0.5), b"\x82" + struct.pack(">d", 2.5)),
    *(
        b"\x82\x7f\xf8" + bytes(6),
        b"\x73\x00\x00\x00\x61",
        b"\x73" + b"\xff" * 4,
        b"\x74" + bytes(4),
    ),
    *(b"\x84" + bytes(8), b"\x94" + bytes(16), b"\x98" + bytes(16), b"\x4f", b"\x5f\x01", b"\x11"),
    *(
        text("red"),
        text("größe"),
        text(b"\xff"),
        text(b"\xff", 0xB1),
        text("", 0xB1),
        text("blue", 0xB1),
    ),
    *(
        text("red", 0xA3),
        text("größe", 0xA3),
        text("red", 0xB3),
        text("red", 0xA0),
        text("r", 0xB0),
    ),
    *(
        b"\xa1\x09red",
        b"\xb1\x00\x00\x00\x09red",
        b"\xb1\x00\x00",
        b"\xc0\x01\x00",
        b"\xc1\x01\x00",
    ),
    *(b"\xd0\x00\x00\x00\x04" + bytes(4), b"\xe0\x02\x00\x41", b"\x00\x53\x09\x41"),
    *(b"\x00\x00\x53\x01\x53\x02\x41", b"\x00\xa1\x01d\x41", b"\x00\x53", b"\x00" * 40 + b"\x41"),
    b"\x00" * 32 + b"\x43" * 33,
    b"\x00" * 33 + b"\x43" * 34,
]
values = st.one_of(st.sampled_from(VALUES), st.binary(min_size=1, max_size=4))
keys = st.one_of(
    st.sampled_from(NAMES).map(text),
    st.sampled_from(NAMES).map(lambda name: text(name, 0xB1)),
    st.sampled_from([text("a", 0xA3), text(""), text(b"\xff"), text("x" * 200), b"\x41", b""]),
)
descriptors = st.sampled_from([0x70, 0x71, 0x72, 0x73, 0x74, 0x75, 0x78, 0x10, 0x6F, 0x79]).flatmap(
    lambda code: st.sampled_from([
        *([b"\x00\x53" + bytes([code])] * 6),
        b"\x00\x80" + bytes(7) + bytes([code]),
        b"\x00\x70" + bytes(3) + bytes([code]),
        b"\x00\x54" + bytes([code]),
        b"\x00\x61\x00" + bytes([code]),
        b"\x00\x82" + struct.pack(">d", code),
        *(b"\x00" + text(f"amqp:{SYMBOLS.get(code, 'none')}", kind) for kind in (0xA1, 0xA3, 0xB3)),
        b"\x00\x00\x53\x01\x53" + bytes([code]),
    ])
)  # fmt: skip
SYMBOLS = {
    0x70: "header:list",
    0x72: "message-annotations:map",
    0x73: "properties:list",
    0x74: "application-properties:map",
    0x75: "data:binary",
}


@st.composite
def compounds(draw, parts):
    """A list or map of these, now and then with a size or a count that is wrong."""
    items = draw(parts)
    content = b"".join(items)
    count = len(items) + draw(st.sampled_from([0] * 12 + [-2, -1, 1, 2]))
    wrong = draw(st.sampled_from([0] * 12 + [-3, -1, 1, 4]))
    code = draw(st.sampled_from([0xC0, 0xC1, 0xD0, 0xD1]))
    if code < 0xD0 and len(content) < 250:
        return bytes([code, max(len(content) + 1 + wrong, 0), max(count, 0)]) + content
    size = max(len(content) + 4 + wrong, 0).to_bytes(4, "big")
    return bytes([code | 0x10]) + size + max(count, 0).to_bytes(4, "big") + content


lists = compounds(st.lists(values, max_size=14))
maps = compounds(
    st.lists(st.tuples(keys, values), max_size=5).map(lambda pairs: [x for p in pairs for x in p])
)
sections = st.tuples(descriptors, st.one_of(lists, maps, values)).map(b"".join)


@st.composite
def ordered(draw):
    """The sections where they belong, each as it should be, or nearly."""
    fields = st.lists(st.sampled_from(VALUES), max_size=14)
    parts = [
        b"\x00\x53\x70" + draw(compounds(fields)).replace(b"\xc1", b"\xc0", 1),
        b"\x00\x53\x72" + draw(maps),
        b"\x00\x53\x73" + draw(compounds(fields)).replace(b"\xc1", b"\xc0", 1),
        b"\x00\x53\x74" + draw(maps).replace(b"\xc0", b"\xc1", 1),
        b"\x00\x53\x75" + text("body", 0xA0),
    ]
    return b"".join(part for part in parts if draw(st.booleans()))


def whole(**more):
    """A message as a client sends it."""
    message = Message(body=b"x" * 20, durable=True, priority=7, id="ID:1", address="topic://t")
    message.subject, message.creation_time, message.group_id = "kind", 1_700_000_000.0, "g"
    message.group_sequence, message.user_id, message.correlation_id = 3, b"me", ulong(7)
    message.annotations = {symbol("x-opt-jms-msg-type"): 3}
    message.properties = {"a": "red", "b": 17, "bb": True, "größe": 2.5, "ab": uint(9), **more}
    return bytes(message.encode())


@st.composite
def spoiled(draw):
    """A whole one with bytes that were changed, and perhaps cut."""
    data = bytearray(whole())
    for _ in range(draw(st.integers(0, 4))):
        data[draw(st.integers(0, len(data) - 1))] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))])


anything = st.one_of(
    ordered(),
    spoiled(),
    st.lists(sections, max_size=5).map(b"".join),
    st.binary(max_size=60),
)


@settings(max_examples=1_500, deadline=None)
@given(
    st.lists(anything, min_size=1, max_size=4),
    st.lists(st.sampled_from((*NAMES, *FIELDS)), unique=True),
    st.binary(max_size=12),
)
def test_both_say_the_same_of_any_bytes(messages, names, between):
    """Of all names and of some, whatever lies beside the messages."""
    agree(messages, names, between)
    agree(messages, (*NAMES, *FIELDS), between)


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("code", [0x70, 0x73])
def test_both_say_the_same_of_a_value_in_each_place(value, code):
    """In every field of a list, before another one, and as a property."""
    for at in range(14):
        content = b"\x40" * at + value + text("next")
        listed = b"\xd0" + (len(content) + 4).to_bytes(4, "big") + bytes(3) + bytes([at + 2])
        agree([b"\x00\x53" + bytes([code]) + listed + content])
    content = text("a") + value + text("b") + b"\x41"
    agree([b"\x00\x53\x74\xc1" + bytes([len(content) + 1, 4]) + content])


@pytest.mark.parametrize("count", range(8))
@pytest.mark.parametrize("wrong", [-2, -1, 0, 1, 2])
def test_both_say_the_same_of_a_map_that_is_too_long_or_short(count, wrong):
    """However many keys and values it claims to have, and wherever it claims to end."""
    content = text("a") + b"\x41" + text("b") + b"\x54\x07"
    for size, claimed in ((1, bytes([count])), (4, count.to_bytes(4, "big"))):
        code, long = (b"\xc1", 1) if size == 1 else (b"\xd1", 4)
        mapped = code + (len(content) + size + wrong).to_bytes(long, "big") + claimed + content
        said = agree([b"\x00\x53\x74" + mapped + b"\x00\x53\x75\xa0\x00"])
        assert said["a"] == ["True" if (count, wrong) == (4, 0) else "None"]


def test_a_whole_message_says_something():
    """Two readers that say nothing would agree, too."""
    said = agree([whole(), whole(a="größe", b=timestamp(5))], between=whole(a=1))
    assert said == {
        "a": ["'red'", "'größe'"],
        "b": ["17", "5"],
        "bb": ["True"] * 2,
        "ab": ["9"] * 2,
        "größe": ["2.5"] * 2,
        "not there": ["None"] * 2,
        "JMSDeliveryMode": ["'PERSISTENT'"] * 2,
        "JMSPriority": ["7"] * 2,
        "JMSXDeliveryCount": ["1"] * 2,
        "JMSMessageID": ["'ID:1'"] * 2,
        "JMSXUserID": ["'me'"] * 2,
        "JMSType": ["'kind'"] * 2,
        "JMSCorrelationID": ["'ID:AMQP_ULONG:7'"] * 2,
        "JMSTimestamp": ["1700000000000"] * 2,
        "JMSXGroupID": ["'g'"] * 2,
        "JMSXGroupSeq": ["3"] * 2,
    }


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda b: memoryview(bytearray(b))])
def test_batches_hold_bytes_of_any_kind(kind):
    """As they came, or as pages of the table bring them."""
    assert agree([whole()] * 3, kind=kind)["a"] == ["'red'"] * 3


def test_a_message_ends_where_it_ends():
    """Cut anywhere, with the rest right behind it."""
    data = whole()
    for cut in range(len(data)):
        agree([data[:cut]], between=data[cut:])
        agree([data[:cut], data[cut:]])


def test_any_part_of_a_batch_is_read():
    """More messages than one call of C reads, of which not all say something, from any place."""
    messages = [whole(b=n) if n % 7 else b"" for n in range(3 * READ_MAX + 5)]
    some = batch(messages)
    for first, stop in ((0, len(messages)), (1, READ_MAX + 1), (READ_MAX, READ_MAX + 1), (3, 3)):
        expected = shown(Reader(("b", "a")).columns(some, first, stop)[0])
        assert shown(BatchReader(("b", "a")).columns(some, first, stop)[0]) == expected


TEXTS = [
    *("a = 1", "a = 1.0", "a = TRUE", "a = 'x'", "a IN ('x', 'y')", "a = 1 OR a = 'x'", "a <> 1"),
    *(
        "a = 1 AND b = 'x'",
        "b = 'x' AND a = 2",
        "a = b",
        "a = 1 OR b = 1",
        "NOT a = 1",
        "b IS NULL",
    ),
    *("a = 9007199254740992", "a = 9007199254740993", "a = 9007199254740992.0", "a = 1 AND a = 2"),
    *("b IS NULL", "JMSPriority = 4 AND a = 1", "JMSType = 'kind'", "JMSPriority = 7"),
]
properties = st.dictionaries(
    st.sampled_from(["a", "b"]),
    st.sampled_from([1, 1.0, True, "x", "y", 2, 2**53, 2**53 + 1, 2.0**53, float("nan"), 0, b"x"]),
)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(properties, min_size=1, max_size=20),
    st.lists(st.sampled_from(TEXTS), min_size=1, max_size=8, unique=True),
)
def test_selectors_together_match_what_each_matches_alone(rows, texts):
    """Read in C and looked up by value, against one message after the other in Python."""
    messages = [
        bytes(Message(body="x", priority=7 if len(row) == 1 else 4, properties=row).encode())
        for row in rows
    ]
    some, selections = batch(messages), Selections(BatchReader)
    claims = [Definition("t", shared=True, selector=text) for text in texts]
    for claim in claims:
        selections.join(claim)
    for claim in claims:
        selector = parse(claim.selector)
        selects, reader = compiled(selector), Reader(selector.identifiers)
        alone = [at for at, m in enumerate(messages) if selects(reader.read(m, 0, len(m)).get)]
        found = selections.matches(claim, some, 0, room=99, work_max=999)
        assert (list(found.sequences), found.stop) == (alone, len(messages))
