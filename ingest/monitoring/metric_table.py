"""Every metric of the gateway: its name, kind, labels and meaning.

Names and units are as Prometheus wants them (prometheus.io/docs/practices/naming): a unit at the
end, base units, `_total` for what only grows. `docs/guides/monitoring.md` has this table.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import msgspec

#: The values of a metric's labels, and its value there.
Sample = tuple[Sequence[str], float]


class MetricKind(StrEnum):
    """Prometheus' kinds of metrics."""

    COUNTER = "counter"  #: only grows, from 0 at the start of the process
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Metric(msgspec.Struct, frozen=True):
    """One metric; `name` is without the prefix `distributary_` and without `_total`."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The full name, with prefix and suffix."""
        return f"distributary_{self.name}" + ("_total" if self.kind is MetricKind.COUNTER else "")


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.COUNTER, text, labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, MetricKind.GAUGE, text, labels)


def _histogram(name: str, text: str) -> Metric:
    return Metric(name, MetricKind.HISTOGRAM, text)


PUBLISHED: Final = _counter("published_messages", "messages that became durable", "topic")
PUBLISHED_BYTES: Final = _counter("published_bytes", "their bytes", "topic")
MISFITS: Final = _counter(
    "misfit_messages", "messages that the topic's schema doesn't allow", "topic", "outcome"
)

DELIVERIES: Final = _counter("deliveries", "messages sent to consumers", "subscription")
DELIVERED_BYTES: Final = _counter("delivered_bytes", "bytes sent to consumers", "subscription")
REDELIVERIES: Final = _counter(
    "redeliveries", "of the deliveries those with a failed attempt before", "subscription"
)
REDELIVERED_BYTES: Final = _counter("redelivered_bytes", "their bytes", "subscription")
SETTLED: Final = _counter(
    "settled_messages", "outcomes, as in the table acks", "subscription", "outcome"
)
GIVEN_UP_BYTES: Final = _counter(
    "given_up_bytes",
    "bytes of messages that expired or became dead letters",
    "subscription",
    "outcome",
)
BACKLOG: Final = _gauge(
    "backlog_messages", "messages owed; with a selector the most that it can be", "subscription"
)
BACKLOG_BYTES: Final = _gauge("backlog_bytes", "their bytes, estimated", "subscription")
BACKLOG_AGE: Final = _gauge(
    "backlog_oldest_age_seconds", "since the oldest of them was published", "subscription"
)
IN_FLIGHT: Final = _gauge("in_flight_messages", "messages sent and not settled", "subscription")
CONSUMERS: Final = _gauge("consumers", "attached consumers", "subscription")
CREDIT: Final = _gauge("credit_messages", "messages that consumers still take", "subscription")

ACCEPT: Final = _histogram("accept_seconds", "from a group's first message to its accept")
GROUP: Final = _histogram("group_messages", "messages that share one fsync")
WRITE: Final = _histogram("journal_write_seconds", "write and fsync of a group")
COMMIT: Final = _histogram("commit_seconds", "one Delta commit of the log")
COMMIT_LAG: Final = _histogram("commit_lag_seconds", "from durable in the journal to the table")
TURN: Final = _histogram("loop_stall_seconds", "turns of the loop longer than 5 ms")
LONGEST_TURN: Final = _gauge(
    "loop_stall_max_seconds", "the longest of them in the last minute, or in the last two"
)

CHECK: Final = _histogram("schema_check_seconds", "from a message's arrival to its check's end")
CHECK_WAITING: Final = _gauge("schema_waiting_messages", "messages that wait for their check")
CHECK_BYTES: Final = _gauge("schema_waiting_bytes", "their bytes")
CHECK_BYTES_MAX: Final = _gauge("schema_waiting_bytes_max", "how many there may be")
UNCHECKED: Final = _counter(
    "schema_unchecked_messages", "messages that were rejected, as too many waited"
)
CHECK_FAILURES: Final = _counter(
    "schema_check_failures", "checks that failed: their process died or took too long"
)

