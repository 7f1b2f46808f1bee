"""Messages by reference: a peer gets the bytes, Proton has none of them, and its counts are right.

Two of Proton's engines with bytes carried between them, ours with an `Outgoing`.
"""

from array import array

import pytest
from cproton import ffi as proton_ffi
from cproton import lib as proton
from proton import Collector, Connection, Event, Transport
from proton import Link as ProtonLink

from distributary.ingest.native import pump
from distributary.ingest.native.link_in_flight import in_flight
from distributary.ingest.native.outgoing import Outgoing, StaleReference
from distributary.ingest.native.pump import Pump, address
from distributary.pipeline.model.record_batch import RecordBatch

ROOM = 1 << 16
#: Bytes that may wait for windows.
MOST = 100_000
#: A body section of bytes, long enough for four bytes of length.
BODY = b"\x00\x53\x75\xb0"
DURABLE = b"\x00\x53\x70\xc0\x02\x01\x41"


def message(size: int, fill: int = 0x61) -> bytes:
    return DURABLE + BODY + size.to_bytes(4, "big") + bytes([fill]) * size


def batch_of(messages: list[bytes], first: int = 0) -> RecordBatch:
    lengths = array("I", map(len, messages))
    offsets = pump.offsets(lengths.tobytes(), len(messages))
    return RecordBatch(first, len(messages), bytearray(b"".join(messages)), offsets)


def drained(outgoing: Outgoing, room: int) -> bytes:
    buffer, found = bytearray(room), b""
    while (size := outgoing.output(pump.pointer(buffer), room)) > 0:
        found += buffer[:size]
    return found


class Ends:
    """A sender of ours, and the peer's receiver."""

    def __init__(self, frame_bytes: int = 0, window_bytes: int = 0, room: int = ROOM) -> None:
        self.here, self.there = Connection(), Connection()
        self.events = Collector()
        self.there.collect(self.events)
        self.ours, self.peers = Transport(Transport.SERVER), Transport(Transport.CLIENT)
        if frame_bytes:
            self.peers.max_frame_size = frame_bytes
        self.ours.bind(self.here)
        self.peers.bind(self.there)
        self.outgoing = Outgoing(Pump(1 << 20), address(self.ours._impl), 0, MOST)
        self.returning = Outgoing(Pump(1 << 20), address(self.peers._impl), 0, MOST)
        self.room, self.late = room, b""
        self.senders: list[ProtonLink] = []
        #: Of each message that came: its delivery's tag, its bytes; whether it was settled.
        self.got: list[tuple[bytes, bytes]] = []
        self.settled: list[bool] = []
        self.there.open()
        session = self.there.session()
        if window_bytes:
            session.incoming_capacity = window_bytes
        session.open()
        self.receiver = session.receiver("r")
        self.receiver.open()
        self.carry()
        self.here.open()
        self.here.session_head(0).open()
        self.sender = self.here.link_head(0)
        self.sender.open()
        self.senders = [self.sender]
        self.carry()

    @property
    def links(self) -> list["Queued"]:
        return [Queued(link) for link in self.senders]

    def send(
        self, batch: RecordBatch, run: range, delivery_count: int = 0, presettled: bool = False
    ) -> None:
        link = address(self.sender._impl)
        self.outgoing.send(link, batch, run, delivery_count, 7, presettled)

    def out(self) -> bytes:
        """The bytes that we have for the peer."""
        found = drained(self.outgoing, self.room)
        self.outgoing.written(self)
        return found

    def write(self) -> None:
        """Write what the peer reads later."""
        self.late += self.out()

    def carry(self) -> None:
        """Exchange bytes until neither side has any more; messages are taken, and not settled."""
        while True:
            forth, self.late = self.late + self.out(), b""
            assert pump.feed(address(self.peers._impl), pump.pointer(forth), len(forth))
            self.take()
            back = drained(self.returning, ROOM)
            assert pump.feed(address(self.ours._impl), pump.pointer(back), len(back))
            if not (forth or back):
                return

    def take(self) -> None:
        while (event := self.events.peek()) is not None:
            delivery = event.delivery
            if event.type == Event.DELIVERY and delivery.readable and not delivery.partial:
                tag = proton.pn_delivery_tag(delivery._impl)
                data = delivery.link.recv(delivery.pending)
                delivery.link.advance()
                self.got.append((bytes(proton_ffi.buffer(tag.start, tag.size)), data))
                self.settled.append(delivery.settled)
            self.events.pop()

    def held_bytes(self) -> int:
        """Bytes of messages in our engine."""
        return int(proton.pn_session_outgoing_bytes(self.sender.session._impl))


