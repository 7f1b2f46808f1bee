"""The cases, what each of them does to a server, and what each must reach.

Cases of one group share a server and its home; every group begins with a fresh one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from distributary.ingest.runtime.budgets import together
from distributary.ingest.runtime.load_settings import load
from tests.bench.attacks import ATTACKS
from tests.bench.auditing import auditing
from tests.bench.backing_up import backing_up
from tests.bench.bench import Bench, Measurement
from tests.bench.claims import attributes, idle_50, idle_1000, patterns, selectors_10
from tests.bench.compaction import compaction
from tests.bench.consoling import console
from tests.bench.crowd import crowd
from tests.bench.decoding import decode
from tests.bench.diskless import on_a_store
from tests.bench.dispatching import dispatch
from tests.bench.executors import executors
from tests.bench.halves import halves
from tests.bench.handing_over import handing_over
from tests.bench.hostile import hostile
from tests.bench.large_operations import OPERATIONS
from tests.bench.long import long
from tests.bench.materializing import batches, freshness, materialize, typed
from tests.bench.mixed import interleaved
from tests.bench.month import month
from tests.bench.neighbours import neighbours
from tests.bench.partitions import partitions
from tests.bench.python_client import python_client
from tests.bench.relayed import relayed
from tests.bench.replies import reply
from tests.bench.restarts import restart, standby
from tests.bench.resting import resting, starting
from tests.bench.retroactive import retroactive
from tests.bench.scraping import scraping
from tests.bench.selectors import selectors
from tests.bench.settled import settled
from tests.bench.subscriber import subscriber
from tests.bench.traced import traced
from tests.bench.transactions import transactions
from tests.bench.validating import validate
from tests.bench.viewing import viewing

#: Messages published before the first case of a group, so that nothing is measured cold.
WARM_UP_COUNT = 20_000
#: Single messages before those that are measured: their commit is the first of many groups.
REHEARSAL_COUNT = 300
#: The longest that a hostile peer may have others wait, on a quiet machine.
HOSTILE_STALL_MS_MAX = 50
#: A gateway that has a witness and no attacker, and the connections of both.
OWN_MB, HOSTILE_CONNECTIONS = 220, 4
#: What one attacker may add: far below all limits together, it shows what gets worse.
HOSTILE_GROWN_MB_MAX = 400


def hostile_rss_mb() -> int:
    """The sum of the limits in docs/limits.md and the gateway's own memory."""
    most = together(load(environment={}))
    return OWN_MB + (most.gateway + HOSTILE_CONNECTIONS * most.connection) // 1_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits that a case must keep; None where there is none."""

    messages_per_second_min: float | None = None
    p50_ms_max: float | None = None
    stall_ms_max: float | None = None
    rss_mb_max: float | None = None
    facts_max: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    group: str
    run: Callable[[Bench], Measurement]
    budget: Budget = Budget()
    #: It starts gateways of its own; all cases of its group do.
    own: bool = False


def warm_up(bench: Bench) -> None:
    """A publisher and a consumer, once, unmeasured."""
    count = bench.settings.count(WARM_UP_COUNT)
    topic, subscription = bench.name("warm"), bench.name("warm-sub")
    bench.subscribe([subscription], topic)
    bench.load(bench.spec("publish", topic, count))
    bench.load(bench.spec("drain", topic, count, subscriptions=(subscription,)))
    bench.unsubscribe([subscription], topic)


def _rehearse(bench: Bench) -> None:
    """Have the gateway start the process that encodes commits of many groups: half a second of CPU,
    once, however many messages follow. It isn't what a message costs, and it is done before the
    first measured one, as `measured` waits for quiet."""
    topic, subscription = bench.name("rehearsal"), bench.name("kept")
    bench.subscribe([subscription], topic)
    bench.load(bench.spec("one-at-a-time", topic, REHEARSAL_COUNT))
    bench.unsubscribe([subscription], topic)


def _publish(kind: str, full: int, connections: int) -> Callable[[Bench], Measurement]:
    """Publish to a topic with one durable subscription that is offline: all must be kept."""

    def run(bench: Bench) -> Measurement:
        measurement = Measurement()
        if kind == "one-at-a-time":
            _rehearse(bench)
        for _ in range(bench.settings.repeat):
            topic, subscription = bench.name("publish"), bench.name("kept")
            bench.subscribe([subscription], topic)
            count = bench.settings.count(full)
            spec = bench.spec(kind, topic, count, connections=connections)
            outcomes, cpu = bench.measured(spec)
            measurement.add(outcomes, cpu, counted=outcomes[0])
            measurement.rss_mb = bench.server.rss_mb()
            bench.unsubscribe([subscription], topic)
        return measurement

    return run


