"""Pages out of topic_log equal a model that keeps every message in a list."""

import random
from pathlib import Path

import numpy as np
import pytest
from deltalake import DeltaTable
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from open_files import open_below
from table_groups import bodies, framed, group, run

from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.message import Group
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.tables.delta.message_file import MessageFile
from distributary.pipeline.tables.reading.message_page import Page
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

Message = tuple[int, bytes]


def messages(batches: tuple[RecordBatch, ...]) -> list[Message]:
    """Each message of the batches with its sequence."""
    found: list[Message] = []
    for batch in batches:
        offsets = np.frombuffer(batch.offsets, np.int32)
        assert len(offsets) == batch.count + 1
        sequences = batch.sequences or range(batch.first, batch.stop)
        assert (sequences[0], len(sequences), sequences[-1] + 1) == (
            batch.first,
            batch.count,
            batch.stop,
        )
        found += [
            (sequence, bytes(batch.blob[offsets[i] : offsets[i + 1]]))
            for i, sequence in enumerate(sequences)
        ]
    return found


def walk(log: TopicLog, topic: str, start: int, bytes_max: int) -> list[Message]:
    """All pages from `start` to the head of the log, checked for what a page promises."""
    found: list[Message] = []
    while start < log.sequence_version:
        page: Page = log.page(topic, start, bytes_max)
        assert page.covered > start
        got = messages(page.batches)
        assert all(start <= sequence < page.covered for sequence, _ in got)
        found += got
        start = page.covered
    return found


def model(groups: list[Group]) -> dict[str, list[Message]]:
    """Every topic's messages by their sequence."""
    found: dict[str, list[Message]] = {}
    for one in groups:
        sequence = one.first_sequence
        for part in one.messages:
            at = 0
            for length in np.frombuffer(part.lengths, np.uint32).tolist():
                body = bytes(part.blob[at : at + length])
                found.setdefault(part.topic, []).append((sequence, body))
                sequence += 1
                at += length
    return found


def history(seed: int, commits: int, topics: int) -> list[list[Group]]:
    """Commits of groups with runs of random topics."""
    chance = random.Random(seed)
    number, sequence, result = 1, 0, []
    for _ in range(commits):
        part = []
        for _ in range(chance.randint(1, 6)):
            runs = [
                run(f"topic-{chance.randrange(topics)}", bodies(chance.randint(1, 40), 30))
                for _ in range(chance.randint(0, 5))
            ]
            one = group(number, sequence, *runs)
            part.append(one)
            number, sequence = number + 1, sequence + one.message_count
        result.append(part)
    return result


@pytest.mark.parametrize("reopened", [False, True])
def test_pages_over_interleaved_topics_equal_the_model(tmp_path: Path, reopened: bool) -> None:
    """For any mix of topics in any commits, each topic pages complete and in order."""
    for seed in range(4):
        log = TopicLog.open(tmp_path / f"{seed}")
        parts = history(seed, commits=5, topics=4)
        for part in parts:
            log.commit([framed(one) for one in part])
        if reopened:
            log = TopicLog.open(log.path)
        due = model([one for part in parts for one in part])
        for topic in [*due, "no such topic"]:
            for start in (0, 1, log.sequence_version // 2, log.sequence_version):
                want = [m for m in due.get(topic, []) if m[0] >= start]
                for bytes_max in (1, 400, 1 << 20):
                    assert walk(log, topic, start, bytes_max) == want


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(), st.integers(0, 300), st.integers(1, 5000))
def test_any_page_keeps_its_promise(
    tmp_path_factory: pytest.TempPathFactory, seed: int, start: int, bytes_max: int
) -> None:
    """From any sequence with any size: the walk is the model from there on."""
    log = TopicLog.open(tmp_path_factory.mktemp("log") / "log")
    parts = history(seed, commits=3, topics=3)
    for part in parts:
        log.commit([framed(one) for one in part])
    due = model([one for part in parts for one in part])
    for topic, all_messages in due.items():
        want = [m for m in all_messages if m[0] >= start]
        assert walk(log, topic, start, bytes_max) == want


def test_row_groups_that_overlap_are_merged(tmp_path: Path) -> None:
    """Topics that share a big commit overlap in files and row groups; order is kept."""
    log = TopicLog.open(tmp_path / "log")
    sequence, groups = 0, []
    for number in range(1, 101):
        runs = [run(f"topic-{i}", bodies(40, 20)) for i in (2, 0, 1)]
        groups.append(group(number, sequence, *runs))
        sequence += 120
    log.commit([framed(one) for one in groups])
    for topic, due in model(groups).items():
        assert walk(log, topic, 0, 16_000) == due


def test_a_compacted_table_pages_the_same(tmp_path: Path) -> None:
    """After files were joined, the reopened log gives every message as before."""
    log = TopicLog.open(tmp_path / "log")
    parts = history(7, commits=6, topics=2)
    for part in parts:
        log.commit([framed(one) for one in part])
    DeltaTable(log.path).optimize.compact()
    log = TopicLog.open(log.path)
    for topic, due in model([one for part in parts for one in part]).items():
        assert walk(log, topic, 0, 2000) == due


