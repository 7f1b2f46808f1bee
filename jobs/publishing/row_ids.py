"""The ids of rows that have none: the same when a task or a batch runs again.

Rule 1: a row is identified by its write (a query and its batch, or one `save`), its partition, its
        content, and the number of equal rows before it in that partition.
Rule 2: so the order of rows in a partition doesn't matter: a task that runs again may have another
        order, and a row identified by its place would then be taken for another, and be lost.
Rule 3: a task that runs again must have the same rows in the same partitions. Rows that differ each
        time, as they depend on chance or a clock, need a column `message_id`.
"""

from collections import Counter
from hashlib import blake2b

#: Bytes of the digest of a row's content: equal digests of two rows of a partition are practically
#: impossible.
DIGEST_BYTES = 12


class RowIds:
    """The ids of the rows of one partition, in any order. `write` names the write."""

    def __init__(self, write: str, partition: int) -> None:
        self._prefix = f"{write}-{partition}"
        self._seen: Counter[bytes] = Counter()

    def next(self, content: bytes) -> str:
        """Return the id of a row with this content."""
        found = blake2b(content, digest_size=DIGEST_BYTES).digest()
        self._seen[found] += 1
        return f"{self._prefix}-{found.hex()}-{self._seen[found]}"
