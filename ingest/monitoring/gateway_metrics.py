"""The gateway's counters and present state, as samples of the metrics in `metric_table`.

Subscriptions without counts of their own (`pipeline.log.message_counts`) are summed. A scrape costs
the loop some milliseconds for a thousand subscriptions; it is done in parts, with turns of the loop
in between.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Final

import msgspec

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.gateway.ownership.fleet_part import FleetPart, MachineSeen
from distributary.ingest.monitoring import metric_table as m
from distributary.ingest.monitoring.metric_table import Metric, Sample
from distributary.ingest.net.engine import Engine
from distributary.ingest.net.relayed_link import Relays
from distributary.ingest.publish.message_parts import MessageParts
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.turns import TaskTurns
from distributary.ingest.schemas.validator import Validator
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.ingest.transactions.coordinator import Coordinator
from distributary.pipeline.log.message_counts import OTHERS, UNNAMED
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.tracing.tracer import TraceCounts

#: Subscriptions that are looked at in one part, 10 us each.
PART_SUBSCRIPTIONS: Final = 50
_NONE: Final = list[str]()


class _Now(msgspec.Struct):
    """Present state of a subscription, or of several together."""

    messages: int = 0
    bytes: int = 0
    oldest_seconds: float = 0.0
    in_flight: int = 0
    consumers: int = 0
    credit: int = 0


class MetricSources(msgspec.Struct, frozen=True):
    """Sources of samples: subscriptions, schemas, other logs and transactions."""

    directory: SubscriptionDirectory
    validator: Validator
    relays: Relays
    transactions: Coordinator


class GatewayMetrics:
    """The metrics of a gateway that serves. All methods run on the loop's thread."""

    def __init__(
        self,
        host: Host,
        engine: Engine,
        parts: MessageParts,
        sources: MetricSources,
        fleet: FleetPart,
    ) -> None:
        self._fleet = fleet
        self._log_name = host.log
        self._settings, self._engine, self._parts = host.settings, engine, parts
        self._directory, self._turns = sources.directory, TaskTurns(host.loop)
        self._traces, self._loop = host.traces, host.loop
        self._validator, self._relays = sources.validator, sources.relays
        self._transactions = sources.transactions

    async def parts(self) -> AsyncIterator[bytes]:
        """Yield the text, piece by piece."""
        from distributary.ingest.monitoring.exposition import histogram_text, texts  # noqa: PLC0415 (the first scrape loads it, with prometheus-client)

        now: dict[str, _Now] = {UNNAMED: _Now(), OTHERS: _Now()}
        every = list(self._parts.topics.all())
        for at in range(0, len(every), PART_SUBSCRIPTIONS):
            await self._turns.turn()
            for subscription in every[at : at + PART_SUBSCRIPTIONS]:
                self._look(subscription, now)
        for metric, samples in self._samples(now):
            for text in texts(metric, samples):
                await self._turns.turn()
                yield text
        counts = self._parts.counts
        for metric, histogram in (
            (m.ACCEPT, counts.accept_seconds),
            (m.GROUP, counts.group_messages),
            (m.WRITE, counts.write_seconds),
            (m.COMMIT, counts.commit_seconds),
            (m.COMMIT_LAG, counts.commit_lag_seconds),
            (m.TURN, counts.stalls.seconds),
            (m.CHECK, counts.check_seconds),
        ):
            yield histogram_text(metric, histogram)

    def _look(self, subscription: Subscription, now: dict[str, _Now]) -> None:
        if subscription.ended:
            return
        found = now.setdefault(subscription.counts.name, _Now())
        counters = self._parts.backlogs.counters
        dispatcher = subscription.dispatcher
        volume = counters.waiting(subscription)
        found.messages += volume.messages
        found.bytes += volume.bytes
        counter = counters.read_by(subscription)
        oldest = counter.published_at(dispatcher.floor) if counter and volume.messages else None
        if oldest is not None:
            age = max(clock.now() - oldest, 0) / 1_000_000
            found.oldest_seconds = max(found.oldest_seconds, age)
        found.in_flight += dispatcher.in_flight
        found.consumers += len(subscription.consumers)
        found.credit += sum(
            max(one.link.credit, 0) for one in subscription.consumers.values() if one.link.alive
        )

    def _samples(self, now: dict[str, _Now]) -> Iterator[tuple[Metric, list[Sample]]]:
        counts = self._parts.counts
        topics = list(counts.topics())
        yield m.PUBLISHED, [((topic,), one.messages) for topic, one in topics]
        yield m.PUBLISHED_BYTES, [((topic,), one.bytes) for topic, one in topics]
        yield m.MISFITS, _by_outcome((topic, one.misfits) for topic, one in topics)
        some = list(counts.subscriptions())
        yield m.DELIVERIES, [((one.name,), one.deliveries) for one in some]
        yield m.DELIVERED_BYTES, [((one.name,), one.bytes) for one in some]
        yield m.REDELIVERIES, [((one.name,), one.redeliveries) for one in some]
        yield m.REDELIVERED_BYTES, [((one.name,), one.redelivered_bytes) for one in some]
        yield m.SETTLED, _by_outcome((one.name, one.settled) for one in some)
        yield m.GIVEN_UP_BYTES, _by_outcome((one.name, one.given_up_bytes) for one in some)
        yield m.BACKLOG, [((name,), one.messages) for name, one in now.items()]
        yield m.BACKLOG_BYTES, [((name,), one.bytes) for name, one in now.items()]
        yield m.BACKLOG_AGE, [((name,), one.oldest_seconds) for name, one in now.items()]
        yield m.IN_FLIGHT, [((name,), one.in_flight) for name, one in now.items()]
        yield m.CONSUMERS, [((name,), one.consumers) for name, one in now.items()]
        yield m.CREDIT, [((name,), one.credit) for name, one in now.items()]
        yield from self._of_the_gateway()

    def _of_the_gateway(self) -> Iterator[tuple[Metric, list[Sample]]]:
        counts, log, table = self._parts.counts, self._parts.log, self._parts.store.table
        engine, settings = self._engine, self._settings
        named, checks = list(self._directory.all()), self._validator
        yield m.LONGEST_TURN, [(_NONE, counts.stalls.longest(self._loop.time()))]
        yield m.CHECK_WAITING, [(_NONE, checks.waiting_messages)]
        yield m.CHECK_BYTES, [(_NONE, checks.waiting_bytes)]
        yield m.CHECK_BYTES_MAX, [(_NONE, settings.schemas.waiting_bytes_max)]
        yield m.UNCHECKED, [(_NONE, counts.unchecked)]
        yield m.CHECK_FAILURES, [(_NONE, checks.failures)]
        container = settings.gateway.container_id
        yield m.LOG_INFO, [((self._log_name, container), 1)]
        owners = self._relays.owners()
        yield m.OWNER_CONNECTED, [((one.log,), int(one.connected)) for one in owners]
        yield m.RELAYED_LINKS, [((one.log,), one.links) for one in owners]
        yield m.OWNER_LOSSES, [((one.log,), one.losses) for one in owners]
        yield m.FLEET, [sample for one in self._fleet.seen() for sample in _roles(one)]
        yield m.CONNECTIONS, [(_NONE, len(engine.connections))]
        yield m.CONNECTIONS_MAX, [(_NONE, engine.limits.connections_max)]
        yield m.SUBSCRIPTIONS, [(_NONE, len(named))]
        yield m.UNREADABLE, [(_NONE, sum(1 for one in named if one.unreadable))]
        yield m.LOGINS_REFUSED, [(_NONE, engine.logins_refused)]
        yield m.PEERS_ENDED, [((why,), count) for why, count in engine.ended_by.items()]
        yield m.INTERNAL_ERRORS, [(_NONE, engine.internal_errors)]
        yield m.JOURNAL, [(_NONE, self._parts.store.journal.backlog_bytes)]
        yield m.JOURNAL_MAX, [(_NONE, settings.journal.backlog_bytes_max)]
        yield m.JOURNAL_FULL, [(_NONE, int(log.full))]
        yield m.CACHE, [(_NONE, log.recent.bytes)]
        yield m.CACHE_MAX, [(_NONE, settings.delivery.cache_bytes)]
        yield m.MEMORY, [(_NONE, self._parts.topics.memory_bytes)]
        yield m.MEMORY_MAX, [(_NONE, settings.delivery.memory_bytes_max)]
        prepared = [one.facts.at for one in self._transactions.prepared.listed()]
        decided = [one.at for one in self._transactions.decisions.waiting()]
        yield m.PREPARED, [(_NONE, len(prepared))]
        yield m.PREPARED_OLDEST, [(_NONE, _oldest_seconds(prepared))]
        yield m.DECIDED, [(_NONE, len(decided))]
        yield m.DECIDED_OLDEST, [(_NONE, _oldest_seconds(decided))]
        yield m.UNWRITTEN, [(_NONE, counts.unwritten)]
        yield m.HEAD, [(_NONE, log.recent.head)]
        yield m.COMMITTED, [(_NONE, table.sequence_version)]
        yield m.UPKEEP, [((kind,), count) for kind, count in counts.upkeep_steps.items()]
        yield m.RETENTION, [(_NONE, counts.retained_out)]
        traces = self._traces
        found = TraceCounts() if traces is None else traces.counts
        yield m.SPANS, [(_NONE, found.exported)]
        yield m.SPANS_DROPPED, [((why.value,), count) for why, count in found.dropped.items()]
        yield m.TRACED, [(_NONE, 0 if traces is None else traces.followed)]


def _oldest_seconds(since: list[int]) -> float:
    return max(clock.now() - min(since), 0) / 1_000_000 if since else 0.0


def _roles(seen: MachineSeen) -> list[Sample]:
    found = (("owner", seen.owners), ("standby", seen.standbys), ("relay", seen.relays))
    return [((seen.machine, role), count) for role, count in found]


def _by_outcome(counts: Iterable[tuple[str, dict[Outcome, int]]]) -> list[Sample]:
    return [
        ((name, outcome.value), count)
        for name, outcomes in counts
        for outcome, count in outcomes.items()
    ]
