"""Homes of a correct engine are sound, at every step of it; while it goes on, too."""

import os
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from table_groups import NOON, bodies, event, framed, group, run, settled

from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.message import Group
from distributary.pipeline.model.subscription import SubscriptionEvent, SubscriptionKey
from distributary.pipeline.tables.delta import commits
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.topic_log.table_view import open_view
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep import recluster, table_upkeep, tiers
from distributary.pipeline.tables.upkeep.table_upkeep import UpkeepLimits
from distributary.pipeline.tables.verify.check import Verdict
from distributary.pipeline.tables.verify.home_info import take
from distributary.pipeline.tables.verify.verify_home import verify

HOUR_US = 3_600_000_000
#: `make soak` lives through others each time.
SOAKED = int(os.environ.get("HISTORIES_SEED", "0")) * 1_000


@pytest.mark.parametrize("seed", range(SOAKED, SOAKED + 6))
def test_random_histories_are_sound(tmp_path: Path, seed: int) -> None:
    """A correct engine's steps on several subscriptions, in any order, leave a sound home; a home
    without one of its settlements isn't sound."""
    dice = random.Random(seed)
    for spoiled in (False, True):
        home = Home(tmp_path / str(spoiled) / "home")
        dice.seed(seed)
        history = _history(dice, spoiled=spoiled)
        log = TopicLog.open(home.topic_log)
        while history:
            part = [history.pop(0) for _ in range(min(len(history), dice.randint(1, 9)))]
            log.commit([framed(one) for one in part])
        report = verify(home)
        wrong = {c.name for c in report.checks if c.verdict is Verdict.UNSOUND}
        assert wrong == ({"floors"} if spoiled else set()), f"seed {seed}: {report}"


@pytest.mark.parametrize("spread_too", [False, True])
def test_upkeep_and_retention_leave_a_sound_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spread_too: bool
) -> None:
    """Days of groups, merged, checkpointed, cleaned and forgotten while they come; verify doesn't
    miss the rows that retention removed, and no owed message was removed."""
    monkeypatch.setattr(tiers, "FAN_IN", 2)
    monkeypatch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 5)
    monkeypatch.setattr(table_upkeep, "ENTRIES_MAX", 5)
    if spread_too:  # files are soon full, and three full ones are spread by topic
        monkeypatch.setattr(tiers, "FULL_ROWS", 30)
        monkeypatch.setattr(recluster, "FAN_IN", 3)
        monkeypatch.setattr(recluster, "TOPIC_BYTES_ENOUGH", 1_000_000)
    home = Home(tmp_path / "home")
    log = TopicLog.open(home.topic_log, limits=UpkeepLimits(20, 1, 2))
    floors = dict.fromkeys((f"global/s{n}" for n in range(5)), 0)
    kinds = set()
    for one in _history(random.Random(3), spoiled=False, hours=5):
        log.commit([framed(one)])
        floors |= {settlement.subscription: settlement.floor for settlement in one.settlements}
        while step := log.upkeep(now=one.written_at, floor=min(floors.values())):
            kinds.add(step.kind)
        if one.number % 3 == 0:
            report = verify(home)
            assert report.sound, f"after group {one.number}: {report}"
    assert verify(home).sound
    assert {"merge", "checkpoint", "retention"} < kinds
    assert ("spread" in kinds) == spread_too
    assert 0 < log.first_sequence <= min(floors.values())
    assert not commits.json_path(home.topic_log, 1).exists()
    found = take(home)
    assert found.table is not None
    assert {file.tier for file in found.table.files} > {0, 1}
    assert [line.backlog for line in found.subscriptions] == [0] * 5


def _history(dice: random.Random, *, spoiled: bool, hours: int = 0) -> list[Group]:
    """Groups of messages of three topics, and of settlements of five subscriptions by a model that
    settles owed messages in random order. `hours` pass between two groups."""
    keys = [SubscriptionKey(None, f"s{n}", durable=True) for n in range(5)]
    topics = {key: f"t{nth % 3}" for nth, key in enumerate(keys)}
    created = [event(SubscriptionEvent.CREATED, 0, key=key, topic=topics[key]) for key in keys]
    groups: list[Group] = [group(1, 0, subscriptions=created)]
    owed: dict[object, list[int]] = {key: [] for key in keys}
    sequence = 0
    for number in range(2, 60):
        runs, settlements, first = [], [], sequence
        for key in dice.sample(keys, dice.randint(0, 3)):
            if not owed[key]:
                continue
            taken = sorted(dice.sample(owed[key], dice.randint(1, len(owed[key]))))
            owed[key] = [one for one in owed[key] if one not in set(taken)]
            floor = min(owed[key], default=first)
            ranges = [range(one, one + 1) for one in taken]
            if spoiled and number > 30:
                spoiled = False
                continue  # its settlement is lost, but the floor will pass
            settlements.append(
                settled(*ranges, subscription=key.id, floor=floor, topic=topics[key])
            )
        for topic in dice.sample(["t0", "t1", "t2"], dice.randint(0, 3)):
            count = dice.randint(1, 20)
            runs.append(run(topic, bodies(count, 20)))
            for key in keys:
                if topics[key] == topic:
                    owed[key] += range(sequence, sequence + count)
            sequence += count
        at = NOON + number * hours * HOUR_US
        groups.append(group(number, first, *runs, at=at, settlements=settlements))
    last = [
        settled(
            *[range(one, one + 1) for one in owed[key]],
            subscription=key.id,
            floor=sequence,
            topic=topics[key],
        )
        for key in keys
    ]
    at = NOON + 60 * hours * HOUR_US
    groups.append(group(60, sequence, at=at, settlements=[s for s in last if s.sequences]))
    return groups


