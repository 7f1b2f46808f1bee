"""Sources of messages: memory for those of the last minutes, pages of the table for older ones.

The reader's thread reads a page while other subscriptions are served; the message loop is told when
the page is there.
A page that can't be read (a flipped bit, a store that is away) pauses the subscriptions that want
it, which the log and management report. The page is asked for again after `delivery.page_retry_ms`;
other subscriptions go on. All methods run on the loop's thread.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import structlog

from distributary.ingest.delivery.consumer import Pages, Subscription
from distributary.ingest.native import pump
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.workers import Failure, Worker
from distributary.pipeline.errors import StoreError
from distributary.pipeline.log.memory_stream import Logged, MemoryStream
from distributary.pipeline.log.recent_messages import RecentMessages
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.topic_pattern import is_pattern
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.subscriptions.hint import HintFilter
from distributary.pipeline.tables.reading.message_page import Page
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

_events = structlog.get_logger("delivery")


class PageRead(msgspec.Struct, frozen=True):
    """Tells the message loop that a subscription may go on: its page was read, or it may be tried
    again."""

    subscription: Subscription


class Paging:
    """Finds the messages that subscriptions want. `complete` is told when a page is there, or may
    be asked for again; a bug in reading stops the gateway."""

    def __init__(
        self,
        host: Host,
        recent: RecentMessages,
        table: TopicLog,
        complete: Callable[[PageRead], None],
    ) -> None:
        self._loop, self._halt = host.loop, host.halt
        self._recent, self._table, self._limits = recent, table, host.settings.delivery
        self._complete = complete
        #: Topics of which a page couldn't be read when it was last asked for, and why.
        self._unreadable: dict[str, str] = {}
        self._reader: Worker[Page | dict[int, str]] = Worker("reader", host.loop)

    def find(self, subscription: Subscription, wanted: int) -> RecordBatch | None:
        """Return the batch with `wanted` or the first one after it. None if there is none yet, a
        page must be read first, or the hint says that no message there can match."""
        recent, dispatcher = self._recent, subscription.dispatcher
        if subscription.stream is not None:
            return self._streamed(subscription, subscription.stream, wanted)
        if subscription.hint is not None and _skipped(subscription, wanted):
            return None
        if wanted < recent.floor:
            forward = wanted == dispatcher.position
            batch = _within(subscription.ahead, wanted) if not forward else None
            if batch is not None:
                return batch
            pages = subscription.ahead if forward else subscription.aside
            if not self._page(subscription, pages, wanted, forward=forward):
                return None
            if pages.batches:
                return pages.batches[0]
        batch = recent.find(subscription.definition.topic, max(wanted, recent.floor), dispatcher)
        if batch is None:
            dispatcher.skip_to(recent.head)
        return batch

    def _streamed(
        self, subscription: Subscription, stream: MemoryStream, wanted: int
    ) -> RecordBatch | None:
        """Find as `find` does, in a stream. Its entries that are in the log come from memory or a
        page."""
        entry, recent, topic = stream.find(wanted), self._recent, subscription.definition.topic
        if entry is None:
            subscription.dispatcher.skip_to(stream.head)
            return None
        if not isinstance(entry, Logged):
            return entry
        sequence = entry.sequence_of(wanted)
        if sequence >= recent.floor:
            batch = recent.find(topic, sequence)
        elif not self._page(subscription, subscription.ahead, sequence, forward=False):
            return None
        else:
            batch = next(iter(subscription.ahead.batches), None)
        if batch is None or batch.first >= entry.sequence + entry.count:
            subscription.dispatcher.skip_to(entry.stop)  # retention has removed it
            return None
        return entry.numbered(batch)

    def _page(
        self, subscription: Subscription, pages: Pages, wanted: int, *, forward: bool
    ) -> bool:
        """Whether the pages at hand cover `wanted`; ask for the next page if they don't.

        If True without any batch at hand, no message is owed below the floor of those in memory.
        """
        floor = self._recent.floor
        if wanted not in pages.covered:
            if not pages.reading:
                pages.clear(wanted)
                self._request(subscription, pages, wanted)
            return False
        covered = pages.covered.stop
        batches = pages.batches
        while batches and batches[0].stop <= wanted:
            pages.covered = range(batches.popleft().stop, covered)
        ahead = len(batches) <= 1 if forward else not batches  # read while this one is delivered
        if ahead and covered < floor and not pages.reading:
            self._request(subscription, pages, covered)
        if not batches and covered < floor:
            if forward:
                subscription.dispatcher.skip_to(covered)
            return False
        return True

    def _request(self, subscription: Subscription, pages: Pages, start: int) -> None:
        pages.reading = True
        hint, hint_filter = subscription.hint, None
        if hint is not None and pages is subscription.ahead:
            hint_filter = hint.filter(start)
        self._read(
            subscription.definition.topic,
            start,
            lambda page: self._paged(subscription, pages, start, page),
            hint_filter,
            subscription.dispatcher.policy.page_bytes,
        )

    def _paged(
        self, subscription: Subscription, pages: Pages, start: int, page: Page | Failure
    ) -> None:
        if isinstance(page, Failure):
            if self._unread(subscription.definition.topic, start, page) is not None:
                subscription.unreadable = str(page.error)
                self._loop.call_later(self.retry_seconds, self._again, subscription, pages, start)
            return
        subscription.unreadable = ""
        pages.reading = False
        if pages.covered.stop == start and subscription.consumers:
            pages.batches.extend(map(_grouped, page.batches))
            pages.covered = range(pages.covered.start, page.covered)
        self._complete(PageRead(subscription))

    def _again(self, subscription: Subscription, pages: Pages, start: int) -> None:
        """Ask again for a page that couldn't be read, if it is still wanted."""
        if pages.covered.stop == start and subscription.consumers and not subscription.ended:
            self._request(subscription, pages, start)
            return
        pages.reading, subscription.unreadable = False, ""
        self._complete(PageRead(subscription))

    @property
    def retry_seconds(self) -> float:
        """Seconds until a page that couldn't be read is read again."""
        return self._limits.page_retry_ms / 1_000

    def _read(
        self,
        topic: str,
        start: int,
        done: Callable[[Page | Failure], None],
        hint_filter: HintFilter | None = None,
        page_bytes: int = 0,
    ) -> None:
        """Read a page on the reader's thread. `page_bytes`: 0 for the settings' size."""
        size = page_bytes or self._limits.page_bytes

        def told(page: Page | dict[int, str] | Failure) -> None:
            assert not isinstance(page, dict)  # noqa: S101
            if not isinstance(page, Failure) and self._unreadable.pop(topic, ""):
                _events.info("messages.readable", topic=topic)
            done(page)

        self._reader.submit(lambda: self._table.page(topic, start, size, hint_filter), told)

    async def topics(self, pattern: str, sequences: Sequence[int]) -> dict[int, str]:
        """Return the topics of these committed messages (ascending), which match the pattern.
        Raises as `page` does."""
        came: asyncio.Future[dict[int, str] | Failure] = self._loop.create_future()

        def done(found: Page | dict[int, str] | Failure) -> None:
            assert not isinstance(found, Page)  # noqa: S101
            if not came.done():
                came.set_result(found)

        self._reader.submit(lambda: self._table.topics(pattern, sequences), done)
        found = await came
        if isinstance(found, Failure):
            raise self._unread(pattern, sequences[0], found) or found
        return found

    def _unread(self, topic: str, start: int, failure: Failure) -> StoreError | None:
        """Log that a page can't be read, and return the error; None if it is a bug, which stops the
        gateway."""
        error = failure.error
        if not isinstance(error, StoreError | OSError):
            self._halt.now(f"{type(error).__name__}: {error}")
            return None
        if self._unreadable.get(topic) != str(error):
            self._unreadable[topic] = str(error)
            _events.error(
                "messages.unreadable",
                topic=topic,
                sequence=start,
                reason=str(error),
                then="subscriptions that want them wait, and ask again every "
                f"{self._limits.page_retry_ms} ms (delivery.page_retry_ms); others go on",
            )
        return StoreError(str(error))

    async def page(self, topic: str, start: int) -> Page:
        """Read a page for work beside serving consumers. Raises StoreError when it can't be read;
        Failure, with the gateway stopped, when that is a bug."""
        came: asyncio.Future[Page | Failure] = self._loop.create_future()

        def done(page: Page | Failure) -> None:
            if not came.done():
                came.set_result(page)

        self._read(topic, start, done)
        page = await came
        if isinstance(page, Failure):
            raise self._unread(topic, start, page) or page
        return page

    def lookup(self) -> "Lookup":
        """Make a `Lookup`, with a page of its own."""
        return Lookup(self, self._recent)

    def close(self) -> None:
        self._reader.leave()


