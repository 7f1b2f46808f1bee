"""Header attributes: priority, expiry, delay and group, which decide when messages are delivered
and in which order.

Nearly all messages are plain: priority 4, no expiry, no delay, no group. A batch of plain messages
has no header attributes, so they cost nothing.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from distributary.pipeline.codec.buffers import Bytes

#: The usual priority: of a message whose header has none (AMQP 1.0, 3.2.1).
PRIORITY = 4
_ZERO = bytes(8)
#: Bytes of a HeaderAttributes object without its arrays.
_OBJECT_BYTES = 160


@dataclass(frozen=True, slots=True, eq=False)
class HeaderAttributes:
    """The header attributes of a batch's messages, by their place in it.

    The sequences are `first`, `first + 1`, ... or those listed, as in the batch. The arrays have
    one native-endian element per message, or are empty where all messages have the usual value:
    `priority` uint8 (usually 4), `expires_at` int64 microseconds (usually 0: never), `deliver_at`
    int64 microseconds (usually 0: at once), `groups` uint64 (a hash of the group-id that is never
    0; usually 0: none).
    """

    first: int
    sequences: "array[int] | None" = None
    priority: Bytes = b""
    expires_at: Bytes = b""
    deliver_at: Bytes = b""
    groups: Bytes = b""

    @property
    def size(self) -> int:
        """Bytes of memory of the object and its arrays."""
        columns = (self.priority, self.expires_at, self.deliver_at, self.groups)
        return _OBJECT_BYTES + sum(len(column) for column in columns)

    @property
    def stop(self) -> int:
        """The sequence after the last message; `first` if all arrays are empty."""
        if self.sequences is not None:
            return self.sequences[-1] + 1
        long = (self.expires_at, self.deliver_at, self.groups)
        return self.first + max(len(self.priority), *(len(column) // 8 for column in long))

    @property
    def earliest_expiry(self) -> int:
        """Time when the first of the messages expires; 0: none does."""
        return min(filter(None, memoryview(self.expires_at).cast("B").cast("q")), default=0)

    def place(self, sequence: int) -> int:
        """Return the index of a message of the batch in the arrays."""
        if self.sequences is None:
            return sequence - self.first
        return bisect_left(self.sequences, sequence)


def joined(
    first: int, sequences: "array[int] | None", parts: Sequence[tuple[int, HeaderAttributes | None]]
) -> HeaderAttributes | None:
    """Join the header attributes of consecutive batches; each part is a batch's count of messages
    and its header attributes. None if all messages are plain."""
    if all(attributes is None for _, attributes in parts):
        return None
    return HeaderAttributes(
        first,
        sequences,
        _column([(n, t.priority if t else b"", bytes([PRIORITY])) for n, t in parts]),
        _column([(n, t.expires_at if t else b"", _ZERO) for n, t in parts]),
        _column([(n, t.deliver_at if t else b"", _ZERO) for n, t in parts]),
        _column([(n, t.groups if t else b"", _ZERO) for n, t in parts]),
    )


def _column(parts: list[tuple[int, Bytes, bytes]]) -> bytes:
    """Join arrays, given as (count, array, usual value for each message if the array is empty)."""
    if not any(column for _, column, _ in parts):
        return b""
    return b"".join([column or usual * count for count, column, usual in parts])
