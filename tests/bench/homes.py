"""Homes as a long day leaves them: a backlog, many subscriptions, much settled out of order.

Written through the table's own commits, without a gateway, so that a million messages take seconds.
"""

import random
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import write_deltalake
from proton import Message
from pyroaring import BitMap64

from distributary.pipeline.model.message import Group, PublishBatch, Settlement, SubscriptionRecord
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import Definition, SubscriptionEvent, SubscriptionKey
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.recovery.snapshot import CURSOR_COLUMNS
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

TOPIC: Final = "backlog"
#: 2026-11-21 12:00 UTC, in microseconds.
NOON_US: Final = 1_795_262_400_000_000
#: Messages of one group, and sequences that one settlement is about.
GROUP_MESSAGES: Final = 5_000
SETTLED_AT_ONCE: Final = 500
#: Of so many messages one is settled, another one in each stretch of STRETCH messages.
EVERY: Final = 3
STRETCH: Final = 96


@dataclass(frozen=True, slots=True)
class Backlog:
    """How much there is. Subscription n is the global shared one with the name `subscription_n`."""

    messages: int = 1_000_000
    body_bytes: int = 256
    subscriptions: int = 50
    groups_per_commit: int = 2
    seed: int = 7

    @property
    def keys(self) -> list[SubscriptionKey]:
        names = [f"subscription_{nth}" for nth in range(self.subscriptions)]
        return [SubscriptionKey(None, name, durable=True) for name in names]


def make_backlog(home: Path, backlog: Backlog, *, cursors: bool) -> None:
    """A home that was stopped with nothing below any floor, and a third of it settled, each
    subscription others. With `cursors` also the table that Spark would have made of it."""
    log = TopicLog.open(Home(home).topic_log)
    settled = _settled(backlog)
    groups = _groups(backlog, settled)
    while part := list(islice(groups, backlog.groups_per_commit)):
        log.commit([memoryview(b"".join(frame.encode(one))) for one in part])
    if cursors:
        write_cursors(home, log, backlog, settled)


def write_cursors(home: Path, log: TopicLog, backlog: Backlog, settled: list[list[range]]) -> None:
    """The table as Spark leaves it after it has folded the whole log."""
    rows = []
    for key, runs in zip(backlog.keys, settled, strict=True):
        members = array("Q")
        for run in runs:
            members.extend(run)
        rows.append(
            {
                "subscription": key.id,
                "topic": TOPIC,
                "shared": True,
                "selector": None,
                "floor": 0,
                "settled": BitMap64(members).serialize(),
                "lost": BitMap64().serialize(),
                "failures": [],
                "group": log.journal_version,
                "log_version": log.version,
            }
        )
    fields = pa.schema([pa.field(name, kind) for name, kind in CURSOR_COLUMNS.items()])
    write_deltalake(Home(home).cursors, pa.Table.from_pylist(rows, fields), mode="overwrite")


def _settled(backlog: Backlog) -> list[list[range]]:
    """For each subscription what is settled, ascending: never message 0, so no floor moves."""
    chance = random.Random(backlog.seed)
    return [
        [
            range(start + chance.randrange(1, EVERY), min(start + STRETCH, backlog.messages), EVERY)
            for start in range(0, backlog.messages, STRETCH)
        ]
        for _ in range(backlog.subscriptions)
    ]


def _groups(backlog: Backlog, settled: list[list[range]]) -> Iterator[Group]:
    """Subscriptions, then messages, each group with the settlements of the one before it."""
    definition = Definition(TOPIC, shared=True)
    records = [
        SubscriptionRecord(SubscriptionEvent.CREATED, key, definition, 0) for key in backlog.keys
    ]
    yield Group(1, 0, NOON_US, (), (), tuple(records))
    chance, number = random.Random(backlog.seed), 1
    for first in range(0, backlog.messages, GROUP_MESSAGES):
        number += 1
        count = min(GROUP_MESSAGES, backlog.messages - first)
        at = NOON_US + number * 100_000
        settlements = _settlements(backlog, settled, first - GROUP_MESSAGES, first, at)
        run = _run(chance, backlog.body_bytes, count)
        yield Group(number, first, at, (run,), tuple(settlements))
    last = backlog.messages - backlog.messages % -GROUP_MESSAGES - GROUP_MESSAGES
    at = NOON_US + number * 100_000
    rest = _settlements(backlog, settled, last, backlog.messages, at)
    yield Group(number + 1, backlog.messages, at, (), tuple(rest))


def _run(chance: random.Random, size: int, count: int) -> PublishBatch:
    """Messages whose bodies nothing can compress."""
    empty = Message(body=bytes(size), inferred=True, durable=True).encode()
    front, bodies = empty[: len(empty) - size], chance.randbytes(size * count)
    blob = b"".join([front + bodies[at : at + size] for at in range(0, size * count, size)])
    return PublishBatch(
        TOPIC,
        count,
        blob,
        array("I", [len(empty)] * count).tobytes(),
        b"\1" * count,
        b"\4" * count,
        bytes(4 * count),
    )


def _settlements(
    backlog: Backlog, settled: list[list[range]], first: int, stop: int, at: int
) -> Iterator[Settlement]:
    """Settlements whose runs begin among the messages `first .. stop - 1`."""
    for key, runs in zip(backlog.keys, settled, strict=True):
        own = runs[max(-(-first // STRETCH), 0) : -(-max(stop, 0) // STRETCH)]
        per_row = SETTLED_AT_ONCE * EVERY // STRETCH
        for begin in range(0, len(own), per_row):
            yield Settlement(
                key.id,
                TOPIC,
                f"worker/{key.name}",
                Outcome.ACCEPTED,
                True,
                0,
                at - 5_000,
                at,
                0,
                tuple(own[begin : begin + per_row]),
            )
