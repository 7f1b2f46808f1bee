"""A client that does nothing wrong, in a process of its own: it publishes and consumes, and must be
answered in time. `python fuzz_witness.py PORT SECONDS_MAX [USER PASSWORD]` says its worst answer's
time when its input ends, or at once what it had to wait for too long.
"""

import select
import sys
import time

from gateway_links import Incoming, Outgoing, encoded
from gateway_peer import Peer, PeerLost

#: Seconds between two messages.
BETWEEN_SECONDS = 0.02


def answered(peer: Peer, sender: Outgoing, receiver: Incoming, number: int, limit: float) -> float:
    """Publish one and consume it; how many seconds that took. AssertionError if it takes longer
    than the limit."""
    began = time.monotonic()
    receiver.link.flow(1)
    delivery = sender.send(encoded(number))
    peer.until(lambda: receiver.inbox and delivery.settled, f"message {number}", limit)
    assert receiver.bodies() == [number]
    return time.monotonic() - began


def main(port: int, seconds: float, user: str = "", password: str = "") -> int:
    worst, number = 0.0, 0
    peer = Peer(port, "witness", user=user, password=password)
    receiver, sender = peer.receiver("witness"), peer.sender("witness")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], BETWEEN_SECONDS)[0]:
        try:
            number += 1
            worst = max(worst, answered(peer, sender, receiver, number, seconds))
        except (AssertionError, PeerLost, OSError) as error:
            sys.stdout.write(f"failed: {error}\n")
            return 1
    peer.close()
    sys.stdout.write(f"answered {number} times, at worst after {1_000 * worst:.0f} ms\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:]))
