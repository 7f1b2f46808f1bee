"""The values of frames are counted before the engine has them: in C as the pure reader does, and a
frame that brings too many ends its connection, whatever frame it is and wherever they stand."""

import struct

import pytest
from gateway_codec import Encoded
from gateway_fields import composite, make
from gateway_frames import (
    AMQP_HEADER,
    CLOSE,
    Raw,
    begin_frame,
    begun,
    frame_of,
    open_frame,
    receiver_frame,
)
from gateway_process import Gateway
from hypothesis import example, given
from hypothesis import strategies as st

from distributary.ingest.native.pump_library import ffi, lib
from distributary.pipeline.codec.amqp_types import DecodeBudget, DecodeError, DecodeLimits, read

#: As `amqp.decode_values_max` and `amqp.decode_depth_max` are by default.
LIMITS = DecodeLimits(values_max=1_024)


def nulls(count: int) -> bytes:
    """An array of so many nulls: ten bytes."""
    return b"\xf0" + struct.pack(">II", 5, count) + b"\x40"


def list_of(*elements: bytes) -> bytes:
    content = b"".join(elements)
    return b"\xd0" + struct.pack(">II", len(content) + 4, len(elements)) + content


def map_of(*elements: bytes) -> bytes:
    return b"\xd1" + list_of(*elements)[1:]


def array_of(constructor: bytes, *elements: bytes) -> bytes:
    content = constructor + b"".join(elements)
    return b"\xf0" + struct.pack(">II", len(content) + 4, len(elements)) + content


def containers(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    several = st.lists(inner, max_size=5)
    bodies = [list_of(), list_of(b"\x40"), list_of(nulls(9))]
    return st.one_of(
        several.map(lambda some: list_of(*some)),
        several.filter(lambda some: len(some) % 2 == 0).map(lambda some: map_of(*some)),
        st.lists(st.sampled_from([one[1:] for one in bodies])).map(
            lambda some: array_of(b"\xd0", *some)
        ),
        st.lists(st.just(b"\x05")).map(lambda some: array_of(b"\x00\x53\x24\x54", *some)),
        st.tuples(inner, inner).map(lambda two: b"\x00" + two[0] + two[1]),
    )


VALUES = st.recursive(
    st.sampled_from([b"\x40", b"\x43", b"\x45", b"\xa1\x01x", b"\xb0\0\0\0\x01x", b"\x55\x07"])
    | st.integers(0, 400).map(nulls),
    containers,
    max_leaves=12,
)


def in_c(data: bytes) -> int:
    limits = ffi.new("pump_frame_limits *", (LIMITS.values_max, LIMITS.depth_max))
    return int(lib.pump_value_within(ffi.from_buffer(data), len(data), 0, limits))


def in_python(data: bytes) -> int:
    """The end of the value; 0 if it can't be read; -1 if only its budget forbids that."""
    try:
        return read(data, 0, DecodeBudget(len(data), LIMITS))[1]
    except DecodeError as error:
        return -1 if "decode_" in str(error) else 0
    except (IndexError, struct.error, UnicodeDecodeError):
        return 0


@given(VALUES)
@example(nulls(1_024))
@example(nulls(1_025))
@example(list_of(nulls(511), nulls(511)))
@example(list_of(nulls(512), nulls(511)))
def test_c_counts_as_the_pure_reader_does(data: bytes) -> None:
    """C admits and refuses the same bytes, and counts the same number of values."""
    assert in_c(data) == max(in_python(data), 0)


@given(st.one_of(st.binary(max_size=40), VALUES.flatmap(lambda one: st.binary(max_size=3).map(
    lambda more: one[:-1] + more))))  # fmt: skip
def test_c_admits_whatever_can_be_read_and_nothing_beyond_the_budget(data: bytes) -> None:
    """This holds for bytes of every kind."""
    said = in_python(data)
    assert said <= 0 or in_c(data) == said
    assert said >= 0 or in_c(data) == 0


@pytest.mark.parametrize("levels", [31, 32, 33])
def test_nesting_is_counted_alike(levels: int) -> None:
    """Of lists, and of descriptors within descriptors."""
    lists, described = b"\x40", b"\x40"
    for _ in range(levels):
        lists, described = list_of(lists), b"\x00" + described + b"\x40"
    for data in (lists, described):
        assert in_c(data) == (len(data) if levels <= LIMITS.depth_max else 0)
        assert in_python(data) == (len(data) if levels <= LIMITS.depth_max else -1)


#: A list of arrays: 1,000 bytes that are six and a half million nulls.
MANY = Encoded(list_of(*[nulls(65_535)] * 100))
SOURCE = make("source", address="x", filter=MANY)
ERROR = composite(0x25, composite(0x1D, "x", "y", MANY))
WINDOW = {"incoming_window": 1, "next_outgoing_id": 0, "outgoing_window": 1}
HEAVY = {
    "attach, desired capabilities": frame_of(
        "attach", name="N", handle=0, role=False, desired_capabilities=MANY
    ),
    "attach, filter": receiver_frame("N", SOURCE),
    "attach, unsettled": frame_of("attach", name="N", handle=0, role=True, unsettled=MANY),
    "attach, properties": frame_of("attach", name="N", handle=0, role=True, properties=MANY),
    "begin, properties": frame_of("begin", **WINDOW, channel=3, properties=MANY),
    "flow, properties": frame_of("flow", **WINDOW, properties=MANY),
    "disposition, error": frame_of("disposition", role=True, first=0, state=ERROR),
    "transfer, state": frame_of("transfer", handle=0, delivery_id=0, state=ERROR),
    "detach, error": frame_of("detach", handle=0, error=composite(0x1D, "x", "y", MANY)),
    "end, error": frame_of("end", error=composite(0x1D, "x", "y", MANY)),
    "close, error": frame_of("close", error=composite(0x1D, "x", "y", MANY)),
}


def refused(raw: Raw) -> None:
    closed = raw.next(CLOSE)
    assert closed.error == "amqp:decode-error"
    assert "more than 1024 values in all" in closed.says
    assert "decode_values_max" in closed.says


@pytest.mark.parametrize("kind", HEAVY)
def test_a_frame_with_too_many_values_ends_its_connection(gateway: Gateway, kind: str) -> None:
    """With a sentence that names the limit; the engine never has it."""
    with begun(gateway.port, f"heavy {kind}", HEAVY[kind]) as raw:
        refused(raw)
    with begun(gateway.port, "after") as other:
        other.expect("open", "begin")


def test_an_open_with_too_many_values_is_refused(gateway: Gateway) -> None:
    """However it is cut; the engine has an open that says nothing in its place."""
    heavy = frame_of("open", container_id="heavy", properties=MANY)
    with Raw(gateway.port, hello=AMQP_HEADER + heavy[:30]) as raw:
        raw.send(heavy[30:], begin_frame())
        refused(raw)
    with Raw(gateway.port, hello=AMQP_HEADER + open_frame("light")) as raw:
        raw.expect("open")
