"""The gateways of a lake, as each of them says of itself again and again, and who of them lives.

A member that has said nothing new for SILENT_PERIODS of its own is no more. Nothing safe rests on
what members say: who owns a log says its lock or its lease alone.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

#: Signs of life that may be late.
SILENT_PERIODS: Final = 3


class Member(msgspec.Struct, frozen=True):
    """A gateway: its number, the machine that it runs on, and where it listens, or will. `log` is
    the one that it owns, empty if none; `waits` are those that it stands by for. `ready`: the owner
    of one of these has named it as heir, and it has read ahead. `spreads`: it gives and is given
    logs so that they are spread. `weight`: how many logs its machine should have, beside others'
    weights. Each sign of life has another `beat`, one in `period_ms`; `said_at` is for people."""

    number: int
    machine: str
    url: str
    pid: int
    log: str = ""
    waits: tuple[str, ...] = ()
    ready: bool = False
    spreads: bool = False
    weight: float = 1.0
    beat: int = 0
    period_ms: int = 0
    said_at: int = 0  #: microseconds since 1970

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
