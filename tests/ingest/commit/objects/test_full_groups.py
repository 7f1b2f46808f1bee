"""On a store a group waits for more, but not when it has enough to be a put of its own."""

from collections.abc import Callable

import pytest
from faulty_s3 import FaultyS3
from gateway_http import ShownGateway
from gateway_links import encoded
from gateway_peer import Peer
from gateway_process import until

Make = Callable[..., ShownGateway]
MESSAGES, BYTES = 12, 70_000


@pytest.mark.parametrize(("put_bytes", "alone"), [(65_536, True), (1_048_576, False)])
def test_a_group_with_enough_bytes_goes_at_once(
    tmp_path_factory: pytest.TempPathFactory, s3: FaultyS3, put_bytes: int, *, alone: bool
) -> None:
    """Messages that come one after another, each with enough, are a group each; smaller ones wait
    for each other."""
    assert s3.port
    settings = {"journal": {"put_linger_ms": 1_000, "put_bytes": put_bytes}}
    gateway = ShownGateway(tmp_path_factory.mktemp("gateway"), settings)
    gateway.address = "s3://lake/full"
    with gateway, Peer(gateway.port) as peer:
        peer.durable("t", "kept")
        sender = peer.sender("t")
        before = gateway.metric("group_messages_count")
        deliveries = []
        for _ in range(MESSAGES):
            peer.until(lambda: sender.link.credit > 0, "credit")
            deliveries.append(sender.send(encoded("x" * BYTES)))
            peer.heard()  # so the gateway has read it
        for one in deliveries:
            sender.outcome(one)
        groups = gateway.metric("group_messages_count") - before
        assert (groups >= MESSAGES - 2) is alone
        gateway.stop()


def test_a_group_that_waited_for_a_place_waits_for_nothing_more(
    tmp_path_factory: pytest.TempPathFactory, s3: FaultyS3
) -> None:
    """Two puts are under way; what is full behind them goes when one is done, and isn't joined by
    what comes then."""
    settings = {"journal": {"put_linger_ms": 1_000, "put_bytes": 65_536, "puts_max": 2}}
    gateway = ShownGateway(tmp_path_factory.mktemp("gateway"), settings)
    gateway.address = "s3://lake/waited"
    with gateway, Peer(gateway.port) as peer:
        peer.durable("t", "kept")
        sender = peer.sender("t")
        peer.until(lambda: sender.link.credit > 3, "credit")
        before = gateway.metric("group_messages_count")
        s3.hold("key", "PUT .*journal/")
        deliveries = []
        for _ in range(3):
            deliveries.append(sender.send(encoded("x" * BYTES)))
            peer.heard()
        until(lambda: s3.holding, "a put waits")
        s3.hold()
        sender.outcome(deliveries[0])
        deliveries.append(sender.send(encoded("x" * BYTES)))
        for one in deliveries[1:]:
            sender.outcome(one)
        assert gateway.metric("group_messages_count") - before == 4
        gateway.stop()
