"""The lives of subscriptions by their events: the incarnations of each, with
the users that caused them.

An event of BEGINNINGS begins an incarnation and ends the one before; so does `deleted`, and inside
of one group a beginning wins. A settlement belongs to the incarnation that began in a group before
its own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.console.log_rows.log_files import LogFiles
from distributary.pipeline.model.subscription import BEGINNINGS, SubscriptionEvent
from distributary.pipeline.model.topic_pattern import matches
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.arrow_types import Chunked
from distributary.pipeline.tables.delta.commits import AddedFile, microseconds

_COLUMNS: Final = (
    "group",
    "subscription",
    "event",
    "topic",
    "shared",
    "selector",
    "no_local",
    "floor",
    "recorded_at",
    "by",
)
_DECISIVE: Final = sorted(event.value for event in [*BEGINNINGS, SubscriptionEvent.DELETED])
_KIND: Final = pa.schema(
    [topic_log_schema.FILES[topic_log_schema.SUBSCRIPTION].field(name) for name in _COLUMNS]
)


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a subscription: its kind, group, time (microseconds) and user; None if the
    gateway caused it, or the user is unknown."""

    what: SubscriptionEvent
    group: int
    at: int
    by: str | None


@dataclass(frozen=True, slots=True)
class Incarnation:
    """A subscription's claim from one event of BEGINNINGS to the next, or to its end: messages of
    its topic (or pattern) from `floor` on that its selector selects."""

    subscription: str
    topic: str
    shared: bool
    selector: str | None
    no_local: bool
    floor: int
    began: Event
    ended: Event | None

    def has(self, group: int) -> bool:
        """Whether a settlement of this group belongs to it."""
        return self.began.group < group and (self.ended is None or group <= self.ended.group)

    def owes(self, sequence: int, group: int) -> bool:
        """Whether it is owed a message of its topic that has this sequence and is of this group, if
        its selector selects it."""
        return self.floor <= sequence and (self.ended is None or group < self.ended.group)


class Lives:
    """The lives of all subscriptions, kept as columns; rows are made when one is asked for."""

    def __init__(self, events: pa.Table) -> None:
        self._events = events

    @classmethod
    def read(cls, files: LogFiles, of: Iterable[AddedFile]) -> "Lives":
        """The lives in these files. Raises Replaced and StoreError."""
        tables = [table for file in of for table in files.scan(file, _COLUMNS)]
        events = pa.concat_tables([_KIND.empty_table(), *tables])
        decisive = pc.is_in(events["event"], value_set=pa.array(_DECISIVE, pa.string()))
        return cls(events.filter(decisive))

    def of_topic(self, topic: str) -> list[Incarnation]:
        """The incarnations that claim messages of this topic, by subscription and time."""
        names = [name for name in _texts(pc.unique(self._events["topic"])) if matches(name, topic)]
        claims = self._only("topic", names)
        return [one for one in self._incarnations(_texts(claims)) if matches(one.topic, topic)]

    def of(self, subscription: str) -> list[Incarnation]:
        """The incarnations of one subscription, by time; none if there never was one."""
        return self._incarnations([subscription])

    def current(self, subscription: str) -> Incarnation | None:
        """The incarnation of a subscription that lives."""
        found = self.of(subscription)
        return found[-1] if found and found[-1].ended is None else None

    def _only(self, column: str, values: Sequence[str]) -> Chunked:
        """The subscriptions that have one of these values in any event."""
        some = pc.is_in(self._events[column], value_set=pa.array(values, pa.string()))
        return pc.unique(self._events.filter(some)["subscription"])

    def _incarnations(self, subscriptions: Sequence[str]) -> list[Incarnation]:
        some = pa.array(subscriptions, pa.string())
        rows = self._events.filter(pc.is_in(self._events["subscription"], value_set=some))
        of: dict[str, dict[int, dict[str, Any]]] = {}
        for row in rows.to_pylist():
            groups = of.setdefault(row["subscription"], {})
            known = groups.get(row["group"])
            if known is None or row["event"] in BEGINNINGS:
                groups[row["group"]] = row
        return [
            one for name in sorted(of) for one in _of_one([of[name][g] for g in sorted(of[name])])
        ]


def _of_one(rows: list[dict[str, Any]]) -> Iterable[Incarnation]:
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        if row["event"] in BEGINNINGS:
            yield Incarnation(
                row["subscription"],
                row["topic"],
                bool(row["shared"]),
                row["selector"],
                bool(row["no_local"]),
                row["floor"],
                _event(row),
                None if after is None else _event(after),
            )


def _event(row: dict[str, Any]) -> Event:
    at = microseconds(row["recorded_at"])
    return Event(SubscriptionEvent(row["event"]), row["group"], at, row["by"])


def _texts(column: object) -> list[str]:
    return [str(one) for one in column.to_pylist()]  # type: ignore[attr-defined]
