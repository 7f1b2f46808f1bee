"""Local transactions of one connection: the posted and retired work of each, and its end.

A machine without I/O. Messages that were posted and deliveries that were retired (settled with an
outcome) in a transaction are its work. The work is kept here until the transaction ends; then it is
returned in an `Ended`, and the caller applies it as a whole, or undoes it.

Rule 1: a transaction's next step is a row of ROWS; other steps are bugs.
Rule 2: work is applied as a whole and only once, by `commit`; every other end of a transaction
        undoes all of it.
Rule 3: a transaction of which a part failed can only be rolled back; its commit is refused with
        the reason of the first failure.
Rule 4: where it has a global id, its commit is the first of two phases: the work is prepared under
        that id, and no longer belongs to the connection.
Rule 5: when other logs have work of it, too, its client's end comes before its end here (`close`):
        then it takes no more work, and `shared_end` decides how it ends.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from distributary.pipeline.model.amqp_error import (
    LIMIT_EXCEEDED,
    PRECONDITION_FAILED,
    AmqpError,
)
from distributary.pipeline.transition_rows import row_of

UNKNOWN_ID = "amqp:transaction:unknown-id"
TIMED_OUT = "amqp:transaction:timeout"
ILLEGAL_STATE = "amqp:illegal-state"

#: Bytes that are kept beside the messages' own: for each run, and for each message or delivery.
RUN_BYTES = 512
EACH_BYTES = 16


class State(StrEnum):
    IDLE = "idle"  #: nothing was done in it
    OPEN = "open"
    DOOMED = "doomed"  #: a part of it failed: it can only be rolled back
    GONE = "gone"  #: committed or rolled back; its id is forgotten


class Event(StrEnum):
    POST = "post"  #: messages were sent in it
    RETIRE = "retire"  #: deliveries were given an outcome in it
    RELAY = "relay"  #: work was done in it in another gateway's log
    SPOIL = "spoil"  #: a part of its work failed
    GIVE_UP = "give_up"  #: it takes too long, or holds too many deliveries
    COMMIT = "commit"
    PREPARE = "prepare"  #: commit, of one that has a global id
    ROLL_BACK = "roll_back"
    LOSE = "lose"  #: the link of its controller is gone


class Step(StrEnum):
    """The action with a transaction's work after an event."""

    KEEP = "keep"  #: add new work
    REFUSE = "refuse"  #: refuse new work
    DISCARD = "discard"  #: drop posted messages; retired deliveries stay retired until the end
    UNDO = "undo"
    APPLY = "apply"
    PREPARE = "prepare"  #: record it, to wait for its transaction manager


ROWS: dict[tuple[State, Event], tuple[State, Step]] = {
    (State.IDLE, Event.POST): (State.OPEN, Step.KEEP),
    (State.IDLE, Event.RETIRE): (State.OPEN, Step.KEEP),
    (State.IDLE, Event.RELAY): (State.OPEN, Step.KEEP),
    (State.IDLE, Event.SPOIL): (State.DOOMED, Step.DISCARD),
    (State.IDLE, Event.GIVE_UP): (State.DOOMED, Step.UNDO),
    (State.IDLE, Event.COMMIT): (State.GONE, Step.APPLY),
    (State.IDLE, Event.PREPARE): (State.GONE, Step.PREPARE),
    (State.IDLE, Event.ROLL_BACK): (State.GONE, Step.UNDO),
    (State.IDLE, Event.LOSE): (State.GONE, Step.UNDO),
    (State.OPEN, Event.POST): (State.OPEN, Step.KEEP),
    (State.OPEN, Event.RETIRE): (State.OPEN, Step.KEEP),
    (State.OPEN, Event.RELAY): (State.OPEN, Step.KEEP),
    (State.OPEN, Event.SPOIL): (State.DOOMED, Step.DISCARD),
    (State.OPEN, Event.GIVE_UP): (State.DOOMED, Step.UNDO),
    (State.OPEN, Event.COMMIT): (State.GONE, Step.APPLY),
    (State.OPEN, Event.PREPARE): (State.GONE, Step.PREPARE),
    (State.OPEN, Event.ROLL_BACK): (State.GONE, Step.UNDO),
    (State.OPEN, Event.LOSE): (State.GONE, Step.UNDO),
    # Retired deliveries aren't given to any consumer before the end: a peer that doesn't know yet
    # that the transaction failed would get the same messages again and again.
    (State.DOOMED, Event.POST): (State.DOOMED, Step.REFUSE),
    (State.DOOMED, Event.RETIRE): (State.DOOMED, Step.KEEP),
    (State.DOOMED, Event.RELAY): (State.DOOMED, Step.REFUSE),
    (State.DOOMED, Event.SPOIL): (State.DOOMED, Step.DISCARD),
    (State.DOOMED, Event.GIVE_UP): (State.DOOMED, Step.UNDO),
    (State.DOOMED, Event.COMMIT): (State.GONE, Step.UNDO),
    (State.DOOMED, Event.PREPARE): (State.GONE, Step.UNDO),
    (State.DOOMED, Event.ROLL_BACK): (State.GONE, Step.UNDO),
    (State.DOOMED, Event.LOSE): (State.GONE, Step.UNDO),
}


