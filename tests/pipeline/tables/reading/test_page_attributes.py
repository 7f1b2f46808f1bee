"""Pages bring back what each message said of its priority and its times, and read it only then."""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from table_attributes import PLAIN, Said, history, said
from table_groups import DAY_US, NOON, framed, group, run

from distributary.pipeline.tables.delta import data_file
from distributary.pipeline.tables.reading import page_attributes
from distributary.pipeline.tables.topic_log.topic_log import TopicLog

FIRST_FORMAT = Path(__file__).parents[3] / "formats" / "first_format" / "topic_log"


def paged(log: TopicLog, topic: str, start: int = 0, bytes_max: int = 400) -> dict[int, Said]:
    """Return the header attributes of the topic's messages that aren't plain; batches of plain ones
    have none, and a column of defaults is empty."""
    found: dict[int, Said] = {}
    while start < log.sequence_version:
        page = log.page(topic, start, bytes_max)
        for batch in page.batches:
            if batch.attributes is None:
                continue
            assert batch.attributes.first == batch.first
            assert batch.attributes.sequences == batch.sequences
            of_batch = {
                s: said(batch.attributes, s)
                for s in batch.sequences or range(batch.first, batch.stop)
            }
            for nth, column in enumerate(page_attributes.NAMES):
                unusual = any(one[nth] != PLAIN[nth] for one in of_batch.values())
                assert bool(getattr(batch.attributes, column)) == unusual
            assert any(one != PLAIN for one in of_batch.values())
            found |= {s: one for s, one in of_batch.items() if one != PLAIN}
        start = page.covered
    return found


@pytest.mark.parametrize("seed", range(4))
def test_pages_say_what_was_published(tmp_path: Path, seed: int) -> None:
    """From commits, after a restart, out of merged files, whatever a page's size."""
    log = TopicLog.open(tmp_path / "log")
    groups, due = history(seed)
    for at in range(0, len(groups), 3):
        log.commit([framed(one) for one in groups[at : at + 3]])
    for step in ("committed", "opened", "merged"):
        if step == "opened":
            log = TopicLog.open(log.path)
        if step == "merged":
            assert log.upkeep(now=NOON + 3 * DAY_US, floor=0)
        for topic, of_topic in due.items():
            for size in (1, 1000, 1 << 20):
                assert paged(log, topic, bytes_max=size) == of_topic


def test_row_groups_that_overlap_are_merged_with_their_attributes(tmp_path: Path) -> None:
    """Small topics share row groups, and one of them lies in two, the later of which is read first
    as it holds earlier messages of others: each message keeps its own."""
    log = TopicLog.open(tmp_path / "log")
    topics = [f"topic-{i:02}" for i in range(41)]
    runs, due = [], {}
    for nth, topic in enumerate(reversed(topics)):
        times = [NOON + 1000 * nth + i for i in range(200)]
        runs.append(run(topic, [b"x"] * 200, deliver_at=times))
        due[topic] = {200 * nth + i: (4, 0, at) for i, at in enumerate(times)}
    log.commit([framed(group(1, 0, *runs))])
    for topic in topics:
        assert paged(log, topic, bytes_max=16_000) == due[topic]


def test_row_groups_of_plain_messages_cost_nothing(tmp_path: Path) -> None:
    """Their statistics say that they are, so no further column is read; one message in ten thousand
    that isn't plain concerns its own row group alone."""
    log = TopicLog.open(tmp_path / "log")
    count = 3 * data_file.ROW_GROUP_ROWS_MAX
    priority = [4] * count
    priority[-1] = 9
    log.commit([framed(group(1, 0, run("a", [b"x"] * count, priority=priority, deliver_at=())))])
    (path,) = log.files("message", 0)
    metadata = pq.ParquetFile(path).metadata
    names = [metadata.schema.column(i).path for i in range(metadata.num_columns)]
    at = {name: i for i, name in enumerate(names)}
    found = [page_attributes.said(metadata.row_group(i), at) for i in range(3)]
    assert found == [(), (), ("priority",)]
    assert paged(log, "a", bytes_max=1 << 20) == {count - 1: (9, 0, 0)}


def test_a_file_of_the_first_format_says_its_own(tmp_path: Path) -> None:
    """Its columns have no statistics, and one of them isn't there."""
    shutil.copytree(FIRST_FORMAT, tmp_path / "log")
    log = TopicLog.open(tmp_path / "log")
    expiry = NOON + 1_500_000
    assert paged(log, "orders") == {0: (4, expiry, 0), 1: (4, expiry, 0), 2: (7, 0, 0)}
    assert paged(log, "bills") == {}
