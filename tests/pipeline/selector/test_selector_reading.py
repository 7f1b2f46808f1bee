"""A message's value under a name, for bytes of every kind: whole ones, odd ones and broken ones.

Messages are built byte by byte here, and by a small encoder of single values.
"""

import struct
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.pipeline.selector.reading import FIELDS, HEAD_BYTES, Reader

HEADER, ANNOTATIONS, PROPERTIES, APPLICATION, DATA = 0x70, 0x72, 0x73, 0x74, 0x75
NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"
DEFAULTS = {"JMSDeliveryMode": "NON_PERSISTENT", "JMSPriority": 4, "JMSXDeliveryCount": 1}


def text(value):
    raw = value.encode()
    return bytes([0xA1, len(raw)]) + raw if len(raw) < 256 else wide(0xB1, raw)


def wide(code, raw):
    return bytes([code]) + len(raw).to_bytes(4, "big") + raw


def listed(*fields):
    return wide(0xD0, len(fields).to_bytes(4, "big") + b"".join(fields))


def mapped(*pairs):
    return wide(0xD1, (2 * len(pairs)).to_bytes(4, "big") + b"".join(map(b"".join, pairs)))


def section(code, value):
    return bytes([0x00, 0x53, code]) + value


def properties(**fields):
    """A whole application-properties section: encoded values by name."""
    return section(APPLICATION, mapped(*((text(name), value) for name, value in fields.items())))


def read(data, *names, before=b"", after=b""):
    """The values of the names; the message lies between others."""
    blob = before + data + after
    return Reader(names).read(blob, len(before), len(before) + len(data))


BODY = section(DATA, b"\xa0\x03abc")

#: An application property's bytes, and its value for selectors; Ellipsis: there, equal to nothing.
VALUES = [
    (NULL, None),
    (TRUE, True),
    (FALSE, False),
    (b"\x56\x01", True),
    (b"\x56\x00", False),
    (b"\x50\xff", 255),
    (b"\x60\xff\xff", 65_535),
    (b"\x70\xff\xff\xff\xff", 2**32 - 1),
    (b"\x52\x07", 7),
    (b"\x43", 0),
    (b"\x80" + b"\x00" * 7 + b"\x09", 9),
    (b"\x53\x09", 9),
    (b"\x44", 0),
    (b"\x80\x80" + b"\x00" * 7, 2.0**63),
    (b"\x80" + b"\xff" * 8, 2.0**64),
    (b"\x51\xff", -1),
    (b"\x61\xff\xfe", -2),
    (b"\x71\xff\xff\xff\xfd", -3),
    (b"\x54\xfc", -4),
    (b"\x81\x7f" + b"\xff" * 7, 2**63 - 1),
    (b"\x81\x80" + b"\x00" * 7, -(2**63)),
    (b"\x55\xfb", -5),
    (b"\x72" + struct.pack(">f", 0.5), 0.5),
    (b"\x82" + struct.pack(">d", 2.25), 2.25),
    (b"\x73\x00\x00\x00\x61", "a"),
    (b"\x83" + struct.pack(">q", 1_700_000_000_000), 1_700_000_000_000),
    (text("red"), "red"),
    (text("größe"), "größe"),
    (text(""), ""),
    (text("x" * 300), "x" * 300),
    (b"\xa3\x03red", "red"),
    (b"\xb3\x00\x00\x00\x03red", "red"),
    (b"\xa0\x03abc", ...),
    (b"\x98" + UUID(int=7).bytes, ...),
    (b"\x74" + bytes(4), ...),
    (b"\x45", ...),
    (listed(TRUE), ...),
    (mapped(), ...),
    (b"\x00\x53\x09" + TRUE, ...),
    # Bytes that are no value: the name isn't there.
    (b"\xa1\x01\xff", None),
    (b"\x56\x07", None),
    (b"\x73\xff\xff\xff\xff", None),
]


@pytest.mark.parametrize(("raw", "value"), VALUES)
def test_a_property_has_a_value(raw, value):
    """Each AMQP type becomes the class that selectors know, and neighbours are no matter."""
    found = read(properties(before=TRUE, a=raw, after=FALSE) + BODY, "a", "after", "missing")
    assert found.pop("after") is False
    if value is ...:
        found = found["a"]
        assert found is not None
        assert not isinstance(found, bool | int | float | str)
    else:
        assert found == ({} if value is None else {"a": value})
        assert [type(one) for one in found.values()] in ([], [type(value)])


