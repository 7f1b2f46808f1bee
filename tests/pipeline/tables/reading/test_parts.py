"""Chosen messages, cut into parts and read side by side: just these, each once, or an error."""

import random
import time
from dataclasses import replace
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from deltalake import DeltaTable
from s3_server import served
from table_groups import bodies, framed, group, run

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.reading.part_reading import COLUMNS, read, require_same
from distributary.pipeline.tables.reading.parts import parts
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

Rows = dict[int, tuple[str, bytes]]


def filled(log: TopicLog, seed: int, commits: int, most: int) -> Rows:
    """Commits of groups of mixed topics; each message by its sequence."""
    chance = random.Random(seed)
    rows: Rows = {}
    number = 1
    for _ in range(commits):
        groups = []
        for _ in range(chance.randint(1, 4)):
            runs = []
            for _ in range(chance.randint(1, 4)):
                topic, some = f"topic-{chance.randrange(3)}", bodies(chance.randint(1, most), 20)
                runs.append(run(topic, some))
            runs.sort(key=lambda one: one.topic)
            one = group(number, len(rows), *runs)
            for part in one.messages:
                for at in range(part.count):
                    rows[len(rows)] = part.topic, bytes(part.blob[20 * at : 20 * at + 20])
            groups.append(one)
            number += 1
        log.commit([framed(one) for one in groups])
    return rows


def read_all(log: TopicLog, topic: str, wanted: list[int], **more: Any) -> list[tuple[int, bytes]]:
    """Read all parts, each in its order."""
    found: list[tuple[int, bytes]] = []
    for part in parts(log.uri, {}, log.identity, topic, wanted, **more):
        for batch in read(part):
            assert batch.schema.names == list(COLUMNS)
            assert set(batch.column("topic").to_pylist()) <= {topic}
            data = batch.column("message").to_pylist()
            found += zip(batch.column("sequence").to_pylist(), data, strict=True)
    return found


@pytest.mark.parametrize("most", [40, 6_000])
def test_just_what_is_wanted_is_read_and_once(tmp_path: Path, most: int) -> None:
    """Topics mixed in whatever commits, small files and files of several row groups, merged or not,
    a few messages or all of them."""
    log = TopicLog.open(tmp_path / "log")
    rows = filled(log, most, commits=5 if most < 100 else 2, most=most)
    chance = random.Random(most)
    for merged in (False, True):
        if merged:
            DeltaTable(log.path).optimize.compact()
        for topic in ("topic-0", "topic-1", "topic-2"):
            due = [one for one, (whose, _) in rows.items() if whose == topic]
            for share in (1.0, 0.3, 0.01):
                wanted = [one for one in due if chance.random() < share]
                want = [(one, rows[one][1]) for one in wanted]
                for size in (50, 100_000):
                    assert sorted(read_all(log, topic, wanted, messages=size)) == want


def test_parts_are_about_as_large_as_they_should_be(tmp_path: Path) -> None:
    """Many when they are small; one when all fits; none for nothing."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("orders", bodies(30_000, 20))))])
    uri, there, wanted = log.uri, log.identity, range(30_000)
    made = parts(uri, {}, there, "orders", wanted, messages=8_192)
    assert [part.count for part in made] == [8_192, 8_192, 8_192, 5_424]
    assert made[0].wanted == "0-8191"
    assert len(parts(uri, {}, there, "orders", wanted, messages=100_000)) == 1
    assert parts(uri, {}, there, "orders", [], messages=10) == []


def test_parts_are_the_same_after_a_merge(tmp_path: Path) -> None:
    """A batch that runs again has the same messages in the same tasks, wherever they lie now: the
    sink `topic` knows its messages by their tasks."""
    log = TopicLog.open(tmp_path / "log")
    rows = filled(log, 3, commits=12, most=40)
    for topic in ("topic-0", "topic-1"):
        wanted = [one for one, (whose, _) in rows.items() if whose == topic][::2]

        def texts(size: int, topic: str = topic, wanted: list[int] = wanted) -> list[str]:
            made = parts(log.uri, {}, log.identity, topic, wanted, messages=size)
            return [one.wanted for one in made]

        before = {size: texts(size) for size in (7, 50, 100_000)}
        assert len(before[7]) == -(-len(wanted) // 7)
        DeltaTable(log.path).optimize.compact()
        assert {size: texts(size) for size in before} == before


def test_what_is_not_there_is_an_error_and_never_skipped(tmp_path: Path) -> None:
    """Of another topic, not committed, or removed: no batch is returned without them."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("a", bodies(5, 20)), run("b", bodies(5, 20))))])
    for wanted in ([3, 7], [3, 10], [10]):
        with pytest.raises(StoreError, match=r"is in no file|are there\. Nothing was skipped"):
            read_all(log, "a", wanted, messages=10)
    found = read_all(log, "a", [3, 7, 10], messages=10, exact=False)
    assert [one for one, _ in found] == [3]


