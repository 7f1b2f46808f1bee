"""Who gets the next message: one subscription, many consumers, in turn.

A machine without I/O: commands are methods, effects are returned, the caller performs them.
The same commands give the same effects.

Rule 1: a message that is owed is in exactly one place: not read yet (at or above the position),
        returned, held by one consumer, or final and gone.
Rule 2: a message is assigned when it is delivered and never ahead, to the consumer whose turn it
        is among those with credit at that moment.
Rule 3: nothing here is done per message; effects carry runs.
"""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from pipeline.agenda import Agenda
from pipeline.attempts import Attempts
from pipeline.delivery import FINAL, Event, State, event_of, next_state
from pipeline.effects import NOBODY, Bury, Deliver, Effect, Settled
from pipeline.outcome import Outcome, Reason
from pipeline.policy import DEFAULT, Policy
from pipeline.sequences import Run, SequenceSet, gaps, gathered
from pipeline.traits import Traits

__all__ = ["FOREVER", "NOBODY", "Bury", "Deliver", "Dispatcher", "Effect", "Settled"]

#: Above every sequence.
FOREVER = 2**63


class Dispatcher:
    """The deliveries of one subscription.

    Consumers are numbers that the caller gives; a number is not used again while it is attached.
    After each command that may have made room (`credit`, `settle`, `detach`) and whenever messages
    arrive, the caller asks `wanted` and offers what the topic has from there on.
    """

    __slots__ = (
        "_agenda",
        "_attempts",
        "buries",
        "_burying",
        "_credit",
        "_floor",
        "_held",
        "_line",
        "_outstanding",
        "_position",
        "_returned",
        "_settled",
        "paused",
        "policy",
    )

    def __init__(
        self,
        position: int,
        settled: SequenceSet | None = None,
        *,
        failures: Mapping[int, int] | None = None,
        doubtful_below: int = 0,
        policy: Policy = DEFAULT,
        agenda: Agenda | None = None,
        buries: bool = False,
    ) -> None:
        """`position` is the first sequence that is owed and not read. The rest is known from before
        a restart: `settled` are exceptions above the position, kept and changed here; `failures`
        are the failed attempts of messages that are owed; what is owed below `doubtful_below` and
        isn't in `failures` was perhaps delivered, which counts as one. `buries` says whether copies
        are kept of what is given up; else it is settled at once."""
        self.policy = policy
        self.paused = False  #: nothing is delivered; outcomes count as ever
        self._agenda = agenda
        self.buries = buries
        self._burying = SequenceSet()  #: given up, and their copies aren't kept yet
        self._position = position  #: everything owed below it was read, everything above was not
        self._settled = SequenceSet() if settled is None else settled  #: those above the position
        self._returned = SequenceSet()  #: read, given back, to be delivered again; below position
        self._outstanding = SequenceSet()  #: all that are held or returned
        self._held: dict[int, SequenceSet] = {}  #: consumer -> what it has and did not settle
        self._credit: dict[int, int] = {}  #: consumer -> how many more it takes; never negative
        self._line: deque[int] = deque()  #: consumers with credit, once each; the next one first
        self._attempts = Attempts(failures or {}, doubtful_below)
        self._move(position)
        self._floor = self._position

    def view(self) -> "Dispatcher":
        """What could be delivered now and what comes after it, with the failed attempts that are
        known, for readers of its own: nothing that they do changes anything here, and nothing that
        happens here from now on is seen there. What consumers hold is not in it."""
        view = Dispatcher(
            self._position,
            self._settled.copy(),
            failures=self._attempts.failures,
            doubtful_below=self._attempts.doubtful_below,
            policy=self.policy,
            agenda=self._agenda,
        )
        view._returned = self._returned.copy()
        view._outstanding = self._returned.copy()
        view._floor = view._position if (first := view._returned.first()) is None else first
        return view

    @property
    def position(self) -> int:
        """The first sequence that was not read yet; it never falls."""
        return self._position

    @property
    def floor(self) -> int:
        """Everything that is owed below it is settled; it never falls."""
        first = self._outstanding.first()
        floor = self._position if first is None else first
        assert floor >= self._floor, f"the floor fell from {self._floor} to {floor}"  # noqa: S101
        self._floor = floor
        return floor

    @property
    def outstanding(self) -> int:
        """How many messages were read and aren't settled: held or returned."""
        return len(self._outstanding)

    @property
    def in_flight(self) -> int:
        """How many messages consumers hold."""
        return len(self._outstanding) - len(self._returned)

    @property
    def consumers(self) -> int:
        """How many consumers are attached."""
        return len(self._held)

    def held(self, consumer: int) -> SequenceSet:
        """What this consumer has and did not settle: to be read, not to be changed."""
        return self._held[consumer]

    @property
    def room(self) -> int:
        """How many messages all consumers together take now."""
        return sum([self._credit[consumer] for consumer in self._line])

    def attach(self, consumer: int, *, priority: int = 0, selector: str | None = None) -> None:
        """A consumer came. It has no credit yet."""
        assert consumer not in self._held, f"consumer {consumer} is attached"  # noqa: S101
        self._held[consumer] = SequenceSet()
        self._credit[consumer] = 0

    def detach(self, consumer: int, now: int = 0) -> list[Settled]:
        """A consumer went. What it held goes back to its old place and counts as no failure."""
        self.credit(consumer, 0)
        del self._credit[consumer]
        held = self._held.pop(consumer)
        return [
            settled
            for run in gathered(held.runs(), len(held))
            for settled in self._back(consumer, run, Outcome.RELEASED)
        ]

    def active(self, consumer: int) -> bool:
        """Whether this consumer gets messages: of a single active consumer's, only one does."""
        return consumer in self._held

    @property
    def selectors(self) -> frozenset[str]:
        """Those of the attached consumers that have one."""
        return frozenset()

    @property
    def next_due(self) -> int | None:
        """When to call `wake`; None: never."""
        return None

    def wake(self, now: int) -> list[Effect]:
        """Times have come: of delays and of locks."""
        return []

    def acquired(self, sequence: int) -> int:
        """How often this message was acquired and came back, while it is owed."""
        return 0

    def credit(self, consumer: int, credit: int) -> None:
        """From now on the consumer takes this many.

        A receiver that takes credit back while messages are under way can seem to have less than
        none; that is none.
        """
        credit = max(credit, 0)
        if credit and not self._credit[consumer]:
            self._line.append(consumer)
        elif self._credit[consumer] and not credit:
            self._line.remove(consumer)
        self._credit[consumer] = credit

    def wanted(self, head: int = FOREVER) -> int | None:
        """The sequence that would be delivered next, or None if there is nothing to deliver to
        anybody now. Messages from `head` on aren't there yet."""
        if not self._line or self.paused:
            return None
        first = self._returned.first()
        return self._position if first is None else first

    def offer(
        self,
        first: int,
        stop: int,
        sequences: "array[int] | None" = None,
        *,
        now: int = 0,
        traits: Traits | None = None,
        matches: "Mapping[str, array[int]] | None" = None,
    ) -> list[Effect]:
        """Deliver what is owed of the messages `first .. stop - 1`, as far as credit goes.

        All of them are of this topic, or those that `sequences` lists are all that the topic has
        there. The caller has them at hand, and the topic has none from `wanted` up to `first`.
        `matches` says for each of `selectors` what of the slab it matches.
        """
        effects: list[Effect] = []
        if self.paused:
            return effects
        if self._returned:
            self._offer_returned(first, stop, effects)
        if stop > self._position:
            self._offer_new(max(first, self._position), stop, sequences, effects)
        return effects

    def skip_to(self, position: int) -> None:
        """The topic has nothing between the position and this one."""
        if position > self._position:
            self._move(position)

    def exclude(self, run: range) -> None:
        """These messages, which are not read yet, aren't owed: they are passed over."""
        assert run.start >= self._position, f"{run} was read, up to {self._position}"  # noqa: S101
        self._settled.add(run)
        self._move(self._position)

    def settle(
        self,
        consumer: int,
        run: Run,
        outcome: Outcome,
        *,
        failed: bool = False,
        undeliverable: bool = False,
        now: int = 0,
        delivered_at: int = 0,
    ) -> list[Settled | Bury]:
        """A consumer settled these deliveries, which were made at `delivered_at`.

        What it doesn't hold (any more) is passed over: it changes nothing and has no effect.
        """
        event = event_of(outcome, undeliverable=undeliverable)
        if event is Event.MODIFY and not failed:
            # No failure is counted, so it is recorded as what it comes to: the record alone says
            # after a restart how often a message failed.
            outcome, event = Outcome.RELEASED, Event.RELEASE
        held = self._held.get(consumer)
        if held is None:
            return []
        if held.contains_all(run):
            held.discard(run)
            return self._end(consumer, run, outcome, event)
        effects: list[Settled | Bury] = []
        for part in _common(held, run):
            held.discard(part)
            effects += self._end(consumer, part, outcome, event)
        return effects

    def give_up(self, run: Run, reason: Reason, now: int = 0) -> list[Settled | Bury]:
        """Give up all of these that are owed and that nobody holds, whether read or not."""
        return []

    def buried(self, run: Run) -> list[Settled]:
        """The copies of these lie in the group that is being written: they are owed no more."""
        kept = array("q", [one for one in run if one in self._burying])
        self._burying.discard(kept)
        return self._final(NOBODY, kept, Outcome.DEAD_LETTERED) if kept else []

    def rewind(self, position: int, now: int) -> None:
        """What lies from here on is owed, all of it; nothing that was is known any more but the
        consumers and their credit."""
        for known in (self._settled, self._returned, self._outstanding, self._burying):
            known.clear()
        for held in self._held.values():
            held.clear()
        self._attempts = Attempts({}, 0)
        self._position = self._floor = position

    def _offer_returned(self, first: int, stop: int, effects: list[Effect]) -> None:
        lowest = self._returned.first()
        assert lowest is not None  # noqa: S101
        assert lowest >= first, f"{lowest} is owed, offered from {first} on"  # noqa: S101
        for run in gathered(self._returned.runs_within(first, stop), self.room):
            for part, failures in self._attempts.parts(run):
                taken = self._serve(part, failures, effects)
                self._returned.discard(part[:taken])
                if taken < len(part):
                    return

    def _offer_new(
        self, start: int, stop: int, sequences: "array[int] | None", effects: list[Effect]
    ) -> None:
        for run in self._unsettled(start, stop, sequences):
            for part, failures in self._attempts.parts(run):
                taken = self._serve(part, failures, effects)
                if taken < len(part):
                    self._outstanding.add(part[:taken])
                    self._move(part[taken - 1] + 1 if taken else self._position)
                    return
                self._outstanding.add(part)
                self._position = part[-1] + 1
        self._move(stop)

    def _unsettled(self, start: int, stop: int, sequences: "array[int] | None") -> Iterable[Run]:
        """What remains of the new messages without those settled before the restart."""
        if sequences is not None:
            return self._unsettled_of(sequences, start)
        if not self._settled:
            return (range(start, stop),)
        settled = self._settled.runs_within(start, stop)
        return gathered(gaps(settled, start, stop), self.room)

    def _unsettled_of(self, sequences: "array[int]", start: int) -> Iterator["array[int]"]:
        """As much at once as there is credit for, so that little credit is little work."""
        at = bisect_left(sequences, start)
        while at < len(sequences):
            part = sequences[at : at + max(self.room, 1)]
            at += len(part)
            if self._settled:
                part = array("q", [one for one in part if one not in self._settled])
            if part:
                yield part

    def _serve(self, run: Run, delivery_count: int, effects: list[Effect]) -> int:
        """Deal the run out to the line, one each in turn, and return how many were taken."""
        line, credit = self._line, self._credit
        taken = 0
        while line and taken < len(run):
            rest = run[taken:] if taken else run
            if len(line) > 1 and len(rest) > 1:
                taken += self._round(rest, delivery_count, effects)
                continue
            consumer = line.popleft()
            part = rest[: credit[consumer]]
            self._give(consumer, part, delivery_count, effects)
            if credit[consumer]:
                line.append(consumer)
            taken += len(part)
        return taken

    def _round(self, run: Run, delivery_count: int, effects: list[Effect]) -> int:
        """Deal until the run ends or a consumer's credit does.

        A turn goes over as many consumers as there are messages, or over all of them; then it is
        gone over again as often as the lowest credit allows. The last one served ends up last in
        the line.
        """
        line, credit = self._line, self._credit
        turn = [line.popleft() for _ in range(min(len(line), len(run)))]
        width = len(turn)
        taken = width if line else min(len(run), width * min([credit[c] for c in turn]))
        for nth, consumer in enumerate(turn):
            self._give(consumer, run[nth:taken:width], delivery_count, effects)
        next_up = taken % width
        line.extend([c for c in turn[next_up:] + turn[:next_up] if credit[c]])
        return taken

    def _give(self, consumer: int, run: Run, delivery_count: int, effects: list[Effect]) -> None:
        self._credit[consumer] -= len(run)
        self._held[consumer].add(run)
        effects.append(Deliver(consumer, run, delivery_count))

    def _end(self, consumer: int, run: Run, outcome: Outcome, event: Event) -> list[Settled | Bury]:
        """These deliveries ended; the consumer does not hold them any more."""
        if next_state(State.ACQUIRED, event) not in FINAL:
            return self._back(consumer, run, outcome)
        if event is Event.ACCEPT or not self.buries:
            return [*self._final(consumer, run, outcome)]
        reason = Reason.REJECTED if event is Event.REJECT else Reason.UNDELIVERABLE
        return self._bury(consumer, run, reason)

    def _final(self, consumer: int, run: Run, outcome: Outcome) -> list[Settled]:
        """These are owed no more."""
        effects = [
            Settled(consumer, part, outcome, True, failures)
            for part, failures in self._attempts.parts(run)
        ]
        self._outstanding.discard(run)
        self._attempts.forget(run)
        return effects

    def _bury(self, consumer: int, run: Run, reason: Reason) -> list[Settled | Bury]:
        """Copies of these are to be kept; until then they stay outstanding."""
        self._burying.add(run)
        return [
            Bury(consumer, part, reason, failures) for part, failures in self._attempts.parts(run)
        ]

    def _back(self, consumer: int, run: Run, outcome: Outcome) -> list[Settled]:
        """These are available again."""
        effects = [
            Settled(consumer, part, outcome, False, failures)
            for part, failures in self._attempts.parts(run)
        ]
        if outcome is Outcome.MODIFIED:
            self._attempts.fail(run)
        self._returned.add(run)
        return effects

    def _move(self, position: int) -> None:
        """The position is here, or behind the exceptions that stand right here."""
        self._position = position
        first = self._settled.first()
        if first is None or first > position:
            return
        if position in self._settled:
            self._position = next(self._settled.runs_within(position, FOREVER)).stop
        self._settled.discard(range(first, self._position))


def _common(held: SequenceSet, run: Run) -> Iterator[Run]:
    """What of the run is held. It may be taken out of `held` while this goes on."""
    if isinstance(run, range) and run.step == 1:
        return gathered(held.runs_within(run.start, run.stop), len(run))
    return gathered((range(one, one + 1) for one in run if one in held), len(run))
