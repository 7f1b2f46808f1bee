"""The AMQP engine: one connection is Proton's C engine under an asyncio protocol of our own.

The code above the engine doesn't see Proton's events: the service gets a `Handler`'s calls, in
runs, and acts through `Connection` and `Link`. Rules:

1. Everything runs on the event loop's thread.
2. Nothing is written while the service works; `flush` writes the output of a pass, at once, or (to
   many connections) a part of it in each turn.
3. A peer's fault ends that peer's link or connection, with a condition, and nothing else; so does a
   bug of ours in the work for this peer (`ingest.net.containment`).
4. Addresses of deliveries are valid only while `link.alive`.
5. Answers to peers are valid only while the home is ours: nothing is read or written without
   `sure`.
"""

import asyncio
from collections.abc import Callable
from operator import methodcaller

import structlog

from distributary.ingest.native import pump as pumping
from distributary.ingest.native.outgoing import WriteBuffer
from distributary.ingest.native.pump import Pump
from distributary.ingest.net.handler import Handler
from distributary.ingest.net.link import Peer
from distributary.ingest.runtime.budgets import PASS_BYTES
from distributary.ingest.runtime.collecting import Ends
from distributary.ingest.runtime.settings import Amqp
from distributary.ingest.runtime.turns import READ_BYTES, Parts
from distributary.ingest.security.access import Access
from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED

_events = structlog.get_logger("gateway")


class Engine:
    """The state that all connections of a loop share: the pump, the buffers, the limits."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: Handler,
        limits: Amqp,
        access: Access,
        *,
        sure: Callable[[], bool],
    ) -> None:
        self.loop, self.handler, self.limits, self.sure = loop, handler, limits, sure
        self.access = access
        self.pump = Pump(limits.message_bytes_max)
        # One buffer for all, as in `WriteBuffer`.
        read = bytearray(READ_BYTES)
        self.read_buffer, self.read_pointer = memoryview(read), pumping.pointer(read)
        self.write_buffer = WriteBuffer()
        self.ends = Ends()
        #: Bugs that have ended one peer each.
        self.internal_errors = 0
        #: Connections that were ended, by the condition that their peers were told.
        self.ended_by: dict[str, int] = {}
        self.logins_refused = 0
        #: Connections that may have bytes to write; then those that go on with input already read.
        self.touched: Parts[Peer] = Parts(loop, methodcaller("flush"))
        self._going_on: Parts[Peer] = Parts(loop, methodcaller("go_on"))
        self._leaving: Parts[Peer] = Parts(loop, self._leave)
        self.connections: set[Peer] = set()
        #: Connections whose peer doesn't read what is written to it; the longest stalled first.
        self._stalled: dict[Peer, None] = {}

    def add(self, connection: Peer) -> bool:
        """Add a connection; return whether it is within the limit."""
        self.connections.add(connection)
        self.ends.begun += 1
        return len(self.connections) <= self.limits.connections_max

    def room(self) -> int:
        """Return how many more connections are allowed."""
        return self.limits.connections_max - len(self.connections)

    def remove(self, connection: Peer) -> None:
        self.connections.discard(connection)
        self.ends.ended += 1
        self._stalled.pop(connection, None)

    def takes(self, connection: Peer, takes: bool) -> bool:
        """Note whether the peer reads what is written to it, and return that. Bytes for stalled
        peers wait in memory: when they are too many, the longest stalled peer is dropped."""
        if takes:
            self._stalled.pop(connection, None)
            return takes
        self._stalled[connection] = None
        each, most = self.limits.write_buffer_bytes + PASS_BYTES, self.limits.unwritten_bytes_max
        if len(self._stalled) * each > most:
            longest = next(iter(self._stalled))
            del self._stalled[longest]
            longest.close(
                LIMIT_EXCEEDED,
                f"more than {most} bytes wait for peers that don't take them "
                "(amqp.unwritten_bytes_max), and this one has stood still longest",
            )
            longest.abort()
        return takes

    def bound_unfinished(self) -> None:
        """Bound the memory of unfinished messages of all peers: when it is too much, end the peer
        with the most. Waiting would free nothing, as no message could be finished."""
        most = self.limits.unfinished_together_bytes_max
        held = [one for one in self.connections if one.alive and not one.closing]
        size = sum(one.inbound.unfinished_bytes for one in held)
        if size > most:
            largest = max(held, key=lambda one: one.inbound.unfinished_bytes)
            largest.close(
                LIMIT_EXCEEDED,
                f"{size} bytes of unfinished messages on all connections, {most} at most "
                "(amqp.unfinished_together_bytes_max), and this one has most of them",
            )

    def broke(self, error: Exception, peer: str, container: str = "", user: str = "") -> None:
        """Count and log a bug that ends a peer."""
        self.internal_errors += 1
        _events.error(
            "connection.bug",
            peer=peer,
            container=container,
            user=user,
            reason=repr(error),
            exc_info=error,
        )

    def goes_on(self, connection: Peer) -> None:
        """Let the peer go on in a later turn: it has used its part of this one."""
        self._going_on.add(connection)
        self._going_on.later()

    def leaves(self, connection: Peer) -> None:
        """Release more links of a lost connection in the next turn, as it had many."""
        self._leaving.add(connection)
        self._leaving.later()

    def _leave(self, connection: Peer) -> None:
        connection.leave(False)
        self.finish_pass()

    def finish_leaving(self) -> None:
        """Release the remaining links of lost connections now: the gateway ends."""
        self._leaving.finish()

    def abort(self) -> None:
        """Drop every socket now, without an AMQP close."""
        for connection in tuple(self.connections):
            connection.abort()

    def finish_pass(self, *, last: bool = False) -> None:
        """Have the service hand on its gathered work, then write. `last`: as `Handler.passed`."""
        self.handler.passed(last=last)
        if self.touched.waiting:
            self.touched.run()

    def flush(self) -> None:
        """Write to the touched connections, to as many as one turn allows; the last act of every
        pass."""
        if self.touched.waiting:
            self.touched.run()
