"""Messages at hand: those of the last minutes in memory, older ones in pages of the table.

A page is read by a thread of its own while others are served; `resumed` is told when it is there.
All methods run on the loop's thread.
"""

import asyncio
from collections.abc import Callable

from ingest.consumer import Subscription
from ingest.workers import Failure, Worker
from pipeline.message import Slab
from pipeline.recent import RecentMessages
from pipeline.tables.paging import Page
from pipeline.tables.topic_log import TopicLog


class Paging:
    """Finds what subscriptions want. `stopped` is told when the table can't be read, and why."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        recent: RecentMessages,
        table: TopicLog,
        page_bytes: int,
    ) -> None:
        self._recent, self._table, self._page_bytes = recent, table, page_bytes
        self._reader: Worker[Page] = Worker("reader", loop)
        self.stopped: Callable[[str], None] = lambda _reason: None
        self.resumed: Callable[[Subscription], None] = lambda _subscription: None

    def find(self, subscription: Subscription, wanted: int) -> Slab | None:
        """The slab with `wanted` or the first one after it; None if there is none yet."""
        recent = self._recent
        topic = subscription.definition.topic
        if wanted < recent.floor:
            if not self._page(subscription, wanted):
                return None
            if subscription.pages.slabs:
                return subscription.pages.slabs[0]
        room = subscription.dispatcher.room
        slab = recent.find(topic, max(wanted, recent.floor), room)
        if slab is None:
            subscription.dispatcher.skip_to(recent.head)
        return slab

    def _page(self, subscription: Subscription, wanted: int) -> bool:
        """Whether the pages at hand lead to `wanted`; asks for the next one if they don't.

        With no page left and True, nothing is owed below the floor of what is in memory.
        """
        pages, floor = subscription.pages, self._recent.floor
        if wanted not in pages.covered:
            if not pages.reading:
                pages.clear(wanted)
                self._request(subscription, wanted)
            return False
        covered = pages.covered.stop
        slabs = pages.slabs
        while slabs and slabs[0].stop <= wanted:
            pages.covered = range(slabs.popleft().stop, covered)
        if len(slabs) <= 1 and covered < floor and not pages.reading:
            self._request(subscription, covered)  # read ahead while this one is delivered
        if not slabs and covered < floor:
            subscription.dispatcher.skip_to(covered)
            return False
        return True

    def _request(self, subscription: Subscription, start: int) -> None:
        subscription.pages.reading = True
        topic, size = subscription.definition.topic, self._page_bytes
        self._reader.submit(
            lambda: self._table.page(topic, start, size),
            lambda page: self._paged(subscription, start, page),
        )

    def _paged(self, subscription: Subscription, start: int, page: Page | Failure) -> None:
        pages = subscription.pages
        pages.reading = False
        if isinstance(page, Failure):
            self.stopped(f"{type(page.error).__name__}: {page.error}")
            return
        if pages.covered.stop == start and subscription.consumers:
            pages.slabs.extend(page.slabs)
            pages.covered = range(pages.covered.start, page.covered)
        self.resumed(subscription)

    def close(self) -> None:
        self._reader.stop()
