"""Progress of batches of `materialize`: a line each, and gauges."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from time import time

import click

from distributary.jobs.materialize.batch import Written
from distributary.jobs.materialize.progress import BatchProgress, Gauges, Noted, Watch


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of one batch."""

    batch: int
    messages: int
    acks: int
    subscription_events: int
    last_group: int
    log_version: int  #: of topic_log, wholly in the tables now
    lag_versions: int  #: versions of topic_log that came meanwhile
    seconds: float
    slices: int = 1
    lag_seconds: float = 0.0  #: age of the oldest version that came with the batch, at its end
    steps: dict[str, float] = field(default_factory=dict)  #: seconds by table

    @property
    def rows(self) -> int:
        return self.messages + self.acks + self.subscription_events

    @property
    def rows_per_second(self) -> float:
        return round(self.rows / self.seconds, 1) if self.seconds else 0.0

    def __str__(self) -> str:
        lag = "" if self.lag_versions == 0 else f", {self.lag_versions:,} versions behind"
        return (
            f"batch {self.batch}: {self.messages:,} messages, {self.acks:,} acks, "
            f"{self.subscription_events:,} subscription events in {self.seconds:.1f} s "
            f"({self.rows_per_second:,.0f} rows/s); up to version {self.log_version:,}, "
            f"group {self.last_group:,}{lag}; its oldest is {self.lag_seconds:,.1f} s old"
        )


def brought(
    batch: int, written: Sequence[Written], *, log_version: int, lag_versions: int, seconds: float
) -> Progress:
    """Return the sum of a batch's slices."""
    return Progress(
        batch=batch,
        messages=_rows(written, "messages"),
        acks=_rows(written, "acks"),
        subscription_events=_rows(written, "subscriptions"),
        last_group=written[-1].last_group,
        log_version=log_version,
        lag_versions=lag_versions,
        seconds=round(seconds, 3),
        slices=len(written),
        lag_seconds=_age(written),
        steps=_steps(written),
    )


class Lines:
    """Prints batches. A batch is noted while it runs, and printed when Spark reports its end; in a
    lake with the name of its log."""

    def __init__(self, gauges: Gauges, *, as_json: bool) -> None:
        self._gauges, self._as_json = gauges, as_json
        self._noted: dict[tuple[str, int], tuple[str, Progress]] = {}
        self.watch = Watch(self._tell)
        self.count = 0  #: batches that were noted

    def note(self, query: str, log: str, one: Progress) -> None:
        """Note a batch of the query of that name; `log` is empty where a home has one log."""
        self.count += 1
        self._noted[query, one.batch] = log, one
        self.watch.note(query, one.batch, Noted(one.rows, _facts(one), one.steps))

    def _tell(self, ended: BatchProgress) -> None:
        self._gauges.tell(ended)
        log, one = self._noted.pop((ended.query, ended.batch))
        if self._as_json:
            said = asdict(one) | {"rows_per_second": one.rows_per_second}
            click.echo(json.dumps({"log": log} | said if log else said))
        else:
            click.echo(f"log {log}, {one}" if log else str(one))


def _facts(one: Progress) -> dict[str, float]:
    return {
        "messages": one.messages,
        "acks": one.acks,
        "log_version": one.log_version,
        "last_group": one.last_group,
        "versions_behind": one.lag_versions,
        "seconds_behind": one.lag_seconds,
        "slices": one.slices,
    }


def _rows(written: Sequence[Written], table: str) -> int:
    return sum(one.rows.get(table, 0) for one in written)


def _age(written: Sequence[Written]) -> float:
    made = min((one.oldest for one in written if one.oldest), default=0)
    return round(max(time() - made / 1_000, 0.0), 3) if made else 0.0


def _steps(written: Sequence[Written]) -> dict[str, float]:
    steps: dict[str, float] = {}
    for one in written:
        for name, seconds in one.seconds.items():
            steps[name] = round(steps.get(name, 0.0) + seconds, 3)
    return steps
