"""Decoded messages as rows of typed tables, or as rows of `rejected`, in Arrow.

Rule: a message at whose sequence its topic has a schema is in exactly one of them; all others are
      in none.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.pipeline.schemas.formats.row_reader import RowReader, row_reader
from distributary.pipeline.schemas.schema_version import SchemaVersion
from distributary.pipeline.schemas.typed_row import Misfit
from distributary.pipeline.transforms.schema.spark_schema import REJECTED, arrow_schema
from distributary.pipeline.transforms.typed.topic_tables import (
    FOLDER,
    OWN,
    Reign,
    SchemaEvent,
    TopicTables,
    topic_tables,
)

#: The table of what doesn't fit.
REJECTED_NAME: Final = "rejected"


@dataclass(frozen=True, slots=True)
class TypedPart:
    """Rows of one table: `name` is its place below the folder of all tables; `topic` whose it is,
    empty for `rejected`. `groups` has the group of each row."""

    name: str
    topic: str
    rows: pa.RecordBatch
    groups: "pa.Array[Any]"


@dataclass(slots=True)
class TypedRows:
    """Makes rows by the events of schemas; for one task, as readers aren't shared."""

    events: Sequence[SchemaEvent]
    _topics: dict[str, TopicTables] = field(default_factory=dict)
    _readers: dict[SchemaVersion, RowReader] = field(default_factory=dict)

    def made(self, log: pa.RecordBatch, decoded: pa.RecordBatch) -> Iterator[TypedPart]:
        """`log` has the rows of topic_log, with `message`, `decoded` the same as MESSAGES."""
        topics = log.column("topic").dictionary_encode()
        codes = topics.indices.to_numpy(zero_copy_only=False)
        for code, topic in enumerate(cast("list[str]", topics.dictionary.to_pylist())):
            known = self.tables(topic)
            if not known.reigns:
                continue
            places = np.flatnonzero(codes == code)
            sequences = log.column("sequence").to_numpy()[places]
            floors = np.array([one.floor for one in known.reigns], np.int64)
            nth = np.searchsorted(floors, sequences, side="right") - 1
            for at in np.unique(nth[nth >= 0]).tolist():
                if known.reigns[at].schema is not None:
                    some = pa.array(places[nth == at])
                    yield from self._read(
                        topic, known, known.reigns[at], log.take(some), decoded.take(some)
                    )

    def tables(self, topic: str) -> TopicTables:
        """What the events say of a topic."""
        if topic not in self._topics:
            self._topics[topic] = topic_tables(self.events, topic)
        return self._topics[topic]

    def _read(
        self,
        topic: str,
        known: TopicTables,
        reign: Reign,
        log: pa.RecordBatch,
        decoded: pa.RecordBatch,
    ) -> Iterator[TypedPart]:
        assert reign.schema is not None  # noqa: S101
        reader = self._reader(reign.schema)
        fitting, odd = list[int](), list[tuple[int, Misfit]]()
        values: defaultdict[str, list[object]] = defaultdict(list)
        names = [said for said, _ in reign.names]
        for at, message in enumerate(cast("list[bytes]", log.column("message").to_pylist())):
            found = reader.read(message)
            if isinstance(found, Misfit):
                odd.append((at, found))
                continue
            fitting.append(at)
            for name in names:
                values[name].append(found[name])
        if fitting:
            rows = decoded.take(pa.array(fitting))
            kind = arrow_schema(known.tables[reign.table])
            mine = {own: values[said] for said, own in reign.names}
            yield TypedPart(
                f"{FOLDER}/{reign.table}",
                topic,
                _typed(rows, kind, reign.schema.version, mine),
                rows.column("group"),
            )
        if odd:
            rejected = _rejected(log.take(pa.array([at for at, _ in odd])), reign.schema, odd)
            yield TypedPart(REJECTED_NAME, "", rejected, rejected.column("group"))

    def _reader(self, schema: SchemaVersion) -> RowReader:
        if schema not in self._readers:
            versions = [
                one.schema
                for one in self.events
                if one.topic == schema.topic and one.schema is not None
            ]
            self._readers[schema] = row_reader(schema, versions)
        return self._readers[schema]


def _typed(
    rows: pa.RecordBatch, kind: pa.Schema, version: int, values: dict[str, list[object]]
) -> pa.RecordBatch:
    own = {
        "_sequence": rows.column("sequence"),
        "_published_at": rows.column("published_at"),
        "_message_id": rows.column("message_id"),
        "_properties": rows.column("properties"),
        "_schema_version": pa.repeat(pa.scalar(version, pa.int64()), rows.num_rows),
    }
    columns = [
        own[one.name].cast(one.type)
        if one.name in OWN.names
        else _column(values.get(one.name), one.type, rows.num_rows)
        for one in kind
    ]
    return pa.RecordBatch.from_arrays(columns, schema=kind)


def _column(values: list[object] | None, kind: pa.DataType, count: int) -> "pa.Array[Any]":
    if values is None:
        return cast("pa.Array[Any]", pa.array([None] * count, kind))
    said = [_as_arrow(one, kind) for one in values] if _has_map(kind) else values
    return cast("pa.Array[Any]", pa.array(said, kind))


def _has_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return any(_has_map(kind.field(at).type) for at in range(kind.num_fields))


def _as_arrow(value: Any, kind: pa.DataType) -> object:
    """Dicts of maps as pairs, however deep they are."""
    if value is None:
        return None
    match kind:
        case pa.MapType():
            return [(key, _as_arrow(one, kind.item_type)) for key, one in value.items()]
        case pa.ListType():
            return [_as_arrow(one, kind.value_type) for one in value]
        case pa.StructType():
            return {one.name: _as_arrow(value.get(one.name), one.type) for one in kind}
    return value


def _rejected(
    rows: pa.RecordBatch, schema: SchemaVersion, odd: Sequence[tuple[int, Misfit]]
) -> pa.RecordBatch:
    kind = arrow_schema(REJECTED)
    columns = {
        **{name: rows.column(name) for name in ("topic", "sequence", "group", "day")},
        "schema_version": pa.repeat(pa.scalar(schema.version, pa.int64()), rows.num_rows),
        "reason": pa.array([wrong.reason for _, wrong in odd], pa.string()),
        "place": pa.array([wrong.place for _, wrong in odd], pa.string()),
        "message": rows.column("message"),
    }
    return pa.RecordBatch.from_arrays(
        [columns[one.name].cast(one.type) for one in kind], schema=kind
    )


def after_group(part: TypedPart, after: int) -> pa.RecordBatch:
    """The part's rows of groups after this one."""
    return part.rows.filter(pc.greater(part.groups, pa.scalar(after)))
