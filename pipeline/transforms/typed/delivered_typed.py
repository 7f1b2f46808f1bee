"""Deliveries of a subscription, with bodies as typed columns: for the source `subscription`.

Rule: the columns' metadata has the version of the schema that reads the bodies, so all processes of
      a query read by one version, also if another one is set meanwhile.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.formats.row_reader import row_reader
from distributary.pipeline.schemas.schema_text import columns_of, version_of
from distributary.pipeline.transforms.materialize.delivered import (
    ATTEMPTS,
    Batches,
    attempts_of,
)
from distributary.pipeline.transforms.materialize.messages import decoded_bodies
from distributary.pipeline.transforms.schema.spark_schema import MESSAGES, arrow_schema
from distributary.pipeline.transforms.typed.body_reader import Bodies, BodyReader
from distributary.pipeline.transforms.typed.topic_tables import widest

#: The columns that a schema adds.
VALUE: Final = "value"
_MISFIT: Final = StructField(
    "misfit", StringType(), metadata={"comment": "why the body doesn't fit; null if it does"}
)


def typed_schema(name: str, texts: Sequence[str]) -> StructType:
    """The columns of deliveries: those of `messages`, the body by a schema, `misfit`, `attempts`.
    `name` is the topic or pattern of the schema; `texts` are its versions as in the log, first the
    version that reads. Raises InvalidRequest when there is no such version."""
    columns = columns_of(texts[0]) if texts else ""
    if not columns:
        raise InvalidRequest(f"there is no schema for '{name}'")
    said = {"schema": {"name": name, "texts": list(texts)}, "comment": "the body, by its schema"}
    kind = widest(StructType.fromJson(json.loads(columns)))
    return StructType(
        [*MESSAGES.fields, StructField(VALUE, kind, metadata=said), _MISFIT, ATTEMPTS]
    )


def delivered_typed(batches: Batches, failed: Mapping[int, str], schema: StructType) -> Batches:
    """Batches with the columns COPIED and `message`, as `schema`; `failed` as in `delivered`."""
    whole = arrow_schema(schema)
    kind = cast("pa.StructType", whole.field(VALUE).type)
    kinds = [(one.name, one.type) for one in kind]
    reader = _reader(schema)
    for batch in batches:
        decoded = decoded_bodies(batch)
        everything = np.arange(batch.num_rows)
        found = reader.read(Bodies.of(batch, decoded, everything), kinds)
        places = np.full(batch.num_rows, -1, np.int64)
        places[found.fitting] = np.arange(len(found.fitting))
        values: pa.Array[Any] = pa.StructArray.from_arrays(found.columns, fields=list(kind))
        reasons: list[str | None] = [None] * batch.num_rows
        for at, misfit in found.odd:
            reasons[at] = misfit.sentence
        at = cast("Any", pa.array(places, mask=places < 0))
        columns: list[pa.Array[Any]] = [
            *(decoded.rows.column(name).cast(whole.field(name).type) for name in MESSAGES.names),
            values.take(at),
            pa.array(reasons, pa.string()),
            attempts_of(batch, failed),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=whole)


def _reader(schema: StructType) -> BodyReader:
    said = (schema[VALUE].metadata or {})["schema"]
    versions = [version_of(said["name"], text) for text in said["texts"]]
    known = [one for one in versions if one is not None]
    return BodyReader(row_reader(known[0], known))
