"""Frames in an order that no client sends them in, on channels and handles that aren't there, with
numbers that jump: each ends with the error that says so, or means nothing; nothing of it stays.

More of them are in `test_bad_input.py`.
"""

from collections.abc import Iterator
from itertools import groupby

import pytest
from gateway_frames import (
    AMQP_HEADER,
    ATTACH,
    CLOSE,
    DETACH,
    EMPTY_FRAME,
    FLOW,
    Frame,
    Raw,
    begin_frame,
    credit_frame,
    durable_source,
    frame,
    frame_of,
    framed,
    make,
    open_frame,
    receiver_frame,
    sender_frame,
    topic_target,
)
from gateway_hostile import Attacked
from gateway_links import encoded
from gateway_process import Gateway

#: In a conversation: wait for such a frame; what stands between is sent at once.
CREDIT, ATTACHED, REFUSED, ENDED = FLOW, ATTACH, DETACH, 0x17
#: What Proton keeps for a connection.
CONNECTION_BYTES = 16_500

OPEN, BEGIN = open_frame("hostile"), begin_frame()
SENDER = sender_frame("s", topic_target("t"))
SENDING = [OPEN, BEGIN, SENDER, CREDIT]
RECEIVER = receiver_frame("r", durable_source("t"), handle=1)
RECEIVING = [OPEN, BEGIN, RECEIVER, ATTACHED, credit_frame(10, 1)]
LEAVE, END = frame_of("detach", handle=0, closed=True), frame_of("end")
MESSAGE = encoded("x")


def flow(**fields: object) -> bytes:
    given = {"next_incoming_id": 0, "incoming_window": 9, "next_outgoing_id": 0,
             "outgoing_window": 9, **fields}  # fmt: skip
    return frame_of("flow", **given)


def transfer(number: int, **fields: object) -> bytes:
    given = {"handle": 0, "delivery_id": number, "delivery_tag": b"x", **fields}
    return frame_of("transfer", **given, payload=MESSAGE)


def begin_with(**fields: object) -> bytes:
    given = {"next_outgoing_id": 0, "incoming_window": 99, "outgoing_window": 99, **fields}
    return frame_of("begin", **given)


def answer_to(channel: int) -> bytes:
    """A begin that says it answers a begin of the gateway, which never sends one of its own."""
    return begin_with(remote_channel=channel)


def on_channel(data: bytes, channel: int) -> bytes:
    return data[:6] + channel.to_bytes(2, "big") + data[8:]


NOTHING = ""
FRAMING, DECODE = "amqp:connection:framing-error", "amqp:decode-error"
FIELD, NOT_ALLOWED = "amqp:invalid-field", "amqp:not-allowed"
STATE, HANDLE_IN_USE = "amqp:illegal-state", "amqp:session:handle-in-use"
UNATTACHED = "amqp:session:unattached-handle"
LIMIT = "amqp:resource-limit-exceeded"

