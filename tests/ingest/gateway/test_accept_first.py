"""A publisher gets its outcomes before the gateway does its own bookkeeping of the group."""

import sys
from pathlib import Path

from gateway_peer import Peer
from gateway_process import Gateway

#: A gateway that stands still where the books of a durable group begin, while the file GATE is
#: there: `python -c PROGRAM GATE serve ...`.
PROGRAM = """
import sys, time
from pathlib import Path
from distributary.ingest.cli.main import main
from distributary.pipeline.log.recent_messages import RecentMessages
gate, add = Path(sys.argv.pop(1)), RecentMessages.add
def stands(*given):
    while gate.exists():
        time.sleep(0.005)
    add(*given)
RecentMessages.add = stands
main()
"""


def test_an_accept_is_on_its_way_before_the_books_are_kept(tmp_path: Path) -> None:
    """The publisher hears it while the gateway stands still in front of its cache: bytes of an
    accept that were kept for later couldn't come. The consumer gets the message afterwards."""
    gateway, gate = Gateway(tmp_path), tmp_path / "gate"
    gateway.COMMAND = (sys.executable, "-c", PROGRAM, str(gate))
    with gateway, Peer(gateway.port) as publisher, Peer(gateway.port) as other:
        sender, receiver = publisher.sender("t"), other.receiver("t")
        sender.publish("before")
        assert receiver.bodies() == ["before"]
        gate.touch()
        try:
            sender.publish("now")
        finally:
            gate.unlink()
        assert receiver.bodies() == ["now"]
        gateway.stop()
        gateway.verified()
