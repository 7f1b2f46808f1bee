"""A consumer's own limit on messages, and what a connection may begin and not finish."""

from collections.abc import Callable

import pytest
from gateway_fields import Fields, composite, make
from gateway_frames import ATTACH, CLOSE, DETACH, FLOW, TRANSFER, Frame, Raw, begun, frame_of
from gateway_links import decoded, encoded
from gateway_peer import Connect
from gateway_process import Gateway, Settings
from proton import Described

Make = Callable[[Settings | None], Gateway]

LIMIT = 1_000


def body(size: int, first: str = "x") -> str:
    """The body of a message of so many bytes."""
    overhead = len(encoded("x" * 300)) - 300  # its length takes four bytes
    return first + "x" * (size - overhead - 1)


def consume(
    one: Raw, topic: str, *, name: str = "N", handle: int = 0, most: int = LIMIT, **given: object
) -> Frame:
    """Attach a durable subscriber that takes messages of so many bytes, with credit for 100."""
    source = make(
        "source",
        address=topic,
        durable=2,
        expiry_policy="never",
        capabilities=given.pop("capabilities", ["topic"]),
    )
    termini = {"source": source, "target": make("target"), "max_message_size": most}
    one.send(frame_of("attach", name=name, handle=handle, role=True, **termini, **given))
    answer = one.next(ATTACH)
    window = {"incoming_window": 1 << 20, "next_outgoing_id": 0, "outgoing_window": 1 << 20}
    one.send(frame_of("flow", **window, handle=handle, delivery_count=0, link_credit=100))
    return answer


def settle(first: int, last: int, state: Described | None = None) -> bytes:
    state = state or composite(0x24)
    return frame_of("disposition", role=True, first=first, last=last, settled=True, state=state)


def firsts(one: Raw, number: int) -> list[str]:
    """The first elements of the bodies of the next messages."""
    return [decoded(one.next(TRANSFER).payload).body[0] for _ in range(number)]


def ended(frame: Frame) -> str:
    """The sentence with which a link ended because of a message's size."""
    assert frame["closed"] is True
    assert isinstance(frame["error"], Fields)
    assert frame["error"]["condition"] == "amqp:link:message-size-exceeded"
    return frame.says


