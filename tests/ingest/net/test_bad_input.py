"""Strangers, broken clients and hostile ones: each gets an error at the right place, other clients
don't notice, and the gateway still serves.

Frames are made by hand; the gateway's answers are read frame by frame.
"""

import struct

import pytest
from gateway_frames import (
    ACCEPTED,
    AMQP_HEADER,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    FLOW,
    OPEN,
    SASL_HEADER,
    SASL_INIT,
    TARGET,
    TRANSFER,
    Raw,
    accept_frame,
    begin_frame,
    begun,
    composite,
    credit_frame,
    durable_source,
    frame,
    number,
    open_frame,
    receiver_frame,
    sender_frame,
    topic_target,
    transfer_frame,
)
from gateway_links import encoded
from gateway_peer import Connect
from gateway_process import Gateway
from proton import Delivery, Described, symbol, uint

pytestmark = pytest.mark.usefixtures("unharmed")


STRANGERS = {
    "nothing but zeros": b"\x00" * 64,
    "letters": b"hello, is this a chat?",
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + b"\x11" * 64,
    "AMQP 0-9-1": b"AMQP\x00\x00\x09\x01",
    "AMQP with TLS inside": b"AMQP\x02\x01\x00\x00",
}


@pytest.mark.parametrize("kind", STRANGERS)
def test_a_stranger_is_told_the_protocol_and_dropped(gateway: Gateway, kind: str) -> None:
    """The answer to anything but AMQP 1.0 is the header that is spoken here, then the end."""
    with Raw(gateway.port, hello=STRANGERS[kind]) as raw:
        assert raw.rest() == SASL_HEADER
    gateway.await_event("connection.failed")
    assert any("not AMQP" in str(e["reason"]) for e in gateway.events("connection.failed"))


def sasl_frame(code: int, *fields: object) -> bytes:
    return frame(code, *fields, kind=1)


SASL_NONSENSE = {
    "a size of nothing": b"\x00\x00\x00\x00\x02\x01\x00\x00",
    "a size of four gigabytes": b"\xff\xff\xff\xff\x02\x01\x00\x00" + b"\x00" * 100,
    "an AMQP frame": open_frame("early"),
    "another performative": sasl_frame(0x44, uint(0)),
    "an unknown mechanism": sasl_frame(SASL_INIT, symbol("SCRAM-SHA-999"), b"x"),
    "no mechanism": sasl_frame(SASL_INIT, None, b"x"),
    "no fields": sasl_frame(SASL_INIT),
    "a response that is text": sasl_frame(SASL_INIT, symbol("PLAIN"), "\0user\0password"),
    "a response that is a number": sasl_frame(SASL_INIT, symbol("ANONYMOUS"), uint(4_000_000_000)),
    "a response that is a list": sasl_frame(SASL_INIT, symbol("ANONYMOUS"), [uint(1), "x"]),
    "a response of one part": sasl_frame(SASL_INIT, symbol("PLAIN"), b"user"),
    "a response that is no UTF-8": sasl_frame(SASL_INIT, symbol("PLAIN"), b"\0\xff\xfe\0x"),
    "a mechanism that is a map": sasl_frame(SASL_INIT, {"a": 1}, b""),
    "half an encoding": b"\x00\x00\x00\x0e\x02\x01\x00\x00\x00\x53\x41\xd0\x00\x00",
    "deep nesting": b"\x00\x00\x0f\x00\x02\x01\x00\x00" + b"\x00\x53\x41" + b"\xc0\xff\x01" * 1_275
    + b"\x40" * 4,
}  # fmt: skip


@pytest.mark.parametrize("kind", SASL_NONSENSE)
def test_a_broken_login_is_refused(gateway: Gateway, kind: str) -> None:
    """Nonsense in SASL's frames ends in a refused login, never in anything worse."""
    with Raw(gateway.port, hello=SASL_HEADER + SASL_NONSENSE[kind]) as raw:
        answer = raw.rest()
    assert answer.startswith(SASL_HEADER)
    assert b"\x00\x53\x44" in answer or b"\x00\x80" in answer, answer