def tag(sequence: int) -> bytes:
    return sequence.to_bytes(8, "big")


@pytest.mark.parametrize("room", [1, 7, 64, 100, 1_000, ROOM])
def test_the_peer_gets_the_bytes_and_the_engine_has_none_of_them(room: int) -> None:
    """This holds for any room in which output is taken, and for messages of all sizes."""
    ends = Ends(room=room)
    messages = [message(size, fill=size % 251) for size in (0, 1, 40, 56, 200, 1_024, 30_000)]
    ends.receiver.flow(100)
    ends.carry()
    batch = batch_of(messages, first=40)
    ends.send(batch, range(40, 47))
    assert ends.held_bytes() <= 56 * len(messages)
    ends.carry()
    assert ends.got == [(tag(40 + i), one) for i, one in enumerate(messages)]
    assert not ends.outgoing.holds
    assert ends.held_bytes() == 0


def test_a_header_goes_before_the_message() -> None:
    """With a delivery count, and the publisher's own header isn't sent twice."""
    ends = Ends()
    ends.receiver.flow(10)
    ends.carry()
    ends.send(batch_of([message(1_024)]), range(1), delivery_count=3)
    ends.carry()
    [(_, data)] = ends.got
    assert data.startswith(b"\x00\x53\x70")
    assert data.endswith(message(1_024)[len(DURABLE) :])
    assert data.count(b"\x00\x53\x70") == 1
    assert data != message(1_024)


def test_settled_messages_are_bytes_too() -> None:
    """The engine lets go of a settled delivery at once, and its bytes still come."""
    ends = Ends()
    ends.receiver.flow(10)
    ends.carry()
    ends.send(batch_of([message(1_024)] * 5), range(5), presettled=True)
    ends.carry()
    assert [data for _, data in ends.got] == [message(1_024)] * 5
    assert ends.settled == [True] * 5


@pytest.mark.parametrize("more", range(-2, 3))
def test_a_message_larger_than_a_frame_comes_in_several(more: int) -> None:
    """The engine cuts it; the messages before and behind it come by reference."""
    ends = Ends(frame_bytes=1_024)
    ends.receiver.flow(10)
    ends.carry()
    edge = 1_024 - 96 - len(message(0)) + more  # the largest that surely fits into a frame
    messages = [message(10), message(edge), message(5_000), message(20)]
    ends.send(batch_of(messages), range(4))
    ends.carry()
    assert [data for _, data in ends.got] == messages
    assert not ends.outgoing.holds


def test_frames_keep_their_size() -> None:
    """No frame is larger than the peer takes."""
    ends = Ends(frame_bytes=1_024)
    ends.receiver.flow(1_000)
    ends.carry()
    ends.send(batch_of([message(size) for size in range(700, 1_100)]), range(400))
    found, sizes = ends.out(), []
    while found:
        sizes.append(int.from_bytes(found[:4], "big"))
        found = found[sizes[-1] :]
    assert max(sizes) <= 1_024
    assert len(sizes) >= 400


def test_what_waits_for_the_peers_window_comes_when_it_opens() -> None:
    """The session's window is counted in frames, as ever."""
    ends = Ends(frame_bytes=1_024, window_bytes=4_096)
    ends.receiver.flow(100)
    ends.carry()
    messages = [message(500, fill=i) for i in range(50)]
    batch = batch_of(messages)
    ends.send(batch, range(30))
    ends.send(batch, range(30, 50))
    ends.carry()
    assert [data for _, data in ends.got] == messages
    assert not ends.outgoing.holds


