"""States that may be copied, and the parts of a state that must be: as tables."""

import pytest

from distributary.pipeline.backup.backup_manifest import (
    PIECE_BYTES,
    BackedFile,
    BackupManifest,
    BackupPoint,
)
from distributary.pipeline.backup.backup_plan import (
    SegmentGroups,
    SourceFile,
    log_of_version,
    order_of_tables,
    require_same_log,
    segments_of,
    unneeded,
    work,
)
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.log.log_identity import LogIdentity


def test_cursors_are_pinned_first_and_the_log_last() -> None:
    names = ["acks", "topic_log", "messages", "cursors", "versions"]
    assert order_of_tables(names) == ["cursors", "acks", "messages", "versions", "topic_log"]


def entry(version: int) -> str:
    return f"{version:020d}.json"


def point(version: int, part: str = "") -> str:
    return f"{version:020d}.checkpoint{part}.parquet"


@pytest.mark.parametrize(
    ("names", "version", "pointed", "due"),
    [
        ([entry(0), entry(1)], 1, None, [entry(0), entry(1)]),
        # a later one isn't looked at
        ([entry(0), entry(1), entry(2)], 1, None, [entry(0), entry(1)]),
        ([entry(1), entry(0), ".x.json.tmp", "_last_checkpoint"], 1, None, [entry(0), entry(1)]),
        ([entry(0)], 1, None, None),
        # cleaned up, and its checkpoint isn't there
        ([entry(1), entry(2)], 2, None, None),
        ([point(1), entry(1), entry(2)], 2, 1, [point(1), entry(1), entry(2)]),
        # one whose pointer is still to come, or was lost: entries do, while all are there
        ([point(1), entry(0), entry(1), entry(2)], 2, None, [entry(0), entry(1), entry(2)]),
        ([point(1), entry(1), entry(2)], 2, None, [point(1), entry(1), entry(2)]),
        ([point(1), point(2), entry(1), entry(2)], 2, None, [point(2), entry(2)]),
        # the pointer's, whatever came since it was read
        ([point(1), point(2), entry(1), entry(2)], 2, 1, [point(1), entry(1), entry(2)]),
        ([point(1), point(3), entry(1), entry(2), entry(3)], 2, 1, [point(1), entry(1), entry(2)]),
        # it went since the pointer was read
        ([point(2), entry(2), entry(3)], 3, 1, None),
        ([point(2), entry(1), entry(2), entry(3)], 3, 1, None),
        # the gateway keeps the checkpoint's own entry
        ([point(2), entry(3)], 3, 2, None),
        ([point(1, ".1.2"), point(1, ".2.2"), entry(1)], 1, 1,
         [point(1, ".1.2"), point(1, ".2.2"), entry(1)]),
        ([], 0, None, None),
    ],
)  # fmt: skip
def test_what_stands_for_a_version(
    names: list[str], version: int, pointed: int | None, due: list[str] | None
) -> None:
    assert log_of_version(names, version, pointed) == due


ONE, TWO, THREE = (
    SegmentGroups("1", 1, 10),
    SegmentGroups("2", 10, 20),
    SegmentGroups("3", 20, 20),
)


@pytest.mark.parametrize(
    ("segments", "group", "needed"),
    [
        ([], 0, []),
        ([ONE, TWO], 0, [ONE, TWO]),
        ([TWO, ONE], 8, [ONE, TWO]),
        ([ONE, TWO], 9, [TWO]),
        ([ONE, TWO], 15, [TWO]),
        ([ONE, TWO], 19, []),  # the table has all
        ([ONE, TWO], 30, []),  # it has gone beyond
        ([ONE, TWO, THREE], 15, [TWO]),  # one without a group
        ([TWO], 8, None),  # group 9 is nowhere
        ([ONE, SegmentGroups("4", 21, 25)], 3, None),  # so are 10 to 20
        ([ONE, SegmentGroups("4", 21, 25)], 20, [SegmentGroups("4", 21, 25)]),
    ],
)
def test_which_segments_a_table_needs(
    segments: list[SegmentGroups], group: int, needed: list[SegmentGroups] | None
) -> None:
    assert segments_of(segments, group) == needed


WAS = LogIdentity("table", 7, "aa")


@pytest.mark.parametrize(
    ("now", "entry", "why"),
    [
        (LogIdentity("table", 7, "aa"), "aa", ""),
        (LogIdentity("table", 9, "cc"), "aa", ""),
        (LogIdentity("table", 900, "cc"), None, ""),  # the entry was cleaned up
        (LogIdentity("other", 9, "cc"), "aa", "another home"),
        (LogIdentity("table", 6, "cc"), None, "as of version 7, and the home has only 6"),
        (LogIdentity("table", 9, "cc"), "bb", "a copy of this home that went on by itself"),
    ],
)
def test_a_folder_has_backups_of_one_log(now: LogIdentity, entry: str | None, why: str) -> None:
    if not why:
        require_same_log(WAS, now, entry, "/b")
        return
    with pytest.raises(InvalidRequest, match=f"^/b has a backup of .*{why}"):
        require_same_log(WAS, now, entry, "/b")


SIZE = PIECE_BYTES + 10
KNOWN = BackedFile("data", SIZE, 0o644, ("p", "q"))
WHOLE = {"p": PIECE_BYTES, "q": 10}


@pytest.mark.parametrize(
    ("source", "present", "kept"),
    [
        (SourceFile("data", SIZE, fixed=True), WHOLE, True),
        (SourceFile("data", SIZE, fixed=False), WHOLE, False),  # it may have changed
        (SourceFile("data", SIZE + 1, fixed=True), WHOLE, False),
        (SourceFile("data", SIZE, fixed=True), {"p": PIECE_BYTES}, False),  # a piece was lost
        (SourceFile("data", SIZE, fixed=True), WHOLE | {"q": 9}, False),  # a piece was cut
        (SourceFile("data", SIZE, fixed=True), WHOLE | {"p": 0}, False),
        (SourceFile("new", SIZE, fixed=True), WHOLE, False),
    ],
)
def test_files_that_must_be_read_again(
    source: SourceFile, present: dict[str, int], kept: bool
) -> None:
    found = work([source], {"data": KNOWN}, present)
    assert found.kept == ((KNOWN,) if kept else ())
    assert found.copied == (() if kept else (source,))
    assert found.copied_bytes == (0 if kept else source.size)


def test_pieces_that_no_file_has_go() -> None:
    manifest = BackupManifest(BackupPoint(0.0, WAS, 1, 1), (KNOWN,))
    assert unneeded(["x", "p", "q", "a.new"], manifest) == ["a.new", "x"]