def deep_properties(levels: int) -> bytes:
    """An open whose properties are lists in lists."""
    nested = b"\x40"
    for _ in range(levels):
        nested = b"\xd0" + struct.pack(">II", len(nested) + 4, 1) + nested
    properties = b"\xa3\x01a" + nested
    mapping = b"\xd1" + struct.pack(">II", len(properties) + 4, 2) + properties
    fields = b"\xa1\x04deep" + b"\x40" * 8 + mapping
    body = b"\x00\x53\x10\xd0" + struct.pack(">II", len(fields) + 4, 10) + fields
    return struct.pack(">IBBH", 8 + len(body), 2, 0, 0) + body


OPEN_NONSENSE = {
    "a frame shorter than its header": b"\x00\x00\x00\x04",
    "a frame of four gigabytes": b"\xff\xff\xff\xff\x02\x00\x00\x00" + b"x" * 1_000,
    "a frame over the limit": struct.pack(">IBBH", 1 << 24, 2, 0, 0) + b"x" * 1_000,
    "an offset behind its end": b"\x00\x00\x00\x10\xff\x00\x00\x00" + b"\x00" * 8,
    "garbage in a frame": b"\x00\x00\x00\x20\x02\x00\x00\x00" + b"\x55" * 24,
    "a performative that isn't one": frame(0x99, "x"),
    "attach before open": begin_frame() + sender_frame("early", topic_target("t")),
    "transfer before open": transfer_frame(0, encoded("x")),
    "a container id that is no UTF-8": bytes.fromhex("00000011020000000053 10c00401a101ff"),
    "a container id that is a number": frame(OPEN, uint(7)),
    "a SASL frame": frame(OPEN, "x", kind=1),
    "deep nesting": deep_properties(900),
}  # fmt: skip


#: Odd, but nothing reads it: served like any other open.
HARMLESS = {"deep nesting", "a container id that is a number"}


@pytest.mark.parametrize("kind", OPEN_NONSENSE)
def test_frames_that_can_not_be_read_end_the_connection(gateway: Gateway, kind: str) -> None:
    """The peer gets a close with an error if an open came before, and the socket's end."""
    with Raw(gateway.port, hello=AMQP_HEADER + OPEN_NONSENSE[kind]) as raw:
        raw.send(frame(CLOSE))
        frames = raw.until_end()
    assert frames, "it ended without a word"
    if frames[-1].code == CLOSE:
        assert frames[-1].error or kind in HARMLESS
    assert all(one.code in (OPEN, CLOSE) for one in frames)


def test_a_second_open_ends_the_connection(gateway: Gateway, connect: Connect, topic: str) -> None:
    """Even under another name; afterwards both names are free."""
    with Raw(gateway.port, hello=AMQP_HEADER + open_frame(topic)) as raw:
        raw.next(OPEN)
        raw.send(open_frame(f"{topic}-2"))
        assert raw.next(CLOSE).error == "amqp:illegal-state"
        raw.send(frame(CLOSE))
        raw.until_end()
    connect(topic).close()
    connect(f"{topic}-2").close()


BEGUN_NONSENSE = {
    "garbage in a frame": b"\x00\x00\x00\x20\x02\x00\x00\x00" + b"\x55" * 24,
    "letters": b"hello? is anybody there?",
    "a performative that isn't one": frame(0x99, "x"),
    "a frame of four gigabytes": b"\xff\xff\xff\xff\x02\x00\x00\x00" + b"x" * 1_000,
    "a SASL frame": frame(FLOW, kind=1),
    "transfer on a handle that isn't attached": transfer_frame(0, encoded("x"), handle=7),
    "flow on a handle that isn't attached": frame(
        FLOW, uint(0), uint(1), uint(0), uint(1), uint(9), uint(0), uint(5)
    ),
    "detach of a handle that isn't attached": frame(DETACH, uint(3), True),
    "a name attached twice": sender_frame("a", topic_target("t"))
    + sender_frame("a", topic_target("t"), handle=1),
    "a producer without a name": frame(ATTACH, None, uint(0), False),
    "a consumer without a name": frame(
        ATTACH, None, uint(0), True, None, None, durable_source("t"), composite(TARGET)
    ),
    "an attach with a number for a name": frame(ATTACH, uint(9), uint(0), False),
    "a begin on a channel over the limit": frame(
        BEGIN, None, uint(0), uint(1), uint(1), channel=60_000
    ),
}


