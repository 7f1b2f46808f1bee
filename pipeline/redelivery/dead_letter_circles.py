"""Circles of full queues: each passes its oldest messages on to the next one as dead letters.

Rule: a queue from which they would come back keeps them. So each message passes each queue once at
      most, and none is lost.
"""

from collections.abc import Callable
from typing import Final

#: Most queues of a chain that is followed to its end; a longer one counts as a circle.
CHAIN_MAX: Final = 64


def chain(start: str, passes_to: Callable[[str], str | None]) -> list[str]:
    """Return the queues to which messages go on from `start`, in their order, up to the first that
    was met before or keeps them. `passes_to` names the next one; None: the queue keeps them."""
    met: list[str] = []
    at = passes_to(start)
    while at is not None and len(met) < CHAIN_MAX:
        met.append(at)
        if at == start or at in met[:-1]:
            break
        at = passes_to(at)
    return met


def comes_back(start: str, met: list[str]) -> bool:
    """Whether the messages of a `chain` come back to its start, or go on for longer than is
    followed."""
    return bool(met) and (met[-1] == start or len(met) == CHAIN_MAX)
