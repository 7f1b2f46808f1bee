"""The job `materialize` as a process: how fast it brings a log into the tables, what a small batch
costs when the tables have grown, and how fresh the tables are while a gateway is at work."""

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq
from proton import Message

from distributary.pipeline.model.message import (
    Group,
    LogEvent,
    PublishBatch,
    SchemaRecord,
    Settlement,
    SubscriptionRecord,
)
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import Definition, SubscriptionEvent, SubscriptionKey
from distributary.pipeline.schemas.column_types import spark_json
from distributary.pipeline.schemas.json_columns import json_columns
from distributary.pipeline.schemas.schema_text import text_of
from distributary.pipeline.schemas.schema_version import Format, SchemaVersion
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from tests.bench.bench import Bench, Measurement
from tests.bench.peer import LoadError
from tests.bench.server import fresh_home

TOPIC: Final = "orders"
KEY: Final = SubscriptionKey(None, "billing", durable=True)
NOON_US: Final = 1_795_262_400_000_000

#: Messages of a group, and of a version of the log.
GROUP: Final = 500
VERSION: Final = 4_000
#: Bytes of a body that nothing can compress; with its sections a message has 1 KiB.
BODY_BYTES: Final = 900
#: Messages that the throughput is measured with, after as many again that warm the JVM up.
MESSAGES: Final = 600_000
#: Between two looks of the job at the log: longer than it takes to write that many.
PAUSE_SECONDS: Final = 60
#: Small batches, and the messages and settlements of each.
BATCHES: Final = 1_000
BATCH: Final = 200
#: Messages a second, and seconds of it; the first ones aren't counted, as a job starts cold once.
RATE: Final = 2_000
SECONDS: Final = 90
COLD_SECONDS: Final = 45


@dataclass(slots=True)
class Feed:
    """A log with one subscription: each group settles the messages of the one before. With `json`
    its bodies are orders in JSON, with `schema` their topic has one, too."""

    home: Path
    json: bool = False
    schema: bool = False
    log: TopicLog = field(init=False)
    chance: random.Random = field(default_factory=lambda: random.Random(8))

    def __post_init__(self) -> None:
        self.log = TopicLog.open(Home(self.home).topic_log)

    def commit(self, messages: int, group: int = GROUP) -> None:
        """One version of the log."""
        frames = []
        number, first = self.log.journal_version + 1, self.log.sequence_version
        for done in range(0, messages, group):
            count = min(group, messages - done)
            frames.append(memoryview(b"".join(frame.encode(self._group(number, first, count)))))
            number, first = number + 1, first + count
        self.log.commit(frames)

    def keep_up(self) -> None:
        """All upkeep of the log that is due, as a gateway does it between two commits."""
        while self.log.upkeep(now=NOON_US + self.log.journal_version * 10_000, floor=0):
            pass

    def _group(self, number: int, first: int, count: int) -> Group:
        at = NOON_US + number * 10_000
        born = SubscriptionRecord(SubscriptionEvent.CREATED, KEY, Definition(TOPIC, shared=True), 0)
        before = range(max(first - count, 0), first)
        settled = Settlement(
            KEY.id, TOPIC, "worker/billing", Outcome.ACCEPTED, True, 0, at, at, first, (before,)
        )
        events: tuple[LogEvent, ...] = () if first else (born,)
        if self.schema and not first:
            events = (born, SchemaRecord(TOPIC, order_schema(), 0))
        run = self._orders(first, count) if self.json else self._run(count)
        return Group(number, first, at, (run,), (settled,) if before else (), events)

    def _orders(self, first: int, count: int) -> PublishBatch:
        """Ten fields each; the bodies of a run differ, those of runs but for their ids don't."""
        properties = {"carrier": "UA", "delay": 12.5, "flight": 1545}
        parts = [
            Message(
                body=order(first + nth, self.chance), inferred=True, properties=properties
            ).encode()
            for nth in range(count)
        ]
        lengths = array("I", map(len, parts)).tobytes()
        return _batch(count, b"".join(parts), lengths)

    def _run(self, count: int) -> PublishBatch:
        properties = {"carrier": "UA", "delay": 12.5, "flight": 1545}
        empty = Message(
            body=bytes(BODY_BYTES), inferred=True, durable=True, properties=properties
        ).encode()
        front = empty[: len(empty) - BODY_BYTES]
        bodies = self.chance.randbytes(BODY_BYTES * count)
        parts = [front + bodies[at * BODY_BYTES : (at + 1) * BODY_BYTES] for at in range(count)]
        return _batch(count, b"".join(parts), array("I", [len(empty)] * count).tobytes())