CONNECTIONS: Final = _gauge("connections", "connections of peers")
CONNECTIONS_MAX: Final = _gauge("connections_max", "how many there may be")
SUBSCRIPTIONS: Final = _gauge("subscriptions", "subscriptions and queues with a name")
UNREADABLE: Final = _gauge(
    "unreadable_subscriptions", "subscriptions that wait for a page that can't be read"
)
LOGINS_REFUSED: Final = _counter("logins_refused", "connections that didn't log in as they must")
PEERS_ENDED: Final = _counter("peers_ended", "connections that the gateway ended", "condition")
INTERNAL_ERRORS: Final = _counter("internal_errors", "bugs that ended one peer each")
JOURNAL: Final = _gauge("journal_bytes", "bytes of the journal that aren't committed")
JOURNAL_MAX: Final = _gauge("journal_bytes_max", "from here on publishers wait")
JOURNAL_FULL: Final = _gauge("journal_full", "1 while the disk takes nothing more")
CACHE: Final = _gauge("cache_bytes", "bytes of recent messages in memory")
CACHE_MAX: Final = _gauge("cache_bytes_max", "how many there may be")
MEMORY: Final = _gauge("memory_bytes", "bytes of messages that are in memory alone")
MEMORY_MAX: Final = _gauge("memory_bytes_max", "what is above it is written")
PREPARED: Final = _gauge("prepared_transactions", "prepared transactions that have no end yet")
PREPARED_OLDEST: Final = _gauge(
    "prepared_oldest_seconds",
    "how long the oldest of them has waited for its transaction manager, or the log that decides",
)
DECIDED: Final = _gauge("decided_transactions", "decided transactions that other logs lack")
DECIDED_OLDEST: Final = _gauge(
    "decided_oldest_seconds", "how long the oldest of them has waited for another log's owner"
)
UNWRITTEN: Final = _counter("unwritten_messages", "messages that stayed in memory")
HEAD: Final = _gauge("head_sequence", "the sequence after the last durable message")
COMMITTED: Final = _gauge("committed_sequence", "the sequence after the last one in the table")
UPKEEP: Final = _counter("upkeep_steps", "steps of upkeep", "kind")
RETENTION: Final = _counter("retention_messages", "messages that retention removed")
SPANS: Final = _counter("trace_spans", "spans that the collector took")
SPANS_DROPPED: Final = _counter("trace_spans_dropped", "spans that it didn't get", "reason")
TRACED: Final = _gauge("traced_deliveries", "deliveries of sampled messages that are followed")
LOG_INFO: Final = _gauge("log_info", "1 for the log that it serves", "log", "container")
OWNER_CONNECTED: Final = _gauge("owner_connected", "1 while another log's owner is", "log")
RELAYED_LINKS: Final = _gauge("relayed_links", "links to topics of another log", "log")
OWNER_LOSSES: Final = _counter("owner_losses", "connections to its owner that were lost", "log")
FLEET: Final = _gauge("fleet_gateways", "gateways of the lake", "machine", "role")
READY: Final = _gauge("ready", "1 while the gateway serves")

#: In the order in which they are shown.
METRICS: Final = (
    *(PUBLISHED, PUBLISHED_BYTES, MISFITS),
    *(DELIVERIES, DELIVERED_BYTES, REDELIVERIES, REDELIVERED_BYTES, SETTLED, GIVEN_UP_BYTES),
    *(BACKLOG, BACKLOG_BYTES, BACKLOG_AGE, IN_FLIGHT, CONSUMERS, CREDIT),
    *(ACCEPT, GROUP, WRITE, COMMIT, COMMIT_LAG, TURN, LONGEST_TURN),
    *(CHECK, CHECK_WAITING, CHECK_BYTES, CHECK_BYTES_MAX, UNCHECKED, CHECK_FAILURES),
    *(CONNECTIONS, CONNECTIONS_MAX, SUBSCRIPTIONS, UNREADABLE),
    *(LOGINS_REFUSED, PEERS_ENDED, INTERNAL_ERRORS),
    *(JOURNAL, JOURNAL_MAX, JOURNAL_FULL, CACHE, CACHE_MAX),
    *(MEMORY, MEMORY_MAX, PREPARED, PREPARED_OLDEST, DECIDED, DECIDED_OLDEST),
    *(UNWRITTEN, HEAD, COMMITTED),
    *(UPKEEP, RETENTION, SPANS, SPANS_DROPPED, TRACED),
    *(LOG_INFO, OWNER_CONNECTED, RELAYED_LINKS, OWNER_LOSSES, FLEET, READY),
)
