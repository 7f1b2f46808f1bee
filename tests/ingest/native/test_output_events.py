"""Events of the engine's own output, and of a peer's frames: only the latter are passed on. With a
real engine and pump, and a link that sends."""

from array import array

from gateway_frames import accept_frame, durable_source, frame_of, receiver_frame
from gateway_links import encoded
from proton import Collector, Connection, Event, Link, Transport

from distributary.ingest.native import pump
from distributary.ingest.native.outgoing import Outgoing
from distributary.ingest.native.pump import Pump, Stop, address
from distributary.ingest.native.pump_library import lib
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.sequences.sequence_set import Run

HEADER = b"AMQP\x00\x01\x00\x00"
ROOM_BYTES = 1 << 16
MESSAGE = encoded("x")


class Sending:
    def __init__(self) -> None:
        self.transport, self.connection = Transport(Transport.SERVER), Connection()
        self.collector, self.pump = Collector(), Pump(1 << 20)
        self.connection.collect(self.collector)
        self.transport.bind(self.connection)
        self.connection.open()
        self.room = bytearray(ROOM_BYTES)
        where = address(self.transport._impl), address(self.collector._impl)
        self.outgoing = Outgoing(self.pump, *where)
        begin = frame_of("begin", next_outgoing_id=0, incoming_window=99, outgoing_window=99)
        attach = receiver_frame("r", durable_source("t"))
        self.feed(HEADER, frame_of("open", container_id="c"), begin, attach)
        while event := self.collector.peek():
            if event.type == Event.SESSION_REMOTE_OPEN:
                event.session.open()
            if event.type == Event.LINK_REMOTE_OPEN:
                self.link: Link = event.link
                self.link.open()
            self.collector.pop()
        self.flow(10)
        assert self.told() == [Event.LINK_FLOW.number]
        self.write()

    def feed(self, *frames: bytes) -> None:
        data = b"".join(frames)
        assert pump.feed(address(self.transport._impl), pump.pointer(data), len(data))

    def flow(self, credit: int) -> None:
        window = {"next_incoming_id": 0, "incoming_window": 99, "next_outgoing_id": 0}
        self.feed(
            frame_of(
                "flow", **window, outgoing_window=99, handle=0, delivery_count=0, link_credit=credit
            )
        )

    def send(self, number: int) -> None:
        offsets = array("i", [0, len(MESSAGE)]).tobytes()
        batch = RecordBatch(number, 1, MESSAGE, offsets)
        pump.send(address(self.link._impl), batch, range(number, number + 1), 0, 1, False)

    def write(self) -> int:
        """How many bytes the engine has for the peer."""
        return self.outgoing.output(pump.pointer(self.room), ROOM_BYTES)

    def told(self) -> list[int]:
        """The types of the events that the pump hands on, in their order; `settled` has the runs
        of the outcomes between them."""
        types: list[int] = []
        self.settled: list[Run] = []
        while self._eat() == Stop.EVENT:
            event = self.collector.peek()
            assert event is not None
            types.append(event.type.number)
            self.collector.pop()
        return types

    def _eat(self) -> int:
        stop = self.pump.events(address(self.collector._impl))
        self.settled += [one.run for one in self.pump.outcomes()]
        return stop


def test_what_is_written_is_no_flow_of_the_peer() -> None:
    sending = Sending()
    sending.send(1)
    assert sending.write() > len(MESSAGE)
    assert sending.told() == []
    assert not lib.pump_pending(address(sending.transport._impl))


def test_a_flow_that_came_before_the_output_is_told() -> None:
    sending = Sending()
    sending.send(1)
    sending.flow(20)
    assert sending.write() > len(MESSAGE)
    assert Event.LINK_FLOW.number in sending.told()


def test_an_outcome_that_came_before_the_output_is_told() -> None:
    sending = Sending()
    sending.send(1)
    sending.write()
    sending.feed(accept_frame(0, 0))
    sending.send(2)
    sending.write()
    sending.told()
    assert sending.settled == [range(1, 2)]
