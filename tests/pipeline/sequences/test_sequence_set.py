"""SequenceSet against Python's own set: the same operations, the same answers.

Runs are drawn around the edges of chunks, with small and with huge steps.
"""

from array import array
from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from distributary.pipeline.sequences.gathering import gathered, strided
from distributary.pipeline.sequences.lane_store import LANES_MAX
from distributary.pipeline.sequences.sequence_set import SequenceSet

starts = st.one_of(st.integers(0, 60), st.integers(4060, 4140), st.integers(8150, 20_500))
steps = st.one_of(st.just(1), st.integers(1, 7), st.sampled_from([4095, 4096, 4097, 9001]))
#: So many chunks are touched at once that most of them are packed.
many = st.builds(lambda start, step: range(start, start + 100 * step, step), starts, steps)
counts = st.one_of(st.just(1), st.integers(0, 40), st.integers(4000, 9000))


@st.composite
def runs(draw):
    if draw(st.integers(0, 9)) == 0:
        return draw(many)
    start, step = draw(starts), draw(steps)
    count = draw(counts if step < 10 else st.integers(0, 5))
    run = range(start, start + step * count, step)
    return array("q", run) if draw(st.booleans()) else run


def stretches(members):
    """The members as maximal stretches of consecutive ones, the slow and obvious way."""
    grouped = groupby(enumerate(sorted(members)), lambda pair: pair[1] - pair[0])
    return [[member for _, member in group] for _, group in grouped]


class SetMachine(RuleBasedStateMachine):
    """A SequenceSet and a set answer alike after any equal steps."""

    def __init__(self):
        super().__init__()
        self.sequences, self.model = SequenceSet(), set()

    @rule(run=runs())
    def add(self, run):
        self.sequences.add(run)
        self.model.update(run)
        assert self.sequences.contains_all(run)

    @rule(start=starts, mask=st.lists(st.booleans(), max_size=40), times=st.integers(1, 300))
    def add_mask(self, start, mask, times):
        """A byte says of each sequence whether it is in."""
        mask = bytes(mask) * times
        self.sequences.add_mask(start, mask)
        self.model.update(start + nth for nth, one in enumerate(mask) if one)

    @rule(run=runs())
    def add_packed(self, run):
        """Chunks that come packed, beside others and over some that are there."""
        other = SequenceSet()
        other.add(run)
        self.sequences.add_packed(*other.packed())
        self.model.update(run)

    @rule()
    def pack(self):
        self.sequences.pack(0)
        assert self.sequences.unpacked == 0

    @rule(run=runs())
    def discard(self, run):
        assert self.sequences.discard(run) == len(self.model.intersection(run))
        self.model.difference_update(run)

    @rule(run=runs())
    def change_a_copy(self, run):
        """A copy has the same members, and a life of its own."""
        copy = self.sequences.copy()
        assert [one for part in copy.runs() for one in part] == sorted(self.model)
        copy.add(run)
        copy.discard(range(4090, 4100))

    @rule(run=runs())
    def contains_all(self, run):
        assert self.sequences.contains_all(run) == self.model.issuperset(run)

    @rule(start=starts, length=counts)
    def runs_within(self, start, length):
        window = range(start, start + length)
        found = self.sequences.runs_within(window.start, window.stop)
        inside = [member for member in self.model if member in window]
        assert [list(run) for run in found] == stretches(inside)

    @rule()
    def discard_all_at_once(self):
        assert self.sequences.discard(range(10**12)) == len(self.model)
        self.model.clear()

    @rule()
    def clear(self):
        self.sequences.clear()
        self.model.clear()

    @invariant()
    def same(self):
        assert len(self.sequences) == len(self.model)
        assert self.sequences.first() == min(self.model, default=None)
        assert [list(run) for run in self.sequences.runs()] == stretches(self.model)
        assert all(run.step == 1 for run in self.sequences.runs())

    @invariant()
    def what_is_kept_follows_the_rules(self):
        """A chunk without members would make the lowest one lie about the first."""
        self.sequences.check()
        assert self.sequences.unpacked <= LANES_MAX

    @rule(start=st.one_of(starts, st.integers(0, 1_000_000)))
    def next(self, start):
        """The first member, wherever one begins to look."""
        wanted = min([one for one in self.model if one >= start], default=None)
        assert self.sequences.next(start) == wanted

    @rule(start=starts)
    def gap(self, start):
        """The first that is no member, wherever one begins to look."""
        end = start
        while end in self.model:
            end += 1
        assert self.sequences.gap(start) == end


TestSetMachine = SetMachine.TestCase
TestSetMachine.settings = settings(max_examples=60, stateful_step_count=25)


@pytest.mark.parametrize("sequence", [0, 1, 4095, 4096, 2**40])
def test_membership_is_exact(sequence):
    """A member is in; its neighbours are not."""
    sequences = SequenceSet([range(sequence, sequence + 1)])
    assert sequence in sequences
    assert sequence + 1 not in sequences
    assert sequence - 1 not in sequences


def test_the_first_moves_on_over_chunks():
    """When the lowest chunk goes, the first is in the next one; a lower one takes its place."""
    sequences = SequenceSet([range(5, 6), range(9000, 9002), range(50_000, 50_001)])
    firsts = []
    while (first := sequences.first()) is not None:
        firsts.append(first)
        sequences.discard(range(first, first + 1))
    assert firsts == [5, 9000, 9001, 50_000]
    sequences.add(range(9000, 9001))
    sequences.add(range(7, 8))
    assert sequences.first() == 7


def test_what_was_yielded_may_be_discarded_on_the_way():
    """A caller that empties the set while it goes over it sees every stretch once."""
    wanted = [range(4000, 4200), range(4300, 4301), range(8190, 12_300), range(20_000, 20_001)]
    sequences = SequenceSet(wanted)
    seen = []
    for run in sequences.runs_within(0, 30_000):
        sequences.discard(run)
        seen.append(run)
    assert seen == wanted
    assert len(sequences) == 0


@given(st.sets(st.integers(0, 200)))
def test_strided_runs_are_the_same_sequences(members):
    """However lone sequences are joined to runs, they are the same ones in the same order."""
    sequences = SequenceSet(range(one, one + 1) for one in members)
    assert [one for run in strided(sequences.runs()) for one in run] == sorted(members)


def test_a_share_of_a_round_robin_is_one_run():
    """Every fourth sequence, which is what one of four consumers holds, is a single run."""
    sequences = SequenceSet([range(3, 9000, 4)])
    assert list(strided(sequences.runs())) == [range(3, 9000, 4)]


@given(st.sets(st.integers(0, 3_000)), st.integers(1, 500))
def test_gathered_runs_are_the_same_sequences(members, most):
    """Nothing is lost or put elsewhere, however much is taken at once."""
    found = list(gathered((range(run[0], run[-1] + 1) for run in stretches(members)), most))
    assert [one for run in found for one in run] == sorted(members)


def test_irregular_ranges_become_one_array():
    """Ranges of few sequences each are one run, however many they are; a long one stays a range."""
    ranges = [range(n * n, n * n + 2) for n in range(2, 60)]
    assert list(gathered(ranges, 1_000)) == [array("q", [one for run in ranges for one in run])]
    assert list(gathered([*ranges, range(9_000, 9_900)], 1_000))[1:] == [range(9_000, 9_900)]


def test_no_more_is_gathered_than_is_wanted():
    """Taking little reads little: the source is read only as far as needed."""
    source = iter([range(n * n, n * n + 1) for n in range(1_000)])
    first = next(gathered(source, 10))
    assert len(first) >= 10
    assert next(source)[0] <= 20 * 20