def test_messages_that_their_link_took_along_are_let_go() -> None:
    """Its peer detaches while they wait: they never go out, and hold no memory."""
    ends = Ends(frame_bytes=1_024, window_bytes=2_048)
    ends.receiver.flow(100)
    ends.carry()
    other = ends.there.session_head(0).receiver("other")  # it waits for the same window
    other.open()
    other.flow(10)
    ends.carry()
    second = ends.sender.next(0)
    second.open()
    batch = batch_of([message(500)] * 10)
    for link in (ends.sender, second):
        ends.outgoing.send(address(link._impl), batch, range(10), 0, 7, False)
    assert ends.out()
    assert ends.outgoing.holds, "both took the window's last frames for theirs"
    for link in (ends.sender, second):
        link.close()
        link.free()
    ends.outgoing.written(NoLinks())
    assert not ends.outgoing.holds
    ends.out()  # raises nothing


class NoLinks:
    links: "tuple[Queued, ...]" = ()


class Queued:
    """A link's state, as the output of its connection sees it."""

    def __init__(self, link: ProtonLink) -> None:
        self.queued, self.session = link.queued, address(link.session._impl)


def test_a_closed_window_bounds_what_waits_for_it() -> None:
    """All of it goes out once and in order when the window opens, and the session has room again
    before it has taken everything."""
    ends = Ends(frame_bytes=1_024, window_bytes=2_048)
    ends.receiver.flow(1_000)
    ends.carry()
    batch, sent = batch_of([message(500, n % 251) for n in range(1_000)]), 0
    while not ends.outgoing.full:
        ends.send(batch, range(sent, sent + 10), presettled=True)
        sent += 10
        ends.write()
    session = address(ends.sender.session._impl)
    assert ends.outgoing.full == {session}
    assert MOST < pump.kept_bytes(session) < MOST + 10_000, "one run more at most"
    ends.carry()
    assert not ends.outgoing.full
    assert [data for _, data in ends.got] == [message(500, n % 251) for n in range(sent)]


def test_what_an_ended_link_took_along_does_not_stop_its_session() -> None:
    """The engine never takes these bytes off its count."""
    ends = Ends(frame_bytes=1_024, window_bytes=2_048)
    ends.receiver.flow(1_000)
    other = ends.there.session_head(0).receiver("other")
    other.open()
    other.flow(10)
    ends.carry()
    second = ends.sender.next(0)
    second.open()
    session = address(ends.sender.session._impl)
    ends.send(batch_of([message(500)] * 500), range(500))
    ends.write()
    assert ends.outgoing.full == {session}
    ends.senders = [second]
    ends.sender.close()
    ends.sender.free()
    ends.write()
    assert pump.kept_bytes(session) > MOST
    assert not ends.outgoing.full
    ends.outgoing.send(address(second._impl), batch_of([message(500)] * 10), range(10), 0, 7, False)
    ends.carry()
    assert not ends.outgoing.full


def test_a_reference_that_was_let_go_is_no_message() -> None:
    """Nothing is read where the message was."""
    ends = Ends()
    ends.receiver.flow(10)
    ends.carry()
    ends.send(batch_of([message(100)]), range(1))
    ends.outgoing.written(NoLinks())
    with pytest.raises(StaleReference):
        ends.out()


@pytest.mark.parametrize("size", [8, 56, 64])
def test_no_message_can_look_like_a_reference(size: int) -> None:
    """A message that is sent in full is told apart by its tag, with any bytes."""
    ends = Ends()
    ends.receiver.flow(10)
    ends.carry()
    data = b"\x7f" * size
    pump.send(address(ends.sender._impl), batch_of([data]), range(1), 0, 7, presettled=False)
    ends.carry()
    assert ends.got == [(tag(0), data)]


def test_what_was_sent_is_held_until_it_has_an_outcome() -> None:
    """Tags are sequences in our engine, too."""
    ends = Ends()
    ends.receiver.flow(10)
    ends.carry()
    ends.send(batch_of([message(10)] * 3, first=70), range(70, 73))
    ends.carry()
    assert [*in_flight(address(ends.sender._impl))[0]] == [70, 71, 72]
