"""The dispatcher against a dumb model that deals message by message, over random histories.

The model is what the rules say, with one place per message and a plain line of consumers. The real
one must give the same deliveries, floor and position at every step; and the log of what it recorded
must be enough to restart from at any moment.
"""

from array import array
from bisect import bisect_left
from collections import Counter, deque

import pytest
from cursor_model import fold
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from distributary.pipeline.dispatch.dispatcher import Dispatcher
from distributary.pipeline.log.failures import Failures, PossiblyDelivered
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.sequences.sequence_set import SequenceSet

NEW, RETURNED, FINAL = "new", "returned", "final"  # a consumer's number is the fourth place

DELIVERY_STATES = [
    # outcome, failed, undeliverable, what is recorded, is it final, does it count as a failure
    (Outcome.ACCEPTED, False, False, Outcome.ACCEPTED, True, False),
    (Outcome.REJECTED, False, False, Outcome.REJECTED, True, False),
    (Outcome.RELEASED, False, False, Outcome.RELEASED, False, False),
    (Outcome.RELEASED, True, False, Outcome.RELEASED, False, False),
    (Outcome.MODIFIED, False, False, Outcome.RELEASED, False, False),
    (Outcome.MODIFIED, True, False, Outcome.MODIFIED, False, True),
    (Outcome.MODIFIED, True, True, Outcome.MODIFIED, True, False),
    (Outcome.MODIFIED, False, True, Outcome.MODIFIED, True, False),
]

few = st.integers(0, 7)
consumers = st.integers(0, 3)
some_credit = st.one_of(st.integers(-1, 9), st.just(1000))
credit_lists = st.lists(some_credit, min_size=1, max_size=4)


class Model:
    """One subscription, a message at a time."""

    def __init__(self):
        self.places = {}  # sequence -> NEW, RETURNED, FINAL or the consumer that holds it
        self.failures = Counter()
        self.uncertain = set()  # those whose failures count a delivery that no record knows of
        self.mark = 0  # what was delivered and not all recorded as ended lies below it
        self.credit = {}
        self.line = deque()
        self.position = 0
        self.known_final = set()  # settled before the last restart

    def set_credit(self, consumer, credit):
        if credit and not self.credit[consumer]:
            self.line.append(consumer)
        if not credit and self.credit[consumer]:
            self.line.remove(consumer)
        self.credit[consumer] = credit

    def in_place(self, *places):
        return sorted(one for one, place in self.places.items() if place in places)

    def wanted(self):
        return min([*self.in_place(RETURNED), self.position]) if self.line else None

    def offer(self, first, stop):
        """The deliveries as (consumer, sequence, failed attempts), in the order of the log:
        messages that came back are in their old places among those that weren't read yet."""
        dealt = self.deal(self.offered(first, stop))
        if not self.offered(first, stop):
            self.move(max(stop, self.position))
        if dealt:
            self.mark = max(self.mark, self.position)
        return dealt

    def offered(self, first, stop):
        return [one for one in self.in_place(RETURNED, NEW) if first <= one < stop]

    def deal(self, waiting):
        dealt = []
        for one in waiting:
            if not self.line:
                break
            consumer = self.line.popleft()
            self.credit[consumer] -= 1
            if self.credit[consumer]:
                self.line.append(consumer)
            if self.places[one] == NEW:
                self.move(one + 1)
            self.places[one] = consumer
            dealt.append((consumer, one, self.failures[one]))
        return dealt

    def claim(self, consumer, run):
        """Messages of the run that no consumer has go to this one, wherever the position is."""
        taken = [one for one in run if self.places.get(one) in (NEW, RETURNED)]
        fresh = [one for one in taken if self.places[one] == NEW]
        self.known_final |= {*fresh}
        self.places |= dict.fromkeys(taken, consumer)
        if fresh:
            self.mark = max(self.mark, fresh[-1] + 1)
        self.move(self.position)
        return [(consumer, one, self.failures[one]) for one in taken]

    def move(self, position):
        while position in self.known_final:
            position += 1
        self.position = position

    def end(self, one, *, final, failed):
        self.places[one] = FINAL if final else RETURNED
        self.failures[one] += failed
        self.uncertain.discard(one)

    def floor(self):
        outstanding = [one for one, at in self.places.items() if at not in (NEW, FINAL)]
        return min([*outstanding, self.position])

    def restart(self, floor):
        self.known_final = {one for one in self.in_place(FINAL) if one >= floor}
        for one in self.in_place(*self.credit, RETURNED):
            self.places[one] = NEW
        for one in self.in_place(NEW):
            if one < self.mark and one not in self.uncertain:
                self.failures[one] += 1
                self.uncertain.add(one)
        self.mark = 0
        self.credit.clear()
        self.line.clear()
        self.move(floor)


