"""On a store a group waits for more, but not when it has enough to be a put of its own."""

from collections.abc import Callable

import pytest
from faulty_s3 import FaultyS3
from gateway_http import ShownGateway
from gateway_links import encoded
from gateway_peer import Peer

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
