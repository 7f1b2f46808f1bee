"""Containment of exceptions: which ones end one peer, and which ones stop the gateway.

The loop works for one peer at a time: for its bytes, its timers, its requests, and the later work
that they cause. An unexpected exception there is a bug, and it ends that peer: its unsettled
deliveries are released, other peers go on. Two kinds of exception stop the gateway, because going
on could break its promises, by losing or repeating messages:

* An exception that passed through a module of `SHARED`, which keep the state of all peers. Their
  change is half done, and the end of one peer doesn't undo it. When such a module works for one
  peer later, it uses `Connection.attempt`, so that the exceptions of this work don't reach it.
* A store's exception, and one that was raised while an ended link's resources were given back.
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Protocol, Self, TypeVar, TypeVarTuple

from distributary.ingest.runtime.workers import Failure
from distributary.pipeline.errors import DistributaryError, StoreError

#: Modules whose state all peers share: the log and its commits, the dispatchers and the services
#: around them, the directories of subscriptions.
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
#: All modules below this name are shared, too.
SHARED_ROOM = "distributary.pipeline.tables."

_Args = TypeVarTuple("_Args")
_Peer = TypeVar("_Peer", bound="ContainedPeer")

#: Condition and description for a peer that is ended for a bug of ours.
INTERNAL_ERROR = "amqp:internal-error"
BROKEN = "the gateway failed at what came on this connection; its log says how"


class NotGivenBack(DistributaryError):
    """The resources of an ended link couldn't be given back: other peers would wait for them
    without end."""


def stops_all(error: BaseException) -> bool:
    """Whether the gateway must stop for this error, because it isn't contained in one peer."""
    return any(_is_shared(one) for one in _with_causes(error))


def contained(method: Callable[[_Peer, *_Args], None]) -> Callable[[_Peer, *_Args], None]:
    """Decorate a method in which the loop begins to work for a peer: an exception ends it."""

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
    """The part of `Engine` that peers need for their bugs."""

    loop: asyncio.AbstractEventLoop

    def broke(self, error: Exception, peer: str, container: str = "", user: str = "") -> None:
        """Count and log a bug that ends a peer."""

    def finish_pass(self) -> None:
        """Have the service hand on its gathered work, then write."""


class ContainedPeer:
    """The base of a connection, which ends when the loop's work for it raises an exception. The
    connection defines the abstract methods."""

    _engine: BugReports
    alive: bool
    accepted: bool
    #: We have closed it: of the peer's frames only its close still counts.
    closing: bool
    peer: str
    container: str
    user: str
    #: Work for this peer has raised a bug, and the peer is about to end.
    broken = False

    @property
    def client(self) -> Self:
        """The client: this peer itself."""
        return self

    @contained
    def attempt(self, work: Callable[[], None]) -> None:
        """Do work for this peer that others' work has caused: an exception ends this peer alone."""
        work()

    @contained
    def resume_writing(self) -> None:
        """Resume writing in the loop's next turn. asyncio calls this amid its own write, and would
        end a socket twice that is closed or fails here."""
        self._engine.loop.call_soon(self._resumed)

    @contained
    def _resumed(self) -> None:
        if self.alive:
            self.resumed()

    def broke(self, error: Exception) -> None:
        """End this peer for a bug, in a later turn: this call may come amid work for other peers. A
        second bug drops its socket."""
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
        """Go on writing."""
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
        return False  # raised on purpose: no change is half done
    return _passed_shared(error.__traceback__)


def _passed_shared(trace: TracebackType | None) -> bool:
    while trace is not None:
        name: str = trace.tb_frame.f_globals.get("__name__", "")
        if name in SHARED or name.startswith(SHARED_ROOM):
            return True
        trace = trace.tb_next
    return False
