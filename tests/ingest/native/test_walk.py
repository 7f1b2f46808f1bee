"""The walk over frames, in both directions, however the bytes are cut."""

import struct
from itertools import pairwise

import pytest
from gateway_codec import encode
from gateway_fields import composite, make, words
from gateway_frames import EMPTY_FRAME, frame_of, framed
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from proton import Collector, Connection, Described, Event, Transport, symbol, uint, ulong

from distributary.ingest.native.pump import address
from distributary.ingest.native.pump_library import ffi, lib
from distributary.ingest.net.frames.frame_scanner import Inflow, Outflow
from distributary.ingest.runtime.load_settings import load
from distributary.ingest.runtime.turns import PeerTurn
from distributary.pipeline.amqp import performative
from distributary.pipeline.amqp.performative import WalkedAttach
from distributary.pipeline.codec.amqp_types import DECODE_LIMITS

FRAME_BYTES_MAX = 4_096
LIMITS = (DECODE_LIMITS.values_max, DECODE_LIMITS.depth_max)
HEADER = b"AMQP\x00\x01\x00\x00"


def named(kind: str, **given: object) -> bytes:
    """A frame whose performative is described by its name."""
    made = make(kind, **given)
    return framed(encode(Described(symbol(f"amqp:{kind}:list"), made.value)))


def long_form(frame: bytes) -> bytes:
    """The same frame with its descriptor in eight bytes."""
    assert frame[8:10] == b"\x00\x53"
    return framed(b"\x00\x80" + frame[10].to_bytes(8, "big") + frame[11:])


def extended(frame: bytes) -> bytes:
    """The same frame with an extended header, which is ignored."""
    return struct.pack(">IB", len(frame) + 4, 3) + frame[5:8] + b"\xde\xad\xbe\xef" + frame[8:]


def attach(name: str, **given: object) -> bytes:
    termini = {"source": composite(0x28), "target": composite(0x29)}
    return frame_of("attach", name=name, handle=1, role=True, **termini, **given)


def transfer(payload: bytes = b"x" * 40, **given: object) -> bytes:
    fields = {"handle": 0, "delivery_id": 1, "delivery_tag": b"tag", "message_format": 0, **given}
    return frame_of("transfer", payload=payload, **fields)


def flow(**given: object) -> bytes:
    window = {"incoming_window": 100, "next_outgoing_id": 0, "outgoing_window": 100}
    return frame_of("flow", **window, **given)


def disposition(state: object, **given: object) -> bytes:
    return frame_of("disposition", role=True, first=1, last=9, settled=True, state=state, **given)


ACCEPTED = composite(0x24)
BY_NAME = Described(symbol("amqp:accepted:list"), [])

