"""Tables and views of a catalog as a source of dbt: `sources.yml`, with descriptions and tests.

The tests hold at any time, also after retention. So no test asks that the message of an ack is
there: messages are removed before their acks.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import NOT_OF_SUBSCRIPTIONS, SubscriptionEvent
from distributary.pipeline.transforms.catalog.relations import SESSION_CATALOG, Relation

SOURCE: Final = "distributary"
#: Columns whose names are words of SQL.
QUOTED: Final = frozenset({"group", "to"})
#: Columns of each table that are never null. All others may be null.
NOT_NULL: Final[Mapping[str, tuple[str, ...]]] = {
    "messages": ("sequence", "topic", "day", "published_at", "group", "durable", "priority"),
    "acks": ("subscription", "topic", "sequence", "outcome", "final", "settled_at", "group", "day"),
    "subscriptions": ("subscription", "topic", "event", "group", "recorded_at"),
    "schemas": ("topic", "event", "floor", "group", "recorded_at"),
    "log_versions": ("log_version", "group", "committed_at"),
    "cursors": ("subscription", "topic", "shared", "floor", "settled", "group", "log_version"),
    "rejected": ("topic", "sequence", "schema_version", "reason", "place", "message", "day"),
    "deliveries": ("subscription", "sequence", "consumer", "outcome", "delivered_at"),
    "events": ("at", "event", "topic", "group"),
    "consumers": ("subscription", "consumer", "deliveries", "share"),
    "pending": ("subscription", "sequence", "topic", "expired", "delayed"),
}
#: Columns in which each value stands once.
UNIQUE: Final = frozenset(
    {
        *(("messages", "sequence"), ("log_versions", "log_version")),
        *(("cursors", "subscription"), ("rejected", "sequence")),
    }
)
#: A column of one table -> the column of another that has its values.
RELATIONSHIPS: Final = {
    ("acks", "subscription"): ("subscriptions", "subscription"),
    ("cursors", "subscription"): ("subscriptions", "subscription"),
    ("pending", "subscription"): ("cursors", "subscription"),
    ("pending", "sequence"): ("messages", "sequence"),
}
#: Columns with few values.
ACCEPTED: Final = {
    ("acks", "outcome"): tuple(sorted(one.value for one in Outcome)),
    ("subscriptions", "event"): tuple(
        sorted(one.value for one in {*SubscriptionEvent} - NOT_OF_SUBSCRIPTIONS)
    ),
    ("schemas", "event"): ("dropped", "set"),
}


def sources(
    catalog: str, schema: str, relations: Sequence[Relation], logs: Sequence[str] = ()
) -> str:
    """The text of `sources.yml` for tables and views that `catalog`.`schema` has. `logs` are those
    of a lake: each log counts for itself, so no column is unique there."""
    there = {one.name for one in relations}
    lines = [
        "# Written by `distributary jobs register --dbt`.",
        "version: 2",
        "sources:",
        f"  - name: {SOURCE}",
        *([] if catalog == SESSION_CATALOG else [f"    database: {_text(catalog)}"]),
        f"    schema: {_text(schema)}",
        '    description: "Messages, what became of them, and subscriptions"',
        "    tables:",
    ]
    for relation in relations:
        lines += _relation(relation, there, logs)
    return "\n".join(lines) + "\n"


def _relation(relation: Relation, there: set[str], logs: Sequence[str]) -> Iterator[str]:
    yield f"      - name: {relation.name}"
    yield f"        description: {_text(relation.says)}"
    yield "        columns:"
    for name, says in relation.columns.items():
        yield f"          - name: {_text(name)}"
        if says:
            yield f"            description: {_text(says)}"
        if name in QUOTED:
            yield "            quote: true"
        tests = list(_tests(relation, name, there, logs))
        if tests:
            yield "            data_tests:"
            yield from (f"              {line}" for line in tests)


def _tests(relation: Relation, column: str, there: set[str], logs: Sequence[str]) -> Iterator[str]:
    own = (relation.name, column)
    if logs and column == next(iter(relation.columns)):
        yield from ("- not_null", *_accepted(logs))
        return
    if not logs and (own in UNIQUE or (relation.topic and column == "_sequence")):
        yield "- unique"
    if column in NOT_NULL.get(relation.name, ("_sequence", "_published_at", "_schema_version")):
        yield "- not_null"
    to = RELATIONSHIPS.get(own)
    if to is not None and to[0] in there:
        yield "- relationships:"
        yield "    arguments:"
        yield f"      to: source('{SOURCE}', '{to[0]}')"
        yield f"      field: {to[1]}"
    if own in ACCEPTED:
        yield from _accepted(ACCEPTED[own])


def _accepted(values: Sequence[str]) -> tuple[str, ...]:
    said = ", ".join(map(_text, values))
    return ("- accepted_values:", "    arguments:", f"      values: [{said}]")


def _text(text: str) -> str:
    """A text in YAML, whose double quotes are JSON's."""
    return json.dumps(text, ensure_ascii=False)
