"""The console over ten thousand subscriptions: how soon a page is painted, how long a list takes to
search and sort, and what it costs the gateway while a browser looks and when none does."""

import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).resolve().parents[1] / "support"))

from chromium import FLAGS, chromium
from playwright.sync_api import Page, sync_playwright

from tests.bench.bench import Bench, Measurement
from tests.bench.claims import subscribe_many
from tests.bench.server import Server, free_port

MANY: Final = 10_000
#: Seconds for which a browser looks, and for which none does.
LOOKED_SECONDS: Final = 30.0
#: Seconds after which the console asks nothing more, with its connections closed.
QUIET_SECONDS: Final = 45.0
LISTS: Final = (
    "",
    "search=idle",
    "sort=backlog&down=1",
    "sort=topic&page=100",
    "search=is:idle",
    "page=77",
)
_PAINTED: Final = """() => {
  const found = performance.getEntriesByName("first-contentful-paint");
  return found.length ? found[0].startTime : null;
}"""


def console(bench: Bench) -> Measurement:
    """The case."""
    measurement, port = Measurement(), free_port()
    with bench.fresh({"HTTP_LISTEN": f"127.0.0.1:{port}"}) as server:
        subscribe_many(bench, bench.name("many"), round(MANY * min(bench.settings.scale, 1.0)))
        server.wait_quiet()
        alone = _busy(server, time.sleep)
        with _console(bench, server.endpoint.port, port) as url, _browser() as page:
            painted = {path: _painted(page, url + path) for path in ("/subscriptions", "/")}
            took = sorted(_listed(url))
            page.goto(url)
            looked = _busy(server, lambda seconds: page.wait_for_timeout(seconds * 1_000))
            page.goto("about:blank")
            page.wait_for_timeout(QUIET_SECONDS * 1_000)
            unseen = _busy(server, lambda seconds: page.wait_for_timeout(seconds * 1_000))
        measurement.facts = {
            "list_paint_ms": painted["/subscriptions"],
            "now_paint_ms": painted["/"],
            "list_p50_ms": took[len(took) // 2],
            "list_max_ms": took[-1],
            "alone_pct": alone,
            "looked_pct": max(looked - alone, 0.0),
            "unseen_pct": max(unseen - alone, 0.0),
        }
        measurement.rss_mb = server.rss_mb()
    return measurement


def _busy(server: Server, wait: Callable[[float], None]) -> float:
    """The gateway's share of a core for a while, in per cent."""
    began, cpu = time.monotonic(), server.cpu().total
    wait(LOOKED_SECONDS)
    return (server.cpu().total - cpu) / (time.monotonic() - began) * 100


@contextmanager
def _console(bench: Bench, amqp: int, http: int) -> Iterator[str]:
    """A console of that gateway; its address. It reads no table here: any home will do."""
    home = bench.folder / "console-home"
    (home / "journal").mkdir(parents=True, exist_ok=True)
    words = [
        *(str(Path(sys.executable).with_name("distributary")), "console", "--home", str(home)),
        *("--gateway", f"127.0.0.1:{amqp}", "--metrics", f"127.0.0.1:{http}"),
        *("--listen", "127.0.0.1:0"),
    ]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def _browser() -> Iterator[Page]:
    found = chromium()
    environment: dict[str, str | float | bool] = {**os.environ, **found.environment}
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=found.program, args=[*FLAGS], env=environment
        )
        yield made.new_page(locale="en-US")
        made.close()


def _painted(page: Page, address: str) -> float:
    """Milliseconds until something is painted."""
    page.goto(address)
    return float(page.wait_for_function(_PAINTED).json_value())


def _listed(url: str) -> Iterator[float]:
    """How long each of several pages of the list takes, in milliseconds."""
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    opener.open(f"{url}/subscriptions").read()
    for _ in range(5):
        for asked in LISTS:
            began = time.perf_counter()
            opener.open(f"{url}/subscriptions/part?{asked}").read()
            yield (time.perf_counter() - began) * 1e3
