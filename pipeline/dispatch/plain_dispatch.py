"""What goes of a batch where anybody may have all that could go, and it is of one priority.

Rule 1: the lowest sequence goes first, whether it came back or wasn't read yet.
Rule 2: no loop over messages: runs are dealt in strides.
"""

from array import array
from collections.abc import Iterable

from distributary.pipeline.dispatch.effects import Effect
from distributary.pipeline.dispatch.queue_state import QueueState
from distributary.pipeline.sequences.gathering import gathered
from distributary.pipeline.sequences.sequence_set import Run


def serve(
    state: QueueState, first: int, stop: int, sequences: "array[int] | None", now: int
) -> list[Effect]:
    """Deliver what of an offer (`Dispatcher.offer`) can go, as far as credit goes."""
    effects: list[Effect] = []
    usual, unread = state.ready.usual, state.unread
    while (returned := usual.first()) is not None:
        position = unread.position
        if returned < position:
            # Nearly all that comes back lies there: all but what was claimed ahead.
            assert returned >= first, f"{returned} is owed, offered from {first} on"  # noqa: S101
            below = min(stop, position)
            if returned >= below or not _serve_ready(state, first, below, now, effects):
                return effects
        elif position < stop:
            below = min(stop, returned)
            _read_on(state, max(first, position), below, sequences, now, effects)
            if unread.position < below:
                return effects
        else:
            return effects
    if unread.position < stop:
        _read_on(state, max(first, unread.position), stop, sequences, now, effects)
    return effects


def _serve_ready(state: QueueState, first: int, stop: int, now: int, effects: list[Effect]) -> bool:
    """Deliver what waits below `stop`; whether all of it went."""
    for run in gathered(state.ready.usual.runs_within(first, stop), state.turns.room):
        for part, failures in state.attempts.parts(run):
            if state.deliver_ready(part, failures, now, effects) < len(part):
                return False
    return True


def _read_on(
    state: QueueState,
    start: int,
    stop: int,
    sequences: "array[int] | None",
    now: int,
    effects: list[Effect],
) -> None:
    """Read what comes next, below `stop`."""
    unread = state.unread
    runs: Iterable[Run] = (range(start, stop),) if start < stop else ()
    if sequences is not None or unread.passed:
        runs = unread.runs(start, stop, sequences, state.turns.room)
    for run in runs:
        for part, failures in state.attempts.parts(run):
            if state.deliver_unread(part, failures, now, effects) < len(part):
                return
    unread.move(stop)