class Restless:
    """Goes on writing, merging and cleaning whenever verify says how far it is."""

    def __init__(self, root: Path, *, times: int) -> None:
        self.home, self.times = Home(root), times
        self.log = TopicLog.open(self.home.topic_log, limits=UpkeepLimits(3, 1, 0))
        self.number = self.moved = 0
        self.write()

    def write(self) -> None:
        """Go on until a file is gone that the table has now."""
        files = open_view(LocalStore(self.home.topic_log)).state.files
        while all((self.home.topic_log / file.path).exists() for file in files):
            self.number += 1
            one = group(self.number, self.number - 1, run("orders", bodies(1, 100)))
            self.log.commit([framed(one)])
            while self.log.upkeep(now=one.written_at, floor=0):
                pass
            files = files or open_view(LocalStore(self.home.topic_log)).state.files

    def progress(self, what: str, done: int, total: int) -> None:
        """The table was opened, none of its files was read."""
        if what == "data files" and not done and self.moved < self.times:
            self.moved += 1
            self.write()
            assert total


@pytest.mark.parametrize("times", [2, 100])
def test_files_that_go_while_they_are_read_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """From the beginning, as of a later version; and a table that never rests is said, not called
    broken."""
    monkeypatch.setattr(tiers, "FAN_IN", 2)
    monkeypatch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 2)
    monkeypatch.setattr(table_upkeep, "ENTRIES_MAX", 1)
    restless = Restless(tmp_path / "home", times=times)
    version = restless.log.version
    if times > 5:
        with pytest.raises(StoreError, match="was replaced while it was read"):
            verify(restless.home, progress=restless.progress)
        assert restless.moved == 5
        return
    report = verify(restless.home, progress=restless.progress)
    assert report.sound, report
    assert restless.moved == times
    assert report.version is not None
    assert report.version > version


def checkpointed(folder: Path, patch: pytest.MonkeyPatch, kept: int) -> tuple[Home, list[Path]]:
    """A home of twenty commits with a checkpoint every five, and `kept` entries at least; its
    checkpoints, the oldest first."""
    patch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 5)
    patch.setattr(table_upkeep, "ENTRIES_MAX", 1)
    home = Home(folder)
    log = TopicLog.open(home.topic_log, limits=UpkeepLimits(kept, 1, 0))
    for one in _history(random.Random(5), spoiled=False)[:20]:
        log.commit([framed(one)])
        while log.upkeep(now=one.written_at, floor=0):
            pass
    assert verify(home).sound
    return home, sorted((home.topic_log / "_delta_log").glob("*.checkpoint.parquet"))


def entries_say(home: Home) -> str:
    """Return the problems of the log entries."""
    [check] = [one for one in verify(home).checks if one.name == "log entries"]
    return check.problems[0]


@pytest.mark.parametrize("kept", [1_000, 8])
def test_a_checkpoint_that_is_not_what_the_entries_say_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    """Readers believe the checkpoint; the entries that still stand show that it is wrong. With
    entries from version 0 on, or from an older checkpoint on."""
    home, checkpoints = checkpointed(tmp_path / "home", monkeypatch, kept)
    assert commits.json_path(home.topic_log, 0).exists() == (kept == 1_000)
    table = pq.read_table(checkpoints[-1])
    adds = [n for n, row in enumerate(table["add"].to_pylist()) if row]
    rest = [n for n in range(table.num_rows) if n != adds[0]]
    pq.write_table(table.take(rest), checkpoints[-1])
    assert "which the checkpoint doesn't (1 such files)" in entries_say(home)


@pytest.mark.parametrize(
    ("nth", "words"), [(-1, "can't be read:"), (0, "can't be read as of its checkpoint of version")]
)
def test_a_checkpoint_that_can_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nth: int, words: str
) -> None:
    """The newest one, which readers need, and the oldest one, from which streams go on."""
    home, checkpoints = checkpointed(tmp_path / "home", monkeypatch, 8)
    checkpoints[nth].write_bytes(checkpoints[nth].read_bytes()[:-9])
    said = entries_say(home)
    assert words in said
    assert str(int(checkpoints[nth].name[:20])) in said
