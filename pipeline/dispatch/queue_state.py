"""Where each message of one subscription is, and the moves from place to place.

Rule 1: a message that is owed is in exactly one place: not read yet, waiting, held by one consumer,
        or given up while its copy isn't kept; or it is final and gone.
Rule 2: a move gives the effects that it has, and they are complete: what is to be recorded can be
        read from them alone. Where a delivery that ends goes is what `TRANSITIONS` says.
Rule 3: failed attempts are those that were shown. A possible one is told to consumers as one more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from distributary.pipeline.dispatch.candidates import Candidates
from distributary.pipeline.dispatch.effects import NOBODY, DeadLetter, Deliver, Effect, Settled
from distributary.pipeline.dispatch.in_flight import InFlight
from distributary.pipeline.dispatch.message_groups import Groups
from distributary.pipeline.dispatch.priority_index import PriorityIndex
from distributary.pipeline.dispatch.read_cursor import ReadCursor
from distributary.pipeline.dispatch.ready import Eligibility, Ready, stuck
from distributary.pipeline.dispatch.service_queue import ServiceQueue
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.policy import Policy
from distributary.pipeline.model.transitions import FAILURES, Event, State, next_state
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.redelivery.giving_up import OUTCOMES, REASONS, keeps
from distributary.pipeline.redelivery.redelivery_delay import due_times
from distributary.pipeline.sequences.gathering import gathered
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet

# What the table says of most moves, asked once: `hand` and `accept` go by it.
assert next_state(State.AVAILABLE, Event.ACQUIRE) is State.ACQUIRED  # noqa: S101
assert next_state(State.ACQUIRED, Event.ACCEPT) is State.SETTLED  # noqa: S101
assert next_state(State.ACQUIRED, Event.LOSE) is State.AVAILABLE  # noqa: S101
assert next_state(State.AVAILABLE, Event.DROP) is State.ARCHIVED  # noqa: S101


class QueueState:
    """The messages of one subscription, and what decides about them."""

    __slots__ = (
        "_policy",
        "attempts",
        "candidates",
        "dead_lettering",
        "dead_letters",
        "groups",
        "in_flight",
        "outstanding",
        "ready",
        "turns",
        "unread",
    )

    def __init__(
        self,
        position: int,
        settled: SequenceSet,
        attempts: Attempts,
        policy: Policy,
        priority_index: PriorityIndex | None,
        *,
        dead_letters: bool,
        ready: Ready | None = None,
    ) -> None:
        self.unread = ReadCursor(position, settled, priority_index)
        self.ready = Ready() if ready is None else ready
        self.in_flight = InFlight()
        self.dead_lettering = SequenceSet()  #: given up, and their copies aren't kept yet
        self.outstanding = self.ready.all()  #: ready, in flight, or given up
        self.attempts = attempts
        self.groups = Groups()
        self.turns = ServiceQueue()
        self.dead_letters = dead_letters
        self.candidates = Candidates(self.unread, self.ready, self.turns, self.groups)
        self._policy = policy
        self.policy = policy

    @property
    def policy(self) -> Policy:
        """What holds from now on."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        before, self._policy = self._policy, policy
        self.turns.single = policy.single_active
        self.in_flight.lock(policy.lock_ms * 1_000)
        if before.message_groups != policy.message_groups or (
            before.single_active != policy.single_active
        ):
            self.groups.clear()
            self.ready.free(lambda eligible: isinstance(eligible, int))

    @property
    def floor(self) -> int:
        """Everything that is owed below it is settled."""
        first = self.outstanding.first()
        position = self.unread.position
        return position if first is None else min(first, position)

    def view(self) -> "QueueState":
        """What could go now and what comes after it, apart from this; nothing is kept of it."""
        return QueueState(
            self.unread.position,
            self.unread.passed.copy(),
            Attempts(self.attempts.failures, self.attempts.possibly_delivered_below),
            replace(self._policy, lock_ms=0, message_groups=False, single_active=False),
            self.unread.priority_index,
            dead_letters=False,
            ready=self.ready.available(),
        )

    def join(self, consumer: int, priority: int, selector: str | None) -> None:
        """A consumer came."""
        self.in_flight.attach(consumer)
        if selector is not None and selector not in self.turns.selectors:
            # What was seen to match nobody's selector was not seen by this one.
            self.ready.free(lambda eligible: isinstance(eligible, frozenset))
        self.turns.attach(consumer, priority, selector)
        if self.groups.owner:
            self._go_on(self.groups.join())
            self.ready.free(self.in_flight.by_consumer.__contains__)

    def leave(self, consumer: int) -> list[Settled]:
        """A consumer went: what it held is available again."""
        self.turns.detach(consumer)
        held = self.in_flight.detach(consumer)
        effects = [one for run in held for one in self.release(consumer, run)]
        if self.groups.owner:
            self._go_on(self.groups.detach(consumer))
            self.ready.free(lambda eligible: eligible == consumer)
        return effects

    def skip_to(self, position: int) -> None:
        """The topic has nothing from the best one up to this one."""
        best = self.candidates.best()
        if best is not None and best.sequence > self.unread.position:
            self.unread.skip_early(best.priority, position)
        elif position > self.unread.position:
            self.unread.move(position)

    def hand(
        self,
        shares: list[tuple[int, Run]],
        failures: int,
        now: int,
        effects: list[Effect],
        *,
        again: bool,
    ) -> int:
        """Each consumer gets its share: how many messages these are. `again`: they were read
        before, and perhaps delivered."""
        taken = 0
        in_flight = self.in_flight
        held, watched = in_flight.by_consumer, in_flight.watched
        for consumer, run in shares:
            held[consumer].add(run)
            if watched:
                in_flight.note(consumer, run, now, again=again)
            effects.append(Deliver(consumer, run, failures))
            taken += len(run)
        return taken

    def deliver_ready(self, run: Run, failures: int, now: int, effects: list[Effect]) -> int:
        """These, which are ready for anybody, go to those in line: how many are done with."""
        usual = self.ready.usual
        if failures and self.exhausted(run, failures):
            usual.discard(run)
            effects += self.drop(run, Reason.EXHAUSTED)
            return len(run)
        taken = self.hand(self.turns.deal(run), failures, now, effects, again=True)
        gone = usual.discard(run[:taken])
        assert gone == taken, f"of {run[:taken]} only {gone} were ready"  # noqa: S101
        return taken

    def deliver_unread(self, run: Run, failures: int, now: int, effects: list[Effect]) -> int:
        """These, which come next, are read and go to those in line: how many are done with."""
        unread, outstanding = self.unread, self.outstanding
        assert run[0] >= unread.position, f"{run} was read"  # noqa: S101
        if failures and self.exhausted(run, failures):
            unread.position = run[-1] + 1
            effects += self.drop(run, Reason.EXHAUSTED)
            return len(run)
        again = run[0] < unread.read_before
        taken = self.hand(self.turns.deal(run), failures, now, effects, again=again)
        if taken == len(run):
            outstanding.add(run)
            unread.position = run[-1] + 1
        else:
            outstanding.add(run[:taken])
            unread.move(run[taken - 1] + 1 if taken else unread.position)
        return taken

    def begin_reading(self, run: Run) -> None:
        """These are read: they are outstanding from now on."""
        before = len(self.outstanding)
        self.outstanding.add(run)
        assert len(self.outstanding) == before + len(run), f"{run} was read"  # noqa: S101

    def read_to(self, run: Run) -> None:
        """All up to the last of these was read."""
        assert run[0] >= self.unread.position, f"{run} was read"  # noqa: S101
        self.unread.position = run[-1] + 1

    def pass_to(self, position: int) -> None:
        """There is nothing to be read up to this one."""
        assert position >= self.unread.position, f"the position falls to {position}"  # noqa: S101
        self.unread.move(position)

    def read_ahead(self, runs: Iterable[Run], went: Run, left: Run = range(0)) -> None:
        """These were read, above the position; some went to consumers, what is left to nobody."""
        self.outstanding.discard(left)
        for run in runs:
            self.unread.pass_over(run)
        self.unread.reached(went)

    def make_ready(self, run: Run, eligible: Eligibility) -> None:
        """These, which are outstanding and nowhere else, wait for those."""
        self.ready.put(run, eligible)

    def take_ready(self, run: Run, priority: int, eligible: Eligibility) -> None:
        """These leave the pool in which they wait: the caller says where they go."""
        gone = self.ready.remove(run, priority, eligible)
        assert gone == len(run), f"{run} didn't wait there"  # noqa: S101

    def hold_back(self, run: Run, at: int) -> None:
        """These, which are read, wait for this time."""
        self.outstanding.add(run)
        self.ready.delay(run, at)

    def exhausted(self, run: Run, failures: int) -> bool:
        """Whether these failed as often as they may; all of them have so many failures."""
        limit = self._policy.delivery_attempts_max
        uncertain = 1 if run[0] < self.attempts.possibly_delivered_below else 0
        return limit > 0 and failures - uncertain >= limit

    def accept(self, consumer: int, run: Run, delivered_at: int) -> list[Settled | DeadLetter]:
        """What of these the consumer holds since then is done: nearly all deliveries end so."""
        parts = self.in_flight.take(consumer, run, delivered_at)
        return [one for part in parts for one in self.final(consumer, part, Outcome.ACCEPTED)]

    def settle(
        self, consumer: int, run: Run, event: Event, now: int, delivered_at: int
    ) -> list[Settled | DeadLetter]:
        """What of these the consumer holds since then ends so; the rest is passed over."""
        parts = self.in_flight.take(consumer, run, delivered_at)
        return [one for part in parts for one in self.end(consumer, part, event, now)]

    def end(
        self, consumer: int, run: Run, event: Event, now: int
    ) -> Sequence[Settled | DeadLetter]:
        """These deliveries ended; the consumer doesn't hold them any more. Where they go is what
        the table says."""
        match next_state(State.ACQUIRED, event):
            case State.SETTLED:
                return self.final(consumer, run, Outcome.ACCEPTED)
            case State.ARCHIVED:
                return self.give_up(consumer, run, REASONS[event])
            case _ if event in FAILURES:
                return self.fail(consumer, run, now)
            case _:
                return self.release(consumer, run)

    def drop(self, run: Run, reason: Reason) -> Sequence[Settled | DeadLetter]:
        """These, which nobody holds and which are in no other place, are given up."""
        return self.give_up(NOBODY, run, reason)

    def release(self, consumer: int, run: Run) -> list[Settled]:
        """These are available again, and didn't fail."""
        effects = []
        for part, failures in self.attempts.parts(run):
            effects.append(Settled(consumer, part, Outcome.RELEASED, False, failures))
            self.attempts.back(part)
            self._wait(part)
        return effects

    def fail(self, consumer: int, run: Run, now: int) -> list[Settled | DeadLetter]:
        """An attempt of each of these failed: they are available again, at once or later, unless
        they failed too often."""
        effects: list[Settled | DeadLetter] = []
        for part, failures in self.attempts.parts(run):
            if not self.exhausted(part, failures + 1):
                effects.append(Settled(consumer, part, Outcome.MODIFIED, False, failures))
                self.attempts.fail(part)
                self._wait_later(part, failures + 1, now)
            elif self.dead_letters and keeps(self._policy, Reason.EXHAUSTED):
                # Recorded first as what it is, so that a crash finds it exhausted.
                effects.append(Settled(consumer, part, Outcome.MODIFIED, False, failures))
                self.attempts.fail(part)
                effects += self.give_up(consumer, part, Reason.EXHAUSTED)
            else:
                effects += self.final(consumer, part, Outcome.MODIFIED)
        return effects

    def final(self, consumer: int, run: Run, outcome: Outcome) -> list[Settled]:
        """These are owed no more."""
        attempts = self.attempts
        if attempts.none:
            effects = [Settled(consumer, run, outcome, True, 0)]
        else:
            parts = attempts.parts(run)
            effects = [Settled(consumer, part, outcome, True, n) for part, n in parts]
            attempts.forget(run)
        gone = self.outstanding.discard(run)
        assert not gone or gone == len(run), f"of {run} only {gone} were read"  # noqa: S101
        if self.ready.levels:
            self.ready.forget(run)
        if self.groups.members:
            self._go_on(self.groups.forget(run))
        return effects

    def give_up(self, consumer: int, run: Run, reason: Reason) -> list[Settled | DeadLetter]:
        """These, which are in no other place, are given up: copies are kept first, or not."""
        if not (self.dead_letters and keeps(self._policy, reason)):
            return [*self.final(consumer, run, OUTCOMES[reason])]
        self.outstanding.add(run)
        self.dead_lettering.add(run)
        if self.groups.members:
            self._go_on(self.groups.forget(run))
        return [
            DeadLetter(consumer, part, reason, failures)
            for part, failures in self.attempts.parts(run)
        ]

    def give_up_unheld(self, run: Run, reason: Reason) -> list[Settled | DeadLetter]:
        """All of these that are owed and that nobody holds are given up, read or not."""
        parts = list(self.ready.pick(run))
        for part in self.unread.among(run):
            self.unread.pass_over(part)
            parts.append(part)
        return [one for part in parts for one in self.drop(part, reason)]

    def reacquire(self, consumer: int, run: Run, now: int) -> list[Effect]:
        """All of these that are owed and that nobody holds go to this consumer, read or not."""
        parts = self.ready.reacquire(run)
        for part in parts:
            self._go_on(self.groups.reacquire(part))
        for part in self.unread.among(run):
            for priority, urgent in self.unread.urgent(part):
                self.ready.note(urgent, priority)
            self.outstanding.add(part)
            self.unread.reached(part)
            self.unread.pass_over(part)
            parts.append(part)
        effects: list[Effect] = []
        for same, failures in (one for part in parts for one in self.attempts.parts(part)):
            self.hand([(consumer, same)], failures, now, effects, again=True)
        return effects

    def dead_lettered(self, run: Run) -> list[Settled]:
        """Copies of these are kept."""
        effects: list[Settled] = []
        for part in gathered(
            (range(one, one + 1) for one in run if one in self.dead_lettering), len(run)
        ):
            self.dead_lettering.discard(part)
            effects += self.final(NOBODY, part, Outcome.DEAD_LETTERED)
        return effects

    def wake(self, now: int) -> list[Settled | DeadLetter]:
        """Times have come: of delays, and of locks."""
        effects: list[Settled | DeadLetter] = []
        for run in self.ready.due(now):
            self._go_on(self.groups.due(run))
            self.ready.put(run)
        for consumer, run in self.in_flight.lapse(now):
            effects += self.end(consumer, run, Event.LAPSE, now)
        return effects

    def rewind(self, position: int) -> None:
        """All from here on is owed; of what was, nothing is known but the consumers."""
        self.unread.rewind(position)
        self.ready.clear()
        self.in_flight.clear()
        self.dead_lettering.clear()
        self.outstanding.clear()
        self.groups.clear()
        self.attempts = Attempts({}, 0)

    def _wait(self, run: Run) -> None:
        if self.groups.members:
            self.groups.back(run, later=False)
        self.ready.put(run)

    def _wait_later(self, run: Run, failures: int, now: int) -> None:
        policy = self._policy
        if not policy.redelivery_delay_ms:
            self._wait(run)
            return
        if self.groups.members:
            self.groups.back(run, later=True)
        for part, time in due_times(policy, run, failures, now):
            self.ready.delay(part, time)

    def _go_on(self, buckets: set[int]) -> None:
        """Messages of these buckets needn't wait for another one any more."""
        if buckets:
            freed = {stuck(bucket) for bucket in buckets if not self.groups.waits(bucket)}
            self.ready.free(freed.__contains__)
