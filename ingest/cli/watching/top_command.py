"""`distributary top`: a gateway at work, in the terminal."""

import dataclasses
import http.client
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

import click
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from distributary.ingest.cli.options.command_options import FAILED, json_option, print_json
from distributary.ingest.cli.watching.metric_readings import (
    GatewayNow,
    Order,
    Reading,
    SubscriptionNow,
    now,
    ordered,
    reading,
)
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log_names import MAIN

#: Seconds that a gateway may take to answer.
ANSWER_SECONDS = 10.0
#: Readings that the line of publishing shows, the newest at the right.
HISTORY = 60
#: Lines of the screen that aren't subscriptions.
OTHER_LINES = 12
WARNINGS_SHOWN = 4
#: Columns of a screen from which on all numbers of a subscription are shown; and a file's.
WIDE = 110
_BARS = " ▁▂▃▄▅▆▇█"


@click.command()
@click.option(
    "--metrics",
    default="127.0.0.1:8162",
    show_default=True,
    metavar="HOST:PORT",
    help="http.listen of the gateway.",
)
@click.option(
    "--every", type=click.FloatRange(0.2), default=1.0, show_default=True, help="Seconds."
)
@click.option(
    "--sort",
    type=click.Choice([*Order], case_sensitive=False),
    default="backlog",
    show_default=True,
)
@click.option("--once", is_flag=True, help="One look, then end.")
@json_option
def top(metrics: str, every: float, sort: Order, once: bool, as_json: bool) -> None:
    """Show a gateway at work: rates, latencies, and the subscriptions with most to do.

    \b
    Examples:
      distributary top
      distributary top --metrics 10.0.0.5:8162 --sort age
      distributary top --once --json

    Warnings come first. Into a file or pipe it prints one picture after the other. It ends with
    Ctrl-C. Exit code 1: no gateway answers there.
    """
    looks = _looks(metrics, every)
    if once or as_json:
        found = next(looks)
        if found is None:
            click.echo(f"distributary: no gateway answers at http://{metrics}/metrics", err=True)
            sys.exit(FAILED)
        if as_json:
            print_json(dataclasses.asdict(found))
        else:
            _console().print(_screen(metrics, found, [found.published], sort, sys.maxsize))
        return
    console = _console()
    try:
        if console.is_terminal:
            _live(console, metrics, looks, sort)
        else:
            _printed(console, metrics, looks, sort)
    except KeyboardInterrupt:
        return


def _console() -> Console:
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, WIDE)
    return console


def _printed(
    console: Console, address: str, looks: Iterator[GatewayNow | None], sort: Order
) -> None:
    """Print each picture as it comes, for a file or pipe."""
    history: deque[float] = deque(maxlen=HISTORY)
    for found in looks:
        if found is None:
            console.print(f"waiting for http://{address}/metrics ...", markup=False)
        else:
            history.append(found.published)
            console.print(_screen(address, found, history, sort, sys.maxsize))
        sys.stdout.flush()


def _live(console: Console, address: str, looks: Iterator[GatewayNow | None], sort: Order) -> None:
    history: deque[float] = deque(maxlen=HISTORY)
    waiting = Text(f"waiting for http://{address}/metrics ...", style="yellow")
    with Live(waiting, console=console, screen=True) as live:
        for found in looks:
            if found is None:
                live.update(waiting)
                continue
            history.append(found.published)
            lines = console.height - OTHER_LINES
            live.update(_screen(address, found, history, sort, lines))


def _looks(address: str, every: float) -> Iterator[GatewayNow | None]:
    """Yield a look every `every` seconds; None while no gateway answers."""
    before = _read(address)
    while True:
        time.sleep(every)
        after = _read(address)
        if before is not None and after is not None:
            yield now(before, after)
        else:
            yield None
        before = after


def _read(address: str) -> Reading | None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidRequest(f"'{address}' isn't HOST:PORT")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=ANSWER_SECONDS)
    try:
        connection.request("GET", "/metrics")
        answer = connection.getresponse()
        text = answer.read().decode()
        if answer.status != http.client.OK:
            raise InvalidRequest(f"http://{address}/metrics answers {answer.status}")
        return reading(time.monotonic(), text)
    except (OSError, http.client.HTTPException, UnicodeError):  # also of a host that is none
        return None
    finally:
        connection.close()


