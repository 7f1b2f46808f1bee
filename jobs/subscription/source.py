"""The data source `subscription` of Spark, as a stream that takes and as a table that looks.

This module runs in the driver's Python processes, except for `read`, which runs on executors: they
need pyspark, pyarrow and numpy, and no Proton.
"""

from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from distributary.jobs.subscription.choices import Choices, choices
from distributary.jobs.subscription.piece import Form, Piece
from distributary.jobs.subscription.stream import Stream
from distributary.pipeline.transforms.materialize.delivered import DELIVERED, DELIVERED_RAW, Batches
from distributary.pipeline.transforms.schema.worker_python import use_own_python


class SubscriptionSource(DataSource):
    """`spark.readStream.format("subscription")` takes part in the subscription's turns and settles
    each batch as accepted when it is written; `spark.read.format("subscription")` shows what is
    owed, and takes nothing. The options are those of `jobs.subscription.choices`."""

    @classmethod
    def name(cls) -> str:
        return "subscription"

    def schema(self) -> StructType:
        chosen = choices(self.options)
        if chosen.typed:
            return _typed_schema(chosen)
        return DELIVERED_RAW if chosen.raw else DELIVERED

    def reader(self, schema: StructType) -> DataSourceReader:
        chosen = choices(self.options)
        return _Looker(chosen, _form(chosen, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        chosen = choices(self.options)
        return Stream(chosen, _form(chosen, schema))


def _form(chosen: Choices, schema: StructType) -> Form:
    return Form(chosen.raw, schema if chosen.typed else None)


def _typed_schema(chosen: Choices) -> StructType:
    """Return the columns by the present schema of the subscription's topic."""
    from distributary.jobs.session.job_settings import load  # noqa: PLC0415
    from distributary.jobs.subscription.driver_connection import Lease  # noqa: PLC0415
    from distributary.pipeline.transforms.typed.delivered_typed import typed_schema  # noqa: PLC0415

    with Lease(chosen, load().subscription) as lease:
        return typed_schema(*lease.schema())


def register(spark: SparkSession) -> None:
    """Make the source known to a session: once, before it is used."""
    use_own_python(spark)
    spark.dataSource.register(SubscriptionSource)


class _Looker(DataSourceReader):
    """Reader of owed messages, listed once when the query is planned."""

    def __init__(self, chosen: Choices, form: Form) -> None:
        self._choices, self._form = chosen, form

    def partitions(self) -> list[InputPartition]:
        # Executors load this module, too, without Proton and deltalake.
        from distributary.jobs.session.job_settings import load  # noqa: PLC0415
        from distributary.jobs.subscription.driver_connection import Lease  # noqa: PLC0415
        from distributary.jobs.subscription.log_location import LogLocation  # noqa: PLC0415
        from distributary.jobs.subscription.planning import failed_of, parts_of, sequences_of  # noqa: PLC0415

        chosen, settings = self._choices, load().subscription
        with Lease(chosen, settings) as lease:
            said = lease.owed()
        owed = sequences_of(said["owed"].values())
        failed = failed_of(said["owed"])
        location, topic = LogLocation.of(said), said["topic"]
        size = settings.task_messages
        parts = parts_of(chosen, location, topic, owed, size, exact=False)
        selector = said["selector"]
        return [Piece(part, failed, form=self._form, selector=selector) for part in parts]

    def read(self, partition: Any) -> Batches:
        return partition.batches() if isinstance(partition, Piece) else iter(())
