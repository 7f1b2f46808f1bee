"""Links that the gateway has ended, and whose peer goes on as if it hadn't heard: what still comes
is legal, and nothing of it stays.
"""

import ctypes
from collections.abc import Iterator

import cproton_ffi
import pytest
from gateway_frames import (
    ACCEPTED,
    ATTACH,
    DETACH,
    DISPOSITION,
    FLOW,
    Frame,
    begun,
    frame_of,
    number,
    sender_frame,
    topic_target,
)
from gateway_links import encoded
from gateway_process import Gateway
from proton import Collector, Connection, Endpoint, Event, Link, Transport

from distributary.ingest.native import pump
from distributary.ingest.native.pump import Pump, Stop, address
from distributary.ingest.native.pump_library import lib

HEADER = b"AMQP\x00\x01\x00\x00"
RELEASED = 0x26
CREDIT = 10

ENGINE = ctypes.CDLL(cproton_ffi.__file__)
for walk in (ENGINE.pn_unsettled_head, ENGINE.pn_unsettled_next):
    walk.argtypes, walk.restype = [ctypes.c_void_p], ctypes.c_void_p


def transfer(delivery_id: int | None, payload: bytes = encoded("x"), **given: object) -> bytes:
    fields = {"handle": 0, "delivery_id": delivery_id, "delivery_tag": b"t", **given}
    return frame_of("transfer", payload=payload, **fields)


class Receiver:
    """A real engine and pump, with one session and one link that receives."""

    def __init__(self) -> None:
        self.transport, self.connection = Transport(Transport.SERVER), Connection()
        self.collector, self.pump = Collector(), Pump(1 << 20)
        self.connection.collect(self.collector)
        self.transport.bind(self.connection)
        self.connection.open()
        begin = frame_of("begin", next_outgoing_id=0, incoming_window=99, outgoing_window=99)
        attach = sender_frame("s", topic_target("t"))
        self.feed(HEADER, frame_of("open", container_id="c"), begin, attach)
        [self.link] = self.opened()
        self.link.flow(CREDIT)
        self.written()

    def opened(self) -> Iterator[Link]:
        while event := self.collector.peek():
            if event.type == Event.SESSION_REMOTE_OPEN:
                event.session.open()
            if event.type == Event.LINK_REMOTE_OPEN:
                event.link.open()
                yield event.link
            self.collector.pop()

    def feed(self, *frames: bytes) -> None:
        data = b"".join(frames)
        assert pump.feed(address(self.transport._impl), pump.pointer(data), len(data))

    def received(self) -> int:
        """How many messages the pump hands on."""
        count = 0
        while (stop := self.pump.events(address(self.collector._impl))) != Stop.IDLE:
            assert stop in (Stop.EVENT, Stop.FULL)
            count += self.pump.received_count
            if stop == Stop.EVENT:
                self.collector.pop()
        return count + self.pump.received_count

    def written(self) -> None:
        """Have the engine write, which is when it lets go of what is settled."""
        lib.pump_write(address(self.transport._impl))

    @property
    def held(self) -> tuple[int, int]:
        """Deliveries and bytes of messages that the engine holds."""
        count, delivery = 0, ENGINE.pn_unsettled_head(address(self.link._impl))
        while delivery:
            count, delivery = count + 1, ENGINE.pn_unsettled_next(delivery)
        return count, self.link.session.incoming_bytes


@pytest.mark.parametrize("settled", [False, True])
def test_messages_on_an_ended_link_are_let_go_at_once(settled: bool) -> None:
    """The engine holds none of them, and the pump hands none on."""
    receiver = Receiver()
    receiver.feed(*(transfer(n, settled=settled) for n in range(3)))
    assert receiver.received() == 3
    receiver.written()
    kept = receiver.held
    assert kept == (0 if settled else 3, 0)
    receiver.link.close()
    receiver.feed(*(transfer(n, settled=settled) for n in range(3, 1_000)))
    assert receiver.received() == 0
    receiver.written()
    assert receiver.held == kept


def test_the_rest_of_a_message_on_an_ended_link_is_let_go() -> None:
    """However much of it follows; with its last transfer it is gone, and the next begins."""
    receiver = Receiver()
    receiver.feed(transfer(0, b"x" * 1_000, more=True))
    assert receiver.received() == 0
    assert receiver.held == (1, 1_000)
    receiver.link.close()
    for _ in range(100):
        receiver.feed(transfer(None, b"x" * 1_000, more=True))
        assert receiver.received() == 0
        receiver.written()
        assert receiver.held == (1, 0)
    receiver.feed(transfer(0), transfer(1, b"x" * 9_000, more=True), transfer(1, aborted=True))
    assert receiver.received() == 0
    receiver.written()
    assert receiver.held == (0, 0)
    assert receiver.link.state & Endpoint.REMOTE_ACTIVE


def answered(frames: list[Frame], state: int) -> set[int]:
    """The deliveries to which these give such a state."""
    found: set[int] = set()
    for one in frames:
        if one.code == DISPOSITION and one["state"].code == state:
            first = number(one["first"])
            last = first if one["last"] is None else number(one["last"])
            found |= set(range(first, last + 1))
    return found


def test_messages_over_the_credit_are_given_back_and_the_session_goes_on(
    gateway: Gateway, topic: str
) -> None:
    """Messages that ended the link, and those behind them, are given back: the peer hears that they
    weren't taken, and its session's numbers are right for another link."""
    with begun(gateway.port, topic, sender_frame("s", topic_target(topic))) as raw:
        credit = number(raw.next(FLOW)["link-credit"])
        many = credit + 500
        raw.send(*(transfer(n) for n in range(many)))
        came = [raw.read()]
        while came[-1].code != DETACH:
            came.append(raw.read())
        assert came[-1].error == "amqp:link:transfer-limit-exceeded"
        raw.send(*(transfer(n) for n in range(many, many + 2_000)))
        while not answered(came, RELEASED) >= set(range(credit, many + 2_000)):
            came.append(raw.read())
        released = answered(came, RELEASED)
        raw.send(sender_frame("s2", topic_target(topic), 1))
        came = []
        while not came or came[-1].code != ATTACH:
            came.append(raw.read())
        while came[-1].code != FLOW:
            came.append(raw.read())
        assert came[-1]["next-incoming-id"] == many + 2_000
        raw.send(transfer(many + 2_000, handle=1))
        while many + 2_000 not in answered(came, ACCEPTED):
            came.append(raw.read())
        assert not released & answered(came, ACCEPTED)
