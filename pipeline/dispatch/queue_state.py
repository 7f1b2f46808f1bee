"""Where each message of one subscription is, and the moves from place to place.

Rule 1: a message that is owed is in exactly one place: not read yet, waiting, held by one consumer,
        or given up while its copy isn't kept; or it is final and gone.
Rule 2: a move gives the effects that it has, and they are complete: what is to be recorded can be
        read from them alone.
Rule 3: failed attempts are those that were shown. An attempt in doubt is told to consumers as one
        more, but no message is given up for it.
"""

from dataclasses import replace
from typing import NamedTuple

from distributary.pipeline.dispatch.effects import NOBODY, DeadLetter, Deliver, Effect, Settled
from distributary.pipeline.dispatch.in_flight import InFlight
from distributary.pipeline.dispatch.message_groups import PARKED_MAX, Groups
from distributary.pipeline.dispatch.priority_index import PriorityIndex
from distributary.pipeline.dispatch.read_cursor import FOREVER, ReadCursor
from distributary.pipeline.dispatch.ready import Ready, Whose, stuck
from distributary.pipeline.dispatch.service_queue import ServiceQueue
from distributary.pipeline.model.header_attributes import PRIORITY
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.policy import Policy
from distributary.pipeline.model.transitions import FINAL, Event, State, next_state
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.redelivery.giving_up import OUTCOMES, REASONS, keeps
from distributary.pipeline.redelivery.redelivery_delay import delay_us
from distributary.pipeline.sequences.gathering import gathered
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet


class Best(NamedTuple):
    """The message that goes next."""

    priority: int
    sequence: int
    unread: bool
    #: Of the same priority, and read if this one isn't, unread if it is: that one goes before all
    #: from here on.
    before: int


