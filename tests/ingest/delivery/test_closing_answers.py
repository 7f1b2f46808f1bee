"""A detach, an end and a close are answered when the outcomes that came before them are durable.

Groups wait for half a second before they are written, so that an answer that doesn't wait comes
first, and a kill of the gateway right behind it finds the journal without them.
"""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from gateway_links import Incoming
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from proton import Delivery, Endpoint
from test_operations import fill, small_disk  # noqa: F401 (a fixture)

Make = Callable[..., Gateway]

ENDS = ("detach", "end", "close")
SLOW = {"journal": {"linger_ms": 500}}
#: Milliseconds that an answer waits at most.
BOUND_MS = 1_500
FULL = {
    "amqp": {"close_answer_ms_max": BOUND_MS},
    "journal": {"segment_bytes": 1 << 20, "retry_ms": 50},
    "commit": {"interval_ms": 50, "retry_ms": 50},
}
LARGE = b"\x00Sw\xb1\x00\x00\x4e\x20" + b"x" * 20_000


def ended(peer: Peer, receiver: Incoming, end: str) -> str:
    """End the link so, and wait for the answer: its condition, '' if it has none."""
    if end == "detach":
        return peer.leave(receiver, closed=False)
    endpoint = receiver.link.session if end == "end" else peer.connection
    endpoint.close()
    peer.until(lambda: endpoint.state & Endpoint.REMOTE_CLOSED, "the answer")
    condition = endpoint.remote_condition
    return str(condition.name) if condition else ""


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("state", [Delivery.ACCEPTED, Delivery.REJECTED])
def test_what_was_said_before_an_answered_end_is_durable(
    own_gateway: Make, connect: Connect, end: str, state: int
) -> None:
    """Ten are settled, the consumer waits for no confirmation, and the gateway is killed behind the
    answer: none of them comes again. The copies of rejected ones are durable, too."""
    with own_gateway(SLOW) as gateway:
        publisher = connect(port=gateway.port)
        peer = connect("c", port=gateway.port)
        receiver = peer.durable("t", "mine")
        publisher.sender("t").publish(*range(12))
        receiver.settle(receiver.take(10), state)
        assert ended(peer, receiver, end) == ""
        gateway.kill()
        gateway.start()
        peer = connect("c", port=gateway.port)
        assert peer.durable("t", "mine").bodies(2) == [10, 11]
        if state == Delivery.REJECTED:
            dead = peer.receiver("queue://DLQ.container/c/mine", capabilities=("queue",))
            assert dead.bodies(10) == list(range(10))


@pytest.mark.parametrize("end", ENDS)
def test_where_nothing_waits_the_answer_comes_at_once(
    own_gateway: Make,
    connect: Connect,
    small_disk: Path,  # noqa: F811
    end: str,
) -> None:
    """Confirmed outcomes are durable already, so the end waits neither for other clients' messages
    nor for prefetch that goes back. An end that waited would get an error, as the disk is full."""
    gateway = own_gateway(FULL)
    gateway.home = small_disk / "home"
    with gateway:
        peer, other = connect("c", port=gateway.port), connect(port=gateway.port)
        receiver = peer.durable("t", "mine")
        other.sender("t").publish(*range(3))
        receiver.confirm(receiver.take(1))
        receiver.take(1)
        fill(small_disk)
        sender = other.sender("u")
        for _ in range(190):
            sender.send(LARGE)
        other.until(lambda: gateway.events("journal.full"), "the disk is full")
        assert ended(peer, receiver, end) == ""


@pytest.mark.parametrize("end", ENDS)
def test_a_full_disk_bounds_the_wait(
    own_gateway: Make,
    connect: Connect,
    small_disk: Path,  # noqa: F811
    end: str,
) -> None:
    """The answer is an error then, so that the client knows that messages may come again; others
    are served meanwhile, and with space again all goes on."""
    gateway = own_gateway(FULL)
    gateway.home = small_disk / "home"
    with gateway:
        peer, other = connect("c", port=gateway.port), connect(port=gateway.port)
        receiver = peer.durable("t", "mine")
        sender = other.sender("t")
        sender.publish(*range(4))
        taken = receiver.take(2)
        ballast = fill(small_disk)
        deliveries = [sender.send(LARGE) for _ in range(190)]
        other.until(lambda: gateway.events("journal.full"), "the disk is full")
        receiver.settle(taken)
        began = time.monotonic()
        assert ended(peer, receiver, end) == "amqp:resource-limit-exceeded"
        # Nothing but the bound ends the wait: the disk is full until the ballast goes.
        assert time.monotonic() - began >= BOUND_MS / 1_000
        other.heard()
        ballast.unlink()
        other.until(lambda: all(one.settled for one in deliveries), "all are accepted")
        again = connect("c2", port=gateway.port)
        assert again.receiver("u").nothing()
