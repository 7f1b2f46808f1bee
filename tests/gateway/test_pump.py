"""The pump's reading of strangers' bytes, and its headers, against Proton's own codec."""

from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Message, symbol

from ingest import pump
from ingest.pump import ffi, lib
from pipeline.message import Slab

PUMP = pump.Pump(1 << 20)


def inspect(message: bytes) -> dict[str, object] | None:
    """What the pump reads of a message, or None if it refuses it."""
    p = PUMP._p
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


def test_symbolic_descriptors_are_sections_too() -> None:
    """`amqp:data:binary` means 0x75."""
    name = b"amqp:data:binary"
    assert inspect(b"\x00\xa3" + bytes([len(name)]) + name + b"\xa0\x01a")


def test_a_sequence_that_the_slab_does_not_have_is_never_sent() -> None:
    """Neither before nor behind the slab, nor in a gap of it, is there a message to be sent."""
    offsets = pump.offsets(array("I", [1] * 3).tobytes(), 3)
    dense = Slab(10, 3, b"abc", offsets)
    sparse = Slab(10, 3, b"abc", offsets, array("q", [10, 20, 30]))
    for slab, run in [
        (dense, range(9, 10)),
        (dense, range(13, 14)),
        (dense, array("q", [14])),
        (sparse, range(9, 10)),
        (sparse, range(11, 12)),
        (sparse, array("q", [31])),
    ]:
        with pytest.raises(AssertionError, match="isn't all in the slab"):
            pump.send(0, slab, run, 0, 0, presettled=False)
