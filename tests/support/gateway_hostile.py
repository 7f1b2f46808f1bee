"""Checks for tests of hostile peers: the gateway serves another client all along, and its memory
doesn't grow.
"""

import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from gateway_peer import Peer
from gateway_process import Gateway

MIB = 1 << 20
#: A leak that is to be seen is as large as this: what has no reason that a test could name is less.
LEAK_BYTES_MIN = 2 * MIB
#: How often memory may grow until it is a leak's.
ROUNDS = 4
#: By then the gateway has given back what lay in cycles: it looks for them once a second.
COLLECTED_SECONDS = 2.5


def rss(gateway: Gateway) -> int:
    """Bytes of memory that the gateway has now."""
    assert gateway.process is not None
    text = Path(f"/proc/{gateway.process.pid}/status").read_text()
    [line] = [line for line in text.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) << 10


class Attacked:
    """A gateway, and a client of it that does nothing wrong and is there all the time."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self._peer = Peer(gateway.port)
        self._receiver = self._peer.receiver("witness")
        self._sender = self._peer.sender("witness")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._peer.drop()

    def serves(self) -> None:
        """The other client is served as ever, and the gateway knows of no bug of its own."""
        assert self.gateway.running, self.gateway.log[-5_000:]
        self._sender.publish("unharmed")
        assert self._receiver.bodies() == ["unharmed"]
        assert not self.gateway.events("gateway.bug")

    def withstands(self, attack: Callable[[], None], *, size: int, times: int) -> None:
        """After so many attacks the gateway serves, and its memory has grown by less than half of
        `size` bytes for each. A leak grows in each round and fails; the allocators' own memory
        grows in one round or two and doesn't."""
        assert size * times >= LEAK_BYTES_MIN, "that leak would be too small to be seen"
        grown = []
        for _ in range(ROUNDS):
            before = rss(self.gateway)
            for _ in range(times):
                attack()
                assert self.gateway.running, self.gateway.log[-5_000:]
            self.serves()
            end = time.monotonic() + COLLECTED_SECONDS
            while (grew := rss(self.gateway) - before) > size * times // 2:
                if time.monotonic() > end:
                    break
                time.sleep(0.05)
            else:
                return
            grown.append(grew)
        raise AssertionError(f"it grows each time: {grown}, a leak would be {size * times}")