def _batch(count: int, blob: bytes, lengths: bytes) -> PublishBatch:
    return PublishBatch(TOPIC, count, blob, lengths, b"\1" * count, b"\4" * count, bytes(4 * count))


#: What an order must be: ten fields, of most kinds that there are.
ORDER: Final[dict[str, object]] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string"},
        "customer": {"type": "integer", "minimum": 0},
        "amount": {"type": "number"},
        "currency": {"type": "string", "enum": ["EUR", "USD"]},
        "placed_at": {"type": "string", "format": "date-time"},
        "paid": {"type": "boolean"},
        "country": {"type": "string", "minLength": 2, "maxLength": 2},
        "items": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "sku": {"type": "string"},
    },
    "required": ["order_id", "customer", "amount"],
}


def order_schema(said: Mapping[str, object] = ORDER) -> str:
    """The schema as its event has it."""
    definition = json.dumps(said)
    columns = json.dumps(spark_json(json_columns(definition).columns))
    return text_of(SchemaVersion(TOPIC, 1, Format.JSON, definition), columns)


def order(number: int, chance: random.Random) -> bytes:
    """An order that fits the schema."""
    said = {
        "order_id": f"o-{number}-{chance.getrandbits(64):x}",
        "customer": chance.randrange(1_000_000),
        "amount": round(chance.random() * 1_000, 2),
        "currency": chance.choice(("EUR", "USD")),
        "placed_at": f"2026-11-25T10:{number % 60:02d}:00.{chance.randrange(1_000_000):06d}Z",
        "paid": chance.random() < 0.9,
        "country": chance.choice(("DE", "FR", "US")),
        "items": chance.randrange(1, 9),
        "note": None,
        "sku": f"{chance.getrandbits(60):015x}",
    }
    return json.dumps(said).encode()


