"""Dispatch of a batch whose messages have priorities, expiries, delays or groups, or whose
consumers have selectors.

Rule 1: of all messages that can be delivered, the highest priority goes first, and within a
        priority the lowest sequence, read before or not. A priority below the usual goes when no
        other message is left to read.
Rule 2: a message that can't be delivered now is put aside: it delays no other message.
Rule 3: there is a loop over messages only where eligibility depends on the message.
"""

from array import array
from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Final

import msgspec

from distributary.pipeline.dispatch.effects import Effect
from distributary.pipeline.dispatch.message_groups import BUCKETS
from distributary.pipeline.dispatch.queue_state import QueueState
from distributary.pipeline.dispatch.ready import Eligibility
from distributary.pipeline.model.header_attributes import PRIORITY, HeaderAttributes
from distributary.pipeline.model.outcome import Reason
from distributary.pipeline.model.sorting import Sorted, column, sort
from distributary.pipeline.sequences.gathering import gathered
from distributary.pipeline.sequences.sequence_set import Run

#: Messages that are sorted at once even if there is credit for fewer: each sort has a fixed cost.
PART_MIN: Final = 64

_NONE: Final[frozenset[str]] = frozenset()


class Offered(msgspec.Struct, frozen=True):
    """Offered messages: the arguments of `Dispatcher.offer`."""

    first: int
    stop: int
    sequences: "array[int] | None"
    now: int
    attributes: HeaderAttributes | None
    matches: "Mapping[str, array[int]]"


