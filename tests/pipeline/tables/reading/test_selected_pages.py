"""Pages of what a hint names equal the model's messages that it names, and read no others."""

import random
from array import array
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow.parquet import ParquetFile
from table_groups import bodies, framed, group, run
from test_paging import Message, history, messages, model

from distributary.pipeline.subscriptions.hint import HintFilter
from distributary.pipeline.tables.reading import paging
from distributary.pipeline.tables.topic_log.topic_log import TopicLog


def walk(
    log: TopicLog, topic: str, start: int, bytes_max: int, hint_filter: HintFilter
) -> tuple[list[Message], int]:
    """All pages from `start` to the end of the sift, and how many these are."""
    found: list[Message] = []
    pages = 0
    while start < min(hint_filter.stop, log.sequence_version):
        page = log.page(topic, start, bytes_max, hint_filter)
        assert page.covered > start
        assert all(batch.filtered for batch in page.batches)
        got = messages(page.batches)
        assert all(start <= sequence < page.covered for sequence, _ in got)
        found += got
        start = page.covered
        pages += 1
    assert start >= min(hint_filter.stop, log.sequence_version)
    return found, pages


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(), st.integers(0, 300), st.integers(1, 5_000), st.floats(0, 1))
def test_any_sift_gives_what_it_names(
    tmp_path_factory: pytest.TempPathFactory, seed: int, start: int, bytes_max: int, share: float
) -> None:
    """Of one topic among others, wherever it begins and ends; names of other topics' messages are
    nothing."""
    log = TopicLog.open(tmp_path_factory.mktemp("log") / "log")
    parts = history(seed, commits=3, topics=3)
    for part in parts:
        log.commit([framed(one) for one in part])
    dice = random.Random(seed)
    stop = dice.randint(0, log.sequence_version)
    named = [one for one in range(stop) if dice.random() < share]
    for topic, all_messages in model([one for part in parts for one in part]).items():
        want = [m for m in all_messages if start <= m[0] < stop and m[0] in set(named)]
        got, _ = walk(log, topic, start, bytes_max, HintFilter(array("q", named), stop))
        assert got == want


def test_what_is_not_named_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few in forty thousand: of ten row groups three are read, in one page."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", bodies(40_960, 10))))])
    reads: list[int] = []
    read = ParquetFile.read_row_group

    def noted(file: ParquetFile, index: int, **how: object) -> object:
        reads.append(index)
        return read(file, index, **how)

    monkeypatch.setattr(ParquetFile, "read_row_group", noted)
    named = [5, 20_000, 20_001, 40_959]
    got, pages = walk(log, "t", 0, 1_000, HintFilter(array("q", named), 40_960))
    assert [sequence for sequence, _ in got] == named
    assert (pages, reads) == (1, [0, 4, 9])


def test_one_page_reads_a_few_row_groups(tmp_path: Path) -> None:
    """However few of its messages are wanted: other users of the reader thread don't wait
    longer."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("t", bodies(81_920, 10))))])
    named = list(range(7, 81_920, 4_096))
    got, pages = walk(log, "t", 0, 1 << 20, HintFilter(array("q", named), 81_920))
    assert [sequence for sequence, _ in got] == named
    assert pages == -(-20 // paging.FILTERED_UNITS_MAX)
