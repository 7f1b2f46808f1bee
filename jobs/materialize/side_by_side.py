"""The logs of a lake, side by side in one session of Spark.

Rule 1: a failure of one log stops no other log, and is printed with the log's name. Only the end of
        the JVM ends all.
Rule 2: a limited number of batches runs at once; others wait for a slot.
Rule 3: with an interval, logs are looked for again: a new log begins, a failed one begins anew.
"""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition
from time import monotonic, sleep
from typing import Final, TypeAlias

import click
from pyspark import inheritable_thread_target
from pyspark.sql import SparkSession

from distributary.jobs.session.job_options import JavaGone, in_a_sentence
from distributary.jobs.session.stopping import STOP_SECONDS, StopRequest
from distributary.jobs.tables.table_locations import TableLocations
from distributary.pipeline.errors import DistributaryError, StopAsked

#: Logs of one job; others would wait until one of them is done. It is above `fleet.logs_max`.
LOGS_MAX: Final = 1_024
#: The property of a thread that names its jobs' pool of the fair scheduler.
POOL: Final = "spark.scheduler.pool"
#: A session's setting by which jobs of several pools get the cores in turn.
FAIR: Final = {"spark.scheduler.mode": "FAIR"}

#: The places of a lake's logs, by their names.
Logs: TypeAlias = Mapping[str, TableLocations]


class Slots:
    """Slots for batches. A caller that waits for one gets StopAsked within a second of a stop."""

    def __init__(self, most: int, request: StopRequest) -> None:
        self._free, self._request, self._condition = most, request, Condition()

    @contextmanager
    def slot(self) -> Iterator[None]:
        """Hold a slot while the block runs. Raises StopAsked when the job is to stop."""
        with self._condition:
            while not self._free and not self._request.asked:
                self._condition.wait(STOP_SECONDS)
            if self._request.asked:
                raise StopAsked
            self._free -= 1
        try:
            yield
        finally:
            with self._condition:
                self._free += 1
                self._condition.notify()


@dataclass(frozen=True, slots=True)
class LookAgain:
    """The search for logs that are made later, and the seconds between two of them."""

    look: Callable[[], Logs]
    seconds: int


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Work for each log: `work` ends when its log is done, or when the job is asked to stop. `logs`
    are the present ones; without `again` no others are looked for."""

    spark: SparkSession
    logs: Logs
    work: Callable[[str, TableLocations], None]
    request: StopRequest
    again: LookAgain | None = None
    #: Log -> why it failed.
    failed: dict[str, str] = field(default_factory=dict)

    def run(self) -> None:
        """Run until all are done, or the job is asked to stop. Raises JavaGone, and any bug's
        exception."""
        running: dict[str, Future[None]] = {}
        found, looked, said = self.logs, monotonic(), ""
        with ThreadPoolExecutor(LOGS_MAX, "log") as pool:
            try:
                while not self.request.asked:
                    for log, locations in found.items():
                        if log not in running:
                            work = inheritable_thread_target(self.spark)(self._one)
                            running[log] = pool.submit(work, log, locations)
                    if not running and self.again is None:
                        return
                    self._ended(running, STOP_SECONDS)
                    found = {}
                    if self.again is not None and monotonic() - looked >= self.again.seconds:
                        found, said = self._found(self.again.look, said)
                        looked = monotonic()
                self._ended(running, None)
            except BaseException:
                self.request.asked = True  # the pool waits for running work
                raise

    @staticmethod
    def _found(look: Callable[[], Logs], said: str) -> tuple[Logs, str]:
        """Return the present logs, and an empty text; or none and why they can't be found, which is
        printed unless it was `said` the last time."""
        try:
            with in_a_sentence():
                return look(), ""
        except DistributaryError as error:
            if str(error) != said:
                click.echo(f"Error: {error}", err=True)
            return {}, str(error)

    def _ended(self, running: dict[str, Future[None]], seconds: float | None) -> None:
        """Wait for one to end, for `seconds` at most; with None for all."""
        if seconds is None:
            done, _ = wait_for(running.values())
        elif not running:  # a wait for none would end at once
            sleep(seconds)
            return
        else:
            done, _ = wait_for(running.values(), seconds, FIRST_COMPLETED)
        for log in [log for log, one in running.items() if one in done]:
            running.pop(log).result()

    def _one(self, log: str, locations: TableLocations) -> None:
        self.spark.sparkContext.setLocalProperty(POOL, log)
        try:
            with in_a_sentence():
                self.work(log, locations)
        except JavaGone:
            if not self.request.asked:
                raise
        except DistributaryError as error:
            if self.failed.get(log) != str(error):
                self.failed[log] = str(error)
                click.echo(f"Error: log {log}: {error}", err=True)
        else:
            self.failed.pop(log, None)
