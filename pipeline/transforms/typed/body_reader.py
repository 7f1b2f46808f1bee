"""Bodies of one version of a schema, many at a time, as columns.

Rule: `json_structs` reads bodies of a simple schema fast; `RowReader` reads or rejects all others
      one by one. Both make the same columns of a body.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distributary.pipeline.codec.sections import Body
from distributary.pipeline.schemas.body_content import BodyContent
from distributary.pipeline.schemas.formats.json_structs import (
    UNREAD,
    Decode,
    JsonStruct,
    json_decode,
)
from distributary.pipeline.schemas.formats.row_reader import RowReader
from distributary.pipeline.schemas.typed_row import Misfit, TypedRow
from distributary.pipeline.transforms.materialize.messages import Decoded
from distributary.pipeline.transforms.typed.typed_columns import NoTimes, of_rows, of_structs

#: Columns of the log for rows of `rejected`; decoded columns for typed rows and their readers.
_LOG: Final = ("topic", "sequence", "group", "day", "message")
_DECODED: Final = (
    *("sequence", "published_at", "message_id", "properties", "group"),
    *("content_type", "body_kind", "body_text", "body_bytes"),
)

Kinds = Sequence[tuple[str, pa.DataType]]
Places = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bodies:
    """Messages of one topic, decoded, and their `places` among rows of the log; `plain` is
    PLAIN_BODY."""

    log: pa.RecordBatch
    decoded: pa.RecordBatch
    plain: "pa.Array[Any]"
    places: Places

    @classmethod
    def of(cls, log: pa.RecordBatch, decoded: Decoded, places: Places) -> "Bodies":
        """The messages at these places, in rising order."""
        everything = np.arange(log.num_rows)
        found = cls(log, decoded.rows.select(_DECODED), decoded.plain_body, everything)
        return found.only(places)

    def only(self, places: Places) -> "Bodies":
        """The messages at these places, in rising order; copied only if they aren't all."""
        if len(places) == len(self.places):
            return self
        at = cast("Any", pa.array(places))
        return Bodies(self.log, self.decoded.take(at), self.plain.take(at), self.places[places])

    def rows(self) -> pa.RecordBatch:
        """The messages' rows of the log, with their bytes: for misfits."""
        return self.log.select(_LOG).take(cast("Any", pa.array(self.places)))

    def values(self) -> list[bytes | str | None]:
        """The plain bodies, and None for others."""
        found: list[bytes | str | None] = self.decoded.column("body_bytes").to_pylist()
        texts = self.decoded.column("body_text")
        if texts.null_count < len(texts):
            found = [
                text if value is None else value
                for value, text in zip(found, texts.to_pylist(), strict=True)
            ]
        if not pc.all(self.plain).as_py():
            plain = self.plain.to_pylist()
            found = [one if is_plain else None for one, is_plain in zip(found, plain, strict=True)]
        return found


@dataclass(frozen=True, slots=True)
class Read:
    """The places of bodies that fit, in rising order, with their columns; and the misfits with
    their places."""

    fitting: Places
    columns: "list[pa.Array[Any]]"
    odd: list[tuple[int, Misfit]]


@dataclass(slots=True)
class BodyReader:
    """Reads bodies by one version of a schema. It belongs to one task: readers aren't shared."""

    reader: RowReader
    _decode: Decode | None = field(init=False)

    def __post_init__(self) -> None:
        self._decode = json_decode(self.reader.schema, self.reader.layout)

    def read(self, bodies: Bodies, kinds: Kinds) -> Read:
        """The bodies as columns of these names and types, which are the layout's."""
        values = bodies.values()
        structs, places = self._structs(values)
        quick, places = self._columns(structs, places, kinds)
        left = np.delete(np.arange(len(values)), places).tolist()
        if not left:
            return Read(places, quick, [])
        rows, fitting, odd = self._rows(bodies, values, left)
        together = np.concatenate([places, np.array(fitting, np.int64)])
        order = np.argsort(together)
        slow = of_rows(rows, kinds)
        columns = [
            pa.concat_arrays([one, other]).take(cast("Any", pa.array(order)))
            for one, other in zip(quick, slow, strict=True)
        ]
        return Read(together[order], columns, odd)

    def _structs(self, values: Sequence[bytes | str | None]) -> tuple[list[JsonStruct], Places]:
        """Return the bodies that `json_structs` reads, and their places."""
        structs, left = list[JsonStruct](), list[int]()
        if self._decode is None:
            return structs, np.zeros(0, np.int64)
        found = map(self._decode, values)
        while len(structs) + len(left) < len(values):
            try:
                structs.extend(found)
            except UNREAD:  # earlier structs are in the list; `found` goes on behind this body
                left.append(len(structs) + len(left))
        return structs, np.delete(np.arange(len(values)), left)

    def _rows(
        self, bodies: Bodies, values: Sequence[bytes | str | None], left: Sequence[int]
    ) -> tuple[list[TypedRow], list[int], list[tuple[int, Misfit]]]:
        """The rows of the bodies that fit, their places, and the misfits."""
        some = bodies.only(np.array(left, np.int64))
        whole = some.rows().column("message")
        kinds = cast("list[Any]", some.decoded.column("body_kind").to_pylist())
        types = some.decoded.column("content_type").to_pylist()
        rows, fitting, odd = list[TypedRow](), list[int](), list[tuple[int, Misfit]]()
        for nth, at in enumerate(left):
            value = values[at]
            if value is None or self.reader.schema.cloud_events:
                found = self.reader.read(whole[nth].as_py())
            else:
                content = BodyContent(Body(kinds[nth], value), types[nth] or "", "", {})
                found = self.reader.read_content(content)
            if isinstance(found, Misfit):
                odd.append((at, found))
            else:
                rows.append(found)
                fitting.append(at)
        return rows, fitting, odd

    def _columns(
        self, structs: Sequence[JsonStruct], places: Places, kinds: Kinds
    ) -> "tuple[list[pa.Array[Any]], Places]":
        """The columns of the structs that convert, and the places of these. A struct with a day
        that doesn't exist is found by halving."""
        said = self.reader.layout.columns
        try:
            return of_structs(structs, said, kinds), places
        except NoTimes as found:
            some = np.flatnonzero(~found.odd)
            return self._columns([structs[at] for at in some.tolist()], places[some], kinds)
        except pa.ArrowInvalid:
            if len(structs) == 1:
                return of_structs([], said, kinds), places[:0]
        half = len(structs) // 2
        one, those = self._columns(structs[:half], places[:half], kinds)
        other, these = self._columns(structs[half:], places[half:], kinds)
        columns = [pa.concat_arrays(list(both)) for both in zip(one, other, strict=True)]
        return columns, np.concatenate([those, these])
