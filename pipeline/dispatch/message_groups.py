"""Groups of messages: one consumer at a time gets the messages of one group-id, in order.

Rule 1: a group belongs to the consumer that got its first message, as long as that one is
        attached. When another one joins, the groups of which nobody holds a message belong to
        nobody again: their next message decides anew, in turn.
Rule 2: while a message of a group waits to be delivered again later, the group's others wait, too.
Rule 3: groups are kept in buckets, by a hash: what is said here of a group holds for a bucket.
        So what groups cost doesn't grow with their number, and order holds all the same; that
        two groups share a consumer which could have had two is all that it costs.
"""

from typing import Final

from distributary.pipeline.sequences.sequence_set import Run

#: Buckets: many more than consumers of one subscription, and few enough to be looked through.
BUCKETS: Final = 1_024
#: Messages that may wait for the consumer of their group; then nothing more is read until some of
#: them went. Each takes about 100 bytes.
PARKED_MAX: Final = 100_000


class Groups:
    """The groups of one subscription, by buckets."""

    __slots__ = ("_blocked", "_held", "members", "owner")

    def __init__(self) -> None:
        self.owner: dict[int, int] = {}  #: bucket -> its consumer
        self.members: dict[int, int] = {}  #: outstanding message of a group -> its bucket
        self._held: dict[int, int] = {}  #: message that a consumer holds -> its bucket
        #: bucket -> those of it that are to be delivered again later; none is empty.
        self._blocked: dict[int, set[int]] = {}

    def give(self, sequence: int, bucket: int, consumer: int) -> None:
        """This message goes to this consumer, and with it its group."""
        self.owner[bucket] = consumer
        self.members[sequence] = self._held[sequence] = bucket

    def waits(self, bucket: int) -> bool:
        """Whether the messages of this bucket must wait for one that is delivered again later."""
        return bucket in self._blocked

    def back(self, run: Run, *, later: bool) -> None:
        """These are not held any more, and still owed; `later`: not before their time."""
        for sequence in run:
            bucket = self._held.pop(sequence, None)
            if later and bucket is not None:
                self._blocked.setdefault(bucket, set()).add(sequence)

    def reacquire(self, run: Run) -> set[int]:
        """A consumer has these, whosever the group is, and they wait for no time: the buckets that
        may go on. Of those that were never given to anybody the group isn't known."""
        freed = self.due(run)
        for sequence in run if self.members else ():
            bucket = self.members.get(sequence)
            if bucket is not None:
                self._held[sequence] = bucket
        return freed

    def due(self, run: Run) -> set[int]:
        """These wait for their time no more: the buckets that may go on."""
        freed = set()
        for sequence in run if self._blocked else ():
            bucket = self.members.get(sequence, -1)
            blocked = self._blocked.get(bucket)
            if blocked is not None:
                blocked.discard(sequence)
                if not blocked:
                    del self._blocked[bucket]
                    freed.add(bucket)
        return freed

    def forget(self, run: Run) -> set[int]:
        """These are owed no more: the buckets that may go on."""
        freed = self.due(run)
        for sequence in run if self.members else ():
            self.members.pop(sequence, None)
            self._held.pop(sequence, None)
        return freed

    def detach(self, consumer: int) -> set[int]:
        """The consumer went: its groups, which are nobody's now."""
        return self._disown({one for one, owner in self.owner.items() if owner == consumer})

    def join(self) -> set[int]:
        """A consumer came: the groups that are nobody's now."""
        held = set(self._held.values())
        return self._disown(self.owner.keys() - held)

    def clear(self) -> None:
        for known in (self.owner, self.members, self._held, self._blocked):
            known.clear()

    def _disown(self, buckets: set[int]) -> set[int]:
        for bucket in buckets:
            del self.owner[bucket]
        return buckets
