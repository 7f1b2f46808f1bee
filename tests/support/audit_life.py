"""A random life of a log whose deliveries are the real dispatcher's: sound by what it promises."""

import random
from array import array
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from spark_log import LogWriter, encoded

from distributary.pipeline.dispatch.dispatcher import Dispatcher
from distributary.pipeline.dispatch.effects import NOBODY, DeadLetter, Deliver, Settled
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.policy import Policy
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet

CARRIERS = ("UA", "DL", "AA")
#: What subscriptions claim, and the topics of each.
CLAIMED = {
    "flights": ("flights",),
    "weather": ("weather",),
    "pattern://*": ("flights", "weather"),
    "pattern://weather.#": ("weather",),
}
POLICY = Policy(delivery_attempts_max=3)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OUTCOMES = (
    *((Outcome.ACCEPTED, False, False),) * 5,
    (Outcome.RELEASED, False, False),
    (Outcome.REJECTED, False, False),
    (Outcome.MODIFIED, True, False),
    (Outcome.MODIFIED, False, True),
)


@dataclass
class Subscriber:
    """A subscription, its dispatcher, and what a start after a crash would know of it."""

    id: str
    topic: str
    carrier: str | None
    dispatcher: Dispatcher
    floor: int
    final: set[int] = field(default_factory=set)
    failures: dict[int, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    held: dict[tuple[int, int], int] = field(default_factory=dict)  #: -> when it was delivered
    excluded: set[int] = field(default_factory=set)
    reach: int = 0  #: the mark that outlives the process: nothing from here on was delivered

    @property
    def selector(self) -> str | None:
        return None if self.carrier is None else f"carrier = '{self.carrier}'"


class Life:
    """Steps by lot; a group for each, six seconds long."""

    def __init__(self, log: LogWriter, seed: int) -> None:
        self.log, self.random = log, random.Random(seed)
        self.published: dict[str, list[tuple[int, str, int]]] = {"flights": [], "weather": []}
        self.living: list[Subscriber] = []
        self.us = 0
        self.log.next_group()
        for nth, (topic, carrier) in enumerate(
            [
                *(("flights", None), ("flights", "UA"), ("weather", None), ("weather", "DL")),
                *(("pattern://*", None), ("pattern://*", "AA"), ("pattern://weather.#", "DL")),
            ]
        ):
            one = Subscriber(f"global/s{nth}", topic, carrier, self._made(0), 0)
            self._event(one, "created", 0)
            self.living.append(one)
            for consumer in (1, 2, 3):
                self._attach(one, consumer)

    def live(self, groups: int) -> None:
        steps = (
            *(self._publish,) * 4,
            *(self._settle,) * 6,
            *(self._lose, self._rewind, self._kill, self._leave_out),
        )
        for _ in range(groups):
            self.log.next_group()
            self.us = 0
            self.random.choice(steps)()
        self.log.commit()

    @property
    def now(self) -> int:
        """Microseconds; later at each look."""
        self.us += 1_000
        return round((self.log.now - EPOCH) / timedelta(microseconds=1)) - 6_000_000 + self.us

    def _made(self, position: int, one: Subscriber | None = None) -> Dispatcher:
        if one is None:
            return Dispatcher(position, policy=POLICY, dead_letters=True)
        settled = SequenceSet(range(s, s + 1) for s in sorted(one.final) if s >= position)
        owed = {s: n for s, n in one.failures.items() if s >= position and s not in one.final}
        return Dispatcher(
            position,
            settled,
            attempts=Attempts(owed, max(one.reach, position)),
            policy=POLICY,
            dead_letters=True,
        )

    def _attach(self, one: Subscriber, consumer: int) -> None:
        one.names[consumer] = f"worker-{consumer}/{one.id}"
        one.dispatcher.attach(consumer)
        one.dispatcher.credit(consumer, self.random.choice((1, 3, 10, 100)))

    def _event(self, one: Subscriber, event: str, floor: int) -> None:
        self.log.subscribe(one.id, one.topic, event=event, floor=floor, selector=one.selector)

    def _publish(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            topic = self.random.choice(sorted(self.published))
            self._publish_to(topic)
        self._serve()

    def _publish_to(self, topic: str) -> None:
        for _ in range(self.random.randint(1, 12)):
            carrier = self.random.choice(CARRIERS)
            priority = 9 if self.random.random() < 0.1 else 4
            message = encoded(properties={"carrier": carrier}, priority=priority)
            [sequence] = self.log.publish(topic, message, priority=priority)
            self.published[topic].append((sequence, carrier, priority))

    def _serve(self) -> None:
        for one in self.living:
            while True:
                wanted = one.dispatcher.wanted(self.log.sequence)
                if wanted is None or not self._offer(one, wanted):
                    break

    def _offer(self, one: Subscriber, wanted: int) -> bool:
        """Whether something became of it."""
        mine = sorted(
            (sequence, priority)
            for topic in CLAIMED[one.topic]
            for sequence, carrier, priority in self.published[topic]
            if sequence >= wanted and one.carrier in (None, carrier)
        )
        if not mine:
            one.dispatcher.skip_to(self.log.sequence)
            return True
        sequences = array("q", [sequence for sequence, _ in mine])
        attributes = HeaderAttributes(sequences[0], sequences, priority=bytes(p for _, p in mine))
        now = self.now
        effects = one.dispatcher.offer(
            sequences[0],
            self.log.sequence,
            sequences,
            now=now,
            attributes=None if set(attributes.priority) == {4} else attributes,
        )
        for effect in effects:
            if isinstance(effect, Deliver):
                for sequence in effect.run:
                    one.held[effect.consumer, sequence] = now
            else:
                self._record(one, effect, now, now)
        return bool(effects)

    def _settle(self) -> None:
        for one in self.living:
            for consumer in sorted(one.names):
                mine = sorted(s for c, s in one.held if c == consumer)
                some = [s for s in mine if self.random.random() < 0.6]
                self._settle_some(one, consumer, some)
                one.dispatcher.credit(consumer, self.random.choice((0, 1, 3, 10, 100)))
        self._serve()

    def _settle_some(self, one: Subscriber, consumer: int, some: list[int]) -> None:
        for sequence in some:
            outcome, failed, undeliverable = self.random.choice(OUTCOMES)
            delivered = one.held.pop((consumer, sequence))
            now = self.now
            effects = one.dispatcher.settle(
                consumer,
                range(sequence, sequence + 1),
                outcome,
                failed=failed,
                undeliverable=undeliverable,
                now=now,
                delivered_at=delivered,
            )
            for effect in effects:
                self._record(one, effect, delivered, now)

    def _record(
        self, one: Subscriber, effect: Settled | DeadLetter, delivered: int, now: int
    ) -> None:
        if isinstance(effect, DeadLetter):
            self.log.publish("queue://DLQ." + one.id, *[encoded() for _ in effect.run])
            for settled in one.dispatcher.dead_lettered(effect.run):
                consumer = one.names.get(effect.consumer, "")
                self._write(one, settled.run, settled, consumer, delivered, now)
            return
        consumer = "" if effect.consumer == NOBODY else one.names[effect.consumer]
        self._write(one, effect.run, effect, consumer, delivered, now)

    def _write(
        self, one: Subscriber, run: Run, said: Settled, consumer: str, delivered: int, now: int
    ) -> None:
        self.log.settle(
            one.id,
            one.topic,
            list(run),
            one.dispatcher.floor,
            outcome=said.outcome.value,
            final=said.final,
            consumer=consumer,
            delivery_count=said.delivery_count,
            delivered_at=EPOCH + timedelta(microseconds=delivered),
            settled_at=EPOCH + timedelta(microseconds=now),
        )
        if said.final:
            one.final.update(run)
        failures = said.delivery_count + (said.outcome is Outcome.MODIFIED)
        if failures and not said.final:
            for sequence in run:
                one.failures[sequence] = max(failures, one.failures.get(sequence, 0))

    def _lose(self) -> None:
        """A consumer's connection ends; it comes again under its name."""
        one = self.random.choice(self.living)
        consumer = self.random.choice(sorted(one.names))
        now = self.now
        for settled in one.dispatcher.detach(consumer, lost=self.random.random() < 0.5):
            self._record(one, settled, now, now)
        one.held = {key: at for key, at in one.held.items() if key[0] != consumer}
        self._attach(one, consumer)
        self._serve()

    def _rewind(self) -> None:
        one = self.random.choice(self.living)
        floor = self.random.randint(0, self.log.sequence)
        one.dispatcher.rewind(floor)
        one.held.clear()
        one.final.clear()
        one.failures.clear()
        one.reach = 0
        self._event(one, "rewound", floor)
        one.floor = floor

    def _kill(self) -> None:
        """The process dies: of what consumers held nothing is recorded; they come again."""
        for one in self.living:
            one.reach = max(one.reach, one.dispatcher.reach)
            one.dispatcher = self._made(one.dispatcher.floor, one)
            one.held.clear()
            for consumer in sorted(one.names):
                self._attach(one, consumer)
        self._serve()

    def _leave_out(self) -> None:
        """A no-local subscription isn't owed the messages of its own container."""
        one = self.random.choice(self.living)
        if one.dispatcher.position < self.log.sequence:
            self._serve()
            return
        first = self.log.sequence
        self._publish_to(CLAIMED[one.topic][0])
        left = range(first, self.log.sequence)
        one.dispatcher.exclude(left)
        self.log.settle(
            one.id, one.topic, list(left), one.dispatcher.floor, outcome="local", final=True
        )
        one.final.update(left)
        self._serve()