def _shared(full: int, consumers: int) -> Callable[[Bench], Measurement]:
    """Drain what a shared durable subscription is owed, by so many consumers together."""

    def run(bench: Bench) -> Measurement:
        measurement, count = Measurement(), bench.settings.count(full)
        for _ in range(bench.settings.repeat):
            _drain_once(bench, measurement, count, consumers)
        return measurement

    return run


def _drain_once(bench: Bench, measurement: Measurement, count: int, consumers: int) -> None:
    topic, subscription = bench.name("drain"), bench.name("owed")
    bench.subscribe([subscription], topic)
    bench.load(bench.spec("publish", topic, count))
    spec = bench.spec(
        "drain", topic, count, subscriptions=(subscription,), connections=consumers, owed=count
    )
    outcomes, cpu = bench.measured(spec)
    measurement.add(outcomes, cpu, counted=outcomes[0])
    measurement.rss_mb = bench.server.rss_mb()
    bench.unsubscribe([subscription], topic)


def _fan_out(full: int, subscriptions: int) -> Callable[[Bench], Measurement]:
    """Publish while so many durable subscriptions are connected; deliveries are counted."""

    def run(bench: Bench) -> Measurement:
        measurement, count = Measurement(), bench.settings.count(full)
        for _ in range(bench.settings.repeat):
            topic = bench.name("fan")
            names = tuple(bench.name("out") for _ in range(subscriptions))
            drain = bench.spec(
                "drain",
                topic,
                count * subscriptions,
                subscriptions=names,
                connections=subscriptions,
                owed=count,
            )
            outcomes, cpu = bench.measured(drain, bench.spec("publish", topic, count))
            outcomes[0].started = outcomes[1].started  # until then the consumers only wait
            measurement.add(outcomes, cpu, counted=outcomes[0])
            measurement.rss_mb = bench.server.rss_mb()
            bench.unsubscribe(names, topic)
        return measurement

    return run


def _backlog(bench: Bench) -> Measurement:
    """Memory with a large backlog owed, then how fast it comes back from disk. One run."""
    measurement, count = Measurement(), bench.settings.count(300_000)
    topic, subscription = bench.name("backlog"), bench.name("offline")
    bench.subscribe([subscription], topic)
    bench.load(bench.spec("publish", topic, count))
    bench.server.wait_quiet()
    rss_mb = bench.server.rss_mb()
    spec = bench.spec("drain", topic, count, subscriptions=(subscription,), owed=count)
    outcomes, cpu = bench.measured(spec)
    measurement.add(outcomes, cpu, counted=outcomes[0])
    measurement.rss_mb = rss_mb
    bench.unsubscribe([subscription], topic)
    return measurement


def _stall(rate: float) -> Callable[[Bench], Measurement]:
    """Ten seconds at a steady rate: the longest wait for an accept while commits run."""

    def run(bench: Bench) -> Measurement:
        measurement, topic, subscription = Measurement(), bench.name("stall"), bench.name("kept")
        _rehearse(bench)
        bench.subscribe([subscription], topic)
        spec = bench.spec("steady", topic, bench.settings.count(int(10 * rate)), rate=rate)
        outcomes, cpu = bench.measured(spec)
        measurement.add(outcomes, cpu, counted=outcomes[0])
        measurement.rss_mb = bench.server.rss_mb()
        bench.unsubscribe([subscription], topic)
        return measurement

    return run


def _end_to_end(rate: float) -> Callable[[Bench], Measurement]:
    """Ten seconds at a steady rate through a durable subscription and back."""

    def run(bench: Bench) -> Measurement:
        measurement, topic, subscription = Measurement(), bench.name("relay"), bench.name("through")
        count = bench.settings.count(int(10 * rate))
        _rehearse(bench)
        spec = bench.spec(
            "relay", topic, count, rate=rate, subscriptions=(subscription,), owed=count
        )
        outcomes, cpu = bench.measured(spec)
        measurement.add(outcomes, cpu, counted=outcomes[0])
        measurement.rss_mb = bench.server.rss_mb()
        bench.unsubscribe([subscription], topic)
        return measurement

    return run


def _by_commits(run: Callable[[Bench], Measurement]) -> Callable[[Bench], Measurement]:
    """The same case without a journal: an accept waits for the Delta commit."""

    def on_its_own(bench: Bench) -> Measurement:
        with bench.fresh({"JOURNAL_DURABILITY": "delta"}):
            return run(bench)

    return on_its_own


