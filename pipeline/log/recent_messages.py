"""Recent messages in memory: what was just published, so that most deliveries read no disk.

Batches come in the order of their sequences and leave in that order, the oldest first: when they
are too much, or owed to nobody any more; but only when the table has them: what isn't committed can
be read nowhere else. A pattern that is watched has a line of its own, with the batches of all
topics that match it.
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

#: A batch of fewer messages is handed out together with those behind it: a batch costs about ten
#: microseconds until it is delivered, a message in it far less than one.
SMALL = 32
#: Batches, and bytes, that are joined at most: their bytes are copied.
JOIN_BATCHES_MAX = 256
JOIN_BYTES_MAX = 1 << 18
#: Bytes that a batch takes beside its messages' and its header attributes', measured: with one
#: message in each they are most.
BATCH_BYTES = 320
#: Bytes of a batch's entry in the line of each pattern that its topic matches.
LINE_BYTES = 24
#: Batches owed to nobody that leave in one go, two microseconds each: after a commit, and with each
#: batch that comes, so that they leave as fast as they come.
LEAVE_BY_COMMIT, LEAVE_BY_ADD = 256, 2
#: Entries of a topic's line that are gone before it is cut: makes leaving O(1) on average.
_TRIM_AT = 1_024


class Taker(Protocol):
    """Who wants messages."""

    @property
    def room(self) -> int:
        """How many it takes."""


class _TopicBatches(msgspec.Struct):
    """The batches of one topic, or of all that match a pattern, ascending; those before `start`
    are gone. `topics` are those of a pattern's batches, of which those below `since` are missing
    until somebody asks for them."""

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
        """The index of the batch with this sequence, if there is one."""
        return max(bisect_right(self.firsts, sequence) - 1, self.start)

    def drop_first(self, first: int) -> bool:
        """The batch that begins so leaves, if it is here; whether none is left."""
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
        """`patterns` are those that are watched: none yet."""
        self._bytes_max = bytes_max
        self.patterns = PatternIndex() if patterns is None else patterns
        self._of_topic: dict[str, _TopicBatches] = {}
        self._of_pattern: dict[str, _TopicBatches] = {}
        #: Topic, first and end of each batch, and its bytes, also of those that are forgotten.
        self._order: deque[tuple[str, int, int, int]] = deque()
        self._bytes = 0
        #: The last batch that was joined, and of which topic, from where and of how many it is:
        #: what many subscriptions of a topic want in turn is made once.
        self._joined: RecordBatch | None = None
        self._joined_key = ("", 0, 0)
        self.committed_through = head  #: the table has every message below it
        self._leaving_below = head  #: those of them that are owed to nobody
        self.floor = head  #: every message from here on is in memory
        self.head = head  #: the sequence after the last message

    @property
    def topics(self) -> AbstractSet[str]:
        """Those that have a batch here."""
        return self._of_topic.keys()

    @property
    def bytes(self) -> int:
        """The bytes of memory that all batches take."""
        return self._bytes

    def add(self, topic: str, batch: RecordBatch) -> None:
        """The next messages of the log, which are all of `topic`."""
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
        """The table has every message below `through`. None below `owed_from` is owed to anybody
        as long as nobody asks for messages of before."""
        self.committed_through = max(self.committed_through, through)
        self._leaving_below = min(self.committed_through, owed_from)
        self._evict(LEAVE_BY_COMMIT)

    def watch(self, pattern: str) -> None:
        """The batches of all topics that match this pattern are found under its word, too, until
        `unwatch`."""
        if pattern not in self.patterns:
            self.patterns.add(pattern)
            self._of_pattern[pattern] = _TopicBatches(topics=[], since=self.head)

    def unwatch(self, pattern: str) -> None:
        """Nobody looks for this pattern any more."""
        self.patterns.remove(pattern)
        self._of_pattern.pop(pattern, None)

    def topic_of(self, pattern: str, sequence: int) -> str | None:
        """The topic of this message, which matches the watched pattern; None if it isn't here."""
        mine = self._matching(pattern, sequence) if sequence >= self.floor else None
        if mine is None or mine.topics is None:
            return None
        at = mine.at(sequence)
        batch = mine.batches[at] if at < len(mine.batches) else None
        here = batch is not None and batch.first <= sequence < batch.stop
        return mine.topics[at] if here else None

    def _matching(self, pattern: str, sequence: int) -> _TopicBatches | None:
        """The line of a pattern, complete from this sequence on; None if it isn't watched."""
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
        """No reader needs this topic's messages any more: they leave memory now. Their bytes
        count until they would have left."""
        self._of_topic.pop(topic, None)
        self._joined, self._joined_key = None, ("", 0, 0)

    def find(self, topic: str, sequence: int, taker: Taker | None = None) -> RecordBatch | None:
        """The batch of `topic`, or of a watched pattern, with `sequence`, else the first one after
        it, else None.

        Small ones are joined while they hold no more than the taker has room for. `sequence` must
        not be below the floor.
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
        """These batches of one topic, behind each other, as one; None if there is nothing to
        join."""
        if len(batches) < 2:
            return None
        key = topic, batches[0].first, len(batches)
        if key != self._joined_key:
            self._joined_key, self._joined = key, _joined(batches)
        return self._joined

    def _evict(self, most: int) -> None:
        """Those leave that are too much, and so many of those that are owed to nobody."""
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
    """The small batches from `at` on that are worth joining; none is gone behind one that isn't."""
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
    """These batches of one topic, behind each other, as one."""
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
