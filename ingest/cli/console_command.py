"""`distributary console`: a gateway in the browser."""

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from distributary.pipeline.errors import InvalidRequest

if TYPE_CHECKING:
    from distributary.pipeline.tables.delta.store import Store
    from distributary.pipeline.tables.home.home import Home

_file = click.Path(path_type=Path)


@click.command()
@click.option(
    "--gateway",
    "addresses",
    multiple=True,
    default=("127.0.0.1:5672",),
    show_default=True,
    envvar="DISTRIBUTARY_GATEWAY",
    help="HOST:PORT of the gateway; amqps://HOST:PORT for TLS; once more for each standby.",
)
@click.option("--tls-ca", type=_file, help="PEM file: the CA of the gateway's certificate.")
@click.option("--home", type=_file, help="The gateway's folder, for its tables and audits.")
@click.option(
    "--tables",
    metavar="URL",
    help="Where its tables lie, if not in its home: tables.url of the gateway's settings.",
)
@click.option(
    "--metrics",
    multiple=True,
    default=("127.0.0.1:8162",),
    show_default=True,
    metavar="HOST:PORT",
    help="http.listen of the gateway; once more for each standby.",
)
@click.option("--listen", default="127.0.0.1:8161", show_default=True, metavar="HOST:PORT")
@click.option("--tls-cert", type=_file, help="PEM file: the console's certificate, for https.")
@click.option("--tls-key", type=_file, help="PEM file with its key.")
@click.option("--name", "names", multiple=True, help="A host name that browsers call it by.")
@click.option("--without-tls", is_flag=True, help="Listen beyond this machine without https.")
@click.option("--config", type=_file, help="A TOML file of the console's settings.")
def console(
    addresses: tuple[str, ...],
    tls_ca: Path | None,
    home: Path | None,
    tables: str | None,
    metrics: tuple[str, ...],
    listen: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    names: tuple[str, ...],
    without_tls: bool,
    config: Path | None,
) -> None:
    """Show a gateway in the browser, and operate it from there.

    \b
    Examples:
      distributary console --home ~/orders
      distributary console --home ~/orders --gateway amqps://mq:5671 --tls-ca ca.pem
      distributary console --home ~/orders --gateway mq1:5672 --gateway mq2:5672 \\
        --metrics mq1:8162 --metrics mq2:8162
      distributary console --tables s3://lake/distributary --gateway mq:5672 --metrics mq:8162
      distributary console --home ~/orders --listen 0.0.0.0:8161 --name console.example.org \\
        --tls-cert me.pem --tls-key me.key

    People log in with the gateway's own users and may do what these may; where the gateway takes
    peers without a login, no login is asked for. It ends with Ctrl-C.
    Exit code 1: its port is taken. 2: an argument is wrong.
    """
    try:
        from distributary.ingest.console import console_server as server  # noqa: PLC0415 (an extra)
    except ModuleNotFoundError as error:
        package = (error.name or "a package").partition(".")[0]
        raise InvalidRequest(
            f"the console needs {package}: pip install 'distributary[console]'"
        ) from None
    from distributary.ingest.console.settings.console_settings import load  # noqa: PLC0415
    from distributary.jobs.client.management_client import Gateway  # noqa: PLC0415 (as above)
    from distributary.pipeline.tables.home.home import Home  # noqa: PLC0415 (as above)

    host, port = _address(listen, "--listen")
    for one in metrics:
        _address(one, "--metrics")
    _check_files(tls_ca, tls_cert, tls_key)
    if not _is_loopback(host) and tls_cert is None and not without_tls:
        raise InvalidRequest(
            f"{host} is reached from other machines, and passwords would go there as they are "
            "typed: give --tls-cert and --tls-key, or say --without-tls"
        )
    gateways = tuple(Gateway(one, authority=tls_ca) for one in addresses)
    for gateway in gateways:
        gateway.domain()  # whether the file can be read
    known = frozenset(name.lower() for name in (*names, host))
    place = server.Place(host, port, known, tls_cert, tls_key)
    at = None if home is None else Home(home)
    server.serve(place, server.Watched(gateways, metrics, at, _log(at, tables)), load(config))


def _log(home: "Home | None", tables: str | None) -> "Store":
    """Return the store of the gateway's topic_log. Raises InvalidRequest if it isn't there."""
    if home is not None and not any(one.is_dir() for one in (home.topic_log, home.journal_dir)):
        text = f"{home.root} is no gateway's home: it has neither tables nor a journal"
        raise InvalidRequest(text)
    if tables is not None:
        if "://" not in tables:
            text = f"--tables is an address such as s3://BUCKET/FOLDER, not '{tables}'"
            raise InvalidRequest(text)
        from distributary.pipeline.tables.delta.object_store import ObjectStore  # noqa: PLC0415 (loads a client)

        return ObjectStore(f"{tables.rstrip('/')}/topic_log", {})
    if home is None:
        raise InvalidRequest("name the place of the gateway's tables by --home or --tables")
    from distributary.pipeline.tables.delta.store import LocalStore  # noqa: PLC0415 (the tables' libraries)

    return LocalStore(home.topic_log)


def _check_files(tls_ca: Path | None, tls_cert: Path | None, tls_key: Path | None) -> None:
    """Check TLS's files. Raises InvalidRequest for missing ones."""
    if tls_key is not None and tls_cert is None:
        raise InvalidRequest("--tls-key is of no use without --tls-cert")
    for file in (tls_ca, tls_cert, tls_key):
        if file is not None and not file.is_file():
            raise InvalidRequest(f"{file} is no file")


def _address(text: str, option: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise InvalidRequest(f"{option} is HOST:PORT, not '{text}'")
    return host.strip("[]"), int(port)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
