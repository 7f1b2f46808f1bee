"""The way to durability: the pending groups, the groups being written, the accept.

Order of durable steps (architecture, "the ways"): a run waits, its group is written and fsynced,
only then it is accepted and offered to subscriptions. The committer commits it afterwards.

All methods run on the loop's thread; `GroupWriter` says which thread writes.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from distributary.ingest.commit.batches import batches_of, joined
from distributary.ingest.commit.committer import Committer
from distributary.ingest.commit.group_timer import GroupTimer
from distributary.ingest.commit.home_opening import Store
from distributary.ingest.commit.pending_group import (
    CreditGiven,
    GroupDurable,
    Inside,
    NoLocalRule,
    PendingGroup,
    Publisher,
    Receipt,
    SealedGroup,
    answer,
    excluded,
    recorded_bytes,
    settled_bytes,
)
from distributary.ingest.commit.upkeep_clock import Floors
from distributary.ingest.native import pump
from distributary.ingest.net.link import Link
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.host import Host
from distributary.pipeline.errors import StoreError
from distributary.pipeline.log.pattern_index import PatternIndex
from distributary.pipeline.log.publish_times import Moments
from distributary.pipeline.log.recent_messages import RecentMessages
from distributary.pipeline.model.message import Group, LogEvent, PublishBatch, Settlement
from distributary.pipeline.model.topic_pattern import matches
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.journal.segment import FrameRef

__all__ = ["Inside", "Log", "Receipt", "answer"]


class Log:
    """The gateway's end of the one log. `complete` gets each durable group, in order, once. A group
    that can't be written stops the gateway."""

    def __init__(
        self,
        host: Host,
        store: Store,
        patterns: PatternIndex,
        no_local: NoLocalRule,
        lowest_floor: Callable[[], int],
        served_floor: Callable[[], int],
        complete: Callable[[GroupDurable | CreditGiven], None],
    ) -> None:
        """`patterns`: an index that subscriptions will fill. Below `lowest_floor` no durable
        subscription is owed a message, as memory has it; below `served_floor` none at all."""
        self._loop, self._settings, self._halt = host.loop, host.settings, host.halt
        self._pace, self._under_way_max = store.pace, store.pace.under_way
        self._counts, self._turn = host.counts, host.turn
        self._journal, self._table = store.journal, store.table
        self._lowest_floor, self._served_floor = lowest_floor, served_floor
        self._exclusion, self._complete = no_local, complete
        self.moments = Moments()
        state = store.snapshot
        self._next_group, self._next_sequence = state.next_group, state.next_sequence
        head, cache_bytes = state.next_sequence, host.settings.delivery.cache_bytes
        #: The messages of the last minutes, by topic.
        self.recent = RecentMessages(head=head, bytes_max=cache_bytes, patterns=patterns)
        self._waiting = PendingGroup()
        self._full_groups: deque[PendingGroup] = deque()  # earlier ones, each large enough
        self._waiting_bytes = self._brought = 0  # of all groups; since `slow` was last asked
        #: Groups that are being written, in order.
        self._writing: deque[SealedGroup] = deque()
        #: Numbers of groups, since the start, that are durable, and that take no more content.
        self._durable_count = self._closed_count = 0
        self._committer = Committer(host, store, self.recent, self._floors, served_floor, complete)
        self._writer = store.writer(host, self._committer.works, self._written)
        #: Id of each durable subscription that lives -> the group in which its incarnation began.
        self.begun = {one.key.id: one.began for one in state.subscriptions}
        self._timer = GroupTimer(host.loop, self._begin)
        self._handing_out = self._ending = False

    def _floors(self) -> Floors:
        served = self._served_floor() if self._settings.upkeep.limits.retains_less else 0
        return Floors(self.last_group, self._lowest_floor(), served)

    # Input.

    @property
    def next_sequence(self) -> int:
        """The first sequence that waits: a new subscription is owed messages from it on."""
        return self._next_sequence

    @property
    def full(self) -> bool:
        """Whether the disk is full, and a group waits for space."""
        return self._writer.full or self._committer.parked

    @property
    def last_group(self) -> int:
        """The last group that holds any input given until now."""
        return self._next_group - 1 + len(self._full_groups) + bool(self._waiting)

    @property
    def forming(self) -> int:
        """The number, since the start, of the pending group: input given to the log now becomes
        durable with it."""
        return self._closed_count + 1

    def durable(self, number: int) -> bool:
        """Whether the group that had this number while it was `forming` is durable; 0 is."""
        return number <= self._durable_count

    def when_durable(self, number: int, then: Callable[[], None]) -> None:
        """Call `then` when the group that had this number while it was `forming` is durable, at
        once if it is already."""
        if self.durable(number):
            then()
            return
        groups = [*(one.waiting for one in self._writing), *self._full_groups, self._waiting]
        groups[number - self._durable_count - 1].then.append(then)

    def publish(self, run: PublishBatch, receipt: Receipt) -> None:
        """Add a run of messages to the pending group; its sender waits for the accept."""
        waiting, link, size = self._waiting, receipt.link, len(run.blob)
        if not waiting.receipts:
            waiting.since = monotonic()
        waiting.receipts.append(receipt)
        waiting.runs.append(run)
        waiting.publishers.append(link.connection)
        waiting.size += size
        self._waiting_bytes += size
        self._brought += size
        if not self.slow(link) and self._journal.backlog_bytes > self._committer.held_above:
            self._committer.hold(link)

    def publish_together(self, runs: Sequence[PublishBatch], receipt: Receipt) -> None:
        """Add runs of messages to one group, together with the settlements given just before;
        their sender waits for the accept."""
        waiting = self._waiting
        if not waiting.receipts:
            waiting.since = monotonic()
        waiting.receipts.append(receipt)
        for run in runs:
            self._add(run, receipt.link.connection)
        if not self.slow(receipt.link) and self._journal.backlog_bytes > self._committer.held_above:
            self._committer.hold(receipt.link)

    def slow(self, link: Link) -> bool:
        """Return whether too much input waits. If so, and this link's peer has just added to it,
        the peer isn't read until the group is written."""
        brought, self._brought = self._brought, 0
        held = self._waiting_bytes > self._settings.journal.waiting_bytes_max and brought > 0
        if held:
            link.connection.hold(True, self)
            self._waiting.held[link] = None
        self._close_if_full()
        return held

    def acknowledge(self, receipt: Receipt) -> None:
        """Accept messages that are in the log already, or wait for it: their sender is told when
        all input that waits now is durable."""
        busy = self._waiting or self._full_groups or self._writing
        if busy or self._halt.on:
            self._waiting.receipts.append(receipt)
        else:
            self.accept(PendingGroup(receipts=[receipt]))

    def write(
        self, runs: Sequence[PublishBatch], settlements: Sequence[Settlement], origin: Publisher
    ) -> None:
        """Add runs that the gateway publishes, of its own or of a prepared transaction, and the
        settlements that depend on them, all to one group."""
        for one in settlements:
            self.settle(one)
        self._waiting.aimed |= isinstance(origin, Inside) and origin.only is not None
        for run in runs:
            self._add(run, origin)
        self._close_if_full()

    def grant(self, link: Link, credit: int) -> None:
        """Give a producer credit back for messages that need no accept, or keep it for later."""
        self._committer.grant({link: credit})

    def _add(self, run: PublishBatch, publisher: Publisher) -> None:
        waiting = self._waiting
        waiting.runs.append(run)
        waiting.publishers.append(publisher)
        self._weigh(len(run.blob))

    def _weigh(self, size: int) -> None:
        self._waiting.size += size
        self._waiting_bytes += size
        self._brought += size

    def _close_if_full(self) -> None:
        before = len(self._writing) + len(self._full_groups)
        if self._waiting.size >= self._pace.full_from(before, self._settings.commit.bytes):
            self._close_full()

    def _close_full(self) -> None:
        """Close the pending group. A commit has whole groups, so none may be larger than one."""
        self._full_groups.append(self._waiting)
        self._waiting = PendingGroup()
        self._closed_count += 1

    def coming(self, topic: str) -> tuple[int, int]:
        """Return the number of a topic's or pattern's messages that aren't durable, and bytes."""
        groups = [*(one.waiting for one in self._writing), *self._full_groups, self._waiting]
        runs = [run for group in groups for run in group.runs if matches(topic, run.topic)]
        return sum(run.count for run in runs), sum(len(run.blob) for run in runs)

    def settle(self, settlement: Settlement) -> None:
        """Add a settlement to the pending group."""
        waiting, size = self._waiting, settled_bytes(settlement)
        waiting.settlements.append(settlement)
        waiting.size += size
        self._waiting_bytes += size
        self._brought += size

    def confirm(self, receipt: Receipt) -> None:
        """Answer a consumer's deliveries when its outcome is durable."""
        self._waiting.confirmations.append(receipt)
        self._weigh(len(receipt.deliveries))

    def record(self, record: LogEvent, then: Callable[[], None]) -> None:
        """Add a subscription's or schema's event; `then` is called when it is durable."""
        self._waiting.records.append(record)
        self._weigh(recorded_bytes(record))
        self._waiting.then.append(then)

    def begin_group(self) -> int:
        """Put later input into a new group; return the sequence of its first message."""
        if self._waiting:
            self._close_full()
        waiting = sum(run.count for group in self._full_groups for run in group.runs)
        return self._next_sequence + waiting

    def after(self, then: Callable[[], None]) -> None:
        """Call `then` when all input that waits now is durable."""
        self._waiting.then.append(then)

    def commit(self) -> None:
        """Begin a commit of the durable groups now, before its time."""
        self._committer.commit()

    def forget(self, topic: str) -> None:
        """Drop a topic's messages from memory when they are durable: it has no reader any more."""
        self.recent.forget(topic)
        if self._waiting.runs or self._full_groups or self._writing:
            self.after(partial(self.recent.forget, topic))

    def flush(self, *, last: bool = False) -> None:
        """Write the pending group soon, or next, if the most allowed groups are being written.
        Input of the same turn of the loop, or of the time of its `Pace`, still joins it. If this is
        the `last` act of the caller, in a turn that serves one peer alone, no other input can come:
        then the group is written before this returns."""
        if self._full_groups or self._ending:
            self._begin_full()
        if len(self._writing) >= self._under_way_max or self._halt.on:
            return
        if (awaited := self._waiting.awaited) or self._waiting.settlements:
            pace = self._pace
            seconds = pace.linger_seconds if awaited else pace.settlement_linger_seconds
            if last and not seconds and self._turn.alone and not self._handing_out:
                self._turn.alone = False
                self._begin()
            else:
                self._timer.set(seconds)

    def _begin_full(self) -> None:
        """Begin the full groups, and at the end the pending one, as many as may be under way."""
        while len(self._writing) < self._under_way_max and not self._halt.on:
            if not self._full_groups and not (self._ending and self._waiting):
                return
            self._begin(own_turn=False)

    def _begin(self, *, own_turn: bool = True) -> None:
        """Seal and write the oldest pending group. With `own_turn` the loop may write it by itself,
        and finish all its consequences before this returns; amid other work a thread writes it."""
        self._timer.clear()
        if len(self._writing) >= self._under_way_max or self._halt.on:
            return
        if self._full_groups:
            waiting = self._full_groups.popleft()
        elif (waiting := self._waiting).settlements or waiting.awaited:
            self._waiting = PendingGroup()
            self._closed_count += 1
        else:
            return
        self._waiting_bytes -= waiting.size
        if waiting.records:
            waiting.note_begun(self.begun, self._next_group)
        runs = joined(waiting.runs, self.recent.patterns)
        now, later = excluded(self._exclusion, waiting, runs, self._next_sequence)
        self._waiting.settlements += later
        group = Group(
            self._next_group,
            self._next_sequence,
            clock.now(),
            runs,
            (*waiting.settlements, *now),
            (*waiting.records,),
        )
        batches = batches_of(group)
        if runs:
            committed = self.recent.committed_through
            self.moments.add(group.first_sequence, group.written_at, committed)
        count = group.message_count
        self._next_group += 1
        self._next_sequence += count
        self._writing.append(SealedGroup(group, waiting, batches, count))
        for link in waiting.held:
            self._committer.hold(link)
            link.connection.hold(False, self)
        try:
            parts = frame.encode(group)
        except StoreError as error:  # nothing of the group is durable: the home is unchanged
            self._halt.now(str(error))
            return
        if self._settings.journal.durability == "delta":
            self._committer.write(parts, self._next_sequence, self._durable)
        else:
            self._writer.write(parts, own_turn=own_turn)

    def _written(self, ref: FrameRef) -> None:
        """Go on with the oldest group that is being written: it is durable in the journal."""
        first = self._writing[0]
        self._committer.add(ref, first.group.first_sequence + first.count)
        self._durable()
        self._committer.flush()

    def _durable(self) -> None:
        sealed = self._writing.popleft()
        if sealed.batches:
            self._counts.group_messages.observe(sealed.count)
        self._durable_count += 1
        waits = self._waiting.awaited
        if self._under_way_max > 1:
            self._close_if_full()  # the pending group may only have waited for this place
            self._begin_full()
        elif self._full_groups or (waits and not self._writer.by_loop(self._waiting.size)):
            self._begin(own_turn=False)  # the next one is written while this one is handed out
        self._handing_out = True
        self._complete(GroupDurable(sealed))
        self._handing_out = False
        self.flush()

    def accept(self, waiting: PendingGroup) -> None:
        """Answer a durable group's receipts, and give their peers the credit back."""
        if waiting.since:
            self._counts.accept_seconds.observe(monotonic() - waiting.since)
        credit: dict[Link, int] = {}
        for receipt in waiting.receipts:
            answer(receipt, pump.ACCEPTED)
            credit[receipt.link] = credit.get(receipt.link, 0) + receipt.credit
        for receipt in waiting.confirmations:
            answer(receipt, 0)
        self._committer.grant(credit)

    # The end.

    def catch_up(self) -> Callable[[], bool]:
        """Commit all groups that were begun until now; the result tells whether that is done."""
        return self._committer.catch_up(self._next_group - 1)

    async def close(self) -> None:
        """Write and commit all that waits, then end the threads.

        Don't wait for a full disk: groups that it can't take were not accepted, and groups that
        can't be committed are in the journal.
        """
        self._ending = True
        self.flush()
        self._committer.flush_soon()
        while self._busy():
            self._committer.commit()
            await asyncio.sleep(0.005)
        self._committer.stop()
        await self._loop.run_in_executor(None, self._join)
        self._journal.close()

    def _busy(self) -> bool:
        """Whether there is a group to write or to commit, and the disk isn't full."""
        halted = self._writer.full or self._halt.on or self._committer.parked
        return (bool(self._writing) and not halted) or self._committer.busy

    def _join(self) -> None:
        self._writer.stop()
        self._committer.join()
