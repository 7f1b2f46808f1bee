"""The state of each message of one subscription, and the moves from state to state.

Rule 1: an owed message is in exactly one state: unread, ready or delayed, in flight to one consumer
        or held by one transaction, or given up until its copy is kept. A final message is in none.
Rule 2: a move returns all of its effects: its records are made from them alone. `TRANSITIONS` says
        which state follows the end of a delivery.
Rule 3: an attempt counts as failed when its failure is known. A possible failure adds one to the
        count that consumers are told; no message is given up for it.
"""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from distributary.pipeline.dispatch.effects import NOBODY, DeadLetter, Deliver, Effect, Settled
from distributary.pipeline.dispatch.message_groups import choose
from distributary.pipeline.dispatch.queue_parts import QueueParts
from distributary.pipeline.dispatch.read_cursor import FOREVER
from distributary.pipeline.dispatch.ready import Eligibility
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.transitions import FAILURES, Event, State, next_state
from distributary.pipeline.redelivery.giving_up import OUTCOMES, REASONS, keeps
from distributary.pipeline.sequences.gathering import gathered
from distributary.pipeline.sequences.sequence_set import Run

# `hand` and `accept` rely on these rows of the table and don't read it for each run.
assert next_state(State.AVAILABLE, Event.ACQUIRE) is State.ACQUIRED  # noqa: S101
assert next_state(State.ACQUIRED, Event.ACCEPT) is State.SETTLED  # noqa: S101
assert next_state(State.ACQUIRED, Event.LOSE) is State.AVAILABLE  # noqa: S101
assert next_state(State.AVAILABLE, Event.DROP) is State.ARCHIVED  # noqa: S101


