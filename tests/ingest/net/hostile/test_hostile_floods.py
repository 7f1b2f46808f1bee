"""Peers that say very much, take nothing of what they are told, or take very long: others are
served all the while, and memory is bounded.

Limits of time are short here. More of the kind: `test_limits.py`, `test_operation.py`.
"""

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from gateway_codec import encode
from gateway_frames import (
    AMQP_HEADER,
    EMPTY_FRAME,
    FLOW,
    SASL_HEADER,
    Raw,
    begin_frame,
    credit_frame,
    durable_source,
    frame_of,
    framed,
    open_frame,
    receiver_frame,
    sender_frame,
    topic_target,
    transfer_frame,
)
from gateway_hostile import MIB, Attacked, rss
from gateway_links import encoded
from gateway_peer import Peer, PeerLost
from gateway_process import Gateway, until
from proton import Described, symbol, uint

#: Bytes of memory that a flood may take: what waits in buffers, whatever comes.
FLOOD_BYTES_MAX = 24 * MIB
HELLO = AMQP_HEADER + open_frame("half") + begin_frame()


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    settings = {
        "amqp": {"handshake_ms_max": 3_000, "connections_max": 300, "write_buffer_bytes": 65_536}
    }
    with Gateway(tmp_path_factory.mktemp("floods"), settings) as gateway:
        with Attacked(gateway) as attacked:
            attacked.serves()
            yield attacked
        gateway.stop()


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that soon drops silent peers."""
    settings = {"amqp": {"handshake_ms_max": 1_500, "idle_timeout_ms": 1_500}}
    with Gateway(tmp_path_factory.mktemp("impatient"), settings) as gateway:
        yield gateway
        gateway.stop()


def hello(name: str) -> bytes:
    return AMQP_HEADER + open_frame(name) + begin_frame()


def serves(gateway: Gateway) -> None:
    """A newcomer is served as ever; one that was slower than an impatient gateway comes again."""

    def served() -> bool:
        try:
            with Peer(gateway.port) as peer:
                receiver = peer.receiver("witness")
                peer.sender("witness").publish("unharmed")
                return receiver.bodies() == ["unharmed"]
        except PeerLost:
            return False

    until(served, "somebody is served")


def flow(**fields: object) -> bytes:
    window = {"next_incoming_id": 0, "incoming_window": 9, "next_outgoing_id": 0}
    return frame_of("flow", **window, outgoing_window=9, **fields)


#: What a flood is made of, and how many of it come.
FLOODS = {
    "empty frames": (EMPTY_FRAME, 2_000_000),
    "flows": (flow(), 500_000),
    "flows that want an answer": (flow(echo=True), 30_000),
    "dispositions": (frame_of("disposition", role=True, first=0, last=9, settled=True), 500_000),
    "frames named by a word": (framed(encode(Described(symbol("amqp:flow:list"), [
        uint(0), uint(9), uint(0), uint(9)]))), 30_000),
    "sessions": (begin_frame(1) + frame_of("end", channel=1), 10_000),
    "links": (sender_frame("s" * 2_000, topic_target("t"))
              + frame_of("detach", handle=0, closed=True), 3_000),
    "links that are refused": (sender_frame("s", None)
                               + frame_of("detach", handle=0, closed=True), 5_000),
}  # fmt: skip


#: More of these if the peer takes no answers: the kernel's buffers hold many.
UNHEARD = {"links": 25_000}


class Flood(threading.Thread):
    """Says it as often as this, as fast as the gateway takes it. With `reads` it takes the answers
    and closes, otherwise it takes none and stays until it is `released`."""

    def __init__(self, port: int, one: bytes, number: int, *, reads: bool) -> None:
        super().__init__()
        self._port, self._one, self._number, self._reads = port, one, number, reads
        self.said, self.released = threading.Event(), threading.Event()

    def run(self) -> None:
        with Raw(self._port, hello=hello(f"flood-{os.urandom(4).hex()}")) as raw:
            raw.expect("open", "begin")
            raw.socket.settimeout(60.0 if self._reads else 2.0)
            reader = threading.Thread(target=raw.rest)
            if not self._reads:
                raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            if self._reads:
                reader.start()
            with suppress(OSError):
                for _ in range(self._number // 1_000):
                    raw.send(self._one * 1_000)
                raw.send(frame_of("close"))
            self.said.set()
            (reader.join if self._reads else self.released.wait)()


@pytest.mark.parametrize("reads", [True, False], ids=["heard", "unheard"])
@pytest.mark.parametrize("kind", FLOODS)
def test_others_are_served_during_a_flood(attacked: Attacked, kind: str, reads: bool) -> None:
    """Others are served whether the peer takes the answers or not. A peer that takes none isn't
    read after a while."""
    one, number = FLOODS[kind]
    number = number if reads else UNHEARD.get(kind, number)
    before = most = rss(attacked.gateway)
    attacker = Flood(attacked.gateway.port, one, number, reads=reads)
    attacker.start()
    for _ in range(10):  # until it has said all, and a while longer
        attacked.serves()
        while not attacker.said.is_set():
            attacked.serves()
        most = max(most, rss(attacked.gateway))
    attacker.released.set()
    attacker.join()
    assert most - before < FLOOD_BYTES_MAX
    attacked.serves()


SENDER = sender_frame("s", topic_target("t"))
#: Where a peer stops for ever: what it has said by then.
HALVES = {
    "nothing": b"",
    "half a header": AMQP_HEADER[:4],
    "the SASL header": SASL_HEADER,
    "half a login": SASL_HEADER + frame_of("sasl-init", mechanism="ANONYMOUS")[:9],
    "half an open": AMQP_HEADER + open_frame("half")[:20],
    "an open": AMQP_HEADER + open_frame("half"),
    "half an attach": HELLO + SENDER[:30],
    "half a transfer": HELLO + SENDER + transfer_frame(0, b"x" * 90_000)[:50_000],
}


@pytest.mark.parametrize("kind", HALVES)
def test_who_stops_in_the_middle_is_dropped(impatient: Gateway, kind: str) -> None:
    """Before its open by `amqp.handshake_ms_max`, afterwards by `amqp.idle_timeout_ms`."""
    with Raw(impatient.port, hello=HALVES[kind]) as raw:
        raw.rest()
    serves(impatient)


@pytest.mark.parametrize("slow", ["the header", "the login", "the open"])
def test_a_byte_now_and_then_is_not_enough_for_a_handshake(impatient: Gateway, slow: str) -> None:
    """All of it has `amqp.handshake_ms_max`, however busy the peer seems."""
    login = frame_of("sasl-init", mechanism="ANONYMOUS", initial_response=b"x" * 100)
    said = {"the header": b"", "the login": SASL_HEADER, "the open": AMQP_HEADER}[slow]
    trickle = {"the header": AMQP_HEADER, "the login": login, "the open": open_frame("s" * 100)}
    with Raw(impatient.port, hello=said) as raw:
        ended = threading.Event()
        reader = threading.Thread(target=lambda: (raw.rest(), ended.set()))
        reader.start()
        with suppress(OSError):
            for at in range(len(trickle[slow]) - 1):
                raw.send(trickle[slow][at : at + 1])
                if ended.wait(0.4):  # the stimulus: a byte now and then
                    break
        reader.join()
    assert ended.is_set()
    serves(impatient)


def test_half_a_transfer_for_each_of_many_is_bounded(attacked: Attacked) -> None:
    """A peer holds no more than its frames may be large: a hundred of them that stop in the middle
    of a frame of 128 KiB cost what they have sent."""
    before = rss(attacked.gateway)
    half = (
        HELLO + sender_frame("s", topic_target("t")) + transfer_frame(0, b"x" * 120_000)[:100_000]
    )
    with ExitStack() as stack:
        for n in range(100):
            raw = stack.enter_context(Raw(attacked.gateway.port))
            raw.send(hello(f"half-{n}") + half)
        attacked.serves()
        assert rss(attacked.gateway) - before < 100 * 200_000 + 8 * MIB
    attacked.serves()


def test_a_message_without_an_end_is_refused_where_it_is_too_large(attacked: Attacked) -> None:
    """300 MiB of it are thrown away as they come; the link has ended at `message_bytes_max`, and
    memory grows by no more than that."""
    before = rss(attacked.gateway)
    piece = frame_of("transfer", handle=0, delivery_id=0, more=True, payload=b"x" * 100_000)
    with Raw(attacked.gateway.port, hello=hello("large") + SENDER) as raw:
        raw.next(FLOW)
        raw.send(frame_of("transfer", handle=0, delivery_id=0, delivery_tag=b"t", more=True,
                          payload=encoded(b"x" * 400_000_000)[:100]))  # fmt: skip
        for n in range(3_000):
            raw.send(piece)
            if n % 500 == 0:
                attacked.serves()
                assert rss(attacked.gateway) - before < 64 * MIB
        assert raw.next(0x16).error == "amqp:link:message-size-exceeded"
    attacked.serves()
    until(lambda: rss(attacked.gateway) - before < FLOOD_BYTES_MAX, "the memory is back")


def test_aborted_messages_leave_nothing(attacked: Attacked) -> None:
    """Thousands that begin and are aborted: credit isn't used up, memory isn't either."""
    with Raw(attacked.gateway.port, hello=hello("abort")) as raw:
        raw.send(sender_frame("s", topic_target("t")))
        raw.next(FLOW)
        before = rss(attacked.gateway)
        for n in range(5_000):
            raw.send(
                frame_of("transfer", handle=0, delivery_id=n, delivery_tag=b"t", more=True,
                         payload=b"x" * 10_000),
                frame_of("transfer", handle=0, delivery_id=n, aborted=True),
            )  # fmt: skip
        raw.send(transfer_frame(5_000, encoded("at last")))
        assert raw.next(0x15)["state"].kind == "accepted"
    attacked.serves()
    assert rss(attacked.gateway) - before < FLOOD_BYTES_MAX


def test_a_consumer_that_vanishes_with_much_owed_is_dropped(impatient: Gateway) -> None:
    """It has credit for 20,000 messages and never reads: its socket fills, its silence ends it
    though nothing more can be said to it, and what it held comes to the next one."""
    data = encoded(os.urandom(500))
    with Peer(impatient.port, "deaf") as peer:
        peer.durable("deaf", "r")
    with Peer(impatient.port) as peer:
        sender = peer.sender("deaf")
        for _ in range(20):
            sender.publish_data([data] * 1_000)
    with Raw(impatient.port) as deaf:
        deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        frames = hello("deaf"), receiver_frame("r", durable_source("deaf")), credit_frame(20_000)
        deaf.send(*frames)
        until(lambda: times_gone(impatient, "deaf") == 2, "it is dropped")
    serves(impatient)
    with Peer(impatient.port, "deaf") as peer:
        assert len(peer.durable("deaf", "r").take(20_000)) == 20_000


def test_who_reads_late_and_has_closed_meanwhile_ends_alone(attacked: Attacked) -> None:
    """Its waiting bytes, and the gateway's own close behind them, go out as it reads. Its socket is
    closed only then: asyncio would close a socket twice if it is closed amid writing."""
    data = encoded(os.urandom(20_000))
    with Peer(attacked.gateway.port, "late") as peer:
        peer.durable("late", "r")
        peer.sender("late").publish_data([data] * 500)
    for _ in range(5):
        with Raw(attacked.gateway.port) as late:
            frames = receiver_frame("r", durable_source("late")), credit_frame(500)
            late.send(hello("late"), *frames)
            attacked.serves()  # it is owed more than its socket takes
            late.send(frame_of("close"))
            attacked.serves()
            *_, last = late.frames()
            assert last.kind == "close"
    attacked.serves()


def times_gone(gateway: Gateway, container: str) -> int:
    closed = gateway.events("connection.closed")
    return sum(one["container"] == container for one in closed)


def test_sockets_that_only_connect_are_bounded(attacked: Attacked) -> None:
    """Above `amqp.connections_max` each is closed at once; those that are served go on, and when
    the others have had their time there is room."""
    port = attacked.gateway.port
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(2_000)
        ]
        attacked.serves()
        heard: set[socket.socket] = set()

        def closed() -> int:
            for one in set(sockets) - heard:
                one.setblocking(False)
                with suppress(BlockingIOError, ConnectionError):
                    if one.recv(64) in (b"", SASL_HEADER):
                        heard.add(one)
            return len(heard)

        until(lambda: closed() >= 1_600, "those above the limit are closed")
    attacked.serves()

    def room() -> bool:
        with suppress(Exception):
            with Peer(port) as peer:
                peer.sender("t").publish("room again")
            return True
        return False

    until(room, "room again")


def test_connections_that_are_reset_leave_nothing(attacked: Attacked) -> None:
    """A thousand that send and are gone by a reset, at any point of a conversation."""
    said = (
        HELLO + sender_frame("s", topic_target("t")) + receiver_frame("r", durable_source("t"), 1)
    )
    hard = struct.pack("ii", 1, 0)

    def attack() -> None:
        for n in range(0, len(said), 3):
            raw = Raw(attacked.gateway.port, hello=said[: n + 1])
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, hard)
            raw.socket.close()

    attacked.withstands(attack, size=16_000 * (len(said) // 3), times=3)
