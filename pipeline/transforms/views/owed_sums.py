"""How many messages came to a subscription in one bucket of time and wait, or were dropped when its
incarnation ended, summed up in Arrow: no pair of a message and a subscription passes through Spark.

Rule: Spark evaluates each distinct selector once; no code here reads a selector.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from distributary.pipeline.model.topic_pattern import is_pattern, matches
from distributary.pipeline.transforms.schema.claimed_topics import by_topic
from distributary.pipeline.transforms.views.claiming import ASKED, Claims, asked, one_row
from distributary.pipeline.transforms.views.file_sums import (
    TOGETHER,
    Numbers,
    Reading,
    all_rows,
    numbered,
    numbers,
)
from distributary.pipeline.transforms.views.settled_sums import ALIKE, Clip, Lives, alike

#: Of a selector the sequences of some messages that it selects, as a bitmap.
SELECTED: Final = StructType(
    [StructField("selector", StringType()), StructField("sequences", BinaryType())]
)


@dataclass(frozen=True, slots=True)
class Owed:
    """Input of the sums, when the query runs: one row with all incarnations (`lives`, a list of
    LIFE) and the sequences that their selectors select (`selected`, a list of SELECTED)."""

    folder: str
    known: DataFrame

    @classmethod
    def of(cls, folder: str, messages: DataFrame, claims: Claims, lives: Column) -> Self:
        """Of the tables in a folder; `messages` are those from the lowest on that is owed."""
        each = one_row(messages.sparkSession).select(F.inline(lives))
        each = each.where(F.col("owed_to").isNotNull() & F.col("selector").isNotNull())
        each = each.select("topic", "selector").toDF(*ASKED).distinct()
        found = asked(by_topic(each, messages, claims.patterns), messages, claims)
        bitmaps = found.select("_selector", "sequence").mapInArrow(bitmaps_by_selector, SELECTED)
        all_of = F.collect_list(F.struct(*SELECTED.names))
        return cls(folder, bitmaps.agg(all_of.alias("selected")).withColumn("lives", lives))

    def alike(self, first: Column, clip: Clip) -> DataFrame:
        """Rows of ALIKE, some for each pair of buckets, of which one is the `first`."""
        known = self.known.withColumn("first", first)
        return known.mapInArrow(OwedSums(self.folder, clip), ALIKE)


def bitmaps_by_selector(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Batches with `_selector` and `sequence`, as rows of SELECTED, one for each selector."""
    found = dict[str, BitMap64]()
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        codes, texts = numbered(rows, "_selector")
        sequences = numbers(rows, "sequence")
        for code, text in enumerate(texts):
            found.setdefault(text, BitMap64()).update(sequences[codes == code].tolist())
    said = [found.keys(), [bits.serialize() for bits in found.values()]]
    kinds = (pa.string(), pa.binary())
    columns = [pa.array(list(some), kind) for some, kind in zip(said, kinds, strict=True)]
    yield pa.RecordBatch.from_arrays(columns, names=SELECTED.names)


@dataclass(frozen=True, slots=True)
class Waiting:
    """Messages in the order of their topics: each topic is a slice of them."""

    topics: Mapping[str, slice]
    sequence: Numbers
    at_us: Numbers
    group: Numbers

    @classmethod
    def of(cls, path: str, lowest: int) -> Self:
        """All from the sequence `lowest` on that the table at this path has now."""
        names, columns = dict[str, int](), ("sequence", "topic", "published_at", "group")
        parts = tuple([np.zeros(0, np.int64)] for _ in columns)
        for rows in all_rows(Reading(path, columns, least=lowest)):
            codes, texts = numbered(rows, "topic")
            topic = np.array([names.setdefault(one, len(names)) for one in texts], np.int64)[codes]
            sequence, *others = (numbers(rows, name) for name in columns if name != "topic")
            mine = sequence >= lowest
            for part, one in zip(parts, (topic, sequence, *others), strict=True):
                part.append(one[mine])
        topic = _joined(parts[0])
        order = np.argsort(topic, kind="stable")
        bounds = np.searchsorted(topic[order], np.arange(len(names) + 1)).tolist()
        slices = {name: slice(bounds[nth], bounds[nth + 1]) for name, nth in names.items()}
        del (
            topic
        )  # each column is laid in order before the next: all at once would be twice as much
        return cls(slices, *(_joined(part)[order] for part in parts[1:]))

    def of_topic(self, topic: str) -> Iterator[slice]:
        """The messages of a topic, or of a pattern's topics, at most TOGETHER at a time."""
        names = [topic] if topic in self.topics else []
        if is_pattern(topic):
            names = [name for name in self.topics if matches(topic, name)]
        for whole in map(self.topics.__getitem__, names):
            for at in range(whole.start, whole.stop, TOGETHER):
                yield slice(at, min(at + TOGETHER, whole.stop))


