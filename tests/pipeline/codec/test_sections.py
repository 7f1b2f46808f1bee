"""The section walker against Proton's encoder, and against bytes that mean harm."""

import contextlib
import struct
from uuid import UUID

import proton
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.codec.amqp_types import (
    DEPTH_MAX,
    Decimal,
    Described,
    Map,
    Symbol,
    Timestamp,
    Value,
    read,
)
from distributary.pipeline.codec.sections import (
    DecodeError,
    Kind,
    Typed,
    application_properties,
    decode,
    walk,
)

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
#: Proton hands these fields to C as strings that end at a NUL.
FIELD = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=300)
ASCII = st.text(st.characters(max_codepoint=127, exclude_characters="\0"), max_size=300)

#: Type name -> values as Proton takes them.
SIMPLE: dict[str, st.SearchStrategy[object]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "ubyte": st.integers(0, 2**8 - 1).map(proton.ubyte),
    "ushort": st.integers(0, 2**16 - 1).map(proton.ushort),
    "uint": st.integers(0, 2**32 - 1).map(proton.uint),
    "ulong": st.integers(0, 2**64 - 1).map(proton.ulong),
    "byte": st.integers(-(2**7), 2**7 - 1).map(proton.byte),
    "short": st.integers(-(2**15), 2**15 - 1).map(proton.short),
    "int": st.integers(-(2**31), 2**31 - 1).map(proton.int32),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False).map(proton.float32),
    "double": st.floats(allow_nan=False),
    "timestamp": st.integers(-(2**62), 2**62).map(proton.timestamp),
    "uuid": st.uuids(),
    "binary": st.binary(max_size=300),
    "string": TEXT,
    "symbol": ASCII.map(proton.symbol),
}
PROPERTIES = st.dictionaries(
    TEXT, st.sampled_from(sorted(SIMPLE)).flatmap(lambda n: st.tuples(st.just(n), SIMPLE[n]))
)
BODIES = st.recursive(
    st.one_of(*SIMPLE.values()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


def plain(value: object) -> Value:
    """A value as Proton has it, in our words."""
    if isinstance(value, dict):
        return Map(tuple((plain(key), plain(inner)) for key, inner in value.items()))
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value  # type: ignore[return-value]


@given(PROPERTIES)
def test_application_properties_are_what_proton_encoded(
    properties: dict[str, tuple[str, object]],
) -> None:
    """Every simple type comes back with its name and its value, alone and in the whole message."""
    values = {name: value for name, (_, value) in properties.items()}
    data = proton.Message(body="x", properties=values).encode()
    wanted = {name: Typed(kind, plain(value)) for name, (kind, value) in properties.items()}
    assert application_properties(data) == wanted
    assert decode(data).application_properties == wanted


@given(BODIES)
def test_a_value_body_is_what_proton_encoded(body: object) -> None:
    """Lists and maps in lists and maps come back as they were."""
    message = decode(proton.Message(body=body).encode())
    if body is None:
        assert message.body.value is None
    else:
        assert (message.body.kind, message.body.value) == ("value", plain(body))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "id": st.one_of(FIELD, st.uuids(), st.binary(max_size=20), SIMPLE["ulong"]),
            "correlation_id": st.one_of(FIELD, st.uuids(), SIMPLE["ulong"]),
            "address": FIELD,
            "subject": FIELD,
            "reply_to": FIELD,
            "content_type": ASCII,
            "group_id": FIELD,
            "reply_to_group_id": FIELD,
            "user_id": st.binary(max_size=20),
            "ttl": st.integers(0, 2**32 // 1000 - 1),
            "priority": st.integers(0, 9),
            "durable": st.booleans(),
        },
    )
)
def test_header_and_properties_are_what_proton_encoded(fields: dict[str, object]) -> None:
    """Each field that was set has its value; Proton can't tell some empty ones from absent."""
    data = proton.Message(body="x", **fields).encode()
    message = decode(data)
    names = {"id": "message_id", "address": "to"}
    for name, value in fields.items():
        holder = message.header if name in ("ttl", "priority", "durable") else message.properties
        found = getattr(holder, names.get(name, name))
        wanted = int(value * 1000) if name == "ttl" else value
        assert found == wanted or (not wanted and not found), name


@pytest.mark.parametrize(
    ("body", "kind", "value"),
    [(b"bytes", "data", b"bytes"), ([1, "two"], "sequence", [1, "two"])],
)
def test_inferred_bodies_are_data_and_sequences(body: object, kind: str, value: Value) -> None:
    """The other two kinds of body."""
    message = decode(proton.Message(body=body, inferred=True).encode())
    assert (message.body.kind, message.body.value) == (kind, value)


def test_several_data_sections_are_one_body() -> None:
    """Data sections are joined in their order."""
    data = b"\x00\x53\x75\xa0\x02ab" + b"\x00\x53\x75\xb0\x00\x00\x00\x01c"
    assert decode(data).body.value == b"abc"


def test_a_message_without_sections_has_no_body() -> None:
    """No bytes at all are a message with defaults."""
    message = decode(b"")
    assert (message.body.kind, message.header.priority) == ("none", 4)


