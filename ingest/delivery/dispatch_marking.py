"""Dispatch marks of subscriptions: their syncs to disk, and their return to 0.

A consumer's attach is answered when the marks say durably that its subscription has a consumer.
When the last consumer has detached, and the outcome of each delivery is durable in the log, the
mark goes back to 0. All methods run on the loop's thread.
"""

from collections.abc import Callable
from functools import partial

import msgspec

from distributary.ingest.commit.group_log import Log
from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.workers import Failure, Worker
from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.recovery.dispatch_marks import DispatchMarks


class MarksDurable(msgspec.Struct, frozen=True):
    """Tells the message loop that a sync of the marks has let peers go on."""


class DispatchMarking:
    """The gateway's end of the marks. `complete` is told when a sync has let peers go on; a failed
    sync stops the gateway."""

    def __init__(
        self,
        host: Host,
        log: Log,
        marks: DispatchMarks,
        complete: Callable[[MarksDurable], None],
    ) -> None:
        self._halt, self._log, self._marks = host.halt, log, marks
        self._complete = complete
        self._worker: Worker[None] = Worker("marks", host.loop)
        #: By slot: changes between no consumer and some, so that an outdated sync is noticed.
        self._changes: dict[int, int] = {}
        #: Slots that are known to be durable as attached.
        self._durable: set[int] = set()
        self._waiting: list[tuple[int, int, Callable[[], None]]] = []
        self._syncing = False

    def joined(self, subscription: Subscription, then: Callable[[], None]) -> None:
        """Mark that a durable subscription has a consumer. `then` is called when that is durable,
        at once if it was durable before. Raises StoreError when the file has no space for it."""
        assert subscription.key is not None  # noqa: S101
        slot = subscription.mark_slot
        if len(subscription.consumers) == 1:
            if slot not in self._durable:
                slot = subscription.mark_slot = self._marks.attach(subscription.key.id)
            self._changed(slot)
        if slot in self._durable:
            then()
            return
        self._waiting.append((slot, self._changes[slot], then))
        self._sync()

    def left(self, subscription: Subscription) -> None:
        """Note that a consumer has detached, and the release of its deliveries is with the log."""
        slot = subscription.mark_slot
        if not slot or subscription.consumers:
            return
        quiet = partial(self._quiet, slot, self._changes[slot])
        if self._marks.delivering(slot):
            self._log.after(quiet)
        else:
            quiet()

    def renewed(self, subscription: Subscription) -> None:
        """Set the mark back to 0: the subscription was rewound or purged, that is durable, and no
        message was delivered since."""
        self._marks.renew(subscription.mark_slot)

    def deleted(self, subscription: Subscription) -> None:
        """Free the marks of a subscription that was deleted durably."""
        assert subscription.key is not None  # noqa: S101
        self._changed(subscription.mark_slot)
        self._durable.discard(subscription.mark_slot)
        self._marks.free(subscription.key.id)
        subscription.mark_slot = 0

    def close(self, *, failed: bool) -> None:
        """Make the marks that went back to 0 at the end durable, unless the gateway `failed`; call
        it after the log is closed. Raises StoreError when that fails: the next start then takes
        more messages for possibly delivered."""
        self._worker.stop()
        try:
            if not failed:
                self._marks.sync()
        except OSError as error:
            raise StoreError(f"fsync of {self._marks.name} failed: {error}") from error
        finally:
            self._marks.close()

    def _changed(self, slot: int) -> None:
        self._changes[slot] = self._changes.get(slot, 0) + 1

    def _quiet(self, slot: int, change: int) -> None:
        """Set the mark of a slot back to 0, unless it has changed since. A halted gateway keeps its
        marks: consumers may have seen the deliveries that they give back then."""
        if self._changes[slot] == change and not self._halt.on:
            self._changed(slot)
            self._durable.discard(slot)
            self._marks.quiet(slot)

    def _sync(self) -> None:
        """Begin one sync for all waiting attaches; later attaches wait for the next one."""
        if self._syncing or not self._waiting:
            return
        self._syncing = True
        waiting, self._waiting = self._waiting, []
        self._worker.submit(self._marks.sync, lambda result: self._synced(waiting, result))

    def _synced(
        self, waiting: list[tuple[int, int, Callable[[], None]]], result: Failure | None
    ) -> None:
        self._syncing = False
        if isinstance(result, Failure):
            self._halt.now(f"fsync of {self._marks.name} failed: {result.error}")
            return
        for slot, change, then in waiting:
            if self._changes[slot] == change:
                self._durable.add(slot)
            then()
        self._complete(MarksDurable())
        self._sync()
