"""No piece of work between two turns of the loop is unbounded: with the smallest parts, all the
same is done as with large ones, in the same order.
"""

from collections.abc import Callable

import pytest
from gateway_fields import composite
from gateway_frames import (
    accept_frame,
    begun,
    credit_frame,
    durable_source,
    frame_of,
    receiver_frame,
)
from gateway_hostile import MIB, rss
from gateway_peer import Peer
from gateway_process import Gateway, Settings
from proton import uint

Make = Callable[[Settings | None], Gateway]
Connect = Callable[..., Peer]


@pytest.mark.parametrize("most", [1, 3])
def test_many_subscriptions_are_served_in_parts_of_a_turn(
    own_gateway: Make, connect: Connect, most: int
) -> None:
    """Each gets all of its topic, in order, however few are served until the loop turns."""
    with own_gateway({"delivery": {"turn_subscriptions_max": most}}) as gateway:
        peer = connect(port=gateway.port)
        receivers = {
            topic: [peer.receiver(topic) for _ in range(12)] for topic in ("news", "weather")
        }
        senders = {topic: peer.sender(topic) for topic in receivers}
        bodies = [f"{n}" for n in range(20)]
        for body in bodies:
            for sender in senders.values():
                sender.publish(body)
        for same in receivers.values():
            for receiver in same:
                assert receiver.bodies(len(bodies)) == bodies
        gateway.stop()


def said(first: int, last: int, code: int, *fields: object) -> bytes:
    """A disposition that settles nothing."""
    state = composite(code, *fields)
    return frame_of("disposition", role=True, first=first, last=last, settled=False, state=state)


@pytest.mark.parametrize("most", [1, 7, 1_000])
def test_what_is_beyond_a_turn_is_done_in_the_next_ones(
    own_gateway: Make, connect: Connect, most: int
) -> None:
    """Dispositions, links and an end in one breath, however little of it is one turn's work: all of
    it counts, in its order."""
    with own_gateway({"amqp": {"turn_deliveries_max": most}}) as gateway:
        hello = (receiver_frame("N", durable_source("t")), credit_frame(40))
        with begun(gateway.port, "c", *hello) as raw:
            raw.heard()
            connect(port=gateway.port).sender("t").publish(*range(40))
            for _ in range(40):
                raw.next(0x14)
            raw.send(
                *[said(0, 39, 0x23, uint(0), 0)] * 20,
                accept_frame(0, 19),
                *[said(20, 29, 0x23, uint(0), 0)] * 20,
                accept_frame(30, 39),
                receiver_frame("M", durable_source("u"), handle=1),
                frame_of("detach", handle=0, closed=False),
                accept_frame(20, 29),  # too late: its link is gone
                frame_of("end"),
            )
            kinds = [raw.read().kind]
            while kinds[-1] != "end":
                kinds.append(raw.read().kind)
            others = [kind for kind in kinds if kind not in ("disposition", "flow")]
            assert others[-2:] == ["detach", "end"]
        again = connect("c", port=gateway.port).durable("t", "N")
        assert again.bodies(10) == list(range(20, 30))
        gateway.stop()


def test_dispositions_over_many_deliveries_take_bounded_memory(
    own_gateway: Make, connect: Connect
) -> None:
    """What the engine makes of one is gone before the next: 200 over 10,000 deliveries were half a
    gigabyte of events. Others are served meanwhile."""
    with own_gateway(None) as gateway:
        hello = (receiver_frame("N", durable_source("t")), credit_frame(10_000))
        with begun(gateway.port, "c", *hello) as raw:
            raw.heard()
            connect(port=gateway.port).sender("t").publish(*["x"] * 10_000)
            for _ in range(10_000):
                raw.next(0x14)
            before = rss(gateway)
            raw.send(*[said(0, 9_999, 0x23, uint(0), 0)] * 200)
            witness = connect(port=gateway.port)
            receiver = witness.receiver("witness")
            witness.sender("witness").publish("served")
            assert receiver.bodies() == ["served"]
            raw.heard()
            assert rss(gateway) - before < 50 * MIB
        gateway.stop()