def test_a_file_that_was_merged_away_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    """Planned again, the same messages are read where they lie now."""
    log = TopicLog.open(tmp_path / "log")
    for number in (1, 2):
        log.commit([framed(group(number, number * 5 - 5, run("a", bodies(5, 20))))])
    before = parts(log.uri, {}, log.identity, "a", range(10), messages=100)
    table = DeltaTable(log.path)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(StoreError, match="merged away while it was to be read; start the query"):
        list(read(before[0]))
    assert len(read_all(log, "a", list(range(10)), messages=100)) == 10


def test_a_table_far_away_is_read_by_its_address(tmp_path: Path) -> None:
    """With the options that a store needs, and nothing of the gateway's."""
    with served() as options:
        store = ObjectStore("s3://lake/parts/topic_log", options)
        log = TopicLog.open(Home(tmp_path).topic_log, store=store)
        log.commit([framed(group(1, 0, run("a", bodies(20, 20))))])
        [part] = parts(store.uri, dict(options), log.identity, "a", [3, 4, 15], messages=10)
        [batch] = read(part)
        assert batch.column("sequence").to_pylist() == [3, 4, 15]
        for other, why in (
            ("no version 9", replace(log.identity, version=9)),
            ("another one", replace(log.identity, entry="0" * 32)),
        ):
            with pytest.raises(StoreError, match=other):
                parts(store.uri, dict(options), why, "a", [3], messages=10)


def another(path: Path) -> TopicLog:
    """Make a table by another program: the same sequences, other messages."""
    log = TopicLog.open(path)
    log.commit([framed(group(1, 0, run("a", [b"w" * 20] * 10)))])
    return log


def copied(log: TopicLog, to: Path) -> TopicLog:
    """A copy, which has gone on by itself: after sequence 9 its messages are others."""
    copytree(log.path, to)
    copy = TopicLog.open(to)
    copy.commit([framed(group(2, 10, run("a", [b"w" * 20] * 10)))])
    return copy


@pytest.mark.parametrize("which", ["another", "a copy", "an older copy", "nothing", "a file"])
def test_another_table_in_the_same_place_is_never_read(tmp_path: Path, which: str) -> None:
    """Neither where parts are cut nor where one is read, whatever it is that lies there."""
    log, there = TopicLog.open(tmp_path / "log"), tmp_path / "there"
    log.commit([framed(group(1, 0, run("a", bodies(10, 20))))])
    match which:
        case "another":
            assert another(there).identity.table != log.identity.table
        case "a copy":
            assert copied(log, there).identity.table == log.identity.table
        case "an older copy":
            copytree(log.path, there)
        case "a file":
            there.write_text("no table")
    log.commit([framed(group(2, 10, run("a", bodies(10, 20))))])
    with pytest.raises(StoreError, match=r"isn't the gateway's|no topic_log can be reached"):
        parts(str(there), {}, log.identity, "a", [3, 12], messages=10)
    [part, *_] = parts(log.uri, {}, log.identity, "a", [3, 12], messages=10)
    found = read(replace(part, uri=str(there)))
    if which == "an older copy":
        next(found)  # a file that both have, by its name
    with pytest.raises(StoreError, match=r"isn't the gateway's|no topic_log can be reached"):
        next(found)


def test_a_copy_that_has_all_is_as_good(tmp_path: Path) -> None:
    """A mirror that is as new as the gateway said may be read; one that lacks the entry by now
    is known by the names of its files."""
    log, mirror = TopicLog.open(tmp_path / "log"), tmp_path / "mirror"
    log.commit([framed(group(1, 0, run("a", bodies(10, 20))))])
    copytree(log.path, mirror)
    [part] = parts(str(mirror), {}, log.identity, "a", [3], messages=10)
    [batch] = read(part)
    assert batch.column("sequence").to_pylist() == [3]
    (mirror / "_delta_log" / f"{log.identity.version:020d}.json").unlink()
    [batch] = read(part)
    assert batch.column("sequence").to_pylist() == [3]


def test_what_a_table_says_of_itself_is_known_after_a_start(tmp_path: Path) -> None:
    """After each commit, after each upkeep, and read back: the entry of a version that has all."""
    log = TopicLog.open(tmp_path / "log")
    seen = {log.identity}
    for number in range(1, 13):
        log.commit([framed(group(number, number * 5 - 5, run("a", bodies(5, 20))))])
        while log.upkeep(now=time.time_ns() // 1_000, floor=0):
            assert log.identity.version == log.version
        assert TopicLog.open(log.path).identity == log.identity
        require_same(log.uri, {}, log.identity)
        seen.add(log.identity)
    log.fence(7, lambda: None)
    assert TopicLog.open(log.path).identity == log.identity
    assert len({one.entry for one in seen}) == 13
