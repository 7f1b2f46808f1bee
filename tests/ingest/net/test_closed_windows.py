"""A consumer gives credit, and its session's window takes nothing: so much is kept for it, and no
more. The rest is other consumers', and its own when the window opens."""

from collections.abc import Callable
from pathlib import Path

from gateway_fields import make
from gateway_fleet import Fleet
from gateway_frames import (
    ACCEPTED,
    ATTACH,
    DISPOSITION,
    TRANSFER,
    Raw,
    begin_frame,
    begun,
    frame_of,
    sender_frame,
    topic_target,
    transfer_frame,
)
from gateway_links import decoded, encoded
from gateway_management import NODE
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from proton import Described

COUNT = 60
MESSAGES = [encoded(f"{n:03}" + "x" * 100_000) for n in range(COUNT)]
REQUEST = {"operation": "READ", "type": "node", "name": "self"}
READ_REQUESTS_MAX = 500


def attach(queue: str, *, settled: bool) -> bytes:
    return frame_of(
        "attach",
        name=queue,
        handle=0,
        role=True,
        snd_settle_mode=int(settled),
        source=make("source", address=queue, capabilities=["queue"]),
        target=make("target"),
    )


def flow(window: int, **link: object) -> bytes:
    """The window as after the gateway's begin: what has come since isn't counted."""
    given = {"next_incoming_id": 0, "next_outgoing_id": 0, "outgoing_window": 100}
    return frame_of("flow", incoming_window=window, **given, **link)


def consumer(gateway: Gateway, queue: str, *, settled: bool) -> Raw:
    """A consumer with credit for all, whose window is closed."""
    raw = begun(gateway.port, queue, attach(queue, settled=settled))
    raw.next(ATTACH)
    raw.send(flow(0, handle=0, delivery_count=0, link_credit=10 * COUNT))
    assert not [one for one in raw.heard() if one.code == TRANSFER]
    return raw


def numbers(raw: Raw, count: int) -> list[int]:
    """The numbers of the next messages."""
    return [int(str(decoded(raw.next(TRANSFER).payload).body)[:3]) for _ in range(count)]


def is_divided(gateway: Gateway, peer: Peer, queue: str, *, settled: bool) -> None:
    """A consumer with a closed window gets a part of a queue, another one all else."""
    peer.sender(queue, capabilities=("queue",)).publish_data(MESSAGES)
    with consumer(gateway, queue, settled=settled) as raw:
        other = peer.receiver(queue, capabilities=("queue",))
        taken = other.take(COUNT // 6)
        other.settle(taken)
        raw.send(flow(1_000))  # of the session alone
        came = numbers(raw, COUNT - len(taken))
        assert came == sorted(came)
        others = [int(str(one.body)[:3]) for one in taken]
        assert sorted(came + others) == list(range(COUNT))
        assert other.nothing()


def test_others_get_what_a_closed_window_does_not_take(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    is_divided(gateway, connect(), topic, settled=False)


def test_messages_that_come_settled_are_kept_within_the_same_limit(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    is_divided(gateway, connect(), topic, settled=True)


def test_a_relayed_consumer_gets_no_more_than_its_client_takes(
    tmp_path: Path, own_gateway: Callable[..., Gateway], connect: Connect
) -> None:
    settings = {"amqp": {"write_buffer_bytes": 200_000}}
    with Fleet(tmp_path, own_gateway, settings) as fleet:
        is_divided(fleet.main, connect(port=fleet.main.port), "orders.closed", settled=True)


def test_other_sessions_go_on(gateway: Gateway, connect: Connect, topic: str) -> None:
    closed, opened = f"{topic}-closed", f"{topic}-open"
    for queue in (closed, opened):
        connect().sender(queue, capabilities=("queue",)).publish_data(MESSAGES)
    with consumer(gateway, closed, settled=True) as raw:
        raw.send(begin_frame(channel=1), on_channel_1(attach(opened, settled=True)))
        raw.next(ATTACH)
        given = {"handle": 0, "delivery_count": 0, "link_credit": COUNT}
        raw.send(on_channel_1(flow(1_000, **given)))
        for _ in range(COUNT):
            assert raw.next(TRANSFER).channel == 1


def on_channel_1(frame: bytes) -> bytes:
    return frame[:6] + b"\x00\x01" + frame[8:]


def test_answers_wait_where_their_bytes_have_a_limit(own_gateway: Callable[..., Gateway]) -> None:
    """`management.replies_bytes_max`: answers that the window doesn't take are counted there, and
    come in the order of their requests when it opens."""
    settings = {"amqp": {"write_buffer_bytes": 8_192}, "management": {"replies_bytes_max": 2_000}}
    gateway = own_gateway(settings).start()
    takes = frame_of(
        "attach",
        name="answers",
        handle=0,
        role=True,
        source=make("source", address=NODE),
        target=make("target", address="mine"),
    )
    asks = sender_frame("asks", topic_target(NODE), handle=1)
    with begun(gateway.port, "asks", takes, asks) as raw:
        raw.next(ATTACH)
        raw.next(ATTACH)
        raw.send(flow(0, handle=0, delivery_count=0, link_credit=2 * READ_REQUESTS_MAX))
        answered = 0
        while accepted(raw, answered):
            answered += 1
            assert answered < READ_REQUESTS_MAX, "no bound of what waits"
        raw.send(flow(1_000))
        came = [decoded(raw.next(TRANSFER).payload).correlation_id for _ in range(answered)]
        assert came == list(range(answered))


def accepted(raw: Raw, number: int) -> bool:
    """Whether a request was accepted."""
    request = encoded(None, properties=REQUEST, id=number, reply_to="mine")
    raw.send(transfer_frame(number, request, handle=1))
    state = raw.next(DISPOSITION).field(4)
    return isinstance(state, Described) and state.descriptor == ACCEPTED
