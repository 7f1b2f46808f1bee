"""The pump's reading of strangers' bytes, and its headers, against Proton's own codec."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Data, Message, byte, symbol, ubyte

from distributary.ingest.native import pump
from distributary.ingest.native.pump import ffi, lib
from distributary.ingest.native.runs import Received
from distributary.pipeline.model.record_batch import RecordBatch

PUMP = pump.Pump(1 << 20)


def inspect(message: bytes) -> dict[str, object] | None:
    """The fields that the pump reads of a message, or None if it refuses it."""
    p = PUMP.columns
    if lib.pump_inspect(ffi.from_buffer(message), len(message), p, 0):
        return None
    to = message[p.to_at[0] : p.to_at[0] + p.to_size[0]].decode(errors="replace")
    return {"durable": bool(p.durable[0]), "priority": p.priority[0], "ttl": p.ttl[0], "to": to}


@given(
    durable=st.booleans(),
    priority=st.integers(0, 9),
    ttl_ms=st.integers(0, 2**32 - 1),
    to=st.text(max_size=300).filter(lambda t: "\0" not in t),
    body=st.one_of(st.text(), st.binary(max_size=400), st.none(), st.integers(0, 100)),
)
def test_reads_what_proton_wrote(
    durable: bool, priority: int, ttl_ms: int, to: str, body: object
) -> None:
    """Header fields and `to` are found in whatever form the encoder chose for them."""
    message = Message(body, durable=durable, priority=priority, ttl=ttl_ms / 1_000, address=to)
    message.properties = {"carrier": "UA", "distance": 1_400}
    message.annotations = {symbol("x-opt-jms-msg-type"): 5}
    found = inspect(bytes(message.encode()))
    assert found is not None
    assert (found["durable"], found["priority"], found["to"]) == (durable, priority, to)
    assert abs(found["ttl"] - ttl_ms) <= 1


@given(st.binary(max_size=300))
def test_no_bytes_are_read_beyond_their_end(data: bytes) -> None:
    """Any bytes are either a message or refused; the same bytes, the same answer."""
    assert inspect(data) == inspect(data)


@given(st.integers(0, 200), st.integers(0, 255))
def test_a_damaged_message_is_refused_or_read(at: int, value: int) -> None:
    """One byte changed, or the end cut off, never leads outside of the message."""
    whole = bytearray(Message("body", durable=True, address="flights").encode())
    whole[at % len(whole)] = value
    inspect(bytes(whole))
    inspect(bytes(whole[: at % len(whole)]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\x53\x75",
        b"\x00\x53\x10\x45",
        b"\x00\x53\x75\xa0\x05abc",
        b"\x00\x53\x77\x40\x00\x53\x70\x45",
        b"\x00\x53\x70\x45\x00\x53\x70\x45",
        b"\x00\x53\x75\xb0\xff\xff\xff\xff",
        b"GET / HTTP/1.1",
    ],
    ids=["empty", "cut", "no section", "short", "order", "twice", "huge", "other protocol"],
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    """Sections that are cut, out of order, doubled or foreign."""
    assert inspect(data) is None


def test_several_data_sections_and_a_footer_are_a_message() -> None:
    """Data may repeat (part 3, section 3.2), and a footer may follow."""
    assert inspect(b"\x00\x53\x75\xa0\x01a\x00\x53\x75\xa0\x01b\x00\x53\x78\xc1\x01\x00")


@pytest.mark.parametrize("code", [b"\x75", b"\x76"], ids=["data", "sequence"])
@pytest.mark.parametrize(
    "value",
    [b"\xa0\x00", b"\xa0\x02ab", b"\xc0\x01\x00", b"\x45", b"\xb0\x00\x00\x00\x01a"],
    ids=["empty", "short", "list", "list0", "long"],
)
def test_a_body_of_many_sections_is_read_to_its_end(code: bytes, value: bytes) -> None:
    """The bytes behind a thousand alike sections are checked: only a section in another form or a
    footer may follow."""
    alike = (b"\x00\x53" + code + value) * 1_000
    footer = b"\x00\x53\x78\xc1\x01\x00"
    assert inspect(alike)
    assert inspect(alike + b"\x00\x80" + bytes(7) + code + value + footer)
    assert inspect(alike + b"\x00\x53\x73\xc0\x01\x00") is None  # out of order
    assert inspect(alike + b"\x00\x53\x77\x40" * 2) is None  # twice
    for cut in range(1, 3 + len(value)):
        assert inspect(alike[:-cut]) is None


def test_symbolic_descriptors_are_sections_too() -> None:
    """`amqp:data:binary` means 0x75."""
    name = b"amqp:data:binary"
    assert inspect(b"\x00\xa3" + bytes([len(name)]) + name + b"\xa0\x01a")


def test_a_sequence_that_the_batch_does_not_have_is_never_sent() -> None:
    """Neither before nor behind the batch, nor in a gap of it, is there a message to be sent."""
    offsets = pump.offsets(array("I", [1] * 3).tobytes(), 3)
    dense = RecordBatch(10, 3, b"abc", offsets)
    sparse = RecordBatch(10, 3, b"abc", offsets, array("q", [10, 20, 30]))
    for batch, run in [
        (dense, range(9, 10)),
        (dense, range(13, 14)),
        (dense, array("q", [14])),
        (sparse, range(9, 10)),
        (sparse, range(11, 12)),
        (sparse, array("q", [31])),
    ]:
        with pytest.raises(AssertionError, match="isn't all in the batch"):
            pump.send(0, batch, run, 0, 0, presettled=False)


def destinations(*messages: bytes) -> list[int]:
    """The number of each message's destination, by the pump, for messages of one run."""
    received = Received(
        link=0,
        count=len(messages),
        blob=b"".join(messages),
        lengths=array("I", map(len, messages)).tobytes(),
        durable=b"",
        priority=b"",
        ttl=b"",
        deliveries=b"",
        unsettled=0,
        to_at=b"",
        to_size=b"",
    )
    return list(pump.destinations(received))


