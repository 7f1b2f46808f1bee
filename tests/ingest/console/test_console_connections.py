"""Connections that ask for nothing keep no user out of the console for long."""

import http.client
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

from console_process import Console
from gateway_http import ShownGateway
from gateway_process import PATIENCE, until


def status(console: Console) -> int:
    """The status that a new connection gets from the console now; 0 if the console closes it."""
    connection = http.client.HTTPConnection(urlsplit(console.url).netloc, timeout=PATIENCE)
    try:
        connection.request("GET", "/login")
        return connection.getresponse().status
    except (ConnectionError, http.client.HTTPException):
        return 0
    finally:
        connection.close()


def test_silent_connections_are_closed(shown: ShownGateway, tmp_path: Path) -> None:
    """Connections are closed that send nothing, half a request, or a request without its body."""
    settings = tmp_path / "console.toml"
    settings.write_text("[requests]\nconnections_max = 6\nseconds_max = 4\n")
    with Console(shown, "--config", str(settings)) as console, ExitStack() as ends:
        parts = urlsplit(console.url)
        host = f"Host: {parts.netloc}\r\nOrigin: {console.url}\r\n".encode()
        silent: list[socket.socket] = []
        without_body = b"POST /login HTTP/1.1\r\n" + host + b"Content-Length: 1000\r\n\r\nuser="
        half = b"GET /login HTTP/1.1\r\n" + host
        for said in (without_body, without_body, half, half, half, b"", b"", b""):
            one = socket.create_connection(
                (parts.hostname or "", parts.port or 0), timeout=PATIENCE
            )
            silent.append(ends.enter_context(one))
            one.send(said)
        until(lambda: status(console) == 503, "they keep others out")
        until(lambda: status(console) == 200, "the silent ones are closed")
        for one in silent:
            with suppress(ConnectionResetError):
                while one.recv(1_000):
                    pass
