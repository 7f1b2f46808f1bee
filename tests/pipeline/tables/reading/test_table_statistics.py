"""Statistics of the table's messages without reading them: urgent and expiring ones, volumes, and
times."""

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, QueryBuilder
from table_attributes import Said, history, said
from table_groups import DAY_US, NOON, bodies, event, framed, group, run

from distributary.pipeline.dispatch.priority_index import PriorityIndex
from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.tables.delta import data_file
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.journal.journal import Journal
from distributary.pipeline.tables.reading import table_statistics
from distributary.pipeline.tables.topic_log import group_rows
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep.upkeep_limits import UpkeepLimits

PAUSED = event(SubscriptionEvent.PAUSED, 0, paused=True, policy="{}")
FIRST_FORMAT = Path(__file__).parents[3] / "formats" / "first_format" / "topic_log"
DAYS = UpkeepLimits(log_entries_max=1_000_000, log_retention_days=7, retention_days=1)


#: Of a topic its urgent messages with their priorities, and stretches in which some expire.
Found = tuple[dict[int, int], list[tuple[int, range]]]


def statistics_of(log: TopicLog, since: int) -> dict[str, Found]:
    """Return the statistics of each topic, in the form of its priority index."""
    indexes: dict[str, PriorityIndex] = {}
    found: dict[str, Found] = {}
    for ahead in log.priority_statistics(since):
        indexes.setdefault(ahead.topic, PriorityIndex()).seed(ahead)
        _, lapses = found.setdefault(ahead.topic, ({}, []))
        lapses += [(at, range(start, stop)) for at, start, stop in ahead.lapses]
    for topic, priority_index in indexes.items():
        urgent, _ = found[topic]
        for level, high in priority_index.high.items():
            urgent |= dict.fromkeys((one for run in high.runs() for one in run), level)
        assert priority_index.added == len(urgent)
    return found


def expected(said_of: dict[str, dict[int, Said]], since: int) -> dict[str, Found]:
    """The same, with the time of each message that expires."""
    due: dict[str, Found] = {}
    for topic, of_topic in said_of.items():
        late = {one: it for one, it in of_topic.items() if one >= since}
        urgent = {one: min(it[0], 9) for one, it in late.items() if it[0] > 4}
        lapses = [(it[1], range(one, one + 1)) for one, it in late.items() if it[1]]
        if urgent or lapses:
            due[topic] = urgent, lapses
    return due


def same(found: dict[str, Found], due: dict[str, Found]) -> None:
    """Each message that expires lies in one stretch, and the first of each stretch is its time."""
    assert found.keys() == due.keys()
    for topic, (urgent, lapses) in found.items():
        assert urgent == due[topic][0]
        inside = [
            [time for time, one in due[topic][1] if one.start in stretch] for _, stretch in lapses
        ]
        assert [at for at, _ in lapses] == [min(times) for times in inside]
        assert sum(map(len, inside)) == len(due[topic][1])


