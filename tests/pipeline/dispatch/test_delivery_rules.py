"""The dispatcher with every policy and every kind of message, over random histories, against a
plain model (`delivery_model`): what happens may happen, and nothing waits that could go.

Histories are long and weighted by hand: a machine that draws its rules evenly rarely comes to where
two features meet. A failure names its seed; `LOUD=1` prints the steps.
"""

import os
from array import array
from bisect import bisect_left
from collections import Counter
from random import Random

import pytest
from cursor_model import fold
from delivery_model import Message, Model
from msgspec import structs
from msgspec.structs import replace

from distributary.pipeline.dispatch.dispatcher import Deliver, Dispatcher
from distributary.pipeline.dispatch.effects import NOBODY, DeadLetter, Settled
from distributary.pipeline.dispatch.priority_index import PriorityIndex
from distributary.pipeline.dispatch.ready import GRAIN_US
from distributary.pipeline.log.failures import Failures, PossiblyDelivered
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.policy import DEFAULT, Backlog, Overflow
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.sequences.sequence_set import SequenceSet

SECOND = 1_000_000
COLOURS = ["red", "blue"]
HISTORIES = 120
#: `make soak` lives through others each time.
SEEDS = range(HISTORIES)
if soaked := int(os.environ.get("HISTORIES_SEED", "0")):
    SEEDS = range(soaked * 1_000, soaked * 1_000 + 10 * HISTORIES)
STEPS = 150

#: What a policy may say; one of each is drawn.
POLICIES = {
    "delivery_attempts_max": [0, 1, 2, 3],
    "redelivery_delay_ms": [0, 0, 2_000],
    "redelivery_multiplier": [1.0, 2.0],
    "redelivery_delay_ms_max": [5_000],
    "lost_consumer_counts": [False, False, True],
    "dead_letter": [True, True, False],
    "dead_letter_expired": [True, False],
    "single_active": [False, False, False, True],
    "message_groups": [True, True, False],
    "lock_ms": [0, 0, 3_000],
    "backlog": [Backlog(), Backlog(overflow=Overflow.DEAD_LETTER)],
}
#: What a message may be; times are seconds from now.
KINDS = {
    "priority": [4, 4, 4, 4, 0, 2, 7, 9],
    "expires_at": [0, 0, 0, 0, 2, 3, 8],
    "deliver_at": [0, 0, 0, 0, 2, 6],
    "group": [0, 0, 1, 2, 3],
    "colours": [frozenset(), frozenset(COLOURS[:1]), frozenset(COLOURS[1:]), frozenset(COLOURS)],
}
#: outcome, failed, undeliverable
DELIVERY_STATES = [
    (Outcome.ACCEPTED, False, False),
    (Outcome.ACCEPTED, False, False),
    (Outcome.RELEASED, False, False),
    (Outcome.MODIFIED, True, False),
    (Outcome.MODIFIED, True, False),
    (Outcome.REJECTED, False, False),
    (Outcome.MODIFIED, True, True),
]
#: Step -> how often it comes.
WEIGHTS = {
    "publish": 12,
    "attach": 6,
    "credit": 14,
    "serve": 30,
    "settle": 16,
    "settle_late": 2,
    "claim": 2,
    "detach": 3,
    "time_passes": 6,
    "sweep": 2,
    "overflow": 1,
    "dead_letter": 3,
    "pause": 1,
    "floor_is_honest": 4,
    "rewind": 1,
    "crash": 1,
}


