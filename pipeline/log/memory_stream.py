"""The messages of one topic for those of its subscriptions that end with the process.

Such a subscription reads numbers of the stream, not sequences: a message that need not be written
gets a number and no sequence. Written messages get a number, too, when they are durable; their
bytes aren't kept here but found in the log.

Rule 1: numbers are dense and rise in the order in which messages came.
Rule 2: messages that are in memory alone stay while a subscription is owed them; all streams
        together have no more bytes than the budget allows.
"""

from bisect import bisect_left, bisect_right
from itertools import islice
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.log.backlog_counter import BacklogCounter
from distributary.pipeline.log.recent_messages import BATCH_BYTES
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.record_batch import RecordBatch

#: Bytes that a stream has at least before it is trimmed.
_TRIM_BYTES = 65_536


class MemoryBudget(msgspec.Struct, eq=False):
    """The bytes of memory that all streams take together, and their limit."""

    bytes_max: int
    bytes: int = 0

    def fits(self, size: int) -> bool:
        """Whether a batch with `size` bytes of messages fits."""
        return self.bytes + size + BATCH_BYTES <= self.bytes_max


class Logged(msgspec.Struct, frozen=True, eq=False):
    """Messages that are in the log: the first one's number, their count, and the first one's
    sequence."""

    first: int
    count: int
    sequence: int

    @property
    def stop(self) -> int:
        """The number after the last message."""
        return self.first + self.count

    def sequence_of(self, number: int) -> int:
        """Return the sequence of the message with this number, or of the first message if the
        number is lower."""
        return self.sequence + max(number - self.first, 0)

    def numbered(self, batch: RecordBatch) -> RecordBatch:
        """Return those messages of a batch of the log that are among these, under their numbers;
        there must be at least one."""
        listed = batch.sequences or range(batch.first, batch.stop)
        begin = bisect_left(listed, self.sequence)
        end = bisect_left(listed, self.sequence + self.count)
        first = self.first + listed[begin] - self.sequence
        offsets = bytes(memoryview(batch.offsets).cast("B")[4 * begin : 4 * (end + 1)])
        attributes = batch.attributes
        if attributes is not None:
            attributes = HeaderAttributes(
                first,
                None,
                bytes(attributes.priority)[begin:end],
                _times(attributes.expires_at, begin, end),
                _times(attributes.deliver_at, begin, end),
                _times(attributes.groups, begin, end),
            )
        return RecordBatch(first, end - begin, batch.blob, offsets, attributes=attributes)


Entry: TypeAlias = RecordBatch | Logged


class MemoryStream:
    """One topic's stream. Sizes are in bytes."""

    __slots__ = ("_budget", "_bytes", "_entries", "_excluded", "_trim_at", "counter", "head")

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._entries: list[Entry] = []
        self._bytes = 0
        self._trim_at = _TRIM_BYTES
        self._excluded: dict[range, None] = {}
        self.head = 0  #: the number of the next message
        #: Counts of the messages and their bytes, by number.
        self.counter = BacklogCounter()

    def __len__(self) -> int:
        """The number of batches and stretches of the log in the stream."""
        return len(self._entries)

    @property
    def due(self) -> bool:
        """Whether the stream has grown so much that the caller should call `trim`."""
        return self._bytes >= self._trim_at

    def fits(self, size: int) -> bool:
        """Whether a batch with `size` bytes of messages fits into the budget."""
        return self._budget.fits(size)

    def add(self, batch: RecordBatch, at: int) -> None:
        """Add messages that came at this time (microseconds) and are kept nowhere else; the first
        one has the number `head`."""
        assert batch.first == self.head, f"batch {batch.first} does not follow {self.head}"  # noqa: S101
        self._entries.append(batch)
        self._weigh(_size(batch))
        self.counter.add(batch.first, batch.stop, batch.count, len(batch.blob), at)
        self.head = batch.stop

    def add_logged(self, batch: RecordBatch, at: int) -> tuple[RecordBatch, list[range]]:
        """Add messages that became durable: a batch of one group. Return the batch under its
        numbers, and the numbers that no subscription of this stream is owed (`exclude`)."""
        assert batch.sequences is None, "a group's batch is dense"  # noqa: S101
        logged = Logged(self.head, batch.count, batch.first)
        last = self._entries[-1] if self._entries else None
        if isinstance(last, Logged) and last.sequence + last.count == batch.first:
            self._entries[-1] = replace(last, count=last.count + batch.count)
        else:
            self._entries.append(logged)
        self.counter.add(self.head, logged.stop, batch.count, len(batch.blob), at)
        self.head = logged.stop
        shift = logged.first - batch.first
        gone = [run for run in self._excluded if run.start in range(batch.first, batch.stop)]
        for run in gone:
            del self._excluded[run]
        out = [range(run.start + shift, run.stop + shift) for run in gone]
        return logged.numbered(batch), out

    def exclude(self, run: range) -> None:
        """Take note that no subscription of this stream is owed the messages with these sequences,
        which aren't durable yet."""
        self._excluded[run] = None

    def find(self, number: int) -> Entry | None:
        """Return the entry with the message of this number, else the entry of the next message
        after it; None if there is none."""
        entries = self._entries
        last = entries[-1] if entries else None
        if last is None or last.first <= number:  # mostly the newest entry is wanted
            return last if last is not None and number < last.stop else None
        return entries[bisect_right(entries, number, key=_stop)]

    def first_logged(self, number: int, default: int) -> int:
        """Return the first sequence of the stream's logged messages from this number on; the
        default if there are none."""
        at = bisect_right(self._entries, number, key=_stop)
        for entry in islice(self._entries, at, None):
            if isinstance(entry, Logged):
                return entry.sequence_of(number)
        return default

    def trim(self, below: int) -> None:
        """Forget messages below this number: no subscription is owed any of them."""
        gone = bisect_right(self._entries, below, key=_stop)
        self._weigh(-sum(map(_size, self._entries[:gone])))
        del self._entries[:gone]
        self.counter.trim(below)
        self._trim_at = max(2 * self._bytes, _TRIM_BYTES)

    def clear(self) -> None:
        """Forget all messages: the stream has no reader any more."""
        self.trim(self.head)

    def _weigh(self, size: int) -> None:
        self._bytes += size
        self._budget.bytes += size


def _stop(entry: Entry) -> int:
    return entry.stop


def _size(entry: Entry) -> int:
    """Return the bytes that an entry takes; 0 for messages in the log, whose entries are small."""
    if isinstance(entry, Logged):
        return 0
    attributes = entry.attributes
    return BATCH_BYTES + len(entry.blob) + (attributes.size if attributes is not None else 0)


def _times(column: Bytes, begin: int, end: int) -> bytes:
    """Return elements of a column of 8 bytes each; an empty column stays empty."""
    return bytes(memoryview(column).cast("B")[8 * begin : 8 * end])