MESSAGE_ID = [
    (text("ID:x-1"), "ID:x-1"),
    (b"\x53\x07", "ID:AMQP_ULONG:7"),
    (b"\x98" + UUID(int=7).bytes, f"ID:AMQP_UUID:{UUID(int=7)}"),
    (b"\xa0\x02\x0a\xff", "ID:AMQP_BINARY:0AFF"),
    (NULL, None),
    (TRUE, None),
]


@pytest.mark.parametrize(("raw", "value"), MESSAGE_ID)
def test_an_id_has_the_form_of_jms(raw, value):
    """Strings as they were sent, the others with the prefix that says their type."""
    data = section(PROPERTIES, listed(raw, NULL, NULL, NULL, NULL, raw)) + BODY
    both = {"JMSMessageID": value, "JMSCorrelationID": value}
    assert read(data, *both) == ({} if value is None else both)


def test_the_header_fields():
    """Each name has its field."""
    header = section(HEADER, listed(TRUE, b"\x50\x07", NULL, NULL, b"\x52\x02"))
    fields = listed(
        *(text("id"), b"\xa0\x02me", text("to"), text("kind"), text("back"), text("related")),
        *(NULL, NULL, NULL, b"\x83" + struct.pack(">q", 99), text("group"), b"\x52\x05"),
    )
    assert read(header + section(PROPERTIES, fields) + BODY, *FIELDS) == {
        "JMSDeliveryMode": "PERSISTENT",
        "JMSPriority": 7,
        "JMSXDeliveryCount": 3,
        "JMSMessageID": "id",
        "JMSXUserID": "me",
        "JMSType": "kind",
        "JMSCorrelationID": "related",
        "JMSTimestamp": 99,
        "JMSXGroupID": "group",
        "JMSXGroupSeq": 5,
    }


@pytest.mark.parametrize(
    "data",
    [
        BODY,
        b"",
        section(HEADER, b"\x45") + BODY,
        section(HEADER, b"\xc0\x01\x00") + BODY,
        section(HEADER, listed(NULL, NULL)) + BODY,
        section(ANNOTATIONS, mapped()) + section(PROPERTIES, b"\x45") + BODY,
    ],
)
def test_what_isnt_said_has_its_default(data):
    """A message without a header, or with nothing in it, isn't persistent and of priority 4."""
    assert read(data, *FIELDS) == DEFAULTS


def test_a_priority_beyond_nine_is_nine():
    """As it is everywhere else."""
    assert read(section(HEADER, listed(NULL, b"\x50\xc8")), "JMSPriority") == {"JMSPriority": 9}


WHOLE = (
    section(HEADER, listed(TRUE, b"\x50\x07"))
    + section(ANNOTATIONS, mapped((b"\xa3\x01x", text("y"))))
    + section(PROPERTIES, listed(text("id"), NULL, NULL, text("kind")))
    + properties(a=text("red"), b=b"\x54\x07")
    + BODY
)
NAMES = ("JMSDeliveryMode", "JMSPriority", "JMSMessageID", "JMSType", "a", "b")
SAID = dict(zip(NAMES, ("PERSISTENT", 7, "id", "kind", "red", 7), strict=True))


def test_only_the_own_bytes_count():
    """Neither what lies before a message in its batch nor what lies behind."""
    assert read(WHOLE, *NAMES) == SAID
    assert read(WHOLE, *NAMES, before=BODY, after=WHOLE) == SAID
    cut = WHOLE.index(b"red")
    rest = WHOLE[cut:]
    assert "a" not in read(WHOLE[:cut], *NAMES, after=rest)
    assert read(b"", *NAMES, after=WHOLE) == {
        "JMSDeliveryMode": "NON_PERSISTENT",
        "JMSPriority": 4,
    }


def test_bytes_of_any_kind_are_read():
    """Batches hold them as they came."""
    for blob in (bytearray(WHOLE), memoryview(WHOLE), memoryview(bytearray(WHOLE))):
        assert Reader(NAMES).read(blob, 0, len(WHOLE)) == SAID


