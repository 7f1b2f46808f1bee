"""No piece of work between two turns of the loop is unbounded: with the smallest parts, all the
same is done as with large ones, in the same order.
"""

from collections.abc import Callable

import pytest
from gateway_peer import Peer
from gateway_process import Gateway, Settings

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
