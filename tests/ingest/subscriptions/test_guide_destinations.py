"""The programs of docs/guides/destinations.md do what it says, as they stand there."""

import re
import subprocess
import sys
from pathlib import Path

from gateway_links import encoded
from gateway_peer import Connect
from gateway_process import Gateway

GUIDE = Path(__file__).parents[3] / "docs" / "guides" / "destinations.md"


def test_requests_are_answered_also_after_somebody_left(gateway: Gateway, connect: Connect) -> None:
    """The server goes on when it was asked by someone who didn't wait for the answer."""
    client, server = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    programs = [text.replace("5672", str(gateway.port)) for text in (client, server)]
    answering = subprocess.Popen([sys.executable, "-c", programs[1]], stderr=subprocess.PIPE)
    try:
        peer = connect()
        left = peer.receiver(None, capabilities=(), dynamic=True)
        address = left.link.remote_source.address
        peer.leave(left, closed=True)
        peer.sender("queue://quotes").publish_data([encoded("?", reply_to=address)])
        for _ in range(2):
            asking = [sys.executable, "-c", programs[0]]
            done = subprocess.run(asking, capture_output=True, text=True, check=True, timeout=60)
            assert done.stdout == "187.2\n"
        assert answering.poll() is None
    finally:
        answering.kill()
        answering.communicate()
