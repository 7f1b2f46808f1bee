"""Folders that are searched for files that no version names, when a store fails."""

from pathlib import Path

import pytest
from table_groups import bodies, framed, group, run

from distributary.pipeline.tables.delta.store import LocalStore
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep.orphans import FAILURES_MAX, Orphans


class Failing(LocalStore):
    """A disk of which every second list fails, or every one."""

    always, lists = False, 0

    def _fail(self) -> None:
        self.lists += 1
        if self.always or self.lists % 2:
            raise OSError("it doesn't answer")

    def files(self, folder: str) -> list[str]:
        self._fail()
        return super().files(folder)

    def folders(self, folder: str) -> list[str]:
        self._fail()
        return super().folders(folder)


@pytest.fixture
def log(tmp_path: Path) -> TopicLog:
    log = TopicLog.open(tmp_path / "log")
    log.commit([framed(group(1, 0, run("orders", bodies(1, 10))))])
    for record in ("message", "settlement", "subscription"):
        stray = tmp_path / "log" / f"record={record}" / "day=2020-01-01" / "t0-stray.parquet"
        stray.parent.mkdir(parents=True)
        stray.write_bytes(b"PAR1")
    return log


def looked(orphans: Orphans, log: TopicLog) -> int:
    """How often it fails until all is looked into."""
    failed = 0
    while orphans.looking:
        try:
            orphans.look(log.state)
        except OSError:
            failed += 1
    return failed


def test_a_list_that_fails_is_asked_for_again(log: TopicLog) -> None:
    """No folder is passed over."""
    orphans = Orphans(Failing(log.path))
    assert looked(orphans, log) == 8  # the table, three records, four days
    log.commit([framed(group(2, 1, run("orders", bodies(2, 10))))])
    assert orphans.step(log.state, 0) == (3, True)
    assert not list(log.path.rglob("*stray*"))


def test_a_store_that_lists_nothing_stops_no_other_upkeep(log: TopicLog) -> None:
    store = Failing(log.path)
    store.always = True
    assert looked(Orphans(store), log) == FAILURES_MAX - 1
