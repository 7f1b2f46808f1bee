"""Progress of a streaming job and its times: as lines, and as gauges for Prometheus.

Spark tells a listener the times of each batch; the job adds its own facts, such as its distance to
the log's end. Both together are one `BatchProgress`, for each batch that had rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event, Lock
from time import monotonic
from typing import TypeAlias
from uuid import UUID

from prometheus_client import CollectorRegistry, Gauge, start_http_server
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from distributary.pipeline.errors import InvalidRequest

#: The job's own facts of a batch: numbers by name, with their unit in the name.
Facts: TypeAlias = Mapping[str, float]

#: Seconds to wait for Spark's last reports when a query has ended.
TOLD_SECONDS_MAX = 10.0


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One batch, as it ended. `steps` are seconds by name: Spark's, and the job's own."""

    query: str
    batch: int
    rows: int
    seconds: float
    rows_per_second: float
    steps: Mapping[str, float] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Noted:
    """The job's own facts of a batch. `rows`: those that it wrote; Spark counts the rows that a
    query reads of its source, and a batch may read the log by itself."""

    rows: int
    facts: Facts
    steps: Mapping[str, float]


class Watch(StreamingQueryListener):
    """Listener to the session's queries. Give it to `spark.streams.addListener`, once.

    `tell` is called for each batch that was noted, when it has ended, on a thread of Spark's.
    """

    def __init__(self, tell: Callable[[BatchProgress], None]) -> None:
        self._tell = tell
        self._noted: dict[tuple[str, int], Noted] = {}
        self._lock = Lock()
        #: By the query's name: its present or last run, and whether it has ended.
        self._runs: dict[str, tuple[UUID, Event]] = {}

    def note(self, query: str, batch: int, noted: Noted) -> None:
        """Note the job's facts of a batch of the query of that name, before it ends."""
        with self._lock:
            self._noted[query, batch] = noted

    def wait(self) -> None:
        """Wait for all reports on queries that have ended."""
        until = monotonic() + TOLD_SECONDS_MAX
        for _, ended in tuple(self._runs.values()):
            ended.wait(max(until - monotonic(), 0))

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        if event.name is not None:
            self._runs[event.name] = event.runId, Event()

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        progress = event.progress
        with self._lock:
            noted = self._noted.pop((progress.name or "", progress.batchId), None)
        if noted is None:
            return
        seconds = progress.durationMs.get("triggerExecution", 0) / 1_000
        spark_steps = {name: ms / 1_000 for name, ms in progress.durationMs.items()}
        self._tell(
            BatchProgress(
                progress.name or "",
                progress.batchId,
                noted.rows,
                seconds,
                round(noted.rows / seconds, 1) if seconds else 0.0,
                {**spark_steps, **noted.steps},
                noted.facts,
            )
        )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Do nothing: no rows came."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        for run, ended in tuple(self._runs.values()):
            if event.runId == run:
                ended.set()


class Gauges:
    """The last batch's numbers at `http://HOST:PORT/metrics`, for as long as the process lives."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._made: dict[str, Gauge] = {}

    def serve(self, place: str) -> None:
        """Listen at `place`. Raises InvalidRequest when it is no HOST:PORT or is taken."""
        host, _, port = place.rpartition(":")
        if not port.isdigit():
            raise InvalidRequest(f"--metrics is HOST:PORT, such as 127.0.0.1:9100, not {place!r}.")
        try:
            start_http_server(int(port), host or "127.0.0.1", self._registry)
        except (OSError, OverflowError) as error:
            raise InvalidRequest(f"--metrics {place} can't be listened to: {error}") from error

    def tell(self, one: BatchProgress) -> None:
        numbers = {
            "batch_seconds": one.seconds,
            "batch_rows": one.rows,
            "rows_per_second": one.rows_per_second,
            **one.facts,
        }
        for name, value in numbers.items():
            self._gauge(name, "query").labels(one.query).set(value)
        self._gauge("batch_ended_timestamp_seconds", "query").labels(
            one.query
        ).set_to_current_time()
        for step, seconds in one.steps.items():
            self._gauge("step_seconds", "query", "step").labels(one.query, step).set(seconds)

    def _gauge(self, name: str, *labels: str) -> Gauge:
        if name not in self._made:
            says = name.replace("_", " ")
            self._made[name] = Gauge(
                f"distributary_job_{name}",
                f"{says}, of the last batch",
                labels,
                registry=self._registry,
            )
        return self._made[name]
