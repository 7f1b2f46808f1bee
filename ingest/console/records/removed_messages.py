"""Messages that retention has removed from the log, as Spark's tables have them still.

`messages` has them decoded, without their bytes; `acks` has their settlements. Both are as of the
group that `acks` says of itself.
"""

from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from distributary.ingest.console.log_rows.message_rows import StoredMessage
from distributary.ingest.console.log_rows.record_limits import RecordLimits
from distributary.ingest.console.log_rows.settlement_rows import NEVER_OWED, SettlementOfOne
from distributary.ingest.console.records.message_content import Body, Content, Leaf, Node, body_of
from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.tables.delta.commits import SPARK_APP, microseconds
from distributary.pipeline.tables.delta.store import Store, beside

#: Standard properties that are columns of `messages`.
_PROPERTIES: Final = (
    "message_id",
    "user_id",
    "to",
    "subject",
    "reply_to",
    "correlation_id",
    "content_type",
    "creation_time",
    "group_id",
    "group_sequence",
)
_MESSAGE: Final = (
    *("sequence", "topic", "group", "published_at", "durable", "priority", "expires_at"),
    *("deliver_at", "properties", "body_kind", "body_text", "body_bytes", "error"),
    *_PROPERTIES,
)
_ACKS: Final = (
    *("subscription", "consumer", "outcome", "final", "delivery_count", "delivered_at"),
    *("settled_at", "floor", "group"),
)


@dataclass(frozen=True, slots=True)
class RemovedMessage:
    """A message without its bytes: decoded columns and settlements by group, as of `group`."""

    message: StoredMessage
    content: Content
    rows: tuple[SettlementOfOne, ...]
    group: int


def removed(log: Store, sequence: int, limits: RecordLimits) -> RemovedMessage | None:
    """The message as Spark's tables, which lie beside the log, have it; None if they don't, or
    there are none. Raises StoreError when they can't be read."""
    messages, options = beside(log, "messages"), log.options
    try:
        if not DeltaTable.is_deltatable(messages, options):
            return None
        found = _rows(DeltaTable(messages, storage_options=options), _MESSAGE, sequence)
        if not found:
            return None
        acks = DeltaTable(beside(log, "acks"), storage_options=options)
        rows = [_settlement(row) for row in _rows(acks, _ACKS, sequence)]
        group = acks.transaction_version(SPARK_APP) or 0
    except (DeltaError, OSError, ValueError, pa.ArrowException) as error:
        raise StoreError(f"Spark's tables beside {log.uri} can't be read: {error}") from error
    rows.sort(key=lambda row: (row.group, row.final, row.settled_at))
    said = found[0]
    return RemovedMessage(_message(said), _content(said, limits), tuple(rows), group)


def _rows(table: DeltaTable, columns: tuple[str, ...], sequence: int) -> list[dict[str, Any]]:
    """Files whose statistics leave the sequence out aren't read. A column that came later than the
    table is null."""
    there = {field.name for field in table.schema().fields}
    names = [name for name in columns if name in there]
    wanted = [("sequence", "=", sequence)]
    rows: list[dict[str, Any]] = table.to_pyarrow_table(columns=names, filters=wanted).to_pylist()
    return [dict.fromkeys(columns) | row for row in rows]


def _message(row: dict[str, Any]) -> StoredMessage:
    expires, deliver = row["expires_at"], row["deliver_at"]
    return StoredMessage(
        row["sequence"],
        row["topic"],
        row["group"],
        microseconds(row["published_at"]),
        bool(row["durable"]),
        int(row["priority"]),
        None if expires is None else microseconds(expires),
        None if deliver is None else microseconds(deliver),
        b"",
    )


def _content(row: dict[str, Any], limits: RecordLimits) -> Content:
    properties = tuple(
        (name.replace("_", "-"), _leaf("", row[name]))
        for name in _PROPERTIES
        if row[name] is not None
    )
    pairs = dict(row["properties"] or {}).items()
    application = tuple((name, _leaf(one["type"], _value(one))) for name, one in pairs)
    value = row["body_bytes"] if row["body_text"] is None else row["body_text"]
    body: Body = body_of(value, row["body_kind"] or "none", row["content_type"] or "", limits)
    return Content((), (), properties, application, (), body, row["error"] or "")


def _value(one: dict[str, Any]) -> object:
    fields = ("text", "long", "double", "boolean", "binary")
    return next((one[name] for name in fields if one[name] is not None), None)


def _leaf(kind: str, value: object) -> Node:
    match value:
        case None:
            return Leaf(kind, "null")
        case bool():
            return Leaf(kind, "true" if value else "false")
        case bytes():
            return Leaf(kind, value.hex(" "))
        case _:
            return Leaf(kind, str(value))


def _settlement(row: dict[str, Any]) -> SettlementOfOne:
    delivered, outcome = row["delivered_at"], Outcome(row["outcome"])
    handed = delivered is not None and outcome not in NEVER_OWED
    return SettlementOfOne(
        row["subscription"],
        row["consumer"] or "",
        outcome,
        row["final"],
        row["delivery_count"],
        microseconds(delivered) if handed else None,
        microseconds(row["settled_at"]),
        row["floor"] or 0,
        row["group"],
    )