@pytest.mark.parametrize("kind", BEGUN_NONSENSE)
def test_frames_that_mean_nothing_end_the_connection(
    gateway: Gateway, topic: str, kind: str
) -> None:
    """A close with an error and the socket's end, also for what was half way in."""
    with begun(gateway.port, topic, BEGUN_NONSENSE[kind]) as raw:
        raw.send(frame(CLOSE))
        frames = raw.until_end()
    assert frames[-1].code == CLOSE
    assert frames[-1].error


def test_an_error_that_quotes_nonsense_is_still_one(gateway: Gateway, topic: str) -> None:
    """The engine's own complaint repeats the peer's name, which is no UTF-8."""
    twice = 2 * sender_frame("abc", topic_target("t")).replace(b"abc", b"\x80\x81\x82")
    with begun(gateway.port, topic, twice) as raw:
        assert b"\x00\x53\x18" in raw.rest()  # a close


def test_a_disposition_of_everything_hurts_nobody(gateway: Gateway, topic: str) -> None:
    """A range over all delivery ids there can be, and one of none."""
    with begun(gateway.port, topic) as raw:
        raw.send(accept_frame(0, 0xFFFFFFFF), accept_frame(0xFFFFFFFF, 0), frame(CLOSE))
        assert raw.until_end()[-1].code == CLOSE


def test_frames_come_in_any_split(gateway: Gateway, connect: Connect, topic: str) -> None:
    """One byte at a time, from the first header to the close, means the same."""
    receiver = connect().receiver(topic)
    whole = b"".join(
        [
            SASL_HEADER,
            sasl_frame(SASL_INIT, symbol("ANONYMOUS"), b"me"),
            AMQP_HEADER,
            open_frame(topic),
            begin_frame(),
            sender_frame("s", topic_target(topic)),
        ]
    )
    messages = b"".join(transfer_frame(n, encoded(n)) for n in range(3))
    with Raw(gateway.port) as raw:
        for at in range(len(whole)):
            raw.send(whole[at : at + 1])
        raw.next(FLOW)
        for at in range(len(messages)):
            raw.send(messages[at : at + 1])
        dispositions = []
        while sum(last - first + 1 for first, last in dispositions) < 3:
            one = raw.next(DISPOSITION)
            assert one.field(3) is True
            first = number(one.field(1))
            dispositions.append((first, number(one.field(2) or first)))
        raw.send(frame(CLOSE))
        assert raw.next(CLOSE).error == ""
    assert receiver.bodies(3) == [0, 1, 2]


@pytest.mark.parametrize("cut", [1, 7, 8, 30, 60, 90])
def test_half_a_frame_and_the_end_is_just_an_end(gateway: Gateway, topic: str, cut: int) -> None:
    """A frame that isn't whole has no effect."""
    whole = AMQP_HEADER + open_frame(topic) + begin_frame() + sender_frame("s", topic_target("t"))
    with Raw(gateway.port, hello=whole[:cut]):
        pass


def test_more_transfers_than_credit_end_the_link(gateway: Gateway, topic: str) -> None:
    """The link is closed with the condition for it; what fitted the credit may have been taken."""
    with begun(gateway.port, topic, sender_frame("s", topic_target(topic))) as raw:
        credit = number(raw.next(FLOW).field(6))
        data = encoded("x")
        raw.send(b"".join(transfer_frame(n, data) for n in range(credit * 3)))
        assert raw.next(DETACH).error == "amqp:link:transfer-limit-exceeded"


