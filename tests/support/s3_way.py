"""The way to a store: requests pass through it, or go wrong as a plan says.

Run as a program it is the way itself, in a process of its own (`python s3_way.py PORT`): a client
that holds the interpreter while it waits must not wait for itself. The plan comes over HTTP, too.
"""

import http.client
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Where the plan is; no bucket has such a name.
PLAN = "/~plan"


@dataclass(frozen=True)
class Plan:
    """Requests that go wrong: of those whose method and path match, the `nth` and `times` - 1 after
    it. If `lost`, the store performs them, and the answer is an error; otherwise they don't reach
    it."""

    what: str = "(?!)"
    nth: int = 1
    times: int = 1
    lost: bool = False


class Way:
    """The test's side of it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.url = f"http://127.0.0.1:{port}"

    def plan(self, plan: Plan) -> None:
        """From now on this goes wrong, counted from here."""
        self._ask("PUT", json.dumps(asdict(plan)))

    @property
    def seen(self) -> int:
        """How many requests have matched the plan."""
        return int(self._ask("GET", ""))

    def _ask(self, method: str, body: str) -> str:
        client = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            client.request(method, PLAN, body)
            return client.getresponse().read().decode()
        finally:
            client.close()


@contextmanager
def way_to(port: int) -> Iterator[Way]:
    """A way to the store that listens on this port."""
    program = [sys.executable, __file__, str(port)]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Way(int(process.stdout.readline()))
    finally:
        process.kill()
        process.communicate()


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store = 0
    plan = Plan()
    seen = 0

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        if self.path == PLAN:
            self._answer(200, {}, self._planned(body))
            return
        struck = self._struck()
        found: tuple[int, Mapping[str, str], bytes] = (403, {}, b"")
        if not struck or self.plan.lost:
            found = self._ask(body)
        self._answer(*((403, {}, b"<Error><Code>Struck</Code></Error>") if struck else found))

    def _planned(self, body: bytes) -> bytes:
        if self.command == "PUT":
            _Passing.plan, _Passing.seen = Plan(**json.loads(body)), 0
        return str(_Passing.seen).encode()

    def _struck(self) -> bool:
        if not re.search(self.plan.what, f"{self.command} {self.path}"):
            return False
        _Passing.seen += 1
        return 0 <= _Passing.seen - self.plan.nth < self.plan.times

    def _ask(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        client = http.client.HTTPConnection("127.0.0.1", self.store)
        try:
            client.request(self.command, self.path, body, dict(self.headers))
            found = client.getresponse()
            return found.status, dict(found.getheaders()), found.read()
        finally:
            client.close()

    def _answer(self, status: int, headers: Mapping[str, str], answer: bytes) -> None:
        said = {name.lower(): value for name, value in headers.items()}
        length = said.get("content-length", "0") if self.command == "HEAD" else str(len(answer))
        self.send_response(status)
        for name, value in said.items():
            if name not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        self.send_header("content-length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass  # noqa: N815

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


if __name__ == "__main__":
    _Passing.store = int(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Passing)
    print(server.server_address[1], flush=True)  # noqa: T201
    server.serve_forever()
