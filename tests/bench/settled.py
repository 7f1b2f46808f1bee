"""The space of a log whose messages are all settled, by its retention: twenty simulated minutes of
commits, one a second, each settled twenty commits later."""

from collections.abc import Iterable
from typing import Final

from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.journal import frame
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep.upkeep_limits import UpkeepLimits
from tests.bench.bench import Bench, Measurement
from tests.bench.month import BEGIN_US, MonthWriter
from tests.bench.server import fresh_home

COMMITS: Final = 1_200
SECOND_US: Final = 1_000_000
#: How the log is kept: by whole days, for five minutes, at once.
KEPT: Final = {
    "days": UpkeepLimits(18_000, 7, 7),
    "minutes": UpkeepLimits(18_000, 7, 7, retention_seconds=300),
    "at_once": UpkeepLimits(18_000, 7, 7, retention_seconds=0),
}


def settled(bench: Bench) -> Measurement:
    """For each of them what the table has at the end, and the bytes of all data files on the
    disk."""
    measurement = Measurement()
    commits = bench.settings.count(COMMITS)
    for name, limits in KEPT.items():
        with fresh_home(bench.folder) as home:
            log = TopicLog.open(Home(home).topic_log, limits=limits)
            _play(log, commits)
            messages = [file for file in log.state.files if file.record == "message"]
            measurement.facts[f"{name}_messages"] = sum(file.rows for file in messages)
            measurement.facts[f"{name}_table_mb"] = _mb(file.size for file in log.state.files)
            on_disk = log.path.glob("record=*/*/*.parquet")
            measurement.facts[f"{name}_disk_mb"] = _mb(path.stat().st_size for path in on_disk)
    return measurement


def _play(log: TopicLog, commits: int) -> None:
    """A commit each second, and what upkeep is due after it."""
    writer = MonthWriter()
    for nth in range(commits):
        now = BEGIN_US + nth * SECOND_US
        log.commit([memoryview(b"".join(frame.encode(writer.group(nth, now))))])
        while log.upkeep(now=now + SECOND_US // 2, floor=writer.floor):
            pass


def _mb(sizes: Iterable[int]) -> float:
    return round(sum(sizes) / 1e6, 2)