def _screen(
    address: str, found: GatewayNow, history: Iterable[float], sort: Order, lines: int
) -> RenderableType:
    state = Text("serves", style="green") if found.ready else Text("waits", style="bold red")
    head = Text.assemble(
        *(("distributary ", "bold"), address, "  ", state),
        *(() if found.log == MAIN else (f" the log {found.log}",)),
        f"  {found.connections:,} connections",
    )
    warnings = [Text(f"! {one}", style="red") for one in found.warnings[:WARNINGS_SHOWN]]
    if len(found.warnings) > WARNINGS_SHOWN:
        more = len(found.warnings) - WARNINGS_SHOWN
        warnings.append(Text(f"! and {more} more", style="red"))
    return Group(
        head, *warnings, _numbers(found, list(history)), _Subscriptions(found, sort, lines)
    )


def _numbers(found: GatewayNow, history: Sequence[float]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_row(
        "published",
        f"{found.published:,.0f}/s",
        _size(found.published_bytes) + "/s",
        _line(history),
    )
    grid.add_row("delivered", f"{found.deliveries:,.0f}/s", f"settled {found.settled:,.0f}/s")
    grid.add_row(
        "accept",
        f"p50 {_ms(found.accept_p50_ms)}",
        f"p99 {_ms(found.accept_p99_ms)}",
        f"write and fsync p99 {_ms(found.write_p99_ms)}",
    )
    grid.add_row(
        "log",
        f"{found.head:,} messages",
        f"{found.uncommitted:,} not in the table",
        f"journal {found.journal:.0%}, cache {found.cache:.0%}",
    )
    return grid


#: Columns of a subscription beside its name: heading, text, and whether only a wide screen has it.
COLUMNS: Sequence[tuple[str, Callable[[SubscriptionNow], str], bool]] = (
    ("delivered/s", lambda one: f"{one.deliveries:,.0f}", False),
    ("settled/s", lambda one: f"{one.settled:,.0f}", True),
    ("redelivered/s", lambda one: f"{one.redeliveries:,.0f}", True),
    ("backlog", lambda one: f"{one.backlog:,}", False),
    ("oldest", lambda one: _age(one.oldest_seconds), False),
    ("in flight", lambda one: f"{one.in_flight:,}", False),
    ("consumers", lambda one: f"{one.consumers:,}", False),
    ("credit", lambda one: f"{one.credit:,}", True),
)


class _Subscriptions:
    """The table of subscriptions, as wide as the screen. Rich draws it."""

    def __init__(self, found: GatewayNow, sort: Order, lines: int) -> None:
        self._found, self._sort, self._lines = found, sort, lines

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.max_width >= WIDE
        columns = [(heading, text) for heading, text, spare in COLUMNS if wide or not spare]
        table = Table(box=None, header_style="bold", pad_edge=False)
        table.add_column("subscription", no_wrap=True)
        for heading, _ in columns:
            table.add_column(heading, justify="right", no_wrap=True)
        shown = [
            one
            for one in ordered(self._found.subscriptions, self._sort)
            if not one.name.startswith("(") or one.backlog or one.consumers
        ]
        for one in shown[: max(self._lines, 1)]:
            table.add_row(one.name, *(text(one) for _, text in columns))
        yield table
        if len(shown) > self._lines:
            yield Text(f"and {len(shown) - self._lines:,} more", style="dim")


def _line(history: Sequence[float]) -> str:
    most = max(history, default=0.0)
    if not most:
        return ""
    return "".join(_BARS[round(one / most * (len(_BARS) - 1))] for one in history)


def _ms(value: float | None) -> str:
    return "-" if value is None else f"≤ {value:g} ms"


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s" if seconds else "-"


def _size(size: float) -> str:
    for unit in ("B", "KB", "MB"):
        if size < 1_000:
            return f"{size:,.0f} {unit}"
        size /= 1_000
    return f"{size:,.1f} GB"