def test_walk_finds_sections_without_decoding() -> None:
    """Sections by kind, each beginning where the one before ends."""
    data = proton.Message(body="x", id="1", properties={"a": 1}).encode()
    sections = list(walk(data))
    kinds = [Kind.HEADER, Kind.PROPERTIES, Kind.APPLICATION_PROPERTIES, Kind.VALUE]
    assert [section.kind for section in sections] == kinds
    assert sections[-1].stop == len(data)


#: Bytes and the value that they are: constructors that Proton's encoder doesn't choose.
CONSTRUCTORS: list[tuple[str, Value]] = [
    ("56 01", True),
    ("56 00", False),
    ("43", 0),
    ("44", 0),
    ("52 ff", 255),
    ("53 ff", 255),
    ("54 ff", -1),
    ("55 80", -128),
    ("80 ffffffffffffffff", 2**64 - 1),
    ("72 3fc00000", 1.5),
    ("82 3ff8000000000000", 1.5),
    ("73 0001f600", "\N{GRINNING FACE}"),
    ("74 01020304", Decimal(bytes.fromhex("01020304"))),
    ("84 0102030405060708", Decimal(bytes.fromhex("0102030405060708"))),
    ("94 000102030405060708090a0b0c0d0e0f", Decimal(bytes(range(16)))),
    ("98 000102030405060708090a0b0c0d0e0f", UUID(bytes=bytes(range(16)))),
    ("83 ffffffffffffffff", Timestamp(-1)),
    ("a3 02 6162", Symbol("ab")),
    ("b3 00000002 6162", Symbol("ab")),
    ("b1 00000002 6162", "ab"),
    ("45", []),
    ("c0 03 02 41 42", [True, False]),
    ("d0 00000006 00000002 41 42", [True, False]),
    ("c1 05 02 a1 01 61 41", Map((("a", True),))),
    ("d1 00000008 00000002 a1 01 61 41", Map((("a", True),))),
    ("e0 04 02 50 01 02", [1, 2]),
    ("f0 00000007 00000002 50 01 02", [1, 2]),
    ("e0 02 03 41", [True, True, True]),
    ("e0 08 02 00 a3 01 78 50 01 02", [Described("x", 1), Described("x", 2)]),
    ("00 53 07 41", Described(7, True)),
]


@pytest.mark.parametrize(("hexadecimal", "value"), CONSTRUCTORS)
def test_every_constructor(hexadecimal: str, value: Value) -> None:
    """A constructor's bytes are its value, and end where they end."""
    data = bytes.fromhex(hexadecimal)
    assert read(data + b"\x40", 0) == (value, len(data))


BAD: list[tuple[str, str]] = [
    ("00", "ends within"),
    ("41", "no section"),
    ("00 53 99 40", "unknown section"),
    ("00 53 77 b1 ffffffff 61", "goes on after the end"),
    ("00 53 77 a1 01 ff", "utf-8"),
    ("00 53 77 3f", "unknown constructor"),
    ("00 53 77 56 02", "boolean of 2"),
    ("00 53 77 c0 02 05 40", "claims 5 elements"),
    ("00 53 77 c0 03 01 40 40", "its size says"),
    ("00 53 77 c1 02 01 40", "without a value"),
    ("00 53 77 e0 01 05", "no room"),
    ("00 53 77 f0 00000005 ffffffff 41", "more than 1037 values in all"),
    ("00 53 73 c0 03 01 55 01 00", "MESSAGE_ID is of type long"),
    ("00 53 73 40", "no list"),
    ("00 53 74 c1 03 02 41 41", "no string"),
    ("00 53 75 a1 01 61", "isn't binary"),
    ("00 53 77 41 00 53 77 41", "VALUE after VALUE"),
    ("00 53 77 41 00 53 70 45", "HEADER after VALUE"),
]


@pytest.mark.parametrize(("hexadecimal", "says"), BAD)
def test_bad_bytes_are_refused_by_name(hexadecimal: str, says: str) -> None:
    """The error says what was wrong."""
    with pytest.raises(DecodeError, match=f"(?i){says}"):
        decode(bytes.fromhex(hexadecimal))


@pytest.mark.parametrize("opening", [b"\xc0\xff\x01", b"\x00", b"\x00\x53\x01"])
def test_nesting_is_limited(opening: bytes) -> None:
    """A value within a value within a value ends with an error, not with the stack."""
    with pytest.raises(DecodeError, match=r"nested|goes on|ends within"):
        read(opening * 5000, 0)
    deep = b"\x41"
    for _ in range(DEPTH_MAX + 1):
        deep = b"\xd0" + struct.pack(">II", len(deep) + 4, 1) + deep
    with pytest.raises(DecodeError, match="nested deeper"):
        decode(b"\x00\x53\x77" + deep)


@given(st.binary(max_size=200), st.data())
def test_any_bytes_give_a_message_or_a_decode_error(noise: bytes, data: st.DataObject) -> None:
    """Nothing but DecodeError comes out, for noise and for a message that noise got into."""
    good = proton.Message(body={"a": [1, 2.5]}, id="1", properties={"a": 1, "b": "c"}).encode()
    at = data.draw(st.integers(0, len(good)))
    cut = data.draw(st.integers(at, len(good)))
    for hostile in (noise, good[:at] + noise + good[cut:], good[:at]):
        for function in (walk, application_properties, decode):
            with contextlib.suppress(DecodeError):
                function(hostile)
