"""Cost of publishing to a topic that is divided over three logs, and of consuming from it, at a
gateway that owns one of them: CPU of all gateways for a message, against a topic of its own log and
one of another log. In turns, as the machine isn't alike all the time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from distributary.pipeline.lake.placement import Placement, Rule
from distributary.pipeline.tables.lake.disk_lake import DiskLake
from tests.bench.bench import Bench, Measurement
from tests.bench.relayed import round_of
from tests.bench.server import Server, fresh_home, gateway

LOGS: Final = ("main", "one", "two")
#: Kinds of topics by the beginning of their names, all used at the gateway of `main`.
PLACEMENT: Final = Placement(1, LOGS, (Rule("relayed.#", ("one",)), Rule("parts.#", LOGS, 3)))
KINDS: Final = ("direct", "relayed", "parts")


def partitions(bench: Bench) -> Measurement:
    """Publish to a durable subscription, then drain it."""
    measurement = Measurement()
    used: dict[str, list[float]] = {}
    with _lake(bench) as servers, bench.using(servers[0]):
        for turn in range(bench.settings.repeat + 1):
            for kind in KINDS:
                for what, us in round_of(bench, servers, f"{kind}."):
                    if turn:  # the first one is cold
                        used.setdefault(f"{kind}_{what}_us", []).append(us)
        measurement.rss_mb = servers[0].rss_mb()
    measurement.facts |= {name: min(all_of_it) for name, all_of_it in used.items()}
    return measurement


@contextmanager
def _lake(bench: Bench) -> Iterator[tuple[Server, ...]]:
    """The gateways of all logs, that of `main` first."""
    with fresh_home(bench.folder) as home:
        DiskLake(home).replace(None, PLACEMENT)
        with (
            gateway(f"{bench.serve} --log main", home) as first,
            gateway(f"{bench.serve} --log one", home) as second,
            gateway(f"{bench.serve} --log two", home) as third,
        ):
            yield first, second, third
