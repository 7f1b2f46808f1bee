"""How a log moves to an heir: the order that stands in the lake, and what its owner does about it.

One order stands in a lake at a time, and each replaces the one before it, so one log moves at a
time. The owner of its log names the heir, serves on until the heir has said that it is ready, and
gives the log back. An heir that doesn't say so in READY_SECONDS gets nothing: the owner stays.
Who takes a log over says that its move is done; an order that nobody sees to is old after
OLD_SECONDS of anybody's clock, and may be replaced.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec

from distributary.pipeline.fleet.heirs import NOBODY
from distributary.pipeline.fleet.members import Count, Member, Number

#: Seconds that a named heir has to read ahead.
READY_SECONDS: Final = 10.0
#: Seconds in which an order is seen to: several looks of its owner, the heir's reading ahead, a
#: hand-over and a start.
OLD_SECONDS: Final = 60.0


class State(StrEnum):
    """How far a move is."""

    ASKED = "asked"
    DONE = "done"
    FAILED = "failed"


class Event(StrEnum):
    """What happens to the order that stands."""

    ASK = "ask"  #: another one is to replace it
    TAKE = "take"  #: its heir has taken the log
    FAIL = "fail"  #: it can't be, or another one has taken the log


#: By the state of the order that stands, and whether it is old. A missing row can't be.
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
    """The order that stands in a lake: `number` is one higher with each. `machine` and `url` are
    the heir's, for people; `by` is who asked, `reason` why it failed. One that is decoded keeps the
    bounds of all numbers."""

    number: Count
    log: str
    heir: Number
    machine: str
    url: str
    by: str
    state: State = State.ASKED
    reason: str = ""


#: Who asks for moves: people, and gateways that spread logs.
OPERATOR: Final = "operator"
SPREADING: Final = "spreading"


def ask(seen: Move | None, log: str, heir: Member, by: str, *, old: bool) -> Move | None:
    """The order that moves a log to a member; None while the one that stands is under way."""
    if seen is not None and (seen.state, old, Event.ASK) not in MOVES:
        return None
    number = 1 if seen is None else seen.number + 1
    return Move(number, log, heir.number, heir.machine, heir.url, by)


def after(move: Move, event: Event, reason: str = "") -> Move:
    """The order, after this has happened to it."""
    state = MOVES[move.state, False, event]
    return msgspec.structs.replace(move, state=state, reason=reason)


class Name(msgspec.Struct, frozen=True):
    """Name this heir in the lock or the lease, and go on to serve."""

    heir: int


class Give(msgspec.Struct, frozen=True):
    """The heir is ready: stop serving, and give the log back."""

    heir: int


class Stay(msgspec.Struct, frozen=True):
    """Name nobody any more, and go on to serve."""


class Say(msgspec.Struct, frozen=True):
    """Put this order in the place of the one that was seen."""

    move: Move


Effect: TypeAlias = Name | Give | Stay | Say


class Giving:
    """What the owner of a log does about the order that stands; it begins when it has the log."""

    def __init__(self, me: int, log: str) -> None:
        self._me, self._log = me, log
        self._heir, self._number = NOBODY, 0
        self._since = 0.0
        self._given = self._began = False

    @property
    def hurries(self) -> bool:
        """Whether it has named an heir, and waits for it."""
        return self._heir != NOBODY and not self._given

    def look(self, move: Move | None, members: Iterable[Member], now: float) -> tuple[Effect, ...]:
        """What is to be done, with the order that stands and the members that live."""
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
