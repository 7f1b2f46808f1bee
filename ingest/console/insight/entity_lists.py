"""Lists of subscriptions, queues and topics: what is searched, how it is sorted, which page of it
is shown.

Rule 1: a search finds what has all of its words, in any case, in its name, topic or selector;
        `is:paused`, `is:idle` (backlog and no consumer), `is:unreadable` and `is:temporary` find
        what is so, `log:NAME` what is in that log.
Rule 2: equal rows are sorted by name and log, so pages never show a row twice.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from distributary.pipeline.management.management_messages import Entity

#: Attributes of an entity.
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list. `kind` says how it is written: name, topic, number, size or state."""

    key: str
    heading: str
    kind: str


_STATE: Final = Column("state", "State", "state")
_NUMBERS: Final = (
    Column("backlog", "Backlog", "number"),
    Column("backlog_bytes", "Bytes", "size"),
    Column("in_flight", "In flight", "number"),
    Column("consumers", "Consumers", "number"),
)
COLUMNS: Final[Mapping[Entity, tuple[Column, ...]]] = {
    Entity.SUBSCRIPTION: (
        Column("name", "Subscription", "name"),
        Column("topic", "Topic", "topic"),
        *_NUMBERS,
        _STATE,
    ),
    Entity.QUEUE: (
        Column("name", "Queue", "name"),
        *_NUMBERS,
        Column("producers", "Producers", "number"),
        _STATE,
    ),
    Entity.TOPIC: (
        Column("name", "Topic", "name"),
        Column("subscription_count", "Subscriptions", "number"),
        Column("consumers", "Consumers", "number"),
        Column("producers", "Producers", "number"),
    ),
    Entity.NODE: (),
}
#: Behind the name, where there are several logs.
_LOG: Final = Column("log", "Log", "topic")
#: Attributes that the columns and searches of each type need.
ATTRIBUTES: Final[Mapping[Entity, tuple[str, ...]]] = {
    Entity.SUBSCRIPTION: (
        *("log", "name", "topic", "durable", "shared", "selector", "origin", "paused", "consumers"),
        *("in_flight", "backlog", "backlog_bytes", "unreadable"),
    ),
    Entity.QUEUE: (
        *("log", "name", "subscription", "topic", "durable", "selector", "paused", "consumers"),
        *("in_flight", "backlog", "backlog_bytes", "unreadable", "producers"),
    ),
    Entity.TOPIC: ("log", "name", "producers", "consumers", "subscriptions"),
    Entity.NODE: (),
}


def columns(entity: Entity, *, several: bool) -> tuple[Column, ...]:
    """The columns of a list; `several`: of several logs."""
    name, *others = COLUMNS[entity]
    return (name, _LOG, *others) if several else (name, *others)


def states(row: Row) -> list[str]:
    """Unusual states of a row, the worst first."""
    found = {
        "unreadable": bool(row.get("unreadable")),
        "idle": bool(row.get("backlog")) and not row.get("consumers"),
        "paused": bool(row.get("paused")),
        "temporary": row.get("durable") is False,
    }
    return [word for word, holds in found.items() if holds]


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted part of a list. `page` begins with 1."""

    search: str = ""
    sort: str = "name"
    down: bool = False
    page: int = 1


@dataclass(frozen=True, slots=True)
class Part:
    """A page of a list: its rows, how many were found, and of how many."""

    rows: Sequence[Row]
    found: int
    total: int
    page: int
    pages: int


def part(entity: Entity, rows: Sequence[Row], wanted: Wanted, size: int) -> Part:
    """The page that is wanted; the last one when there are fewer."""
    words = wanted.search.casefold().split()
    found = [row for row in rows if _fits(row, words)] if words else list(rows)
    sort = wanted.sort
    sort = sort if sort in {one.key for one in columns(entity, several=True)} else "name"
    found.sort(key=lambda row: (str(row["name"]), str(row["log"])))
    if sort != "name" or wanted.down:
        found.sort(key=_sorting(sort), reverse=wanted.down)
    pages = max((len(found) + size - 1) // size, 1)
    page = min(max(wanted.page, 1), pages)
    return Part(found[(page - 1) * size : page * size], len(found), len(rows), page, pages)


def _sorting(key: str) -> Callable[[Row], tuple[int, float, str]]:
    def by(row: Row) -> tuple[int, float, str]:
        value = row.get(key)
        if key == "state":
            return (-len(states(row)), 0.0, " ".join(states(row)))
        if isinstance(value, int | float):
            return (0, float(value), "")
        return (0, 0.0, str(value or ""))

    return by


def _fits(row: Row, words: Sequence[str]) -> bool:
    text = f"{row['name']}\n{row.get('topic') or ''}\n{row.get('selector') or ''}".casefold()

    def fits(word: str) -> bool:
        if word.startswith("is:"):
            return word[3:] in states(row)
        return row["log"] == word[4:] if word.startswith("log:") else word in text

    return all(map(fits, words))
