"""Snapshots of a home's log: one for each request, the same one while the table doesn't change."""

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from distributary.ingest.console.log_rows.log_files import LogFiles
from distributary.ingest.console.log_rows.subscription_lives import Lives
from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.delta.commits import json_name
from distributary.pipeline.tables.delta.store import Store
from distributary.pipeline.tables.topic_log.table_view import (
    TableView,
    again_if_replaced,
    open_view,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class AsOf:
    """Up to where something is true: all of this group and before is in it, and no later message
    than that before `sequence`."""

    group: int
    sequence: int
    version: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The log at one version, and the lives of all subscriptions in it."""

    view: TableView
    lives: Lives

    @property
    def as_of(self) -> AsOf:
        state = self.view.state
        return AsOf(state.group, state.sequence, state.version)


class LogReader:
    """Gives snapshots, to any number of threads. Messages of the last second aren't in the table
    yet, and so in no snapshot."""

    def __init__(self, store: Store, events_bytes_max: int = 1 << 30) -> None:
        self.store, self._events_bytes_max = store, events_bytes_max
        self._lock = Lock()
        self._last: Snapshot | None = None

    def read(self, read: Callable[[Snapshot], T]) -> T:
        """Return the result of `read` for the newest snapshot; it is called again, a bounded number
        of times, when the gateway replaced a file under it. Raises StoreError when there is no
        table, or it can't be read."""

        def once() -> T:
            return read(self.snapshot())

        return again_if_replaced(self.store, once)

    def snapshot(self) -> Snapshot:
        """The table as it is now. Raises StoreError and Replaced."""
        with self._lock:
            last = self._last
            if last is not None and not self.store.exists(json_name(last.view.state.version + 1)):
                return last
            self._last = None
            view = open_view(self.store)
            self._last = Snapshot(view, self._lives(view, last))
            return self._last

    def _lives(self, view: TableView, last: Snapshot | None) -> Lives:
        """Events come seldom: mostly the files of before say it all."""
        files = view.of(topic_log_schema.SUBSCRIPTION)
        if last is not None and last.view.of(topic_log_schema.SUBSCRIPTION) == files:
            return last.lives
        with LogFiles(view, self._events_bytes_max) as opened:
            lives = Lives.read(opened, files)
        if opened.full:
            raise StoreError(f"{view.uri} has more events of subscriptions than can be looked at")
        return lives