#: What is said, and the condition of the gateway's close.
CASES: dict[str, tuple[list[bytes | int], str]] = {
    "begin before open": ([BEGIN, OPEN], STATE),
    "end before open": ([END, OPEN], STATE),
    "close before open": ([frame_of("close")], NOTHING),
    "empty frames before open": ([EMPTY_FRAME * 3, OPEN, EMPTY_FRAME], NOTHING),
    "begin twice": ([OPEN, BEGIN, BEGIN], STATE),
    "begin as the answer to no begin": (
        [OPEN, answer_to(7)],
        FIELD,
    ),
    "attach without begin": ([OPEN, SENDER], NOT_ALLOWED),
    "attach on another channel": ([OPEN, BEGIN, on_channel(SENDER, 3)], NOT_ALLOWED),
    "transfer before attach": ([OPEN, BEGIN, transfer(0)], UNATTACHED),
    "transfer after detach": ([*SENDING, LEAVE, transfer(0)], UNATTACHED),
    "transfer after end": ([*SENDING, END, transfer(0)], NOT_ALLOWED),
    "transfer on a consumer's link": ([*RECEIVING, transfer(0, handle=1)], NOT_ALLOWED),
    "transfer to a refused link": (
        [OPEN, BEGIN, sender_frame("s", None), REFUSED, transfer(0), transfer(1)],
        NOTHING,
    ),
    "detach twice": ([*SENDING, LEAVE, LEAVE], UNATTACHED),
    "end twice": ([OPEN, BEGIN, END, END], NOT_ALLOWED),
    "end of a session that isn't": ([OPEN, BEGIN, on_channel(END, 5)], NOT_ALLOWED),
    "a session's flow on no channel": ([OPEN, flow()], NOT_ALLOWED),
    "frames after end": ([OPEN, BEGIN, END, SENDER, flow()], NOT_ALLOWED),
    "attach after close": ([OPEN, BEGIN, frame_of("close"), SENDER, transfer(0)], NOTHING),
    "close twice": ([OPEN, frame_of("close")], NOTHING),
    "a handle over the limit": (
        [OPEN, BEGIN, sender_frame("s", topic_target("t"), 1 << 31)],
        FRAMING,
    ),
    "a handle used twice": (
        [OPEN, BEGIN, SENDER, sender_frame("s2", topic_target("t"))],
        HANDLE_IN_USE,
    ),
    "the name and the handle used again after a detach": (
        [*SENDING, LEAVE, SENDER, CREDIT, transfer(0)],
        NOTHING,
    ),
    "a link's name in two sessions": (
        [OPEN, BEGIN, on_channel(BEGIN, 1), SENDER, on_channel(SENDER, 1)],
        NOTHING,
    ),
    "a name that differs by its link's role": (
        [OPEN, BEGIN, SENDER, receiver_frame("s", durable_source("t"), handle=1)],
        NOTHING,
    ),
    "delivery-ids that jump ahead": ([*SENDING, transfer(0), transfer(1 << 20)], FIELD),
    "delivery-ids that go back": ([*SENDING, transfer(5), transfer(6), transfer(4)], FIELD),
    "a delivery-id twice": ([*SENDING, transfer(0), transfer(0)], FIELD),
    "delivery-ids over the edge": (
        [*SENDING, transfer(0xFFFFFFFE), transfer(0xFFFFFFFF), transfer(0), transfer(1)],
        NOTHING,
    ),
    "a first transfer without a delivery-id": ([*SENDING, transfer(0, delivery_id=None)], FIELD),
    "a transfer without a tag": ([*SENDING, transfer(0, delivery_tag=None)], FIELD),
    "the same tag twice": ([*SENDING, transfer(0), transfer(1)], NOTHING),
    "another delivery in the middle of one": (
        [*SENDING, transfer(0, more=True), transfer(1), transfer(2)],
        FIELD,
    ),
    "an aborted delivery that never began": ([*SENDING, transfer(0, aborted=True)], NOTHING),
    "a transfer that resumes nothing": ([*SENDING, transfer(0, resume=True)], NOTHING),
    "dispositions of what isn't": (
        [
            *SENDING,
            frame_of("disposition", role=True, first=7, last=9, settled=True),
            frame_of("disposition", role=False, first=0, last=0xFFFFFFFF, settled=True),
        ],
        NOT_ALLOWED,
    ),
    "dispositions that go backwards": (
        [
            *RECEIVING,
            frame_of(
                "disposition", role=True, first=9, last=3, settled=True, state=make("accepted")
            ),
        ],
        NOT_ALLOWED,
    ),
    "credit of 2^32 - 1": ([*RECEIVING, credit_frame(0xFFFFFFFF, 1), credit_frame(1, 1)], NOTHING),
    "a delivery-count that isn't": (
        [*RECEIVING, flow(handle=1, delivery_count=0x80000000, link_credit=10)],
        NOTHING,
    ),
    "frames of no size": (
        [frame_of("open", container_id="hostile", max_frame_size=0), *RECEIVING[1:]],
        NOTHING,
    ),
    "frames of any size on any channel": (
        [
            frame_of("open", container_id="hostile", max_frame_size=0xFFFFFFFF, channel_max=0xFFFF),
            begin_with(handle_max=0xFFFFFFFF),
            *RECEIVING[2:],
        ],
        NOTHING,
    ),
    "a window of nothing": (
        [*RECEIVING, flow(incoming_window=0, handle=1, delivery_count=0, link_credit=5)],
        NOTHING,
    ),
    "a session's ids that aren't": (
        [
            *RECEIVING,
            flow(
                next_incoming_id=1 << 30,
                incoming_window=1 << 31,
                next_outgoing_id=1 << 30,
                outgoing_window=0,
            ),
        ],
        NOTHING,
    ),
    "credit on a producer's link": ([*SENDING, credit_frame(10, 0)], NOTHING),
    "a drain of everything": (
        [*RECEIVING, flow(handle=1, delivery_count=0, link_credit=0xFFFFFFFF, drain=True)],
        NOTHING,
    ),
    "a SASL frame in AMQP": ([OPEN, frame_of("sasl-init", mechanism="PLAIN")], FRAMING),
    "a performative with the wrong type of frame": ([OPEN, BEGIN[:5] + b"\1" + BEGIN[6:]], FRAMING),
    "the protocol's header in the middle": ([OPEN, AMQP_HEADER, BEGIN], FRAMING),
    "a frame with more behind its performative": (
        [OPEN, BEGIN, framed(BEGIN[8:] * 2, channel=1)],
        NOTHING,
    ),
    "frames before the open": ([flow(), OPEN], STATE),
    "open twice": ([OPEN, BEGIN, OPEN], STATE),
    "a flow for no link": ([*SENDING, flow(handle=7, echo=True)], UNATTACHED),
    "a detach of no link": ([*SENDING, frame_of("detach", handle=0xFFFFFFFF)], UNATTACHED),
    "a transfer to the highest number": ([*SENDING, transfer(0, handle=0xFFFFFFFF)], UNATTACHED),
    "an attach to the highest number": (
        [OPEN, BEGIN, sender_frame("s", topic_target("t"), 0xFFFFFFFF)],
        FRAMING,
    ),
    "a begin over the channel-max": ([OPEN, on_channel(BEGIN, 2_000)], FRAMING),
    "a begin over the peer's own channel-max": (
        [frame_of("open", container_id="hostile", channel_max=0), BEGIN, on_channel(BEGIN, 1)],
        FRAMING,
    ),
    "a session ended and begun again on the only channel": (
        [
            frame_of("open", container_id="hostile", channel_max=0),
            *[BEGIN, END] * 5,
            *SENDING[1:],
            END,
            BEGIN,
            SENDER,
            CREDIT,
        ],
        NOTHING,
    ),
    "a name attached twice": (
        [OPEN, BEGIN, SENDER, sender_frame("s", topic_target("t"), 1)],
        FIELD,
    ),
    "more links than the peer has handles": (
        [OPEN, begin_with(handle_max=0), SENDER, RECEIVER],
        LIMIT,
    ),
    "links one after another on the peer's only handle": (
        [OPEN, begin_with(handle_max=0), *[SENDER, CREDIT, LEAVE] * 3, *[SENDER, LEAVE] * 3],
        NOTHING,
    ),
    "another delivery's end in the middle of one": (
        [*SENDING, transfer(0, more=True), transfer(1, aborted=True)],
        FIELD,
    ),
    "deliveries that go on without an id": (
        [
            *[*SENDING, transfer(0, more=True), transfer(0, delivery_id=None, more=True)],
            *[transfer(0, delivery_id=None, delivery_tag=None), transfer(1)],
        ],
        NOTHING,
    ),
    "deliveries of two links, frame by frame": (
        [
            *[*SENDING, sender_frame("s2", topic_target("t"), 1), CREDIT],
            *[transfer(0, more=True), transfer(1, handle=1, more=True)],
            *[transfer(1, handle=1), transfer(0), transfer(2, handle=1)],
        ],
        NOTHING,
    ),
    "a settled delivery that was never sent": (
        [*SENDING, transfer(0), frame_of("disposition", role=False, first=0, last=1)],
        FIELD,
    ),
    "a handle that is no number": ([*SENDING, frame(0x16, "0", True)], DECODE),
    "a list with more in it than it counts": (
        [*SENDING, framed(b"\x00\x53\x16\xc0\x04\x01\x52\x00\x41")],
        DECODE,
    ),
    "a field that is described twice": (
        [*SENDING, framed(b"\x00\x53\x16\xc0\x09\x02\x00\x53\x01\x00\x53\x02\x40\x43")],
        DECODE,
    ),
    "a performative that nobody knows": ([OPEN, framed(b"\x00\x53\x77\x45")], DECODE),
    "a frame of a type that nobody knows": ([OPEN, framed(b"\x00\x53\x11\x45", kind=2)], FRAMING),
    "a frame that is larger than all may be": ([OPEN, b"\x7f\xff\xff\xff\x02\0\0\0"], FRAMING),
    "a frame whose head is too short": ([OPEN, b"\0\0\0\x08\x01\0\0\0"], FRAMING),
    # Before there was a guard these three ended the process, inside of the engine.
    "a transfer on a consumer's link, which is settled after its detach": (
        [
            *RECEIVING,
            transfer(0, handle=1),
            frame_of("detach", handle=1, closed=True),
            REFUSED,
            frame_of("disposition", role=False, first=0, last=0, settled=True),
        ],
        NOT_ALLOWED,
    ),
    "two begins that answer the same one": (
        [*SENDING, on_channel(answer_to(0), 3), on_channel(END, 3), ENDED, transfer(0), END],
        FIELD,
    ),
    "two links of one handle that end": (
        [
            *[OPEN, BEGIN, SENDER, CREDIT, sender_frame("s2", topic_target("t")), CREDIT],
            *[transfer(0), transfer(1), LEAVE, LEAVE, transfer(2), END],
        ],
        HANDLE_IN_USE,
    ),
}


