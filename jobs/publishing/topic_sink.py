"""The data source `topic` of Spark: a query's rows become messages of a topic, each once.

The order of steps: executors publish the rows of their partitions; each message is accepted, and so
durable, before its task ends; then Spark commits the batch. A task or a batch that runs again
publishes its messages again with the same ids, and the gateway doesn't store duplicates. So
consumers get messages of a batch before the batch has ended, and each of them once.

Executors need `distributary` with its compiled part, and reach the gateway.
"""

import asyncio
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from pyspark import TaskContext
from pyspark.sql import Row, SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamWriter,
    DataSourceWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from distributary.jobs.publishing.row_ids import RowIds
from distributary.jobs.publishing.row_messages import check, message_of
from distributary.jobs.publishing.sink_choices import SinkChoices, sink_choices
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.transforms.schema.worker_python import use_own_python

#: Properties of a task that have its query and its batch.
QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
#: Rows that are read at once while nothing is sent: milliseconds.
ROWS = 256


class TopicSink(DataSource):
    """`df.writeStream.format("topic")` and `df.write.format("topic").mode("append")`. The options
    are those of `jobs.publishing.sink_choices`, the columns those of `row_messages`."""

    @classmethod
    def name(cls) -> str:
        return "topic"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise InvalidRequest(
                "what was published stays: the sink 'topic' has mode 'append' alone"
            )
        return Save(self._checked(schema), uuid.uuid4().hex)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        return Stream(self._checked(schema))

    def _checked(self, schema: StructType) -> SinkChoices:
        from distributary.jobs.publishing.duplicate_window import require_window  # noqa: PLC0415 (executors needn't ask)

        chosen = sink_choices(self.options)
        check(schema)
        if not chosen.at_least_once:
            require_window(chosen)
        return chosen


def register(spark: SparkSession) -> None:
    """Make the sink known to a session: once, before it is used."""
    use_own_python(spark)
    spark.dataSource.register(TopicSink)


@dataclass
class Published(WriterCommitMessage):
    """Report of a task whose messages are all durable."""

    messages: int


class Save(DataSourceWriter):
    """One `save`, under a name of its own: tasks that run again publish no message twice, another
    `save` is another write."""

    def __init__(self, chosen: SinkChoices, write: str) -> None:
        self._chosen, self._write = chosen, write

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        ids = RowIds(self._write, _task().partitionId())
        return Published(asyncio.run(_publish(self._chosen, iterator, ids)))


class Stream(DataSourceStreamWriter):
    """A streaming query, whose id is that of its checkpoint."""

    def __init__(self, chosen: SinkChoices) -> None:
        self._chosen = chosen

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        task = _task()
        query, batch = task.getLocalProperty(QUERY), task.getLocalProperty(BATCH)
        if not query or not batch:
            raise StoreError("a task without its query's id can't be told from those of others")
        ids = RowIds(f"{query}-{batch}", task.partitionId())
        return Published(asyncio.run(_publish(self._chosen, iterator, ids)))


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None  # noqa: S101 (Spark writes in tasks alone)
    return task


async def _publish(chosen: SinkChoices, rows: Iterator[Row], ids: RowIds) -> int:
    """Publish all rows until they are accepted; return how many. Raises ClientError and
    InvalidRequest."""
    from distributary.client import connect  # noqa: PLC0415 (a driver that only plans needs no Proton)
    from distributary.client.outgoing_message import encoded  # noqa: PLC0415

    client = connect(
        chosen.address,
        user=chosen.user,
        password=chosen.password,
        ca=chosen.authority,
        certificate=chosen.certificate,
        key=chosen.key,
    )
    async with client, client.publisher(chosen.topic) as publisher:
        # The loop goes on while Spark makes the next rows: the gateway needs heartbeats.
        while some := await asyncio.to_thread(lambda: list(islice(rows, ROWS))):
            for row in some:
                message = message_of(row)
                if message.id is None:
                    message = replace(message, id=ids.next(encoded(message, "")))
                await publisher.send(message)
    return publisher.count
