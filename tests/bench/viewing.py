"""How long a person waits for a view: a million messages, a hundred subscriptions.

The tables are as `materialize` leaves them, written by its own writer. Each topic has ten
subscriptions, one of them with a selector. All of them have settled the first four fifths of their
topic and every third message of the rest, so every view has something to say of each of them. Each
view is asked twice, as SQL, in a session as notebooks have it; the first one pays for what the
session does once, the second time (`again`) its code is compiled.
"""

from collections.abc import Iterable, Iterator
from hashlib import sha1
from itertools import islice
from pathlib import Path
from time import monotonic
from typing import Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyroaring import BitMap64
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from distributary.jobs.session.session import session
from distributary.jobs.tables.spark_tables import SHAPES, SparkTable
from distributary.pipeline.tables.delta.row_files import RowFile, RowFiles
from distributary.pipeline.transforms.materialize.cursors import Cursor, listed
from distributary.pipeline.transforms.schema.home_tables import SCHEMAS
from distributary.pipeline.transforms.schema.spark_schema import (
    ACKS,
    CURSORS,
    LOG_VERSIONS,
    MESSAGES,
    SUBSCRIPTIONS,
    arrow_schema,
)
from distributary.pipeline.transforms.views.view_registry import register
from tests.bench.bench import Bench, Measurement
from tests.bench.server import fresh_home

COUNT: Final = 1_000_000
TOPICS: Final = 10
#: Subscriptions of each topic.
EACH: Final = 10
#: Messages of one group, which are settled in the next one.
TOGETHER: Final = 1_000
BEGIN: Final = 1_795_000_000
#: Seconds of publishing; so many hours has `backlog`.
LASTS_SECONDS: Final = 6 * 3600
#: The longest that a consumer takes, microseconds.
SETTLES_US: Final = 50_000
SELECTOR: Final = "JMSPriority >= 4"
#: Of the rest one in so many is settled.
EVERY: Final = 3
END_US: Final = (BEGIN + LASTS_SECONDS) * 1_000_000
#: Rows of a batch, about, and batches of a file.
BATCH: Final = 50_000
BATCHES_IN_FILE: Final = 40

Numbers: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

#: What is asked, and how.
QUERIES: Final = {
    "first": "SELECT count(*) FROM cursors",
    "pending": "SELECT subscription, count(*) FROM pending GROUP BY subscription",
    "backlog": "SELECT * FROM backlog",
    "backlog_minutes": "SELECT * FROM backlog_minutes",
    "stuck_summary": "SELECT * FROM stuck_summary",
    "deliveries": "SELECT outcome, count(*) FROM deliveries GROUP BY outcome",
    "consumers": "SELECT * FROM consumers",
    "events": "SELECT event, count(*) FROM events GROUP BY event",
    "dead_letters": "SELECT reason, count(*) FROM dead_letters GROUP BY reason",
}


def viewing(bench: Bench) -> Measurement:
    """Seconds of each query."""
    measurement = Measurement()
    with fresh_home(bench.folder) as folder:
        spark = session()
        make(spark, folder, bench.settings.count(COUNT))
        spark.stop()
        spark = session()
        for name, seconds in asked(spark, folder).items():
            measurement.facts[f"{name}_s"] = seconds
        for name, seconds in asked(spark, folder).items():
            measurement.facts[f"{name}_again_s"] = seconds
        spark.stop()
    measurement.messages = bench.settings.count(COUNT)
    return measurement


def asked(spark: SparkSession, folder: Path) -> dict[str, float]:
    """Each query's seconds, all of its rows brought to the driver."""
    seconds: dict[str, float] = {}
    began = monotonic()
    register(spark, str(folder))
    seconds["register"] = monotonic() - began
    for name, query in QUERIES.items():
        began = monotonic()
        spark.sql(query).collect()
        seconds[name] = monotonic() - began
    return seconds


