"""The transactions of a log that are prepared or decided and haven't ended, read at a start."""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.message import TransactionRecord
from distributary.pipeline.model.subscription import (
    ENDS_OF_TRANSACTIONS,
    OPEN_TRANSACTIONS,
    SubscriptionEvent,
)
from distributary.pipeline.tables.arrow import topic_log_schema
from distributary.pipeline.tables.arrow.arrow_types import Chunked
from distributary.pipeline.tables.recovery.standpoints import OpenTransaction
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

_OPEN: Final = pa.array(sorted(event.value for event in OPEN_TRANSACTIONS), pa.string())
_EVENTS: Final = pa.array(
    sorted(event.value for event in OPEN_TRANSACTIONS | ENDS_OF_TRANSACTIONS), pa.string()
)
_ORDER: Final = ["group", "event"]
_COLUMNS: Final = ["group", "event", "subscription", "floor", "by", "recorded_at", "message"]


def of_transactions(events: Chunked) -> npt.NDArray[np.bool_]:
    """Return which of these events are of prepared or decided transactions."""
    return np.asarray(pc.is_in(events, value_set=_EVENTS))


def open_of(table: pa.Table) -> dict[str, int]:
    """Return the transactions without an end in all events of a log (columns `group`,
    `subscription`, `event`): their ids there, and the groups in which they were prepared or
    decided. An id may be used again after its end, in a later group."""
    last: dict[str, tuple[int, str]] = {}
    for row in table.filter(pa.array(of_transactions(table["event"]))).to_pylist():
        name, said = row["subscription"], (row["group"], row["event"])
        last[name] = max(last.get(name, said), said)
    return {name: at for name, (at, event) in last.items() if event in OPEN_TRANSACTIONS}


def read(log: TopicLog, open_: dict[str, int]) -> tuple[OpenTransaction, ...]:
    """Read the records of these transactions, in the order of the log. Their work may be many
    megabytes, so only files that have such events are read. Raises StoreError."""
    try:
        found = list(_rows(log, open_)) if open_ else []
    except (OSError, pa.ArrowException) as error:
        raise StoreError(f"{log.path} can't be read: {error}") from error
    if lost := open_.keys() - {event.record.id for _, event in found}:
        raise StoreError(
            f"{log.path} lacks the work of the transaction {min(lost)}. Restore the table from a "
            "copy"
        )
    return tuple(event for _, event in sorted(found, key=lambda one: one[0]))


def _rows(log: TopicLog, open_: dict[str, int]) -> Iterator[tuple[int, OpenTransaction]]:
    groups = pa.array(sorted(set(open_.values())), pa.int64())
    for opened in log.parquets(topic_log_schema.SUBSCRIPTION, min(open_.values()) - 1):
        with opened as file:
            order = file.read(columns=_ORDER, use_threads=False)
            open_events = pc.is_in(order["event"], value_set=_OPEN)
            wanted = pc.and_(open_events, pc.is_in(order["group"], value_set=groups))
            if not pc.any(wanted).as_py() or "message" not in file.schema_arrow.names:
                continue
            rows = file.read(columns=_COLUMNS, use_threads=False).filter(wanted)
        for row in rows.to_pylist():
            if open_.get(row["subscription"]) == row["group"]:
                yield row["group"], _event(row)


def _event(row: dict[str, Any]) -> OpenTransaction:
    _, id_, *user = row["subscription"].split("/")
    by, work, at = row["by"] or "", row["message"] or b"", row["recorded_at"]
    event = SubscriptionEvent(row["event"])
    record = TransactionRecord(event, id_, row["floor"], by, work, unquote("".join(user)))
    return OpenTransaction(record, int(at.timestamp() * 1_000_000))
