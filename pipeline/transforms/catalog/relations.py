"""Tables and views as a catalog has them: names, comments, and where each comes from.

Rule: a view here is a text of SQL over tables and other views. A view that asks a gateway, or has
      arguments, can't be such a text, and stands in LEFT_OUT.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Final, TypeAlias

from pyspark.sql.types import StructType

from distributary.pipeline.distinct_names import distinct
from distributary.pipeline.table_places import FOLDER
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS
from distributary.pipeline.transforms.schema.spark_schema import ACKS, MESSAGES, REJECTED
from distributary.pipeline.transforms.selector.selecting import selected_sql
from distributary.pipeline.transforms.selector.term_renderings import quoted_name, text_literal

#: Name -> comment, in the order of the columns.
Comments: TypeAlias = Mapping[str, str]

#: Meaning of one row of each table and view.
ROWS: Final = {
    "messages": "One message, decoded",
    "acks": "One message and what became of it once, for one subscription",
    "subscriptions": "One event in the life of a subscription",
    "schemas": "One version of a topic's schema, or its drop",
    "log_versions": "One version of topic_log",
    "cursors": "One durable subscription, where it stands",
    "rejected": "One message that doesn't fit the schema of its topic, with the reason",
    "deliveries": "One delivery of a message to a consumer that has ended",
    "events": "One thing that happened to a message or a subscription",
    "consumers": "One consumer of a subscription: its deliveries, their outcomes and times",
    "pending": "One message that a durable subscription is owed",
}
#: Views that are no SQL, and why.
LEFT_OUT: Final = {
    "backlog": "its buckets are a plan that is built anew for each width and window",
    "backlog_minutes": "its buckets are a plan that is built anew for each width and window",
    "stuck": "it asks a gateway",
    "stuck_summary": "it asks a gateway",
}
_SUBSCRIPTION: Final = {"subscription": "id of the durable subscription"}
_VIEWS: Final[Mapping[str, Comments]] = {
    "deliveries": {one.name: one.metadata["comment"] for one in ACKS},
    "events": {
        "at": "when",
        "event": "published, delivered, an outcome as in acks, or an event as in subscriptions",
        **_SUBSCRIPTION,
        "topic": "topic of the message; what the subscription claims",
        "sequence": "the message; null for events of subscriptions",
        "consumer": "container and link; null if no consumer had it",
        "by": "the user who did it; null for events of messages, or if not recorded",
        "group": "group of the journal with which it became durable",
    },
    "consumers": {
        **_SUBSCRIPTION,
        "consumer": "container and link",
        "deliveries": "its deliveries that have an outcome",
        "accepted": "of them accepted",
        "rejected": "rejected, and kept nowhere",
        "released": "given back with no failure",
        "lost": "in flight when the consumer was lost",
        "modified": "given back as failed, or as undeliverable here",
        "dead_lettered": "given up; a copy is in the dead letters",
        "expired": "expired while it was held",
        "dropped": "given up, as the backlog was full",
        "share": "its part of the subscription's deliveries, 0 to 1",
        "per_second": "deliveries a second, from the subscription's first to its last outcome",
        "settle_seconds_p50": "seconds from delivery to outcome: half of them took no longer",
        "settle_seconds_p90": "nine of ten",
        "settle_seconds_p99": "99 of 100",
        "first_seen": "its first delivery",
        "last_seen": "its last outcome",
    },
    "pending": {
        **_SUBSCRIPTION,
        **{one.name: one.metadata["comment"] for one in MESSAGES},
        "expired": "its expires_at is over",
        "delayed": "its deliver_at is to come",
    },
}
#: The views, each after those that it reads.
VIEWS: Final = tuple(_VIEWS)
#: Spark's own catalog.
SESSION_CATALOG: Final = "spark_catalog"
_TOPICS: Final = f"{FOLDER}/"
#: Characters that no name in a catalog may have: Hive's metastore refuses them.
NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9_]")


@dataclass(frozen=True, slots=True)
class Relation:
    """A table, which lies in `folder` below the home's tables, or a view, whose folder is empty."""

    name: str
    says: str
    columns: Comments
    folder: str = ""

    @property
    def topic(self) -> str:
        """The name of a typed table's folder, made of its topic's; empty for others."""
        return self.folder.removeprefix(_TOPICS) if self.folder.startswith(_TOPICS) else ""


def tables(typed: Mapping[str, StructType], *, with_rejected: bool) -> list[Relation]:
    """The tables of a home. `typed` are its typed ones, by their folders' names."""
    kinds = {**SCHEMAS, **({"rejected": REJECTED} if with_rejected else {})}
    found = [Relation(name, ROWS[name], _comments(kind), name) for name, kind in kinds.items()]
    for folder, name in typed_names(typed).items():
        says = f"One message of the topic {_topic(folder)}, by its schema"
        found.append(Relation(name, says, _comments(typed[folder]), f"{_TOPICS}{folder}"))
    return found


def views() -> list[Relation]:
    """The views that a catalog can have, each after those that it reads."""
    return [Relation(name, ROWS[name], columns) for name, columns in _VIEWS.items()]


def query(view: str, named: Mapping[str, str], selectors: Iterable[str] = ()) -> str:
    """The SQL of a view. `named` has the names in the catalog of the tables and views that it
    reads, `selectors` are those of all subscriptions."""
    text = resources.files(__package__).joinpath("sql", f"{view}.sql").read_text()
    columns = ", ".join(f"m.`{name}`" for name in MESSAGES.names)
    words = {**named, "columns": columns, "selected": selected_sql("c.selector", selectors)}
    return re.sub(r"\{(\w+)\}", lambda found: words[found[1]], text)


def typed_names(folders: Iterable[str]) -> dict[str, str]:
    """The names of typed tables in a catalog, by their folders'."""
    return distinct(
        (one, f"topics_{NOT_IN_NAMES.sub('_', one.lower())}") for one in sorted(folders)
    )


def _topic(folder: str) -> str:
    """The topic of which a folder's name was made."""
    return re.sub(
        r"(?:~[0-9a-f]{2})+",
        lambda found: bytes.fromhex(found[0].replace("~", "")).decode(errors="replace"),
        folder,
    )


def _comments(kind: StructType) -> Comments:
    return {one.name: (one.metadata or {}).get("comment", "") for one in kind}


def column_list(columns: Comments) -> str:
    """Columns with their comments, as `CREATE VIEW` has them."""
    return ", ".join(f"`{name}` COMMENT {text_literal(says)}" for name, says in columns.items())


def identifier(*parts: str) -> str:
    """A name in SQL, of its parts."""
    return ".".join(map(quoted_name, parts))
