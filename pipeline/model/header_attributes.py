"""Header attributes: what decides when messages are delivered, and in which order: priority,
expiry, delay, group.

Nearly all messages are plain: priority 4, no expiry, no delay, no group. Batches of plain messages
have no header attributes at all, so that they cost nothing.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from distributary.pipeline.codec.buffers import Bytes

#: The priority of a message that says none (AMQP 1.0, 3.2.1).
PRIORITY = 4
_ZERO = bytes(8)
#: Bytes that HeaderAttributes take beside what is in the arrays.
_OBJECT_BYTES = 160


@dataclass(frozen=True, slots=True, eq=False)
class HeaderAttributes:
    """The header attributes of a batch's messages, by their place in it.

    Their sequences are `first`, `first + 1`, ... or those listed, as in the batch. The arrays have
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
        """Bytes of memory that all this takes."""
        columns = (self.priority, self.expires_at, self.deliver_at, self.groups)
        return _OBJECT_BYTES + sum(len(column) for column in columns)

    @property
    def stop(self) -> int:
        """The sequence after the last message; `first` if all arrays are empty."""
        if self.sequences is not None:
            return self.sequences[-1] + 1
        long = (self.expires_at, self.deliver_at, self.groups)
        return self.first + max(len(self.priority), *(len(column) // 8 for column in long))

    def place(self, sequence: int) -> int:
        """Where a message of the batch lies in the arrays."""
        if self.sequences is None:
            return sequence - self.first
        return bisect_left(self.sequences, sequence)


def joined(
    first: int, sequences: "array[int] | None", parts: Sequence[tuple[int, HeaderAttributes | None]]
) -> HeaderAttributes | None:
    """The header attributes of batches behind each other as those of one batch; each part is a
    batch's count of messages and its header attributes. None if all are plain."""
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
    """One array of several: of each its count, the array, and the usual value where it is empty."""
    if not any(column for _, column, _ in parts):
        return b""
    return b"".join([column or usual * count for count, column, usual in parts])
