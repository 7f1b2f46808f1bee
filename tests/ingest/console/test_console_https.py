"""The console without a browser: https, and an owner with its standby."""

import http.client
import re
import ssl
import urllib.request
from collections.abc import Callable, Iterator
from http.cookiejar import CookieJar
from pathlib import Path

import pytest
from console_process import Console
from gateway_certificates import Authority
from gateway_http import ShownGateway
from gateway_process import PATIENCE, until


@pytest.fixture(scope="module")
def console(shown: ShownGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    folder = tmp_path_factory.mktemp("certificates")
    certificate, key = Authority(folder).issue("console", "console")
    words = ("--tls-cert", str(certificate), "--tls-key", str(key))
    with Console(shown, *words) as running:
        yield running


def test_over_https_a_cookie_never_goes_otherwise(console: Console) -> None:
    """It is Secure, and for this host alone."""
    assert console.url.startswith("https://")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    host, _, port = console.url.removeprefix("https://").partition(":")
    connection = http.client.HTTPSConnection(host, int(port), context=context, timeout=PATIENCE)
    connection.request("GET", "/")
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert answer.status == 200
    cookie = str(answer.getheader("set-cookie"))
    assert re.match(r"__Host-distributary-\d+=", cookie)
    assert {"HttpOnly", "Path=/", "SameSite=strict", "Secure"} <= set(cookie.split("; "))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[ShownGateway, ShownGateway]]:
    """An owner and its standby on one home."""
    with ShownGateway(tmp_path / "a") as owner:
        standby = ShownGateway(tmp_path / "b")
        standby.home, standby.options = owner.home, ["--standby"]
        standby.spawn()
        yield owner, standby
        if standby.running:
            standby.kill()


def reader(console: Console) -> Callable[[], str]:
    """A function that reads the changing part of the first page."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    opener.open(console.url).read()
    return lambda: opener.open(f"{console.url}/now/part").read().decode()


def test_owner_and_standby_are_shown(pair: tuple[ShownGateway, ShownGateway]) -> None:
    """The page says that a standby has gone; when the owner goes it shows the numbers of the
    gateway that takes over."""
    owner, standby = pair
    with Console(owner, "--metrics", f"127.0.0.1:{standby.http_port}") as console:
        said = reader(console)
        until(lambda: "stands by" in said(), "the standby is seen", every=0.2)
        assert f'127.0.0.1:{owner.http_port} <span class="chip good">serves' in said()
        owner.kill()
        taken = f'127.0.0.1:{standby.http_port} <span class="chip good">serves'
        until(lambda: taken in said(), "the new owner is read", 60.0, every=0.2)
        gone = f"The standby at 127.0.0.1:{owner.http_port} doesn&#39;t answer"
        until(lambda: gone in said(), "nobody would take over", every=0.2)
