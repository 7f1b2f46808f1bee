"""Reads the gateway's metrics for all browsers together, while any of them looks.

Rule 1: it reads at most each `poll_ms`, and so seldom that readings take `poll_part` of the time at
        most.
Rule 2: it stops `quiet_seconds` after the last page asked; the next page that asks starts it.
Rule 3: the last reading stays, with its time, when the gateway doesn't answer.
Rule 4: of several addresses the one is read whose gateway serves; of the others it is asked each
        NEIGHBOUR_SECONDS whether they stand by.
"""

import asyncio
import http.client
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from distributary.ingest.cli.watching.metric_readings import GatewayNow, Reading, now, reading
from distributary.ingest.console.insight.problems import Neighbour
from distributary.ingest.console.insight.series import Point, Series
from distributary.ingest.console.settings.console_settings import AskingSettings
from distributary.pipeline.errors import InvalidRequest

#: Bytes of an answer of `/metrics`: 1,000 subscriptions and topics have 600 kB.
ANSWER_BYTES_MAX: Final = 16 << 20
#: Seconds between two questions to a standby.
NEIGHBOUR_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class GatewayState:
    """The last known state of the gateway. Times are seconds since 1970."""

    found: GatewayNow | None = None  #: as of `at`
    at: float | None = None
    failed_since: float | None = None  #: since when it doesn't answer
    why: str = ""
    address: str = ""  #: whose readings these are
    neighbours: tuple[Neighbour, ...] = ()

    @property
    def answers(self) -> bool:
        """Whether the last reading succeeded."""
        return self.failed_since is None


class MetricsPoller:
    """One for the process. Its methods run on the event loop."""

    def __init__(self, addresses: Sequence[str], settings: AskingSettings) -> None:
        self._addresses, self._settings = tuple(addresses), settings
        self._at = 0  # which of the addresses is read
        self._neighbours: tuple[Neighbour, ...] = ()
        self._neighbours_at = -NEIGHBOUR_SECONDS
        self._state = GatewayState(address=addresses[0])
        self._series = Series(settings.history_seconds)
        self._wanted = 0.0
        self._task: asyncio.Task[None] | None = None
        self._first = asyncio.Event()

    def state(self) -> GatewayState:
        """Return the state; each call keeps the readings going."""
        self._look()
        return self._state

    async def known(self, seconds: float) -> GatewayState:
        """The same, when there has been a reading, or after so many seconds."""
        self._look()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._first.wait(), seconds)
        return self._state

    def columns(self, after: float) -> dict[str, list[float | None]]:
        """Return the plots' columns of readings after a moment."""
        self._look()
        return self._series.columns(after)

    def points(self) -> Sequence[Point]:
        """All that plots show."""
        return self._series.points()

    @property
    def reads(self) -> bool:
        """Whether it reads at this time."""
        return self._task is not None and not self._task.done()

    async def close(self) -> None:
        """Read nothing more."""
        if self._task is not None:
            self._task.cancel()

    def _look(self) -> None:
        self._wanted = time.monotonic()
        if not self.reads:
            self._task = asyncio.create_task(self._read_while_wanted())

    async def _read_while_wanted(self) -> None:
        before: Reading | None = None
        while time.monotonic() - self._wanted < self._settings.quiet_seconds:
            began = time.monotonic()
            address = self._addresses[self._at]
            after = await asyncio.to_thread(self._read, address)
            if began - self._neighbours_at >= NEIGHBOUR_SECONDS:
                self._neighbours = await asyncio.to_thread(self._others)
                self._neighbours_at = began
            serves = isinstance(after, Reading) and after.one("ready") > 0
            if isinstance(after, Reading):
                self._took(address, before, after)
                before = after
            else:
                self._failed(address, after)
                before = None
            self._first.set()
            if not serves and len(self._addresses) > 1:
                self._at, before = (self._at + 1) % len(self._addresses), None
                self._neighbours_at = began - NEIGHBOUR_SECONDS
            took = time.monotonic() - began
            at_least = max(self._settings.poll_ms / 1e3, took / self._settings.poll_part)
            await asyncio.sleep(at_least - took)

    def _took(self, address: str, before: Reading | None, after: Reading) -> None:
        at = time.time()
        found = now(before if before is not None else after, after)
        self._state = GatewayState(found, at, None, "", address, self._neighbours)
        if before is not None:
            backlog = sum(one.backlog for one in found.subscriptions)
            self._series.add(
                Point(
                    at,
                    found.published,
                    found.deliveries,
                    backlog,
                    found.accept_p50_ms,
                    found.accept_p99_ms,
                    found.write_p99_ms,
                    found.uncommitted,
                )
            )

    def _failed(self, address: str, why: str) -> None:
        old = self._state
        since = time.time() if old.failed_since is None else old.failed_since
        self._state = GatewayState(old.found, old.at, since, why, address, self._neighbours)

    def _connection(self, address: str) -> http.client.HTTPConnection:
        host, _, port = address.rpartition(":")
        seconds = self._settings.answer_seconds
        return http.client.HTTPConnection(host.strip("[]"), int(port), timeout=seconds)

    def _others(self) -> tuple[Neighbour, ...]:
        """States of the gateways whose metrics aren't read."""
        others = [one for nth, one in enumerate(self._addresses) if nth != self._at]
        return tuple(Neighbour(one, self._said(one)) for one in others)

    def _said(self, address: str) -> str:
        connection = self._connection(address)
        try:
            connection.request("GET", "/readyz")
            answer = connection.getresponse()
            answer.read(ANSWER_BYTES_MAX)
        except (OSError, http.client.HTTPException):
            return ""
        else:
            return "serves" if answer.status == http.client.OK else "stands by"
        finally:
            connection.close()

    def _read(self, address: str) -> Reading | str:
        """A reading, or why there is none."""
        connection = self._connection(address)
        try:
            connection.request("GET", "/metrics")
            answer = connection.getresponse()
            text = answer.read(ANSWER_BYTES_MAX).decode()
            if answer.status != http.client.OK:
                return f"http://{address}/metrics answers {answer.status}"
            return reading(time.monotonic(), text)
        except (OSError, http.client.HTTPException, UnicodeDecodeError) as error:
            return f"no gateway answers at http://{address}/metrics: {error}"
        except InvalidRequest as error:
            return str(error)
        finally:
            connection.close()
