"""The console's questions to a gateway for lists, of which there are none when no user looks."""

import threading
from pathlib import Path

import msgspec
from gateway_http import ShownGateway
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import until

from distributary.ingest.console.asking.gateway_line import GatewayLine
from distributary.ingest.console.asking.sweeps import QUICK_ROWS, Sweeps
from distributary.ingest.console.settings.console_settings import load
from distributary.jobs.client.management_client import Gateway
from distributary.pipeline.management.management_messages import Entity

QUEUES = QUICK_ROWS + 150


def sweeping() -> bool:
    return any(one.name.startswith("sweep over") for one in threading.enumerate())


def test_a_slow_sweep_is_given_up_when_nobody_looks(tmp_path: Path) -> None:
    """The first sweep comes to its end, as a user waited for it; its rows stay known. A user who
    comes back later begins another one."""
    slow = msgspec.structs.replace(
        load().asking, sweep_part=0.002, sweep_seconds=1, quiet_seconds=1
    )
    with ShownGateway(tmp_path) as gateway:
        with Peer(gateway.port) as peer:
            manager = Manager(peer)
            for nth in range(QUEUES):
                manager.done("CREATE", "queue", f"q{nth}")
        line = GatewayLine([Gateway(f"127.0.0.1:{gateway.port}")], 30, 30)
        sweeps = Sweeps(line, slow, 10_000)
        try:
            until(lambda: sweeps.known(Entity.QUEUE).at is not None, "the first sweep ends")
            known = sweeps.peek(Entity.QUEUE)
            assert len(known.rows) == QUEUES
            until(lambda: sweeps.peek(Entity.QUEUE) is known and sweeping(), "a slow one begins")
            until(lambda: not sweeping(), "it is given up")
            assert sweeps.peek(Entity.QUEUE) is known, "it has come to its end"
            assert sweeping(), "a user looks again"
        finally:
            sweeps.close()
            line.close()
        until(lambda: not sweeping(), "closed, it ends by itself")
        gateway.stop()
