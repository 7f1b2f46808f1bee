"""A table with its whole history, to be compared with what readers find in it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
from deltalake import DeltaTable
from table_groups import DAY_US, NOON, bodies, framed, group, run, settled

from distributary.pipeline.model.message import Group
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep.table_upkeep import UpkeepLimits

KEEP_ALL = UpkeepLimits(log_entries_max=1_000_000, log_retention_days=7, retention_days=0)
TOPICS = ("a", "b", "c")

#: A commit with so many messages for each topic, or something else that happens to a table.
Step: TypeAlias = tuple[int, ...] | Literal["upkeep", "step", "reopen", "hours", "day"]


class Story:
    """A table, and everything that was ever committed to it."""

    def __init__(self, path: Path, limits: UpkeepLimits = KEEP_ALL) -> None:
        self.log = TopicLog.open(path, limits=limits)
        self.limits = limits
        self.groups: list[Group] = []
        self.next_sequence = 0
        self.now = NOON

    def commit(self, *counts: int, at: int | None = None) -> None:
        """One group with so many messages for each topic, and a settlement of one of them."""
        runs = [run(t, bodies(n, 20)) for t, n in zip(TOPICS, counts, strict=False) if n]
        first = self.next_sequence
        one = group(
            len(self.groups) + 1,
            first,
            *runs,
            at=self.now if at is None else at,
            settlements=[settled(range(first, first + 1), floor=first)],
        )
        self.groups.append(one)
        self.next_sequence += one.message_count
        self.log.commit([framed(one)])

    def upkeep(self, floor: int | None = None) -> list[str]:
        """Every step that is due, by kind."""
        found = []
        while step := self.log.upkeep(
            now=self.now, floor=self.next_sequence if floor is None else floor
        ):
            found.append(step.kind)
        return found

    def reopen(self) -> None:
        self.log = TopicLog.open(self.log.path, limits=self.limits)

    def play(self, steps: Iterable[Step]) -> None:
        """These steps in this order; at the end, before and after all upkeep that is due, readers
        find what was committed."""
        for step in steps:
            match step:
                case "upkeep":
                    self.upkeep()
                case "step":
                    self.log.upkeep(now=self.now, floor=0)
                case "reopen":
                    self.reopen()
                case "hours":
                    self.now += DAY_US // 5
                case "day":
                    self.now += DAY_US
                case _:
                    self.commit(*step)
        assert_same(self)
        self.upkeep()
        assert_same(self)

    def messages(self) -> list[tuple[int, str, bytes]]:
        """The messages of all groups, in the order of sequences."""
        found = []
        for one in self.groups:
            sequence = one.first_sequence
            for part in one.messages:
                at = 0
                for length in np.frombuffer(part.lengths, np.uint32).tolist():
                    found.append((sequence, part.topic, bytes(part.blob[at : at + length])))
                    sequence, at = sequence + 1, at + length
        return found


def table_rows(path: Path) -> list[tuple[int, str, bytes]]:
    """The messages as another engine reads them."""
    table = DeltaTable(path).to_pyarrow_table(
        columns=["sequence", "topic", "message"], filters=[("record", "=", "message")]
    )
    return sorted(zip(*(table[n].to_pylist() for n in table.column_names), strict=True))


def paged(log: TopicLog, topic: str, bytes_max: int = 300) -> list[tuple[int, bytes]]:
    """All messages of a topic, page by page."""
    found: list[tuple[int, bytes]] = []
    start = log.first_sequence
    while start < log.sequence_version:
        page = log.page(topic, start, bytes_max)
        for batch in page.batches:
            offsets = np.frombuffer(batch.offsets, np.int32)
            sequences = getattr(batch, "sequences", None)
            numbers = (
                range(batch.first, batch.first + batch.count) if sequences is None else sequences
            )
            found += [
                (number, bytes(batch.blob[a:b]))
                for number, a, b in zip(numbers, offsets, offsets[1:], strict=False)
            ]
        start = page.covered
    return found


def assert_same(story: Story) -> None:
    """Every message is in the table once and comes in its page, every settlement is there."""
    due = story.messages()
    assert table_rows(story.log.path) == due
    for topic in TOPICS:
        assert paged(story.log, topic) == [(s, m) for s, t, m in due if t == topic]
    settlements = DeltaTable(story.log.path).to_pyarrow_table(
        columns=["group"], filters=[("record", "=", "settlement")]
    )
    groups = sorted(settlements["group"].to_pylist())
    assert groups == list(range(1, len(story.groups) + 1))
