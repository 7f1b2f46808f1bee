"""Measure the gateway, or any AMQP 1.0 server: `python -m tests.bench --help`."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

from rich.console import Console

from distributary.pipeline.errors import StoreError
from tests.bench import report
from tests.bench.bench import Bench, Settings
from tests.bench.cases import Case, chosen, warm_up
from tests.bench.peer import Endpoint, LoadError
from tests.bench.server import Server, fresh_home, gateway

#: The table is this wide, whatever the terminal or the file that it goes to.
WIDTH_MIN = 110
ROOT = Path(__file__).resolve().parents[2]
#: Beside the interpreter that runs this: the gateway of the same environment.
GATEWAY = Path(sys.executable).parent / "distributary"
SERVE = f"{GATEWAY} serve --home {{home}} --listen 127.0.0.1:{{port}}"


def _arguments() -> argparse.Namespace:
    environment = os.environ.get
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    add = parser.add_argument
    add("cases", nargs="?", default=environment("CASES", ""), help="e.g. drain,fanout (prefixes)")
    add("--repeat", type=int, default=int(environment("REPEAT", "3")), help="runs per case")
    add("--scale", type=float, default=1.0, help="share of the messages, for a quick look")
    add("--host", help="measure a server that runs there already")
    add("--port", type=int, default=5672)
    add("--pid", type=int, help="its process, for CPU and memory")
    add("--user", help="authenticate with PLAIN")
    add("--password", default="")
    add("--prefix", default="bench.", help="begins every topic and subscription")
    add("--ranges", action="store_true", help="consumers settle what a read brought with one frame")
    add("--random-data", action="store_true", help="data that compression can't make smaller")
    add("--serve", default=SERVE, help="command line of the server; {home} and {port} are filled")
    add("--folder", type=Path, default=ROOT / "build" / "bench", help="for homes: on a real disk")
    add("--json", type=Path, default=ROOT / "build" / "bench.json")
    add("--markdown", action="store_true", help="print the table as a page of the documentation")
    return parser.parse_args()


@contextmanager
def _server(options: argparse.Namespace, *, own: bool) -> Iterator[Server | None]:
    if own:
        yield None
    elif options.host is None:
        with (
            fresh_home(options.folder) as home,
            gateway(options.serve, home) as server,
        ):
            yield server
    else:
        endpoint = Endpoint(options.host, options.port, options.user, options.password)
        yield Server(endpoint, options.pid)


def _measure_group(
    options: argparse.Namespace, cases: Sequence[Case], console: Console
) -> Iterator[tuple[Case, report.Row]]:
    """One server for the cases of one group; a failed case is reported, and the next one tried."""
    settings = Settings(
        options.repeat, options.scale, options.prefix, options.ranges, options.random_data
    )
    own = cases[0].own
    if own and options.host is not None:
        raise LoadError("starts gateways of its own; leave --host away")
    with _server(options, own=own) as server:
        bench = Bench(server, settings, options.serve, options.folder)
        if not own:
            warm_up(bench)
        for case in cases:
            try:
                found = report.row(case, case.run(bench))
            except (LoadError, OSError, StoreError) as error:
                found = report.failure(case, str(error))
            console.print("  ".join(report.cells(case, found)), highlight=False, markup=False)
            yield case, found


def _measure(
    options: argparse.Namespace, cases: Sequence[Case], console: Console
) -> Iterator[tuple[Case, report.Row]]:
    for _, group in groupby(cases, key=lambda case: case.group):
        members = list(group)
        done: set[str] = set()
        try:
            for case, found in _measure_group(options, members, console):
                done.add(case.name)
                yield case, found
        except (LoadError, OSError) as error:
            for case in members:
                if case.name not in done:
                    yield case, report.failure(case, str(error))


def main() -> int:
    options = _arguments()
    try:
        cases = chosen(options.cases)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    console = Console(stderr=options.markdown)
    console.width = max(console.width, WIDTH_MIN)
    if report.filesystem(options.folder.parent) == "tmpfs":
        console.print(f"{options.folder} is in memory: fsync costs nothing there", style="yellow")
    rows = list(_measure(options, cases, console))
    report.write(options.json, rows)
    if options.markdown:
        sys.stdout.write(report.markdown(rows, options.folder.parent) + "\n")
    else:
        console.print(report.screen(rows), report.facts(rows), report.stages(rows))
        console.print(report.machine(options.folder.parent), highlight=False)
    return 1 if any("error" in found for _, found in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