class QueueState(QueueParts):
    """The messages of one subscription, each in its state."""

    __slots__ = ()

    def view(self) -> "QueueState":
        """Return an independent copy of the ready and unread messages, without consumers."""
        return QueueState(
            self._unread.position,
            self._unread.passed.copy(),
            self._attempts.copy(),
            replace(self._policy, lock_ms=0, message_groups=False, single_active=False),
            self._unread.priority_index,
            dead_letters=False,
            ready=self._ready.available(),
        )

    def leave(self, consumer: int, event: Event, now: int) -> list[Settled | DeadLetter]:
        """Remove a consumer; each of its deliveries ends by `event`: RELEASE or LOSE."""
        self._turns.detach(consumer)
        held = self._in_flight.detach(consumer)
        effects = [one for run in held for one in self.end(consumer, run, event, now)]
        if self._groups.owner:
            self._go_on(self._groups.detach(consumer))
            self._ready.free(lambda eligible: eligible == consumer)
        return effects

    def skip_to(self, position: int) -> None:
        """Note that the topic has no messages from the best candidate up to this position."""
        best = self.candidates.best()
        if best is not None and best.sequence > self._unread.position:
            self._unread.skip_early(best.priority, position)
        elif position > self._unread.position:
            self._unread.move(position)

    def hand(
        self,
        shares: list[tuple[int, Run]],
        failures: int,
        now: int,
        effects: list[Effect],
        *,
        again: bool,
    ) -> int:
        """Deliver each share to its consumer. Returns the number of messages. `again`: they were
        read before, and perhaps delivered."""
        taken = 0
        in_flight = self._in_flight
        held, watched = in_flight.by_consumer, in_flight.watched
        for consumer, run in shares:
            count = held[consumer].add(run)
            assert count == len(run), f"of {run} only {count} weren't in flight"  # noqa: S101
            if watched:
                in_flight.note(consumer, run, now, again=again)
            effects.append(Deliver(consumer, run, failures))
            taken += count
        return taken

    def deal(self, run: Run, failures: int, now: int, effects: list[Effect], *, again: bool) -> int:
        """Deliver messages, which are in no state yet, to the consumers in line. Returns the
        number delivered."""
        return self.hand(self._turns.deal(run), failures, now, effects, again=again)

    def deal_chosen(
        self,
        run: Run,
        matching: Iterable[frozenset[str]],
        buckets: Iterable[int | None],
        failures: int,
        now: int,
        effects: list[Effect],
        *,
        again: bool,
    ) -> int:
        """Deliver messages, as `deal` does, to consumers in line that may have them. A message
        that no consumer in line may have becomes ready for those that may. Returns the number of
        messages delivered or made ready."""
        shares, parked, done = choose(self._turns, self._groups, run, matching, buckets)
        for eligible, waiting in parked:
            self.make_ready(waiting, eligible)
        self.hand(shares, failures, now, effects, again=again)
        return done

    def deliver_ready(self, run: Run, failures: int, now: int, effects: list[Effect]) -> int:
        """Deliver messages that are ready for any consumer to those in line, or drop them if they
        have failed too often. Returns the number delivered or dropped."""
        usual = self._ready.usual
        if failures and self.exhausted(run, failures):
            usual.discard(run)
            effects += self.drop(run, Reason.EXHAUSTED)
            return len(run)
        taken = self.hand(self._turns.deal(run), failures, now, effects, again=True)
        gone = usual.discard(run[:taken])
        assert gone == taken, f"of {run[:taken]} only {gone} were ready"  # noqa: S101
        return taken

    def deliver_unread(self, run: Run, failures: int, now: int, effects: list[Effect]) -> int:
        """Read the next messages and deliver them to consumers in line, or drop them if they have
        failed too often. Returns the number delivered or dropped; the others stay unread."""
        unread, outstanding = self._unread, self._outstanding
        assert run[0] >= unread.position, f"{run} was read"  # noqa: S101
        if failures and self.exhausted(run, failures):
            unread.position = run[-1] + 1
            effects += self.drop(run, Reason.EXHAUSTED)
            return len(run)
        again = run[0] < unread.read_before
        taken = self.hand(self._turns.deal(run), failures, now, effects, again=again)
        if taken == len(run):
            added = outstanding.add(run)
            unread.position = run[-1] + 1
        else:
            added = outstanding.add(run[:taken])
            unread.move(run[taken - 1] + 1 if taken else unread.position)
        assert added == taken, f"of {run[:taken]} only {added} weren't read"  # noqa: S101
        return taken

    def begin_reading(self, run: Run) -> None:
        """Note that these messages are read: they are outstanding from now on."""
        added = self._outstanding.add(run)
        assert added == len(run), f"{run} was read"  # noqa: S101

    def read_to(self, run: Run) -> None:
        """Move the position behind these messages, which were read."""
        assert run[0] >= self._unread.position, f"{run} was read"  # noqa: S101
        self._unread.position = run[-1] + 1

    def pass_to(self, position: int) -> None:
        """Move the position; no messages below the new position are left to read."""
        assert position >= self._unread.position, f"the position falls to {position}"  # noqa: S101
        self._unread.move(position)

    def read_ahead(self, runs: Iterable[Run], went: Run, left: Run = range(0)) -> None:
        """Note that `runs` were read ahead of the position and `went` delivered; `left` weren't."""
        self._outstanding.discard(left)
        for run in runs:
            self._unread.pass_over(run)
        self._unread.reached(went)

    def read_early(self, priority: int, stop: int, listed: Run, most: int) -> Run:
        """Return at most `most` unread messages of this priority below `stop` that are `listed`,
        and note their priority: the caller reads them now."""
        run = self._unread.early(priority, stop, listed, most)
        if run:
            self._ready.note(run, priority)
        return run

    def exclude(self, run: range) -> None:
        """Note that these unread messages aren't owed."""
        position = self._unread.position
        assert run.start >= position, f"{run} was read, up to {position}"  # noqa: S101
        self._unread.pass_over(run)

    def note_priorities(self, priorities: Iterable[tuple[int, Run]]) -> None:
        """Note the priorities of these messages, which are read."""
        for priority, run in priorities:
            self._ready.note(run, priority)

    def make_ready(self, run: Run, eligible: Eligibility) -> None:
        """Put outstanding messages, which are in no state, into the pools of this eligibility."""
        self._ready.put(run, eligible)

    def take_ready(self, run: Run, priority: int, eligible: Eligibility) -> None:
        """Remove messages from their pool; the caller puts them into another state."""
        gone = self._ready.remove(run, priority, eligible)
        assert gone == len(run), f"{run} didn't wait there"  # noqa: S101

    def hold_back(self, run: Run, at: int) -> None:
        """Delay these messages, which are read, until this time (microseconds)."""
        self._outstanding.add(run)
        self._ready.delay(run, at)

    def accept(self, consumer: int, run: Run, delivered_at: int) -> Sequence[Settled | DeadLetter]:
        """Accept the deliveries of these messages that were made to the consumer at
        `delivered_at`: the fast path of `settle`."""
        parts = self._in_flight.take(consumer, run, delivered_at)
        if len(parts) == 1:
            return self.final(consumer, parts[0], Outcome.ACCEPTED)
        return [one for part in parts for one in self.final(consumer, part, Outcome.ACCEPTED)]

    def settle(
        self, consumer: int, run: Run, event: Event, now: int, delivered_at: int
    ) -> list[Settled | DeadLetter]:
        """End the deliveries of these messages that were made to the consumer at `delivered_at`,
        by this event; other messages are ignored."""
        parts = self._in_flight.take(consumer, run, delivered_at)
        return [one for part in parts for one in self.end(consumer, part, event, now)]

    def retire(self, consumer: int, run: Run, transaction: int, delivered_at: int) -> list[Run]:
        """Move the deliveries of these messages that were made to the consumer at `delivered_at` to
        a transaction. Returns their runs."""
        return self._in_flight.retire(consumer, run, transaction, delivered_at)

    def restore(self, transaction: int, run: Run, consumer: int, now: int) -> bool:
        """Give these messages back from a transaction to the consumer. False if the consumer has
        detached."""
        return self._in_flight.restore(transaction, run, consumer, now)

    def end_transaction(self, transaction: int) -> None:
        """Forget a transaction that has ended."""
        self._in_flight.end_transaction(transaction)

    def end(
        self, consumer: int, run: Run, event: Event, now: int
    ) -> Sequence[Settled | DeadLetter]:
        """Move messages whose delivery ended, which the consumer doesn't hold any more, to the
        state that `TRANSITIONS` says."""
        match next_state(State.ACQUIRED, event):
            case State.SETTLED:
                return self.final(consumer, run, Outcome.ACCEPTED)
            case State.ARCHIVED:
                return self.give_up(consumer, run, REASONS[event])
            case _ if event in FAILURES:
                return self.fail(consumer, run, now)
            case _ if event is Event.LOSE:
                return self.lose(consumer, run, now)
            case _:
                return self.release(consumer, run)

    def drop(self, run: Run, reason: Reason) -> Sequence[Settled | DeadLetter]:
        """Give up messages that were in flight to no consumer and are in no state now."""
        return self.give_up(NOBODY, run, reason)

    def release(self, consumer: int, run: Run) -> list[Settled]:
        """Make messages ready again, without a failed attempt."""
        effects = []
        for part, failures in self._recorded(run):
            effects.append(Settled(consumer, part, Outcome.RELEASED, False, failures))
            self._attempts.back(part)
            self._wait(part)
        return effects

    def lose(self, consumer: int, run: Run, now: int) -> list[Settled | DeadLetter]:
        """Make messages of a lost consumer, which may have seen them, ready again."""
        if self._policy.lost_consumer_counts:
            return self.fail(consumer, run, now)
        effects: list[Settled | DeadLetter] = []
        for part, failures in self._recorded(run):
            effects.append(Settled(consumer, part, Outcome.LOST, False, failures))
            self._attempts.lose(part)
            self._wait(part)
        return effects

    def fail(self, consumer: int, run: Run, now: int) -> list[Settled | DeadLetter]:
        """Count a failed attempt of each message. They are ready again, at once or after a delay,
        unless they have failed too often."""
        effects: list[Settled | DeadLetter] = []
        for part, told in self._attempts.parts(run):
            failures = self._attempts.recorded(part[0], told)
            if not self.exhausted(part, told + 1):
                effects.append(Settled(consumer, part, Outcome.MODIFIED, False, failures))
                self._attempts.fail(part)
                self._wait_later(part, failures + 1, now)
            elif self._dead_letters and keeps(self._policy, Reason.EXHAUSTED):
                # The failure is recorded first, so that after a crash the message is exhausted.
                effects.append(Settled(consumer, part, Outcome.MODIFIED, False, failures))
                self._attempts.fail(part)
                effects += self.give_up(consumer, part, Reason.EXHAUSTED)
            else:
                effects += self.final(consumer, part, Outcome.MODIFIED)
        return effects

    def final(self, consumer: int, run: Run, outcome: Outcome) -> list[Settled]:
        """Forget messages that are owed no more. Returns their outcome to record."""
        attempts = self._attempts
        if attempts.none:
            effects = [Settled(consumer, run, outcome, True, 0)]
        else:
            parts = self._recorded(run)
            effects = [Settled(consumer, part, outcome, True, n) for part, n in parts]
            attempts.forget(run)
        gone = self._outstanding.discard(run)
        assert not gone or gone == len(run), f"of {run} only {gone} were read"  # noqa: S101
        if self._ready.levels:
            self._ready.forget(run)
        if self._groups.members:
            self._go_on(self._groups.forget(run))
        return effects

    def give_up(self, consumer: int, run: Run, reason: Reason) -> list[Settled | DeadLetter]:
        """Give up messages, which are in no state now; first copies are kept if the policy says
        so."""
        if not (self._dead_letters and keeps(self._policy, reason)):
            return [*self.final(consumer, run, OUTCOMES[reason])]
        self._outstanding.add(run)
        added = self._dead_lettering.add(run)
        assert added == len(run), f"of {run} only {added} weren't given up"  # noqa: S101
        if self._groups.members:
            self._go_on(self._groups.forget(run))
        return [
            DeadLetter(consumer, part, reason, failures) for part, failures in self._recorded(run)
        ]

    def give_up_unheld(self, run: Run, reason: Reason) -> list[Settled | DeadLetter]:
        """Give up the owed messages of the run that aren't in flight, read or not."""
        parts = list(self._ready.pick(run))
        for part in self._unread.among(run):
            self._unread.pass_over(part)
            parts.append(part)
        return [one for part in parts for one in self.drop(part, reason)]

    def reacquire(self, consumer: int, run: Run, now: int) -> list[Effect]:
        """Deliver the owed messages of the run that aren't in flight to this consumer."""
        effects: list[Effect] = []
        parts = self._taken(run)
        for same, failures in (one for part in parts for one in self._attempts.parts(part)):
            self.hand([(consumer, same)], failures, now, effects, again=True)
        return effects

    def withhold(self, transaction: int, run: Run, buckets: Sequence[int]) -> None:
        """Give the owed messages of the run that aren't in flight to this transaction; the other
        messages of their groups wait. `buckets` as `Groups.buckets` returned them."""
        grouped = buckets and self._policy.message_groups
        known = dict(zip(run, buckets, strict=True)) if grouped else {}
        of = {sequence: bucket for sequence, bucket in known.items() if bucket >= 0}
        for part in self._taken(run):
            self._in_flight.withhold(transaction, part)
            self._groups.withhold(part, of)

    def _taken(self, run: Run) -> list[Run]:
        """Take the owed messages of the run that aren't in flight out of their state."""
        parts = self._ready.reacquire(run)
        for part in parts:
            self._go_on(self._groups.reacquire(part))
        for part in self._unread.among(run):
            for priority, urgent in self._unread.urgent(part):
                self._ready.note(urgent, priority)
            self.begin_reading(part)
            self._unread.reached(part)
            self._unread.pass_over(part)
            parts.append(part)
        return parts

    def dead_lettered(self, run: Run, outcome: Outcome = Outcome.DEAD_LETTERED) -> list[Settled]:
        """Settle messages that were given up: copies are kept, or none with another outcome."""
        effects: list[Settled] = []
        for part in gathered(
            (range(one, one + 1) for one in run if one in self._dead_lettering), len(run)
        ):
            self._dead_lettering.discard(part)
            effects += self.final(NOBODY, part, outcome)
        return effects

    def wake(self, now: int) -> list[Settled | DeadLetter]:
        """End the delays and the locks whose time has come."""
        effects: list[Settled | DeadLetter] = []
        for run in self._ready.due(now):
            self._go_on(self._groups.due(run))
            self._ready.put(run)
        for consumer, run in self._in_flight.lapse(now):
            effects += self.end(consumer, run, Event.LAPSE, now)
        return effects

    def redeliver(self) -> None:
        """Make all delayed messages ready. One that its own header delays is delayed again when it
        is offered."""
        for run in self._ready.due(FOREVER):
            self._go_on(self._groups.due(run))
            self._ready.put(run)

    def rewind(self, position: int) -> None:
        """Make all messages from this position on unread; forget all else but the consumers."""
        self._unread.rewind(position)
        self._ready.clear()
        self._in_flight.clear()
        self._dead_lettering.clear()
        self._outstanding.clear()
        self._groups.clear()
        self._attempts.clear()
