"""What is published, on its way to the log: what was there before is not kept again, and what goes
to a full backlog is not taken.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from distributary.ingest.commit.batches import part
from distributary.ingest.commit.group_log import Log, Receipt
from distributary.ingest.native import pump
from distributary.ingest.native.runs import Received
from distributary.ingest.net.link import Link
from distributary.ingest.publish import relay
from distributary.ingest.publish.backlog_limits import Backlogs
from distributary.ingest.publish.memory_intake import MemoryIntake
from distributary.ingest.publish.relay import Resolve, Routed
from distributary.ingest.publish.routes import Routes
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.policies import Policies
from distributary.pipeline.log.duplicates import Windows
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.message import PublishBatch
from distributary.pipeline.model.policy import Route


@dataclass(frozen=True, slots=True, eq=False)
class Posted:
    """Messages of one topic that wait for the commit of their transaction; `ids` tell them from
    their duplicates, where those are looked for."""

    run: PublishBatch
    ids: list[bytes]

    def expired(self, now: int) -> bool:
        """Whether nobody shall get one of them any more, at this time (microseconds)."""
        times = memoryview(self.run.expires_at).cast("B").cast("q")
        return any(0 < at <= now for at in times)


class Intake:
    """Takes runs of messages from links. `ids_max` is how many ids are remembered."""

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
        #: The ids of what was published.
        self.windows = Windows(ids_max)

    def take(self, link: Link, received: Received, topic: str) -> None:
        """Messages for one topic came."""
        receipt = Receipt(link, received.deliveries, received.unsettled, received.count)
        if self._backlogs.refuses:
            routed = relay.to_one(received, receipt, topic, self._backlogs.admit)
            self._perform(link, received, routed)
        else:
            self._publish(received, received.run(topic), 0, receipt)

    def take_fitting(
        self, link: Link, received: Received, topic: str, misfits: Mapping[int, AmqpError]
    ) -> None:
        """Messages for one topic came, of which those at these places are rejected."""
        receipt = Receipt(link, received.deliveries, received.unsettled, received.count)
        admit = self._backlogs.admit if self._backlogs.refuses else _all
        routed = relay.but_misfits(received, receipt, topic, misfits, admit)
        self._perform(link, received, routed)

    def relay(self, link: Link, received: Received, resolve: Resolve) -> None:
        """Messages came that say themselves where they go."""
        receipt = Receipt(link, received.deliveries, received.unsettled, received.count)
        self._perform(link, received, relay.route(received, receipt, resolve, self._backlogs.admit))

    def post(
        self, link: Link, received: Received, topic: str | None, resolve: Resolve
    ) -> tuple[list[Posted], Routed]:
        """Messages came in a transaction: what of them is to be published with it, and where all of
        them go. Whether there is room for them is seen at its commit."""
        receipt = Receipt(link, received.deliveries, received.unsettled, received.count)
        if topic is None:
            routed = relay.route(received, receipt, resolve, _all)
        else:
            routed = Routed([(received.run(topic), 0)], receipt, b"", [])
        posted: list[Posted] = []
        for run, start in routed.runs:
            seeks = self._policies.of_topic(run.topic).seeks_duplicates
            posted.append(Posted(run, ids(received, start, start + run.count) if seeks else []))
        return posted, routed

    def full(self, posted: Sequence[Posted]) -> AmqpError | None:
        """Why not all of this can be published together, if it can't. If it can, it is."""
        if not self._backlogs.refuses:
            return None
        lengths: dict[str, bytes] = {}
        for one in posted:
            lengths[one.run.topic] = lengths.get(one.run.topic, b"") + bytes(one.run.lengths)
        answers = [self._backlogs.admit(topic, sizes) for topic, sizes in lengths.items()]
        amqp_error = next((amqp_error for _, amqp_error in answers if amqp_error is not None), None)
        if amqp_error is not None:
            self._backlogs.published()  # nothing of it will be
        return amqp_error

    def publish(self, posted: Sequence[Posted], receipt: Receipt) -> None:
        """A transaction is committed: all of this lies in one group, with what was settled just
        before. Duplicates aren't kept again."""
        runs: list[PublishBatch] = []
        for one in posted:
            policy = self._policies.of_topic(one.run.topic)
            places: Sequence[int] = ()
            if one.ids:
                places = self.windows.add(
                    one.run.topic,
                    one.ids,
                    clock.now(),
                    messages=policy.duplicates_messages,
                    age=policy.duplicates_ms * 1_000,
                )
            for run in parts_without(one.run, places) if places else [one.run]:
                runs += self._routes.with_copies(run, policy.routes) if policy.routes else [run]
        self._log.publish_together(runs, receipt)
        self._backlogs.published()

    def _perform(self, link: Link, received: Received, routed: Routed) -> None:
        relay.accept(link, routed.at_once)
        for last, (run, start) in enumerate(routed.runs, start=1 - len(routed.runs)):
            # All of them lie in one group, so the receipt of the whole goes with the last.
            receipt = routed.receipt if not last else Receipt(link, b"", 0, 0)
            self._publish(received, run, start, receipt)
        self._backlogs.published()
        for complaint in routed.complaints:
            relay.reject(link, complaint)

    def _publish(self, received: Received, run: PublishBatch, start: int, receipt: Receipt) -> None:
        """A run of what was received, beginning at that place in it, goes to the log.

        A duplicate doesn't. Its sender hears of it with what is published now, which is when the
        first one is durable, or later.
        """
        policy = self._policies.of_topic(run.topic)
        if policy.seeks_duplicates:
            places = self.windows.add(
                run.topic,
                ids(received, start, start + run.count),
                clock.now(),
                messages=policy.duplicates_messages,
                age=policy.duplicates_ms * 1_000,
            )
            if places:
                self._publish_but(run, places, receipt, policy.routes)
                return
        if policy.routes:
            self._log.publish_together(self._routes.with_copies(run, policy.routes), receipt)
        elif run.topic not in self._streams or not self._memory.take(run, receipt, policy.storage):
            self._log.publish(run, receipt)

    def _publish_but(
        self, run: PublishBatch, places: Sequence[int], receipt: Receipt, routes: Sequence[Route]
    ) -> None:
        """The messages at these places are left out."""
        link = receipt.link
        for rest in parts_without(run, places):
            runs = self._routes.with_copies(rest, routes)
            self._log.publish_together(runs, Receipt(link, b"", 0, 0))
        self._log.acknowledge(receipt)


def _all(_topic: str, lengths: bytes) -> tuple[int, AmqpError | None]:
    """A topic that takes everything."""
    return len(lengths) // 4, None


def ids(received: Received, start: int, stop: int) -> list[bytes]:
    """What tells each message from its duplicates; empty where it has none."""
    offsets = array("i", bytes(pump.offsets(received.lengths, stop)))
    at, size = array("I", received.id_at), array("I", received.id_size)
    blob = received.blob
    return [blob[(begin := offsets[i] + at[i]) : begin + size[i]] for i in range(start, stop)]


def parts_without(run: PublishBatch, places: Sequence[int]) -> list[PublishBatch]:
    """What is left of a run when the messages at these places (ascending) aren't there."""
    offsets = array("i", bytes(pump.offsets(run.lengths, run.count)))
    found: list[PublishBatch] = []
    start = 0
    for stop in (*places, run.count):
        if stop > start:
            found.append(part(run, start, stop, offsets[start], offsets[stop]))
        start = stop + 1
    return found
