"""Ids of messages from before the start, read back from the table: so a duplicate that is sent
because the gateway died is recognized.

The table is read on the caller's thread, before peers are served: as many messages of each topic as
its window has ids, and more where some of these have none, up to `BACK_MAX` times as many. So the
window may get fewer ids than it held where few messages have one. Topics that don't look for
duplicates aren't read.
"""

import time
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import structlog

from distributary.ingest.native.pump import Pump
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.policies import Policies
from distributary.pipeline.log.duplicates import Windows
from distributary.pipeline.model.policy import TopicPolicy
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

_events = structlog.get_logger("gateway")

#: Parts of a window by time. Only the part in which a message was published is known, and its end
#: counts as the time, so after a start an id may be remembered longer by one part.
PARTS = 16
#: Most times as many messages as a window has ids that are read for it.
BACK_MAX = 4
#: Bytes of messages that are read at once.
_PAGE_BYTES = 4 << 20


def restore_duplicates(windows: Windows, policies: Policies, table: TopicLog) -> None:
    """Fill the windows of all topics that look for duplicates."""
    if not policies.seek_duplicates:
        return
    began = time.perf_counter()
    pump = Pump(1)
    messages = 0
    for topic, ends in _topics(policies, table).items():
        messages += _restore_topic(windows, topic, policies.of_topic(topic), ends, table, pump)
    _events.info(
        "duplicates.remembered",
        ids=len(windows),
        messages=messages,
        milliseconds=round((time.perf_counter() - began) * 1_000),
    )


def _topics(policies: Policies, table: TopicLog) -> dict[str, list[tuple[int, int]]]:
    """Return the parts of each topic that looks for duplicates: (end, number of messages)."""
    found: dict[str, list[tuple[int, int]]] = {}
    for part in table.volumes(table.first_sequence):
        if policies.of_topic(part.topic).seeks_duplicates:
            found.setdefault(part.topic, []).append((part.stop, part.messages))
    return found


def _restore_topic(
    windows: Windows,
    topic: str,
    policy: TopicPolicy,
    ends: Sequence[tuple[int, int]],
    table: TopicLog,
    pump: Pump,
) -> int:
    """Fill one topic's window; return how many messages were read."""
    age = policy.duplicates_ms * 1_000
    now = clock.now()
    times = [now - age * left // PARTS for left in range(PARTS if age else 1, -1, -1)]
    starts = [table.first_sequence_at(at) for at in times[:-1]] if age else [0]
    wanted, back = policy.duplicates_messages, 1
    while True:
        at = max(_start(back * wanted, ends), starts[0])
        messages = 0
        for batch in _batches(table, topic, at):
            messages += batch.count
            listed = batch.sequences or range(batch.first, batch.stop)
            ids, begin = _ids(batch, pump), 0
            for start, until in zip([*starts[1:], table.sequence_version], times[1:], strict=True):
                end = bisect_left(listed, start, lo=begin)
                windows.add(topic, ids[begin:end], until, messages=wanted, age=age)
                begin = end
        back *= 2
        known = windows.sizes().get(topic, 0)
        whole = at <= starts[0] or known >= min(wanted, windows.most)
        if whole or not known or back > BACK_MAX:
            return messages
        windows.forget(topic)


def _batches(table: TopicLog, topic: str, at: int) -> Iterator[RecordBatch]:
    """Yield the topic's messages from a sequence on."""
    while at < table.sequence_version:
        page = table.page(topic, at, _PAGE_BYTES)
        yield from page.batches
        at = page.covered


def _start(messages: int, ends: Sequence[tuple[int, int]]) -> int:
    """Return a sequence from which on there are at least `messages` messages; 0: from the start."""
    if not messages:
        return 0
    left = messages
    for stop, count in reversed(ends):
        if left <= 0:
            return stop
        left -= count
    return 0


def _ids(batch: RecordBatch, pump: Pump) -> list[bytes]:
    blob = memoryview(batch.blob)
    offsets = memoryview(batch.offsets).cast("B").cast("i")
    return [pump.id_of(blob[offsets[i] : offsets[i + 1]]) for i in range(batch.count)]
