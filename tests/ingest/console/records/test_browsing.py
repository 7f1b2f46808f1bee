"""Messages in pages, against a plain list of what lies in the log."""

import copy
import dataclasses
import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_links import encoded
from msgspec.structs import replace
from table_groups import DAY_US, NOON, framed, group, run, settled

from distributary.ingest.console.log_rows.log_reader import LogReader, Snapshot
from distributary.ingest.console.log_rows.record_limits import RecordLimits
from distributary.ingest.console.log_rows.sight import ALL, Sight
from distributary.ingest.console.records.browsing import Query, browse, sequence_at
from distributary.ingest.console.settings.console_settings import load
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.tables.delta import data_file
from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep import tiers

TOPICS = ("a", "b.c", "b.d")

DEFAULT_LIMITS = load().records
FEW = replace(DEFAULT_LIMITS, page_messages=7)


class Story:
    """Groups of random runs, committed a few at a time, merged now and then."""

    def __init__(self, path: Path, seed: int) -> None:
        dice = random.Random(seed)
        log = TopicLog.open(path)
        self.path = path
        self.published: list[tuple[int, str, int, int]] = []  #: sequence, topic, number, time
        for number in range(1, 30):
            runs, first, at = [], len(self.published), NOON + number * DAY_US // 40
            for topic in dice.sample(TOPICS, dice.randint(0, 3)):
                count = dice.randint(1, 9)
                numbers = [dice.randint(0, 9) for _ in range(count)]
                runs.append(run(topic, [encoded(n, properties={"n": n}) for n in numbers]))
                for n in numbers:
                    self.published.append((len(self.published), topic, n, at))
            some = [settled(range(1), subscription="global/s", floor=0, topic="a")]
            log.commit([framed(group(number, first, *runs, at=at, settlements=some))])
            while dice.random() < 0.3 and log.upkeep(now=at, floor=0):
                pass

    def snapshot(self) -> Snapshot:
        return LogReader(LocalStore(self.path)).snapshot()


@pytest.fixture(scope="module", params=[1, 2])
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """Files of many small row groups, of which merged ones overlap in their sequences."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_file, "ROW_GROUP_ROWS_MAX", 5)
        patch.setattr(data_file, "ROW_GROUP_ROWS_MIN", 2)
        patch.setattr(data_file, "TOPIC_ROWS_MIN", 3)
        patch.setattr(tiers, "FAN_IN", 3)
        yield Story(tmp_path_factory.mktemp("told") / "log", request.param)


@pytest.fixture
def story(told: Story, tmp_path: Path) -> Story:
    """The same story in files of the test's own: it may remove some, or go on."""
    mine = copy.copy(told)
    mine.path = tmp_path / "log"
    shutil.copytree(told.path, mine.path)
    return mine


def paged(
    snapshot: Snapshot, query: Query, limits: RecordLimits = FEW, sight: Sight = ALL
) -> list[int]:
    """All pages behind each other."""
    found: list[int] = []
    for _ in range(10_000):
        page = browse(snapshot, query, sight=sight, limits=limits)
        assert len(page.lines) <= limits.page_messages
        found += [line.message.sequence for line in page.lines]
        if page.next is None:
            return found
        newest = query.newest_first
        query = dataclasses.replace(query, **{"stop" if newest else "start": page.next})
    raise AssertionError("the pages don't end")


@pytest.mark.parametrize("newest", [False, True])
@pytest.mark.parametrize(
    ("topic", "topics"),
    [("a", {"a"}), ("pattern://b.*", {"b.c", "b.d"}), ("pattern://#", set(TOPICS)), ("no", set())],
)
def test_pages_have_every_message_once_in_order(
    story: Story, topic: str, topics: set[str], newest: bool
) -> None:
    """Also where each page reads as little as it can, and by selector."""
    snapshot = story.snapshot()
    for limits in (FEW, replace(FEW, page_bytes_max=1, selected_messages_max=1)):
        for start, stop in ((0, None), (30, 90)):
            for selector, wanted in ((None, range(10)), ("n > 7", (8, 9))):
                query = Query(topic, selector, start, stop, newest)
                due = [
                    sequence
                    for sequence, of, n, _ in story.published
                    if of in topics and n in wanted and start <= sequence < (stop or 1 << 40)
                ]
                assert paged(snapshot, query, limits) == (due[::-1] if newest else due)