@dataclass(frozen=True, slots=True)
class OwedSums:
    """One row in, with `lives` (LIFE), what selectors select (`selected`) and the `first` bucket;
    rows of ALIKE out. The tables are those in this folder.

    Needs memory for all messages from the lowest that is owed on, some 80 bytes each while they are
    sorted; and for what selectors select and ended incarnations have settled, a bit each."""

    folder: str
    clip: Clip

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for known in batch.to_pylist():
                said = sorted(known["lives"], key=lambda one: (one["subscription"], one["began"]))
                yield from self._summed(Lives.of(said), self._owed(said, known["selected"]), known)

    def _summed(
        self, lives: Lives, owed: Iterator[tuple[int, Numbers]], known: Mapping[str, Any]
    ) -> Iterator[pa.RecordBatch]:
        life, published, count = list[Numbers](), list[Numbers](), 0
        for nth, at_us in owed:
            life.append(np.full(len(at_us), nth))
            published.append(at_us)
            count += len(at_us)
            if count >= TOGETHER:
                yield self._some(lives, life, published, known["first"])
                life, published, count = [], [], 0
        if count:
            yield self._some(lives, life, published, known["first"])

    def _some(
        self, lives: Lives, life: list[Numbers], published: list[Numbers], first: int
    ) -> pa.RecordBatch:
        both = np.concatenate(life), np.concatenate(published)
        return alike(lives, *both, None, self.clip, first)

    def _owed(
        self, said: list[dict[str, Any]], selected: list[dict[str, Any]]
    ) -> Iterator[tuple[int, Numbers]]:
        """The number of an incarnation, and when messages were published that it is or was owed."""
        mine = [(nth, one) for nth, one in enumerate(said) if one["owed_to"] is not None]
        if not mine:
            return
        lowest = min(one["owed_from"] for _, one in mine)
        waiting = Waiting.of(f"{self.folder}/messages", lowest)
        by_selector = dict[str | None, BitMap64]()
        for row in selected:
            bits = by_selector.setdefault(row["selector"], BitMap64())
            bits |= BitMap64.deserialize(row["sequences"])
        settled = self._settled(said)
        # As numbers a bitmap is 64 times as large: one selector after the other.
        asked, members = None, _NONE
        for nth, one in sorted(mine, key=lambda one: one[1]["selector"] or ""):
            if one["selector"] != asked:
                asked = one["selector"]
                members = _members(by_selector.get(asked, BitMap64()))
            gone = _members(settled.get(nth, BitMap64()))
            for some in waiting.of_topic(one["topic"]):
                sequence = waiting.sequence[some]
                owed = (sequence >= one["owed_from"]) & (waiting.group[some] <= one["owed_to"])
                if asked is not None:
                    owed &= _among(sequence, members)
                owed &= ~_among(sequence, gone)
                yield nth, waiting.at_us[some][owed]

    def _settled(self, said: list[dict[str, Any]]) -> dict[int, BitMap64]:
        """Return the settled sequences of each incarnation: of a living one from its cursor, of an
        ended one from acks."""
        found = {
            nth: BitMap64.deserialize(one["settled"])
            for nth, one in enumerate(said)
            if one["settled"] is not None
        }
        over = [nth for nth, one in enumerate(said) if one["ended"] is not None]
        if not over:
            return found
        lives = Lives.of(said[nth] for nth in over)
        acks = Reading(f"{self.folder}/acks", ("subscription", "sequence", "group", "final"))
        for rows in all_rows(acks):
            codes, texts = numbered(rows, "subscription")
            life = lives.at(codes.astype(np.int64), texts, numbers(rows, "group"))
            mine = (life >= 0) & np.asarray(rows["final"])
            life, sequences = life[mine], numbers(rows, "sequence")[mine]
            for one in np.unique(life).tolist():
                bits = found.setdefault(over[one], BitMap64())
                bits.update(sequences[life == one].tolist())
        return found


_NONE: Final = np.zeros(0, np.int64)


def _joined(parts: list[Numbers]) -> Numbers:
    """One column of these, which are let go."""
    whole = np.concatenate(parts)
    parts.clear()
    return whole


def _members(bits: BitMap64) -> Numbers:
    return np.asarray(bits.to_array(), dtype=np.int64)


def _among(sequences: Numbers, members: Numbers) -> "NDArray[np.bool_]":
    """A mask of the sequences that are members; members ascend."""
    if not len(members):
        return np.zeros(len(sequences), bool)
    at = np.minimum(np.searchsorted(members, sequences), len(members) - 1)
    return cast("NDArray[np.bool_]", members[at] == sequences)