def test_a_message_as_large_as_the_limit_is_delivered(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    """The limit itself isn't too large; nor is anything where the limit is 0, or none."""
    sent = encoded(body(LIMIT))
    assert len(sent) == LIMIT
    for most in (LIMIT, 0, None):
        with begun(gateway.port, f"{topic}-{most}") as one:
            consume(one, topic, most=most)
            connect().sender(topic).publish_data([sent])
            assert len(one.next(TRANSFER).payload) == LIMIT


@pytest.mark.parametrize("presettled", [False, True])
def test_a_larger_message_ends_the_link_and_stays_owed(
    gateway: Gateway, connect: Connect, topic: str, presettled: bool
) -> None:
    """It is never sent; the error says how large it is, which it is, and what the limit is. A
    consumer that takes more gets it."""
    with begun(gateway.port, f"{topic}-c") as one:
        consume(one, topic, snd_settle_mode=int(presettled))
        connect().sender(topic).publish(body(LIMIT + 1, "1"))
        said = ended(one.next(DETACH))
        assert f"{LIMIT + 1} bytes" in said
        assert str(LIMIT) in said
        one.send(frame_of("detach", handle=0, closed=False))
        consume(one, topic, most=LIMIT + 1)
        assert firsts(one, 1) == ["1"]
        one.send(settle(0, 0))
        connect().sender(topic).publish(body(LIMIT, "2"))
        assert firsts(one, 1) == ["2"]


@pytest.mark.usefixtures("unharmed")
def test_what_comes_before_it_is_delivered_and_may_be_settled(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    """The link ends when its consumer holds nothing any more; then the large one is the first."""
    sizes = {"1": 500, "2": LIMIT, "3": LIMIT + 1, "4": 500}
    with begun(gateway.port, f"{topic}-c") as one:
        consume(one, topic)
        connect().sender(topic).publish(*[body(size, first) for first, size in sizes.items()])
        assert firsts(one, 2) == ["1", "2"]
        assert one.heard() == []
        one.send(settle(0, 0))
        assert one.heard() == []
        one.send(settle(1, 1))
        assert ended(one.next(DETACH))
        one.send(frame_of("detach", handle=0, closed=False))
        consume(one, topic, most=0)
        assert firsts(one, 2) == ["3", "4"]


def test_other_consumers_of_the_subscription_go_on(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    """A consumer that takes such messages gets them, after those of its own turn; the link that
    doesn't take them ends."""
    with begun(gateway.port, f"{topic}-c") as one:
        shared = {"capabilities": ["topic", "shared"]}
        consume(one, topic, name="N|1", **shared)
        consume(one, topic, name="N|2", handle=1, most=0, **shared)
        connect().sender(topic).publish(*[body(LIMIT + 1, str(n)) for n in range(4)])
        came: dict[int, list[str]] = {0: [], 1: []}
        ends = []
        while len(came[1]) < 4 or not ends:
            frame = one.read()
            if frame.kind == "detach":
                ends.append(frame["handle"])
                assert ended(frame)
            elif frame.kind == "transfer":
                came[int(frame["handle"])].append(decoded(frame.payload).body[0])
        assert (came[0], sorted(came[1])) == ([], ["0", "1", "2", "3"])
        assert ends == [0]


def test_a_header_that_makes_a_message_too_large_counts(
    gateway: Gateway, connect: Connect, topic: str
) -> None:
    """The size of the sent bytes counts: with a delivery count they are a few more."""
    with begun(gateway.port, f"{topic}-c") as one:
        consume(one, topic)
        connect().sender(topic).publish(body(LIMIT))
        assert len(firsts(one, 1)) == 1
        one.send(settle(0, 0, composite(0x27, True)))
        said = ended(one.next(DETACH))
        size = int(said.split(" has ")[1].split()[0])
        assert size > LIMIT
        one.send(frame_of("detach", handle=0, closed=False))
        consume(one, topic, most=size)
        assert len(one.next(TRANSFER).payload) == size


MESSAGE, UNFINISHED = 65_536, 150_000


def unfinished(own_gateway: Make) -> Gateway:
    gateway = own_gateway(
        {"amqp": {"message_bytes_max": MESSAGE, "unfinished_bytes_max": UNFINISHED}}
    )
    gateway.start()
    return gateway


def producing(gateway: Gateway, topic: str, links: int, sessions: int) -> Raw:
    """A raw connection with so many producers on each of so many sessions."""
    one = begun(gateway.port, f"{topic}-c")
    for channel in range(1, sessions):
        window = {"next_outgoing_id": 0, "incoming_window": 1 << 20, "outgoing_window": 1 << 20}
        one.send(frame_of("begin", channel=channel, **window))
    for channel in range(sessions):
        for handle in range(links):
            termini = {"source": make("source"), "target": make("target", address=topic)}
            fields = {"name": f"P{channel}.{handle}", "handle": handle, "role": False}
            one.send(frame_of("attach", channel=channel, **fields, **termini))
            one.next(FLOW)
    return one


def part(handle: int, size: int, channel: int) -> bytes:
    """The begin of a link's message, whose delivery is numbered as the link is."""
    fields = {"handle": handle, "delivery_id": handle, "delivery_tag": b"%d" % handle}
    return frame_of("transfer", channel=channel, **fields, more=True, payload=b"x" * size)


@pytest.mark.parametrize(("links", "sessions"), [(3, 1), (1, 3)])
def test_unfinished_messages_have_a_limit(
    own_gateway: Make, connect: Connect, topic: str, links: int, sessions: int
) -> None:
    """The limit is for all links and sessions of a connection together; more end this connection,
    and no other."""
    gateway = unfinished(own_gateway)
    witness = connect(port=gateway.port)
    receiver = witness.receiver(topic)
    with producing(gateway, topic, links, sessions) as one:
        places = [(channel, handle) for channel in range(sessions) for handle in range(links)]
        for channel, handle in places[:2]:
            one.send(part(handle, 60_000, channel))
        assert one.heard() == []
        one.send(part(places[2][1], 60_000, places[2][0]))
        close = one.next(CLOSE)
        assert isinstance(close["error"], Fields)
        assert close["error"]["condition"] == "amqp:resource-limit-exceeded"
        assert "amqp.unfinished_bytes_max" in close.says
    witness.sender(topic).publish("unharmed")
    assert receiver.bodies() == ["unharmed"]


def test_unfinished_messages_of_all_connections_have_a_limit(
    own_gateway: Make, connect: Connect, topic: str
) -> None:
    """`amqp.unfinished_together_bytes_max`: the connection with most of them ends, no other."""
    together = {"unfinished_together_bytes_max": UNFINISHED}
    limits = {"message_bytes_max": MESSAGE, "unfinished_bytes_max": UNFINISHED}
    with own_gateway({"amqp": {**limits, **together}}) as gateway:
        with (
            producing(gateway, f"{topic}0", 2, 1) as most,
            producing(gateway, f"{topic}1", 2, 1) as little,
            producing(gateway, f"{topic}2", 2, 1) as last,
        ):
            most.send(part(0, 50_000, 0), part(1, 30_000, 0))
            little.send(part(0, 60_000, 0))
            assert most.heard() == little.heard() == []
            last.send(part(0, 20_000, 0))
            close = most.next(CLOSE)
            assert close.error == "amqp:resource-limit-exceeded"
            assert "amqp.unfinished_together_bytes_max" in close.says
            little.send(part(1, 60_000, 0))  # what ended counts no more
            assert little.heard() == last.heard() == []
        gateway.stop()


def test_messages_of_many_frames_are_no_longer_unfinished_when_they_end(
    own_gateway: Make, connect: Connect, topic: str
) -> None:
    """A producer may send as many large messages as it likes, one after the other."""
    gateway = unfinished(own_gateway)
    receiver = connect(port=gateway.port).receiver(topic)
    sender = connect(port=gateway.port, frame_bytes_max=8_192).sender(topic)
    sender.publish(*[b"x" * 60_000] * 8)
    assert [len(got) for got in receiver.bodies(8)] == [60_000] * 8
