"""The cursor strip and the backlog over time, against plain models of the same log."""

import random
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from spark_log import LogWriter, encoded

from distributary.ingest.console.log_rows.log_files import LogFiles
from distributary.ingest.console.log_rows.log_reader import LogReader, Snapshot
from distributary.ingest.console.records.backlog_history import BUCKETS, history_of
from distributary.ingest.console.records.cursor_strip import (
    MessageState,
    Strip,
    ranges_of,
    strip_of,
)
from distributary.ingest.console.records.standings import KnownStanding, Standings
from distributary.ingest.console.settings.console_settings import load
from distributary.pipeline.tables.delta.store import LocalStore

SUB = "global/s"

DEFAULT_LIMITS = load().records


class Busy:
    """A log in which one subscription settles in random order, beside another topic."""

    def __init__(self, path: Path, seed: int) -> None:
        self.log, self.dice = LogWriter(path), random.Random(seed)
        self.owed: set[int] = set()
        self.dead: set[int] = set()
        self.settled_at: list[int] = []
        self.came_at: list[int] = []
        self.floor = 0
        self.log.next_group()
        self.log.subscribe(SUB, "t")

    @property
    def now(self) -> int:
        return round(self.log.now.timestamp() * 1e6)

    def live(self, groups: int) -> None:
        for _ in range(groups):
            self.log.next_group()
            for _ in range(self.dice.randint(0, 4)):
                topic = self.dice.choice("tu")
                [sequence] = self.log.publish(topic, encoded("x"))
                if topic == "t":
                    self.owed.add(sequence)
                    self.came_at.append(self.now)
            self.log.next_group()
            for sequence in self.dice.sample(sorted(self.owed), len(self.owed) // 2):
                self._settle(sequence)
        self.log.commit()

    def _settle(self, sequence: int) -> None:
        self.owed.discard(sequence)
        self.floor = min(self.owed, default=self.log.sequence)
        dead = self.dice.random() < 0.2
        outcome = "dead_lettered" if dead else "accepted"
        self.log.settle(SUB, "t", [sequence], self.floor, outcome=outcome, final=True)
        self.settled_at.append(self.now)
        if dead:
            self.dead.add(sequence)


@pytest.fixture(params=[1, 2])
def busy(request: pytest.FixtureRequest, tmp_path: Path) -> Busy:
    return Busy(tmp_path / "log", request.param)


def standing_of(snapshot: Snapshot, standings: Standings) -> KnownStanding:
    incarnation = snapshot.lives.current(SUB)
    assert incarnation is not None
    with LogFiles(snapshot.view, 1 << 30) as files:
        found = standings.of(files, incarnation)
    assert found is not None
    return found


def strip(snapshot: Snapshot, standing: KnownStanding, held: list[int], most: int) -> Strip:
    with LogFiles(snapshot.view, 1 << 30) as files:
        return strip_of(files, standing, held, replace(DEFAULT_LIMITS, ranges_max=most))


def test_a_standing_goes_on_with_what_came(busy: Busy) -> None:
    """And is what a fold from the beginning gives; a rewind begins it anew."""
    reader, kept = LogReader(LocalStore(busy.log.path)), Standings()
    for _ in range(4):
        busy.live(10)
        snapshot = reader.snapshot()
        found, fresh = standing_of(snapshot, kept), standing_of(snapshot, Standings())
        assert (found.floor, found.settled, found.given_up) == (
            fresh.floor,
            fresh.settled,
            fresh.given_up,
        )
        assert found.floor == busy.floor
        assert set(found.given_up) == busy.dead
        every = np.arange(busy.floor, busy.log.sequence)
        waiting = set(every[found.waits(every)].tolist())
        assert waiting >= busy.owed
        assert not waiting & busy.dead
    busy.log.next_group()
    busy.log.subscribe(SUB, "t", event="rewound", floor=3)
    busy.log.commit()
    again = standing_of(reader.snapshot(), kept)
    assert (again.floor, len(again.settled), len(again.given_up)) == (3, 0, 0)


def test_ranges_are_what_lies_there(busy: Busy) -> None:
    """Sequences of the other topic are in none; those in flight are told from those that wait."""
    busy.live(40)
    snapshot = LogReader(LocalStore(busy.log.path)).snapshot()
    standing = standing_of(snapshot, Standings())
    held = sorted(busy.owed)[::2]
    found = strip(snapshot, standing, held, 10_000)
    assert (found.floor, found.head, found.merged) == (busy.floor, busy.log.sequence, False)
    assert found.covered == found.head
    assert found.waiting == len(busy.owed)
    by_state = dict.fromkeys(MessageState, 0)
    for one in found.ranges:
        by_state[one.state] += one.messages
    assert by_state[MessageState.IN_FLIGHT] == len(held)
    assert by_state[MessageState.MIXED] == 0
    assert [one.first for one in found.ranges] == sorted(one.first for one in found.ranges)
    assert found.given_up_count == len(busy.dead)
    assert found.given_up == tuple(sorted(busy.dead, reverse=True)[:20])
    few = strip(snapshot, standing, held, 5)
    assert few.merged
    assert len(few.ranges) <= 5
    assert few.waiting == found.waiting


def test_merged_ranges_keep_the_longest_and_every_count() -> None:
    dice = np.random.default_rng(5)
    for most in (1, 2, 5, 50):
        states = np.repeat(dice.integers(0, 4, 80), dice.integers(1, 30, 80)).astype(np.int8)
        sequences = np.cumsum(dice.integers(1, 9, len(states)))
        ranges, _ = ranges_of(sequences, states, most)
        assert 1 <= len(ranges) <= max(most, 3)
        assert sum(one.messages for one in ranges) == len(states)
        assert [sum(one.counts[s] for one in ranges) for s in range(4)] == np.bincount(
            states, minlength=4
        ).tolist()
    assert ranges_of(np.zeros(0, np.int64), np.zeros(0, np.int8), 9) == ((), False)


@pytest.mark.parametrize("back", [False, True])
def test_the_backlog_over_time(busy: Busy, back: bool) -> None:
    """Messages that came and went in each bucket, and that waited at its end, counted forwards by
    the model and backwards by us. After a rewind all of them came with it."""
    busy.live(60)
    if back:
        busy.log.next_group()
        busy.log.subscribe(SUB, "t", event="rewound", floor=0)
        busy.log.next_group()
        busy.log.publish("t", encoded("x"))
        busy.log.commit()
        busy.came_at = [busy.now - 6_000_000] * len(busy.came_at) + [busy.now]
        busy.settled_at, busy.owed = [], set(range(len(busy.came_at)))
    now = busy.now + 5_000_000
    snapshot = LogReader(LocalStore(busy.log.path)).snapshot()
    incarnation = snapshot.lives.current(SUB)
    assert incarnation is not None
    with LogFiles(snapshot.view, 1 << 30) as files:
        said = {"now": now, "seconds": 900, "owed": len(busy.owed)}
        found = history_of(files, snapshot, incarnation, **said)
    assert found.whole
    assert len(found.buckets) == BUCKETS
    assert sum(one.came for one in found.buckets) == len(busy.came_at)
    assert sum(one.settled for one in found.buckets) == len(busy.settled_at)
    for one in found.buckets:
        end = one.begins_at + found.width
        came = sum(at < end for at in busy.came_at)
        gone = sum(at < end for at in busy.settled_at)
        if one.owed is not None:
            assert one.owed == came - gone
    assert found.began is not None
    assert found.buckets[-1].owed == len(busy.owed)
