"""State of a link, told to a consumer that asks: by `echo`, or by a drain without credit."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from gateway_frames import AMQP_HEADER, Frame, Raw, accept_frame, frame_of, make, open_frame
from gateway_peer import Peer
from gateway_process import Gateway

Connect = Callable[..., Peer]
pytestmark = pytest.mark.usefixtures("unharmed")


class Consumer(Raw):
    """A session with consumers' links; handles count from 5, so that ours are others."""

    def __init__(self, gateway: Gateway, container: str, window: int = 1_000) -> None:
        begin = frame_of("begin", next_outgoing_id=0, incoming_window=window, outgoing_window=10)
        super().__init__(gateway.port, hello=AMQP_HEADER + open_frame(container) + begin)
        self.window = window
        self.expect("open", "begin")

    def attach(self, topic: str, handle: int) -> int:
        """The gateway's own handle of a new link."""
        source = make("source", address=topic)
        link = {"name": f"link-{handle}", "handle": handle, "role": True}
        self.send(frame_of("attach", **link, source=source, target=make("target")))
        [attach] = self.expect("attach")
        return int(attach["handle"])

    def flow(self, handle: int, count: int, credit: int, **more: object) -> None:
        window = {"incoming_window": self.window, "next_outgoing_id": 0, "outgoing_window": 10}
        link = {"handle": handle, "delivery_count": count, "link_credit": credit}
        self.send(frame_of("flow", next_incoming_id=count, **window, **link, **more))

    def take(self, count: int) -> None:
        self.expect(*["transfer"] * count)

    def told(self) -> tuple[object, ...]:
        """Fields of the next flow: handle, delivery-count, link-credit, drain."""
        [flow] = self.expect("flow")
        return said(flow)


def said(flow: Frame) -> tuple[object, ...]:
    words = ("handle", "delivery-count", "link-credit", "drain")
    handle, count, credit, drain = (flow[word] for word in words)
    return handle, count, credit, bool(drain)


@pytest.fixture
def consumer(gateway: Gateway, topic: str) -> Iterator[Callable[..., Consumer]]:
    with ExitStack() as ends:

        def new(**options: int) -> Consumer:
            return ends.enter_context(Consumer(gateway, topic, **options))

        yield new


def test_a_drain_without_credit_is_answered(
    consumer: Callable[..., Consumer], connect: Connect, topic: str
) -> None:
    """go-amqp drains so: whatever credit there is, it says none, and waits for a flow that says
    drain. What it was sent before stays counted, and credit that it gives later holds."""
    one = consumer()
    ours = one.attach(topic, 5)
    one.flow(5, 0, 3)
    publish = connect().sender(topic).publish
    publish("a")
    one.take(1)
    one.flow(5, 1, 0, drain=True)
    assert one.told() == (ours, 1, 0, True)
    publish("b", "c")
    one.flow(5, 1, 2, drain=False)
    one.take(2)
    one.send(accept_frame(0, 2))
    one.flow(5, 3, 4, drain=True)
    assert one.told() == (ours, 7, 0, True)
    one.flow(5, 7, 0, drain=True)
    assert one.told() == (ours, 7, 0, True)


def test_an_echo_is_answered_with_the_links_own_state(
    consumer: Callable[..., Consumer], connect: Connect, topic: str
) -> None:
    """Every one of them, when several of a session ask at once."""
    one = consumer()
    ours = {handle: one.attach(f"{topic}-{handle}", handle) for handle in (5, 6)}
    one.flow(5, 0, 10)
    one.flow(6, 0, 20)
    connect().sender(f"{topic}-5").publish("a", "b", "c")
    one.take(3)
    one.flow(5, 0, 10, echo=True)
    assert one.told() == (ours[5], 3, 7, False)
    window = {"incoming_window": 1_000, "next_outgoing_id": 0, "outgoing_window": 10}
    asks = [
        frame_of("flow", **window, handle=handle, delivery_count=count, link_credit=9, echo=True)
        for handle, count in ((5, 3), (6, 0))
    ]
    one.send(*asks)
    assert sorted([one.told(), one.told()]) == sorted(
        [(ours[5], 3, 9, False), (ours[6], 0, 9, False)]
    )


def test_what_waits_for_the_window_is_not_counted_as_sent(
    consumer: Callable[..., Consumer], connect: Connect, topic: str
) -> None:
    """Five are there and ten are wanted, but the session takes two."""
    one = consumer(window=2)
    ours = one.attach(topic, 5)
    one.flow(5, 0, 10)
    connect().sender(topic).publish("a", "b", "c", "d", "e")
    one.take(2)
    one.window = 0
    one.flow(5, 2, 8, echo=True)
    assert one.told() == (ours, 2, 8, False)
    one.window = 100
    one.flow(5, 2, 8)
    one.take(3)


def test_who_asks_before_the_attach_is_answered_loses_nothing(
    consumer: Callable[..., Consumer], connect: Connect, topic: str
) -> None:
    """The attach itself says where the link stands."""
    one = consumer()
    attach = frame_of(
        "attach",
        name="link-5",
        handle=5,
        role=True,
        source=make("source", address=topic, durable=2, expiry_policy="never"),
        target=make("target"),
    )
    window = {"incoming_window": 1_000, "next_outgoing_id": 0, "outgoing_window": 10}
    link = {"handle": 5, "delivery_count": 0}
    one.send(attach, frame_of("flow", **window, **link, link_credit=0, drain=True))
    while one.read().kind != "attach":
        pass
    connect().sender(topic).publish("a")
    one.flow(5, 0, 1)
    while one.read().kind != "transfer":
        pass


@pytest.mark.parametrize("credit", [2**31 - 1, 2**31, 2**32 - 1])
def test_a_consumer_may_give_all_credit_that_there_is(
    consumer: Callable[..., Consumer], connect: Connect, topic: str, credit: int
) -> None:
    """The engine counts it with a sign; it gets its messages all the same, and may drain."""
    raw = consumer()
    raw.attach(topic, 5)
    raw.flow(5, 0, credit)
    connect().sender(topic).publish(*range(3))
    raw.take(3)
    raw.flow(5, 3, credit, drain=True)
    assert raw.told()[2:] == (0, True)
