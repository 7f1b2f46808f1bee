"""The two sides of a selector: what the gateway says of messages, and what Spark says of rows."""

from collections.abc import Mapping, Sequence

import pyarrow as pa
from proton import Message
from pyspark.sql import DataFrame, SparkSession

from distributary.pipeline.model.message_columns import COPIED
from distributary.pipeline.selector.evaluate import compiled
from distributary.pipeline.selector.reading import Reader
from distributary.pipeline.selector.syntax import Expression, Not, Selector, identifiers
from distributary.pipeline.transforms.materialize.messages import decoded
from distributary.pipeline.transforms.schema.spark_schema import MESSAGES
from distributary.pipeline.transforms.selector.selector_column import truth
from distributary.pipeline.transforms.selector.term_renderings import as_column


def of(tree: Expression, text: str = "") -> Selector:
    return Selector(text, tree, frozenset(identifiers(tree)))


def encoded(values: Mapping[str, object]) -> bytes:
    """A message with these properties; what has no type in JMS is binary. `JMSPriority` stands in
    the header if it is one."""
    header = values.get("JMSPriority")
    priority = header if type(header) is int and 0 <= header <= 9 else 4
    properties = {name: b"ab" if type(value) is object else value for name, value in values.items()}
    return bytes(Message(body="x", priority=priority, properties=properties).encode())


def rows(spark: SparkSession, data: Sequence[bytes]) -> DataFrame:
    """The rows that the job makes of these messages; `sequence` is their place."""
    header = [_header(one) for one in data]
    known: dict[str, pa.Array] = {
        "sequence": pa.array(range(len(data)), pa.int64()),
        "topic": pa.array(["flights"] * len(data)),
        "group": pa.array([1] * len(data), pa.int64()),
        "durable": pa.array([durable for durable, _ in header]),
        "priority": pa.array([priority for _, priority in header], pa.int8()),
    }
    types = {field.name: field.dataType.typeName() for field in MESSAGES.fields}
    for name in COPIED:
        kind = pa.date32() if types[name] == "date" else pa.timestamp("us", "UTC")
        known.setdefault(name, pa.nulls(len(data), kind))
    columns = {name: known[name] for name in COPIED} | {"message": pa.array(data, pa.binary())}
    batches = decoded(iter([pa.RecordBatch.from_pydict(columns)]))
    return spark.createDataFrame(pa.Table.from_batches(list(batches)))


def _header(data: bytes) -> tuple[bool, int]:
    """The fields of the header that the gateway copies into the log."""
    values = Reader(["JMSDeliveryMode", "JMSPriority"]).read(data, 0, len(data))
    priority = values.get("JMSPriority", 4)
    assert isinstance(priority, int)
    return values.get("JMSDeliveryMode") == "PERSISTENT", priority


def by_gateway(selectors: Sequence[Selector], data: Sequence[bytes]) -> list[list[bool | None]]:
    """For each selector what it is of each message."""
    answers = []
    for one in selectors:
        read = Reader(one.identifiers).read
        true, false = compiled(one), compiled(of(Not(one.expression)))
        got = [read(message, 0, len(message)).get for message in data]
        answers.append([True if true(get) else False if false(get) else None for get in got])
    return answers


def by_spark(selectors: Sequence[Selector], table: DataFrame) -> list[list[bool | None]]:
    """The same, in one job with a column for each selector."""
    columns = [as_column(truth(one)).alias(f"s{n}") for n, one in enumerate(selectors)]
    found = sorted(table.select("sequence", *columns).collect(), key=lambda row: row.sequence)
    return [[row[f"s{n}"] for row in found] for n in range(len(selectors))]
