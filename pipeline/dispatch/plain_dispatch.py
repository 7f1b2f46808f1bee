"""Dispatch of a batch where every message may go to any consumer and has the usual priority.

Rule 1: the lowest sequence goes first, whether it was returned or wasn't read yet.
Rule 2: no loop over messages: runs are dealt in strides.
"""

from array import array

from distributary.pipeline.dispatch.effects import Effect
from distributary.pipeline.dispatch.queue_state import QueueState


def serve(
    state: QueueState, first: int, stop: int, sequences: "array[int] | None", now: int
) -> list[Effect]:
    """Deliver the messages of an offer (`Dispatcher.offer`), as far as credit goes."""
    effects: list[Effect] = []
    heads = state.candidates.heads
    while True:
        returned, position = heads()
        if returned is not None and returned < position:
            # Nearly all returned messages lie there: all but those that were delivered early.
            assert returned >= first, f"{returned} is owed, offered from {first} on"  # noqa: S101
            below = min(stop, position)
            if returned >= below or not _serve_ready(state, first, below, now, effects):
                return effects
        elif position < stop:
            below = stop if returned is None else min(stop, returned)
            start = max(first, position)
            if not _read_on(state, start, below, sequences, now, effects) or returned is None:
                return effects
        else:
            return effects


def _serve_ready(state: QueueState, first: int, stop: int, now: int, effects: list[Effect]) -> bool:
    """Deliver the ready messages below `stop`. Returns whether all of them went."""
    for part, failures in state.candidates.plain_ready(first, stop):
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
) -> bool:
    """Read and deliver the next messages, below `stop`. Returns whether all of them went."""
    for part, failures in state.candidates.plain_unread(start, stop, sequences):
        if state.deliver_unread(part, failures, now, effects) < len(part):
            return False
    state.pass_to(stop)
    return True
