"""The partition of a topic that a message is in.

Rule 1: messages of one group are in one partition; those without a group go by their id, so that a
        message that is sent again comes to its duplicate.
Rule 2: messages with neither go to all partitions in turn.
Rule 3: a key's partition never changes: neither the hash nor the formula does.
"""

from collections.abc import Sequence


def partitions_of(keys: Sequence[int], partitions: int, turn: int) -> list[int]:
    """Return the partition of each message of a run, by the upper half of its key: the 64-bit hash
    of its group-id or id, in which each bit of the text counts. Messages without either have the
    key 0 and the partition of the `turn`."""
    there = turn % partitions
    return [(key >> 32) * partitions >> 32 if key else there for key in keys]