def is_wait(one: bytes | int) -> bool:
    return isinstance(one, int)


def conversation(raw: Raw, said: list[bytes | int]) -> list[Frame]:
    """The gateway's answers until it ends the socket; after its close there are no more."""
    came: list[Frame] = []
    for wait, parts in groupby(said, is_wait):
        if not wait:
            raw.send(*parts)
            continue
        for code in parts:
            while not came or came[-1].code not in (code, CLOSE):
                came += [next(raw.frames())]
            if came[-1].code == CLOSE:
                return came
            came.append(Frame(0, [], b""))  # the next wait is for another one
    return came + raw.until_end()


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    with Gateway(tmp_path_factory.mktemp("order")) as gateway:
        with Attacked(gateway) as attacked:
            yield attacked
        gateway.stop()


@pytest.mark.parametrize("kind", CASES)
def test_no_order_of_frames_harms_more_than_its_sender(attacked: Attacked, kind: str) -> None:
    """The connection ends with an error for the fault, or frames without meaning are ignored;
    another client is served, and memory doesn't grow."""
    said, condition = CASES[kind]

    def attack() -> None:
        for _ in range(40):
            with Raw(attacked.gateway.port, hello=AMQP_HEADER) as raw:
                frames = conversation(raw, [*said, frame_of("close")])
                assert frames[-1].kind == "close", frames
                assert frames[-1].error == condition

    attacked.withstands(attack, size=40 * CONNECTION_BYTES, times=4)
