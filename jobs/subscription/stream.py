"""A query as a consumer: acquire, record the batch's content, read, settle when it is written.

The order of steps, each durable before the next one begins:

1. `latestOffset` settles the messages of the start offset as accepted: Spark calls it only when the
   batch that ends there is written and committed. Then it acquires, and returns an offset with the
   sequences; the gateway answers when topic_log has them.
2. Spark writes the offset into the query's log.
3. `partitions` says where the messages lie, executors read them, the query writes them somewhere.
4. Spark writes the batch into its log of commits.

A driver that dies between 2 and 4 runs the batch again with the same content in the same tasks: a
write with the batch's number as transaction id is done once, and so is one by the sink `topic`.
Before its first step the stream tells the gateway which messages it keeps, so that no other
consumer gets them meanwhile.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from distributary.jobs.subscription.choices import Choices
from distributary.jobs.subscription.offset import Acquired, Offset
from distributary.jobs.subscription.piece import Form, Piece
from distributary.pipeline.transforms.materialize.delivered import Batches

if TYPE_CHECKING:
    from distributary.jobs.session.job_settings import SubscriptionSettings
    from distributary.jobs.subscription.driver_connection import Lease


class Stream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query on one subscription. Spark makes several objects and uses one of them, which
    connects at its first call. Executors have copies for `read` alone."""

    def __init__(self, choices: Choices, form: Form) -> None:
        self._choices, self._form = choices, form
        self._lease: Lease | None = None
        #: Acquired messages in no batch yet: the offset would have become too long.
        self._left: Acquired | None = None
        #: Number of the last batch that is settled.
        self._settled = 0
        #: With a trigger that ends: the first sequence that isn't part of its run.
        self._end: int | None = None

    # Spark's names are in Spark's case.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        return Offset().json()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._choices.messages_max or self._settings.trigger_messages_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        from distributary.jobs.subscription.driver_connection import Lease  # noqa: PLC0415

        with Lease(self._choices, self._settings) as asking:
            self._end = asking.head()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        at = Offset.of(start)
        self._settle(at)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        most = most or self._settings.trigger_messages_max
        found = self._next(self._lease_at(at), most)
        if not found.sequences:
            return start
        first, others = found.cut(most, self._settings.offset_bytes_max)
        self._left = others if others.sequences else None
        lease = self._lease_at(at)
        location = lease.location
        return at.next(
            lease.holder,
            lease.incarnation,
            lease.topic,
            location.uri,
            location.identity,
            first,
            self._settings.task_messages,
        ).json()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        from distributary.jobs.subscription.planning import parts_of, sequences_of  # noqa: PLC0415

        if start == end:
            return []
        batch = Offset.of(end)
        location = self._lease_at(batch).location
        sequences = sequences_of([batch.sequences])
        size = batch.task_messages or self._settings.task_messages
        parts = parts_of(self._choices, location, batch.topic, sequences, size, exact=True)
        failed = dict(batch.failed)
        return [Piece(part, failed, form=self._form) for part in parts]

    def read(self, partition: Any) -> Batches:
        return partition.batches() if isinstance(partition, Piece) else iter(())

    def commit(self, end: dict[str, Any]) -> None:
        self._settle(Offset.of(end))

    def stop(self) -> None:
        if self._lease is not None:
            self._lease.close()

    @property
    def _settings(self) -> "SubscriptionSettings":
        from distributary.jobs.session.job_settings import load  # noqa: PLC0415 (executors don't need it)

        return load().subscription

    def _lease_at(self, at: Offset) -> "Lease":
        """Return the connection. A new one keeps the messages of the batch that ends at `at`, which
        is to be written or settled, and no others."""
        if self._lease is None:
            from distributary.jobs.subscription.driver_connection import Lease  # noqa: PLC0415

            lease = Lease(self._choices, self._settings, at.holder)
            try:
                lease.begin(at)
            except BaseException:
                lease.close()
                raise
            self._lease = lease
        return self._lease

    def _settle(self, at: Offset) -> None:
        if at.number > self._settled:
            self._lease_at(at).settle(at.sequences)
            self._settled = at.number

    def _next(self, lease: "Lease", most: int) -> Acquired:
        """Return the messages of the next batch; keep the rest for later batches."""
        if self._left is not None:
            found, self._left = self._left, None
            return found
        if self._end is None:
            return lease.acquire(most, self._settings.wait_ms)[0]
        return self._before(lease, most, self._end)

    def _before(self, lease: "Lease", most: int, end: int) -> Acquired:
        """Return messages from before `end`. Later urgent ones may be first in turn: the query
        keeps them until it has an earlier message, so that they don't come again, and then gives
        them back."""
        late: list[str] = []
        count, more = 0, True
        while more:
            found, more = lease.acquire(most, self._settings.wait_ms)
            count += len(found.sequences)
            found, after = found.before(end)
            if after:
                late.append(after)
                more = count < self._settings.trigger_messages_max and lease.owed_before(end)
            more = more and not found.sequences
        for after in late:
            lease.settle(after, "released")
        return found