class Limits(msgspec.Struct, frozen=True):
    """Limits of one connection: open transactions, bytes of one, and bytes of all of them."""

    transactions_max: int
    bytes_max: int
    bytes_together_max: int


class Held(msgspec.Struct, eq=False):
    """Bytes that the open transactions of all connections hold together, and their limit."""

    bytes_max: int
    bytes: int = 0


P = TypeVar("P")  #: a run of posted messages
R = TypeVar("R")  #: a run of retired deliveries


class Work(msgspec.Struct, Generic[P, R], eq=False):
    """The work of one transaction, in its order. `repeats`: messages were posted, too, that are
    stored already, perhaps in a group that isn't durable: its commit must not overtake that."""

    posted: list[P] = msgspec.field(default_factory=list)
    retired: list[R] = msgspec.field(default_factory=list)
    repeats: bool = False

    def __bool__(self) -> bool:
        return bool(self.posted or self.retired or self.repeats)


class Ended(msgspec.Struct, Generic[P, R], frozen=True, eq=False):
    """An ended transaction: apply its work as a whole (`step` APPLY), prepare it under `global_id`,
    or undo it. `amqp_error` says why a requested commit failed. `decides` is the id of the
    transaction of several logs that is decided with this work, if any."""

    number: int
    work: Work[P, R]
    step: Step
    amqp_error: AmqpError | None = None
    global_id: str = ""
    decides: str = ""


class InDoubt(msgspec.Struct, frozen=True):
    """An unknown outcome of a commit, and the reason."""

    description: str


class _Transaction(msgspec.Struct, Generic[P, R], eq=False):
    controller: int
    state: State = State.IDLE
    reason: AmqpError | None = None  #: why it is doomed
    work: Work[P, R] = msgspec.field(default_factory=Work)
    posted_bytes: int = 0  #: bytes that the posted work holds
    retired_bytes: int = 0
    global_id: str = ""  #: its commit prepares it under this id
    decides: str = ""  #: its commit decides the transaction of several logs with this id
    closed: bool = False  #: its client has ended it

    def step(self, event: Event) -> Step:
        self.state, step = row_of(ROWS, self.state, event)
        return step


