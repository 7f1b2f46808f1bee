"""Containment of exceptions: which ones end one peer, and which ones stop the gateway.

The loop works for one peer at a time: for the bytes that came from it, its timers, its requests,
and what follows from them later. An unexpected exception there is a bug, and it ends that peer: its
unsettled deliveries are released, others go on. Two kinds of exception stop the gateway, because
going on could lose or repeat what it has promised:

* One that passed through a module of `SHARED`, which keep what all peers share. The change that
  they were in the middle of is half done, and no peer's end undoes it. What such a module does
  later for one peer it does by `Connection.attempt`, so that nothing of it passes through here.
* One of a store, and one that was raised while an ended link's resources were given back.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Protocol, Self, TypeVar, TypeVarTuple

from distributary.ingest.runtime.workers import Failure
from distributary.pipeline.errors import DistributaryError, StoreError

#: The modules whose memory all peers share: the log and the way into the table, the dispatchers and
#: what serves them, what is known of subscriptions.
SHARED = frozenset(
    {
        *(
            "distributary.ingest.commit.group_log",
            "distributary.ingest.commit.group_timer",
            "distributary.ingest.commit.committer",
            "distributary.ingest.commit.upkeep_clock",
            "distributary.ingest.delivery.dispatch_marking",
        ),
        *(
            "distributary.ingest.delivery.delivery_service",
            "distributary.ingest.delivery.message_source",
            "distributary.ingest.transactions.retiring",
            "distributary.ingest.subscriptions.seek",
        ),
        *(
            "distributary.ingest.delivery.dead_letters",
            "distributary.ingest.delivery.expiry",
            "distributary.ingest.delivery.alarms",
            "distributary.ingest.subscriptions.idle_floors",
            "distributary.ingest.subscriptions.lifetime_ends",
        ),
        *(
            "distributary.ingest.subscriptions.subscription_directory",
            "distributary.ingest.delivery.topic_directory",
            "distributary.ingest.publish.no_local",
            "distributary.ingest.publish.backlog_limits",
            "distributary.ingest.publish.backlog_counters",
        ),
        *(
            "distributary.pipeline.dispatch.dispatcher",
            "distributary.pipeline.dispatch.priority_index",
            "distributary.pipeline.log.recent_messages",
            "distributary.pipeline.log.duplicates",
        ),
    }
)
#: And this room, which they work with.
SHARED_ROOM = "distributary.pipeline.tables."

_Args = TypeVarTuple("_Args")
_Peer = TypeVar("_Peer", bound="ContainedPeer")

#: What a peer hears that ends for a bug of ours.
INTERNAL_ERROR = "amqp:internal-error"
BROKEN = "the gateway failed at what came on this connection; its log says how"


class NotGivenBack(DistributaryError):
    """The resources of an ended link couldn't be given back: others would wait for them for
    ever."""


def stops_all(error: BaseException) -> bool:
    """Whether the gateway must stop for this error, because it isn't contained in one peer."""
    return any(_is_shared(one) for one in _with_causes(error))


def contained(method: Callable[[_Peer, *_Args], None]) -> Callable[[_Peer, *_Args], None]:
    """A method in which the loop begins to work for a peer: what it raises ends that peer."""

    @wraps(method)
    def call(self: _Peer, /, *args: *_Args) -> None:
        try:
            method(self, *args)
        except Exception as error:
            if stops_all(error):
                raise
            self.broke(error)

    return call


class BugReports(Protocol):
    """What all peers share, as far as their bugs go: `Engine` is it."""

    loop: asyncio.AbstractEventLoop

    def broke(self, error: Exception, peer: str, container: str = "", user: str = "") -> None:
        """A bug ends a peer."""

    def finish_pass(self) -> None:
        """Hand on what was gathered, and write."""


class ContainedPeer:
    """Ends for what is raised while the loop works for it: the base of a connection, which has what
    isn't defined here."""

    _engine: BugReports
    alive: bool
    accepted: bool
    #: We have closed it: nothing counts any more but the peer's own close.
    closing: bool
    peer: str
    container: str
    user: str
    #: A bug has shown, and the peer is about to end for it.
    broken = False

    @property
    def client(self) -> Self:
        """Whose it is: its own."""
        return self

    @contained
    def attempt(self, work: Callable[[], None]) -> None:
        """Do something for this peer on behalf of others: an exception in it ends this peer."""
        work()

    @contained
    def resume_writing(self) -> None:
        """The socket takes more again. What there is to do waits for the loop's next turn: asyncio
        says this amid its own write, and ends a socket twice that was closed or failed in here."""
        self._engine.loop.call_soon(self._resumed)

    @contained
    def _resumed(self) -> None:
        if self.alive:
            self.resumed()

    def broke(self, error: Exception) -> None:
        """A bug showed with this peer: it ends in a turn of its own, as this may be in the
        middle of work for others. A second bug drops its socket."""
        self._engine.broke(error, self.peer, self.container, self.user)
        if self.broken:
            self.abort()
        self.broken = True
        self._engine.loop.call_soon(self._end_broken)

    def _end_broken(self) -> None:
        try:
            if self.alive and self.accepted and not self.closing:
                self.close(INTERNAL_ERROR, BROKEN)
                self._engine.finish_pass()
                return
        except Exception as error:
            if stops_all(error):
                raise
            self._engine.broke(error, self.peer, self.container, self.user)
        self.abort()

    def close(self, condition: str, description: str) -> None:
        """End with an error."""
        raise NotImplementedError

    def resumed(self) -> None:
        """Write on."""
        raise NotImplementedError

    def abort(self) -> None:
        """Drop the socket now."""
        raise NotImplementedError


def _with_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def _is_shared(error: BaseException) -> bool:
    if isinstance(error, StoreError | NotGivenBack):
        return True
    if isinstance(error, DistributaryError | Failure):
        return False  # raised on purpose: nothing is half done, and a worker's owner knows
    return _passed_shared(error.__traceback__)


def _passed_shared(trace: TracebackType | None) -> bool:
    while trace is not None:
        name: str = trace.tb_frame.f_globals.get("__name__", "")
        if name in SHARED or name.startswith(SHARED_ROOM):
            return True
        trace = trace.tb_next
    return False
