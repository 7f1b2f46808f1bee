"""A gateway's records, as pages ask for them: each request one snapshot, a few at a time."""

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from distributary.ingest.console.log_rows.log_files import LogFiles
from distributary.ingest.console.log_rows.log_reader import AsOf, LogReader, Snapshot
from distributary.ingest.console.log_rows.message_rows import message_of
from distributary.ingest.console.log_rows.record_limits import RecordLimits
from distributary.ingest.console.log_rows.sight import Sight
from distributary.ingest.console.log_rows.subscription_lives import Incarnation
from distributary.ingest.console.records.audit_runs import AuditRuns
from distributary.ingest.console.records.backlog_history import BacklogHistory, history_of
from distributary.ingest.console.records.browsing import Page, Query, browse, sequence_at
from distributary.ingest.console.records.cursor_strip import Strip, strip_of
from distributary.ingest.console.records.message_life import MessageLife, life_of, life_of_removed
from distributary.ingest.console.records.removed_messages import RemovedMessage, removed
from distributary.ingest.console.records.standings import Standings
from distributary.pipeline.amqp.dead_letter import origin
from distributary.pipeline.log.log_identity import LogIdentity
from distributary.pipeline.tables.delta.commits import json_name
from distributary.pipeline.tables.delta.store import LocalStore, Store, beside
from distributary.pipeline.tables.home.audit_reports import AuditReport, reports
from distributary.pipeline.tables.home.home import Home

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Claimed:
    """The subscriptions that ever claimed a message's topic, each with what it claimed last; of a
    dead letter that, too, which gave it up."""

    topic: str
    subscriptions: dict[str, str]


@dataclass(frozen=True, slots=True)
class Picture:
    """A subscription by the log: its strip, and its backlog over time; `strip` is None where more
    would have to be read for it than a request may."""

    incarnation: Incarnation
    strip: Strip | None
    history: BacklogHistory
    as_of: AsOf


class HomeRecords:
    """For any number of threads; pages call the methods by `ask`. Each may take a second; all raise
    StoreError when the tables can't be read, or change too quickly for it."""

    def __init__(self, log: Store, home: Home | None, limits: RecordLimits) -> None:
        """`log`: the gateway's topic_log, with Spark's tables beside it. `home`: where reports of
        audits are kept, if it can be reached."""
        self.log, self._home, self.limits = log, home, limits
        self._reader = LogReader(log, limits.read_bytes_max)
        self._standings = Standings(beside(log, "cursors"), log.options)
        self._pool = ThreadPoolExecutor(limits.requests_together, "records")
        #: Audits of the home's own tables; None where the tables lie elsewhere.
        own = home is not None and log.uri == LocalStore(home.topic_log).uri
        self.audits = AuditRuns(home.root) if home is not None and own else None

    async def ask(self, method: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run one of the methods on a thread of this pool, and return its result. The pool is as
        large as `requests_together`, so waiting requests take no thread from other pages."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, partial(method, *args, **kwargs))

    def require(self, identity: LogIdentity) -> None:
        """Raises StoreError unless the log is the one that is meant."""
        try:
            entry = self.log.read(json_name(identity.version))
        except FileNotFoundError:
            entry = None
        identity.require(self.log.uri, entry)

    def claimed(self, sequence: int) -> Claimed | None:
        """The topic and subscriptions for which rights must be asked before a message's life is
        shown; None if there is no such message."""

        def read(snapshot: Snapshot) -> Claimed | None:
            with LogFiles(snapshot.view, self.limits.page_bytes_max) as files:
                found = message_of(files, sequence)
            if found is None and (gone := self._removed(snapshot, sequence)) is not None:
                found = gone.message
            if found is None:
                return None
            lives = snapshot.lives.of_topic(found.topic)
            claims = {one.subscription: one.topic for one in lives}
            where = origin(found.data)
            if where is not None:
                claims.setdefault(where.subscription, where.topic)
            return Claimed(found.topic, claims)

        return self._read(read)

    def life(self, sequence: int, sight: Sight) -> MessageLife | None:
        """The life of a message; None if there is none that the user may see."""

        def read(snapshot: Snapshot) -> MessageLife | None:
            gone = self._removed(snapshot, sequence)
            if gone is not None:
                return life_of_removed(snapshot, gone, sight=sight, limits=self.limits)
            return life_of(snapshot, sequence, sight=sight, limits=self.limits)

        return self._read(read)

    def _removed(self, snapshot: Snapshot, sequence: int) -> RemovedMessage | None:
        """A message from before the log begins, if Spark's tables have it."""
        if sequence >= snapshot.view.state.first_sequence:
            return None
        return removed(self.log, sequence, self.limits)

    def page(self, query: Query, sight: Sight) -> Page:
        """A page of messages. Raises InvalidRequest."""
        return self._read(lambda snapshot: browse(snapshot, query, sight=sight, limits=self.limits))

    def as_of(self) -> AsOf:
        """Up to where the tables are now."""
        return self._read(lambda snapshot: snapshot.as_of)

    def place(self, time_us: int) -> int:
        """The first sequence that was published at a time or later."""
        return self._read(lambda snapshot: sequence_at(snapshot, time_us))

    def incarnation(self, subscription: str) -> Incarnation | None:
        """A durable subscription's current incarnation; None if it doesn't exist."""
        return self._read(lambda snapshot: snapshot.lives.current(subscription))

    def waiting(self, incarnation: Incarnation) -> Query | None:
        """A query for what it is still owed; None where more would have to be read for it than a
        request may."""

        def read(snapshot: Snapshot) -> Query | None:
            with LogFiles(snapshot.view, self.limits.read_bytes_max) as files:
                standing = self._standings.of(files, incarnation)
            if standing is None:
                return None
            return Query(
                incarnation.topic,
                incarnation.selector,
                standing.floor,
                newest_first=False,
                standing=standing,
            )

        return self._read(read)

    def picture(self, subscription: str, seconds: int, held: Iterable[int] = ()) -> Picture | None:
        """A durable subscription that lives, over the last seconds; None if there is none. The
        caller has made sure that the user may see it."""
        flying = tuple(held)

        def read(snapshot: Snapshot) -> Picture | None:
            incarnation = snapshot.lives.current(subscription)
            if incarnation is None:
                return None
            most = self.limits.read_bytes_max
            with LogFiles(snapshot.view, most) as files:
                standing = self._standings.of(files, incarnation)
                strip = None
                if standing is not None:
                    strip = strip_of(files, standing, flying, self.limits)
                whole = strip is not None and strip.covered == strip.head
                history = history_of(
                    files,
                    snapshot,
                    incarnation,
                    now=time.time_ns() // 1_000,
                    seconds=seconds,
                    owed=strip.waiting if strip is not None and whole else None,
                )
            return Picture(incarnation, strip, history, snapshot.as_of)

        return self._read(read)

    def reports(self) -> tuple[AuditReport, ...]:
        """The last audits that are kept in the home, the newest first."""
        return () if self._home is None else reports(self._home, self.limits.audits_shown)

    def _read(self, read: Callable[[Snapshot], T]) -> T:
        return self._reader.read(read)