#: Frames that pass, and those that stop the walk, with the reason.
PASSING = {
    "empty": EMPTY_FRAME,
    "open": frame_of("open", container_id="c"),
    "transfer": transfer(),
    "transfer, short": frame_of("transfer", handle=0),
    "transfer, format in four bytes": transfer(message_format=uint(0)),
    "transfer, all fields": transfer(more=True, state=ACCEPTED, aborted=False, batchable=True),
    "transfer, extended": extended(transfer()),
    "transfer, long": long_form(transfer()),
    "transfer in a transaction": transfer(state=composite(0x34, b"8 bytes.")),
    "disposition in a transaction": disposition(composite(0x34, b"8 bytes.", ACCEPTED)),
    "disposition in one, modified": disposition(
        composite(0x34, b"8 bytes.", composite(0x27, True, False))
    ),
    "flow": flow(),
    "flow of a link": flow(handle=0, delivery_count=3, link_credit=100, drain=True),
    "flow, much credit": flow(handle=0, delivery_count=3, link_credit=2**31 - 1),
    "flow, no echo": flow(handle=0, echo=False),
    "flow, no credit": flow(handle=0, delivery_count=3, link_credit=0, drain=False),
    "disposition": disposition(ACCEPTED),
    "disposition, no state": disposition(None),
    "disposition, modified": disposition(composite(0x27, True), batchable=True),
    "disposition, long": disposition(Described(ulong(0x24), [])),
    "begin": frame_of("begin", next_outgoing_id=0, incoming_window=1, outgoing_window=1),
    "detach": frame_of("detach", handle=0, closed=True),
    "close": frame_of("close"),
    "SASL": framed(b"\x00\x53\x12\x45", kind=1),
    "no performative": framed(b"\x40\x53\x12\x45"),
    "unknown": framed(b"\x00\x53\x77\x45"),
}
STOPPING = {
    "attach": (attach("N"), lib.WALK_ATTACH),
    "attach, long": (long_form(attach("N")), lib.WALK_ATTACH),
    "attach, extended": (extended(attach("N")), lib.WALK_ATTACH),
    "echo": (flow(echo=True), lib.WALK_FLOW),
    "credit beyond 31 bits": (flow(handle=0, link_credit=2**31), lib.WALK_FLOW),
    "echo of a link": (flow(handle=0, echo=True), lib.WALK_FLOW),
    "drain without credit": (flow(handle=0, link_credit=0, drain=True), lib.WALK_FLOW),
    "another format": (transfer(message_format=0x80013700), lib.WALK_TRANSFER),
    "another format, small": (transfer(message_format=1), lib.WALK_TRANSFER),
    "transaction": (transfer(state=composite(0x34, b"id")), lib.WALK_TRANSFER),
    "transaction, where a message goes on": (
        transfer(delivery_tag=None, state=composite(0x34, b"8 bytes.")),
        lib.WALK_TRANSFER,
    ),
    "flow with properties": (
        flow(handle=0, link_credit=1, properties={symbol("txn-id"): b"1"}),
        lib.WALK_FLOW,
    ),
    "transfer, state by name": (transfer(state=BY_NAME), lib.WALK_TRANSFER),
    "state by name": (disposition(BY_NAME), lib.WALK_DISPOSITION),
    "state of a transaction": (disposition(composite(0x34, b"id")), lib.WALK_DISPOSITION),
    "outcome of a transaction that is none": (
        disposition(composite(0x34, b"8 bytes.", composite(0x23))),
        lib.WALK_DISPOSITION,
    ),
    "state that is none": (disposition(7), lib.WALK_DISPOSITION),
    "end": (frame_of("end"), lib.WALK_END),
    "broken flow": (framed(b"\x00\x53\x13\x40"), lib.WALK_FLOW),
    "broken transfer": (framed(b"\x00\x53\x14\xc0\x05\x01\x70"), lib.WALK_HEAVY),
    "broken disposition": (framed(b"\x00\x53\x15\xc0\xff\x05"), lib.WALK_HEAVY),
    "attach by name": (named("attach", name="N", handle=1, role=True), lib.WALK_NAMED),
    "transfer by name": (named("transfer", handle=0), lib.WALK_NAMED),
    "huge number": (framed(b"\x00\x80" + b"\x01" * 8 + b"\x45"), lib.WALK_NAMED),
}
FRAMES = {**PASSING, **{name: frame for name, (frame, _) in STOPPING.items()}}


def walked(data: bytes, *, only_attach: bool = False) -> tuple[int, int, int]:
    """The reason for which the walk over frames stops, its place, and the size of that frame."""
    walk = ffi.new("pump_walk *", {"limits": LIMITS})
    stop = lib.pump_walk_on(walk, ffi.from_buffer(data), len(data), FRAME_BYTES_MAX, only_attach)
    return stop, walk.at, walk.size


@pytest.mark.parametrize("kind", PASSING)
def test_most_frames_pass(kind: str) -> None:
    """The walk goes over them, and over those that follow."""
    frame = PASSING[kind]
    for only_attach in (False, True):
        stop, at, _ = walked(frame * 3, only_attach=only_attach)
        assert (stop, at) == (lib.WALK_ALL, 3 * len(frame))


@pytest.mark.parametrize("kind", STOPPING)
def test_a_few_frames_stop_the_walk(kind: str) -> None:
    """The walk stops at their begin, and gives their whole size."""
    frame, reason = STOPPING[kind]
    before = PASSING["transfer"] + EMPTY_FRAME
    assert walked(before + frame + before) == (reason, len(before), len(frame))


@pytest.mark.parametrize("kind", STOPPING)
def test_what_stops_the_walk_is_whole(kind: str) -> None:
    """A part of it is never passed on, and never judged."""
    frame, _ = STOPPING[kind]
    for cut in range(1, len(frame)):
        stop, at, needed = walked(frame[:cut])
        assert (stop, at) == (lib.WALK_SHORT, 0)
        assert cut < needed <= len(frame)


def test_only_attaches_stop_the_walk_of_what_the_engine_wrote() -> None:
    """Nothing else is of interest on the way out."""
    for kind, (frame, reason) in STOPPING.items():
        found = walked(frame, only_attach=True)[0]
        assert found == (lib.WALK_ATTACH if reason == lib.WALK_ATTACH else lib.WALK_ALL), kind