class Lookup:
    """Finds messages by topic and sequence, for work beside serving consumers. Keeps one page."""

    def __init__(self, paging: Paging, recent: RecentMessages) -> None:
        self._paging, self._recent = paging, recent
        self._topic = ""
        self._start = 0
        self._page = Page((), 0)

    async def batch(self, topic: str, sequence: int, stop: int) -> RecordBatch | None:
        """Return the batch with this message, or the first later one that begins before `stop`.
        Raises StoreError, as `Paging.page` does."""
        while sequence < stop:
            if sequence >= self._recent.floor:
                batch = self._recent.find(topic, sequence)
                return batch if batch is not None and batch.first < stop else None
            if topic != self._topic or not self._start <= sequence < self._page.covered:
                self._page = await self._paging.page(topic, sequence)
                self._topic, self._start = topic, sequence
            for batch in self._page.batches:
                if batch.stop > sequence:
                    return batch if batch.first < stop else None
            sequence = self._page.covered
        return None

    async def topics(self, topic: str, run: Run) -> dict[int, str]:
        """Return the topics of these messages (ascending), which are `topic` or match it. Raises
        StoreError, as `Paging.page` does."""
        if not is_pattern(topic):
            return dict.fromkeys(run, topic)
        found: dict[int, str] = {}
        for sequence in run:
            here = self._recent.topic_of(topic, sequence)
            if here is not None:
                found[sequence] = here
        older = [sequence for sequence in run if sequence not in found]
        return found | (await self._paging.topics(topic, older) if older else {})

    def forget(self) -> None:
        """Forget the page."""
        self._topic, self._page = "", Page((), 0)


def _skipped(subscription: Subscription, wanted: int) -> bool:
    """Skip messages that by the hint can't match; return whether the position has moved on from
    `wanted`."""
    hint, dispatcher = subscription.hint, subscription.dispatcher
    assert hint is not None  # noqa: S101
    if not hint.forget(dispatcher.position):
        subscription.hint = None
        return False
    if wanted != dispatcher.position or not hint.covers(wanted):
        return False
    found = hint.next(wanted)
    if found > wanted:
        dispatcher.skip_to(found)
    return found > wanted


def _within(pages: Pages, wanted: int) -> RecordBatch | None:
    """Return the batch with `wanted`, if the pages have it."""
    if wanted in pages.covered:
        for batch in pages.batches:
            if batch.stop > wanted:
                return batch if batch.first <= wanted else None
    return None


def _grouped(batch: RecordBatch) -> RecordBatch:
    """Return an older batch with the message groups, which the table doesn't have."""
    groups = pump.groups(batch)
    if not groups:
        return batch
    attributes = batch.attributes or HeaderAttributes(batch.first, batch.sequences)
    return replace(batch, attributes=replace(attributes, groups=groups))
