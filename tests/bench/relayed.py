"""Cost of publishing and consuming through a gateway that doesn't own the topic's log: CPU of both
gateways for a message, against the owner alone. In turns, as the machine isn't alike all the
time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from distributary.pipeline.lake.placement import Placement, Rule
from distributary.pipeline.tables.lake.disk_lake import DiskLake
from tests.bench.bench import Bench, Measurement
from tests.bench.server import Server, fresh_home, gateway

MESSAGES: Final = 200_000
#: All topics are in one log, and the other gateway owns none of them.
PLACEMENT: Final = Placement(1, ("main", "owned"), (Rule("#", ("owned",)),))


def relayed(bench: Bench) -> Measurement:
    """Publish to a durable subscription, then drain it: at the owner, and through the other."""
    measurement = Measurement()
    used: dict[str, list[float]] = {}
    with _lake(bench) as (owner, other):
        for turn in range(bench.settings.repeat + 1):
            for kind, server in (("direct", owner), ("relayed", other)):
                with bench.using(server):
                    for what, us in round_of(bench, (owner, other)):
                        if turn:  # the first one is cold
                            used.setdefault(f"{kind}_{what}_us", []).append(us)
        measurement.rss_mb = other.rss_mb()
    measurement.facts |= {name: min(all_of_it) for name, all_of_it in used.items()}
    for what in ("publish", "drain"):
        facts = measurement.facts
        facts[f"{what}_on_top_us"] = facts[f"relayed_{what}_us"] - facts[f"direct_{what}_us"]
    return measurement


def round_of(
    bench: Bench, servers: tuple[Server, ...], before_name: str = ""
) -> Iterator[tuple[str, float]]:
    """CPU microseconds of all these gateways for a message, in a topic whose name begins so."""
    count, subscription = bench.settings.count(MESSAGES), bench.name("kept")
    topic = before_name + bench.name("relayed")
    bench.subscribe([subscription], topic)
    publish = bench.spec("publish", topic, count, ids=True)
    drain = bench.spec("drain", topic, count, subscriptions=(subscription,), owed=count)
    for what, spec in (("publish", publish), ("drain", drain)):
        before = _quiet(servers)
        bench.load(spec)
        yield what, (_quiet(servers) - before) / count * 1e6
    bench.unsubscribe([subscription], topic)


def _quiet(servers: tuple[Server, ...]) -> float:
    """Seconds of CPU that they have used, when they are quiet."""
    for server in servers:
        server.wait_quiet()
    return sum(server.cpu().total for server in servers)


@contextmanager
def _lake(bench: Bench) -> Iterator[tuple[Server, Server]]:
    """The owner of all topics, and a gateway that owns none."""
    with fresh_home(bench.folder) as home:
        DiskLake(home).replace(None, PLACEMENT)
        with (
            gateway(f"{bench.serve} --log owned", home) as owner,
            gateway(f"{bench.serve} --log main", home) as other,
        ):
            yield owner, other
