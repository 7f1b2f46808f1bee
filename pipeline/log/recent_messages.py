"""Recent messages in memory, so that most deliveries read no disk.

Batches are added in the order of their sequences and leave in that order, the oldest first: when
they take too much memory, or no subscription is owed them; but only when the table has them, as
uncommitted messages can be read nowhere else. A watched pattern has a line of its own, with the
batches of all topics that match it.
"""

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Protocol

import msgspec

from distributary.pipeline.log.pattern_index import PatternIndex
from distributary.pipeline.model.header_attributes import joined
from distributary.pipeline.model.record_batch import RecordBatch

#: A batch of fewer messages is handed out together with the next ones: delivering a batch costs
#: about ten microseconds, a message in it far less than one.
SMALL = 32
#: Most batches, and bytes, that are joined: their bytes are copied.
JOIN_BATCHES_MAX = 256
JOIN_BYTES_MAX = 1 << 18
#: Bytes that a batch takes beside its messages' and its header attributes', measured with one
#: message in each batch, where they are most.
BATCH_BYTES = 320
#: Bytes of a batch's entry in the line of each pattern that its topic matches.
LINE_BYTES = 24
#: Batches owed to no subscription that leave in one call, two microseconds each: after a commit,
#: and with each added batch, so that they leave as fast as they come.
LEAVE_BY_COMMIT, LEAVE_BY_ADD = 256, 2
#: Entries of a topic's line that are gone before it is cut: makes leaving O(1) on average.
_TRIM_AT = 1_024


class Taker(Protocol):
    """A taker of messages."""

    @property
    def room(self) -> int:
        """The number of messages that it takes."""


class _TopicBatches(msgspec.Struct):
    """The batches of one topic, or of all that match a pattern, ascending; those before `start`
    are gone. `topics` are the topics of a pattern's batches. A pattern's batches below `since` are
    missing until a reader asks for them."""

    firsts: list[int] = msgspec.field(default_factory=list)
    batches: list[RecordBatch | None] = msgspec.field(default_factory=list)
    start: int = 0
    topics: list[str] | None = None
    since: int = 0

    def add(self, topic: str, batch: RecordBatch) -> None:
        self.firsts.append(batch.first)
        self.batches.append(batch)
        if self.topics is not None:
            self.topics.append(topic)

    def at(self, sequence: int) -> int:
        """Return the index of the last batch that begins at or before this sequence."""
        return max(bisect_right(self.firsts, sequence) - 1, self.start)

    def drop_first(self, first: int) -> bool:
        """Drop the first batch if it begins at `first`, and return whether none is left then."""
        if self.start == len(self.batches) or self.firsts[self.start] != first:
            return False
        self.batches[self.start] = None
        self.start += 1
        if self.start >= _TRIM_AT:
            del self.firsts[: self.start], self.batches[: self.start]
            if self.topics is not None:
                del self.topics[: self.start]
            self.start = 0
        return self.start == len(self.batches)