@pytest.mark.parametrize("seed", range(3))
def test_a_survey_finds_what_is_urgent_or_expires(tmp_path: Path, seed: int) -> None:
    """Just these messages, with these two header attributes, from any sequence on; before and after
    merges."""
    log = TopicLog.open(tmp_path / "log")
    groups, said_of = history(seed)
    for at in range(0, len(groups), 3):
        log.commit([framed(one) for one in groups[at : at + 3]])
    for merged in (False, True):
        if merged:
            assert log.upkeep(now=NOON + 3 * DAY_US, floor=0)
        for since in (0, 1, log.sequence_version // 2, log.sequence_version):
            same(statistics_of(log, since), expected(said_of, since))


class Watched(LocalStore):
    """A folder that counts which files are opened."""

    opened: Counter[str]

    def parquet(self, path: str) -> pq.ParquetFile:
        self.opened[path] += 1
        return super().parquet(path)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    store = Watched(tmp_path / "log")
    store.opened = Counter()
    return store


def test_files_of_plain_messages_are_not_opened(watched: Watched) -> None:
    """The log's statistics say it, also after a restart; low priorities are plain, too."""
    log = TopicLog.open(watched.root, store=watched)
    log.commit([framed(group(1, 0, run("a", bodies(3, 9), priority=[0, 4, 4])))])
    log.commit([framed(group(2, 3, run("a", bodies(2, 9), deliver_at=[NOON, 0])))])
    log.commit([framed(group(3, 5, run("a", bodies(2, 9), expires_at=[0, NOON])))])
    log.commit([framed(group(4, 7, run("a", bodies(2, 9), priority=[4, 5])))])
    for one in (log, TopicLog.open(watched.root, store=watched)):
        watched.opened.clear()
        assert statistics_of(one, 0) == {"a": ({8: 5}, [(NOON, range(6, 7))])}
        assert len(watched.opened) == 2
        watched.opened.clear()
        assert statistics_of(one, 7) == {"a": ({8: 5}, [])}
        assert len(watched.opened) == 1
        assert statistics_of(one, 9) == {}


def test_what_another_reader_is_told_of_attributes_is_true(tmp_path: Path) -> None:
    """Statistics are for every reader of Delta: its filters find the matching rows, and skip no
    others that match."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("a", bodies(2, 9), priority=[4, 9]), at=NOON + 1))])
    log.commit([framed(group(2, 2, run("a", bodies(2, 9), expires_at=[0, 5]), at=NOON + 1999))])
    table = DeltaTable(log.path)
    for where, due in (
        ("priority > 4", [1]),
        ("priority <= 4", [0, 2, 3]),
        ("expires_at IS NOT NULL", [3]),
        ("expires_at IS NULL", [0, 1, 2]),
        ("published_at > '2026-11-21T12:00:00.001998Z'", [2, 3]),
        ("published_at < '2026-11-21T12:00:00.000002Z'", [0, 1]),
    ):
        sql = f"SELECT sequence FROM log WHERE record = 'message' AND {where} ORDER BY 1"  # noqa: S608
        found = QueryBuilder().register("log", table).execute(sql).read_all()
        assert found.column(0).to_pylist() == due, where


@pytest.mark.parametrize("topics", [1, 3])
def test_volumes_are_what_was_published(tmp_path: Path, topics: int) -> None:
    """Messages exactly, bytes about, from any sequence on; each part ends where it says."""
    log = TopicLog.open(tmp_path / "log")
    names = [f"topic-{nth}" for nth in range(topics)]
    chance, sequence = random.Random(5), 0
    due: dict[str, list[int]] = {name: [] for name in names}
    published: dict[int, int] = {}
    for number in range(1, 9):
        runs, first = [], sequence
        for name in names:
            count = chance.choice([0, 3, 300])
            runs += [run(name, bodies(count, 100))] if count else []
            due[name] += range(sequence, sequence + count)
            sequence += count
        log.commit([framed(group(number, first, *runs, at=NOON + number))])
        published |= dict.fromkeys(range(first, sequence), NOON + number)
    for since in (0, 5, sequence // 2, sequence):
        left = {name: [one for one in of if one >= since] for name, of in due.items()}
        sizes: Counter[str] = Counter()
        for topic, first, stop, messages, size, at in log.volumes(since):
            part, left[topic] = left[topic][:messages], left[topic][messages:]
            assert (part[0], len(part), part[-1] + 1) == (first, messages, stop)
            assert at == published[part[-1]]
            sizes[topic] += size
        assert not any(left.values())
        for name, of in due.items():
            count = sum(one >= since for one in of)
            assert 95 * count <= sizes[name] <= 115 * count


def moments(log: TopicLog) -> Iterator[tuple[int, int]]:
    """A message a minute over three days, and with it the clock; commits of an hour or so."""
    chance, views = random.Random(3), []
    for nth in range(3 * 24 * 12):
        at = NOON + nth * 300_000_000 + chance.randrange(1000)
        views.append(framed(group(nth + 1, 2 * nth, run("a", [b"x", b"y"]), at=at)))
        yield 2 * nth, at
        if chance.random() < 0.1:
            log.commit(views)
            views.clear()
    log.commit(views)


def test_a_time_is_found_as_a_sequence(watched: Watched) -> None:
    """The first message published at or after it, whatever files it is in; few are opened."""
    log = TopicLog.open(watched.root, store=watched, limits=DAYS)
    published = list(moments(log))
    chance = random.Random(4)
    for step in ("committed", "merged", "retained"):
        if step == "merged":
            while log.upkeep(now=NOON + DAY_US, floor=0):
                pass
        if step == "retained":
            while log.upkeep(now=NOON + 4 * DAY_US, floor=2 * len(published)):
                pass
            assert log.first_sequence > 0
        for at in [at for _, at in chance.sample(published, 30)] + [NOON - 1, NOON]:
            for time in (at - 1, at, at + 1):
                later = [s for s, when in published if when >= time]
                due = max(min(later, default=log.sequence_version), log.first_sequence)
                watched.opened.clear()
                assert log.first_sequence_at(time) == due
                assert sum(watched.opened.values()) <= 1
    assert log.first_sequence_at(-5) == log.first_sequence
    assert log.first_sequence_at(10**30) == log.sequence_version


def test_a_clock_that_was_set_back_hides_nothing(tmp_path: Path) -> None:
    """The lowest sequence counts, whenever those behind it came."""
    log = TopicLog.open(tmp_path / "log")
    for nth, at in enumerate([NOON, NOON + 100, NOON + 50, NOON + 100]):
        log.commit([framed(group(nth + 1, nth, run("a", [b"x"]), at=at))])
    found = [log.first_sequence_at(NOON + after) for after in (0, 1, 50, 51, 100, 101)]
    assert found == [0, 1, 1, 1, 1, 4]


def test_a_table_of_the_first_format_is_read_where_it_says_nothing(watched: Watched) -> None:
    """Its files have no statistics of all this, but the day; and are the same table."""
    shutil.copytree(FIRST_FORMAT, watched.root)
    log = TopicLog.open(watched.root, store=watched)
    expiry = NOON + 1_500_000
    assert statistics_of(log, 0) == {"orders": ({2: 7}, [(expiry, range(2))])}
    (part,) = log.volumes(5)
    assert part[:4] == ("orders", 5, 6, 1)
    assert part.published_at == NOON + DAY_US
    found = []
    for after in (0, 1, DAY_US, DAY_US + 1):
        watched.opened.clear()
        found.append(log.first_sequence_at(NOON + after))
        assert sum(watched.opened.values()) <= 1
    assert found == [0, 5, 5, 6]


def test_what_the_journal_alone_had_is_found_after_a_replay(tmp_path: Path) -> None:
    """Frames say it until the table does: nothing of it is lost in between."""
    journal = Journal.open(tmp_path / "journal", segment_bytes=1 << 20)
    one = run("a", [b"x", b"y", b"z"], priority=[4, 9, 4], expires_at=[0, 0, NOON])
    late = run("b", [b"w"], deliver_at=[NOON + 9])
    for made in (group(1, 0, one), group(2, 3, late, subscriptions=[PAUSED])):
        journal.append(frame.encode(made))
    journal.close()
    journal = Journal.open(tmp_path / "journal", segment_bytes=1 << 20)
    home = Home(tmp_path)
    log = TopicLog.open(home.topic_log)
    log.commit(journal.read(journal.frames()))
    journal.close()
    assert statistics_of(log, 0) == {"a": ({1: 9}, [(NOON, range(2, 3))])}
    (batch,) = log.page("b", 0, 100).batches
    assert batch.attributes is not None
    assert said(batch.attributes, 3) == (4, 0, NOON + 9)
    (row,) = [
        table for opened in log.parquets("subscription", 0) for table in opened.read().to_pylist()
    ]
    assert (row["paused"], row["policy"]) == (True, "{}")


def test_files_that_overlap_are_looked_at_all(watched: Watched) -> None:
    """If topics lie in files of their own, a later file may have the earlier message."""
    one = group(1, 0, run("a", [b"0"]), run("b", [b"1"]), at=NOON)
    two = group(2, 2, run("b", [b"2"]), run("a", [b"3"]), at=NOON + 10_000)
    table = group_rows.build([frame.decode(framed(made)) for made in (one, two)])["message"]
    files = [
        data_file.write(
            watched,
            table.filter(pc.field("topic") == topic),
            record="message",
            day="2026-11-21",
            tier=0,
        )
        for topic in "ab"
    ]
    assert table_statistics.first_at(watched, files, NOON + 5_000, day="2026-11-21") == 2


def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    """It says which, as nothing else may be said of the messages then."""
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("a", [b"x", b"y"], priority=[9, 9])))])
    (path,) = log.files("message", 0)
    path.unlink()
    for look in (log.priority_statistics, log.volumes):
        with pytest.raises(StoreError, match=path.name):
            list(look(0))


def test_row_groups_are_looked_at_apart(tmp_path: Path) -> None:
    """One urgent message among many of its file is found alone."""
    log = TopicLog.open(tmp_path / "log")
    count = 2 * data_file.ROW_GROUP_ROWS_MAX
    priority = np.full(count, 4)
    priority[[5, -1]] = 9
    log.commit([framed(group(1, 0, run("a", [b"x"] * count, priority=priority.tolist())))])
    assert statistics_of(log, 6) == {"a": ({count - 1: 9}, [])}
