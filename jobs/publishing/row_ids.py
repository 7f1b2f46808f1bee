"""The ids of rows that have none: the same when a task or a batch runs again.

Rule 1: a row is known by the write that it belongs to (a query and its batch, or one `save`), its
        partition, its content, and how many like it come before it in that partition.
Rule 2: so the order of rows in a partition means nothing: what runs again may have another one, and
        a row that were known by its place would then be taken for another, and be lost.
Rule 3: what runs again must bring the same rows to the same partitions. Rows of which that isn't
        so, as they were made by chance or by a clock, need a column `message_id`.
"""

from collections import Counter
from hashlib import blake2b

#: Bytes of the digest of a row's content: that two of one partition are equal by accident is as
#: good as impossible.
DIGEST_BYTES = 12


class RowIds:
    """The ids of the rows of one partition, in any order. `write` names the write."""

    def __init__(self, write: str, partition: int) -> None:
        self._prefix = f"{write}-{partition}"
        self._seen: Counter[bytes] = Counter()

    def next(self, content: bytes) -> str:
        """The id of a row with this content."""
        found = blake2b(content, digest_size=DIGEST_BYTES).digest()
        self._seen[found] += 1
        return f"{self._prefix}-{found.hex()}-{self._seen[found]}"