class History:
    """One subscription, and what happens to it."""

    def __init__(self, seed):
        self.random = Random(seed)
        self.loud = "LOUD" in os.environ
        pick = self.random.choice
        policy = replace(DEFAULT, **{name: pick(values) for name, values in POLICIES.items()})
        dead_letters = pick([True, True, False])
        #: What of messages is not plain here: of all kinds at once, or of few.
        self.kinds = [name for name in KINDS if pick([True, True, False])]
        self.selective = pick([True, False])
        self.claims_some = pick([True, False, False])
        self.now, self.head, self.numbers, self.trimmed = SECOND, 0, 0, 0
        self.model = Model(policy, dead_letters=dead_letters)
        self.priority_index = PriorityIndex()
        self.real = Dispatcher(
            0, policy=policy, priority_index=self.priority_index, dead_letters=dead_letters
        )
        #: What the log has: final runs, the last floor, failures as a fold of it reads them.
        self.final_runs, self.floor, self.known, self.crashed = [], 0, {}, False
        self.lost = set()

    def go(self):
        names, weights = list(WEIGHTS), list(WEIGHTS.values())
        for name in self.random.choices(names, weights, k=STEPS):
            self.say(name)
            getattr(self, name)()
            self.each_is_in_its_place()
        self.end()

    def say(self, *words):
        if self.loud:
            print(self.now / SECOND, *words)  # noqa: T201

    def kind(self):
        fields = {name: self.random.choice(KINDS[name]) for name in self.kinds}
        for name in ("expires_at", "deliver_at"):
            if fields.get(name):
                fields[name] = self.now + fields[name] * SECOND
        return fields

    def topic(self):
        return sorted(self.model.messages)

    def publish(self):
        """Messages of all kinds become durable, then some of other topics."""
        new = [Message(self.head + nth, **self.kind()) for nth in range(self.random.randint(1, 8))]
        self.say(*new)
        self.priority_index.add(self.head, self.head + len(new), self.attributes(new, dense=True))
        self.head += len(new) + self.random.choice([0, 0, 1, 2])
        #: Some topics have messages that this subscription doesn't claim.
        claimed = [one for one in new if not self.claims_some or self.random.random() < 0.7]
        self.model.messages |= {one.sequence: one for one in claimed}

    def attach(self):
        if len(self.model.consumers) < 4:
            self.numbers += 1
            priority = self.random.choice([0, 0, 0, 5])
            selector = self.random.choice([None, None, *COLOURS]) if self.selective else None
            self.say(self.numbers, priority, selector)
            self.real.attach(self.numbers, priority=priority, selector=selector)
            self.model.attach(self.numbers, priority, selector)

    def some_consumer(self):
        return self.random.choice([*self.model.consumers]) if self.model.consumers else None

    def credit(self):
        consumer = self.some_consumer()
        if consumer is not None:
            credit = self.random.choice([0, 1, 2, 3, 5, 100])
            self.say(consumer, credit)
            self.real.credit(consumer, credit)
            self.model.consumers[consumer].credit = credit

    def serve(self, steps=None):
        """The caller offers what is wanted, step by step or until there is nothing more."""
        steps = steps or self.random.choice([1, 2, 1000, 1000])
        size, listed = self.random.randint(1, 9), self.random.choice([True, False])
        got = {consumer: [] for consumer in self.model.consumers}
        stuck = None
        for _ in range(steps):
            wanted = self.real.wanted(self.head)
            if wanted is None:
                self.model.idle(self.now)
                break
            assert wanted != stuck, f"nothing becomes of {wanted}"
            effects = self.offer(wanted, size, listed=listed)
            stuck = None if effects else wanted
            self.say(wanted, *effects)
            for effect in effects:
                if isinstance(effect, Deliver):
                    assert effect.run[-1] < self.real.reach
                    got[effect.consumer] += [self.model.messages[one] for one in effect.run]
        else:
            assert steps < 1000, "it wants the same again and again"
        for messages in got.values():
            assert messages == sorted(messages, key=lambda one: one.order)
            self.nothing_better_was_left(messages)

    def offer(self, wanted, size, *, listed):
        topic = self.topic()
        at = bisect_left(topic, wanted)
        if at == len(topic):
            self.real.skip_to(self.head)
            return []
        batch = topic[max(at - size // 3, 0) : at + size]
        if not listed:  # a stretch without gaps
            batch = [one for one in batch if self.gapless(one, topic[at])]
        sequences = array("q", batch) if listed else None
        plain = all(self.model.messages[one].priority == 4 for one in batch)
        attributes = self.attributes([self.model.messages[one] for one in batch], dense=not listed)
        if plain and not (attributes.expires_at or attributes.deliver_at or attributes.groups):
            attributes = None
        matches = {
            selector: array("q", [o for o in batch if selector in self.model.messages[o].colours])
            for selector in self.real.selectors
        }
        effects = self.real.offer(
            batch[0], batch[-1] + 1, sequences, now=self.now, attributes=attributes, matches=matches
        )
        self.record(effects)
        self.model.offered(effects, self.now)
        return effects

    def gapless(self, one, other):
        """Whether all between these are messages of this topic."""
        return all(between in self.model.messages for between in range(*sorted((one, other))))

    def nothing_better_was_left(self, messages):
        """No message that a consumer could have had comes before one that it got."""
        for got in messages[-1:]:
            for left in self.model.at("owed"):
                entry = self.model.consumers[got.holder]
                credit, entry.credit = entry.credit, 1
                assert left.order > got.order or not self.model.may_have(
                    got.holder, left, self.now
                ), (got, left)
                entry.credit = credit

    def attributes(self, messages, *, dense):
        def column(code, values, usual=0):
            return b"" if set(values) == {usual} else array(code, values).tobytes()

        grouped = self.model.policy.message_groups
        return HeaderAttributes(
            messages[0].sequence,
            None if dense else array("q", [one.sequence for one in messages]),
            column("B", [one.priority for one in messages], 4),
            column("q", [one.expires_at for one in messages]),
            column("q", [one.deliver_at for one in messages]),
            column("Q", [one.group * grouped for one in messages]),
        )

    def settle(self):
        """Some of what a consumer holds, and of what it doesn't hold any more."""
        if not self.model.at("held"):
            return
        consumer = self.random.choice(self.model.at("held")).holder
        held = {one.sequence for one in self.model.held_by(consumer)}
        known = sorted(held | self.model.consumers[consumer].lost.keys())
        some = self.random.sample(known, self.random.randint(1, min(len(known), 6)))
        run = array("q", sorted(some))
        delivery_state = outcome, failed, undeliverable = self.random.choice(DELIVERY_STATES)
        self.say(consumer, list(run), *delivery_state)
        effects = self.real.settle(
            consumer, run, outcome, failed=failed, undeliverable=undeliverable, now=self.now
        )
        self.record(effects)
        for one in set(run) - held:
            del self.model.consumers[consumer].lost[one]
        ended = [self.model.messages[one] for one in run if one in held]
        self.check_ended(effects, consumer, ended, delivery_state)

    def settle_late(self):
        """An outcome of a delivery that ended without one changes nothing, even if the consumer was
        given the message again."""
        for consumer, entry in self.model.consumers.items():
            if entry.lost:
                one, delivered_at = self.random.choice(sorted(entry.lost.items()))
                run, outcome = range(one, one + 1), Outcome.ACCEPTED
                self.say(consumer, one, delivered_at)
                assert not self.real.settle(consumer, run, outcome, delivered_at=delivered_at)
                del entry.lost[one]

    def claim(self):
        """A consumer gets all messages that it names and no other one has, regardless of its turn,
        selector and group, and of their times."""
        consumer = self.some_consumer()
        if consumer is None:
            return
        some = sorted(self.random.sample(self.topic(), min(len(self.topic()), 5)))
        self.say(consumer, some)
        effects = self.real.reacquire(consumer, array("q", some), self.now)
        self.record(effects)
        said = {one: effect for effect in effects for one in effect.run}
        owed = [one for one in map(self.model.messages.get, some) if one.place == "owed"]
        assert sorted(said) == [one.sequence for one in owed]
        for message in owed:
            effect = said[message.sequence]
            assert (effect.consumer, effect.delivery_count) == (consumer, message.told)
            self.model.hold(consumer, message, self.now)

    def check_ended(self, effects, consumer, ended, delivery_state):
        """The effects are what this verdict means for each of these, once, and no more."""
        outcome, failed, undeliverable = delivery_state
        said = {}
        for effect in effects:
            assert effect.consumer == consumer
            for one in effect.run:
                said.setdefault(one, []).append(effect)
        assert said.keys() == {one.sequence for one in ended}
        for message in ended:
            own = said[message.sequence]
            if outcome is Outcome.REJECTED or undeliverable:
                assert len(own) == 1
                reason = Reason.UNDELIVERABLE if undeliverable else Reason.REJECTED
                self.model.check_given_up(own[0], message, reason, consumer)
            elif failed:
                self.check_failed(own, message)
            else:
                assert len(own) == 1
                final = outcome is Outcome.ACCEPTED
                message.place = "gone" if final else "owed"
                count = message.recorded
                assert own[0] == structs.replace(
                    own[0], outcome=outcome, final=final, delivery_count=count
                )

    def check_failed(self, own, message):
        before = message.recorded
        self.model.fail(message, self.delayed_until(before + 1))
        assert isinstance(own[0], Settled)
        assert (own[0].outcome, own[0].delivery_count) == (Outcome.MODIFIED, before)
        assert own[0].final == (message.place == "gone")
        if message.place == "dead_lettered":
            assert isinstance(own[1], DeadLetter)
            assert (own[1].reason, own[1].delivery_count) == (Reason.EXHAUSTED, before + 1)
        assert len(own) == 1 + (message.place == "dead_lettered")

    def delayed_until(self, failures):
        policy = self.model.policy
        if not policy.redelivery_delay_ms:
            return 0
        delay = policy.redelivery_delay_ms * policy.redelivery_multiplier ** (failures - 1)
        return self.now + min(delay, policy.redelivery_delay_ms_max) * 1_000

    def detach(self):
        consumer = self.some_consumer()
        if consumer is None:
            return
        lost = self.random.random() < 0.5
        held = self.model.held_by(consumer)
        effects = self.real.detach(consumer, lost=lost, now=self.now)
        self.record(effects)
        if lost and self.model.policy.lost_consumer_counts:
            self.check_ended(effects, consumer, held, (Outcome.MODIFIED, True, False))
            self.model.detach(consumer)
            return
        said = sorted(one for effect in effects for one in effect.run)
        assert said == [one.sequence for one in held]
        for effect in effects:
            outcome = Outcome.LOST if lost else Outcome.RELEASED
            assert (effect.outcome, effect.final) == (outcome, False)
            for one in effect.run:
                assert effect.delivery_count == self.model.messages[one].recorded
        (self.model.lose if lost else self.model.detach)(consumer)

    def time_passes(self, seconds=None):
        """The caller wakes it when it said, at the latest."""
        seconds = self.random.randint(0, 4) if seconds is None else seconds
        until = self.now + seconds * SECOND
        while (due := self.real.next_due) is not None and due <= until:
            self.now = max(self.now, due)
            self.wake()
        self.now = until

    def wake(self):
        """Locks have ended just when their time has come, as failures; delays have no effect."""
        lock = self.model.policy.lock_ms * 1_000
        ended = [one for one in self.model.at("held") if lock and one.since + lock <= self.now]
        effects = self.real.wake(self.now)
        self.record(effects)
        for consumer in {one.holder for one in ended}:
            own = [one for one in ended if one.holder == consumer]
            self.model.consumers[consumer].lost |= {one.sequence: one.since for one in own}
            theirs = [effect for effect in effects if effect.consumer == consumer]
            self.check_ended(theirs, consumer, own, (Outcome.MODIFIED, True, False))
        assert {effect.consumer for effect in effects} == {one.holder for one in ended}

    def sweep(self):
        """Expired messages are given up, wherever they wait."""
        late = [one for one in self.model.at("owed") if one.expired(self.now)]
        self.give_up(late, Reason.EXPIRED)

    def overflow(self):
        """The oldest are dropped."""
        few = self.random.randint(1, 3)
        self.give_up(self.model.at("owed", "held")[:few], Reason.OVERFLOW)

    def give_up(self, messages, reason):
        run = array("q", [one.sequence for one in messages])
        effects = self.real.give_up(run, reason)
        self.record(effects)
        said = {one: effect for effect in effects for one in effect.run}
        owed = [one for one in messages if one.place == "owed"]
        assert sorted(said) == [one.sequence for one in owed]
        for message in owed:
            self.model.check_given_up(said[message.sequence], message, reason, NOBODY)

    def dead_letter(self):
        """Copies of some are kept; others that are said, too, change nothing."""
        given_up = [one.sequence for one in self.model.at("dead_lettered")]
        if not given_up:
            return
        some = {*self.random.sample(self.topic(), 1), *given_up[: self.random.randint(1, 5)]}
        effects = self.real.dead_lettered(array("q", sorted(some)))
        self.record(effects)
        kept = sorted(some & set(given_up))
        assert sorted(one for effect in effects for one in effect.run) == kept
        for effect in effects:
            assert (effect.outcome, effect.final) == (Outcome.DEAD_LETTERED, True)
            for one in effect.run:
                assert effect.delivery_count == self.model.messages[one].recorded
                self.model.messages[one].place = "gone"

    def pause(self):
        """While it is paused nothing is wanted and nothing goes."""
        self.real.paused = True
        assert self.real.wanted(self.head) is None
        assert self.real.offer(0, self.head, now=self.now) == []
        self.real.paused = False

    def floor_is_honest(self):
        """All that is owed lies at or above the floor; the priority index may forget what is
        below."""
        left = [one.sequence for one in self.model.at("owed", "held", "dead_lettered")]
        assert self.real.floor <= min(left, default=self.head)
        if self.random.choice([True, False]):
            self.trimmed = self.real.floor
            self.priority_index.trim(self.trimmed)

    def rewind(self):
        """It begins again somewhere; consumers keep their credit, and what they held is lost.

        Where the priority index has forgotten what was there, old messages go in the order of
        reading."""
        known = [one for one in self.topic() if one >= self.trimmed]
        position = self.random.choice([*known, self.head])
        self.now += GRAIN_US
        for message in self.model.messages.values():
            if message.place == "held":
                self.model.consumers[message.holder].lost[message.sequence] = message.since
            message.place = "owed" if message.sequence >= position else "gone"
            message.failures = message.uncertain = message.due = 0
            message.grouped = message.lost = False
        self.model.owners.clear()
        self.real.rewind(position)
        self.final_runs, self.floor, self.known = [], position, {}
        self.lost = set()
        assert (self.real.position, self.real.floor) == (position, position)
        assert self.real.outstanding == 0
        self.now += GRAIN_US

    def record(self, effects):
        """Record the parts of these effects that go to the log."""
        self.say(*effects)
        settled = [one for one in effects if isinstance(one, Settled)]
        for one in settled:
            if one.outcome is Outcome.LOST:
                self.lost.update(one.run)
            if one.final:
                self.final_runs.append(one.run)
            elif count := one.delivery_count + (one.outcome is Outcome.MODIFIED):
                self.known |= dict.fromkeys(one.run, Failures(count, 0))
        if settled:
            self.floor = self.real.floor

    def crash(self):
        """The process dies, once: what the log has is enough for the same answer. What was given up
        and has no copy is owed again; if it had failed too often it is given up again."""
        if self.crashed:
            return
        self.crashed, reach = True, self.real.reach
        cursor = fold(self.final_runs, self.floor)
        for one in self.model.messages.values():
            assert (one.sequence in cursor) == (one.place == "gone")
        possible = PossiblyDelivered().after_crash(reach, 1, floor=cursor.floor)
        owed = {one: known for one, known in self.known.items() if one not in cursor}
        self.real = Dispatcher(
            cursor.floor,
            SequenceSet(cursor.settled),
            attempts=Attempts(
                possible.failures(owed),
                possible.below,
                SequenceSet(range(one, one + 1) for one in self.lost if one not in cursor),
            ),
            policy=self.model.policy,
            priority_index=self.priority_index,
            dead_letters=self.model.dead_letters,
        )
        self.model.crash(possible.below)

    def each_is_in_its_place(self):
        for consumer in self.model.consumers:
            held = [one for run in self.real.unsettled(consumer).runs() for one in run]
            assert held == sorted(one.sequence for one in self.model.held_by(consumer))
        places = self.real.report.places()
        outstanding = sequences_of(self.real.owed(self.real.position))
        apart = Counter(one for place in places for run in place.runs() for one in run)
        assert apart == outstanding
        assert len(outstanding) == outstanding.total() == self.real.outstanding
        owed = sequences_of(self.real.owed(self.head))
        assert len(owed) == owed.total()  # none is outstanding and unread
        assert {one.sequence for one in self.model.at("owed")} <= owed.keys()
        assert owed.keys().isdisjoint(one.sequence for one in self.model.at("gone"))

    def end(self):
        """In the end a consumer that takes all gets all owed messages, and the floor comes to the
        head."""
        for consumer in list(self.model.consumers):
            self.real.detach(consumer)
            self.model.detach(consumer)
        self.numbers += 1
        self.real.attach(self.numbers)
        self.model.attach(self.numbers, 0, None)
        for _ in range(20):
            self.time_passes(10)
            self.real.credit(self.numbers, 1000)
            self.model.consumers[self.numbers].credit = 1000
            self.serve(1000)
            self.give_up(
                [one for one in self.model.at("owed") if one.expired(self.now)], Reason.EXPIRED
            )
            held = array("q", [one.sequence for one in self.model.at("held")])
            self.real.settle(self.numbers, held, Outcome.ACCEPTED)
            for one in held:
                self.model.messages[one].place = "gone"
            self.real.dead_lettered(array("q", self.topic()))
            for one in self.model.at("dead_lettered"):
                one.place = "gone"
        assert not self.model.at("owed", "held", "dead_lettered")
        self.real.skip_to(self.head)
        assert (self.real.floor, self.real.outstanding) == (self.head, 0)
        assert not self.real.report.remembered


def sequences_of(owed):
    """How often each sequence is in these runs."""
    return Counter(one for run, _ in owed for one in run)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history(seed):
    """All rules of the model hold at each step, for any steps in any order."""
    History(seed).go()
