"""Published messages on their way to the log: duplicates aren't written again, and messages to a
full backlog are refused.
"""

from array import array
from collections.abc import Sequence

import msgspec

from distributary.ingest.commit.batches import parts_without
from distributary.ingest.commit.group_log import Log, Receipt
from distributary.ingest.commit.pending_group import Former
from distributary.ingest.native import pump
from distributary.ingest.native.runs import Received
from distributary.ingest.net.link import Link
from distributary.ingest.publish import relay
from distributary.ingest.publish.backlog_limits import Backlogs
from distributary.ingest.publish.memory_intake import MemoryIntake
from distributary.ingest.publish.relay import (
    Admit,
    Goal,
    Goals,
    Routed,
    RoutedRun,
    Stored,
    Unrouted,
)
from distributary.ingest.publish.routes import Routes
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.policies import Policies
from distributary.pipeline.log.duplicates import Windows
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.message import PublishBatch
from distributary.pipeline.model.policy import Route, TopicPolicy


class Posted(msgspec.Struct, frozen=True, eq=False):
    """Messages of one topic that wait for the commit of their transaction. `ids` are theirs if the
    topic looks for duplicates. `unrouted` is as it was when they came."""

    routed: RoutedRun
    ids: list[bytes]
    unrouted: Unrouted

    @property
    def run(self) -> PublishBatch:
        return self.routed.run

    def expired(self, now: int) -> bool:
        """Whether any of them has expired at this time (microseconds)."""
        times = memoryview(self.run.expires_at).cast("B").cast("q")
        return any(0 < at <= now for at in times)


