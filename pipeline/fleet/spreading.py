"""Choice of the log that moves, and to which machine, so that each machine has its share.

A machine's load is its number of logs divided by its weight. A log moves from a machine to one that
would have less load with it than the first one has now: among equal machines, to one that has at
least two fewer. Each move makes the list of loads smaller, read from the largest on, so there is a
last one.

The owner of the log gives it; the other members, which see the same, do nothing. An owner whose
view may be wrong does nothing either: the members' reports must be complete, without contradiction
and unchanged for a while, and so must the current order (`moves`), which only one of them replaces.
A failed move isn't tried again for AGAIN_SECONDS while members are the same: an heir that wasn't
ready has read ahead in vain.
"""

from collections.abc import Container, Sequence
from fractions import Fraction
from typing import Final, TypeAlias

import msgspec

from distributary.pipeline.fleet.members import Member
from distributary.pipeline.fleet.moves import OLD_SECONDS, SPREADING, Move, State, ask

#: Load of each log on a machine of weight 0, which should have none.
_NO_SHARE: Final = Fraction(1 << 32)
#: Seconds after which an heir that wasn't ready is asked again for the same log.
AGAIN_SECONDS: Final = 3_600.0

#: The facts that decide, of each member: number, machine, log, waits, spreads, weight.
_Sight: TypeAlias = tuple[int, str, str, tuple[str, ...], bool, float]


class Choice(msgspec.Struct, frozen=True):
    """A log, the number of its owner, and the member that it is to move to."""

    log: str
    owner: int
    heir: Member


def choose(
    members: Sequence[Member], logs: Sequence[str], failed: Container[tuple[str, int]] = ()
) -> Choice | None:
    """Choose the move that takes a log from the most loaded machine, none of those in `failed` (log
    and the heir's number); None where each machine has its share, or where the members' reports
    aren't complete: a log has no owner, or two."""
    owners = {one.log: one for one in members if one.log}
    if len(owners) != sum(1 for one in members if one.log) or set(owners) != set(logs):
        return None
    counts = {one.machine: 0 for one in members}
    for one in owners.values():
        counts[one.machine] += 1
    weights = {one.machine: Fraction(0) for one in members}
    for one in members:
        weights[one.machine] = max(weights[one.machine], Fraction(one.weight))
    found: list[tuple[Fraction, Fraction, str, str, int, Choice]] = []
    for heir in members:
        if heir.log or not heir.spreads or not weights[heir.machine]:
            continue
        then = _load(counts[heir.machine] + 1, weights[heir.machine])
        for log in heir.waits:
            owner = owners.get(log)
            if owner is None or not owner.spreads or owner.machine == heir.machine:
                continue
            if (log, heir.number) in failed:
                continue
            load = _load(counts[owner.machine], weights[owner.machine])
            if then < load:
                choice = Choice(log, owner.number, heir)
                found.append((-load, then, owner.machine, log, heir.number, choice))
    return min(found, key=lambda one: one[:-1])[-1] if found else None


def _load(count: int, weight: Fraction) -> Fraction:
    if weight:
        return count / weight
    return _NO_SHARE * count


class Spreading:
    """When the owner with the number `me` gives its log to spread logs."""

    def __init__(self, me: int, rest_seconds: float) -> None:
        """`rest_seconds`: for how long everything must be unchanged before a move."""
        self._me, self._rest = me, rest_seconds
        self._seen: tuple[tuple[_Sight, ...], Move | None] = (), None
        self._since = 0.0
        #: Moves that failed while members were the same, and when.
        self._failed: dict[tuple[str, int], float] = {}

    def look(
        self, members: Sequence[Member], logs: Sequence[str], move: Move | None, now: float
    ) -> Move | None:
        """Return the order that this owner is to write in place of the current one; None if it has
        nothing to do now."""
        seen = (tuple(sorted(_sight(one) for one in members)), move)
        if seen[0] != self._seen[0]:
            self._failed.clear()
        if seen != self._seen:
            self._seen, self._since = seen, now
            if move is not None and move.state is State.FAILED:
                self._failed[move.log, move.heir] = now
        under_way = move is not None and move.state is State.ASKED
        if now - self._since < max(self._rest, OLD_SECONDS * under_way):
            return None
        failed = {one for one, since in self._failed.items() if now - since < AGAIN_SECONDS}
        choice = choose(members, logs, failed)
        if choice is None or choice.owner != self._me:
            return None
        return ask(move, choice.log, choice.heir, SPREADING, old=under_way)


def _sight(one: Member) -> _Sight:
    return (one.number, one.machine, one.log, one.waits, one.spreads, one.weight)
