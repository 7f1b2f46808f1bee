"""The console as a process beside a gateway that shows its metrics."""

import os
import re
from types import TracebackType
from typing import IO, Self

from fork_server import Forked, commands
from gateway_http import ShownGateway
from gateway_process import PATIENCE, cpu_seconds

_AT = re.compile(r"^console of .+ at (\S+)$")


class Console:
    """`distributary console` on a free port; `options` are more of its command line. `home`:
    whether it is told of the gateway's home."""

    def __init__(self, gateway: ShownGateway, *options: str, home: bool = True) -> None:
        self.gateway, self._options = gateway, options
        if home:
            self._options = ("--home", str(gateway.home), *options)
        self.process: Forked | None = None
        self._said: IO[str] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        words = [
            *("console", "--listen", "127.0.0.1:0"),
            *("--gateway", f"127.0.0.1:{self.gateway.port}"),
            *("--metrics", f"127.0.0.1:{self.gateway.http_port}", *self._options),
        ]
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as output, os.fdopen(2, "wb", closefd=False) as errors:
            self.process = commands().start(*words, output=output, errors=errors)
        self._said = os.fdopen(reading)
        said = self._said.readline()
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
            assert self._said is not None
            self.process.terminate()
            try:
                assert self.process.wait(PATIENCE) == 0, "the console ends by SIGTERM with 0"
            finally:
                self._said.close()
            self.process = None

    def cpu_seconds(self) -> float:
        """The processor time that the console has taken so far."""
        assert self.process is not None
        return cpu_seconds(self.process.pid)
