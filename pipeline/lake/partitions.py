"""Which partition of a topic a message is in.

Rule 1: messages of one group are in one partition; those without a group go by their id, so that a
        message that is sent again comes to its duplicate.
Rule 2: what has neither goes to all partitions in turn.
Rule 3: the same key is in the same partition for ever: the hash, and what is made of it, doesn't
        change.
"""

from collections.abc import Sequence


def partitions_of(keys: Sequence[int], partitions: int, turn: int) -> list[int]:
    """The partition of each message of a run: by its key, the hash of 64 bits of its group-id or
    id, of which the upper half is taken, where each bit of the text counts. Without one, which is
    the key 0, it is that of the `turn`."""
    there = turn % partitions
    return [(key >> 32) * partitions >> 32 if key else there for key in keys]
