"""Counts of messages and their outcomes since the process began, for metrics.

Rule 1: a count never falls while its process lives.
Rule 2: memory and metrics are bounded: the first `series_max` subscriptions and topics have counts
        of their own, all others share one set. A subscription keeps its own counts until it ends.

Sizes are bytes, times seconds.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from distributary.pipeline.model.address import PREFIXES, Kind
from distributary.pipeline.model.outcome import Outcome

#: Name of the sum of all without counts of their own; no id or topic has this name.
OTHERS: Final = "(others)"
#: Name of the sum of those that end with a consumer or a connection: subscriptions without a name,
#: temporary destinations.
UNNAMED: Final = "(unnamed)"
_TEMPORARY: Final = (PREFIXES[Kind.TEMPORARY_TOPIC], PREFIXES[Kind.TEMPORARY_QUEUE])

#: Outcomes of messages that were given up; their bytes are counted.
GIVEN_UP: Final = frozenset({Outcome.DEAD_LETTERED, Outcome.EXPIRED})

#: Upper bounds of durations, in seconds: from a fast disk to a lost one.
SECONDS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
#: Upper bounds of numbers of messages.
MESSAGES: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000, 100_000)

#: Seconds that the longest turn of the loop is remembered: four of Prometheus' usual readings.
STALLS_SECONDS: Final = 60.0


class TopicCounts(msgspec.Struct, eq=False):
    """Durable messages that were published to a topic or queue; and `misfits`: messages that its
    schema didn't allow, by outcome (`rejected` or `dead_lettered`)."""

    messages: int = 0
    bytes: int = 0
    misfits: dict[Outcome, int] = msgspec.field(default_factory=dict)


class SubscriptionCounts(msgspec.Struct, eq=False):
    """Deliveries of a subscription, and their outcomes.

    `deliveries` counts each time that a message was sent, `redeliveries` those with a failed
    attempt before; `bytes` and `redelivered_bytes` are their bytes. `settled` counts outcomes by
    the rows of the log: a message that failed and is then given up has two. `given_up_bytes` are
    bytes of messages that expired or became dead letters, by that outcome. `name` is the name in
    metrics of the subscription, or of those that share these counts.
    """

    name: str
    deliveries: int = 0
    bytes: int = 0
    redeliveries: int = 0
    redelivered_bytes: int = 0
    settled: dict[Outcome, int] = msgspec.field(default_factory=dict)
    given_up_bytes: dict[Outcome, int] = msgspec.field(default_factory=dict)

    def delivered(self, messages: int, size: int, failed_before: int) -> None:
        """Count messages sent to a consumer, with `failed_before` failed attempts each."""
        self.deliveries += messages
        self.bytes += size
        if failed_before:
            self.redeliveries += messages
            self.redelivered_bytes += size

    def settle(self, outcome: Outcome, messages: int) -> None:
        """Count messages with this outcome."""
        self.settled[outcome] = self.settled.get(outcome, 0) + messages

    def give_up(self, outcome: Outcome, size: int) -> None:
        """Count the bytes of messages with an outcome of GIVEN_UP."""
        self.given_up_bytes[outcome] = self.given_up_bytes.get(outcome, 0) + size


class Histogram:
    """Counts of values by bounds. A bound is the highest value that counts there (Prometheus:
    `le`)."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        #: A count for each bound, and one for values above all bounds.
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def buckets(self) -> Iterator[tuple[str, int]]:
        """Yield each bound as Prometheus writes it, and the number of values not above it."""
        total = 0
        for bound, count in zip(
            (*map(str, map(float, self.bounds)), "+Inf"), self.counts, strict=True
        ):
            total += count
            yield bound, total


class Stalls:
    """Turns of the loop that took too long: their counts, and the longest recent one."""

    __slots__ = ("_before", "_began", "_longest", "seconds")

    def __init__(self) -> None:
        self.seconds = Histogram(SECONDS)
        self._began, self._longest, self._before = 0.0, 0.0, 0.0

    def observe(self, took: float, now: float) -> None:
        """Count a turn that took `took` seconds. `now` is of a clock that never goes back."""
        self.seconds.observe(took)
        self._turn(now)
        self._longest = max(self._longest, took)

    def longest(self, now: float) -> float:
        """Return the longest turn of the last STALLS_SECONDS, and of up to as many before them; 0
        without one. Calls don't change the result."""
        self._turn(now)
        return max(self._longest, self._before)

    def _turn(self, now: float) -> None:
        since = now - self._began
        if since >= STALLS_SECONDS:
            self._before = self._longest if since < 2 * STALLS_SECONDS else 0.0
            self._longest, self._began = 0.0, now


