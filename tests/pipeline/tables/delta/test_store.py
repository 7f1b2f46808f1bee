"""A folder as the place of a table: files appear whole, and the first file of a name stays."""

import errno
import os
from pathlib import Path

import pytest
from table_groups import framed, group, run

from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.delta.store import LocalStore, SyncFailed
from distributary.pipeline.tables.topic_log.topic_log import TopicLog


def test_of_two_that_make_a_file_one_does(tmp_path: Path) -> None:
    """The second is told so, the first one's stays as it is, and nothing else is left."""
    first, second = LocalStore(tmp_path), LocalStore(tmp_path)
    assert first.create("log/1.json", b"first")
    assert not second.create("log/1.json", b"second")
    assert first.read("log/1.json") == b"first"
    assert first.files("log") == ["1.json"]


def test_two_never_write_one_temporary_file(tmp_path: Path) -> None:
    """A file that a paused owner has begun isn't the one that the new owner renames."""
    first, second = LocalStore(tmp_path), LocalStore(tmp_path)
    (tmp_path / "log").mkdir()
    assert first.temporary_path(tmp_path / "log/1.json", b"1") != second.temporary_path(
        tmp_path / "log/1.json", b"2"
    )


def test_names_sizes_and_absence(tmp_path: Path) -> None:
    """Folders are made when they are needed, and go when they are empty."""
    store = LocalStore(tmp_path / "table")
    assert (store.files("a"), store.folders(""), store.size("a/x")) == ([], [], 0)
    store.put("a/b/x", b"12345")
    store.replace("a/y", b"1")
    store.replace("a/y", b"22")
    assert (store.files("a"), store.folders("a"), store.size("a/b/x")) == (["y"], ["b"], 5)
    assert store.read("a/y") == b"22"
    store.delete(["a/b/x", "a/b/x"])
    store.sync(["a/b", "a", "gone"])
    assert (store.folders("a"), store.exists("a/y")) == ([], True)


def test_a_write_that_finds_no_room_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be tried again, so there must be nothing in its way."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = LocalStore(tmp_path)
    monkeypatch.setattr(os, "pwritev", full)
    for verb in (store.put, store.create, store.replace):
        with pytest.raises(OSError, match="No space"):
            verb("a/x", b"1")
    monkeypatch.undo()
    assert store.files("a") == []
    store.put("a/x", b"1")


def test_an_fsync_that_failed_is_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It isn't repeated: the disk's content is unknown, and only a new start may read it."""
    log = TopicLog.open(tmp_path / "log")
    asked: list[int] = []

    def failing(fd: int) -> None:
        asked.append(fd)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", failing)
    with pytest.raises(SyncFailed, match=r"fsync of .* failed"):
        log.commit([framed(group(1, 0, run("t", [b"x"])))])
    monkeypatch.undo()
    assert len(asked) == 1
    assert "fsync of" in (log.dead or "")
    for again in (
        lambda: log.commit([framed(group(1, 0, run("t", [b"x"])))]),
        lambda: log.upkeep(now=0, floor=0),
        lambda: log.fence(1, lambda: None),
    ):
        with pytest.raises(StoreError, match="fsync of"):
            again()
    assert TopicLog.open(log.path).version == 0