def make(spark: SparkSession, folder: Path, count: int) -> None:
    """The tables of so many messages."""
    last = 3 + 2 * ((count - 1) // TOGETHER)
    rows: dict[str, Iterable[pa.RecordBatch]] = {
        "messages": _messages(count),
        "acks": _acks(count),
        "subscriptions": [_subscriptions()],
        "log_versions": [_alike(LOG_VERSIONS, 1, log_version=1, group=last, committed_at=END_US)],
        "cursors": [_cursors(count, last)],
    }
    for name, schema in SCHEMAS.items():
        table = SparkTable(spark, name, str(folder / name), schema, SHAPES[name])
        table.make()
        table.append(list(_files(table, rows.get(name, ()))), last)


def _files(table: SparkTable, rows: Iterable[pa.RecordBatch]) -> Iterator[RowFile]:
    """So many batches in a file as upkeep puts together."""
    batches = iter(rows)
    while some := list(islice(batches, BATCHES_IN_FILE)):
        files = RowFiles(table.layout)
        for batch in some:
            files.add(batch)
        yield from files.close()


def floor_of(count: int) -> int:
    """The floor of so many messages: all below it are settled."""
    return count // 5 * 4


def _alike(kind: StructType, count: int, **said: object) -> pa.RecordBatch:
    """So many rows with these columns, each an array or a value of all rows; others are null."""
    schema = arrow_schema(kind)
    columns = []
    for one in schema:
        value = said.get(one.name)
        if isinstance(value, pa.Array):
            columns.append(value.cast(one.type))
        elif isinstance(value, np.ndarray):
            columns.append(pa.array(value).cast(one.type))
        else:
            columns.append(pa.repeat(pa.scalar(value, one.type), count))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _published_us(sequences: Numbers, count: int) -> Numbers:
    return BEGIN * 1_000_000 + sequences * (LASTS_SECONDS * 1_000_000 // count)


def _days(us: Numbers) -> "pa.Array[Any]":
    return pa.array(us // 86_400_000_000, pa.int32()).cast(pa.date32())


def _group(sequences: Numbers) -> Numbers:
    return 2 + 2 * (sequences // TOGETHER)


def _messages(count: int) -> Iterator[pa.RecordBatch]:
    topics = pa.array([f"orders.{topic}" for topic in range(TOPICS)])
    for begin in range(0, count, BATCH):
        sequences = np.arange(begin, min(begin + BATCH, count))
        published = _published_us(sequences, count)
        hashes = [sha1(b"%d" % one).hexdigest() for one in sequences.tolist()]  # noqa: S324
        yield _alike(
            MESSAGES,
            len(sequences),
            sequence=sequences,
            topic=topics.take(cast("Any", pa.array(sequences % TOPICS))),
            day=_days(published),
            published_at=published,
            durable=True,
            priority=sequences % 7,
            group=_group(sequences),
            message_id=pa.array([f"ID:{one}" for one in hashes]),
            body_kind="value",
            body_text=pa.array([6 * one for one in hashes]),
        )


def _subscriptions() -> pa.RecordBatch:
    each = [(topic, nth) for topic in range(TOPICS) for nth in range(EACH)]
    return _alike(
        SUBSCRIPTIONS,
        len(each),
        subscription=pa.array([_name(topic, nth) for topic, nth in each]),
        topic=pa.array([f"orders.{topic}" for topic, _ in each]),
        selector=pa.array([None if nth else SELECTOR for _, nth in each]),
        event="created",
        shared=True,
        no_local=False,
        floor=0,
        group=1,
        recorded_at=BEGIN * 1_000_000,
    )


def _name(topic: int, nth: int) -> str:
    return f"global/service-{topic}-{nth}"


def _claims(sequences: Numbers, nth: Numbers) -> Flags:
    return (nth > 0) | (sequences % 7 >= 4)


def _acks(count: int) -> Iterator[pa.RecordBatch]:
    """Acks of all messages, accepted in the next group one by one, by four workers in turn."""
    chance = np.random.default_rng(7)
    names = pa.array([_name(topic, nth) for topic in range(TOPICS) for nth in range(EACH)])
    topics = pa.array([f"orders.{topic}" for topic in range(TOPICS)])
    workers = pa.array([f"worker-{nth}/w" for nth in range(4)])
    for begin in range(0, count, BATCH // EACH):
        sequences = np.repeat(np.arange(begin, min(begin + BATCH // EACH, count)), EACH)
        nth = np.arange(len(sequences)) % EACH
        done = (sequences < floor_of(count)) | (sequences % EVERY == 0)
        mine = done & _claims(sequences, nth)
        sequences, nth = sequences[mine], nth[mine]
        topic = sequences % TOPICS
        delivered = _published_us(sequences, count) + 2_000
        settled = delivered + chance.integers(0, SETTLES_US, len(sequences))
        yield _alike(
            ACKS,
            len(sequences),
            subscription=names.take(pa.array(topic * EACH + nth)),
            topic=topics.take(pa.array(topic)),
            sequence=sequences,
            consumer=workers.take(pa.array(sequences // TOPICS % 4)),
            outcome="accepted",
            final=True,
            delivery_count=0,
            delivered_at=delivered,
            settled_at=settled,
            floor=0,
            group=_group(sequences) + 1,
            day=_days(settled),
        )


def _cursors(count: int, last: int) -> pa.RecordBatch:
    floor, after = floor_of(count), dict[str, Cursor]()
    for topic in range(TOPICS):
        every = np.arange(floor + (topic - floor) % TOPICS, count, TOPICS)
        for nth in range(EACH):
            mine = (every % EVERY == 0) & _claims(every, np.full(len(every), nth))
            settled = BitMap64(every[mine].tolist())
            settled.run_optimize()
            after[_name(topic, nth)] = Cursor(
                _name(topic, nth),
                f"orders.{topic}",
                shared=True,
                selector=None if nth else SELECTOR,
                floor=floor,
                group=last,
                settled=settled.serialize(),
                settled_count=len(settled),
            )
    rows = listed(after, log_version=1).cast(arrow_schema(CURSORS))
    return rows.combine_chunks().to_batches()[0]
