"""The console as a process: its command line is checked; then it serves until it is told
to stop."""

import asyncio
import errno
import os
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import uvicorn

from distributary.ingest.console.asking.metrics_poller import MetricsPoller
from distributary.ingest.console.pages.login_pages import Door
from distributary.ingest.console.pages.site import NAVIGATION, application
from distributary.ingest.console.records.home_records import HomeRecords
from distributary.ingest.console.records.lake_records import LakeRecords
from distributary.ingest.console.settings.console_settings import ConsoleSettings, RequestSettings
from distributary.ingest.console.web.browser_connections import close_silent
from distributary.ingest.console.web.entrance import Entrance
from distributary.ingest.console.web.static_assets import StaticAssets
from distributary.ingest.console.web.templates import Templates
from distributary.ingest.console.web.visit import Console
from distributary.jobs.client.management_client import Gateway
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.home.home import Home


@dataclass(frozen=True, slots=True)
class Place:
    """The address at which the console listens. `names`: hosts by which browsers may call it;
    `certificate` and `key` are PEM files for TLS."""

    host: str
    port: int
    names: frozenset[str]
    certificate: Path | None = None
    key: Path | None = None

    @property
    def url(self) -> str:
        """Address to type into a browser."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.certificate else 'http'}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Watched:
    """The gateway that the console shows, at one of these addresses; addresses of the metrics of
    the gateway and its standbys; its home, None where only its tables can be reached, and its
    `topic_log`."""

    gateways: tuple[Gateway, ...]
    metrics: tuple[str, ...]
    home: Home | None
    log: Store


def serve(place: Place, watched: Watched, settings: ConsoleSettings) -> None:
    """Serve until SIGTERM or Ctrl-C. Raises InvalidRequest for a place that can't be, StoreError
    for a port that is taken."""
    _check_certificate(place)
    listening = _listen(place)
    place = replace(place, port=listening.getsockname()[1])
    asyncio.run(
        _serve(_Server(_config(place, settings.requests)), listening, place, watched, settings)
    )


class _Server(uvicorn.Server):
    """Ends by SIGTERM or Ctrl-C with exit code 0; uvicorn's own would die of the signal."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Called by uvicorn around its work."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.handle_exit)
        yield


async def _serve(
    server: uvicorn.Server,
    listening: socket.socket,
    place: Place,
    watched: Watched,
    settings: ConsoleSettings,
) -> None:
    assets = StaticAssets()
    templates = Templates(assets)
    shown = " or ".join(one.address for one in watched.gateways)
    poller = MetricsPoller(watched.metrics, settings.asking)
    main = HomeRecords(watched.log, watched.home, settings.records)
    records = LakeRecords.of_home(main, watched.home, settings.records)
    console = Console(settings, templates, poller, records, NAVIGATION)
    secure = place.certificate is not None
    cookie = f"{'__Host-' if secure else ''}distributary-{place.port}"
    door = Door(Entrance(watched.gateways, settings), templates, shown, cookie, secure)
    server.config.app = application(console, door, assets, place.names)
    print(f"console of {shown} at {place.url}", flush=True)  # noqa: T201 (the command's output)
    tidying = asyncio.create_task(close_silent(server, settings.requests.seconds_max))
    await server.serve(sockets=[listening])
    tidying.cancel()


def _check_certificate(place: Place) -> None:
    if place.certificate is None:
        return
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(place.certificate, place.key, password=lambda: "")
    except (ssl.SSLError, OSError, ValueError) as error:
        why = f"--tls-cert {place.certificate} can't be used with its key: {error}"
        raise InvalidRequest(f"{why}. Both are PEM, the key without a password") from None


def _listen(place: Place) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in place.host else socket.AF_INET
        return socket.create_server((place.host, place.port), family=family, backlog=128)
    except (OSError, OverflowError) as error:
        number = getattr(error, "errno", None) or 0
        text = f"the console can't listen on {place.host}:{place.port}"
        if number in (errno.EADDRINUSE, errno.EACCES):
            why = os.strerror(number)
            raise StoreError(f"{text}: {why}. Name another one by --listen (port 0: any)") from None
        raise InvalidRequest(f"{text}: {error}. --listen is HOST:PORT of this machine") from None


def _config(place: Place, limits: RequestSettings) -> uvicorn.Config:
    return uvicorn.Config(
        "",
        log_level="error",
        access_log=False,
        http="h11",
        ws="none",
        server_header=False,
        date_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections_max,
        h11_max_incomplete_event_size=limits.head_bytes_max,
        timeout_graceful_shutdown=limits.stop_seconds,
        ssl_certfile=place.certificate,
        ssl_keyfile=place.key,
    )
