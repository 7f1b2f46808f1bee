"""Gateways of one lake may read addresses differently: a client's are read as at its gateway."""

from collections.abc import Callable
from pathlib import Path

from gateway_fleet import Fleet
from gateway_links import encoded
from gateway_peer import Connect
from gateway_process import Gateway


def test_an_owner_reads_addresses_as_the_gateway_of_their_client(
    tmp_path: Path, own_gateway: Callable[..., Gateway], connect: Connect
) -> None:
    fleet = Fleet(tmp_path, own_gateway)
    said = fleet.main.environment
    said["DISTRIBUTARY_AMQP_BARE_ADDRESS"] = '"queue"'
    said["DISTRIBUTARY_DELIVERY_PATTERN_STYLE"] = '"none"'
    with fleet:
        peer = connect("words", port=fleet.main.port)
        queue = peer.receiver("orders.q", capabilities=())
        peer.sender(None).publish_data([encoded("named", address="orders.q")])
        assert len(queue.take(1)) == 1, "what a message names is the consumer's queue"
        starred = peer.receiver("orders.*", capabilities=())
        peer.sender("orders.*").publish_data([encoded("starred")])
        assert len(starred.take(1)) == 1, "no character is a wildcard there"