class Transactions(Generic[P, R]):
    """The transactions of one connection. `numbers` gives each a unique number; a controller is the
    caller's number for the link that declared the transaction. All connections share `held`."""

    __slots__ = ("_bytes", "_held", "_limits", "_numbers", "_open")

    def __init__(self, limits: Limits, numbers: Iterator[int], held: Held) -> None:
        self._limits, self._numbers, self._held = limits, numbers, held
        self._open: dict[int, _Transaction[P, R]] = {}
        self._bytes = 0

    @property
    def held_bytes(self) -> int:
        """Bytes that the work of all transactions holds."""
        return self._bytes

    def __contains__(self, number: int) -> bool:
        """Whether the transaction is open, and its client hasn't ended it."""
        return number in self._open and not self._open[number].closed

    def has(self, number: int) -> bool:
        """Whether the transaction is open here, though its client may have ended it."""
        return number in self._open

    def works(self, number: int) -> bool:
        """Whether the transaction has work here."""
        return bool(self._open[number].work)

    def reason(self, number: int) -> AmqpError | None:
        """Return why the transaction can only be rolled back; None if it may commit."""
        return self._open[number].reason

    def global_id(self, number: int) -> str:
        """Return the id under which a commit prepares the transaction; empty if there is none."""
        return self._open[number].global_id

    def close(self, number: int) -> None:
        """Take note that the client has ended the transaction: it takes no more work."""
        self._open[number].closed = True

    def declare(self, controller: int) -> int | AmqpError:
        """Begin a transaction; return its number, or why there can't be one more."""
        most = self._limits.transactions_max
        if len(self._open) >= most:
            return AmqpError(
                LIMIT_EXCEEDED,
                f"this connection has {most} open transactions, the most it may have "
                "(amqp.transactions_max)",
            )
        number = next(self._numbers)
        self._open[number] = _Transaction(controller)
        return number

    def post(self, number: int, posted: P, count: int, size: int) -> AmqpError | None:
        """Keep messages, `count` of `size` bytes together, for the commit; or return why they
        aren't kept and the transaction can only be rolled back. The transaction must be open."""
        one = self._open[number]
        size += RUN_BYTES + EACH_BYTES * count
        amqp_error = self._too_large(one, size)
        if amqp_error is not None:
            self.spoil(number, amqp_error)
        if one.step(Event.POST) is Step.REFUSE:
            return one.reason
        one.work.posted.append(posted)
        one.posted_bytes += size
        self._hold(size)
        return None

    def repeat(self, number: int) -> AmqpError | None:
        """Take note of messages that are stored already: the commit has nothing to do for them. Or
        return why the transaction can only be rolled back. The transaction must be open."""
        one = self._open[number]
        if one.step(Event.POST) is Step.REFUSE:
            return one.reason
        one.work.repeats = True
        return None

    def retire(self, number: int, retired: R, count: int) -> Work[P, R] | None:
        """Keep retired deliveries for the end. If the transaction holds too much, it is given up,
        and the caller must undo the returned work now."""
        one = self._open[number]
        size = RUN_BYTES + EACH_BYTES * count
        amqp_error = self._too_large(one, size)
        one.step(Event.RETIRE)
        one.work.retired.append(retired)
        one.retired_bytes += size
        self._hold(size)
        return None if amqp_error is None else self.give_up(number, amqp_error)

    def relay(self, number: int) -> AmqpError | None:
        """Take note of work in another gateway's log; return why that isn't allowed, or None."""
        one = self._open[number]
        return None if one.step(Event.RELAY) is Step.KEEP else one.reason

    def hold(self, number: int, count: int) -> AmqpError | None:
        """Count retired deliveries of another gateway's log that are held here. If that is more
        than the transaction may hold, return why the caller must give it up."""
        one = self._open[number]
        size = RUN_BYTES + EACH_BYTES * count
        amqp_error = self._too_large(one, size)
        one.step(Event.RELAY)
        one.retired_bytes += size
        self._hold(size)
        return amqp_error

    def spoil(self, number: int, reason: AmqpError) -> None:
        """Doom a transaction, as a part of its work failed: it can only be rolled back. Its posted
        messages are dropped at once."""
        one = self._open[number]
        one.step(Event.SPOIL)
        one.reason = one.reason or reason
        one.work.posted.clear()
        self._hold(-one.posted_bytes)
        one.posted_bytes = 0

    def give_up(self, number: int, reason: AmqpError) -> Work[P, R]:
        """Doom a transaction that takes too long or holds too much; return the work that the caller
        must undo now. Its controller is told at the transaction's end."""
        one = self._open[number]
        one.reason = one.reason or reason
        one.step(Event.GIVE_UP)
        return self._take(one)

    def name(self, number: int, global_id: str) -> AmqpError | None:
        """Have the transaction's commit prepare it under this id; return why that isn't possible,
        or None."""
        one = self._open[number]
        if one.state is State.DOOMED:
            return one.reason
        if one.global_id not in ("", global_id):
            return AmqpError(PRECONDITION_FAILED, f"its global id is {one.global_id} already")
        one.global_id = global_id
        return None

    def decide(self, number: int, decides: str) -> None:
        """Have the transaction's commit decide the transaction of several logs with this id."""
        self._open[number].decides = decides

    def commit(self, number: int) -> Ended[P, R]:
        """Commit for its controller, or prepare if it has a global id; return all of the work, or
        why the commit failed."""
        named = bool(self._open[number].global_id)
        return self._end(number, Event.PREPARE if named else Event.COMMIT)

    def roll_back(self, number: int) -> Ended[P, R]:
        """Roll back for its controller: all of the work is undone."""
        return self._end(number, Event.ROLL_BACK)

    def lose(self, controller: int) -> list[Ended[P, R]]:
        """Undo all open transactions of a controller whose link has ended."""
        gone = [number for number, one in self._open.items() if one.controller == controller]
        return [self._end(number, Event.LOSE) for number in gone]

    def _end(self, number: int, event: Event) -> Ended[P, R]:
        one = self._open.pop(number)
        step = one.step(event)
        reason = one.reason if event in (Event.COMMIT, Event.PREPARE) else None
        return Ended(number, self._take(one), step, reason, one.global_id, one.decides)

    def _take(self, one: _Transaction[P, R]) -> Work[P, R]:
        work, one.work = one.work, Work()
        self._hold(-one.posted_bytes - one.retired_bytes)
        one.posted_bytes = one.retired_bytes = 0
        return work

    def _hold(self, more: int) -> None:
        self._bytes += more
        self._held.bytes += more

    def _too_large(self, one: _Transaction[P, R], more: int) -> AmqpError | None:
        limits = self._limits
        if one.posted_bytes + one.retired_bytes + more > limits.bytes_max:
            what, most, name = "a transaction", limits.bytes_max, "transaction_bytes_max"
        elif self._bytes + more > limits.bytes_together_max:
            what, most = "a connection's open transactions", limits.bytes_together_max
            name = "unfinished_bytes_max"
        elif self._held.bytes + more > self._held.bytes_max:
            what, most = "the open transactions of all connections", self._held.bytes_max
            name = "transactions_together_bytes_max"
        else:
            return None
        text = f"{what} may hold {most} bytes at most (amqp.{name}): commit more often"
        return AmqpError(LIMIT_EXCEEDED, text)


def unknown(number: int) -> AmqpError:
    """Return the refusal of an unknown or ended transaction."""
    text = f"there is no open transaction with the id 0x{number:016x}: it ended, or never was one"
    return AmqpError(UNKNOWN_ID, text)
