"""A commit whose outcome is unknown: faults at every step of both stores, before and after the
effect. After any fault the commit is tried again until it works, and then the table has each group
once, and no version names an absent file."""

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from s3_server import served
from s3_way import Plan, Way, way_to
from table_groups import NOON, bodies, event, framed, group, run, settled

from distributary.pipeline.errors import ForeignCommit, StoreError
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.tables.delta.commits import json_name
from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.delta.store import LocalStore, Store
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep import table_upkeep, tiers
from distributary.pipeline.tables.upkeep.table_upkeep import UpkeepLimits
from distributary.pipeline.tables.verify.verify_home import verify

LIMITS = UpkeepLimits(log_entries_max=6, log_retention_days=7, retention_days=0)
GROUPS = 6
#: More than any fault of these tests lasts.
TRIES = 20


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "FAN_IN", 4)
    monkeypatch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 3)
    monkeypatch.setattr(table_upkeep, "ENTRIES_MAX", 2)


def opened(home: Home, store: Store) -> TopicLog:
    return TopicLog.open(home.topic_log, store=store, limits=LIMITS)


class Committer:
    """As the gateway's committer: commits again after an error, and starts anew after a failed
    fsync."""

    def __init__(self, home: Home, store: Store) -> None:
        self._home, self._store = home, store
        self._log: TopicLog | None = None

    @property
    def log(self) -> TopicLog:
        if self._log is None or self._log.dead is not None:
            self._log = opened(self._home, self._store)
        return self._log

    def again(self, step: Callable[[TopicLog], object]) -> object:
        for _ in range(TRIES):
            try:
                return step(self.log)
            except ForeignCommit:
                raise
            except (StoreError, OSError):
                continue
        raise AssertionError("it never works")


def frames() -> list[memoryview]:
    created = [event(SubscriptionEvent.CREATED, 0)]
    made = [framed(group(1, subscriptions=created))]
    for n in range(GROUPS - 1):
        done = [settled(range(2 * n, 2 * n + 1), floor=2 * n + 1 if n == 0 else 1)]
        made.append(framed(group(n + 2, 2 * n, run("orders", bodies(2, 10)), settlements=done)))
    return made


def write(home: Home, store: Store) -> TopicLog:
    """Commits with upkeep between them, each step until it works."""
    committer = Committer(home, store)
    for view in frames():
        committer.again(lambda log, view=view: log.commit([view]))  # type: ignore[misc]
        while committer.again(lambda log: log.upkeep(now=NOON, floor=0)):
            pass
    return committer.log


def check(log: TopicLog, home: Home, store: Store) -> None:
    """Each group once; what we know is what a newcomer finds; all that it names is there."""
    assert opened(home, store).state == log.state
    assert (log.journal_version, log.sequence_version) == (GROUPS, 2 * (GROUPS - 1))
    table = DeltaTable(store.uri, storage_options=store.options).to_pyarrow_table()
    found = table.to_pylist()
    sequences = sorted(row["sequence"] for row in found if row["record"] == "message")
    assert sequences == list(range(2 * (GROUPS - 1)))
    settlements = [row["group"] for row in found if row["record"] == "settlement"]
    assert sorted(settlements) == list(range(2, GROUPS + 1))
    report = verify(home, store=store)
    assert report.sound, [one.problems for one in report.checks if one.problems]


def a_home(root: Path) -> Home:
    home = Home(root)
    home.journal_dir.mkdir(parents=True)
    return home


#: The calls by which a table changes on a disk, and is read.
CALLS = ["open", "link", "unlink", "rename", "write", "read"]


class _Calls:
    """Counts the calls of one kind below a folder, and has one fail, before or after its effect."""

    def __init__(self, root: Path, nth: int, *, after: bool) -> None:
        self.root, self.nth, self.after = str(root), nth, after
        self.seen = 0

    def around(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*words: Any, **named: Any) -> Any:
            if not any(self.root in str(word) for word in words):
                return real(*words, **named)
            self.seen += 1
            struck = self.seen == self.nth
            if struck and not self.after:
                raise OSError(errno.EIO, "struck before")
            result = real(*words, **named)
            if struck:
                raise OSError(errno.EIO, "struck after")
            return result

        return call


