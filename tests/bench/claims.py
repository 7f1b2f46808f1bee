"""Costs of subscriptions for a publisher and each other: ten selectors on one topic, a thousand
subscriptions without consumers, ten thousand patterns, and messages with header attributes."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final

from tests.bench import frames
from tests.bench.bench import Bench, Measurement
from tests.bench.peer import Peer
from tests.bench.server import fresh_home

#: Subscriptions with selectors, of which each matches one in so many messages.
SELECTED: Final = 10
#: Subscriptions without consumers.
IDLE: Final = 1_000
#: A few of such subscriptions.
FEW: Final = 50
#: Subscriptions of patterns that the topic doesn't match.
PATTERNS: Final = 10_000
ROUND: Final = 50_000
#: Milliseconds that messages with a time to live have: none of them expires here.
TTL_MS: Final = 3_600_000

#: How to load a topic, and messages a second and CPU microseconds a message of it.
Round = Callable[[], tuple[float, float]]


def selectors_10(bench: Bench) -> Measurement:
    """Publish while ten durable subscriptions are consumed, each with a tenth of the messages; and
    while ten consumers of one take turns, which is as many deliveries to as many sockets."""
    measurement, turns = Measurement(), Measurement()
    for _ in range(bench.settings.repeat):
        _consumed_by_ten(bench, measurement, selecting=True)
        _consumed_by_ten(bench, turns, selecting=False)
    measurement.rss_mb = bench.server.rss_mb()
    if measurement.cpu is not None and turns.cpu is not None:
        selected, in_turn = (
            one.cpu.total / one.messages * 1e6 for one in (measurement, turns) if one.cpu
        )
        measurement.facts = {"in_turn_us": in_turn, "selecting_us": selected - in_turn}
    return measurement


def _consumed_by_ten(bench: Bench, measurement: Measurement, *, selecting: bool) -> None:
    topic, count = bench.name("tenths"), bench.settings.count(100_000) // SELECTED * SELECTED
    names = tuple(bench.name("tenth") for _ in range(SELECTED if selecting else 1))
    texts = tuple(f"n = {nth} AND k = 'v'" for nth in range(SELECTED)) if selecting else ()
    drain = bench.spec(
        "drain",
        topic,
        count,
        subscriptions=names,
        selectors=texts,
        connections=SELECTED,
        owed=count,
    )
    outcomes, cpu = bench.measured(drain, bench.spec("publish", topic, count, kinds=SELECTED))
    outcomes[0].started = outcomes[1].started
    measurement.add(outcomes, cpu, counted=outcomes[0])
    bench.unsubscribe(names, topic)


def idle_1000(bench: Bench) -> Measurement:
    """Publishing to a topic with a thousand durable subscriptions without consumers, against a
    topic with a single one; and a start with them."""
    measurement, count = Measurement(), bench.settings.count(ROUND)
    with fresh_home(bench.folder) as home:
        with bench.gateway(home):
            one, many = bench.name("one"), bench.name("many")
            bench.subscribe([bench.name("idle")], one)
            began = time.monotonic()
            subscribe_many(bench, many)
            measurement.facts["subscribe_ms"] = (time.monotonic() - began) / IDLE * 1e3
            slower = _compared(
                bench, lambda: _publish(bench, one, count), lambda: _publish(bench, many, count)
            )
            measurement.facts |= slower
            measurement.rss_mb = bench.server.rss_mb()
        began = time.monotonic()
        with bench.gateway(home):
            measurement.facts["start_s"] = time.monotonic() - began
    return measurement


def idle_50(bench: Bench) -> Measurement:
    """Memory of a gateway whose topic has fifty durable subscriptions without consumers, while it
    is published to; and with a single one."""
    measurement, count = Measurement(), bench.settings.count(ROUND)
    for fact, subscriptions in (("one_mb", 1), ("many_mb", FEW)):
        with bench.fresh():
            topic = bench.name("memory")
            subscribe_many(bench, topic, subscriptions)
            for _ in range(bench.settings.repeat + 1):
                _publish(bench, topic, count)
            measurement.rss_mb = bench.server.rss_mb()
            measurement.facts[fact] = measurement.rss_mb or 0.0
    return measurement


def patterns(bench: Bench) -> Measurement:
    """Publishing to a topic beside ten thousand durable subscriptions of patterns that it doesn't
    match, against none; and beside as many of other topics (`plain`)."""
    measurement, found = Measurement(), list[list[tuple[float, float]]]()
    for last in ("", "x", "*"):
        with bench.fresh():
            topic, count = f"{bench.name('one')}.eu", bench.settings.count(ROUND)
            peer = Peer(bench.server.endpoint)
            for nth in range(PATTERNS if last else 0):
                peer.attach(frames.shared_durable(bench.name("claims"), f"other.{nth}.{last}"))
                peer.detach(closed=False)
            peer.close()
            bench.server.wait_quiet()
            _publish(bench, topic, count)
            rounds = range(bench.settings.repeat + 1)
            found.append([_publish(bench, topic, count) for _ in rounds])
            measurement.rss_mb = bench.server.rss_mb()
    none, plain, claimed = found
    of_plain = _ratios(list(zip(none, plain, strict=True)))
    measurement.facts |= _ratios(list(zip(none, claimed, strict=True)))
    measurement.facts |= {f"plain_{fact}": value for fact, value in of_plain.items()}
    return measurement


def attributes(bench: Bench) -> Measurement:
    """Publishing and draining with an expiry on every message, and with priorities drawn at
    random, each against plain messages."""
    measurement, count = Measurement(), bench.settings.count(ROUND)
    with bench.fresh():
        plain = _through(bench, count)
        _through(bench, count)()
        for name, other in (
            ("ttl", _through(bench, count, ttl_ms=TTL_MS)),
            ("priority", _through(bench, count, priorities=True)),
        ):
            found = _compared(bench, plain, other)
            measurement.facts |= {f"{name}_{fact}": value for fact, value in found.items()}
    return measurement


def subscribe_many(bench: Bench, topic: str, count: int = IDLE) -> None:
    """So many durable subscriptions of a topic, made over one connection."""
    peer = Peer(bench.server.endpoint)
    for _ in range(count):
        peer.attach(frames.shared_durable(bench.name("idle"), topic))
        peer.detach(closed=False)
    peer.close()


def _publish(bench: Bench, topic: str, count: int) -> tuple[float, float]:
    outcomes, cpu = bench.measured(bench.spec("publish", topic, count))
    (publisher,) = outcomes
    assert cpu is not None
    return count / (publisher.ended - publisher.started), cpu.total / count * 1e6


def _through(bench: Bench, count: int, **fields: object) -> Round:
    """All published, then all drained."""

    def run() -> tuple[float, float]:
        topic, name = bench.name("traits"), bench.name("owed")
        bench.subscribe([name], topic)
        published, first = bench.measured(bench.spec("publish", topic, count, **fields))
        drain = bench.spec("drain", topic, count, subscriptions=(name,), owed=count)
        drained, second = bench.measured(drain)
        assert first is not None
        assert second is not None
        bench.unsubscribe([name], topic)
        seconds = sum(one.ended - one.started for one in (*published, *drained))
        return count / seconds, (first.total + second.total) / count * 1e6

    return run


def _compared(bench: Bench, usual: Round, other: Round) -> dict[str, float]:
    """Rounds that take turns, so that a machine that gets slower gets slower for both."""
    return _ratios([(usual(), other()) for _ in range(bench.settings.repeat + 1)])


def _ratios(pairs: Sequence[Sequence[tuple[float, float]]]) -> dict[str, float]:
    """How much slower the second of each pair is, and how many times its work."""

    def ratio(which: int) -> float:
        one, another = ([pair[side][which] for pair in pairs] for side in (0, 1))
        return statistics.median(another) / statistics.median(one)

    return {"slower_pct": 100 * (1 - ratio(0)), "cpu_ratio": ratio(1)}
