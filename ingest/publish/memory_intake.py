"""Messages that need no disk: from the publisher to the stream of their topic, and so to consumers.

A message stays in memory if no durable subscription and no queue is owed it, and the topic's policy
(`storage`) allows it. It is lost with the process, as are the subscriptions that could get it. A
message that doesn't fit into memory is written, like any other.
"""

from collections.abc import Container

from distributary.ingest.commit.batches import batches_of
from distributary.ingest.commit.group_log import Log, Receipt, answer
from distributary.ingest.delivery.delivery_service import DeliveryService
from distributary.ingest.delivery.topic_directory import TopicDirectory
from distributary.ingest.native import pump
from distributary.ingest.runtime import clock
from distributary.pipeline.log.message_counts import MessageCounts
from distributary.pipeline.model.message import Group, PublishBatch
from distributary.pipeline.model.policy import Storage
from distributary.pipeline.tracing.tracer import Tracer


class MemoryIntake:
    """Takes runs that need not be written. All methods run on the loop's thread."""

    def __init__(
        self,
        log: Log,
        topics: TopicDirectory,
        delivery: DeliveryService,
        counts: MessageCounts,
        traces: Tracer | None,
    ) -> None:
        self._log, self._topics, self._delivery = log, topics, delivery
        self._counts, self._traces = counts, traces
        #: Topics whose messages may stay in memory; `take` takes no runs of other topics.
        self.streams: Container[str] = topics.streams

    def take(self, run: PublishBatch, receipt: Receipt, storage: Storage) -> bool:
        """Take the run, accept it and have it delivered in this pass; False: it must be written.

        A run is written while earlier ones of its topic wait for the log, so that it doesn't
        overtake them.
        """
        if run.topic not in self.streams:
            return False
        stream, topic = self._topics.only_stream(run.topic), run.topic
        if stream is None or not storage.skips(persistent=any(run.durable)):
            return False
        if not stream.fits(len(run.blob)) or self._log.coming(topic)[0]:
            return False
        now = clock.now()
        for _, batch in batches_of(Group(0, stream.head, now, (run,))):
            self._topics.came(topic, batch, now)
            if self._traces is not None:
                self._traces.kept(topic, batch, now)
        self._counts.unwritten += run.count
        answer(receipt, pump.ACCEPTED)
        self._log.grant(receipt.link, receipt.credit)
        self._delivery.arrived((topic,))
        return True
