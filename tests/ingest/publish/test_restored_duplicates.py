"""Ids that are read back from the table: as many as the window holds, and as old."""

import time
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
from gateway_links import encoded

from distributary.ingest.publish.restored_duplicates import restore_duplicates
from distributary.ingest.runtime.load_settings import load
from distributary.ingest.runtime.policies import Policies, policies_written
from distributary.pipeline.log.duplicates import Windows
from distributary.pipeline.model.message import Group, PublishBatch
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

SECOND = 1_000_000
#: What an id is: a string's type, its size, its bytes.
STRING = b"\xa1"


def run(topic: str, names: Sequence[object]) -> PublishBatch:
    messages = [encoded("body", id=name) for name in names]
    count = len(messages)
    return PublishBatch(
        topic,
        count,
        b"".join(messages),
        array("I", map(len, messages)).tobytes(),
        b"\1" * count,
        b"\4" * count,
        bytes(4 * count),
    )


def table(path: Path, groups: Sequence[tuple[int, Sequence[PublishBatch]]]) -> TopicLog:
    """A table with these groups, published so many seconds ago."""
    log, sequence, now = TopicLog.open(path), 0, time.time_ns() // 1_000
    for number, (seconds, runs) in enumerate(groups, 1):
        group = Group(number, sequence, now - seconds * SECOND, tuple(runs))
        log.commit([memoryview(b"".join(bytes(part) for part in frame.encode(group)))])
        sequence += group.message_count
    return log


def policies(tmp_path: Path, written: str) -> Policies:
    file = tmp_path / "policies.toml"
    file.write_text(f'[[topic]]\nmatch = "t"\n{written}\n')
    settings = load(None, {}, {"delivery.policies": str(file)})
    style = settings.delivery.pattern_style
    return Policies(None, policies_written(settings), style)  # type: ignore[arg-type]


def known(windows: Windows, topic: str, names: str) -> str:
    """The ids of these that are in the window."""
    ids = [STRING + bytes([len(name)]) + name.encode() for name in names]
    now = time.time_ns() // 1_000
    return "".join(names[at] for at in windows.add(topic, ids, now, messages=10_000, age=0))


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("duplicates_messages = 100", "abcdefg"),
        ("duplicates_messages = 3", "efg"),
        ("duplicates_messages = 5", "cdefg"),
        ("duplicates_ms = 100_000", "cdefg"),
        ("duplicates_ms = 40_000", "efg"),
        ("duplicates_ms = 40_000\nduplicates_messages = 3", "efg"),
        ("duplicates_ms = 1_000", "g"),
        ("backlog_messages_max = 5", ""),
    ],
)
def test_the_window_is_what_it_was(tmp_path: Path, written: str, expected: str) -> None:
    """By number, by time and by both; other topics lie between, and some have no id."""
    others = run("elsewhere", ["x", "y"])
    log = table(
        tmp_path / "log",
        [
            (500, [run("t", ["a", "b"]), others]),
            (90, [others, run("t", [None, "c", "d"])]),
            (30, [run("t", ["e"]), others, run("t", ["f"])]),
            (0, [run("t", ["g", None])]),
        ],
    )
    windows = Windows(1_000)
    restore_duplicates(windows, policies(tmp_path, written), log)
    assert len(windows) == len(expected)
    assert known(windows, "t", "abcdefg") == expected
    assert not known(windows, "elsewhere", "xy")


def test_what_was_read_back_grows_old(tmp_path: Path) -> None:
    """It counts for a sixteenth of the window longer at most."""
    log = table(tmp_path / "log", [(60, [run("t", ["a"])]), (20, [run("t", ["b"])])])
    windows = Windows(1_000)
    restore_duplicates(windows, policies(tmp_path, "duplicates_ms = 80_000"), log)
    later = time.time_ns() // 1_000 + 26 * SECOND
    assert windows.add("t", [], later, messages=0, age=80 * SECOND) == []
    assert known(windows, "t", "ab") == "b"
