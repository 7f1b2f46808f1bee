"""Performatives read and written field by field, in every form that an encoder may choose."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.pipeline.amqp import performative
from distributary.pipeline.amqp.delivery_state import NUMBERS
from distributary.pipeline.amqp.performative import ATTACH, Performative
from distributary.pipeline.codec.amqp_types import DecodeError, Described, read
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.transitions import DeliveryState

NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"
NAMES = {number: name for name, number in NUMBERS.items()}


def text(value: str, code: int = 0xA1, *, wide: bool = False) -> bytes:
    data = value.encode()
    if wide or len(data) > 255:
        return bytes([code + 0x10]) + struct.pack(">I", len(data)) + data
    return bytes([code, len(data)]) + data


def symbol(value: str, *, wide: bool = False) -> bytes:
    return text(value, 0xA3, wide=wide)


def number(value: int) -> bytes:
    return b"\x43" if value == 0 else struct.pack(">BI", 0x70, value)


def compound(parts: list[bytes], code: int = 0xC0, *, wide: bool = False) -> bytes:
    data = b"".join(parts)
    if wide or len(data) > 254 or len(parts) > 255:
        return struct.pack(">BII", code + 0x10, len(data) + 4, len(parts)) + data
    return bytes([code, len(data) + 1, len(parts)]) + data


def array(*words: str) -> bytes:
    data = b"\xa3" + b"".join(bytes([len(word)]) + word.encode() for word in words)
    return struct.pack(">BII", 0xF0, len(data) + 4, len(words)) + data


#: The three forms of a descriptor.
DESCRIPTORS = {
    "small": lambda code: bytes([0, 0x53, code]),
    "long": lambda code: b"\x00\x80" + code.to_bytes(8, "big"),
    "name": lambda code: b"\x00" + symbol(NAMES[code]),
    "wide name": lambda code: b"\x00" + symbol(NAMES[code], wide=True),
}
forms = st.sampled_from(sorted(DESCRIPTORS))


def described(code: int, fields: list[bytes], form: str = "small", *, wide: bool = False) -> bytes:
    return DESCRIPTORS[form](code) + (compound(fields, wide=wide) if fields or wide else b"\x45")


def framed(body: bytes, channel: int = 0, extended: bytes = b"") -> bytes:
    size = 8 + len(extended) + len(body)
    return struct.pack(">IBBH", size, 2 + len(extended) // 4, 0, channel) + extended + body


def attach_frame(
    *,
    desired: bytes = NULL,
    outcome: bytes = NULL,
    source: bytes | None = None,
    target: bytes = b"\x00\x53\x29\x45",
    name: str = "N",
    handle: int = 7,
    channel: int = 3,
    form: str = "small",
    properties: bytes = NULL,
) -> bytes:
    if source is None:
        source = described(0x28, [text("orders"), *[NULL] * 7, outcome])
    fields = [text(name), number(handle), TRUE, NULL, NULL, source, target, *[NULL] * 5, desired]
    fields += [properties] if properties != NULL else []
    return framed(described(ATTACH, fields, form), channel)


MODIFIED = DeliveryState(Outcome.MODIFIED, failed=True)


@pytest.mark.parametrize(
    ("value", "state"),
    [
        (NULL, None),
        (described(0x24, []), DeliveryState(Outcome.ACCEPTED)),
        (described(0x25, []), DeliveryState(Outcome.REJECTED)),
        (described(0x26, []), DeliveryState(Outcome.RELEASED)),
        (described(0x27, []), DeliveryState(Outcome.MODIFIED)),
        (described(0x27, [TRUE]), MODIFIED),
        (described(0x27, [b"\x56\x01", b"\x56\x00"]), MODIFIED),
        (
            described(0x27, [TRUE, TRUE, NULL], wide=True),
            DeliveryState(Outcome.MODIFIED, True, True),
        ),
        (described(0x27, [NULL, TRUE]), DeliveryState(Outcome.MODIFIED, False, True)),
        (described(0x27, [TRUE], "name"), MODIFIED),
        (described(0x27, [TRUE], "long"), MODIFIED),
        (described(0x23, []), None),
        (described(0x34, [text("id")]), None),
        (symbol("amqp:modified:list"), None),
        (b"\x00\xa3\x01x\x45", None),
        (b"\x00\x41\x45", None),
    ],
)
def test_a_default_outcome_is_read(value: bytes, state: DeliveryState | None) -> None:
    """The four outcomes and the flags of `modified`; what is none of them is none."""
    assert performative.attach(attach_frame(outcome=value)).default_outcome == state


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (NULL, set()),
        (symbol("shared"), {"shared"}),
        (array("shared", "global"), {"shared", "global"}),
        (array(), set()),
        (compound([symbol("shared"), symbol("global")]), {"shared", "global"}),
    ],
)
def test_desired_capabilities_are_read(value: bytes, words: set[str]) -> None:
    """One symbol, an array of them, or, as some write it, a list."""
    assert performative.attach(attach_frame(desired=value)).desired == words


def test_an_attach_without_a_source_has_no_default_outcome() -> None:
    """The lookup of a subscription has a null source."""
    walked = performative.attach(attach_frame(source=NULL, desired=array("shared", "global")))
    assert walked.default_outcome is None
    assert walked.desired == {"shared", "global"}
    assert (walked.name, walked.channel, walked.handle) == ("N", 3, 7)


@pytest.mark.parametrize("key", ["priority", "x-priority", "rabbitmq:priority"])
def test_a_consumer_says_its_priority_in_a_property(key: str) -> None:
    """As the clients of several brokers do; any integer is one, and other properties say none."""
    for said, found in ((b"\x54\xfe", -2), (b"\x50\x07", 7), (b"\x44", 0)):
        properties = compound([symbol("other"), text("x"), symbol(key), said], 0xC1)
        assert performative.attach(attach_frame(properties=properties)).priority == found
    assert performative.attach(attach_frame()).priority == 0


def test_a_priority_that_is_no_integer_is_seen() -> None:
    """Nothing is guessed of what was meant; null means nothing."""
    for said, found in ((text("high"), None), (TRUE, None), (NULL, 0)):
        properties = compound([symbol("priority"), said], 0xC1)
        assert performative.attach(attach_frame(properties=properties)).priority == found


def test_a_demand_for_redelivery_is_the_value_true() -> None:
    """And nothing else."""
    for said, found in ((TRUE, True), (NULL, False), (text("yes"), False)):
        properties = compound([symbol("redeliver"), said], 0xC1)
        assert performative.attach(attach_frame(properties=properties)).redeliver is found
    assert not performative.attach(attach_frame()).redeliver


@given(form=forms, source=forms, target=forms, wide=st.booleans())
def test_an_attach_is_read_in_every_form(form: str, source: str, target: str, wide: bool) -> None:
    """By name or number, in short and long lists: the same, and the engine gets numbers."""
    outcome = described(0x27, [TRUE], form, wide=wide)
    frame = attach_frame(
        form=form,
        desired=array("SHARED-SUBS"),
        source=described(0x28, [text("orders"), *[NULL] * 7, outcome], source, wide=wide),
        target=described(0x30, [symbol("amqp:local-transactions")], target, wide=wide),
    )
    walked = performative.attach(performative.numbered(frame))
    assert (walked.name, walked.channel, walked.handle) == ("N", 3, 7)
    assert walked.desired == {"SHARED-SUBS"}
    assert walked.default_outcome == MODIFIED
    parts = performative.parse(walked.frame)
    assert walked.frame[8:11] == bytes([0, 0x53, ATTACH])
    for place, code in ((5, 0x28), (6, 0x30)):
        value, _ = read(parts.fields[place], 0)
        assert isinstance(value, Described)
        assert value.descriptor == code
    assert read(parts.fields[5], 0)[0].value[0] == "orders"


def test_an_attach_that_the_engine_can_read_stays_as_it_is() -> None:
    """Byte for byte, with whatever else there is in it."""
    frame = attach_frame(desired=array("x"), outcome=described(0x24, []))
    assert performative.attach(frame).frame == frame


values = st.one_of(
    st.just(NULL),
    st.sampled_from([TRUE, FALSE, b"\x56\x01", b"\x44", b"\x45", b"\x50\x07", b"\x81" + b"x" * 8]),
    st.builds(text, st.text(max_size=300)),
    st.builds(symbol, st.text("abc-:", max_size=40)),
    st.integers(0, 2**32 - 1).map(number),
)
nested = st.recursive(
    values,
    lambda inner: st.one_of(
        st.builds(compound, st.lists(inner, max_size=6), wide=st.booleans()),
        st.builds(
            lambda pairs, wide: compound([x for pair in pairs for x in pair], 0xC1, wide=wide),
            st.lists(st.tuples(inner, inner), max_size=3),
            st.booleans(),
        ),
        inner.map(lambda value: b"\x00\x53\x77" + value),
    ),
    max_leaves=10,
)


@given(
    code=st.sampled_from(range(0x10, 0x19)),
    fields=st.lists(nested, max_size=16),
    form=forms,
    wide=st.booleans(),
    channel=st.integers(0, 65_535),
    payload=st.binary(max_size=40),
    extended=st.sampled_from([b"", b"1234"]),
)
def test_what_is_read_is_written_again(
    code: int,
    fields: list[bytes],
    form: str,
    wide: bool,
    channel: int,
    payload: bytes,
    extended: bytes,
) -> None:
    """Every field as it came, whatever it is; only nulls at the end are left out."""
    frame = framed(described(code, fields, form, wide=wide) + payload, channel, extended)
    parts = performative.parse(frame)
    assert parts == Performative(channel, code, tuple(fields), payload)
    while fields and fields[-1] == NULL:
        fields.pop()
    again = performative.numbered(frame)
    assert performative.parse(again) == Performative(channel, code, tuple(fields), payload)
    assert again[8:11] == bytes([0, 0x53, code])


@given(place=st.integers(0, 400), value=st.integers(0, 255), cut=st.booleans(), form=forms)
def test_a_damaged_attach_is_read_or_refused(place: int, value: int, cut: bool, form: str) -> None:
    """One byte changed, or the end gone, is a DecodeError or a value, and nothing else."""
    whole = bytearray(
        attach_frame(
            form=form,
            desired=array("shared", "global"),
            outcome=described(0x27, [TRUE], form),
        )
    )
    place = 8 + place % (len(whole) - 8)
    if cut:
        del whole[place:]
        struct.pack_into(">I", whole, 0, len(whole))
    else:
        whole[place] = value
    for reader in READERS:
        refused_or_read(reader, bytes(whole))


READERS = (
    performative.attach,
    performative.flow,
    performative.transfer,
    performative.disposition,
    performative.numbered,
)


def refused_or_read(reader: object, frame: bytes) -> None:
    with suppress(DecodeError):
        reader(frame)


@given(body=st.binary(max_size=100), code=st.integers(0x10, 0x18))
def test_any_bytes_are_read_or_refused(body: bytes, code: int) -> None:
    """Garbage behind a descriptor, and garbage alone."""
    for reader in READERS:
        refused_or_read(reader, framed(body))
        refused_or_read(reader, framed(bytes([0, 0x53, code]) + body))


@pytest.mark.parametrize(
    "frame",
    [
        attach_frame(desired=number(1)),
        attach_frame(desired=compound([number(1)])),
        attach_frame(source=text("orders")),
        attach_frame(source=b"\x00\x53\x28\x40"),
        attach_frame(source=b"\x00\x53\x28\xc0\x09\x01\x40"),
        attach_frame(source=b"\x00\x53\x28\xc0\x05\x01\x40\x40\x40\x40"),
        attach_frame(outcome=b"\x00\x53\x27\xc0\x05\x01"),
        attach_frame(outcome=b"\x00" * 80),
        framed(described(ATTACH, [number(1), number(0), TRUE])),
        framed(described(ATTACH, [text("N"), text("0"), TRUE])),
        framed(b"\x00\x53\x12\x40"),
        framed(b"\x00\x53\x12\xd0\x00\x00\x00\x08\xff\xff\xff\xff"),
        framed(b"\x00"),
    ],
    ids=range(13),
)
def test_a_broken_attach_is_refused(frame: bytes) -> None:
    """No capability, no terminus, no outcome, no name; a length other than the stated one."""
    with pytest.raises(DecodeError):
        performative.attach(frame)


def carried(**properties: bytes) -> bytes:
    pairs = [part for key, value in properties.items() for part in (symbol(key), value)]
    return compound([part.replace(b"_", b"-") for part in pairs], 0xC1)


def own_attach(properties: bytes, source: bytes) -> bytes:
    fields = [text("N"), number(0), FALSE, NULL, NULL, source, b"\x00\x53\x29\x45"]
    return framed(described(ATTACH, [*fields, *[NULL] * 6, properties]), 5)


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("size", [0, 1, 8, 11], ids="source of {} fields".format)
def test_an_attach_says_what_its_properties_carried(size: int, wide: bool) -> None:
    """In the fields where it belongs; every other field stays, and no properties are left."""
    source = described(0x28, [symbol(f"s{n}") for n in range(size)], wide=wide)
    outcome = described(0x27, [TRUE, FALSE])
    frame = own_attach(
        carried(offered_capabilities=array("SHARED-SUBS"), default_outcome=outcome), source
    )
    before, after = performative.parse(frame), performative.parse(performative.spliced(frame).frame)
    assert after.fields[11] == array("SHARED-SUBS")
    assert len(after.fields) == 12
    assert before.channel == after.channel == 5
    assert after.fields[:5] + after.fields[6:11] == before.fields[:5] + before.fields[6:11]
    spliced = read(after.fields[5], 0)[0]
    assert spliced.value[8] == Described(0x27, [True, False])
    kept = read(source, 0)[0].value
    padded = [*kept, *[None] * (9 - len(kept))]
    assert [*spliced.value[:8], *spliced.value[9:]] == [*padded[:8], *padded[9:]]


def test_an_attach_that_carries_nothing_stays_as_it_is() -> None:
    """Byte for byte, with properties of its own and without."""
    for properties in (NULL, carried(), carried(other=TRUE)):
        frame = own_attach(properties, NULL)
        assert performative.spliced(frame).frame == frame


def test_a_null_source_has_no_default_outcome_to_say() -> None:
    """A refused attach has no source."""
    frame = own_attach(carried(default_outcome=described(0x24, [])), NULL)
    assert performative.parse(performative.spliced(frame).frame).fields[5] == NULL


@pytest.mark.parametrize(("form", "changed"), [("small", False), ("long", False), ("name", True)])
@pytest.mark.parametrize("code", [0x23, 0x24, 0x25, 0x26, 0x27])
def test_a_state_by_name_is_a_state_by_number(code: int, form: str, changed: bool) -> None:
    """In dispositions and transfers; what else is in the frame stays."""
    state = described(code, [TRUE], form)
    body = described(0x15, [TRUE, number(1), number(9), TRUE, state, TRUE])
    frame, found = performative.disposition(framed(body, 2))
    assert found == code
    assert (frame != framed(body, 2)) is changed
    as_number = described(0x15, [TRUE, number(1), number(9), TRUE, described(code, [TRUE]), TRUE])
    if changed:
        assert frame == framed(as_number, 2)
    fields = [number(0), number(1), b"\xa0\x01t", number(0), FALSE, FALSE, NULL]
    body = described(0x14, [*fields, state]) + b"payload"
    odd = performative.transfer(framed(body, 2))
    assert (odd.state, odd.channel, odd.handle, odd.message_format) == (code, 2, 0, 0)
    assert performative.parse(odd.frame).payload == b"payload"
    if changed:
        whole = described(0x14, [*fields, described(code, [TRUE])]) + b"payload"
        assert odd.frame == framed(whole, 2)


def test_a_state_that_nobody_knows_is_told() -> None:
    """Without any there is 0, with another one -1."""
    for state, found in [(NULL, 0), (b"\x00\xa3\x01x\x45", -1), (b"\x00\x53\x63\x45", -1)]:
        body = described(0x15, [TRUE, number(1), number(9), TRUE, state])
        assert performative.disposition(framed(body)) == (framed(body), found)


def test_a_message_format_is_read() -> None:
    """And 0 where none is given."""
    for value, found in [(NULL, 0), (number(0), 0), (number(0x80013700), 0x80013700)]:
        body = described(0x14, [number(4), number(1), b"\xa0\x01t", value])
        assert performative.transfer(framed(body)).message_format == found
        assert performative.transfer(framed(body)).handle == 4


def test_a_flow_names_its_link_or_none() -> None:
    """Its channel, and its handle if there is one."""
    windows = [number(1)] * 4
    for fields, handle in [([number(8)], 8), ([], None), ([NULL, NULL], None)]:
        flow = performative.flow(framed(described(0x13, [*windows, *fields]), 2))
        assert (flow.channel, flow.handle) == (2, handle)


@pytest.mark.parametrize(
    ("credit", "drain", "echo", "asks"),
    [
        (0, False, False, False),
        (0, True, False, True),
        (3, True, False, False),
        (3, False, True, True),
        (2**32 - 1, True, False, False),
    ],
)
def test_a_flow_asks_by_echo_or_by_a_drain_without_credit(
    credit: int, drain: bool, echo: bool, asks: bool
) -> None:
    words = [TRUE if word else NULL for word in (drain, echo)]
    fields = [*[number(1)] * 6, number(credit), NULL, *words]
    assert performative.flow(framed(described(0x13, fields))).asks is asks


@pytest.mark.parametrize("credit", [2**31, 2**32 - 1])
def test_more_credit_than_the_engine_counts_is_as_much_as_it_can(credit: int) -> None:
    """And nothing else of the flow changes."""
    most, fields = 2**31 - 1, [number(n) for n in range(6)]
    flow = performative.flow(framed(described(0x13, [*fields, number(credit), NULL, TRUE])))
    assert flow.frame == framed(described(0x13, [*fields, number(most), NULL, TRUE]))
    kept = framed(described(0x13, [*fields, number(most)]))
    assert performative.flow(kept).frame == kept