LARGE_BUDGET = Budget(stall_ms_max=HOSTILE_STALL_MS_MAX)

CASES = (
    Case("publish-1", "publish", _publish("publish", 100_000, 1), Budget(70_000)),
    Case("publish-4", "publish", _publish("publish", 100_000, 4)),
    Case("publish-sync", "publish", _publish("one-at-a-time", 3_000, 1), Budget(p50_ms_max=0.5)),
    Case("sync-16", "sync", _publish("one-at-a-time", 16_000, 16)),
    Case("sync-256", "sync", _publish("one-at-a-time", 51_200, 256)),
    Case("drain", "drain", _shared(100_000, 1), Budget(180_000)),
    Case("shared-1", "shared", _shared(100_000, 1)),
    Case("shared-4", "shared", _shared(100_000, 4), Budget(150_000)),
    Case("shared-16", "shared", _shared(100_000, 16)),
    Case("fanout-1", "fanout", _fan_out(100_000, 1)),
    Case("fanout-10", "fanout", _fan_out(20_000, 10)),
    Case("fanout-50", "fanout", _fan_out(4_000, 50), Budget(130_000)),
    Case("backlog", "backlog", _backlog, Budget(rss_mb_max=300)),
    Case("stall", "stall", _stall(5_000.0), Budget(stall_ms_max=100)),
    Case("stall-25", "stall-25", _stall(25_000.0), Budget(stall_ms_max=100)),
    Case("end-to-end", "end-to-end", _end_to_end(2_000.0)),
    Case("end-to-end-200", "end-to-end", _end_to_end(200.0)),
    Case("delta-publish", "delta", _by_commits(_publish("publish", 100_000, 1)), own=True),
    Case("delta-sync", "delta", _by_commits(_publish("one-at-a-time", 200, 1)), own=True),
    Case("diskless-publish", "diskless", on_a_store(_publish("publish", 200_000, 1)), own=True),
    Case("diskless-sync", "diskless", on_a_store(_publish("one-at-a-time", 200, 1)), own=True),
    Case(
        "interleaved",
        "interleaved",
        interleaved,
        Budget(facts_max={"page_ratio": 3, "drain_ratio": 3}),
        own=True,
    ),
    Case(
        "month",
        "month",
        month,
        Budget(
            facts_max={"files_per_million": 200, "log_entries": 20_000, "commit_p99_ms": 250},
        ),
        own=True,
    ),
    Case(
        "settled",
        "settled",
        settled,
        Budget(facts_max={"at_once_table_mb": 1, "at_once_disk_mb": 3}),
        own=True,
    ),
    Case("compaction", "compaction", compaction, Budget(facts_max={"p99_ratio": 2}), own=True),
    Case(
        "restart",
        "restart",
        restart,
        Budget(rss_mb_max=400, facts_max={"with_cursors_s": 3, "without_cursors_s": 10}),
        own=True,
    ),
    Case("start", "start", starting, Budget(facts_max={"start_s": 0.5}), own=True),
    Case(
        "idle",
        "resting",
        resting,
        Budget(facts_max={"core_pct": 0.3, "own_mb": 90}),
        own=True,
    ),
    Case(
        "long",
        "long",
        long,
        Budget(rss_mb_max=400, facts_max={"stuck_s": 5, "sparse_s": 5, "priorities_s": 5}),
        own=True,
    ),
    Case("selectors", "selectors", selectors, Budget(facts_max={"turns_us": 10}), own=True),
    Case(
        "selectors-10",
        "selected",
        selectors_10,
        Budget(50_000, facts_max={"selecting_us": 10}),
    ),
    Case(
        "idle-1000",
        "idle",
        idle_1000,
        Budget(facts_max={"slower_pct": 10, "cpu_ratio": 1.1}),
        own=True,
    ),
    Case("idle-50", "few", idle_50, Budget(facts_max={"many_mb": 200}), own=True),
    Case("patterns", "patterns", patterns, Budget(facts_max={"cpu_ratio": 1.2}), own=True),
    Case(
        "dispatch",
        "dispatch",
        dispatch,
        Budget(facts_max={"plain_1_us": 1, "plain_4_us": 1}),
        own=True,
    ),
    Case(
        "decode",
        "decode",
        decode,
        Budget(facts_max={"flights_us": 5, "kib_us": 5, "texts_us": 5}),
        own=True,
    ),
    Case("audit", "audit", auditing, own=True),
    Case("backup", "backup", backing_up, own=True),
    Case("traits", "traits", attributes, own=True),
    Case(
        "transactions",
        "transactions",
        transactions,
        Budget(facts_max={"publish_ratio": 1.3, "through_ratio": 1.3}),
        own=True,
    ),
    Case(
        "reply",
        "reply",
        reply,
        Budget(facts_max={"ratio_p50": 0.5, "bare_ratio_p50": 2.5}),
        own=True,
    ),
    Case(
        "client",
        "client",
        python_client,
        # 30,000 confirmed and 50,000 consumed a second on one core.
        Budget(facts_max={"confirmed_us": 33, "consumed_us": 20}),
        own=True,
    ),
    Case("subscriber", "subscriber", subscriber, own=True),
    Case("retroactive", "retroactive", retroactive, own=True),
    Case(
        "views",
        "views",
        viewing,
        Budget(facts_max=dict.fromkeys(("pending_s", "backlog_s", "stuck_summary_s"), 5)),
        own=True,
    ),
    Case("materialize", "materialize", materialize, Budget(20_000), own=True),
    Case("typed", "typed", typed, Budget(facts_max={"longer_ratio": 1.25}), own=True),
    Case("batches", "batches", batches, Budget(facts_max={"cpu_ratio": 1.25}), own=True),
    Case(
        "freshness",
        "freshness",
        freshness,
        Budget(facts_max={"messages_p50_s": 5, "acks_p50_s": 5}),
        own=True,
    ),
    Case(
        "metrics",
        "metrics",
        scraping,
        Budget(facts_max={"scrape_p50_ms": 50}, stall_ms_max=HOSTILE_STALL_MS_MAX),
        own=True,
    ),
    Case(
        "traces",
        "traces",
        traced,
        Budget(facts_max={"unsampled_publish": 1.05, "unsampled_drain": 1.05}),
        own=True,
    ),
    Case(
        "halves",
        "halves",
        halves,
        Budget(facts_max={"publish_lost_pct": 10, "drain_lost_pct": 10}),
        own=True,
    ),
    Case("executors", "executors", executors, Budget(facts_max={"lost_pct": 20}), own=True),
    Case(
        "relayed",
        "fleet",
        relayed,
        Budget(facts_max={"publish_on_top_us": 4.0, "drain_on_top_us": 4.0}),
        own=True,
    ),
    Case("partitions", "fleet", partitions, own=True),
    Case(
        "console",
        "console",
        console,
        Budget(
            facts_max={
                "list_paint_ms": 1_000,
                "now_paint_ms": 1_000,
                "list_max_ms": 500,
                "looked_pct": 5,
                "unseen_pct": 1,
            },
        ),
        own=True,
    ),
    Case("crowd", "crowd", crowd, Budget(stall_ms_max=HOSTILE_STALL_MS_MAX), own=True),
    Case("validate", "validate", validate, own=True),
    Case("standby", "standby", standby, Budget(facts_max={"takeover_s": 2}), own=True),
    Case(
        "handover",
        "standby",
        handing_over,
        Budget(
            facts_max={
                "disk_handed_over_direct_most_ms": 1_000,
                "disk_handed_over_relayed_most_ms": 1_000,
                "store_handed_over_relayed_most_ms": 1_000,
                "store_killed_direct_p50_ms": 5_000,
                "store_killed_relayed_most_ms": 5_000,
            }
        ),
        own=True,
    ),
    Case(
        "neighbours",
        "neighbours",
        neighbours,
        Budget(
            facts_max={
                "stuck_slower_pct": 10,
                "stuck_memory_mb": 50,
                "backlog_slower_pct": 10,
                "backlog_memory_mb": 50,
            },
        ),
        own=True,
    ),
    *(
        Case(
            f"hostile-{name}",
            f"hostile-{name}",
            hostile(attack),
            Budget(
                stall_ms_max=HOSTILE_STALL_MS_MAX,
                rss_mb_max=hostile_rss_mb(),
                facts_max={"grown_mb": HOSTILE_GROWN_MB_MAX},
            ),
            own=True,
        )
        for name, attack in ATTACKS.items()
    ),
    *(
        Case(f"large-{name}", f"large-{name}", hostile(operation), LARGE_BUDGET, own=True)
        for name, operation in OPERATIONS.items()
    ),
)


def chosen(names: str) -> tuple[Case, ...]:
    """The cases whose names begin with one of the names, separated by commas; all for ''."""
    prefixes = tuple(part.strip() for part in names.split(",") if part.strip())
    for prefix in prefixes:
        if not any(case.name.startswith(prefix) for case in CASES):
            known = ", ".join(case.name for case in CASES)
            raise ValueError(f"no case begins with {prefix!r}; there are {known}")
    return tuple(case for case in CASES if not prefixes or case.name.startswith(prefixes))
