"""Which sockets the loop serves in one turn: a few of the ready ones, in turn.

asyncio serves all of them between two looks at its clock: a thousand peers that send in the same
moment delayed all others by a third of a second.
"""

import os
import select
from selectors import EVENT_READ, EVENT_WRITE, EpollSelector, SelectorKey
from time import monotonic

from distributary.ingest.runtime.turns import (
    SOCKETS_MAX,
    SOCKETS_SECONDS,
    LoopTurn,
    next_sockets,
)
from distributary.pipeline.log.message_counts import Stalls

#: A turn of the loop that takes longer is a stall: a peer noticed it.
STALL_SECONDS = 0.005
#: All that isn't an input, all that isn't an output.
_NOT_IN, _NOT_OUT = ~select.EPOLLIN, ~select.EPOLLOUT


class FewAtOnce(EpollSelector):
    """Gives as many ready sockets as fit into a turn. The kernel puts those that it gave behind the
    others, so each has its turn."""

    def __init__(self) -> None:
        super().__init__()
        # A descriptor of its own for the same epoll, as each of the two closes its one.
        self._ready = select.epoll.fromfd(os.dup(self.fileno()))
        self._most = SOCKETS_MAX
        self._given_at = monotonic()
        #: What it gave in this turn.
        self.turn = LoopTurn()
        #: Turns that took longer than STALL_SECONDS.
        self.stalls = Stalls()
        # As this selector's own `select` reads them; `get_map` takes four calls for a socket.
        self._keys: dict[int, SelectorKey] = vars(self)["_fd_to_key"]

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """As every selector's: seconds, none at all, or (None) as long as it takes."""
        now = monotonic()
        took = now - self._given_at
        if took > STALL_SECONDS:
            self.stalls.observe(took, now)
        if self._most < SOCKETS_MAX or took > SOCKETS_SECONDS:
            self._most = next_sockets(self._most, took)
        found, keys = [], self._keys
        try:  # it rounds up to a millisecond by itself: no sooner than it is due
            for descriptor, events in self._ready.poll(timeout, self._most):
                mask = EVENT_WRITE if events & _NOT_IN else 0
                mask |= EVENT_READ if events & _NOT_OUT else 0
                key = keys.get(descriptor)
                if key is not None and mask & key.events:
                    found.append((key, mask & key.events))
        except InterruptedError:
            pass
        self.turn.alone = len(found) == 1
        self._given_at = monotonic()
        return found

    def close(self) -> None:
        """Both descriptors."""
        self._ready.close()
        super().close()
