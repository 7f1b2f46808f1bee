"""What goes of a batch where messages aren't all alike: priorities, expiry, delays, groups,
consumers with selectors.

Rule 1: of all that could go, the highest priority goes first; of one priority the lowest sequence,
        whether it was read before or not. A low priority goes when nothing else is left to read.
Rule 2: what can't go now is put where it waits, so that it holds up nothing else.
Rule 3: a loop over messages only where who may have a message depends on the message.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Final

from distributary.pipeline.dispatch.effects import Effect
from distributary.pipeline.dispatch.message_groups import BUCKETS
from distributary.pipeline.dispatch.queue_state import QueueState
from distributary.pipeline.dispatch.ready import Whose, stuck
from distributary.pipeline.dispatch.sorting import Sorted, as_run, column, sort
from distributary.pipeline.model.header_attributes import PRIORITY, HeaderAttributes
from distributary.pipeline.model.outcome import Reason
from distributary.pipeline.sequences.gathering import gathered
from distributary.pipeline.sequences.sequence_set import Run

#: Messages that are sorted at once even if there is credit for fewer: what it costs to begin.
PART_MIN: Final = 64

_NONE: Final[frozenset[str]] = frozenset()


@dataclass(frozen=True, slots=True)
class Offered:
    """Messages at hand: as the arguments of `Dispatcher.offer`."""

    first: int
    stop: int
    sequences: "array[int] | None"
    now: int
    attributes: HeaderAttributes | None
    matches: "Mapping[str, array[int]]"


class SelectiveDispatch:
    """One offer, while it is gone through."""

    __slots__ = ("_effects", "_groups", "_matched", "_offered", "_places", "_source")

    def __init__(self, places: QueueState, offered: Offered) -> None:
        self._places, self._offered = places, offered
        self._effects: list[Effect] = []
        self._matched = {one: frozenset(matched) for one, matched in offered.matches.items()}
        attributes = offered.attributes
        self._groups = (
            attributes is not None and bool(attributes.groups) and places.policy.message_groups
        )

    def serve(self) -> list[Effect]:
        """Deliver what of this can go, as far as credit goes."""
        places, offered = self._places, self._offered
        best = places.candidates.best()
        asked = 0 if best is None else best.sequence
        # What is below wasn't offered.
        while best is not None and asked <= best.sequence < offered.stop:
            if not best.unread and best.sequence < offered.first:
                assert best.sequence != asked, (  # noqa: S101
                    f"{best.sequence} is owed, offered from {offered.first} on"
                )
                break
            stop = min(offered.stop, best.before)
            if not best.unread:
                self._serve_waiting(best.priority, stop)
            elif best.priority == PRIORITY:
                self._read_on(stop)
            else:
                self._read_early(best.priority, stop)
            best = places.candidates.best()
        return self._effects

    def _read_on(self, stop: int) -> None:
        """Read what comes next, below `stop`."""
        places, offered = self._places, self._offered
        unread = places.unread
        start = max(offered.first, unread.position)
        most = max(places.line.room, PART_MIN)
        for run in unread.runs(start, stop, offered.sequences, most):
            for part in _pieces(run, most):
                if not self._read(part, by_priority=True) or places.candidates.parked_full():
                    return
        places.pass_to(max(stop, unread.position))

    def _read_early(self, priority: int, stop: int) -> None:
        """Read what there is of this priority below `stop`, wherever it is."""
        places, offered = self._places, self._offered
        listed: Run = range(offered.first, offered.stop)
        if offered.sequences is not None:
            listed = offered.sequences
        most = max(places.line.room, PART_MIN)
        early = places.unread.early(priority, stop, listed, most)
        if early:
            places.waiting.note(early, priority)
            self._read(early, by_priority=False)

    def _serve_waiting(self, priority: int, stop: int) -> None:
        """Deliver what waits of this priority below `stop`."""
        places, offered = self._places, self._offered
        pools = [
            (whose, places.waiting.within(priority, whose, offered.first, stop))
            for whose in places.candidates.pools(priority)
        ]
        if len(pools) == 1:
            whose, stretches = pools[0]
            self._serve_runs(
                priority, ((whose, one) for one in gathered(stretches, places.line.room))
            )
            return
        # In one order over all of them, which is the order within a group, too.
        merged = [(whose, one) for whose, stretches in pools for one in stretches]
        merged.sort(key=lambda pair: pair[1].start)
        self._serve_runs(priority, merged)

    def _serve_runs(self, priority: int, runs: Iterable[tuple[Whose, Run]]) -> None:
        """Deliver these, each from its pool, as far as credit goes."""
        places = self._places
        for whose, run in runs:
            at = 0
            while at < len(run) and (room := places.candidates.room_for(whose)):
                self._serve_run(run[at : at + room], priority, whose)
                at += room
            if not places.line.ready:
                return

    def _read(self, run: Run, *, by_priority: bool) -> bool:
        """Read these unread ones, as far as credit goes; whether it went all the way.

        `by_priority`: they are those from the position on, of whatever priority.
        """
        places = self._places
        again = run[0] < places.unread.read_before
        them = sort(run, self._offered.attributes, self._offered.now, by_priority=by_priority)
        self._put_aside(them)
        if them.low:
            places.begin_reading(them.low)
            places.ready(them.low, None)
        places.begin_reading(them.ready)
        taken = self._deal(them.ready, None, again=again)
        if by_priority and taken == len(them.ready):
            places.read_to(run)
            return True
        went, left = them.ready[:taken], them.ready[taken:]
        delayed = [part for _, part in them.delayed]
        places.read_ahead((them.expired, *delayed, them.low, went), went, left)
        return not left

    def _serve_run(self, run: Run, priority: int, whose: Whose) -> None:
        """Deliver these of a pool, as far as credit goes."""
        places = self._places
        # Of what was claimed unread no priority is known, so it waits among the usual.
        usual = priority == PRIORITY
        them = sort(run, self._offered.attributes, self._offered.now, by_priority=usual)
        places.take_ready(run, priority, whose)
        self._put_aside(them)
        if them.low:
            places.ready(them.low, whose)
        taken = self._deal(them.ready, whose, again=True)
        places.read_ahead((), them.ready[:taken])
        places.ready(them.ready[taken:], whose)

    def _put_aside(self, them: Sorted) -> None:
        """What expired is given up, what isn't due waits for its time; priorities are noted."""
        places = self._places
        for priority, part in them.priorities:
            places.waiting.note(part, priority)
        if them.expired:
            self._effects += places.drop(them.expired, Reason.EXPIRED)
        for time, part in them.delayed:
            places.hold_back(part, time)

    def _deal(self, run: Run, whose: Whose, *, again: bool) -> int:
        """Deliver these, which those may have, as far as credit goes: how many are done with."""
        places, now = self._places, self._offered.now
        done = 0
        for part, failures in places.attempts.parts(run):
            if failures and places.exhausted(part, failures):
                self._effects += places.drop(part, Reason.EXHAUSTED)
                taken = len(part)
            elif self._groups or places.line.selectors:
                shares, taken = self._choose(part, whose)
                places.hand(shares, failures, now, self._effects, again=again)
            else:
                taken = places.hand(
                    places.line.deal(part), failures, now, self._effects, again=again
                )
            done += taken
            if taken < len(part):
                break
        return done

    def _choose(self, run: Run, whose: Whose) -> tuple[list[tuple[int, Run]], int]:
        """Who gets which of these, one by one, and how many are done with: those that nobody in
        line may have wait for who may."""
        places, line, groups = self._places, self._places.line, self._places.groups
        given: dict[int, array[int]] = {}
        parked: dict[Whose, array[int]] = {}
        room = line.room
        done = 0
        for sequence, bucket in zip(run, self._buckets(run), strict=False):
            if not room:
                break
            done += 1
            matching = whose if isinstance(whose, frozenset) else self._matching(sequence)
            taker, waits_for = self._taker(matching, bucket)
            if taker is None:
                parked.setdefault(waits_for, array("q")).append(sequence)
                continue
            room -= 1
            line.take(taker)
            given.setdefault(taker, array("q")).append(sequence)
            if bucket is not None:
                groups.give(sequence, bucket, taker)
        for waits_for, waiting in parked.items():
            places.ready(as_run(waiting), waits_for)
        return [(taker, as_run(share)) for taker, share in given.items()], done

    def _taker(self, matching: frozenset[str], bucket: int | None) -> tuple[int | None, Whose]:
        """Who gets a message that these selectors match, in this bucket of groups; if nobody does
        now, whom it waits for."""
        line, groups = self._places.line, self._places.groups
        if bucket is not None:
            if groups.waits(bucket):
                return None, stuck(bucket)
            owner = groups.owner.get(bucket)
            if owner is not None:
                if not line.may(owner, matching):
                    return None, stuck(bucket)
                return (owner, None) if line.waits(owner) else (None, owner)
        return line.next(matching), matching

    def _buckets(self, run: Run) -> Iterable[int | None]:
        """The bucket of each one's group; None of those without a group."""
        attributes = self._offered.attributes
        if not self._groups or attributes is None:
            return repeat(None)
        hashes = column(attributes.groups, "Q", run, attributes) or ()
        return [one % BUCKETS if one else None for one in hashes]

    def _matching(self, sequence: int) -> frozenset[str]:
        """The consumers' selectors that match this message."""
        if not self._matched:
            return _NONE
        return frozenset([one for one, matched in self._matched.items() if sequence in matched])


def _pieces(run: Run, most: int) -> Iterable[Run]:
    if len(run) <= most:
        return (run,)
    return (run[at : at + most] for at in range(0, len(run), most))
