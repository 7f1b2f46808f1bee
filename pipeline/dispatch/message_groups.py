"""Message groups (JMSXGroupID): one consumer at a time gets the messages of one group-id, in order.
`choose` chooses the consumer of each message where selectors or groups decide.

Rule 1: the consumer that gets the first message of a group owns the group while it is attached.
        When another consumer attaches, groups without messages in flight lose their owner: their
        next message is delivered in turn, and sets the owner anew.
Rule 2: while a message of a group is delayed by its redelivery, or belongs to a transaction whose
        consumer has detached or was before a restart, the group's other messages wait too.
Rule 3: groups are kept in buckets, by a hash; rules 1 and 2 hold for whole buckets. So memory
        doesn't grow with the number of groups, and order holds; the cost is that two groups of one
        bucket always share a consumer.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from distributary.pipeline.dispatch.ready import Eligibility, stuck
from distributary.pipeline.dispatch.service_queue import ServiceQueue
from distributary.pipeline.model.sorting import as_run
from distributary.pipeline.sequences.sequence_set import Run

#: Buckets: many more than consumers of one subscription, and few enough for a loop over them. Work
#: of prepared transactions is recorded with their numbers: with others it would need a new format.
BUCKETS: Final = 1_024
#: Messages that may wait for the consumer of their group; at this number reading stops until some
#: of them are delivered. Each takes about 100 bytes.
PARKED_MAX: Final = 100_000


class Groups:
    """The groups of one subscription, by buckets."""

    __slots__ = ("_blocked", "_held", "members", "owner")

    def __init__(self) -> None:
        self.owner: dict[int, int] = {}  #: bucket -> the consumer that owns it
        self.members: dict[int, int] = {}  #: outstanding message of a group -> its bucket
        self._held: dict[int, int] = {}  #: message that a consumer holds -> its bucket
        #: bucket -> its messages for which the others wait (rule 2); no set is empty.
        self._blocked: dict[int, set[int]] = {}

    def give(self, sequence: int, bucket: int, consumer: int) -> None:
        """Note that a message of this bucket is delivered to this consumer, which owns the bucket
        from now on."""
        self.owner[bucket] = consumer
        self.members[sequence] = self._held[sequence] = bucket

    @property
    def parks(self) -> bool:
        """Whether messages may wait for the consumer of their group, or for another message."""
        return bool(self.owner or self._blocked)

    def buckets(self, run: Run) -> Sequence[int]:
        """Return the bucket of each of these messages that was delivered, -1 for one without a
        group; empty if none has a group."""
        found = [self.members.get(sequence, -1) for sequence in run if self.members]
        return found if any(bucket >= 0 for bucket in found) else ()

    def withhold(self, run: Run, buckets: Mapping[int, int]) -> None:
        """Note that messages, delivered before a restart, belong to a transaction; `buckets` has
        the bucket of each that has a group."""
        for sequence in run if buckets else ():
            bucket = buckets.get(sequence)
            if bucket is not None:
                self.members[sequence] = self._held[sequence] = bucket
                self._blocked.setdefault(bucket, set()).add(sequence)

    def waits(self, bucket: int) -> bool:
        """Whether the messages of this bucket must wait for another one of it (rule 2)."""
        return bucket in self._blocked

    def back(self, run: Run, *, later: bool) -> set[int]:
        """Note that messages are in flight no more, and still owed; `later`: they are delayed.
        Returns the buckets that may go on."""
        for sequence in run:
            bucket = self._held.pop(sequence, None)
            if later and bucket is not None:
                self._blocked.setdefault(bucket, set()).add(sequence)
        return set() if later else self.due(run)

    def reacquire(self, run: Run) -> set[int]:
        """Note that messages are in flight to a consumer out of turn, and delayed no more. Returns
        the buckets that may go on. The bucket of a message never delivered isn't known."""
        freed = self.due(run)
        for sequence in run if self.members else ():
            bucket = self.members.get(sequence)
            if bucket is not None:
                self._held[sequence] = bucket
        return freed

    def due(self, run: Run) -> set[int]:
        """Note that other messages needn't wait for these. Returns the buckets that may go on."""
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
        """Forget messages that are owed no more. Returns the buckets that may go on."""
        freed = self.due(run)
        for sequence in run if self.members else ():
            self.members.pop(sequence, None)
            self._held.pop(sequence, None)
        return freed

    def detach(self, consumer: int) -> set[int]:
        """Remove a consumer, whose deliveries have ended. Returns the buckets that it owned, which
        have no owner now. Their messages that are still held belong to transactions."""
        buckets = {one for one, owner in self.owner.items() if owner == consumer}
        for sequence, bucket in self._held.items():
            if bucket in buckets:
                self._blocked.setdefault(bucket, set()).add(sequence)
        return self._disown(buckets)

    def join(self) -> set[int]:
        """Note that a consumer attached. Returns the buckets that lose their owner (rule 1)."""
        held = set(self._held.values())
        return self._disown(self.owner.keys() - held)

    def clear(self) -> None:
        for known in (self.owner, self.members, self._held, self._blocked):
            known.clear()

    def _disown(self, buckets: set[int]) -> set[int]:
        for bucket in buckets:
            del self.owner[bucket]
        return buckets


def choose(
    turns: ServiceQueue,
    groups: Groups,
    run: Run,
    matching: Iterable[frozenset[str]],
    buckets: Iterable[int | None],
) -> tuple[list[tuple[int, Run]], list[tuple[Eligibility, Run]], int]:
    """Choose a consumer in line for each message. Returns the shares of the consumers; messages
    that no consumer in line may have, with their eligibility; and the number of messages in both.
    `matching` are the selectors that match each message, `buckets` the bucket of its group."""
    given: dict[int, array[int]] = {}
    parked: dict[Eligibility, array[int]] = {}
    room = turns.room
    done = 0
    for sequence, matched, bucket in zip(run, matching, buckets, strict=False):
        if not room:
            break
        done += 1
        consumer, waits_for = _consumer_for(turns, groups, matched, bucket)
        if consumer is None:
            parked.setdefault(waits_for, array("q")).append(sequence)
            continue
        room -= 1
        turns.take(consumer)
        given.setdefault(consumer, array("q")).append(sequence)
        if bucket is not None:
            groups.give(sequence, bucket, consumer)
    return (
        [(consumer, as_run(share)) for consumer, share in given.items()],
        [(eligible, as_run(waiting)) for eligible, waiting in parked.items()],
        done,
    )


def _consumer_for(
    turns: ServiceQueue, groups: Groups, matching: frozenset[str], bucket: int | None
) -> tuple[int | None, Eligibility]:
    """Return the consumer of a message that these selectors match, in this bucket of groups; or
    None and the message's eligibility, if no consumer in line may have it."""
    if bucket is not None:
        if groups.waits(bucket):
            return None, stuck(bucket)
        owner = groups.owner.get(bucket)
        if owner is not None:
            if not turns.may(owner, matching):
                return None, stuck(bucket)
            return (owner, None) if turns.waits(owner) else (None, owner)
    return turns.next(matching), matching
