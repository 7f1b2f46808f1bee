"""A table on an object store is the same table: made, written, kept, read, and owned by one."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from deltalake import DeltaTable
from object_stores import GONE, Served, served
from table_groups import KEY, NOON, bodies, event, framed, group, run, settled

from distributary.pipeline.errors import ForeignCommit, InvalidRequest, StoreError
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.recovery import snapshot
from distributary.pipeline.tables.topic_log.topic_log import TopicLog
from distributary.pipeline.tables.upkeep import orphans, table_upkeep, tiers
from distributary.pipeline.tables.upkeep.table_upkeep import UpkeepLimits
from distributary.pipeline.tables.verify.home_info import take
from distributary.pipeline.tables.verify.verify_home import verify

FIRST_FORMAT = Path(__file__).parents[3] / "formats" / "first_format" / "topic_log"
LIMITS = UpkeepLimits(log_entries_max=10, log_retention_days=7, retention_days=0)


@pytest.fixture(scope="module", params=GONE)
def place(request: pytest.FixtureRequest) -> Iterator[Served]:
    with served(request.param) as found:
        yield found


@pytest.fixture
def store(place: Served, request: pytest.FixtureRequest) -> ObjectStore:
    return ObjectStore(f"{place.url}/{request.node.originalname}/topic_log", place.options)


def opened(store: ObjectStore, home: Path) -> TopicLog:
    return TopicLog.open(Home(home).topic_log, store=store, limits=LIMITS)


def test_what_was_created_is_never_replaced(store: ObjectStore) -> None:
    """Of two writers of the same file the second is refused; a writer that repeats its own put gets
    True."""
    assert store.create("_delta_log/1.json", b"ours")
    assert not store.create("_delta_log/1.json", b"theirs")
    assert store.create("_delta_log/1.json", b"ours")
    assert store.read("_delta_log/1.json") == b"ours"


def test_the_verbs_of_a_store(store: ObjectStore) -> None:
    """Names, sizes and absence are told as a folder tells them."""
    store.put("a/b/x.parquet", b"12345")
    assert (store.files("a/b"), store.folders("a"), store.folders("")) == (
        ["x.parquet"],
        ["b"],
        ["a"],
    )
    assert (store.size("a/b/x.parquet"), store.size("a/b/y")) == (5, 0)
    assert store.exists("a/b/x.parquet")
    store.delete(["a/b/x.parquet", "a/b/x.parquet"])
    assert not store.exists("a/b/x.parquet")
    with pytest.raises(FileNotFoundError):
        store.read("a/b/x.parquet")


def test_a_table_of_before_gets_its_columns_there(store: ObjectStore, tmp_path: Path) -> None:
    """In one version, as on a disk; old and new files are one table."""
    for path in FIRST_FORMAT.rglob("*"):
        if path.is_file():
            store.put(path.relative_to(FIRST_FORMAT).as_posix(), path.read_bytes())
    log = opened(store, tmp_path)
    assert (log.version, log.sequence_version) == (4, 6)
    log.commit([framed(group(5, 6, run("orders", [b"d"], expires_at=[NOON])))])
    log = opened(store, tmp_path)
    assert [ahead.topic for ahead in log.priority_statistics(5)] == ["orders"]
    page = log.page("orders", 0, 1000)
    assert sum(batch.count for batch in page.batches) == 5
    table = DeltaTable(store.uri, storage_options=store.options)
    assert table.to_pyarrow_table(columns=["deliver_at"])["deliver_at"].null_count == 10


def test_a_log_lives_there(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commits, merges, checkpoints, clean-up, pages and a restart are as on a disk."""
    monkeypatch.setattr(tiers, "FAN_IN", 4)
    monkeypatch.setattr(table_upkeep, "CHECKPOINT_COMMITS", 5)
    monkeypatch.setattr(table_upkeep, "ENTRIES_MAX", 5)
    log = opened(store, tmp_path)
    created = [event(SubscriptionEvent.CREATED, 0)]
    log.commit([framed(group(1, subscriptions=created))])
    kinds = set()
    sent: list[bytes] = []
    for n in range(20):
        some = bodies(3, 10)
        done = [settled(range(3 * n, 3 * n + 1), floor=3 * n + 1 if n == 0 else 1)]
        log.commit([framed(group(n + 2, 3 * n, run("t", some), settlements=done))])
        sent += some
        while step := log.upkeep(now=NOON, floor=0):
            kinds.add(step.kind)
    assert kinds >= {"merge", "checkpoint", "clean-up"}
    again = opened(store, tmp_path)
    assert again.state == log.state
    batches = again.page("t", 0, 1 << 20).batches
    assert b"".join(bytes(batch.blob[: sum(map(len, sent))]) for batch in batches).startswith(
        sent[0]
    )
    assert sum(batch.count for batch in batches) == 60
    (found,) = snapshot.load(again).subscriptions
    assert (found.key, found.floor) == (KEY, 1)
    table = DeltaTable(store.uri, storage_options=store.options)
    assert table.to_pyarrow_table().num_rows == 81


