"""The gateways of a lake, as each of them says of itself again and again, and who of them lives.

A member that has said nothing new for SILENT_PERIODS of its own is no more. Nothing safe rests on
what members say: who owns a log says its lock or its lease alone.
"""

from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

import msgspec

from distributary.pipeline.fleet.heirs import NUMBERS

#: Signs of life that may be late.
SILENT_PERIODS: Final = 3
#: Milliseconds between two signs of life: each is a write; with more than a minute an order to move
#: a log would be old before its owner looks.
PERIOD_MS_MIN: Final = 50
PERIOD_MS_MAX: Final = 60_000
#: The highest weight of a machine.
WEIGHT_MAX: Final = 1_000_000

#: A gateway's number: never NOBODY, and it has room in a lock file.
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=1, lt=NUMBERS)]
#: What is counted, also in microseconds since 1970: it can be added to, and written again.
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
_Period: TypeAlias = Annotated[int, msgspec.Meta(ge=PERIOD_MS_MIN, le=PERIOD_MS_MAX)]
_Weight: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=WEIGHT_MAX)]


class Member(msgspec.Struct, frozen=True):
    """A gateway: its number, the machine that it runs on, and where it listens, or will. `log` is
    the one that it owns, empty if none; `waits` are those that it stands by for. `ready`: the owner
    of one of these has named it as heir, and it has read ahead. `spreads`: it gives and is given
    logs so that they are spread. `weight`: how many logs its machine should have, beside others'
    weights. Each sign of life has another `beat`, one in `period_ms`; `said_at` is for people. One
    that is decoded keeps the bounds of all numbers."""

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
        """For how long it may say nothing new."""
        return SILENT_PERIODS * self.period_ms / 1_000

    def is_called(self, name: str) -> bool:
        """Whether this is its machine, its address (HOST:PORT) or the URL of it."""
        return name in {self.machine, self.url, self.url.partition("://")[2]}


class Sightings:
    """When each member said something new, by the clock of one that looks."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Member, float]] = {}

    def look(self, said: Iterable[Member], now: float) -> tuple[list[Member], list[int]]:
        """What members say now: those that live, in the order of their numbers, and the numbers of
        those that don't. One that was never seen before lives until it is known to be silent."""
        seen: dict[int, tuple[Member, float]] = {}
        for member in said:
            before, since = self._seen.get(member.number, (None, now))
            seen[member.number] = (member, since if member == before else now)
        self._seen = seen
        living = [one for one, since in seen.values() if now - since <= one.silent_seconds]
        numbers = {one.number for one in living}
        living.sort(key=lambda one: one.number)
        return living, sorted(number for number in seen if number not in numbers)
