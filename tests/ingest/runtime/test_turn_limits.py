"""No piece of work between two turns of the loop is unbounded: with the smallest parts, all the
same is done as with large ones, in the same order.
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_fields import composite
from gateway_frames import (
    accept_frame,
    begin_frame,
    begun,
    credit_frame,
    durable_source,
    frame_of,
    receiver_frame,
)
from gateway_hostile import MIB, rss
from gateway_links import encoded
from gateway_peer import Peer
from gateway_process import PATIENCE, Gateway, Settings
from proton import uint
from test_operations import fill, small_disk  # noqa: F401 (a fixture)

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
                frame_of("end"),
            )
            kinds = [raw.read().kind]
            while kinds[-1] != "end":
                kinds.append(raw.read().kind)
            others = [kind for kind in kinds if kind not in ("disposition", "flow")]
            # A link begun and ended in one write may be answered by the session's end alone: the
            # answer to its detach waits for the outcomes before it, an end waits for no links.
            assert others[-1] == "end"
            assert set(others) <= {"attach", "detach", "end"}
        again = connect("c", port=gateway.port).durable("t", "N")
        assert again.bodies(10) == list(range(20, 30))
        gateway.stop()


def test_frames_that_python_reads_are_part_of_a_turn(own_gateway: Make) -> None:
    """Flows that ask for an answer, in one breath: one turn of the loop answers once, however often
    it was asked, so each has a turn of its own here. Before the attach is answered, which says all
    that a flow could, there is no answer."""
    with own_gateway({"amqp": {"turn_deliveries_max": 1}}) as gateway:
        with begun(gateway.port, "c", receiver_frame("N", durable_source("t"))) as raw:
            raw.next(0x12)
            raw.send(asking_frame(1) * 30)
            assert sum(one.kind == "flow" for one in raw.heard()) == 30
        gateway.stop()


def asking_frame(credit: int) -> bytes:
    """A flow of the link that wants to be answered."""
    return frame_of(
        "flow",
        next_incoming_id=0,
        incoming_window=1 << 20,
        next_outgoing_id=0,
        outgoing_window=1 << 20,
        handle=0,
        delivery_count=0,
        link_credit=credit,
        echo=True,
    )


def test_dispositions_over_many_deliveries_take_bounded_memory(
    own_gateway: Make, connect: Connect
) -> None:
    """The engine's events of one are gone before the next: 200 over 10,000 deliveries were half a
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


def filled(gateway: Gateway, disk: Path, connect: Connect) -> Path:
    """A full disk for which a group waits; the file that fills it."""
    ballast = fill(disk)
    peer = connect(port=gateway.port)
    peer.sender("other").send(encoded(os.urandom(2 * MIB)))
    peer.write()
    gateway.await_event("journal.full")
    return ballast


def test_what_is_settled_waits_for_a_full_disk_within_a_bound(
    own_gateway: Make,
    connect: Connect,
    small_disk: Path,  # noqa: F811
) -> None:
    """`journal.waiting_bytes_max` counts settlements: a peer that brings more isn't read until
    there is room, others are served, and then all that it said counts."""
    settings = {
        "journal": {"segment_bytes": MIB, "retry_ms": 50, "waiting_bytes_max": 65_536},
        "commit": {"interval_ms": 50, "retry_ms": 50},
    }
    gateway = own_gateway(settings)
    gateway.home = small_disk / "home"
    with gateway:
        hello = (receiver_frame("N", durable_source("t")), credit_frame(1_000))
        with begun(gateway.port, "c", *hello) as raw:
            raw.heard()
            connect(port=gateway.port).sender("t").publish(*range(1_000))
            for _ in range(1_000):
                raw.next(0x14)
            ballast = filled(gateway, small_disk, connect)
            for n in range(0, 1_000, 2):  # a row for each: those in between aren't settled
                raw.send(accept_frame(n, n, settled=False), said(n + 1, n + 1, 0x26))
            raw.send(begin_frame(channel=8))
            raw.socket.settimeout(2.0)  # the stimulus: the gateway doesn't read it meanwhile
            with pytest.raises(TimeoutError):
                raw.next(0x11)
            connect(port=gateway.port).heard()
            ballast.unlink()
            raw.socket.settimeout(PATIENCE)
            assert raw.next(0x11)["remote-channel"] == 8
            raw.heard()
        again = connect("c", port=gateway.port).durable("t", "N")
        assert again.bodies(3) == [1, 3, 5]


def test_what_a_consumer_settled_counts_as_its_own_until_that_is_durable(
    own_gateway: Make,
    connect: Connect,
    small_disk: Path,  # noqa: F811
) -> None:
    """`amqp.unsettled_max`: the engine keeps a delivery until its peer has our word."""
    settings = {"journal": {"segment_bytes": MIB, "retry_ms": 50}, "amqp": {"unsettled_max": 10}}
    gateway = own_gateway(settings)
    gateway.home = small_disk / "home"
    with gateway:
        hello = (receiver_frame("N", durable_source("t")), credit_frame(1_000))
        with begun(gateway.port, "c", *hello) as raw:
            raw.heard()
            connect(port=gateway.port).sender("t").publish(*range(25))
            for _ in range(10):
                raw.next(0x14)
            ballast = filled(gateway, small_disk, connect)
            raw.send(accept_frame(0, 9, settled=False))
            assert not [one for one in raw.heard() if one.kind == "transfer"]
            ballast.unlink()
            for _ in range(10):
                raw.next(0x14)


def test_names_have_a_limit(own_gateway: Make, connect: Connect) -> None:
    """`amqp.name_bytes_max`, of container-ids, links and subscriptions made by operators: each
    settlement in the log repeats them."""
    with own_gateway({"amqp": {"name_bytes_max": 100}}) as gateway:
        fitting, long = "n" * 100, "n" * 101
        peer = connect(fitting, port=gateway.port)
        assert peer.durable("t", fitting)
        receiver = peer.receiver("t", long, opened=False)
        assert peer.amqp_error(receiver) == "amqp:invalid-field"
        with begun(gateway.port, "\N{GREEK SMALL LETTER MU}" * 51) as raw:
            close = raw.next(0x18)
            assert close.error == "amqp:invalid-field"
            assert "amqp.name_bytes_max" in close.says
        gateway.stop()