def test_interleaved_topics_come_in_few_batches(tmp_path: Path) -> None:
    """One message each of three topics, again and again: a page is one batch, not one a message."""
    log = TopicLog.open(tmp_path / "log")
    groups = [
        group(n + 1, 3 * n, *[run(f"topic-{i}", bodies(1, 20)) for i in range(3)])
        for n in range(400)
    ]
    log.commit([framed(one) for one in groups])
    (batch,) = log.page("topic-1", 0, 1 << 20).batches
    assert batch.sequences is not None
    assert list(batch.sequences) == list(range(1, 1_200, 3))
    assert messages((batch,)) == model(groups)["topic-1"]


def test_long_stretches_are_batches_of_their_own(tmp_path: Path) -> None:
    """Long stretches of consecutive messages become ranges, which cost nothing a message."""
    log = TopicLog.open(tmp_path / "log")
    groups = [
        group(n + 1, 210 * n, run("mine", bodies(200, 20)), run("other", bodies(10, 20)))
        for n in range(3)
    ]
    log.commit([framed(one) for one in groups])
    batches = log.page("mine", 0, 1 << 20).batches
    assert [(batch.first, batch.count, batch.sequences) for batch in batches] == [
        (0, 200, None),
        (210, 200, None),
        (420, 200, None),
    ]


def test_a_page_holds_one_message_at_least(tmp_path: Path) -> None:
    """A message bigger than the page's limit comes alone."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", bodies(3, 5000))))])
    page = log.page("t", 1, 100)
    assert [sequence for sequence, _ in messages(page.batches)] == [1]
    assert page.covered == 2


def test_an_empty_page_leads_to_the_head(tmp_path: Path) -> None:
    """When nothing is owed up to the head of the log, the page says so."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", bodies(3, 10))))])
    assert log.page("else", 0, 100) == Page((), 3)
    assert log.page("t", 3, 100) == Page((), 3)


def test_long_names_with_one_beginning_are_kept_apart(tmp_path: Path) -> None:
    """Statistics cut long names; pages still know the topics apart."""
    log = TopicLog.open(tmp_path / "log")
    names = ["x" * 100 + end for end in "abc"]
    log.commit([framed(group(1, 0, *[run(n, [n.encode()] * 3) for n in names]))])
    log = TopicLog.open(log.path)
    for i, name in enumerate(names):
        assert walk(log, name, 0, 10) == [(3 * i + k, name.encode()) for k in range(3)]


def test_a_name_that_was_cut_is_no_upper_bound() -> None:
    """Statistics may hold only the beginning of a long name; its file isn't passed over."""
    low, high = "a", "x" * 32
    file = MessageFile("path", 0, 9, low, high, 9)
    assert file.may_hold("x" * 40)
    assert not MessageFile("path", 0, 9, low, "x", 9).may_hold("xx")


def test_many_files_keep_few_open(tmp_path: Path) -> None:
    """A long backlog of small commits pages whole with a bounded number of open files."""
    log = TopicLog.open(tmp_path / "log")
    for n in range(90):
        log.commit([framed(group(n + 1, n * 2, run("t", bodies(2, 10))))])
    assert len(walk(log, "t", 0, 1 << 20)) == 180
    assert 0 < len(open_below(tmp_path)) <= 64


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """A missing data file is said, not skipped: its messages are owed."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", [b"x"])))])
    (path,) = log.files("message", 0)
    path.unlink()
    with pytest.raises(StoreError, match="messages of t can't be read"):
        log.page("t", 0, 100)


def test_a_bit_that_flipped_in_a_message_is_refused_and_not_delivered(tmp_path: Path) -> None:
    """The page's checksum doesn't fit: the error names the file, and other pages are read."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", bodies(300, 10_000))))])
    path = next(log.path.rglob("record=message/*/*.parquet"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match=f"{path.name}, row group .*CRC"):
        walk(log, "t", 0, 100_000)


def test_what_could_not_be_read_is_read_anew(tmp_path: Path) -> None:
    """A file that is whole again is read again, however it became so: nothing that was read of it
    while it was damaged is kept."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", bodies(20, 4_000))))])
    before = walk(log, "t", 0, 1 << 20)
    [file] = log.files("message", 0)
    log = TopicLog.open(tmp_path / "log")
    whole, data = file.with_suffix(".whole"), file.read_bytes()
    file.rename(whole)
    middle = len(data) // 2
    file.write_bytes(
        data[:middle] + bytes(255 - one for one in data[middle:][:8]) + data[middle + 8 :]
    )
    for _ in range(2):
        with pytest.raises(StoreError, match="can't be read"):
            log.page("t", 0, 1 << 20)
    whole.rename(file)
    assert walk(log, "t", 0, 1 << 20) == before
