"""A month of commits at speed, without a gateway: whether the table stays small and quick.

A commit and at most one step of upkeep after it, again and again, while a simulated clock runs
through thirty days. A commit that comes due while a step runs waits for it: each is counted with
the whole of the step before it, which is the worst that can happen.
"""

import itertools
import random
import time
from array import array
from pathlib import Path
from typing import Final

from distributary.pipeline.model.message import Group, PublishBatch, Settlement, SubscriptionRecord
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import Definition, SubscriptionEvent, SubscriptionKey
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep.table_upkeep import Upkeep
from distributary.pipeline.tables.upkeep.upkeep_limits import UpkeepLimits
from tests.bench.bench import Bench, Measurement
from tests.bench.server import fresh_home

DAYS: Final = 30
DAY_US: Final = 86_400_000_000
#: 2026-11-01 00:00 UTC, in microseconds.
BEGIN_US: Final = 1_793_491_200_000_000
#: One commit for each ten minutes; `--scale 10` makes it one a minute.
COMMITS: Final = 4_320
#: Messages of a commit, and of one that comes after a silence; their bytes.
MESSAGES: Final = 160
BURST_MESSAGES: Final = 20_000
BURST_EVERY: Final = 240
BODY_BYTES: Final = 200
TOPICS: Final = 50
SUBSCRIPTIONS: Final = 5
#: Commits after which a subscription has settled what came in one.
BEHIND: Final = 20
#: Entries that the log keeps: as by default, for a month of a commit a minute.
ENTRIES_MAX: Final = 18_000
COMMITS_A_MINUTE: Final = 43_200


class MonthWriter:
    """Makes the groups of the month, one a commit."""

    def __init__(self) -> None:
        self._chance = random.Random(7)
        self._body = self._chance.randbytes(BODY_BYTES)
        self._numbers = itertools.count(1)
        self._keys = [
            SubscriptionKey(None, f"worker_{nth}", durable=True) for nth in range(SUBSCRIPTIONS)
        ]
        self.sequence = 0
        self._heads: list[int] = []

    @property
    def floor(self) -> int:
        """Below it nothing is owed."""
        return self._heads[-BEHIND - 1] if len(self._heads) > BEHIND else 0

    def group(self, nth: int, at: int) -> Group:
        before, floor = self.floor, self.floor
        self._heads.append(self.sequence)
        floor = self.floor
        settled = range(before, floor)
        settlements = [
            Settlement(
                key.id,
                _topic(nth),
                f"container/{key.name}",
                Outcome.ACCEPTED,
                True,
                0,
                at - 1_000,
                at,
                floor,
                (settled,),
            )
            for nth, key in enumerate(self._keys)
            if settled
        ]
        records = self._created() if nth == 0 else ()
        runs = self._runs(BURST_MESSAGES if nth % BURST_EVERY == BURST_EVERY - 1 else MESSAGES)
        group = Group(next(self._numbers), self.sequence, at, runs, tuple(settlements), records)
        self.sequence += group.message_count
        return group

    def _created(self) -> tuple[SubscriptionRecord, ...]:
        return tuple(
            SubscriptionRecord(
                SubscriptionEvent.CREATED, key, Definition(_topic(nth), shared=True), 0
            )
            for nth, key in enumerate(self._keys)
        )

    def _runs(self, count: int) -> tuple[PublishBatch, ...]:
        each = max(1, count // TOPICS)
        topics = self._chance.sample(range(TOPICS), min(TOPICS, count))
        return tuple(self._run(_topic(nth), each) for nth in topics)

    def _run(self, topic: str, count: int) -> PublishBatch:
        lengths = array("I", [BODY_BYTES]) * count
        body = self._body * count
        return PublishBatch(
            topic, count, body, lengths.tobytes(), b"\1" * count, b"\4" * count, bytes(4 * count)
        )


def _topic(nth: int) -> str:
    return f"month.{nth:02d}"


def month(bench: Bench) -> Measurement:
    """Thirty days without retention, then what retention leaves of them."""
    commits, measurement = bench.settings.count(COMMITS), Measurement()
    limits = UpkeepLimits(max(1_000, ENTRIES_MAX * commits // COMMITS_A_MINUTE), 7, 0)
    with fresh_home(bench.folder) as home:
        log = TopicLog.open(Home(home).topic_log, limits=limits)
        writer, steps, waits = MonthWriter(), [], []
        began, written, late = time.perf_counter(), 0, 0.0
        for nth in range(commits):
            at = BEGIN_US + nth * DAYS * DAY_US // commits
            due = time.perf_counter()
            made = log.commit([memoryview(b"".join(frame.encode(writer.group(nth, at))))])
            waits.append(late + time.perf_counter() - due)
            written += made.bytes
            step = log.upkeep(now=at, floor=writer.floor)
            late = 0.0 if step is None else step.seconds
            steps += [step] if step else []
        measurement.rates = [writer.sequence / (time.perf_counter() - began)]
        measurement.latencies_ms = [1e3 * wait for wait in waits]
        now = BEGIN_US + DAYS * DAY_US
        steps += _rest(log, now, writer.floor)
        _count(measurement, log, home, writer.sequence)
        _time(measurement, steps, written)
        log = TopicLog.open(log.path, limits=UpkeepLimits(limits.log_entries_max, 7, 7))
        _rest(log, now, writer.floor)
        measurement.facts["files_after_retention"] = len(_data_files(log))
    return measurement


def _rest(log: TopicLog, now: int, floor: int) -> list[Upkeep]:
    return list(iter(lambda: log.upkeep(now=now, floor=floor), None))


def _count(measurement: Measurement, log: TopicLog, home: Path, messages: int) -> None:
    files, entries = _data_files(log), list((log.path / "_delta_log").glob("*.json"))
    on_disk = [path.stat().st_size for path in Home(home).topic_log.rglob("*") if path.is_file()]
    measurement.facts |= {
        "messages": messages,
        "files": len(files),
        "files_per_million": len(files) / (messages / 1e6),
        "log_entries": len(entries),
        "table_mb": sum(path.stat().st_size for path in files) / 1e6,
        "disk_mb": sum(on_disk) / 1e6,
    }


def _data_files(log: TopicLog) -> list[Path]:
    return [
        path
        for record in ("message", "settlement", "subscription")
        for path in log.files(record, -1)
    ]


def _time(measurement: Measurement, steps: list[Upkeep], written: int) -> None:
    ms = sorted(1e3 * step.seconds for step in steps)
    rewritten = sum(step.bytes for step in steps if step.kind in ("merge", "spread"))
    measurement.facts |= {
        "commit_p99_ms": sorted(measurement.latencies_ms)[
            int(0.99 * len(measurement.latencies_ms))
        ],
        "steps": len(steps),
        "step_p50_ms": ms[len(ms) // 2],
        "step_p99_ms": ms[int(0.99 * len(ms))],
        "step_max_ms": ms[-1],
        "write_amplification": 1 + rewritten / written,
    }