class RecentMessages:
    """A window over the log's end: `floor .. head - 1` is all here."""

    def __init__(self, *, head: int, bytes_max: int, patterns: PatternIndex | None = None) -> None:
        """`patterns` is the index of watched patterns, empty at first."""
        self._bytes_max = bytes_max
        self.patterns = PatternIndex() if patterns is None else patterns
        self._of_topic: dict[str, _TopicBatches] = {}
        self._of_pattern: dict[str, _TopicBatches] = {}
        #: Topic, first and stop of each batch, and its bytes, with those of forgotten topics.
        self._order: deque[tuple[str, int, int, int]] = deque()
        self._bytes = 0
        #: The last joined batch, and its topic, first sequence and number of parts: a joined batch
        #: that many subscriptions of a topic want in turn is made once.
        self._joined: RecordBatch | None = None
        self._joined_key = ("", 0, 0)
        self.committed_through = head  #: the table has every message below it
        self._leaving_below = head  #: no committed message below it is owed to a subscription
        self.floor = head  #: every message from here on is in memory
        self.head = head  #: the sequence after the last message

    @property
    def topics(self) -> AbstractSet[str]:
        """The topics that have a batch here."""
        return self._of_topic.keys()

    @property
    def bytes(self) -> int:
        """The bytes of memory that all batches take."""
        return self._bytes

    def add(self, topic: str, batch: RecordBatch) -> None:
        """Add the next messages of the log, which are all of `topic`."""
        assert batch.first == self.head, f"batch {batch.first} does not follow {self.head}"  # noqa: S101
        of_topic = self._of_topic.get(topic)
        if of_topic is None:
            of_topic = self._of_topic[topic] = _TopicBatches()
        of_topic.firsts.append(batch.first)
        of_topic.batches.append(batch)
        size, stop = BATCH_BYTES + len(batch.blob), batch.stop
        if batch.attributes is not None:
            size += batch.attributes.size
        if self.patterns.claims:
            for pattern in self.patterns.of(topic):
                self._of_pattern[pattern].add(topic, batch)
                size += LINE_BYTES
        self._order.append((topic, batch.first, stop, size))
        self._bytes += size
        self.head = stop
        self._evict(LEAVE_BY_ADD)

    def committed(self, through: int, owed_from: int = 0) -> None:
        """Take note that the table has every message below `through`, and that no subscription is
        owed a message below `owed_from`, until one is rewound."""
        self.committed_through = max(self.committed_through, through)
        self._leaving_below = min(self.committed_through, owed_from)
        self._evict(LEAVE_BY_COMMIT)

    def watch(self, pattern: str) -> None:
        """Find the batches of all topics that match this pattern under its word, too, until
        `unwatch`."""
        if pattern not in self.patterns:
            self.patterns.add(pattern)
            self._of_pattern[pattern] = _TopicBatches(topics=[], since=self.head)

    def unwatch(self, pattern: str) -> None:
        """Forget a pattern that has no reader any more."""
        self.patterns.remove(pattern)
        self._of_pattern.pop(pattern, None)

    def topic_of(self, pattern: str, sequence: int) -> str | None:
        """Return the topic of this message, which matches the watched pattern; None if the message
        isn't here."""
        mine = self._matching(pattern, sequence) if sequence >= self.floor else None
        if mine is None or mine.topics is None:
            return None
        at = mine.at(sequence)
        batch = mine.batches[at] if at < len(mine.batches) else None
        here = batch is not None and batch.first <= sequence < batch.stop
        return mine.topics[at] if here else None

    def _matching(self, pattern: str, sequence: int) -> _TopicBatches | None:
        """Return a pattern's line, complete from this sequence on; None if it isn't watched."""
        mine = self._of_pattern.get(pattern)
        if mine is None or sequence >= mine.since:
            return mine
        whole = self._of_pattern[pattern] = _TopicBatches(topics=[])
        for topic, first, _, _ in self._order:
            of_topic = self._of_topic.get(topic) if pattern in self.patterns.of(topic) else None
            if of_topic is not None:
                batch = of_topic.batches[of_topic.at(first)]
                assert batch is not None  # noqa: S101
                whole.add(topic, batch)
        return whole

    def forget(self, topic: str) -> None:
        """Drop a topic's messages, which no reader needs any more. Their bytes count until they
        would have left."""
        self._of_topic.pop(topic, None)
        self._joined, self._joined_key = None, ("", 0, 0)

    def find(self, topic: str, sequence: int, taker: Taker | None = None) -> RecordBatch | None:
        """Return the batch of `topic`, or of a watched pattern, with `sequence`, else the first one
        after it, else None.

        Small batches are joined while they hold no more messages than the taker has room for.
        `sequence` must not be below the floor.
        """
        of_topic = self._of_topic.get(topic) or self._matching(topic, sequence)
        if of_topic is None:
            return None
        at = of_topic.at(sequence)
        while at < len(of_topic.batches):
            batch = of_topic.batches[at]
            if batch is not None and batch.stop > sequence:
                if taker is None or at + 1 == len(of_topic.batches) or batch.count >= SMALL:
                    return batch
                return self._join(topic, _small(of_topic.batches, at, taker.room)) or batch
            at += 1
        return None

    def _join(self, topic: str, batches: Sequence[RecordBatch]) -> RecordBatch | None:
        """Return these consecutive batches of one topic as one; None if there are fewer than
        two."""
        if len(batches) < 2:
            return None
        key = topic, batches[0].first, len(batches)
        if key != self._joined_key:
            self._joined_key, self._joined = key, _joined(batches)
        return self._joined

    def _evict(self, most: int) -> None:
        """Drop committed batches that exceed the limit of bytes, and at most `most` batches that
        are owed to no subscription."""
        while self._order:
            topic, first, stop, size = self._order[0]
            if stop > self._leaving_below or not most:
                if self._bytes <= self._bytes_max or stop > self.committed_through:
                    return
            else:
                most -= 1
            self._order.popleft()
            self._bytes -= size
            self.floor = stop
            self._drop_first(topic, first)

    def _drop_first(self, topic: str, first: int) -> None:
        of_topic = self._of_topic.get(topic)  # None: it was forgotten
        if of_topic is not None and of_topic.drop_first(first):
            del self._of_topic[topic]
        for pattern in self.patterns.of(topic):
            self._of_pattern[pattern].drop_first(first)


def _small(batches: Sequence[RecordBatch | None], at: int, most: int) -> list[RecordBatch]:
    """Return the small batches from `at` on that are worth joining. Behind a batch that is here,
    none is missing."""
    found: list[RecordBatch] = []
    count = size = 0
    for nth in range(at, min(at + JOIN_BATCHES_MAX, len(batches))):
        batch = batches[nth]
        assert batch is not None  # noqa: S101
        count, size = count + batch.count, size + len(batch.blob)
        if batch.count >= SMALL or size > JOIN_BYTES_MAX or count > most:
            break
        found.append(batch)
    return found


def _joined(batches: Sequence[RecordBatch]) -> RecordBatch:
    """Return these consecutive batches of one topic as one."""
    sequences, offsets, base = array("q"), array("i", [0]), 0
    for batch in batches:
        sequences.extend(range(batch.first, batch.stop))
        for offset in memoryview(batch.offsets).cast("B").cast("i")[1:]:
            offsets.append(base + offset)
        base += len(batch.blob)
    first, count = sequences[0], len(sequences)
    blob = b"".join([batch.blob for batch in batches])
    dense = sequences[-1] - first == count - 1
    listed = None if dense else sequences
    attributes = joined(first, listed, [(batch.count, batch.attributes) for batch in batches])
    return RecordBatch(first, count, blob, offsets.tobytes(), listed, attributes)
