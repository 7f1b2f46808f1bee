"""The home of a gateway that serves any log of a lake: the first one without an owner."""

from collections.abc import Callable, Mapping

from distributary.ingest.gateway.ownership.any_home import AnyHome, OwnedHome, Waiting
from distributary.pipeline.errors import HomeLocked
from distributary.pipeline.fleet.heirs import NOBODY


class FreeLog:
    """The first log that has no owner. Implements `AnyHome`."""

    def __init__(self, lake: str, homes: Mapping[str, AnyHome]) -> None:
        """`homes`: the home of each log of the lake, by the log's name; at least one."""
        self.address, self._homes = lake, homes

    def acquire(self) -> OwnedHome:
        for home in self._homes.values():
            try:
                return home.acquire()
            except HomeLocked:
                continue
        raise HomeLocked(
            f"each log of {self.address} has an owner ({', '.join(self._homes)}); wait for one "
            "with --standby, or make another log"
        )

    def standby(self, me: int = NOBODY) -> Waiting:
        return _WaitingForAny([home.standby(me) for home in self._homes.values()])


class _WaitingForAny:
    """Waits for all logs, until one of them is taken. Implements `Waiting`."""

    def __init__(self, logs: list[Waiting]) -> None:
        self._logs, self._last = logs, logs[0]
        #: When to look at each log again: more often at one whose owner leaves.
        self._due = [0.0] * len(logs)

    @property
    def seconds(self) -> float:
        return min(one.seconds for one in self._logs)

    @property
    def leaving(self) -> bool:
        return any(one.leaving for one in self._logs)

    @property
    def named(self) -> bool:
        return any(one.named for one in self._logs)

    @property
    def owner_pid(self) -> int:
        return self._last.owner_pid

    def attempt(self, clock: Callable[[], float]) -> OwnedHome | None:
        now = clock()
        for place, one in enumerate(self._logs):
            if now < self._due[place]:
                continue
            owned = one.attempt(clock)
            self._due[place] = now + one.seconds / 2  # an attempt may come a little early
            if owned is not None:
                self._last = one
                return owned
        return None

    def read_ahead(self) -> None:
        for one in self._logs:
            if one.leaving:  # reading all logs ahead would take the memory of all their gateways
                one.read_ahead()

    def close(self) -> None:
        for one in self._logs:
            one.close()
