"""Schemas of a real gateway, as its tests set them, and what their publishers hear."""

import json
import subprocess

from gateway_links import encoded
from gateway_peer import Peer
from gateway_process import Gateway
from proton import Delivery

ORDER = {
    "type": "object",
    "required": ["id"],
    "properties": {"id": {"type": "integer"}, "amount": {"type": "number"}},
}


def schema(said: object = ORDER, **more: object) -> dict[str, object]:
    """The body of a request that sets a schema."""
    return {"format": "json", "definition": json.dumps(said), **more}


def why(delivery: Delivery) -> str:
    """The sentence of a rejected delivery."""
    assert delivery.remote_state == Delivery.REJECTED, delivery.remote_state
    return str(delivery.remote.condition.description)


def sent(peer: Peer, topic: str, *bodies: object, durable: bool = True) -> list[Delivery]:
    """Deliveries of these bodies, all of which have an outcome."""
    link = peer.sender(topic)
    peer.until(lambda: link.link.credit >= len(bodies), "credit")
    found = [link.send(encoded(body, durable=durable)) for body in bodies]
    for one in found:
        link.outcome(one)
    return found


def checkers(gateway: Gateway) -> list[int]:
    """The processes that check messages for this gateway."""
    found = subprocess.run(
        ["pgrep", "-P", str(gateway.process.pid), "-f", "check_process"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(pid) for pid in found.stdout.split()]
