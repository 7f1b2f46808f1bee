"""Spark's tables of a home as many batches leave them: four days, many small files each."""

from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

from distributary.pipeline.tables.arrow.topic_log_schema import CONFIGURATION, PARTITIONS, SCHEMA
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS

#: The days that the tables have, ten messages a day, a group for each message.
FIRST_DAY = date(2026, 11, 17)
DAYS, MESSAGES_A_DAY = 4, 10
TODAY = date(2026, 11, 30)

PARTITIONED = {"messages", "acks"}


def fill(home: Home, *, floor: int = 40, batches: int = 5, names: Iterable[str] = SCHEMAS) -> None:
    """All tables, as `batches` appends for each day, and a topic_log that has the last day only.

    The one subscription is owed what lies from `floor` on.
    """
    for name in names:
        _write(home, name, list(_rows(name, floor)), batches)
        # As if VACUUM had just been there: it takes as long as all the rest.
        (home.spark_tables / name / "_delta_log" / "_last_vacuum_info").touch()
    write_log(home, FIRST_DAY + timedelta(days=DAYS - 1))


def write_log(home: Home, day: date) -> None:
    """A topic_log with one message, of that day."""
    table = DeltaTable.create(
        home.topic_log, SCHEMA, partition_by=PARTITIONS, configuration=dict(CONFIGURATION)
    )
    row = {"record": "message", "day": day, "group": 1, "sequence": 1, "topic": "t"}
    write_deltalake(table, pa.Table.from_pylist([row], schema=SCHEMA), mode="append")


def _rows(name: str, floor: int) -> Iterator[dict[str, object]]:
    if name == "cursors":
        yield {"subscription": "global/s", "topic": "t", "floor": floor, "group": 39}
        return
    for sequence in range(DAYS * MESSAGES_A_DAY):
        day = FIRST_DAY + timedelta(days=sequence // MESSAGES_A_DAY)
        at = datetime(day.year, day.month, day.day, 12, tzinfo=UTC)
        known = {"sequence": sequence, "day": day, "group": sequence, "subscription": "global/s"}
        times = {"published_at": at, "settled_at": at, "log_version": sequence}
        yield known | times | {"topic": "t", "body_text": f"m{sequence}", "outcome": "accepted"}


def _write(home: Home, name: str, rows: list[dict[str, object]], batches: int) -> None:
    """One append of each day's rows for each batch, of its own transaction, as the job has it."""
    schema, path = SCHEMAS[name], home.spark_tables / name
    # Spark's and Delta's schemas are the same JSON, and no JVM is asked.
    table = DeltaTable.create(
        path,
        Schema.from_json(schema.json()),
        partition_by=["day"] if name in PARTITIONED else None,
    )
    arrow = pa.schema(table.schema().to_arrow())
    for number in range(batches):
        values = [
            {key: value for key, value in row.items() if key in schema.names}
            for row in rows[number::batches]
        ]
        if values:
            write_deltalake(
                path,
                pa.Table.from_pylist(values, schema=arrow),
                mode="append",
                commit_properties=CommitProperties(
                    app_transactions=[Transaction(f"job/{name}", number)]
                ),
            )


def content(home: Home) -> dict[str, list[str]]:
    """All rows of all tables, in an order of their own."""
    return {
        name: sorted(str(row) for row in DeltaTable(path).to_pyarrow_table().to_pylist())
        for name in SCHEMAS
        if (path := home.spark_tables / name).exists()
    }


def files(path: Path) -> int:
    return len(DeltaTable(path).file_uris())


def versions(home: Home) -> dict[str, int]:
    return {
        name: DeltaTable(path).version()
        for name in SCHEMAS
        if (path := home.spark_tables / name).exists()
    }