@pytest.mark.parametrize("size", [0, 1, 7, FRAME_BYTES_MAX + 1, 2**32 - 1])
def test_after_a_size_that_can_not_be_nothing_is_looked_at(size: int) -> None:
    """The engine has it all, and refuses it."""
    data = size.to_bytes(4, "big") + attach("N")[4:] + attach("M")
    stop, at, _ = walked(data)
    assert (stop, at) == (lib.WALK_ALL, len(data))


@given(st.binary(max_size=200))
def test_no_bytes_are_walked_beyond_their_end(data: bytes) -> None:
    """Any bytes lead to an answer inside of them."""
    stop, at, size = walked(data)
    assert 0 <= at <= len(data)
    if stop not in (lib.WALK_ALL, lib.WALK_SHORT):
        assert at + size <= len(data)


@given(st.sampled_from(sorted(FRAMES)), st.integers(0, 300), st.integers(0, 255))
def test_a_damaged_frame_is_walked(kind: str, at: int, value: int) -> None:
    """One byte changed never leads outside."""
    frame = bytearray(FRAMES[kind])
    frame[at % len(frame)] = value
    test_no_bytes_are_walked_beyond_their_end.hypothesis.inner_test(bytes(frame))


class Server:
    """A real engine behind an `Inflow`, with one open session; it keeps what it is told."""

    def __init__(self) -> None:
        self.coming: list[WalkedAttach] = []
        self.echoes: dict[tuple[int, int | None], None] = {}
        self.refused: list[tuple[int, int, str]] = []
        self.turn = PeerTurn(1 << 40)
        self.transport, self.connection = Transport(Transport.SERVER), Connection()
        self.collector = Collector()
        self.connection.collect(self.collector)
        self.transport.bind(self.connection)
        limits = replace(load(environment={}).amqp, frame_bytes_max=FRAME_BYTES_MAX)
        self.inflow = Inflow(address(self.transport._impl), self, limits)

    def process(self) -> None:
        """Act on the frames until now; here their events wait in the collector."""

    def refuse_transfer(self, channel: int, handle: int, condition: str, _text: str) -> None:
        self.refused.append((channel, handle, condition))

    def covered(self) -> bool:
        return True

    def overruns(self, channel: int, window: int) -> bool:
        """None does: nothing is sent."""
        return False

    def began_in_transaction(self, channel: int, handle: int) -> bool:
        self.refused.append((channel, handle, "goes on"))
        return True

    def feed(self, data: bytes, places: list[int]) -> bool:
        """Feed a connection's begin and the data, cut at these places."""
        whole = HEADER + PASSING["open"] + PASSING["begin"] + data
        at = sorted({place % (len(whole) + 1) for place in places})
        return all(
            self.inflow.feed(ffi.from_buffer(whole[a:b]), b - a)
            for a, b in pairwise([0, *at, len(whole)])
            if a < b
        )

    @property
    def links(self) -> list[str]:
        """The links of which the engine tells."""
        found = []
        while event := self.collector.peek():
            if event.type == Event.LINK_REMOTE_OPEN:
                found.append(event.link.name)
            self.collector.pop()
        return found


cuts = st.lists(st.integers(0, 5_000), max_size=40)


@given(
    names=st.lists(st.text("abc|", min_size=1, max_size=300), max_size=6, unique=True),
    places=cuts,
    by_name=st.booleans(),
)
def test_attaches_are_read_however_they_are_cut(
    names: list[str], places: list[int], by_name: bool
) -> None:
    """All of them, in their order, with what they desire, as many as the engine tells of."""
    data = b""
    for number, name in enumerate(names):
        fields = {"name": name, "handle": number, "role": True, "source": composite(0x28)}
        fields["desired_capabilities"] = ["shared", f"n{number}"]
        data += named("attach", **fields) if by_name else frame_of("attach", **fields)
        data += EMPTY_FRAME + flow(handle=number, echo=True)
    server = Server()
    assert server.feed(data, places)
    assert server.inflow.fault is None
    assert [one.name for one in server.coming] == server.links == names
    assert [one.handle for one in server.coming] == list(range(len(names)))
    for number, one in enumerate(server.coming):
        assert one.desired == {"shared", f"n{number}"}
    assert list(server.echoes) == [(0, number) for number in range(len(names))]


def test_an_echo_waits_once_however_often_it_is_asked_for() -> None:
    """A peer that asks and doesn't read doesn't make echoes pile up."""
    server = Server()
    attached = attach("N")
    assert server.feed(attached + flow(handle=1, echo=True) * 1_000 + flow(echo=True) * 1_000, [])
    assert list(server.echoes) == [(0, 1), (0, None)]


