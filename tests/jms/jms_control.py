"""The Java tests' hand on the gateways: a small HTTP server that starts, kills and stops them.

`POST /gateways` starts a gateway with a home of its own and answers `<number> <port> <folder>`,
`POST /gateways/secured` one with users, permissions and TLS (`jms_security`), whose clients find
their files in the folder, `POST /gateways/ruled` one with policies (`jms_policies`),
`POST /gateways/checked` one with schemas (`jms_schemas`).
`POST /gateways/<number>/<start | kill | stop | end>` does that to it and answers when it is done. A
gateway that has said that it has a bug fails the test that ends it, or else the whole run.
"""

import random
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

from gateway_fleet import as_asked
from gateway_process import Gateway
from jms_policies import ruled
from jms_schemas import checked, set_schemas
from jms_security import secured

#: Gateways with settings of their own, by what is asked for; each makes its files in a folder.
KINDS = {"secured": secured, "ruled": ruled, "checked": checked}
#: What is done to some of them when they have started.
THEN = {"checked": set_schemas}


class Gateways:
    """All gateways of one run, by number; number 0 is the one that most tests share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends = ExitStack()
        self._made: list[Gateway] = []
        self._lock = threading.Lock()
        self._ports = count(random.randrange(15_000, 30_000))

    def make(self, kind: str | None = None) -> tuple[int, Gateway]:
        """One more gateway, started: a plain one, or one of `KINDS`."""
        with self._lock:
            number = len(self._made)
            folder = self._folder / f"gateway-{number}"
            folder.mkdir()
            settings = KINDS[kind](folder / "files") if kind else None
            gateway = as_asked(folder, settings)
            gateway.port = self._port()
            self._made.append(gateway)
            self._ends.push(gateway)
        gateway.start()
        if kind in THEN:
            THEN[kind](gateway)
        return number, gateway

    def _port(self) -> int:
        """A free port below those that the system gives to outgoing connections: while a gateway
        is down, no client's connection takes its port."""
        while True:
            port = next(self._ports)
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)):
                    return port

    def act(self, number: int, verb: str) -> None:
        gateway = self._made[number]
        match verb:
            case "start":
                gateway.start()
            case "kill":
                gateway.kill()
            case "stop":
                gateway.stop()
            case "end":
                gateway.__exit__(None, None, None)
            case _:
                raise ValueError(f"a gateway can start, kill, stop and end, not {verb}")

    def end(self) -> None:
        self._ends.close()


class _Handler(BaseHTTPRequestHandler):
    gateways: Gateways
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        _, _, *rest = self.path.split("/")
        try:
            if len(rest) == 2:
                self.gateways.act(int(rest[0]), rest[1])
                said = ""
            else:
                number, gateway = self.gateways.make(*rest)
                said = f"{number} {gateway.port} {gateway.config.parent / 'files'}"
            code = 200
        except (AssertionError, ValueError, LookupError) as error:
            code, said = 500, str(error)
        body = said.encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """The tests' own output is the log."""


@contextmanager
def serve(gateways: Gateways) -> Iterator[int]:
    """The control server, on a port of the loopback, until the block ends."""
    handler = type("Handler", (_Handler,), {"gateways": gateways})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()
