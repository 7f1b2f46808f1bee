"""A topic_log written by hand, as the gateway's committer would: one commit of whole groups."""

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from proton import Message

from distributary.pipeline.schemas.column_types import spark_json
from distributary.pipeline.schemas.json_columns import json_columns
from distributary.pipeline.tables.arrow.topic_log_schema import CONFIGURATION, PARTITIONS, SCHEMA

BEGIN = datetime(2026, 11, 21, 23, 59, 0, tzinfo=UTC)

Value: TypeAlias = str | int | bool | bytes | date | datetime | list[int] | None
Row: TypeAlias = dict[str, Value]


def encoded(text: str = "hello", **fields: object) -> bytes:
    """A message as Proton's own encoder makes it."""
    return Message(body=text, durable=True, **fields).encode()


def encoded_bytes(data: bytes) -> bytes:
    """A message with a data section, as Proton's own encoder makes it."""
    return Message(body=data, inferred=True, durable=True).encode()


def columns_text(definition: str) -> str:
    """The columns of a JSON Schema, as the event of its version has them."""
    return json.dumps(spark_json(json_columns(definition).columns))


@dataclass
class LogWriter:
    """Rows are collected group by group; `commit` writes all of them as one version."""

    path: Path
    group: int = 0
    sequence: int = 0
    rows: list[Row] = field(default_factory=list)
    known: list[Row] = field(default_factory=list)  #: all rows, committed or not

    def __post_init__(self) -> None:
        if not DeltaTable.is_deltatable(str(self.path)):  # a test may have copied one there
            DeltaTable.create(
                self.path,
                SCHEMA,
                partition_by=PARTITIONS,
                configuration=dict(CONFIGURATION),
            )

    @property
    def now(self) -> datetime:
        """Six seconds for each group; the tenth and all after are on the next day."""
        return BEGIN + timedelta(seconds=6 * self.group)

    def next_group(self) -> int:
        self.group += 1
        return self.group

    def publish(
        self,
        topic: str,
        *messages: bytes,
        durable: bool = True,
        expires_at: datetime | None = None,
        deliver_at: datetime | None = None,
        priority: int = 4,
    ) -> range:
        first = self.sequence
        for message in messages:
            self._row(
                record="message",
                topic=topic,
                sequence=self.sequence,
                published_at=self.now,
                durable=durable,
                priority=priority,
                message=message,
                expires_at=expires_at,
                deliver_at=deliver_at,
            )
            self.sequence += 1
        return range(first, self.sequence)

    def subscribe(
        self,
        subscription: str,
        topic: str,
        *,
        event: str = "created",
        floor: int | None = None,
        selector: str | None = None,
    ) -> None:
        self._row(
            record="subscription",
            subscription=subscription,
            topic=topic,
            event=event,
            floor=self.sequence if floor is None else floor,
            shared=True,
            selector=selector,
            no_local=False,
            recorded_at=self.now,
        )

    def schema(self, topic: str, text: str) -> None:
        """An event of a schema; `text` as `pipeline.schemas.schema_text` has it."""
        self._row(
            record="subscription",
            subscription=f"schema/{topic}",
            topic=topic,
            event="schema",
            floor=self.sequence,
            policy=text,
            recorded_at=self.now,
        )

    def settle(
        self,
        subscription: str,
        topic: str,
        sequences: list[int],
        floor: int,
        *,
        outcome: str = "accepted",
        final: bool | None = None,
        consumer: str = "worker-1/dispatchers",
        delivery_count: int = 0,
        delivered_at: datetime | None = None,
        settled_at: datetime | None = None,
    ) -> None:
        self._row(
            record="settlement",
            subscription=subscription,
            topic=topic,
            sequences=sorted(sequences),
            floor=floor,
            outcome=outcome,
            final=outcome in ("accepted", "rejected") if final is None else final,
            consumer=consumer,
            delivery_count=delivery_count,
            delivered_at=delivered_at or self.now - timedelta(seconds=1),
            settled_at=settled_at or self.now,
        )

    def commit(self) -> int:
        """One version with all the rows; returns it."""
        table = pa.Table.from_pylist(self.rows, schema=SCHEMA)
        transactions = [Transaction("journal", self.group), Transaction("sequence", self.sequence)]
        write_deltalake(
            self.path,
            table,
            mode="append",
            commit_properties=CommitProperties(app_transactions=transactions),
        )
        self.rows.clear()
        return DeltaTable(self.path).version()

    def compact(self) -> None:
        DeltaTable(self.path).optimize.compact()

    def _row(self, **values: Value) -> None:
        self.rows.append({"day": self.now.date(), "group": self.group, **values})
        self.known.append(self.rows[-1])
