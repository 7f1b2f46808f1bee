"""A day of a fleet in which a region is out for a while, simulated second by second.

Ten logs, each with its gateway on a machine of two cores, in three regions, and a job for each log
on a machine of its own. Rates are flows, not messages; what one machine carries is measured
(`docs/scale.md`). Two days are played: the gateways of one region are gone, while the store, which
is replicated over the regions, is there; and the store is gone for all.

`python -m tests.bench.day FILE.png` prints what `docs/scale.md` says and draws it.
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

SECONDS: Final = 86_400
#: Messages a second that a machine publishes and delivers once, and that a job writes as rows.
MACHINE, JOB = 180_000, 75_000
#: Logs of each region, and what is published to each log at the day's height.
REGIONS: Final = (4, 3, 3)
HEIGHT: Final = 60_000
#: The night has a quarter of the height, which is at noon.
NIGHT: Final = 0.25
#: When the region goes, and for how long.
BEGIN, OUT = 11 * 3_600, 2_700
#: From the loss of an owner until a standby serves its log (`owner.lease_ms` and two seconds), and
#: from the loss of a job until another machine has started it.
TAKE_OVER, JOB_AGAIN = 5, 60
#: The region's machines have their logs again, one planned hand-over after another.
HANDED_BACK: Final = 60


@dataclass(slots=True)
class Log:
    """Undone messages of one log: at publishers, who wait for accepts, and in Spark's tables."""

    region: int
    waiting: float = 0.0
    behind: float = 0.0


@dataclass(frozen=True, slots=True)
class Second:
    """All logs together, messages a second and messages. `waits_s` and `stale_s` are of the log
    that is worst off: how long its youngest message waits for an accept, and its tables lag."""

    at: int
    offered: float
    accepted: float
    waiting: float
    behind: float
    waits_s: float
    stale_s: float


@dataclass(slots=True)
class Day:
    """One day; `store_out` says whether the store is gone, or the first region's machines are."""

    store_out: bool
    logs: list[Log] = field(
        default_factory=lambda: [
            Log(region) for region, count in enumerate(REGIONS) for _ in range(count)
        ]
    )

    def run(self) -> Iterator[Second]:
        for at in range(SECONDS):
            offered = offered_at(at)
            accepted = [self._accept(at, log, offered) for log in self.logs]
            yield Second(
                at,
                offered * len(self.logs),
                sum(accepted),
                sum(log.waiting for log in self.logs),
                sum(log.behind for log in self.logs),
                max(log.waiting for log in self.logs) / offered,
                max(log.behind for log in self.logs) / offered,
            )

    def _accept(self, at: int, log: Log, offered: float) -> float:
        """One second of one log: what its gateway accepts, and what its job is behind by."""
        log.waiting += offered
        accepted = min(log.waiting, self._carries(at, log, MACHINE, TAKE_OVER, HANDED_BACK))
        log.waiting -= accepted
        log.behind += accepted
        log.behind -= min(log.behind, self._carries(at, log, JOB, JOB_AGAIN, JOB_AGAIN))
        return accepted

    def _carries(self, at: int, log: Log, whole: int, begun: int, back: int) -> float:
        """The rate that the machine of a log carries, of `whole`: another machine has the log
        `begun` seconds after the region went, and its own one `back` seconds after it came."""
        out = BEGIN <= at < BEGIN + OUT
        if self.store_out:
            return 0.0 if out else whole
        if not BEGIN <= at < BEGIN + OUT + back:
            return whole
        if log.region == 0:
            return 0.0 if at < BEGIN + begun else whole / 2
        return whole / 2 if self._shares(log) else whole

    def _shares(self, log: Log) -> bool:
        """Whether a log of the lost region is on this one's machine: they are spread evenly."""
        left = [one for one in self.logs if one.region]
        return left.index(log) < REGIONS[0]


def offered_at(at: int) -> float:
    """Messages a second to each log: a sine from midnight to midnight."""
    height = (1 - math.cos(2 * math.pi * at / SECONDS)) / 2
    return HEIGHT * (NIGHT + (1 - NIGHT) * height)


def rows(day: list[Second]) -> Iterator[tuple[str, str]]:
    """Answers to a person's questions about the day."""
    longest, stalest = max(s.waits_s for s in day), max(s.stale_s for s in day)
    served = max((s.at for s in day if s.waits_s >= 1.5), default=0)
    fresh = max((s.at for s in day if s.stale_s >= 5), default=0)
    first = next((s.at for s in day if s.stale_s >= 5), 0)
    yield "published", f"{sum(s.offered for s in day) / 1e9:.1f} billion"
    yield "accepted", f"{sum(s.accepted for s in day) / 1e9:.1f} billion"
    yield "an accept takes at most", _span(longest)
    yield "accepts wait until", f"{_span(served - BEGIN)} after the begin"
    yield "most that waits at publishers", f"{max(s.waiting for s in day) / 1e6:.1f} million"
    yield "tables lag at most", _span(stalest)
    yield "tables lag more than 5 s", f"from {_clock(first)} to {_clock(fresh)}"
    yield "most that tables lack", f"{max(s.behind for s in day) / 1e6:.0f} million"


def draw(days: dict[str, list[Second]], file: str) -> None:
    """Rates, and below them how long accepts wait and tables lag, of each day side by side."""
    from matplotlib.figure import Figure  # noqa: PLC0415 (half a second, only to draw)

    figure = Figure(figsize=(11, 5.5), layout="constrained")
    plots = figure.subplots(2, len(days), sharex=True, squeeze=False)
    for column, (name, day) in enumerate(days.items()):
        minutes = day[::60]
        hours = [s.at / 3_600 for s in minutes]
        rates, delays = plots[0][column], plots[1][column]
        rates.set_title(name)
        rates.plot(hours, [s.offered / 1e3 for s in minutes], label="published")
        rates.plot(hours, [s.accepted / 1e3 for s in minutes], label="accepted", linestyle="--")
        rates.set_ylabel("thousand messages a second")
        rates.legend(loc="upper left")
        delays.plot(hours, [s.waits_s / 60 for s in minutes], label="an accept takes")
        delays.plot(hours, [s.stale_s / 60 for s in minutes], label="tables lag")
        delays.set_ylabel("minutes")
        delays.set_xlabel("hour of the day")
        delays.set_xticks(range(0, 25, 4))
        delays.legend(loc="upper left")
    figure.savefig(file, dpi=110)


def _span(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.0f} s"


def _clock(at: int) -> str:
    return f"{at // 3_600}:{at % 3_600 // 60:02}"


DAYS: Final = {
    "the gateways of a region are out": False,
    "the store is out for all": True,
}


def main() -> None:
    days = {name: list(Day(store_out).run()) for name, store_out in DAYS.items()}
    for name, day in days.items():
        print(name)  # noqa: T201
        for what, found in rows(day):
            print(f"  {what}: {found}")  # noqa: T201
    if sys.argv[1:]:
        draw(days, sys.argv[1])


if __name__ == "__main__":
    main()