def annotated(annotations: object, **fields: object) -> bytes:
    """A message with these annotations, as Proton encodes it."""
    message = Message("body", **fields)
    message.annotations = annotations
    return bytes(message.encode())


JMS, OLDER = symbol("x-opt-jms-dest"), symbol("x-opt-to-type")


@pytest.mark.parametrize(
    ("annotations", "kind"),
    [
        ({JMS: byte(0)}, 0),
        ({JMS: byte(1)}, 1),
        ({JMS: byte(2)}, 2),
        ({JMS: byte(3)}, 3),
        ({JMS: byte(4)}, 255),
        ({JMS: byte(-1)}, 255),
        ({JMS: ubyte(1)}, 255),
        ({JMS: 1}, 255),
        ({JMS: None}, 255),
        ({}, 255),
        (None, 255),
        ({symbol("x-opt-jms-msg-type"): byte(5), JMS: byte(1)}, 1),
        ({symbol("x" * 300): "y" * 300, JMS: byte(2), symbol("z"): [1, 2]}, 2),
        ({OLDER: "queue"}, 0),
        ({OLDER: "topic"}, 1),
        ({OLDER: "temporary,queue"}, 2),
        ({OLDER: "queue,temporary"}, 2),
        ({OLDER: "topic , temporary"}, 3),
        ({OLDER: symbol("temporary,topic")}, 3),
        ({OLDER: "," * 300 + "topic,durable"}, 1),
        ({OLDER: "temporary"}, 255),
        ({OLDER: "topics"}, 255),
        ({OLDER: "que,ue"}, 255),
        ({OLDER: ""}, 255),
        ({OLDER: byte(1)}, 1),
        ({JMS: "queue"}, 0),
        ({JMS: byte(0), OLDER: "topic"}, 0),
        ({OLDER: "topic", JMS: byte(9)}, 1),
    ],
)
def test_a_message_says_what_kind_of_destination_it_goes_to(annotations: object, kind: int) -> None:
    """By the byte of today's JMS clients, or the words of the older ones, or not at all."""
    assert destinations(annotated(annotations)) == [kind]


def test_each_message_of_a_run_has_its_own_destination() -> None:
    """In their order, with and without sections before and after the annotations."""
    plain = Message("body", address="flights")
    run = [
        annotated({JMS: byte(1)}, durable=True, priority=9),
        bytes(plain.encode()),
        annotated({JMS: byte(0)}, address="flights"),
        b"\x00\x53\x75\xa0\x01a",
        annotated({OLDER: "temporary,topic"}),
    ]
    assert destinations(*run) == [1, 255, 0, 255, 3]
    assert destinations() == []


@given(st.dictionaries(st.text(max_size=20), st.integers(-128, 127)), st.integers(0, 3))
def test_a_destination_is_found_among_any_annotations(others: dict[str, int], kind: int) -> None:
    """The destination is found beside any other annotations, in short and long maps."""
    pairs = {symbol(f"x-{name}"): value for name, value in others.items() if name.isascii()}
    assert destinations(annotated({**pairs, JMS: byte(kind)})) == [kind]


def wide(annotations: dict[object, object]) -> bytes:
    """Message annotations as Proton encodes a map in bytes of its own."""
    data = Data()
    data.put_object(annotations)
    return b"\x00\x53\x72" + bytes(data.encode()) + b"\x00\x53\x75\xa0\x01a"


@pytest.mark.parametrize(
    "broken",
    [
        lambda d: d[:3] + b"\x45" + d[3:],
        lambda d: d.replace(b"\xd1\x00\x00\x00", b"\xd1\x00\x00\x7f"),
        lambda d: d.replace(b"\x00\x00\x00\x02", b"\x00\x00\x00\x03"),
        lambda d: d.replace(b"\x00\x00\x00\x02", b"\x00\x00\x00\x04"),
        lambda d: d.replace(b"\x00\x00\x00\x02", b"\x00\x00\x00\x00"),
        lambda d: d.replace(b"\x00\x00\x00\x02", b"\xff\xff\xff\xff"),
        lambda d: d.replace(b"\xa3\x0e", b"\xa3\xfe"),
        lambda d: d.replace(b"\xa3\x0e", b"\xa1\x0e"),
    ],
    ids=["a list", "beyond", "odd", "more", "none", "huge", "key beyond", "key no symbol"],
)
def test_broken_annotations_name_no_destination(broken: object) -> None:
    """A map that isn't whole says nothing; the whole one does."""
    whole = wide({JMS: byte(1)})
    assert destinations(whole) == [1]
    assert destinations(broken(whole)) == [255]


@given(st.lists(st.binary(max_size=120), max_size=5))
def test_no_destination_is_read_beyond_a_message(run: list[bytes]) -> None:
    """Any bytes have an answer, one for each message, and the same for each alone."""
    kinds = destinations(*run)
    assert len(kinds) == len(run)
    assert kinds == [destinations(one)[0] for one in run]
    assert set(kinds) <= {0, 1, 2, 3, 255}


@given(st.integers(0, 200), st.integers(0, 255))
def test_damaged_annotations_are_read_or_not(at: int, value: int) -> None:
    """One byte changed, or the end cut off, never leads outside of the message."""
    data = bytearray(annotated({JMS: byte(1), OLDER: "temporary,topic"}))
    data[at % len(data)] = value
    destinations(bytes(data), bytes(data[: at % len(data)]))