@contextmanager
def job(home: Path, *options: str) -> Iterator["subprocess.Popen[str]"]:
    """The job as a process of its own group; ended at the end of the block."""
    command = [str(Path(sys.executable).parent / "distributary"), "jobs", "materialize"]
    with (home.parent / "job.log").open("w") as errors:
        process = subprocess.Popen(
            [*command, "--home", str(home), "--json", *options],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def told(process: "subprocess.Popen[str]") -> dict[str, Any]:
    """The job's next batch."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise LoadError("the job ended: see job.log in the folder of the homes")
    found: dict[str, Any] = json.loads(line)
    return found


def cpu_of(session: int) -> float:
    """CPU seconds of all processes of a session: Python, its JVM, their workers."""
    ticks = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def materialize(bench: Bench) -> Measurement:
    """A log of 1 KiB messages and their settlements, in one process that is warm by half of it.
    The other half is there before the job looks again: nothing else runs meanwhile."""
    measurement = Measurement()
    _caught_up(bench, measurement, Feed)
    return measurement


def typed(bench: Bench) -> Measurement:
    """The same case with orders in JSON, whose topic has a schema or hasn't: the rate with typed
    tables, and the ratio of the times with and without."""
    measurement, plain = Measurement(), Measurement()
    _caught_up(bench, plain, partial(Feed, json=True))
    _caught_up(bench, measurement, partial(Feed, json=True, schema=True))
    measurement.facts |= {
        "without_cpu_us": plain.facts["cpu_us"],
        "without_rate": plain.rates[0],
        "longer_ratio": plain.rates[0] / measurement.rates[0],
    }
    return measurement


def _caught_up(bench: Bench, measurement: Measurement, feeding: Callable[[Path], Feed]) -> None:
    """One log, brought in by a job that is warm by half of it."""
    count = bench.settings.count(MESSAGES)
    with fresh_home(bench.folder) as home:
        feed = feeding(home)
        for _ in range(0, count, VERSION):
            feed.commit(VERSION)
        with job(home, "--trigger", f"{PAUSE_SECONDS} seconds") as process:
            told(process)
            for _ in range(0, count, VERSION):
                feed.commit(VERSION)
            cpu, done, seconds, steps = cpu_of(process.pid), 0, 0.0, dict[str, float]()
            while done < count // VERSION * VERSION:
                batch = told(process)
                done, seconds = done + batch["messages"], seconds + batch["seconds"]
                for name, took in batch["steps"].items():
                    steps[f"{name}_s"] = steps.get(f"{name}_s", 0.0) + took
            used = cpu_of(process.pid) - cpu
    measurement.rates.append(done / seconds)
    measurement.messages = done
    measurement.facts = {"cpu_us": 1e6 * used / done, **steps}


def batches(bench: Bench) -> Measurement:
    """Small batches one after the other: what the last ones cost against the first."""
    measurement, count = Measurement(), bench.settings.count(BATCHES)
    with fresh_home(bench.folder) as home:
        feed = Feed(home)
        feed.commit(BATCH, BATCH)
        with job(home, "--trigger", "0 seconds") as process:
            told(process)
            cpu, used, took = cpu_of(process.pid), list[float](), list[float]()
            for _ in range(count):
                feed.commit(BATCH, BATCH)
                feed.keep_up()
                took.append(told(process)["seconds"])
                now = cpu_of(process.pid)
                used.append(now - cpu)
                cpu = now
    tenth = max(count // 10, 1)
    cold = used[tenth : 2 * tenth]  # the first tenth warms the JVM up
    measurement.latencies_ms = [1_000 * seconds for seconds in took[tenth:]]
    measurement.facts = {
        "batches_count": count,
        "cpu_ms": 1_000 * statistics.median(used[tenth:]),
        "cpu_ratio": statistics.median(used[-tenth:]) / statistics.median(cold),
    }
    return measurement


def freshness(bench: Bench) -> Measurement:
    """A gateway that relays 2,000 messages a second beside the job: from the time when a message
    or a settlement was durable to the commit of the table that has its row; `cold` in the job's
    first COLD_SECONDS, else behind them."""
    measurement, count = Measurement(), bench.settings.count(RATE * SECONDS)
    with fresh_home(bench.folder) as home, bench.gateway(home):
        topic, subscription = bench.name("fresh"), bench.name("through")
        bench.subscribe([subscription], topic)
        with job(home, "--trigger", "2 seconds") as process:
            _until_it_runs(home)
            spec = bench.spec(
                "relay", topic, count, rate=float(RATE), subscriptions=(subscription,), owed=count
            )
            outcomes, cpu = bench.measured(spec)
            measurement.add(outcomes, cpu, counted=outcomes[0])
            _until_caught_up(process, count)
        measurement.latencies_ms = []
        warm = COLD_SECONDS / SECONDS * count
        for name, column in (("messages", "published_at"), ("acks", "settled_at")):
            found = list(_ages(Home(home).spark_tables / name, column))
            ages = sorted(age for sequence, age in found if sequence >= warm)
            measurement.facts[f"{name}_p50_s"] = ages[len(ages) // 2]
            measurement.facts[f"{name}_p99_s"] = ages[len(ages) * 99 // 100]
            measurement.latencies_ms += [1_000 * age for age in ages]
            cold = sorted(age for sequence, age in found if sequence < warm)
            measurement.facts[f"cold_{name}_p50_s"] = cold[len(cold) // 2]
            measurement.facts[f"cold_{name}_p99_s"] = cold[len(cold) * 99 // 100]
        bench.unsubscribe([subscription], topic)
    return measurement


def _until_it_runs(home: Path) -> None:
    """The job has made its tables: from now on it takes what comes."""
    deadline = time.monotonic() + 120
    while not (Home(home).cursors / "_delta_log").exists():
        if time.monotonic() > deadline:
            raise LoadError("the job made no tables: see job.log in the folder of the homes")
        time.sleep(0.2)


def _until_caught_up(process: "subprocess.Popen[str]", count: int) -> None:
    done = 0
    while done < count:
        done += told(process)["acks"]


def _ages(table: Path, column: str) -> Iterator[tuple[int, float]]:
    """Each row's sequence, and the seconds from its time to the commit that has it."""
    for entry in sorted((table / "_delta_log").glob("*.json")):
        for line in entry.read_text().splitlines():
            add = json.loads(line).get("add")
            if not add or not add["dataChange"]:
                continue
            made = entry.stat().st_mtime
            rows = pq.read_table(table / unquote(add["path"]), columns=["sequence", column])
            for sequence, at in zip(*(rows.column(n).to_pylist() for n in (0, 1)), strict=True):
                yield sequence, made - at.timestamp()
