"""The requests of a home without a disk to its store: each costs its latency, one after the
other."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from faulty_s3 import FaultyS3, faulty_s3

from distributary.pipeline.object_journal import entry
from distributary.pipeline.object_journal.entry import Kind
from distributary.pipeline.tables.object_home.journal_objects import JournalObjects
from distributary.pipeline.tables.object_home.object_home import ObjectHome
from distributary.pipeline.tables.object_home.object_journal import ObjectJournal
from distributary.pipeline.tables.object_home.object_marks import ObjectMarks
from distributary.pipeline.tables.topic_log.topic_log import TopicLog


@pytest.fixture
def s3() -> Iterator[FaultyS3]:
    with faulty_s3() as found:
        yield found


@pytest.fixture
def home(s3: FaultyS3) -> ObjectHome:
    return ObjectHome("s3://lake/home", s3.options())


def test_marks_that_stand_there_arent_put_again(home: ObjectHome, s3: FaultyS3) -> None:
    marks = ObjectMarks(home.store(5.0), 1)
    marks.make(b"header", 64)
    for changed, puts in ((False, 1), (False, 1), (True, 2), (False, 2)):
        marks.memory[40] += changed
        marks.sync()
        assert s3.counts()["PUT"] == puts


def test_who_leaves_leaves_the_entries_of_its_journal(home: ObjectHome) -> None:
    objects = JournalObjects(home.store(5.0))
    journal = ObjectJournal(objects, 1)
    for group in (1, 2, 3):
        journal.put(group, entry.encode(Kind.GROUP, 1, group, bytes(16), [b"frame"]))
        journal.keep(group, memoryview(b"frame"))
    journal.recycle(1)
    assert objects.kinds(1) == {2: Kind.GROUP, 3: Kind.GROUP}
    journal.leave()
    journal.recycle(3)
    assert journal.backlog_bytes == 0
    assert objects.kinds(1) == {2: Kind.GROUP, 3: Kind.GROUP}


def test_a_small_data_file_is_read_once(home: ObjectHome, s3: FaultyS3) -> None:
    store, sink = home.store(5.0), pa.BufferOutputStream()
    pq.write_table(pa.table({"a": [1, 2, 3]}), sink)
    store.put("small.parquet", sink.getvalue())
    for _ in range(3):
        [file] = store.parquets(["small.parquet"])
        assert file.read().to_pylist() == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert s3.counts()["GET"] == 1


def test_a_table_is_listed_once_when_it_is_opened(home: ObjectHome, s3: FaultyS3) -> None:
    store = home.store(5.0)
    made = TopicLog.open(Path("home"), store=store)
    made.own(1, 1)
    before = s3.counts()
    again = TopicLog.open(Path("home"), store=store)
    assert again.state == made.state
    asked = {kind: count - before.get(kind, 0) for kind, count in s3.counts().items()}
    assert {kind: count for kind, count in asked.items() if count} == {"GET list": 1, "GET": 2}
    assert again.goes_on_from(made.identity)
    assert s3.counts() == {kind: before[kind] + asked[kind] for kind in before}