def test_a_page_that_stops_early_says_so(story: Story) -> None:
    snapshot = story.snapshot()
    page = browse(
        snapshot, Query("a", "n > 99"), sight=ALL, limits=replace(FEW, selected_messages_max=1)
    )
    assert (page.lines, page.stopped) == ((), True)
    assert page.next is not None
    assert page.examined >= 1
    whole = browse(snapshot, Query("a", "n > 99"), sight=ALL, limits=FEW)
    assert (whole.stopped, whole.next) == (False, None)


def test_a_page_reads_a_part_of_the_files(story: Story) -> None:
    """Files without wanted rows by their statistics aren't opened: they may even be gone."""
    snapshot = story.snapshot()
    due = [s for s, topic, _, _ in story.published if topic == "a"][-3:]
    for file in snapshot.view.state.files:
        if file.record == "message" and (file.high or 0) < due[0]:
            (story.path / file.path).unlink()
    query = Query("a", start=due[0], newest_first=False)
    assert paged(snapshot, query, DEFAULT_LIMITS) == due


def test_rights(story: Story) -> None:
    """Of a pattern those topics that may be seen; another topic is as if it weren't there."""
    snapshot = story.snapshot()
    sight = Sight(frozenset({"b.c"}))
    due = [s for s, topic, _, _ in story.published if topic == "b.c"]
    assert paged(snapshot, Query("pattern://#", newest_first=False), sight=sight) == due
    with pytest.raises(InvalidRequest, match="no topic or queue a"):
        browse(snapshot, Query("a"), sight=sight, limits=FEW)
    with pytest.raises(InvalidRequest, match="line 1, column"):
        browse(snapshot, Query("a", "n >"), sight=ALL, limits=FEW)


def test_a_time_is_a_place(story: Story) -> None:
    snapshot = story.snapshot()
    for _, _, _, at in story.published[::17]:
        first = next(s for s, _, _, other in story.published if other >= at)
        assert sequence_at(snapshot, at) == first
    assert sequence_at(snapshot, NOON + 90 * DAY_US) == snapshot.as_of.sequence


def test_a_line_says_what_the_message_is(story: Story) -> None:
    page = browse(story.snapshot(), Query("a"), sight=ALL, limits=FEW)
    sequence, _, number, at = [one for one in story.published if one[1] == "a"][-1]
    line = page.lines[0]
    assert (line.message.sequence, line.message.published_at) == (sequence, at)
    assert (line.preview, line.error) == (str(number), "")


def test_files_that_the_gateway_replaces_meanwhile_are_read_anew(story: Story) -> None:
    """A request begins again with the next snapshot; what it gives is whole."""
    reader, log = LogReader(LocalStore(story.path)), TopicLog.open(story.path)
    before = {file.path for file in reader.snapshot().view.state.files}
    seen: list[int] = []

    def read(snapshot: Snapshot) -> list[int]:
        seen.append(snapshot.as_of.version)
        if len(seen) == 1:
            while {file.path for file in log.state.files} >= before:
                late = NOON + 9 * DAY_US
                log.commit([framed(group(log.journal_version + 1, log.sequence_version, at=late))])
                assert log.upkeep(now=late, floor=0)
            for path in before - {file.path for file in log.state.files}:
                (story.path / path).unlink()
        return paged(snapshot, Query("pattern://#", newest_first=False))

    assert reader.read(read) == [sequence for sequence, *_ in story.published]
    assert len(seen) == 2
    assert seen[0] < seen[1]


def test_a_file_that_is_missing_is_said(story: Story) -> None:
    reader = LogReader(LocalStore(story.path))
    gone = next(file for file in reader.snapshot().view.of("message"))
    (story.path / gone.path).unlink()
    with pytest.raises(StoreError, match=f"{gone.path} is missing"):
        reader.read(lambda snapshot: paged(snapshot, Query("pattern://#")))