def dealt_by(effects):
    """The effects message by message; each consumer gets its own in ascending order."""
    dealt = [(e.consumer, one, e.delivery_count) for e in effects for one in e.run]
    for consumer in {consumer for consumer, _, _ in dealt}:
        own = [one for whose, one, _ in dealt if whose == consumer]
        assert own == sorted(own)
    return sorted(dealt, key=lambda delivery: delivery[1])


class DispatcherMachine(RuleBasedStateMachine):
    """Publish, attach, take credit, offer, settle, leave and restart in any order."""

    def __init__(self):
        super().__init__()
        self.real, self.model = Dispatcher(0), Model()
        self.head = 0  # the log's next sequence, over all topics
        self.final_runs, self.recorded_floor = [], 0
        self.known, self.possible, self.group = {}, PossiblyDelivered(), 0
        self.totals = Counter()
        self.since = {}  # consumer with credit -> the totals when it last got credit after none

    def topic(self):
        return sorted(self.model.places)

    @initialize(credit_of=credit_lists)
    def begin(self, credit_of):
        """Most faults need messages, and consumers that take them."""
        self.publish(20, 3)
        self.arrive(credit_of)

    def arrive(self, credit_of):
        for consumer, credit in enumerate(credit_of):
            self.attach(consumer, credit)

    @rule(mine=st.integers(1, 12), others=few)
    def publish(self, mine, others):
        """Messages of this topic, then some of other topics."""
        for one in range(self.head, self.head + mine):
            self.model.places[one] = NEW
        self.head += mine + others

    @rule(consumer=consumers, credit=some_credit)
    def attach(self, consumer, credit):
        """A consumer comes, or one that is there changes its credit."""
        if consumer not in self.model.credit:
            self.real.attach(consumer)
            self.model.credit[consumer] = 0
        self.real.credit(consumer, credit)
        self.model.set_credit(consumer, max(credit, 0))
        self.note_credit()

    @precondition(lambda self: self.model.line)
    @rule(before=few, length=st.integers(1, 14), sparse=st.booleans())
    def offer(self, before, length, sparse):
        """The caller reads a batch where the dispatcher wants it, or learns that there is none."""
        wanted, topic = self.model.wanted(), self.topic()
        at = bisect_left(topic, wanted)
        if at == len(topic):
            self.real.skip_to(self.head)
            self.model.move(max(self.head, self.model.position))
            return
        if sparse:
            part = array("q", topic[max(at - before, 0) : at + length])
            self.offer_batch(part[0], part[-1] + 1, part)
            return
        first = stop = topic[at]
        while first - 1 in self.model.places and topic[at] - first < before:
            first -= 1
        while stop in self.model.places and stop - topic[at] < length:
            stop += 1
        if self.model.in_place(RETURNED):
            first = max(first, wanted - before)
        self.offer_batch(first, stop)

    def offer_batch(self, first, stop, sequences=None):
        effects = self.real.offer(first, stop, sequences)
        dealt = self.model.offer(first, stop)
        assert dealt_by(effects) == dealt
        self.totals.update(consumer for consumer, _, _ in dealt)
        self.note_credit()
        assert not (self.model.offered(first, stop) and any(self.model.credit.values()))

    @precondition(lambda self: self.model.in_place(*self.model.credit))
    @rule(delivery_state=st.sampled_from(DELIVERY_STATES), data=st.data())
    def settle(self, delivery_state, data):
        """A run that a consumer holds, whole or in part."""
        first = data.draw(st.sampled_from(self.model.in_place(*self.model.credit)))
        self.settle_run(self.model.places[first], first, delivery_state, data)

    # One rule for all that disturbs, so that most steps are work: Hypothesis draws rules evenly.

    @rule(
        what=st.sampled_from(["foreign", "claim", "claim", "back", "detach", "restart", "stop"]),
        data=st.data(),
    )
    def disturb(self, what, data):
        match what:
            case "foreign":
                delivery_state = data.draw(st.sampled_from(DELIVERY_STATES))
                self.settle_foreign(
                    data.draw(consumers), data.draw(st.integers(0, 60)), delivery_state
                )
            case "claim":
                self.claim(data.draw(consumers), data.draw(few), data.draw(st.integers(1, 3)))
            case "back":
                self.skip_back(data.draw(few))
            case "detach":
                self.detach(data.draw(consumers))
            case "restart":
                self.restart(data.draw(credit_lists))
            case "stop":
                for consumer in list(self.model.credit):
                    self.detach(consumer)
                self.restart(data.draw(credit_lists))

    def claim(self, consumer, first, step):
        """A consumer wants some back, which are messages of the topic."""
        if consumer in self.model.credit:
            run = array("q", self.topic()[first : first + 9 : step])
            effects = self.real.reacquire(consumer, run)
            dealt = [(e.consumer, one, e.delivery_count) for e in effects for one in e.run]
            assert sorted(dealt) == self.model.claim(consumer, run)
            assert self.real.reach >= self.model.mark

    def settle_foreign(self, consumer, first, delivery_state):
        """Settle a message that the consumer, which may not be attached, hardly ever holds."""
        self.settle_run(consumer, first, delivery_state, None)

    def settle_run(self, consumer, first, delivery_state, data):
        outcome, failed, undeliverable, recorded, final, counts = delivery_state
        step, length = (data.draw(st.integers(1, 4)), data.draw(few)) if data else (1, 0)
        run = range(first, first + 1 + length * step, step)
        if data and data.draw(st.booleans()):
            run = array("q", sorted({first, *data.draw(st.sets(st.integers(first, first + 40)))}))
        held = self.model.in_place(consumer)
        effects = self.real.settle(
            consumer, run, outcome, failed=failed, undeliverable=undeliverable
        )
        self.end(effects, consumer, [one for one in run if one in held], recorded, final, counts)

    def skip_back(self, back):
        """Skipping to where the position is already, or was, is no move."""
        self.real.skip_to(self.model.position - back)

    def detach(self, consumer):
        """A consumer goes, whatever it holds."""
        if consumer not in self.model.credit:
            return
        held = self.model.in_place(consumer)
        self.model.set_credit(consumer, 0)
        del self.model.credit[consumer]
        self.note_credit()
        effects = self.real.detach(consumer)
        self.end(effects, consumer, held, Outcome.RELEASED, final=False, counts=False)
        if not self.model.credit:
            self.model.mark = 0  # no message is in flight, and all outcomes are recorded

    def end(self, effects, consumer, ended, outcome, final, counts):
        """The effects are these deliveries, each once, with its count; then the model follows."""
        said = [(one, e.delivery_count) for e in effects for one in e.run]
        assert said == [(one, self.model.failures[one]) for one in ended]
        assert all((e.consumer, e.outcome, e.final) == (consumer, outcome, final) for e in effects)
        for one in ended:
            self.model.end(one, final=final, failed=counts)
        if effects:
            self.recorded_floor = self.real.floor
        self.group += 1
        for effect in effects:
            self.record(effect)

    def record(self, effect):
        """As the log has it, and as a fold of the log reads it."""
        if effect.final:
            self.final_runs.append(effect.run)
            return
        count = effect.delivery_count + (effect.outcome is Outcome.MODIFIED)
        for one in effect.run if count else ():
            self.known[one] = Failures(count, self.group)

    def restart(self, credit_of):
        """Only the recorded state is left, and is enough."""
        self.start_again()
        self.arrive(credit_of)

    def start_again(self):
        cursor = fold(self.final_runs, self.recorded_floor)
        for one, place in self.model.places.items():
            assert (one in cursor) == (place == FINAL)
        self.possible = self.possible.after_crash(
            self.model.mark, self.group + 1, floor=cursor.floor
        )
        owed = {one: known for one, known in self.known.items() if one not in cursor}
        self.real = Dispatcher(
            cursor.floor,
            SequenceSet(cursor.settled),
            attempts=Attempts(self.possible.failures(owed), self.possible.below),
        )
        self.model.restart(cursor.floor)
        self.since.clear()

    def note_credit(self):
        self.since = {
            consumer: self.since.get(consumer, self.totals.copy())
            for consumer, credit in self.model.credit.items()
            if credit
        }

    @invariant()
    def turns_are_fair(self):
        """Of two consumers that had credit all the time, none got two more than the other."""
        for one in self.since:
            for other in self.since:
                began = max(self.since[one], self.since[other], key=lambda totals: totals.total())
                got = [self.totals[who] - began[who] for who in (one, other)]
                assert abs(got[0] - got[1]) <= 1

    @invariant()
    def every_message_is_in_its_one_place(self):
        for consumer in self.model.credit:
            held = [one for run in self.real.unsettled(consumer).runs() for one in run]
            assert held == self.model.in_place(consumer)
        ready, *places = self.real.report.places()
        assert list(self.sequences_of(ready)) == self.model.in_place(RETURNED)
        outstanding = self.model.in_place(RETURNED, *self.model.credit)
        assert [one for run, _ in self.real.owed(self.real.position) for one in run] == outstanding
        assert len(ready) + sum(map(len, places)) == len(outstanding)
        assert self.real.outstanding == len(outstanding)
        assert self.real.in_flight == len(self.model.in_place(*self.model.credit))
        assert all(one >= self.real.position for one in self.model.in_place(NEW))

    @staticmethod
    def sequences_of(sequences):
        return (one for run in sequences.runs() for one in run)

    @invariant()
    def credit_and_line_are_the_models(self):
        credit = self.model.credit
        assert self.real.report.turns() == [(one, credit[one]) for one in self.model.line]
        assert self.real.room == sum(credit.values())
        assert self.real.consumers == len(self.model.credit)

    @invariant()
    def floor_and_position_are_the_models(self):
        assert self.real.position == self.model.position
        assert self.real.floor == self.model.floor()
        assert self.real.wanted() == self.model.wanted()

    @invariant()
    def failures_are_kept_for_what_is_owed_only(self):
        owed = set(self.model.in_place(NEW, RETURNED, *self.model.credit))
        assert dict(self.real.report.failed()).keys() <= owed

    def teardown(self):
        """After a restart, one consumer with credit for all gets just what isn't settled."""
        self.start_again()
        owed = self.model.in_place(NEW)
        self.real.attach(0)
        self.real.credit(0, len(owed) + 1)
        got = []
        while (wanted := self.real.wanted()) <= max(owed, default=-1):
            topic = self.topic()
            first = stop = topic[bisect_left(topic, wanted)]
            while stop in self.model.places:
                stop += 1
            got += dealt_by(self.real.offer(first, stop))
        assert got == [(0, one, self.model.failures[one]) for one in owed]