class QueueState:
    """The messages of one subscription, and what decides about them."""

    __slots__ = (
        "_policy",
        "attempts",
        "buries",
        "burying",
        "groups",
        "head",
        "holds",
        "line",
        "outstanding",
        "unread",
        "waiting",
    )

    def __init__(
        self,
        position: int,
        settled: SequenceSet,
        attempts: Attempts,
        policy: Policy,
        priority_index: PriorityIndex | None,
        *,
        buries: bool,
    ) -> None:
        self.unread = ReadCursor(position, settled, priority_index)
        self.waiting = Ready()
        self.holds = InFlight()
        self.burying = SequenceSet()  #: given up, and their copies aren't kept yet
        self.outstanding = SequenceSet()  #: all that wait, are held, or are given up
        self.attempts = attempts
        self.groups = Groups()
        self.line = ServiceQueue()
        self.buries = buries
        self.head = FOREVER  #: the sequence after the last message that is there
        self._policy = policy
        self.policy = policy

    @property
    def policy(self) -> Policy:
        """What holds from now on."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        before, self._policy = self._policy, policy
        self.line.single = policy.single_active
        self.holds.lock(policy.lock_ms * 1_000)
        if before.message_groups != policy.message_groups or (
            before.single_active != policy.single_active
        ):
            self.groups.clear()
            self.waiting.free(lambda whose: isinstance(whose, int))

    @property
    def floor(self) -> int:
        """Everything that is owed below it is settled."""
        first = self.outstanding.first()
        position = self.unread.position
        return position if first is None else min(first, position)

    @property
    def plain(self) -> bool:
        """Whether anybody may have all that could go now, and it is of one priority."""
        if self.waiting.others or self.line.selectors:
            return False
        unread = self.unread
        return (
            unread.priority_index is None
            or unread.priority_index.added == unread.seen
            or unread.ahead() is None
        )

    def view(self) -> "QueueState":
        """What could go now and what comes after it, apart from this; nothing is kept of it."""
        view = QueueState(
            self.unread.position,
            self.unread.passed.copy(),
            Attempts(self.attempts.failures, self.attempts.doubtful_below),
            replace(self._policy, lock_ms=0, message_groups=False, single_active=False),
            self.unread.priority_index,
            buries=False,
        )
        view.waiting = self.waiting.available()
        view.outstanding = view.waiting.all()
        return view

    def join(self, consumer: int, priority: int, selector: str | None) -> None:
        """A consumer came."""
        self.holds.attach(consumer)
        if selector is not None and selector not in self.line.selectors:
            # What was seen to match nobody's selector was not seen by this one.
            self.waiting.free(lambda whose: isinstance(whose, frozenset))
        self.line.attach(consumer, priority, selector)
        if self.groups.owner:
            self._go_on(self.groups.join())
            self.waiting.free(self.holds.held.__contains__)

    def leave(self, consumer: int) -> list[Settled]:
        """A consumer went: what it held is available again."""
        self.line.detach(consumer)
        effects = []
        for run in self.holds.detach(consumer):
            effects += self.release(consumer, run)
        if self.groups.owner:
            self._go_on(self.groups.detach(consumer))
            self.waiting.free(lambda whose: whose == consumer)
        return effects

    def skip_to(self, position: int) -> None:
        """The topic has nothing from the best one up to this one."""
        best = self.best()
        if best is not None and best.sequence > self.unread.position:
            self.unread.skip_early(best.priority, position)
        elif position > self.unread.position:
            self.unread.move(position)

    def best(self) -> Best | None:
        """The message that goes next to somebody who is in line now: of the highest priority the
        lowest sequence, whether it was read before or not."""
        if not self.line.ready:
            return None
        found = self._best_waiting()
        if not self.parked_full():
            if self.unread.position < self.head:
                found.append((-PRIORITY, self.unread.position, True))
            if (ahead := self.unread.ahead()) is not None:
                found.append((-ahead[0], ahead[1], True))
        if not found:
            return None
        below, sequence, unread = min(found)
        others = [one for level, one, other in found if level == below and other is not unread]
        return Best(-below, sequence, unread, min(others, default=FOREVER))

    def pools(self, priority: int) -> list[Whose]:
        """Whose messages of this priority may go to somebody who is in line."""
        takers = self.line.takers()
        whose = [one for level, one in self.waiting.others if level == priority]
        if priority == PRIORITY:
            whose.append(None)
        return [one for one in whose if self._may_go(one, takers)]

    def room_for(self, whose: Whose) -> int:
        """How many messages those in line take that may have what is in this pool."""
        line = self.line
        if whose is None:
            return line.room
        if isinstance(whose, int):
            return line.credit[whose] if line.waits(whose) else 0
        return sum([line.credit[one] for one in line.turns() if line.may(one, whose)])

    def parked_full(self) -> bool:
        """Whether so much waits for the consumers of its groups that no more is read."""
        if not self.groups.owner:
            return False
        others = self.waiting.others.items()
        parked = [len(pool) for (_, whose), pool in others if isinstance(whose, int)]
        return sum(parked) >= PARKED_MAX

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
        holds = self.holds
        held, watched = holds.held, holds.watched
        for consumer, run in shares:
            held[consumer].add(run)
            if watched:
                holds.note(consumer, run, now, again=again)
            effects.append(Deliver(consumer, run, failures))
            taken += len(run)
        return taken

    def exhausted(self, run: Run, failures: int) -> bool:
        """Whether these failed as often as they may; all of them have so many failures."""
        limit = self._policy.delivery_attempts_max
        doubts = 1 if run[0] < self.attempts.doubtful_below else 0
        return limit > 0 and failures - doubts >= limit

    def end(self, consumer: int, run: Run, event: Event, now: int) -> list[Settled | DeadLetter]:
        """These deliveries ended, and not by `accepted`; the consumer doesn't hold them any
        more."""
        if next_state(State.ACQUIRED, event) in FINAL:
            return self.give_up(consumer, run, REASONS[event])
        if event is Event.MODIFY:
            return self.fail(consumer, run, now)
        return [*self.release(consumer, run)]

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
            elif self._keeps(Reason.EXHAUSTED):
                # Recorded first as what it is, so that a crash finds it exhausted.
                effects.append(Settled(consumer, part, Outcome.MODIFIED, False, failures))
                self.attempts.fail(part)
                effects += self.give_up(consumer, part, Reason.EXHAUSTED)
            else:
                effects += self.final(consumer, part, Outcome.MODIFIED)
        return effects

    def final(self, consumer: int, run: Run, outcome: Outcome) -> list[Settled]:
        """These are owed no more."""
        effects = [
            Settled(consumer, part, outcome, True, failures)
            for part, failures in self.attempts.parts(run)
        ]
        self.outstanding.discard(run)
        if self.attempts.any:
            self.attempts.forget(run)
        if self.waiting.levels:
            self.waiting.forget(run)
        if self.groups.members:
            self._go_on(self.groups.forget(run))
        return effects

    def give_up(self, consumer: int, run: Run, reason: Reason) -> list[Settled | DeadLetter]:
        """These, which are in no other place, are given up: copies are kept first, or not."""
        if not self._keeps(reason):
            return [*self.final(consumer, run, OUTCOMES[reason])]
        self.outstanding.add(run)
        self.burying.add(run)
        if self.groups.members:
            self._go_on(self.groups.forget(run))
        return [
            DeadLetter(consumer, part, reason, failures)
            for part, failures in self.attempts.parts(run)
        ]

    def give_up_unheld(self, run: Run, reason: Reason) -> list[Settled | DeadLetter]:
        """All of these that are owed and that nobody holds are given up, read or not."""
        parts = list(self.waiting.pick(run))
        for part in self.unread.among(run):
            self.unread.pass_over(part)
            parts.append(part)
        return [one for part in parts for one in self.give_up(NOBODY, part, reason)]

    def claim(self, consumer: int, run: Run, now: int) -> list[Effect]:
        """All of these that are owed and that nobody holds go to this consumer, read or not."""
        parts = self.waiting.claim(run)
        for part in parts:
            self._go_on(self.groups.claim(part))
        for part in self.unread.among(run):
            for priority, urgent in self.unread.urgent(part):
                self.waiting.note(urgent, priority)
            self.outstanding.add(part)
            self.unread.reached(part)
            self.unread.pass_over(part)
            parts.append(part)
        effects: list[Effect] = []
        for same, failures in (one for part in parts for one in self.attempts.parts(part)):
            self.hand([(consumer, same)], failures, now, effects, again=True)
        return effects

    def buried(self, run: Run) -> list[Settled]:
        """Copies of these are kept."""
        effects: list[Settled] = []
        for part in gathered((range(one, one + 1) for one in run if one in self.burying), len(run)):
            self.burying.discard(part)
            effects += self.final(NOBODY, part, Outcome.DEAD_LETTERED)
        return effects

    def wake(self, now: int) -> list[Settled | DeadLetter]:
        """Times have come: of delays, and of locks."""
        effects: list[Settled | DeadLetter] = []
        for run in self.waiting.due(now):
            self._go_on(self.groups.due(run))
            self.waiting.put(run)
        for consumer, run in self.holds.lapse(now):
            effects += self.fail(consumer, run, now)
        return effects

    def rewind(self, position: int) -> None:
        """All from here on is owed; of what was, nothing is known but the consumers."""
        self.unread.rewind(position)
        self.waiting.clear()
        self.holds.clear()
        self.burying.clear()
        self.outstanding.clear()
        self.groups.clear()
        self.attempts = Attempts({}, 0)

    def _best_waiting(self) -> list[tuple[int, int, bool]]:
        """Of each pool that somebody in line may have, the first message: priority below zero,
        sequence, not unread."""
        found = []
        usual = self.waiting.usual.first()
        if usual is not None:
            found.append((-PRIORITY, usual, False))
        if self.waiting.others:
            takers = self.line.takers()
            for (priority, whose), pool in self.waiting.others.items():
                if self._may_go(whose, takers):
                    first = pool.first()
                    assert first is not None  # noqa: S101
                    found.append((-priority, first, False))
        return found

    def _may_go(self, whose: Whose, takers: frozenset[str | None]) -> bool:
        """Whether somebody in line may have what is in this pool."""
        if isinstance(whose, int):
            return whose >= 0 and self.line.waits(whose)
        return whose is None or None in takers or not whose.isdisjoint(takers)

    def _wait(self, run: Run) -> None:
        if self.groups.members:
            self.groups.back(run, later=False)
        self.waiting.put(run)

    def _wait_later(self, run: Run, failures: int, now: int) -> None:
        policy = self._policy
        if not policy.redelivery_delay_ms:
            self._wait(run)
            return
        if self.groups.members:
            self.groups.back(run, later=True)
        if not policy.redelivery_jitter:
            self.waiting.delay(run, now + delay_us(policy, 0, failures))
            return
        for sequence in run:
            alone = range(sequence, sequence + 1)
            self.waiting.delay(alone, now + delay_us(policy, sequence, failures))

    def _keeps(self, reason: Reason) -> bool:
        """Whether copies are kept of what is given up so."""
        return self.buries and keeps(self._policy, reason)

    def _go_on(self, buckets: set[int]) -> None:
        """Messages of these buckets needn't wait for another one any more."""
        if buckets:
            freed = {stuck(bucket) for bucket in buckets if not self.groups.waits(bucket)}
            self.waiting.free(freed.__contains__)
