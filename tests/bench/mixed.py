"""One topic among many: what its backlog costs to read, beside a topic that is alone.

The homes are written through the table's own commits, and kept as a gateway keeps them: every step
of upkeep that is due is done. Then a gateway starts on them, and some of the topics are drained.
"""

import itertools
import os
import random
import time
from array import array
from pathlib import Path
from typing import Final

from distributary.pipeline.model.message import Group, PublishBatch, SubscriptionRecord
from distributary.pipeline.model.subscription import Definition, SubscriptionEvent, SubscriptionKey
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from tests.bench import frames
from tests.bench.bench import Bench, Measurement
from tests.bench.server import fresh_home

#: How many topics interleave, and how many of them are read.
TOPICS: Final = 100
TOPICS_READ: Final = 10
#: Messages of all topics together, and of the topic that is alone.
MESSAGES: Final = 1_000_000
ALONE: Final = 100_000
#: Messages of a group, and groups of a commit: together just less than `commit.bytes`.
GROUP_MESSAGES: Final = 1_000
COMMIT_GROUPS: Final = 15
#: 2026-11-21 12:00 UTC, and a second, in microseconds.
NOON_US: Final = 1_795_262_400_000_000
SECOND_US: Final = 1_000_000
PAGE_BYTES: Final = 2 << 20


def topic_name(nth: int) -> str:
    return f"mixed.{nth:03d}"


def subscription_name(nth: int) -> str:
    return f"reader_{nth:03d}"


def make(home: Path, topics: int, messages: int, *, random_data: bool) -> TopicLog:
    """A home with so many messages, each of a topic drawn by chance; every topic that will be read
    has a durable subscription that is owed all of it."""
    log, chance = TopicLog.open(Home(home).topic_log), random.Random(7)
    records = [
        SubscriptionRecord(
            SubscriptionEvent.CREATED,
            SubscriptionKey(None, subscription_name(nth), durable=True),
            Definition(topic_name(nth), shared=True),
            0,
        )
        for nth in range(min(topics, TOPICS_READ))
    ]
    log.commit([_framed(Group(1, 0, NOON_US, (), (), tuple(records)))])
    numbers, first = itertools.count(2), 0
    while first < messages:
        views = []
        for number in itertools.islice(numbers, COMMIT_GROUPS):
            count = min(GROUP_MESSAGES, messages - first)
            if not count:
                break
            runs = _runs(chance, topics, count, random_data=random_data)
            views.append(_framed(Group(number, first, NOON_US + number * SECOND_US // 10, runs)))
            first += count
        log.commit(views)
        while log.upkeep(now=NOON_US + number * SECOND_US // 10, floor=0):
            pass
    return log


def _framed(group: Group) -> memoryview:
    return memoryview(b"".join(frame.encode(group)))


def _runs(
    chance: random.Random, topics: int, count: int, *, random_data: bool
) -> tuple[PublishBatch, ...]:
    """A run of one message for each, of the topics in any order; one run if there is one topic."""
    one = frames.message(1024, topic_name(0))
    size = len(one)
    blob = b"".join(
        one[: size - 1024] + os.urandom(1024) if random_data else one for _ in range(count)
    )
    if topics == 1:
        return (_run(topic_name(0), blob, size, count),)
    view = memoryview(blob)
    return tuple(
        _run(topic_name(chance.randrange(topics)), view[at : at + size], size, 1)
        for at in range(0, count * size, size)
    )


def _run(topic: str, blob: bytes | memoryview, size: int, count: int) -> PublishBatch:
    lengths = array("I", [size]) * count
    return PublishBatch(
        topic, count, blob, lengths.tobytes(), b"\1" * count, b"\4" * count, bytes(4 * count)
    )


def interleaved(bench: Bench) -> Measurement:
    """A tenth of the topics among a hundred against one that is alone, by CPU a message: read in
    pages, and drained through a gateway."""
    settings, measurement = bench.settings, Measurement()
    paged, drained = {}, {}
    for name, topics, full in (("alone", 1, ALONE), ("interleaved", TOPICS, MESSAGES)):
        with fresh_home(bench.folder) as home:
            log = make(home, topics, settings.count(full), random_data=settings.random_data)
            read = min(topics, TOPICS_READ)
            paged[name] = min(_page_us(log, read) for _ in range(2))
            del log
            one = Measurement()
            _drain(bench, home, read, one)
        assert one.cpu is not None
        drained[name] = 1e6 * one.cpu.total / one.messages
        measurement = one
    measurement.facts = {f"page_{name}_us": us for name, us in paged.items()}
    measurement.facts |= {f"drain_{name}_us": us for name, us in drained.items()}
    measurement.facts["page_ratio"] = paged["interleaved"] / paged["alone"]
    measurement.facts["drain_ratio"] = drained["interleaved"] / drained["alone"]
    return measurement


def _page_us(log: TopicLog, read: int) -> float:
    """CPU microseconds a message."""
    began, count = time.process_time(), 0
    for nth in range(read):
        start = 0
        while start < log.sequence_version:
            page = log.page(topic_name(nth), start, PAGE_BYTES)
            count += sum(batch.count for batch in page.batches)
            start = page.covered
    return 1e6 * (time.process_time() - began) / count


def _drain(bench: Bench, home: Path, read: int, measurement: Measurement) -> None:
    """Each topic by a consumer of its own, one after the other."""
    owed = _owed(home, read)
    with bench.gateway(home) as server:
        for nth, count in enumerate(owed):
            spec = bench.spec(
                "drain",
                topic_name(nth),
                count,
                subscriptions=(subscription_name(nth),),
                owed=count,
            )
            outcomes, cpu = bench.measured(spec)
            measurement.add(outcomes, cpu, counted=outcomes[0])
        measurement.rss_mb = server.rss_mb()


def _owed(home: Path, read: int) -> list[int]:
    """How many messages each topic has."""
    log, counts = TopicLog.open(Home(home).topic_log), []
    for nth in range(read):
        count = start = 0
        while start < log.sequence_version:
            page = log.page(topic_name(nth), start, PAGE_BYTES)
            count += sum(batch.count for batch in page.batches)
            start = page.covered
        counts.append(count)
    return counts
