"""What a hostile peer's test must show: the gateway serves somebody else all along, and its memory
is where it was.
"""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from gateway_peer import Peer
from gateway_process import Gateway, until

MIB = 1 << 20
#: What a gateway's memory moves by without any reason that a test could name: pages that the
#: allocator keeps for later, the log's buffers.
NOISE_BYTES = 1 * MIB


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
        """After as many attacks as this the gateway serves, and doesn't hold half of what they
        would have left behind: `size` bytes each. The first ones only warm it up."""
        assert size * times > 4 * NOISE_BYTES, "nobody would see that leak"
        for _ in range(max(2, times // 2)):
            attack()
        self.serves()
        before = rss(self.gateway)
        for _ in range(times):
            attack()
            assert self.gateway.running, self.gateway.log[-5_000:]
        self.serves()
        most = before + size * times // 2
        until(
            lambda: rss(self.gateway) <= most,
            f"the memory is where it was: {before} bytes, a leak would be {size * times} more",
            seconds=5.0,
        )