def test_orphans_go_there_too(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In all folders, whatever their time, when a version was made since they were seen; what an
    entry still names stays, merged away or not."""
    monkeypatch.setattr(tiers, "FAN_IN", 4)
    monkeypatch.setattr(orphans, "FOLDERS_MAX", 1)
    log = opened(store, tmp_path)
    for n in range(4):
        log.commit(
            [
                framed(
                    group(n + 1, n, run("t", bodies(1, 10)), settlements=[settled(range(n, n + 1))])
                )
            ]
        )
    while log.upkeep(now=NOON, floor=0):
        pass
    named = parquets(store)
    strays = {
        f"record={record}/day={day}/{name}.parquet"
        for record in ("message", "settlement", "subscription")
        for day in ("2020-01-01", "2027-01-01")
        for name in ("t0-a", "t1-b", "t10-c")
    }
    for stray in strays:
        store.put(stray, b"PAR1")
    store.put("record=message/day=2020-01-01/notes.txt", b"not ours")
    log = opened(store, tmp_path)
    while log.upkeep(now=NOON, floor=0):
        assert strays <= parquets(store)
    assert parquets(store) == named | strays
    log.commit([framed(group(5, 4, run("t", bodies(1, 10))))])
    while log.upkeep(now=NOON, floor=0):
        pass
    assert parquets(store) == named | {file.path for file in log.state.files}
    assert store.exists("record=message/day=2020-01-01/notes.txt")


def parquets(store: ObjectStore) -> set[str]:
    return {
        f"{record}/{day}/{name}"
        for record in store.folders("")
        if record.startswith("record=")
        for day in store.folders(record)
        for name in store.files(f"{record}/{day}")
        if name.endswith(".parquet")
    }


def test_verify_and_info_read_it_there(store: ObjectStore, tmp_path: Path) -> None:
    """The table is sound, and counted; and a file that is missing there is named with its URL."""
    home = Home(tmp_path)
    home.journal_dir.mkdir()
    log = opened(store, tmp_path)
    created = [event(SubscriptionEvent.CREATED, 0)]
    log.commit([framed(group(1, subscriptions=created))])
    log.commit([framed(group(2, 0, run("orders", bodies(3, 10))))])
    log.commit([framed(group(3, 3, settlements=[settled(range(1), floor=1)]))])
    report = verify(home, store=store, deep=True)
    assert report.sound, report
    assert report.version == log.version
    found = take(home, store)
    assert [line.messages for line in found.topics] == [3]
    assert [line.backlog for line in found.subscriptions] == [2]
    path = next(file.path for file in log.state.files if file.record == "message")
    store.delete([path])
    [check] = [one for one in verify(home, store=store).checks if one.problems]
    assert check.problems[0].startswith(f"{store.uri}/{path} is missing")


def test_a_former_owner_commits_nothing(store: ObjectStore, tmp_path: Path) -> None:
    """After a fence the version that the former owner would make is taken."""
    old, new = opened(store, tmp_path), opened(store, tmp_path)
    new.fence(3, lambda: None)
    with pytest.raises(ForeignCommit):
        old.commit([framed(group(1, 0, run("t", [b"x"])))])
    new.commit([framed(group(1, 0, run("t", [b"x"])))])


def test_an_object_is_exchanged_by_its_tag(store: ObjectStore) -> None:
    """Of two that saw the same object one replaces it; an object that is gone is no such object."""
    first = store.exchange("lease", b"a", None)
    assert first is not None
    assert store.exchange("lease", b"b", None) is None
    second = store.exchange("lease", b"c", first)
    assert second is not None
    assert store.exchange("lease", b"d", first) is None
    assert store.tagged("lease") == (b"c", second)
    store.remove(["lease", "never there"])
    assert store.exchange("lease", b"e", second) is None
    assert store.sizes("") == {}


def test_a_bucket_that_is_not_there_is_said_in_one_line(place: Served) -> None:
    """By each way to write; nothing is guessed about an object that can't be there."""
    store = ObjectStore(f"{place.scheme}://nothere/topic_log", place.options)
    for write in (store.put, store.create, lambda path, data: store.exchange(path, data, None)):
        with pytest.raises(OSError, match=r"no such bucket or container; make it") as told:
            write("a", b"1")
        assert "\n" not in str(told.value)
    with pytest.raises(FileNotFoundError) as unread:
        store.read("a")
    assert "\n" not in str(unread.value)


def test_a_store_that_is_not_there_is_an_error(place: Served, tmp_path: Path) -> None:
    """A wrong address is one sentence at the start; a store that goes away may come back."""
    with pytest.raises(InvalidRequest, match="the address nonsense://lake"):
        ObjectStore("nonsense://lake", {})
    gone = ObjectStore(f"{place.url}/gone", place.gone())
    with pytest.raises(StoreError, match="can't be opened"):
        TopicLog.open(tmp_path / "log", store=gone)
