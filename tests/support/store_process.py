"""An object store of a third party, in a process of its own."""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from gateway_process import until


@contextmanager
def running(command: Sequence[str], ready: Callable[[], bool]) -> Iterator[None]:
    """Runs the command from when it is ready until the block's end."""
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until(ready, f"{command[0]} serves", every=0.05)
        yield
    finally:
        server.kill()
        server.wait()