@given(st.lists(st.sampled_from(sorted(FRAMES)), max_size=12), cuts)
def test_any_frames_in_any_pieces_do_the_same(kinds: list[str], places: list[int]) -> None:
    """Cut or whole: what is heard is the same, and so is what is wrong."""
    data = b"".join(FRAMES[kind] for kind in kinds)
    cut, whole = Server(), Server()
    assert cut.feed(data, places) == whole.feed(data, [])
    assert cut.inflow.fault == whole.inflow.fault
    assert (cut.coming, cut.echoes, cut.refused) == (whole.coming, whole.echoes, whole.refused)
    assert cut.links == whole.links


@given(st.sampled_from(sorted(FRAMES)), st.integers(0, 300), st.integers(0, 255), cuts)
def test_garbage_is_a_fault_and_no_exception(
    kind: str, at: int, value: int, places: list[int]
) -> None:
    """One byte changed behind the frame's head: read, refused by the engine, or a fault."""
    frame = bytearray(FRAMES[kind])
    if len(frame) > 8:
        frame[8 + at % (len(frame) - 8)] = value
    server = Server()
    server.feed(bytes(frame) + attach("N"), places)
    fault = server.inflow.fault
    assert fault is None or fault.condition.startswith("amqp:")


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        ("broken flow", "amqp:decode-error"),
        ("broken transfer", "amqp:decode-error"),
        ("broken disposition", "amqp:decode-error"),
        ("state that is none", "amqp:decode-error"),
        ("huge number", "amqp:decode-error"),
        ("outcome of a transaction that is none", "amqp:decode-error"),
    ],
)
def test_after_a_fault_the_engine_has_nothing_more(kind: str, condition: str) -> None:
    """Unreadable bytes end the connection; frames before them count."""
    server = Server()
    assert server.feed(attach("before") + FRAMES[kind] + attach("behind"), [])
    assert server.inflow.fault.condition == condition
    assert server.links == ["before"]


def carrying(name: str, *offered: str) -> bytes:
    """An attach as the engine writes it, whose properties carry what it offers."""
    properties = {symbol(performative.OFFERED): words(*offered)}
    return frame_of(
        "attach", name=name, handle=0, role=False, source=composite(0x28), properties=properties
    )


@given(
    kinds=st.lists(st.sampled_from([*sorted(PASSING), "N", "N" * 300]), max_size=30),
    places=cuts,
    due=st.lists(st.booleans(), min_size=45, max_size=45),
)
def test_attaches_are_spliced_however_the_output_is_cut(
    kinds: list[str], places: list[int], due: list[bool]
) -> None:
    """Every frame leaves once, whole and in its order, and each attach says what it carried."""
    written, expected = [HEADER], [HEADER]
    for kind in kinds:
        attached = kind not in PASSING
        written.append(carrying(kind, "SHARED-SUBS") if attached else PASSING[kind])
        expected.append(performative.spliced(written[-1]).frame if attached else written[-1])
    whole = b"".join(written)
    at = sorted({place % (len(whole) + 1) for place in places})
    flows, out, rest = Outflow(), b"", iter(due)
    flows.due = True
    for a, b in pairwise([0, *at, len(whole)]):
        out += flows.passed(whole[a:b], last=b == len(whole))
    assert out == b"".join(expected)
    assert flows.due is False
    # Behind a chunk that ends with a frame all is as at the start, whether an attach is due or not.
    for one in written[1:]:
        flows.due = next(rest)
        spliced = performative.spliced(one).frame if flows.due and b"offered-" in one else one
        assert flows.passed(one, last=True) == spliced


def test_our_own_flows_stop_the_walk_when_they_are_to_say_more() -> None:
    """Then and only then, whatever they say; other frames never do, attaches always."""
    stops = {lib.WALK_OUT: {"attach"}, lib.WALK_OUT_FLOWS: {"attach", "flow", "flow of a link"}}
    frames = {"attach": attach("N"), "flow": flow(), "flow of a link": flow(handle=0)}
    frames |= {"transfer": transfer(), "begin": frame_of("end"), "close": frame_of("close")}
    for way, expected in stops.items():
        walk = ffi.new("pump_walk *", {"limits": LIMITS})
        found = {
            name
            for name, data in frames.items()
            if lib.pump_walk_on(walk, ffi.from_buffer(data), len(data), FRAME_BYTES_MAX, way)
        }
        assert found == expected
