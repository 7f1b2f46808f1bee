"""How many messages came to a subscription in one bucket of time and were settled in another,
summed up in Arrow. It is what `backlog` says of settlements, with the same rules."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import zip_longest
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias in Spark code
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import BEGINNINGS
from distributary.pipeline.transforms.materialize.publication_times import MESSAGES_IN_MEMORY
from distributary.pipeline.transforms.materialize.settled import EXCEPTIONS_IN_MEMORY
from distributary.pipeline.transforms.schema.home_tables import Tables
from distributary.pipeline.transforms.schema.incarnations import DECISIVE
from distributary.pipeline.transforms.schema.spark_schema import arrow_schema
from distributary.pipeline.transforms.views.claiming import Claims
from distributary.pipeline.transforms.views.file_sums import (
    Numbers,
    Reading,
    numbered,
    numbers,
    opened,
    small_table,
    summed,
    table_files,
    within_reach,
)

#: What is read of acks.
READ: Final = ("subscription", "sequence", "outcome", "final", "settled_at", "group")
#: What these settle was never owed.
NEVER: Final = (Outcome.LOCAL.value, Outcome.FORBIDDEN.value)

ALIKE: Final = StructType(
    [
        StructField("subscription", StringType()),
        StructField("began", LongType()),
        StructField("came_in", LongType()),
        StructField("went_in", LongType()),
        StructField("was_settled", BooleanType()),
        StructField("n", LongType()),
        StructField("oldest_at", TimestampType()),
    ]
)

_CURSOR: Final = ("subscription", "topic", "selector", "floor", "group", "settled")
_EVENT: Final = ("subscription", "topic", "selector", "event", "floor", "group", "recorded_at")
#: An incarnation, in the order of subscriptions and groups. It is owed messages from the sequence
#: `owed_from` up to the group `owed_to`, or none that waits where that is null; of one that lives
#: these, the topic, the selector and what is `settled` are its cursor's. Its times are microseconds
#: since 1970: Python can't make times of every zone that a session may have.
LIFE: Final = StructType(
    [
        *(StructField(name, StringType()) for name in ("subscription", "topic", "selector")),
        *(StructField(name, LongType()) for name in ("floor", "began", "ended")),
        *(StructField(name, LongType()) for name in ("began_us", "ended_us")),
        *(StructField(name, LongType()) for name in ("owed_from", "owed_to")),
        StructField("settled", BinaryType()),
    ]
)
#: What is small, and known only when the query runs: the last group of the cursors and when it was
#: committed, the first beginning, the lowest sequence that is owed, all incarnations.
FACTS: Final = StructType(
    [
        StructField("upto", LongType()),
        StructField("committed_at", TimestampType()),
        StructField("begun_at", TimestampType()),
        StructField("lowest", LongType()),
        StructField("lives", ArrayType(LIFE)),
    ]
)

#: Answers of selectors that may pass the driver, a bit each.
SELECTED_MAX: Final = 2_000_000_000

#: Later than every time, beyond every group.
_NEVER: Final = 2**63 - 1
_NO_TIME: Final = -(2**63)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Groups have fewer bits.
_GROUP_BITS: Final = 42


@dataclass(frozen=True, slots=True)
class Lives:
    """Incarnations, by subscription and group: each number is of one of them."""

    subscription: list[str]
    names: Mapping[str, int]
    keys: Numbers  #: subscription and group in which it began
    began: Numbers
    ended: Numbers
    floor: Numbers
    began_us: Numbers
    ended_us: Numbers

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> "Lives":
        """With `subscription`, `floor`, `began`, `ended`, `began_us` and `ended_us`."""
        said = sorted(rows, key=lambda one: (one["subscription"], one["began"]))
        subscription = [one["subscription"] for one in said]
        names = {name: nth for nth, name in enumerate(dict.fromkeys(subscription))}

        def column(name: str) -> Numbers:
            found = (one[name] for one in said)
            return np.array([_NEVER if one is None else one for one in found], np.int64)

        began = column("began")
        whose = np.array([names[one] for one in subscription], np.int64)
        return cls(
            subscription,
            names,
            (whose << _GROUP_BITS) + began,
            *(began, column("ended"), column("floor")),
            *(column("began_us"), column("ended_us")),
        )

    def at(self, codes: Numbers, texts: list[str], groups: Numbers) -> Numbers:
        """The incarnation of each settlement of these groups; -1 if it belongs to none."""
        if not self.subscription:
            return np.full(len(codes), -1)
        whose = np.array([self.names.get(one, -1) for one in texts], np.int64)[codes]
        at = np.searchsorted(self.keys, (whose << _GROUP_BITS) + groups, side="left") - 1
        mine = (whose >= 0) & (at >= 0)
        mine &= (self.keys[at] >> _GROUP_BITS == whose) & (groups <= self.ended[at])
        return np.where(mine, at, -1)


def _micros(at: datetime) -> int:
    return (at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Published:
    """When messages were published, and in which group, by their sequences from `first` on."""

    first: int
    at_us: Numbers
    group: Numbers

    @classmethod
    def of(cls, path: str) -> "Published":
        """All that the table at this path has now."""
        parts = []
        for file, _ in table_files(path):
            with opened(file) as one:
                rows = one.read(columns=["sequence", "published_at", "group"], use_threads=False)
            parts.append(tuple(numbers(rows, name) for name in rows.column_names))
        if not parts:
            return cls(0, np.zeros(0, np.int64), np.zeros(0, np.int64))
        sequence, at_us, group = map(np.concatenate, zip(*parts, strict=True))
        first = int(sequence.min())
        found = np.full((2, int(sequence.max()) - first + 1), _NO_TIME)
        found[:, sequence - first] = at_us, group
        return cls(first, *found)

    def places(self, sequences: Numbers) -> tuple[Numbers, "NDArray[np.bool_]"]:
        """The places of these sequences, and a mask of those that are there."""
        at = sequences - self.first
        known = (at >= 0) & (at < len(self.at_us))
        at[~known] = 0
        return at, known & (self.at_us[at] != _NO_TIME) if len(self.at_us) else known


@dataclass(frozen=True, slots=True)
class Clip:
    """Buckets have this width, and nothing after `until` counts. `clipped`: what was before the
    first bucket is in the one before it, and what had gone by then is left out."""

    width_us: int
    until: datetime | None
    clipped: bool


def can_sum(tables: Tables, claims: Claims) -> bool:
    """Whether tasks can sum up by themselves: the files are within reach, the times of so many
    messages in memory, and the bitmaps of all cursors and of all that selectors select so small
    that they may pass the driver."""
    return (
        within_reach(tables)
        and claims.messages <= MESSAGES_IN_MEMORY
        and claims.messages * len(claims.selectors) <= SELECTED_MAX
        and claims.settled <= EXCEPTIONS_IN_MEMORY
    )


def facts_of(tables: Tables, subscription: str | None) -> Column:
    """FACTS as they are when the query runs, a struct; of one subscription alone, by its id."""
    cursors = tables.cursors.select(*_CURSOR).coalesce(1)
    kind = StructType([StructField("facts", FACTS)])
    return cursors.mapInArrow(FactsOf(tables.folder, subscription), kind).scalar()


@dataclass(frozen=True, slots=True)
class FactsOf:
    """All cursors in, one row of FACTS out. Events and versions are read later than cursors, so all
    that cursors have is among them."""

    folder: str
    subscription: str | None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cursors = [row for batch in batches for row in batch.to_pylist()]
        upto = max((row["group"] for row in cursors), default=_NEVER)
        read = partial(small_table, self.folder)
        events = [row for row in read("subscriptions", _EVENT) if row["group"] <= upto]
        versions = read("log_versions", ("group", "committed_at"))
        if self.subscription is not None:
            events = [row for row in events if row["subscription"] == self.subscription]
        lives = list(_incarnations(events))
        of_cursor = {row["subscription"]: row for row in cursors}
        for life in lives:
            life |= {"owed_from": life["floor"], "owed_to": None, "settled": None}
            cursor = of_cursor.get(life["subscription"])
            if life["ended"] is not None:
                life["owed_to"] = life["ended"] - 1
            elif cursor is not None:
                life |= {"owed_from": cursor["floor"], "owed_to": cursor["group"]}
                life |= {name: cursor[name] for name in ("topic", "selector", "settled")}
        facts = {
            "upto": upto,
            "committed_at": max(
                (row["committed_at"] for row in versions if row["group"] <= upto), default=None
            ),
            "begun_at": min((life["began_us"] for life in lives), default=None),
            "lowest": min(
                (life["owed_from"] for life in lives if life["owed_to"] is not None), default=None
            ),
            "lives": lives,
        }
        schema = arrow_schema(StructType([StructField("facts", FACTS)]))
        yield pa.RecordBatch.from_pylist([{"facts": facts}], schema=schema)


def _incarnations(events: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """As `transforms.schema.incarnations` says."""
    decisive: dict[tuple[str, int], dict[str, Any]] = {}
    for row in events:
        key = row["subscription"], row["group"]
        if row["event"] in DECISIVE and (key not in decisive or row["event"] in BEGINNINGS):
            decisive[key] = row
    rows = [decisive[key] for key in sorted(decisive)]
    for row, after in zip_longest(rows, rows[1:]):
        if row["event"] not in BEGINNINGS:
            continue
        ended = after if after and after["subscription"] == row["subscription"] else {}
        yield {
            **{name: row[name] for name in ("subscription", "topic", "selector", "floor")},
            "began": row["group"],
            "began_us": _micros(row["recorded_at"]),
            "ended": ended.get("group"),
            "ended_us": _micros(ended["recorded_at"]) if ended else None,
        }


def settled_alike(folder: str, lives: DataFrame, known: Sequence[Column], clip: Clip) -> DataFrame:
    """Rows of ALIKE, some for each pair of buckets, of the tables in a folder. What is `known` are
    the first bucket (`first`), and the last group that counts (`upto`)."""
    each = F.struct("subscription", "floor", "began", "ended", "began_us", "ended_us")
    whole = lives.select(F.collect_list(each).alias("lives")).select("lives", *known)
    sums = SettledSums(f"{folder}/messages", clip)
    return summed(whole, Reading(f"{folder}/acks", READ), sums, ALIKE)


@dataclass(frozen=True, slots=True)
class SettledSums:
    """Rows of acks in, rows of ALIKE out, each summed up from what was read together. The messages
    are those of the table at this path."""

    messages: str
    clip: Clip

    def __call__(
        self, known: pa.RecordBatch, parts: Iterable[pa.Table]
    ) -> Iterator[pa.RecordBatch]:
        lives = Lives.of(cast("Any", known.column("lives"))[0].as_py())
        if not lives.subscription:  # no incarnation, so no settlement counts
            return
        upto, first = (cast("Any", known.column(name)[0]).as_py() for name in ("upto", "first"))
        published = Published.of(self.messages)
        for rows in parts:
            yield self._one(rows, lives, published, upto, first)

    def _one(
        self, rows: pa.Table, lives: Lives, published: Published, upto: int, first: int
    ) -> pa.RecordBatch:
        codes, texts = numbered(rows, "subscription")
        outcomes, said = numbered(rows, "outcome")
        groups, sequences = numbers(rows, "group"), numbers(rows, "sequence")
        life = lives.at(codes.astype(np.int64), texts, groups)
        place, there = published.places(sequences)
        never = np.array([one in NEVER for one in said])[outcomes]
        mine = there & (life >= 0) & (groups <= upto) & ~never
        mine &= np.asarray(rows["final"]) & (sequences >= lives.floor[life])
        if Outcome.REDRIVEN.value in said:  # in its message's own group it was never owed
            redriven = outcomes == said.index(Outcome.REDRIVEN.value)
            mine &= ~redriven | (groups != published.group[place])
        life, place = life[mine], place[mine]
        settled = numbers(rows, "settled_at")[mine]
        return alike(lives, life, published.at_us[place], settled, self.clip, first)


def alike(
    lives: Lives, life: Numbers, published: Numbers, settled: Numbers | None, clip: Clip, first: int
) -> pa.RecordBatch:
    """Rows of ALIKE of messages that these incarnations were owed: when each was published, and
    settled; None, if none of them was."""
    ended = lives.ended_us[life]
    came = np.maximum(lives.began_us[life], published)
    went = np.maximum(came, ended if settled is None else np.minimum(settled, ended))
    came_in, went_in = came // clip.width_us, went // clip.width_us
    counted, still = np.full(len(life), fill_value=True), went == _NEVER
    if clip.until is not None:
        until = _micros(clip.until)
        counted, still = came <= until, went > until
    if clip.clipped:
        counted &= still | (went_in >= first)
        came_in = np.maximum(came_in, first - 1)
    was_settled = np.full(len(life), fill_value=False) if settled is None else settled <= ended
    columns: dict[str, pa.Array[Any]] = {
        "life": pa.array(life),
        "came_in": pa.array(came_in),
        "went_in": pa.array(went_in, mask=still),
        "was_settled": pa.array(was_settled),
        "published": pa.array(published),
    }
    keys = list(columns)[:-1]
    rows = pa.table(columns)
    found = (
        (rows if counted.all() else rows.filter(pa.array(counted)))
        .group_by(keys, use_threads=False)
        .aggregate([([], "count_all"), ("published", "min")])
    )
    at = found["life"].to_numpy()
    return pa.RecordBatch.from_arrays(
        [
            pa.array([lives.subscription[one] for one in at.tolist()], pa.string()),
            pa.array(lives.began[at]),
            *(found[name].combine_chunks() for name in keys[1:]),
            found["count_all"].combine_chunks(),
            pc.cast(found["published_min"].combine_chunks(), pa.timestamp("us", "UTC")),
        ],
        names=ALIKE.names,
    )
