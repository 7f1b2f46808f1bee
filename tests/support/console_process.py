"""The console as a process beside a gateway that shows its metrics."""

import os
import re
import signal
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from fork_server import SCRIPT, clean_environment
from gateway_http import ShownGateway

_AT = re.compile(r"^console of .+ at (\S+)$")


class Console:
    """`distributary console` on a free port; `options` are more of its command line. `home`:
    whether it is told of the gateway's home."""

    def __init__(self, gateway: ShownGateway, *options: str, home: bool = True) -> None:
        self.gateway, self._options = gateway, options
        if home:
            self._options = ("--home", str(gateway.home), *options)
        self.process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        words = [
            *(SCRIPT, "console", "--listen", "127.0.0.1:0"),
            *("--gateway", f"127.0.0.1:{self.gateway.port}"),
            *("--metrics", f"127.0.0.1:{self.gateway.http_port}", *self._options),
        ]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, env=clean_environment()
        )
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        found = _AT.match(said.strip())
        assert found, f"the console said {said!r}"
        self.url = found[1]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.wait(30) == 0, "the console ends by SIGTERM with 0"
            assert self.process.stdout is not None
            self.process.stdout.close()
            self.process = None

    def cpu_seconds(self) -> float:
        """What it has taken of a core so far."""
        assert self.process is not None
        return cpu_seconds(self.process.pid)


def cpu_seconds(pid: int) -> float:
    """What a process has taken of a core so far."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