class Intake:
    """Takes runs of messages from links. `ids_max` is the most ids that are remembered."""

    def __init__(
        self,
        log: Log,
        policies: Policies,
        backlogs: Backlogs,
        routes: Routes,
        memory: MemoryIntake,
        ids_max: int,
    ) -> None:
        self._log, self._policies, self._backlogs = log, policies, backlogs
        self._routes, self._memory, self._streams = routes, memory, memory.streams
        #: The ids of published messages.
        self.windows = Windows(ids_max)
        policies.follow(self._forget_unsought)

    def routes_of(self, topic: str) -> Sequence[Route]:
        """Return the routes of messages to this topic."""
        return self._policies.of_topic(topic).routes

    def take(self, link: Link, received: Received, topic: str) -> None:
        """Take received messages to one topic."""
        if self._backlogs.refuses:
            self.take_to(link, received, [(topic, received.count)], {})
            return
        receipt = Receipt(link, received.deliveries, received.unsettled, received.count)
        self._publish(received, RoutedRun(received.run(topic), 0), receipt, {})

    def take_to(self, link: Link, received: Received, goals: Goals, unrouted: Unrouted) -> None:
        """Take received messages to their goals; those of `unrouted` aren't routed further."""
        receipt = Receipt(link, received.deliveries, received.unsettled, received.count)
        admit: Admit = _all
        if self._backlogs.refuses:
            goals, admit = self.but_stored(received, goals), self._backlogs.admit
        routed = relay.routed(received, receipt, goals, admit)
        relay.accept(link, routed.at_once)
        for one in routed.runs:
            # It may have been deleted while a schema checked the messages.
            self._routes.ensure_of(one.run.topic)
        # A run in memory is answered at once: the receipt of the whole goes with the last run only
        # if nothing before it waits for the log.
        none, waits = Receipt(link, b"", 0, 0), any(isinstance(goal, Stored) for goal, _ in goals)
        for one in routed.runs[:-1]:
            waits |= self._publish(received, one, none, unrouted)
        for last in routed.runs[-1:]:
            self._publish(received, last, none if waits else routed.receipt, unrouted)
        if waits or not routed.runs:
            self._log.acknowledge(routed.receipt)
        self._backlogs.published()
        for complaint in routed.complaints:
            relay.reject(link, complaint)

    def but_stored(self, received: Received, goals: Goals) -> Goals:
        """Return the same goals, but for duplicates of stored messages: those go nowhere, in a
        transaction or not, and neither a full backlog nor a schema refuses them."""
        others: dict[int, Goal] = {}
        stop = 0
        for goal, count in goals:
            start, stop = stop, stop + count
            if isinstance(goal, str) and self._seeks(goal):
                found = ids(received, start, stop)
                others |= {start + place: Stored() for place in self._known(goal, found)}
        return relay.but(goals, others) if others else goals

    def post(
        self, link: Link, received: Received, goals: Goals, unrouted: Unrouted
    ) -> tuple[list[Posted], Routed]:
        """Take messages of a transaction: return those to publish at its commit, and the routes of
        all of them. The commit checks whether there is room for them."""
        receipt = Receipt(link, received.deliveries, received.unsettled, received.count)
        routed = relay.routed(received, receipt, goals, _all)
        posted: list[Posted] = []
        for one in routed.runs:
            start, stop = one.start, one.start + one.run.count
            found = ids(received, start, stop) if self._seeks(one.run.topic) else []
            posted.append(Posted(one, found, unrouted))
        return posted, routed

    def full(self, posted: Sequence[Posted], *, publishes: bool) -> AmqpError | None:
        """Return why these messages can't all be published together; None if they can. Duplicates
        take no room. Room is kept only if they can, and the caller `publishes` them now."""
        if not self._backlogs.refuses:
            return None
        lengths: dict[str, bytes] = {}
        found: set[tuple[str, bytes]] = set()
        for one in posted:
            topic, sizes = one.run.topic, bytes(one.run.lengths)
            if one.ids:
                sizes = self._lengths_of_new(one, sizes, found)
            lengths[topic] = lengths.get(topic, b"") + sizes
        answers = [self._backlogs.admit(topic, sizes) for topic, sizes in lengths.items()]
        amqp_error = next((amqp_error for _, amqp_error in answers if amqp_error is not None), None)
        if amqp_error is not None or not publishes:
            self._backlogs.published()  # none is published: give their room back
        return amqp_error

    def publish(self, posted: Sequence[Posted], receipt: Receipt) -> None:
        """Write a committed transaction's messages to one group, with the settlements given just
        before, and without duplicates. A queue that was deleted meanwhile is made again."""
        self._log.publish_together(self._new(posted), receipt)
        self._backlogs.published()

    def publish_prepared(self, posted: Sequence[Posted], publisher: Former) -> None:
        """Publish as `publish` does, for a prepared transaction."""
        self._log.write(self._new(posted), [], publisher)
        self._backlogs.published()

    def _lengths_of_new(
        self, posted: Posted, lengths: bytes, found: set[tuple[str, bytes]]
    ) -> bytes:
        """The lengths of those messages that are no duplicates: of stored messages, or of `found`
        ones, to which the others are added."""
        topic = posted.run.topic
        stored, new = frozenset(self._known(topic, posted.ids)), array("I")
        for place, (one, length) in enumerate(zip(posted.ids, array("I", lengths), strict=True)):
            if place not in stored and (topic, one) not in found:
                new.append(length)
                if one:
                    found.add((topic, one))
        return new.tobytes()

    def _forget_unsought(self) -> None:
        """Forget the ids of topics that look for duplicates no more: what comes to them from now on
        isn't counted, so the last ids wouldn't be the last ones later."""
        for topic in self.windows.sizes():
            if not self._seeks(topic):
                self.windows.forget(topic)

    def _seeks(self, topic: str) -> bool:
        """Whether duplicates are looked for on the topic."""
        return self._policies.of_topic(topic).seeks_duplicates

    def _known(self, topic: str, found: list[bytes]) -> Sequence[int]:
        """The places of those whose ids were seen; the others stay unseen."""
        policy = self._policies.of_topic(topic)
        if not found or not policy.seeks_duplicates:
            return ()
        messages, age = policy.duplicates_messages, policy.duplicates_ms * 1_000
        return self.windows.known(topic, found, clock.now(), messages=messages, age=age)

    def _new(self, posted: Sequence[Posted]) -> list[PublishBatch]:
        """Return the messages without duplicates, with their routed copies."""
        runs: list[PublishBatch] = []
        for one in posted:
            self._routes.ensure_of(one.run.topic)
            policy = self._policies.of_topic(one.run.topic)
            seeks = one.ids and policy.seeks_duplicates  # it may not any more
            places = self._seen(one.run.topic, policy, one.ids) if seeks else ()
            runs += self._copied(one.routed, places, policy.routes, one.unrouted)
        return runs

    def _publish(
        self, received: Received, routed: RoutedRun, receipt: Receipt, unrouted: Unrouted
    ) -> bool:
        """Write a run of received messages to the log, without duplicates, or keep it in memory.
        Return whether any of it waits for the log.

        The sender of a duplicate is answered with the present group, so never before the original
        is durable.
        """
        run, start = routed.run, routed.start
        policy = self._policies.of_topic(run.topic)
        places: Sequence[int] = ()
        if policy.seeks_duplicates:
            found = ids(received, start, start + run.count)
            places = self._seen(run.topic, policy, found)
        if places:
            rest = self._copied(routed, places, policy.routes, unrouted)
            if rest:
                self._log.publish_together(rest, Receipt(receipt.link, b"", 0, 0))
            self._log.acknowledge(receipt)
        elif policy.routes or routed.queue is not None:
            runs = self._copied(routed, (), policy.routes, unrouted)
            self._log.publish_together(runs, receipt)
        elif run.topic in self._streams and self._memory.take(run, receipt, policy.storage):
            return False
        else:
            self._log.publish(run, receipt)
        return True

    def _seen(self, topic: str, policy: TopicPolicy, found: list[bytes]) -> Sequence[int]:
        """Return the places of the ids that were seen before, and remember all of them."""
        return self.windows.add(
            topic,
            found,
            clock.now(),
            messages=policy.duplicates_messages,
            age=policy.duplicates_ms * 1_000,
        )

    def _copied(
        self,
        routed: RoutedRun,
        places: Sequence[int],
        routes: Sequence[Route],
        unrouted: Unrouted,
    ) -> list[PublishBatch]:
        """Return a run without the messages at these places, and routed copies of the rest; dead
        letters aren't routed."""
        if routed.queue is not None:
            self._routes.ensure(routed.queue)
            routes = ()
        runs: list[PublishBatch] = []
        for rest, at in parts_without(routed.run, places):
            if routes:
                runs += self._routes.with_copies(rest, routed.start + at, routes, unrouted)
            else:
                runs.append(rest)
        return runs


def _all(_topic: str, lengths: bytes) -> tuple[int, AmqpError | None]:
    """Admit all messages."""
    return len(lengths) // 4, None


def ids(received: Received, start: int, stop: int) -> list[bytes]:
    """Return the id of each message, by which duplicates are found; empty where it has none."""
    offsets = array("i", bytes(pump.offsets(received.lengths, stop)))
    at, size = array("I", received.id_at), array("I", received.id_size)
    blob = received.blob
    return [blob[(begin := offsets[i] + at[i]) : begin + size[i]] for i in range(start, stop)]