TestDispatcherMachine = DispatcherMachine.TestCase
TestDispatcherMachine.settings = settings(max_examples=200, stateful_step_count=60)


@given(st.lists(st.integers(1, 400), max_size=12), st.integers(1, 40))
def test_always_ready_consumers_differ_by_at_most_one(lengths, width):
    """However the messages are cut into offers, consumers that always have credit share evenly."""
    dispatcher = Dispatcher(0)
    for consumer in range(width):
        dispatcher.attach(consumer)
        dispatcher.credit(consumer, 10_000)
    totals = Counter(dict.fromkeys(range(width), 0))
    for length in lengths:
        start = dispatcher.position
        for effect in dispatcher.offer(start, start + length):
            totals[effect.consumer] += len(effect.run)
    assert totals.total() == sum(lengths)
    assert max(totals.values()) - min(totals.values()) <= 1


@pytest.mark.parametrize("width", [1, 4, 50])
def test_a_run_is_one_effect_per_consumer(width):
    """Effects carry runs: a thousand messages to n consumers are n deliveries, not a thousand."""
    dispatcher = Dispatcher(0)
    for consumer in range(width):
        dispatcher.attach(consumer)
        dispatcher.credit(consumer, 1000)
    effects = dispatcher.offer(0, 1000)
    assert [effect.run for effect in effects] == [range(n, 1000, width) for n in range(width)]