def test_a_large_message_is_read_to_its_properties():
    """Sections that end beyond what is looked at first, and bodies that do."""
    long = properties(a=text("red"), b=b"\x54\x07", c=text("x" * 2 * HEAD_BYTES))
    head = WHOLE[: WHOLE.index(section(APPLICATION, b""))]
    body = section(DATA, wide(0xB0, bytes(10_000)))
    assert read(head + long + body, *NAMES, after=BODY) == SAID
    annotations = section(ANNOTATIONS, mapped((b"\xa3\x01x", text("y" * HEAD_BYTES))))
    assert read(annotations + properties(b=b"\x54\x07") + body, "b") == {"b": 7}
    assert read(WHOLE[:-6] + body, *NAMES) == SAID
    for filling in range(HEAD_BYTES - 60, HEAD_BYTES):
        first = section(ANNOTATIONS - 1, mapped((b"\xa3\x01x", text("y" * filling))))
        second = section(ANNOTATIONS, b"\xc1\x16\x02\xa3\x01x" + text("z" * 16))
        for third in (
            properties(b=b"\x54\x07"),
            section(APPLICATION, b"\xc1\x06\x02\xa1\x01b\x54\x07"),
        ):
            assert read(first + second + third + BODY, "b") == {"b": 7}


def test_descriptors_may_be_written_long():
    """As a ulong of eight bytes, or as a symbol."""
    symbol = b"amqp:application-properties:map"
    pairs = mapped((text("a"), TRUE))
    assert read(b"\x00\x80" + bytes(7) + b"\x74" + pairs + BODY, "a") == {"a": True}
    assert read(b"\x00\xa3" + bytes([len(symbol)]) + symbol + pairs + BODY, "a") == {"a": True}


def test_the_last_of_equal_names_counts():
    """A map must not have them; all readers here agree on what they do with it."""
    data = section(APPLICATION, mapped((text("a"), TRUE), (text("a"), b"\x54\x07")))
    assert read(data, "a") == {"a": 7}


#: Messages with something wrong, and what they still say.
BROKEN = [
    (b"\xff" + WHOLE, {}),
    (section(0x10, NULL) + WHOLE, {}),
    (section(HEADER, b"\xd0\x00\xff\xff\xff") + WHOLE, {}),
    (section(HEADER, TRUE) + BODY, {}),
    (section(HEADER, listed(b"\x54\x01", b"\x50\x07")) + BODY, {"JMSPriority": 7}),
    (section(HEADER, listed(TRUE, b"\x54\x07")) + BODY, {"JMSDeliveryMode": "PERSISTENT"}),
    (section(HEADER, listed(TRUE, b"\x11")) + BODY, {"JMSDeliveryMode": "PERSISTENT"}),
    (
        section(HEADER, wide(0xD0, b"\0\0\0\2\x56\x01")) + b"\x50\x07",
        {"JMSDeliveryMode": "PERSISTENT"},
    ),
    # Sections that aren't in their order end what is known.
    (section(PROPERTIES, b"\x45") + section(HEADER, listed(TRUE)), DEFAULTS),
    (properties(b=TRUE) + properties(a=TRUE), DEFAULTS | {"b": True}),
    (BODY + properties(a=TRUE), DEFAULTS),
    # Properties that aren't a map of names.
    (section(APPLICATION, listed(text("a"), TRUE)) + BODY, DEFAULTS),
    (section(APPLICATION, mapped((text("a"), TRUE), (b"\xa3\x01b", TRUE))), DEFAULTS),
    (section(APPLICATION, mapped((text("a"), TRUE), (text("b"), b"\x11"))), DEFAULTS),
    (section(APPLICATION, mapped((text("a"), TRUE), (text("b"), b"\xa1\xff"))), DEFAULTS),
    (section(APPLICATION, wide(0xD1, b"\0\0\0\3" + text("a") + TRUE + text("b"))), DEFAULTS),
    (section(APPLICATION, wide(0xD1, b"\0\0\0\2" + text("a") + TRUE + TRUE)), DEFAULTS),
]


@pytest.mark.parametrize(("data", "says"), BROKEN)
def test_a_broken_section_says_nothing(data, says):
    """The sections before the broken one count, the rest isn't there."""
    wanted = {name: value for name, value in says.items() if name != "JMSXDeliveryCount"}
    assert read(data, *NAMES) == wanted


def spoiled(draw):
    data = bytearray(WHOLE)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data) - 1))
        data[at] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))])


@settings(max_examples=1_000)
@given(st.one_of(st.binary(max_size=80), st.composite(spoiled)()))
def test_no_bytes_bring_an_exception_and_each_value_is_its_own(data):
    """A name's value is the same whatever else is asked for; known classes only."""
    together = read(data, *NAMES)
    for name in NAMES:
        alone = read(data, name)
        assert repr(alone.get(name)) == repr(together.get(name))
    for value in together.values():
        assert type(value) in (bool, int, float, str, object)
