"""Which message goes next, and who may have what waits. Nothing is changed here.

Rule 1: of all that could go to somebody in line, the highest priority goes first; of one priority
        the lowest sequence, whether it was read before or not.
"""

from typing import NamedTuple

from distributary.pipeline.dispatch.message_groups import PARKED_MAX, Groups
from distributary.pipeline.dispatch.read_cursor import FOREVER, ReadCursor
from distributary.pipeline.dispatch.ready import Eligibility, Ready
from distributary.pipeline.dispatch.service_queue import ServiceQueue
from distributary.pipeline.model.header_attributes import PRIORITY


class Best(NamedTuple):
    """The message that goes next."""

    priority: int
    sequence: int
    unread: bool
    #: Of the same priority, and read if this one isn't, unread if it is: that one goes before all
    #: from here on.
    before: int


class Candidates:
    """What of one subscription could go now."""

    __slots__ = ("_groups", "_ready", "_turns", "_unread", "head")

    def __init__(
        self, unread: ReadCursor, ready: Ready, turns: ServiceQueue, groups: Groups
    ) -> None:
        self._unread, self._ready = unread, ready
        self._turns, self._groups = turns, groups
        self.head = FOREVER  #: the sequence after the last message that is there

    @property
    def plain(self) -> bool:
        """Whether anybody may have all that could go now, and it is of one priority."""
        if self._ready.others or self._turns.selectors:
            return False
        unread = self._unread
        return (
            unread.priority_index is None
            or unread.priority_index.added == unread.seen
            or unread.ahead() is None
        )

    def best(self) -> Best | None:
        """The message that goes next to somebody who is in line now: of the highest priority the
        lowest sequence, whether it was read before or not."""
        if not self._turns.queued:
            return None
        found = self._best_ready()
        if not self.parked_full():
            if self._unread.position < self.head:
                found.append((-PRIORITY, self._unread.position, True))
            if (ahead := self._unread.ahead()) is not None:
                found.append((-ahead[0], ahead[1], True))
        if not found:
            return None
        below, sequence, unread = min(found)
        others = [one for level, one, other in found if level == below and other is not unread]
        return Best(-below, sequence, unread, min(others, default=FOREVER))

    def pools(self, priority: int) -> list[Eligibility]:
        """Whose messages of this priority may go to somebody who is in line."""
        selectors = self._turns.waiting_selectors()
        eligible = [one for level, one in self._ready.others if level == priority]
        if priority == PRIORITY:
            eligible.append(None)
        return [one for one in eligible if self._may_go(one, selectors)]

    def room_for(self, eligible: Eligibility) -> int:
        """How many messages those in line take that may have what is in this pool."""
        turns = self._turns
        if eligible is None:
            return turns.room
        if isinstance(eligible, int):
            return turns.credit[eligible] if turns.waits(eligible) else 0
        return sum([turns.credit[one] for one in turns.order() if turns.may(one, eligible)])

    def parked_full(self) -> bool:
        """Whether so much waits for the consumers of its groups that no more is read."""
        if not self._groups.owner:
            return False
        others = self._ready.others.items()
        parked = [len(pool) for (_, eligible), pool in others if isinstance(eligible, int)]
        return sum(parked) >= PARKED_MAX

    def _best_ready(self) -> list[tuple[int, int, bool]]:
        """Of each pool that somebody in line may have, the first message: priority below zero,
        sequence, not unread."""
        found = []
        usual = self._ready.usual.first()
        if usual is not None:
            found.append((-PRIORITY, usual, False))
        if self._ready.others:
            selectors = self._turns.waiting_selectors()
            for (priority, eligible), pool in self._ready.others.items():
                if self._may_go(eligible, selectors):
                    first = pool.first()
                    assert first is not None  # noqa: S101
                    found.append((-priority, first, False))
        return found

    def _may_go(self, eligible: Eligibility, selectors: frozenset[str | None]) -> bool:
        """Whether somebody in line may have what is in this pool."""
        if isinstance(eligible, int):
            return eligible >= 0 and self._turns.waits(eligible)
        return eligible is None or None in selectors or not eligible.isdisjoint(selectors)