class SelectiveDispatch:
    """One call of `Dispatcher.offer`."""

    __slots__ = ("_effects", "_groups", "_matched", "_offered", "_source", "_state")

    def __init__(self, state: QueueState, offered: Offered) -> None:
        self._state, self._offered = state, offered
        self._effects: list[Effect] = []
        self._matched = {one: frozenset(matched) for one, matched in offered.matches.items()}
        attributes = offered.attributes
        self._groups = (
            attributes is not None and bool(attributes.groups) and state.policy.message_groups
        )

    def serve(self) -> list[Effect]:
        """Deliver the offered messages, as far as credit goes."""
        state, offered = self._state, self._offered
        best = state.candidates.best()
        asked = 0 if best is None else best.sequence
        # A candidate below the first one wasn't offered.
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
            best = state.candidates.best()
        return self._effects

    def _read_on(self, stop: int) -> None:
        """Read and deliver messages from the position up to `stop`."""
        state, offered = self._state, self._offered
        start = max(offered.first, state.report.position)
        most = max(state.candidates.room, PART_MIN)
        for run in state.candidates.unread(start, stop, offered.sequences, most):
            for part in _pieces(run, most):
                if not self._read(part, by_priority=True) or state.candidates.parked_full():
                    return
        state.pass_to(max(stop, state.report.position))

    def _read_early(self, priority: int, stop: int) -> None:
        """Read and deliver unread messages of this priority below `stop`, ahead of the position."""
        state, offered = self._state, self._offered
        listed: Run = range(offered.first, offered.stop)
        if offered.sequences is not None:
            listed = offered.sequences
        most = max(state.candidates.room, PART_MIN)
        early = state.read_early(priority, stop, listed, most)
        if early:
            self._read(early, by_priority=False)

    def _serve_waiting(self, priority: int, stop: int) -> None:
        """Deliver ready messages of this priority below `stop`."""
        state, offered = self._state, self._offered
        pools = [
            (eligible, state.candidates.waiting(priority, eligible, offered.first, stop))
            for eligible in state.candidates.pools(priority)
        ]
        if len(pools) == 1:
            eligible, stretches = pools[0]
            self._serve_runs(
                priority, ((eligible, one) for one in gathered(stretches, state.candidates.room))
            )
            return
        # Pools are merged by sequence, so the order within a group holds, too.
        merged = [(eligible, one) for eligible, stretches in pools for one in stretches]
        merged.sort(key=lambda pair: pair[1].start)
        self._serve_runs(priority, merged)

    def _serve_runs(self, priority: int, runs: Iterable[tuple[Eligibility, Run]]) -> None:
        """Deliver these runs, each from its pool, as far as credit goes."""
        state = self._state
        for eligible, run in runs:
            at = 0
            while at < len(run) and (room := state.candidates.room_for(eligible)):
                self._serve_run(run[at : at + room], priority, eligible)
                at += room
            if not state.candidates.queued:
                return

    def _read(self, run: Run, *, by_priority: bool) -> bool:
        """Read and deliver unread messages, as far as credit goes. Returns whether all were read.

        `by_priority`: the run begins at the position and has all priorities.
        """
        state = self._state
        again = state.candidates.was_read(run[0])
        them = sort(run, self._offered.attributes, self._offered.now, by_priority=by_priority)
        self._put_aside(them)
        if them.low:
            state.begin_reading(them.low)
            state.make_ready(them.low, None)
        state.begin_reading(them.ready)
        taken = self._deal(them.ready, None, again=again)
        if by_priority and taken == len(them.ready):
            state.read_to(run)
            return True
        went, left = them.ready[:taken], them.ready[taken:]
        delayed = [part for _, part in them.delayed]
        state.read_ahead((them.expired, *delayed, them.low, went), went, left)
        return not left

    def _serve_run(self, run: Run, priority: int, eligible: Eligibility) -> None:
        """Deliver these messages of a pool, as far as credit goes."""
        state = self._state
        # The usual pool has messages, too, that were acquired unread: their priority isn't known.
        usual = priority == PRIORITY
        them = sort(run, self._offered.attributes, self._offered.now, by_priority=usual)
        state.take_ready(run, priority, eligible)
        self._put_aside(them)
        if them.low:
            state.make_ready(them.low, eligible)
        taken = self._deal(them.ready, eligible, again=True)
        state.read_ahead((), them.ready[:taken])
        state.make_ready(them.ready[taken:], eligible)

    def _put_aside(self, them: Sorted) -> None:
        """Give up expired messages, delay those that aren't due, and note priorities."""
        state = self._state
        state.note_priorities(them.priorities)
        if them.expired:
            self._effects += state.drop(them.expired, Reason.EXPIRED)
        for time, part in them.delayed:
            state.hold_back(part, time)

    def _deal(self, run: Run, eligible: Eligibility, *, again: bool) -> int:
        """Deliver messages of this eligibility, as far as credit goes. Returns the number that are
        delivered, dropped, or ready for other consumers."""
        state, now = self._state, self._offered.now
        done = 0
        for part, failures in state.candidates.tries(run):
            if failures and state.exhausted(part, failures):
                self._effects += state.drop(part, Reason.EXHAUSTED)
                taken = len(part)
            elif self._groups or state.candidates.selectors:
                matching = self._matching(part, eligible)
                buckets = self._buckets(part)
                taken = state.deal_chosen(
                    part, matching, buckets, failures, now, self._effects, again=again
                )
            else:
                taken = state.deal(part, failures, now, self._effects, again=again)
            done += taken
            if taken < len(part):
                break
        return done

    def _buckets(self, run: Run) -> Iterable[int | None]:
        """Return the bucket of each message's group; None for a message without a group."""
        attributes = self._offered.attributes
        if not self._groups or attributes is None:
            return repeat(None)
        hashes = column(attributes.groups, "Q", run, attributes) or ()
        return [one % BUCKETS if one else None for one in hashes]

    def _matching(self, run: Run, eligible: Eligibility) -> Iterable[frozenset[str]]:
        """Return, for each message, the consumers' selectors that match it."""
        if isinstance(eligible, frozenset):
            return repeat(eligible)
        if not self._matched:
            return repeat(_NONE)
        matched = self._matched.items()
        return (frozenset([one for one, them in matched if sequence in them]) for sequence in run)


def _pieces(run: Run, most: int) -> Iterable[Run]:
    if len(run) <= most:
        return (run,)
    return (run[at : at + most] for at in range(0, len(run), most))
