"""The tables of one home as DataFrames, from which every view, audit and notebook starts."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from pyspark.sql.types import StructType

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.transforms.schema.session_files import hadoop_address
from distributary.pipeline.transforms.schema.spark_schema import (
    ACKS,
    CURSORS,
    LOG_VERSIONS,
    MESSAGES,
    REJECTED,
    SCHEMA_VERSIONS,
    SUBSCRIPTIONS,
)
from distributary.pipeline.transforms.schema.topic_folders import REJECTED_NAME
from distributary.pipeline.transforms.schema.worker_python import use_own_python

#: Name of a table that Spark writes -> its columns.
SCHEMAS: dict[str, StructType] = {
    "messages": MESSAGES,
    "acks": ACKS,
    "subscriptions": SUBSCRIPTIONS,
    "schemas": SCHEMA_VERSIONS,
    "log_versions": LOG_VERSIONS,
    "cursors": CURSORS,
}


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables in one folder, each looked for when it is asked for.

    Each has the columns of its schema in that order; columns that an older table lacks are null.
    Raises InvalidRequest when a table is missing or isn't ours.
    """

    spark: SparkSession
    folder: str
    #: Tables that needn't be looked for any more.
    found: Mapping[str, DataFrame] = field(default_factory=dict, repr=False, kw_only=True)

    def known(self) -> Self:
        """The same tables, each looked for once, now. The columns are those of now; the rows are
        still those at the time of a query."""
        return replace(self, found={name: self.table(name) for name in SCHEMAS})

    @property
    def messages(self) -> DataFrame:
        return self.table("messages")

    @property
    def acks(self) -> DataFrame:
        return self.table("acks")

    @property
    def subscriptions(self) -> DataFrame:
        return self.table("subscriptions")

    @property
    def schemas(self) -> DataFrame:
        return self.table("schemas")

    @property
    def log_versions(self) -> DataFrame:
        return self.table("log_versions")

    @property
    def cursors(self) -> DataFrame:
        return self.table("cursors")

    @property
    def topic_log(self) -> DataFrame:
        """The gateway's own table, unchanged: its columns are in docs/tables.md."""
        return self._load("topic_log")

    @property
    def rejected(self) -> DataFrame:
        """Messages that don't fit their schema; no rows if `materialize` found none."""
        try:
            return whole(self._load(REJECTED_NAME), REJECTED)
        except InvalidRequest:
            return self.spark.createDataFrame([], REJECTED)

    def some(self, names: Iterable[str]) -> dict[str, DataFrame]:
        """The tables that exist of those named, unchanged: a typed table is made with its first
        row. Names are places below the folder."""
        found: dict[str, DataFrame] = {}
        for name in names:
            with suppress(InvalidRequest):
                found[name] = self._load(name)
        return found

    def table(self, name: str) -> DataFrame:
        if name in self.found:
            return self.found[name]
        rows, schema = self._load(name), SCHEMAS[name]
        if schema.names[0] not in rows.columns:
            raise InvalidRequest(
                f"{self.folder}/{name} isn't the table `{name}` of docs/tables.md: it has no "
                f"column {schema.names[0]!r}. Name a folder that `materialize` wrote."
            )
        return whole(rows, schema)

    def _load(self, name: str) -> DataFrame:
        try:
            rows = self.spark.read.format("delta").load(f"{self.folder}/{name}")
            rows.schema  # noqa: B018 - a client of Spark Connect asks for the table here, and not before
        except AnalysisException as error:
            raise InvalidRequest(
                f"There is no table {name} in {self.folder}: "
                "run `distributary jobs materialize` first."
            ) from error
        return rows


def whole(rows: DataFrame, schema: StructType) -> DataFrame:
    """Rows of an older table with all columns of today; columns that it lacks are null."""
    there = set(rows.columns)
    return rows.select(
        *(
            F.col(field.name)
            if field.name in there
            else F.lit(None).cast(field.dataType).alias(field.name)
            for field in schema.fields
        )
    )


def find_tables(spark: SparkSession, place: str) -> Tables:
    """The tables in `place`, which is their folder or the home above it.

    Raises InvalidRequest when neither has any.
    """
    use_own_python(spark)
    root = hadoop_address(place)
    for folder in (root, f"{root}/tables"):
        tables = Tables(spark, folder)
        try:
            tables.cursors  # noqa: B018 - raises if the table is missing
        except InvalidRequest:
            continue
        return tables
    raise InvalidRequest(
        f"There are no tables in {place}: run `distributary jobs materialize` first."
    )