class MessageCounts:
    """The counts of one gateway. Each method that counts takes constant time."""

    def __init__(self, series_max: int, stalls: Stalls) -> None:
        """`series_max`: number of subscriptions, and of topics, with counts of their own. `stalls`:
        the loop's long turns, which the loop itself counts."""
        self._series_max = series_max
        self._topics: dict[str, TopicCounts] = {}
        self._subscriptions: dict[str, SubscriptionCounts] = {}
        self._other_topics = TopicCounts()
        self._other_subscriptions = SubscriptionCounts(OTHERS)
        self._unnamed_topics = TopicCounts()
        #: Of subscriptions without a name and of temporary queues, all together.
        self.unnamed = SubscriptionCounts(UNNAMED)
        self.accept_seconds = Histogram(SECONDS)
        self.group_messages = Histogram(MESSAGES)
        self.write_seconds = Histogram(SECONDS)
        self.commit_seconds = Histogram(SECONDS)
        self.commit_lag_seconds = Histogram(SECONDS)
        self.check_seconds = Histogram(SECONDS)
        self.stalls = stalls
        #: Steps of upkeep by their kind, and messages that retention took out of the table.
        self.upkeep_steps: dict[str, int] = {}
        #: Messages that stayed in memory; `published` doesn't count them.
        self.unwritten = 0
        self.retained_out = 0
        #: Messages that were rejected, as too many waited to be checked by their topics' schemas.
        self.unchecked = 0

    def published(self, topic: str, messages: int, size: int) -> None:
        """Count messages of a topic that became durable."""
        counts = self._of_topic(topic)
        counts.messages += messages
        counts.bytes += size

    def misfit(self, topic: str, outcome: Outcome, messages: int) -> None:
        """Count messages that the topic's schema doesn't allow, with their outcome."""
        misfits = self._of_topic(topic).misfits
        misfits[outcome] = misfits.get(outcome, 0) + messages

    def _of_topic(self, topic: str) -> TopicCounts:
        counts = self._topics.get(topic)
        if counts is None:
            if topic.startswith(_TEMPORARY):
                counts = self._unnamed_topics
            elif len(self._topics) < self._series_max:
                counts = self._topics[topic] = TopicCounts()
            else:
                counts = self._other_topics
        return counts

    def of_subscription(self, name: str, topic: str) -> SubscriptionCounts:
        """Return the counts of the subscription with this id on this topic, which begins, or begins
        again."""
        if topic.startswith(_TEMPORARY):
            return self.unnamed
        counts = self._subscriptions.get(name)
        if counts is None:
            if len(self._subscriptions) >= self._series_max:
                return self._other_subscriptions
            counts = self._subscriptions[name] = SubscriptionCounts(name)
        return counts

    def forget(self, name: str) -> None:
        """Drop the counts of an ended subscription; another one may have its place."""
        self._subscriptions.pop(name, None)

    def topics(self) -> Iterator[tuple[str, TopicCounts]]:
        """Yield the counts of all topics as of now, the shared sums last."""
        yield from tuple(self._topics.items())
        yield UNNAMED, self._unnamed_topics
        yield OTHERS, self._other_topics

    def subscriptions(self) -> Iterator[SubscriptionCounts]:
        """Yield the counts of all subscriptions as of now, the shared sums last."""
        yield from tuple(self._subscriptions.values())
        yield self.unnamed
        yield self._other_subscriptions
