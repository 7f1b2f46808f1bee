"""A consumer's credit, shared by the logs that serve it together.

Rule 1: the credit of all parts is never more than the client has given, except for credit that the
        client took back and a part hasn't given back yet.
Rule 2: a part that uses its credit gets more of it, first free credit, then that of idle parts.
Rule 3: where there is less credit than parts, each part has it in turn: each is asked at once
        whether it has a message, and when none had, again after a while (`Wait`).
Rule 4: the client's drain is answered when each part has said that it has no more messages.
Rule 5: a part without an owner has no credit, and is not waited for.

Commands are methods, `decide` returns the effects; a part's credit is what it may still send.
"""

from typing import TypeAlias

import msgspec


class Grant(msgspec.Struct, frozen=True):
    """The part gets this much more credit."""

    part: int
    credit: int


class TakeBack(msgspec.Struct, frozen=True):
    """The part is to send what it can, and to give the rest of its credit back."""

    part: int


class Drained(msgspec.Struct, frozen=True):
    """Answer the client's drain: no part has any more messages."""


class Wait(msgspec.Struct, frozen=True):
    """Call `waited` after a while, if the last decision has this effect."""


Effect: TypeAlias = Grant | TakeBack | Drained | Wait


class _Part(msgspec.Struct):
    """One part: whether it has an owner, its credit, whether that is being taken back, whether it
    had no message at the last request, and the turn in which it got credit last."""

    number: int
    ready: bool = False
    credit: int = 0
    leaving: bool = False
    empty: bool = False
    served: int = 0


class SharedCredit:
    """The credit of one consumer, and of its parts, by their numbers."""

    def __init__(self, parts: int) -> None:
        self._parts = [_Part(number) for number in range(parts)]
        self._credit, self._draining, self._turn = 0, False, 0

    def of(self, part: int) -> int:
        """The credit of a part."""
        return self._parts[part].credit

    def leaves(self, part: int) -> bool:
        """Whether the credit of a part is being taken back."""
        return self._parts[part].leaving

    # Events.

    def given(self, credit: int, *, draining: bool) -> None:
        """The client has this credit now; `draining`: it wants to hear when no message is left."""
        if credit > self._credit or draining != self._draining:
            self._ask_again()
        self._credit, self._draining = max(credit, 0), draining

    def ready(self, part: int) -> None:
        """The part's owner serves it."""
        one = self._parts[part]
        one.ready, one.empty = True, False

    def lost(self, part: int, kept: int) -> None:
        """The part's owner is gone; `kept` of its messages have yet to go to the client."""
        one = self._parts[part]
        one.ready = one.leaving = False
        one.credit = min(one.credit, kept)

    def sent(self, part: int, count: int) -> None:
        """The client got `count` messages of a part."""
        one = self._parts[part]
        one.credit -= count
        self._credit -= count
        one.leaving = one.leaving and one.credit > 0
        if not self._draining:
            self._ask_again()

    def returned(self, part: int) -> None:
        """A part has nothing more for the credit that it had."""
        one = self._parts[part]
        one.credit, one.leaving, one.empty = 0, False, True

    def waited(self) -> None:
        """A while has passed."""
        self._ask_again()

    def _ask_again(self) -> None:
        for one in self._parts:
            one.empty = False

    # The decision.

    def decide(self) -> list[Effect]:
        """Return the effects of all events so far. A second call adds nothing."""
        if self._draining and self._credit:
            return self._drain()
        self._draining = self._draining and self._credit > 0
        found: list[Effect] = []
        ready = [one for one in self._parts if one.ready]
        if 0 < self._credit < len(ready):
            self._take_turns(found, ready)
        else:
            self._share(found, ready)
        return found

    @property
    def _free(self) -> int:
        return self._credit - sum(one.credit for one in self._parts)

    def _drain(self) -> list[Effect]:
        """Rule 4: take all credit back, and answer the drain when all is returned."""
        found: list[Effect] = []
        asked = [one for one in self._parts if one.ready and not one.empty]
        self._fill(found, [one for one in asked if not one.leaving])
        for one in asked:
            self._take_back(found, one)
        if not asked and self._free == self._credit:
            self._draining = False
            found.append(Drained())
        return found

    def _share(self, found: list[Effect], ready: list[_Part]) -> None:
        """Rule 2: free credit goes to the poorest parts; a part without any gets some of the
        richest part's."""
        self._fill(found, [one for one in ready if not one.leaving])
        missing = -self._free - sum(one.credit for one in self._parts if one.leaving)
        rich = sorted((one for one in ready if not one.leaving), key=lambda one: -one.credit)
        for one in rich:
            if missing > 0 and one.credit:
                missing -= one.credit
                self._take_back(found, one)
        poor = any(not one.credit for one in ready)
        if poor and rich and rich[0].credit > 1 and not any(one.leaving for one in ready):
            self._take_back(found, rich[0])

    def _take_turns(self, found: list[Effect], ready: list[_Part]) -> None:
        """Rule 3: one message's credit for each part in turn."""
        without = [one for one in ready if not one.credit]
        without.sort(key=lambda one: (one.empty, one.served))
        for one in without[: max(self._free, 0)]:
            self._grant(found, one, 1)
        asked = all(one.empty or one.credit for one in ready)
        if asked and self._free >= 0 and any(one.empty for one in ready):
            found.append(Wait())
            return
        for one in ready:
            self._take_back(found, one)

    def _fill(self, found: list[Effect], among: list[_Part]) -> None:
        """Give free credit to the parts with least, until they are equal."""
        free = self._free
        poorest = sorted(among, key=lambda one: (one.credit, one.served))
        while poorest and free + sum(one.credit for one in poorest) < (
            len(poorest) * poorest[-1].credit
        ):
            poorest.pop()  # it has more than the equal share
        if free <= 0 or not poorest:
            return
        level, over = divmod(free + sum(one.credit for one in poorest), len(poorest))
        for nth, one in enumerate(poorest):
            if more := level + (nth < over) - one.credit:
                self._grant(found, one, more)

    def _grant(self, found: list[Effect], one: _Part, credit: int) -> None:
        self._turn += 1
        one.credit += credit
        one.served = self._turn
        found.append(Grant(one.number, credit))

    def _take_back(self, found: list[Effect], one: _Part) -> None:
        if one.credit and one.ready and not one.leaving:
            one.leaving = True
            found.append(TakeBack(one.number))