def struck_disk(patch: pytest.MonkeyPatch, calls: _Calls, kind: str) -> None:
    """Put the fault where the store calls the system."""
    match kind:
        case "open":
            patch.setattr(os, "open", calls.around(os.open))
        case "link":
            patch.setattr(os, "link", calls.around(os.link))
        case "unlink":
            patch.setattr(Path, "unlink", calls.around(Path.unlink))
        case "rename":
            patch.setattr(Path, "rename", calls.around(Path.rename))
        case "write":
            real = os.pwritev
            paths = calls.around(lambda _path, *words: real(*words))
            patch.setattr(
                os,
                "pwritev",
                lambda fd, *rest: paths(Path(f"/proc/self/fd/{fd}").readlink(), fd, *rest),
            )
        case "read":
            patch.setattr(Path, "read_bytes", calls.around(Path.read_bytes))


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", CALLS)
def test_a_disk_fails_at_any_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, *, after: bool
) -> None:
    """Each call of this kind in turn fails once; none is left out."""
    nth, struck = 0, True
    while struck:
        nth += 1
        home = a_home(tmp_path / str(nth))
        store = LocalStore(home.topic_log)
        opened(home, store)
        calls = _Calls(home.topic_log, nth, after=after)
        with monkeypatch.context() as patch:
            struck_disk(patch, calls, kind)
            log = write(home, store)
        struck = calls.seen >= nth
        check(log, home, store)
    assert nth > 1, "no such call is made"


@pytest.fixture(scope="module")
def way() -> Iterator[tuple[Way, dict[str, str]]]:
    with served() as options:
        port = int(options["AWS_ENDPOINT_URL"].rpartition(":")[2])
        with way_to(port) as found:
            yield found, options | {"AWS_ENDPOINT_URL": found.url}


#: Requests by which a table changes on a store: data, the commit's name, what follows it.
REQUESTS = {
    "data": r"PUT .*\.parquet",
    "commit": r"PUT .*\d{20}\.json",
    "pointer": r"PUT .*_last_checkpoint",
    "delete": r"(DELETE|POST) ",
    "read": r"GET .*\d{20}\.json",
}


@pytest.mark.parametrize("lost", [False, True], ids=["refused", "answer lost"])
@pytest.mark.parametrize("kind", REQUESTS)
@pytest.mark.parametrize("nth", [2])
def test_a_store_fails_at_a_request(
    way: tuple[Way, dict[str, str]], tmp_path: Path, kind: str, nth: int, *, lost: bool
) -> None:
    """The store carries a request out and reports a failure, or doesn't carry it out."""
    road, options = way
    home = a_home(tmp_path)
    store = ObjectStore(f"s3://lake/{kind}-{nth}-{lost}/topic_log", options)
    opened(home, store)
    road.plan(Plan(REQUESTS[kind], nth, lost=lost))
    try:
        log = write(home, store)
        assert kind == "read" or road.seen >= nth, "no such request is made"
    finally:
        road.plan(Plan())
    check(log, home, store)


def test_nothing_else_is_written_until_a_version_is_decided(
    way: tuple[Way, dict[str, str]], tmp_path: Path
) -> None:
    """The answer is lost and the store is away: the files stay, and upkeep waits, too."""
    road, options = way
    store = ObjectStore("s3://lake/undecided/topic_log", options)
    log = opened(Home(tmp_path), store)
    first, second, *_ = frames()
    log.commit([first])
    road.plan(Plan(r"(PUT|GET) .*0{19}2\.json", times=1_000, lost=True))
    with pytest.raises(StoreError, match="isn't known"):
        log.commit([second])
    with pytest.raises(StoreError, match="isn't known"):
        log.upkeep(now=NOON, floor=0)
    asked = road.seen
    assert asked >= 2
    road.plan(Plan())
    files = DeltaTable(store.uri, storage_options=store.options).file_uris()
    assert all(store.exists(one.removeprefix(store.uri + "/")) for one in files)
    assert log.commit([second]).rows == 0, "it was there already"
    assert (log.version, log.journal_version) == (2, 2)


def test_a_request_that_comes_late_is_the_same_version(tmp_path: Path) -> None:
    """While it was undecided, the version appeared: it is ours, and isn't made twice. A foreign
    version in its place ends the writer."""
    home = Home(tmp_path)
    for theirs in (False, True):
        store = LocalStore(tmp_path / f"log-{theirs}")
        log = opened(home, store)
        first, second, *_ = frames()
        late: list[bytes] = []

        def lost(path: str, data: bytes, late: list[bytes] = late) -> bool:
            from distributary.pipeline.tables.delta.store import UndecidedError  # noqa: PLC0415

            late.append(data)
            raise UndecidedError(f"{path}: no answer")

        real, store.create = store.create, lost  # type: ignore[method-assign]
        with pytest.raises(StoreError, match="isn't known"):
            log.commit([first])
        store.create = real  # type: ignore[method-assign]
        real(json_name(1), b'{"commitInfo":{}}\n' if theirs else late[0])
        if theirs:
            with pytest.raises(ForeignCommit):
                log.commit([first])
        else:
            assert log.commit([first]).rows == 0
            log.commit([second])
            assert log.version == 2