def test_a_lost_share_is_one_effect():
    """Messages that one of four consumers held go back as a single run with a step."""
    dispatcher = Dispatcher(0)
    for consumer in range(4):
        dispatcher.attach(consumer)
        dispatcher.credit(consumer, 10_000)
    dispatcher.offer(0, 20_000)
    assert [effect.run for effect in dispatcher.detach(1)] == [range(1, 20_000, 4)]
    # It is dealt out again in runs, not one by one.
    assert len(dispatcher.offer(1, 20_000)) == 3


def test_a_broken_promise_is_caught():
    """An offer that leaves out what is wanted is the caller's bug, and is not passed over."""
    dispatcher = Dispatcher(0)
    dispatcher.attach(1)
    dispatcher.credit(1, 10)
    dispatcher.offer(0, 5)
    dispatcher.settle(1, range(5), Outcome.RELEASED)
    with pytest.raises(AssertionError, match="0 is owed, offered from 3 on"):
        dispatcher.offer(3, 5)


def test_a_consumer_attaches_once():
    """Two links never share a number."""
    dispatcher = Dispatcher(0)
    dispatcher.attach(1)
    with pytest.raises(AssertionError, match="consumer 1 is attached"):
        dispatcher.attach(1)


def test_a_batch_may_reach_behind_what_is_wanted():
    """Messages of a batch that are held, settled or read long ago are passed over."""
    dispatcher = Dispatcher(10, SequenceSet([range(12, 14)]))
    dispatcher.attach(1)
    dispatcher.credit(1, 3)
    assert [effect.run for effect in dispatcher.offer(0, 16)] == [range(10, 12), range(14, 15)]
    assert dispatcher.position == 15


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans(), st.integers(0, 12)), max_size=30),
)
def test_what_is_excluded_is_never_delivered_and_never_owed(steps):
    """Whenever the consumer has credit, before it comes or after: it gets all others, in order,
    and when these are settled nothing is outstanding below the head."""
    dispatcher = Dispatcher(0)
    dispatcher.attach(1)
    head, wanted, got = 0, [], []
    for count, excluded, credit in steps:
        run = range(head, head + count)
        head += count
        if excluded:
            dispatcher.exclude(run)
        else:
            wanted += run
        dispatcher.credit(1, credit)
        for effect in dispatcher.offer(0, head):
            got += effect.run
            dispatcher.settle(1, effect.run, Outcome.ACCEPTED)
    dispatcher.credit(1, head + 1)
    for effect in dispatcher.offer(0, head):
        got += effect.run
        dispatcher.settle(1, effect.run, Outcome.ACCEPTED)
    assert got == wanted
    assert (dispatcher.floor, dispatcher.outstanding) == (head, 0)


