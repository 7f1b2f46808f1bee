"""Messages far back: a hundred million of which each subscription has one stuck, or some stuck here
and there, or of all priorities: time until the first delivery, and memory. And a queue whose
consumer's selector matches its last message alone: time until that one comes, and memory.

The messages are real ones, written through the table's own commits; the settlements are those in
Spark's table `cursors`, as after a job that has folded the whole log.
"""

import random
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import write_deltalake
from proton import Message
from pyroaring import BitMap64

from distributary.pipeline.model.message import Group, PublishBatch, SubscriptionRecord
from distributary.pipeline.model.subscription import Definition, SubscriptionEvent, SubscriptionKey
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.recovery.snapshot import CURSOR_COLUMNS
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from tests.bench import frames
from tests.bench.bench import Bench, Measurement
from tests.bench.homes import NOON_US, TOPIC, Backlog
from tests.bench.restarts import Begun, first_delivery
from tests.bench.server import fresh_home

MESSAGES: Final = 100_000_000
#: Messages of one group, which is one commit.
GROUP: Final = 1_000_000
#: Subscriptions that have one stuck message each; and that have one of so many stuck.
STUCK, SPARSE, ONE_OF = 50, 10, 1_000
PRIORITIES: Final = 10
#: Of so many messages one is on the queue: each is looked at.
UNMATCHED_ONE_OF: Final = 10
QUEUE: Final = SubscriptionKey(None, "backlog", durable=True, queue=True)


def long(bench: Bench) -> Measurement:
    """Three homes: of plain messages with two kinds of cursors, of all priorities, of a queue."""
    measurement = Measurement()
    count = bench.settings.count(MESSAGES)
    with fresh_home(bench.folder) as home:
        backlog = Backlog(count, subscriptions=STUCK)
        log = _log(home, backlog, b"\4")
        _cursors(home, log, backlog, [_all_but([0], count)] * STUCK)
        _measure(bench, home, backlog, measurement, "stuck")
        chance = random.Random(backlog.seed)
        left = [
            sorted({0, *(chance.randrange(count) for _ in range(count // ONE_OF))})
            for _ in range(SPARSE)
        ]
        log = TopicLog.open(Home(home).topic_log)
        settled = [_all_but(one, count) for one in left]
        # The others have settled all but the last ones.
        settled += [_all_but([count - 1], count)] * (STUCK - SPARSE)
        _cursors(home, log, backlog, settled)
        _measure(bench, home, backlog, measurement, "sparse")
    with fresh_home(bench.folder) as home:
        backlog = Backlog(count, subscriptions=1)
        priorities = random.Random(backlog.seed).choices(range(PRIORITIES), k=GROUP)
        _log(home, backlog, bytes(priorities))
        _measure(bench, home, backlog, measurement, "priorities")
    with fresh_home(bench.folder) as home:
        _queue(home, count // UNMATCHED_ONE_OF)
        link = frames.attach_receiver(
            "consumer", "queue://backlog", ["queue"], durable=True, selector="n = 1"
        )
        _note(first_delivery(bench, home, link), measurement, "unmatched")
    measurement.rss_mb = max(v for k, v in measurement.facts.items() if k.endswith("rss_mb"))
    return measurement


def _measure(
    bench: Bench, home: Path, backlog: Backlog, measurement: Measurement, name: str
) -> None:
    link = frames.shared_durable(backlog.keys[0].name, TOPIC)
    _note(first_delivery(bench, home, link), measurement, name)


def _note(begun: Begun, measurement: Measurement, name: str) -> None:
    measurement.facts[f"{name}_s"] = begun.seconds
    measurement.facts[f"{name}_cpu_s"] = begun.cpu_seconds
    measurement.facts[f"{name}_rss_mb"] = begun.rss_mb


def _log(home: Path, backlog: Backlog, priority: bytes) -> TopicLog:
    log = TopicLog.open(Home(home).topic_log)
    for group in _groups(backlog, priority):
        log.commit([memoryview(b"".join(frame.encode(group)))])
    return log


def _groups(backlog: Backlog, priority: bytes) -> Iterator[Group]:
    """Subscriptions, then messages of a byte each, with these priorities again and again."""
    definition = Definition(TOPIC, shared=True)
    records = [
        SubscriptionRecord(SubscriptionEvent.CREATED, key, definition, 0) for key in backlog.keys
    ]
    yield Group(1, 0, NOON_US, (), (), tuple(records))
    body = bytes(Message(body=b"x", inferred=True, durable=True).encode())
    for number, first in enumerate(range(0, backlog.messages, GROUP), 2):
        count = min(GROUP, backlog.messages - first)
        run = _run(TOPIC, body, count, (priority * -(-count // len(priority)))[:count])
        yield Group(number, first, NOON_US + number * 100_000, (run,), (), ())


def _run(topic: str, message: bytes, count: int, priority: bytes) -> PublishBatch:
    lengths = array("I", [len(message)] * count).tobytes()
    return PublishBatch(
        topic, count, message * count, lengths, b"\1" * count, priority, bytes(4 * count)
    )


def _queue(home: Path, count: int) -> None:
    """A queue of which the last message has n = 1, and all others n = 0."""
    log = TopicLog.open(Home(home).topic_log)
    topic = f"queue://{QUEUE.name}"
    record = SubscriptionRecord(SubscriptionEvent.CREATED, QUEUE, Definition(topic, shared=True), 0)
    log.commit([memoryview(b"".join(frame.encode(Group(1, 0, NOON_US, (), (), (record,)))))])
    some, last = (
        bytes(Message(body=b"x", inferred=True, durable=True, properties={"n": n}).encode())
        for n in (0, 1)
    )
    for number, first in enumerate(range(0, count, GROUP), 2):
        size = min(GROUP, count - first)
        runs = [_run(topic, some, size, b"\4" * size)]
        if first + size == count:
            runs = [_run(topic, some, size - 1, b"\4" * (size - 1)), _run(topic, last, 1, b"\4")]
        group = Group(number, first, NOON_US + number * 100_000, tuple(runs), (), ())
        log.commit([memoryview(b"".join(frame.encode(group)))])


def _all_but(left: list[int], count: int) -> bytes:
    """The bitmap of all that is settled, as Spark's job writes it."""
    settled = BitMap64()
    settled.add_range(0, count)
    settled -= BitMap64(left)
    settled.run_optimize()
    return bytes(settled.serialize())


def _cursors(home: Path, log: TopicLog, backlog: Backlog, settled: list[bytes]) -> None:
    rows = [
        {
            "subscription": key.id,
            "topic": TOPIC,
            "shared": True,
            "selector": None,
            "floor": 0,
            "settled": bitmap,
            "lost": BitMap64().serialize(),
            "failures": [],
            "group": log.journal_version,
            "log_version": log.version,
        }
        for key, bitmap in zip(backlog.keys, settled, strict=True)
    ]
    fields = pa.schema([pa.field(name, kind) for name, kind in CURSOR_COLUMNS.items()])
    write_deltalake(Home(home).cursors, pa.Table.from_pylist(rows, fields), mode="overwrite")
