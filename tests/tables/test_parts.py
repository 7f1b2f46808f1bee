"""Chosen messages, cut into parts and read side by side: just these, each once, or an error."""

import random
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from s3_server import served
from table_groups import bodies, framed, group, run

from pipeline.errors import StoreError
from pipeline.tables.home import Home
from pipeline.tables.object_store import ObjectStore
from pipeline.tables.part_reading import COLUMNS, read
from pipeline.tables.parts import parts
from pipeline.tables.topic_log import TopicLog

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


def read_all(log: str, topic: str, wanted: list[int], **more: Any) -> list[tuple[int, bytes]]:
    """What all parts give, each part in its order."""
    found: list[tuple[int, bytes]] = []
    for part in parts(log, {}, topic, wanted, **more):
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
                    assert sorted(read_all(str(log.path), topic, wanted, messages=size)) == want


def test_parts_are_about_as_large_as_they_should_be(tmp_path: Path) -> None:
    """Many when they are small; one when all fits; none for nothing."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("orders", bodies(30_000, 20))))])
    uri, wanted = str(log.path), range(30_000)
    made = parts(uri, {}, "orders", wanted, messages=8_192)
    assert [part.count for part in made] == [8_192, 8_192, 8_192, 5_424]
    assert made[0].wanted == "0-8191"
    assert len(parts(uri, {}, "orders", wanted, messages=100_000)) == 1
    assert parts(uri, {}, "orders", [], messages=10) == []


def test_what_is_not_there_is_an_error_and_never_skipped(tmp_path: Path) -> None:
    """Of another topic, not committed, or removed: nobody gets a batch that lacks it."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("a", bodies(5, 20)), run("b", bodies(5, 20))))])
    uri = str(log.path)
    for wanted in ([3, 7], [3, 10], [10]):
        with pytest.raises(StoreError, match=r"is in no file|are there\. Nothing was skipped"):
            read_all(uri, "a", wanted, messages=10)
    found = read_all(uri, "a", [3, 7, 10], messages=10, exact=False)
    assert [one for one, _ in found] == [3]
    with pytest.raises(StoreError, match="can't be read"):
        parts(str(tmp_path / "nothing"), {}, "a", [1], messages=10)


def test_a_file_that_was_merged_away_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    """Planned again, the same messages are read where they lie now."""
    log = TopicLog.open(tmp_path / "log")
    for number in (1, 2):
        log.commit([framed(group(number, number * 5 - 5, run("a", bodies(5, 20))))])
    before = parts(str(log.path), {}, "a", range(10), messages=100)
    table = DeltaTable(log.path)
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(StoreError, match="merged away while it was to be read; start the query"):
        list(read(before[0]))
    assert len(read_all(str(log.path), "a", list(range(10)), messages=100)) == 10


def test_a_table_far_away_is_read_by_its_address(tmp_path: Path) -> None:
    """With the options that a store needs, and nothing of the gateway's."""
    with served() as options:
        store = ObjectStore("s3://lake/parts/topic_log", options)
        log = TopicLog.open(Home(tmp_path).topic_log, store=store)
        log.commit([framed(group(1, 0, run("a", bodies(20, 20))))])
        [part] = parts(store.uri, dict(options), "a", [3, 4, 15], messages=10)
        [batch] = read(part)
        assert batch.column("sequence").to_pylist() == [3, 4, 15]
