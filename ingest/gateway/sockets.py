"""The sockets that the loop serves in one turn: a few of the ready ones, in rotation.

asyncio's own selector serves all ready sockets between two looks at its clock: a thousand peers
that sent in the same moment delayed all others by a third of a second.
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
#: All events but input, all events but output.
_NOT_IN, _NOT_OUT = ~select.EPOLLIN, ~select.EPOLLOUT


class FewAtOnce(EpollSelector):
    """Returns as many ready sockets as fit into a turn. The kernel puts returned sockets behind the
    others, so each has its turn."""

    def __init__(self) -> None:
        super().__init__()
        # A second descriptor of the same epoll: this object and its base class each close one.
        self._ready = select.epoll.fromfd(os.dup(self.fileno()))
        self._most = SOCKETS_MAX
        self._given_at = monotonic()
        #: Facts about the current turn.
        self.turn = LoopTurn()
        #: Turns that took longer than STALL_SECONDS.
        self.stalls = Stalls()
        # The base class' own dictionary: `get_map` takes four calls for a socket.
        self._keys: dict[int, SelectorKey] = vars(self)["_fd_to_key"]

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        """Wait at most `timeout` seconds for ready sockets; None: without limit."""
        now = monotonic()
        took = now - self._given_at
        if took > STALL_SECONDS:
            self.stalls.observe(took, now)
        if self._most < SOCKETS_MAX or took > SOCKETS_SECONDS:
            self._most = next_sockets(self._most, took)
        found, keys = [], self._keys
        try:  # `poll` rounds up to a millisecond, so it never returns too early
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
        """Close both descriptors."""
        self._ready.close()
        super().close()
