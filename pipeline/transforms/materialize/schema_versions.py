"""Events of `topic_log`, for the table `schemas`: each version of each schema, and each drop."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code

from distributary.pipeline.transforms.materialize.subscriptions import SCHEMA
from distributary.pipeline.transforms.schema.spark_schema import (
    SCHEMA_VERSIONS,
    arrow_schema,
    in_utc,
)

#: Columns of an event that are read; `policy` has the text of `pipeline.schemas.schema_text`.
READ: Final = ("topic", "event", "policy", "floor", "by", "group", "recorded_at")
#: Columns that are in the text; a drop has none of them.
_IN_TEXT: Final = (
    *("version", "format", "definition", "message", "compatibility", "validate", "framing"),
    *("registry_id", "cloud_events", "columns"),
)


def schema_versions(log: DataFrame) -> DataFrame:
    """`topic_log` in, `schemas` out."""
    there = [name for name in READ if name in log.columns]
    said = log.where((F.col("record") == "subscription") & (F.col("event") == SCHEMA))
    return said.select(*there).mapInArrow(schemas_told, SCHEMA_VERSIONS)


def schemas_told(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Arrow batches with the columns READ, those of events of schemas as SCHEMA_VERSIONS."""
    kind = arrow_schema(SCHEMA_VERSIONS)
    for batch in batches:
        rows = [
            _row(event)
            for event in in_utc(
                batch.filter(pc.equal(batch.column("event"), pa.scalar(SCHEMA)))
            ).to_pylist()
        ]
        yield pa.RecordBatch.from_pylist(rows, schema=kind)


def _row(event: Mapping[str, object]) -> dict[str, object]:
    said = json.loads(str(event["policy"]))
    row = {**event, **{name: said.get(name) for name in _IN_TEXT}}
    if row["columns"] is not None:
        row["columns"] = json.dumps(row["columns"], ensure_ascii=False, separators=(",", ":"))
    return row | {"event": "dropped" if row["version"] is None else "set"}
