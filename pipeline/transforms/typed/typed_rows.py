"""Decoded messages as rows of typed tables, or as rows of `rejected`, in Arrow.

Rule: a message is in exactly one of these tables if its topic has a schema at its sequence, and
      otherwise in none.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from distributary.pipeline.schemas.formats.row_reader import row_reader
from distributary.pipeline.schemas.schema_version import SchemaVersion
from distributary.pipeline.schemas.typed_row import Misfit
from distributary.pipeline.table_places import FOLDER
from distributary.pipeline.transforms.materialize.messages import Decoded
from distributary.pipeline.transforms.schema.spark_schema import REJECTED, arrow_schema
from distributary.pipeline.transforms.schema.topic_folders import REJECTED_NAME
from distributary.pipeline.transforms.typed.body_reader import Bodies, BodyReader
from distributary.pipeline.transforms.typed.topic_tables import (
    OWN,
    Reign,
    SchemaEvent,
    TopicTables,
    topic_tables,
)


@dataclass(frozen=True, slots=True)
class TypedPart:
    """Rows of one table: `name` is its place below the folder of all tables, `topic` is the table's
    topic, empty for `rejected`. `groups` has the group of each row."""

    name: str
    topic: str
    rows: pa.RecordBatch
    groups: "pa.Array[Any]"


@dataclass(slots=True)
class TypedRows:
    """Makes rows by the events of schemas. It belongs to one task: readers aren't shared."""

    events: Sequence[SchemaEvent]
    _topics: dict[str, TopicTables] = field(default_factory=dict)
    _readers: dict[SchemaVersion, BodyReader] = field(default_factory=dict)

    def made(self, log: pa.RecordBatch, decoded: Decoded) -> Iterator[TypedPart]:
        """The typed and rejected rows of messages: `log` has their rows of topic_log with
        `message`, `decoded` the same rows decoded."""
        topics = log.column("topic").dictionary_encode()
        codes = topics.indices.to_numpy(zero_copy_only=False)
        sequences = log.column("sequence").to_numpy()
        for code, topic in enumerate(cast("list[str]", topics.dictionary.to_pylist())):
            known = self.tables(topic)
            if not known.reigns:
                continue
            places = np.flatnonzero(codes == code)
            floors = np.array([one.floor for one in known.reigns], np.int64)
            nth = np.searchsorted(floors, sequences[places], side="right") - 1
            for at in np.unique(nth[nth >= 0]).tolist():
                reign = known.reigns[at]
                if reign.schema is not None:
                    some = places[nth == at]
                    bodies = Bodies.of(log, decoded, some)
                    yield from self._read(topic, known.tables[reign.table], reign, bodies)

    def tables(self, topic: str) -> TopicTables:
        """Return a topic's tables by the events."""
        if topic not in self._topics:
            self._topics[topic] = topic_tables(self.events, topic)
        return self._topics[topic]

    def _read(
        self, topic: str, table: StructType, reign: Reign, bodies: Bodies
    ) -> Iterator[TypedPart]:
        assert reign.schema is not None  # noqa: S101
        kind = arrow_schema(table)
        kinds = [(said, kind.field(own).type) for said, own in reign.names]
        found = self._reader(reign.schema).read(bodies, kinds)
        if len(found.fitting):
            rows = bodies.only(found.fitting).decoded
            columns = {own: found.columns[nth] for nth, (_, own) in enumerate(reign.names)}
            yield TypedPart(
                f"{FOLDER}/{reign.table}",
                topic,
                _typed(rows, kind, reign.schema.version, columns),
                rows.column("group"),
            )
        if found.odd:
            odd = bodies.only(np.array([at for at, _ in found.odd]))
            rejected = _rejected(odd.rows(), reign.schema, [wrong for _, wrong in found.odd])
            yield TypedPart(REJECTED_NAME, "", rejected, rejected.column("group"))

    def _reader(self, schema: SchemaVersion) -> BodyReader:
        if schema not in self._readers:
            versions = [
                one.schema
                for one in self.events
                if one.topic == schema.topic and one.schema is not None
            ]
            self._readers[schema] = BodyReader(row_reader(schema, versions))
        return self._readers[schema]


def _typed(
    rows: pa.RecordBatch, kind: pa.Schema, version: int, columns: Mapping[str, "pa.Array[Any]"]
) -> pa.RecordBatch:
    own = {
        "_sequence": rows.column("sequence"),
        "_published_at": rows.column("published_at"),
        "_message_id": rows.column("message_id"),
        "_properties": rows.column("properties"),
        "_schema_version": pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows),
    }
    made = [
        own[one.name].cast(one.type)
        if one.name in OWN.names
        else columns.get(one.name, pa.nulls(rows.num_rows, one.type))
        for one in kind
    ]
    return pa.RecordBatch.from_arrays(made, schema=kind)


def _rejected(rows: pa.RecordBatch, schema: SchemaVersion, odd: Sequence[Misfit]) -> pa.RecordBatch:
    kind = arrow_schema(REJECTED)
    columns = {
        **{name: rows.column(name) for name in ("topic", "sequence", "group", "day")},
        "schema_version": pa.repeat(pa.scalar(schema.version, pa.int64()), rows.num_rows),
        "reason": pa.array([wrong.reason for wrong in odd], pa.string()),
        "place": pa.array([wrong.place for wrong in odd], pa.string()),
        "message": rows.column("message"),
    }
    return pa.RecordBatch.from_arrays(
        [columns[one.name].cast(one.type) for one in kind], schema=kind
    )


def after_group(part: TypedPart, after: int) -> pa.RecordBatch:
    """The part's rows of groups after this one."""
    later = pc.greater(part.groups, pa.scalar(after))
    return part.rows if pc.all(later).as_py() else part.rows.filter(later)