def test_an_oversized_message_ends_its_link(gateway: Gateway, connect: Connect, topic: str) -> None:
    """Refused as soon as it is too big, and its rest is not kept; other links of the connection
    go on."""
    receiver = connect().receiver(topic)
    piece = b"x" * 100_000
    with begun(
        gateway.port,
        topic,
        sender_frame("big", topic_target(topic)),
        sender_frame("fine", topic_target(topic), handle=1),
    ) as raw:
        attach = raw.next(ATTACH)
        assert attach.field(10) == 16_777_216  # max-message-size
        first = encoded(b"x" * 20_000_000)[:100_000]
        raw.send(transfer_frame(0, first, more=True))
        for _ in range(170):
            raw.send(frame(TRANSFER, uint(0), uint(0), None, None, None, True, payload=piece))
        detach = raw.next(DETACH)
        assert detach.error == "amqp:link:message-size-exceeded"
        assert detach.field(1) is True
        for _ in range(50):
            raw.send(frame(TRANSFER, uint(0), uint(0), None, None, None, True, payload=piece))
        raw.send(frame(TRANSFER, uint(0), uint(0), None, None, None, False, payload=piece))
        raw.send(frame(DETACH, uint(0), True), transfer_frame(1, encoded("fine"), handle=1))
        assert raw.next(DISPOSITION).field(3) is True
    assert receiver.bodies() == ["fine"]


def test_a_sender_may_settle_before_it_has_an_answer(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    """Its messages are taken as any other, once, and the link goes on."""
    receiver = connect().receiver(topic)
    with begun(gateway.port, topic, sender_frame("s", topic_target(topic))) as raw:
        raw.next(FLOW)
        for n in range(0, 40, 2):
            settled = frame(DISPOSITION, False, uint(n), uint(n + 1), True)
            raw.send(transfer_frame(n, encoded(n)), transfer_frame(n + 1, encoded(n + 1)), settled)
        assert receiver.bodies(40) == list(range(40))
        raw.send(frame(CLOSE))
        frames = raw.until_end()
    assert not any(one.error for one in frames)
    states = [one.field(4) for one in frames if one.code == DISPOSITION]
    assert all(isinstance(state, Described) and state.descriptor == ACCEPTED for state in states)


MALFORMED = {
    "letters": b"this is no section",
    "a section without a value": b"\x00\x53\x75",
    "a value that ends too late": b"\x00\x53\x75\xb0\x00\x01\x00\x00xx",
    "sections out of order": b"\x00\x53\x75\xa0\x01x\x00\x53\x70\x45",
    "two headers": b"\x00\x53\x70\x45\x00\x53\x70\x45\x00\x53\x77\x40",
    "an unknown section": b"\x00\x53\x7f\x40",
    "a header that is a map": b"\x00\x53\x70\xc1\x01\x00\x00\x53\x77\x40",
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_a_malformed_message_is_rejected_alone(connect: Connect, topic: str, kind: str) -> None:
    """Messages before and after it in the same run are accepted and delivered; the link goes on."""
    peer = connect()
    receiver = peer.receiver(topic)
    sender = peer.sender(topic)
    deliveries = [sender.send(data) for data in (encoded(1), MALFORMED[kind], encoded(2))]
    states = [sender.outcome(delivery) for delivery in deliveries]
    assert states == [Delivery.ACCEPTED, Delivery.REJECTED, Delivery.ACCEPTED]
    assert deliveries[1].remote.condition.name == "amqp:decode-error"
    assert receiver.bodies(2) == [1, 2]


def test_an_empty_message_is_rejected(connect: Connect, topic: str) -> None:
    """A transfer without a byte is no message."""
    peer = connect()
    sender = peer.sender(topic)
    assert sender.outcome(sender.send(b"")) == Delivery.REJECTED


def test_a_range_of_dispositions_settles_all_in_it(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    """One frame for many deliveries, settled or to be answered; the rest comes to the next one."""
    with begun(gateway.port, topic, receiver_frame("mine", durable_source(topic))) as raw:
        raw.next(ATTACH)
        raw.send(credit_frame(10))
        connect().sender(topic).publish(*range(10))
        for _ in range(10):
            raw.next(TRANSFER)
        raw.send(accept_frame(2, 5), accept_frame(7, 8, settled=False))
        answered: set[int] = set()
        while answered != {7, 8}:
            one = raw.next(DISPOSITION)
            assert one.field(3) is True
            first = number(one.field(1))
            answered |= set(range(first, number(one.field(2) or first) + 1))
        raw.send(frame(DETACH, uint(0), False))
        raw.next(DETACH)
        raw.send(frame(CLOSE))
        raw.next(CLOSE)
    peer = connect(topic)
    receiver = peer.durable(topic, "mine")
    assert receiver.bodies(4) == [0, 1, 6, 9]
    assert receiver.nothing()
