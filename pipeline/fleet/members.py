"""The gateways of a lake by their own reports, written again and again, and which of them live.

A member without a new report for SILENT_PERIODS of its own period counts as dead. Nothing safe
rests on reports: the owner of a log is known by its lock or its lease alone.
"""

from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

import msgspec

from distributary.pipeline.fleet.heirs import NUMBERS

#: Periods without a report after which a member counts as dead.
SILENT_PERIODS: Final = 3
#: Milliseconds between two reports: each is a write; with more than a minute an order to move a log
#: would be old before its owner looks.
PERIOD_MS_MIN: Final = 50
PERIOD_MS_MAX: Final = 60_000
#: The highest weight of a machine.
WEIGHT_MAX: Final = 1_000_000

#: A gateway's number: never NOBODY, and it fits into a lock file.
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1, lt=NUMBERS)]
#: A count, or microseconds since 1970: small enough to be added to, and written again.
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
_Period: TypeAlias = Annotated[int, msgspec.Meta(ge=PERIOD_MS_MIN, le=PERIOD_MS_MAX)]
_Weight: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=WEIGHT_MAX)]


class Member(msgspec.Struct, frozen=True):
    """A gateway's report: its number, its machine, and the URL where it listens, or will. `log` is
    the log that it owns, empty if none; `waits` are the logs that it stands by for. `ready`: the
    owner of one of these has named it as heir, and it has read ahead. `spreads`: it gives and takes
    logs so that they are spread. `weight`: its machine's share of logs, relative to other machines.
    Each report has another `beat`, one in `period_ms`; `said_at` is for people. Decoding checks the
    bounds of all numbers."""

    number: Number
    machine: str
    url: str
    pid: Count
    log: str = ""
    waits: tuple[str, ...] = ()
    ready: bool = False
    spreads: bool = False
    weight: _Weight = 1.0
    beat: Count = 0
    period_ms: _Period = PERIOD_MS_MIN
    said_at: Count = 0  #: microseconds since 1970

    @property
    def silent_seconds(self) -> float:
        """Seconds after its last new report when it counts as dead."""
        return SILENT_PERIODS * self.period_ms / 1_000

    def is_called(self, name: str) -> bool:
        """Whether `name` is its machine, its address (HOST:PORT) or its URL."""
        return name in {self.machine, self.url, self.url.partition("://")[2]}


class Sightings:
    """When each member's report was new last, by the reader's clock."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Member, float]] = {}

    def look(
        self, said: Iterable[Member], asked: float, answered: float
    ) -> tuple[list[Member], list[int]]:
        """Take in the reports that were read between two times, in seconds. Return the living
        members, in the order of their numbers, and the numbers of the others. A member that is new
        here lives until it is known to be silent. A reader that was paused amid its read knows of
        no silence since it asked."""
        seen: dict[int, tuple[Member, float]] = {}
        for member in said:
            before, since = self._seen.get(member.number, (None, answered))
            seen[member.number] = (member, since if member == before else answered)
        self._seen = seen
        living = [one for one, since in seen.values() if asked - since <= one.silent_seconds]
        numbers = {one.number for one in living}
        living.sort(key=lambda one: one.number)
        return living, sorted(number for number in seen if number not in numbers)
