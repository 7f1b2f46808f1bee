"""How a log moves to an heir: the current order in the lake, and the steps of the log's owner.

A lake has one current order, and each replaces the one before it, so one log moves at a time. The
owner of its log names the heir, serves on until the heir reports that it is ready, and gives the
log back. An heir that isn't ready in READY_SECONDS doesn't get the log: the owner stays. The
gateway that takes the log over marks the move as done; an order that isn't completed is old after
OLD_SECONDS of any reader's clock, and may be replaced.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from distributary.pipeline.fleet.heirs import NOBODY
from distributary.pipeline.fleet.members import Count, Member, Number

#: Seconds that a named heir has to read ahead.
READY_SECONDS: Final = 10.0
#: Seconds until an order is old, enough for several looks of its owner, the heir's reading ahead, a
#: hand-over and a start.
OLD_SECONDS: Final = 60.0


class State(StrEnum):
    """The state of a move."""

    ASKED = "asked"
    DONE = "done"
    FAILED = "failed"


class Event(StrEnum):
    """An event of the current order."""

    ASK = "ask"  #: another order is to replace it
    TAKE = "take"  #: its heir has taken the log
    FAIL = "fail"  #: it can't be completed, or another gateway has taken the log


#: By the state of the current order, and whether it is old. A missing row can't happen.
MOVES: Final[dict[tuple[State, bool, Event], State]] = {
    (State.ASKED, False, Event.TAKE): State.DONE,
    (State.ASKED, False, Event.FAIL): State.FAILED,
    (State.ASKED, True, Event.TAKE): State.DONE,
    (State.ASKED, True, Event.FAIL): State.FAILED,
    (State.ASKED, True, Event.ASK): State.ASKED,
    (State.DONE, False, Event.ASK): State.ASKED,
    (State.DONE, True, Event.ASK): State.ASKED,
    (State.FAILED, False, Event.ASK): State.ASKED,
    (State.FAILED, True, Event.ASK): State.ASKED,
}


class Move(msgspec.Struct, frozen=True):
    """The current order of a lake: `number` is one higher with each. `machine` and `url` are the
    heir's, for people; `by` is the requester, `reason` why it failed. Decoding checks the bounds of
    all numbers."""

    number: Count
    log: str
    heir: Number
    machine: str
    url: str
    by: str
    state: State = State.ASKED
    reason: str = ""


#: Requesters of moves: people, and gateways that spread logs.
OPERATOR: Final = "operator"
SPREADING: Final = "spreading"


def ask(seen: Move | None, log: str, heir: Member, by: str, *, old: bool) -> Move | None:
    """Return the order that moves a log to a member; None while the current one is under way."""
    if seen is not None and (seen.state, old, Event.ASK) not in MOVES:
        return None
    number = 1 if seen is None else seen.number + 1
    return Move(number, log, heir.number, heir.machine, heir.url, by)


def after(move: Move, event: Event, reason: str = "") -> Move:
    """Return the order after the event."""
    state = MOVES[move.state, False, event]
    return msgspec.structs.replace(move, state=state, reason=reason)


class Name(msgspec.Struct, frozen=True):
    """Name this heir in the lock or the lease, and continue to serve."""

    heir: int


class Give(msgspec.Struct, frozen=True):
    """The heir is ready: stop serving, and give the log back."""

    heir: int


class Stay(msgspec.Struct, frozen=True):
    """Name no heir any more, and continue to serve."""


class Say(msgspec.Struct, frozen=True):
    """Replace the order that was read by this one."""

    move: Move


Effect: TypeAlias = Name | Give | Stay | Say


class Giving:
    """The decisions of a log's owner about the current order; it begins when it has the log."""

    def __init__(self, me: int, log: str) -> None:
        self._me, self._log = me, log
        self._heir, self._number = NOBODY, 0
        self._since = 0.0
        self._given = self._began = False

    @property
    def hurries(self) -> bool:
        """Whether it has named an heir and waits for it."""
        return self._heir != NOBODY and not self._given

    def look(self, move: Move | None, members: Iterable[Member], now: float) -> tuple[Effect, ...]:
        """Return the effects of the current order, with the members that live."""
        began, self._began = self._began, True
        if self._given:
            return ()
        if move is None or move.state is not State.ASKED or move.log != self._log:
            return self._stay()
        if move.heir == self._me:
            return (*self._stay(), Say(after(move, Event.TAKE)))
        if not began:
            text = f"another gateway took the log {self._log} over before {move.machine} could"
            return (Say(after(move, Event.FAIL, text)),)
        return self._asked(move, members, now)

    def _asked(self, move: Move, members: Iterable[Member], now: float) -> tuple[Effect, ...]:
        effects: tuple[Effect, ...] = () if move.number == self._number else self._stay()
        heir = next((one for one in members if one.number == move.heir), None)
        if heir is None or self._log not in heir.waits:
            text = f"the gateway at {move.url} doesn't stand by for the log {self._log}"
            return (*self._stay(), *effects, Say(after(move, Event.FAIL, text)))
        if self._heir == NOBODY:
            self._heir, self._number, self._since = move.heir, move.number, now
            return (*effects, Name(move.heir))
        if heir.ready:
            self._given = True
            return (Give(move.heir),)
        if now - self._since > READY_SECONDS:
            text = f"the gateway at {move.url} wasn't ready within {READY_SECONDS:g} s"
            return (*self._stay(), Say(after(move, Event.FAIL, text)))
        return ()

    def _stay(self) -> tuple[Effect, ...]:
        if self._heir == NOBODY:
            return ()
        self._heir = NOBODY
        return (Stay(),)