def test_what_was_read_can_not_be_excluded():
    """It may be at a consumer already."""
    dispatcher = Dispatcher(0)
    dispatcher.attach(1)
    dispatcher.credit(1, 10)
    dispatcher.offer(0, 5)
    with pytest.raises(AssertionError, match=r"was read, up to 5"):
        dispatcher.exclude(range(4, 6))


def test_irregular_runs_stay_few():
    """Sequences without any order in them are one effect for each consumer all the same."""
    dispatcher = Dispatcher(0)
    for consumer in range(2):
        dispatcher.attach(consumer)
        dispatcher.credit(consumer, 1000)
    squares = array("q", [n * n for n in range(40)])
    dealt = dispatcher.offer(0, squares[-1] + 1, squares)
    assert [effect.run for effect in dealt] == [squares[::2], squares[1::2]]
    (settled,) = dispatcher.settle(1, squares[1::2], Outcome.RELEASED)
    assert settled.run == squares[1::2]
    dealt = dispatcher.offer(0, squares[-1] + 1, squares)
    assert [effect.run for effect in dealt] == [squares[1::4], squares[3::4]]


def test_little_credit_is_little_work():
    """One message at a time is not the whole batch looked at for each."""
    dispatcher = Dispatcher(0)
    dispatcher.attach(1)
    looked_at = []

    class Watched(array):
        def __getitem__(self, at):
            found = super().__getitem__(at)
            looked_at.append(len(found) if isinstance(at, slice) else 1)
            return found

    batch = Watched("q", range(0, 30_000, 3))
    dispatcher.credit(1, 1)
    assert [effect.run for effect in dispatcher.offer(0, 30_000, batch)] == [array("q", [0])]
    assert sum(looked_at) < 50


def test_what_was_claimed_and_came_back_is_in_its_old_place():
    """Lower messages that weren't read go before it, and are not skipped."""
    dispatcher = Dispatcher(0)
    for consumer in (1, 2):
        dispatcher.attach(consumer)
    assert dealt_by(dispatcher.reacquire(1, range(50, 52))) == [(1, 50, 0), (1, 51, 0)]
    assert (dispatcher.position, dispatcher.floor, dispatcher.reach) == (0, 0, 52)
    dispatcher.detach(1)
    dispatcher.credit(2, 55)
    assert dispatcher.wanted() == 0
    got = [one for _, one, _ in dealt_by(dispatcher.offer(0, 40))]
    assert got == [*range(40)]
    assert dispatcher.wanted() == 40
    got = [one for _, one, _ in dealt_by(dispatcher.offer(40, 60))]
    assert got == [*range(40, 55)]


def test_what_is_owed_is_told_without_a_change():
    """Owed are messages that consumers hold, that came back or weren't read; not settled ones."""
    dispatcher = Dispatcher(0)
    dispatcher.attach(1)
    dispatcher.credit(1, 4)
    dispatcher.offer(0, 10)
    dispatcher.settle(1, range(2), Outcome.ACCEPTED)
    dispatcher.settle(1, range(2, 3), Outcome.MODIFIED, failed=True)
    owed = {one: failures for run, failures in dispatcher.owed(8) for one in run}
    assert owed == {2: 1, 3: 0, 4: 0, 5: 0, 6: 0, 7: 0}
    assert (dispatcher.position, dispatcher.in_flight) == (4, 1)
