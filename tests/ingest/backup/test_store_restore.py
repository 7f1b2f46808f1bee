"""A restore to a store that isn't alone: a gateway, or another restore, came between two steps."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from faulty_s3 import FaultyS3, Plan, faulty_s3
from gateway_process import until

from distributary.ingest.backup import store_reader
from distributary.ingest.backup.backup_folder import writing
from distributary.ingest.backup.backup_run import back_up
from distributary.ingest.backup.restore_run import RestoredLake, restore
from distributary.ingest.backup.store_restore import StoreRestore
from distributary.pipeline.backup.backup_manifest import BackupManifest, BackupPoint, digest_of
from distributary.pipeline.backup.lake_manifest import LakeManifest
from distributary.pipeline.errors import DistributaryError, HomeLocked, HomeLost, InvalidRequest
from distributary.pipeline.errors import StoreError as Failed
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.log.log_identity import LogIdentity
from distributary.pipeline.tables.lake.object_lake import ObjectLake
from distributary.pipeline.tables.object_home.lease import Claim, acquire_lease, renewed
from distributary.pipeline.tables.object_home.object_home import ObjectHome
from distributary.pipeline.tables.verify.object_home_parts import object_parts

ENTRY = "tables/topic_log/_delta_log/00000000000000000000.json"
#: More than a store's client puts in one request by itself.
LARGE = "tables/topic_log/large.parquet"
FILES = {
    ENTRY: b"{}",
    LARGE: b"rows" * (2 << 20),
    "journal/0000000001/0000000001": b"a group",
}
CONFIG = b"[amqp]\n"


@pytest.fixture(scope="module")
def s3() -> Iterator[FaultyS3]:
    with faulty_s3() as found:
        yield found


@pytest.fixture(autouse=True)
def _held(s3: FaultyS3) -> Iterator[None]:
    yield
    s3.hold()


@pytest.fixture
def home(s3: FaultyS3, request: pytest.FixtureRequest) -> ObjectHome:
    return home_at(s3, re.sub(r"[^\w-]", "-", request.node.name))


def home_at(s3: FaultyS3, name: str) -> ObjectHome:
    return ObjectHome(f"s3://lake/{name}", s3.options("restore"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A backup of a home on a store."""
    with writing(tmp_path / "copy") as into:
        files = tuple(
            into.keep(path, 0o644, lambda size, at, data=data: data[at:][:size], len(data))
            for path, data in sorted({**FILES, "settings/config/gateway.toml": CONFIG}.items())
        )
        point = BackupPoint(1.0, LogIdentity("table", 0, "digest"), 1, 1)
        into.complete(BackupManifest(point, files, on_a_store=True))
    return tmp_path / "copy"


def names(s3: FaultyS3, home: ObjectHome) -> set[str]:
    """The names of the home's objects, but for the lease."""
    root = home.url.removeprefix("s3://lake/") + "/"
    return {name.removeprefix(root) for name in s3.names if name.startswith(root)} - {"lease"}


def put(s3: FaultyS3, home: ObjectHome, path: str, data: str) -> None:
    s3.put(f"{home.url.removeprefix('s3://lake/')}/{path}", data)


def follow(s3: FaultyS3, home: ObjectHome) -> None:
    """Another process takes the lease, as if the restore had shown no life."""
    put(s3, home, "lease", msgspec.json.encode(Claim("another", "far", 77)).decode())


def restored(*restores: StoreRestore) -> None:
    restore(restores, lambda *_: None)


def begun(folder: Path, home: ObjectHome, settings: Path | None = None) -> StoreRestore:
    """A restore of one home that has marked it."""
    one = StoreRestore(folder, home, settings)
    one.open()
    one.begin(digest_of(one.digest.encode()))
    return one


def meanwhile(
    s3: FaultyS3, words: str, then: Callable[[], None], *restores: StoreRestore
) -> DistributaryError:
    """The error of a restore if `then` is called while such a request of it waits."""
    raised: list[DistributaryError] = []

    def run() -> None:
        try:
            restored(*restores)
        except DistributaryError as error:
            raised.append(error)

    s3.hold("restore", words)
    thread = threading.Thread(target=run)
    thread.start()
    until(lambda: s3.holding, "a request that waits")
    then()
    s3.hold()
    thread.join()
    assert raised, "it was restored"
    return raised[0]


def test_what_came_while_the_lease_was_waited_for_stays(
    s3: FaultyS3, home: ObjectHome, folder: Path
) -> None:
    error = meanwhile(
        s3, "PUT .*/lease", lambda: put(s3, home, ENTRY, "served"), StoreRestore(folder, home)
    )
    assert isinstance(error, InvalidRequest)
    assert "isn't empty" in str(error)
    assert names(s3, home) == {ENTRY}


@pytest.mark.parametrize("what", ["a gateway", "a gateway that served", "a job"])
def test_who_came_before_the_mark_keeps_the_home(
    s3: FaultyS3, home: ObjectHome, folder: Path, what: str
) -> None:
    """It saw no `restoring`; whether or not it has the lease, or has put anything yet."""
    before = {ENTRY} if what != "a gateway" else set()

    def take() -> None:
        for path in before:
            put(s3, home, path, "served")
        if what != "a job":
            follow(s3, home)

    error = meanwhile(s3, "PUT .*/restoring", take, StoreRestore(folder, home))
    assert isinstance(error, InvalidRequest | HomeLost)
    assert names(s3, home) == before


def test_a_restore_that_was_followed_ends_nothing(
    s3: FaultyS3, home: ObjectHome, folder: Path
) -> None:
    """The other restore's `restoring` stays, so no gateway serves a mix of both."""

    def other() -> None:
        follow(s3, home)
        put(s3, home, "restoring", "of the other")

    error = meanwhile(s3, "PUT .*/journal/", other, StoreRestore(folder, home))
    assert isinstance(error, HomeLost)
    assert home.store(10).read("restoring") == b"of the other"


def test_a_restore_that_stood_still_asks_before_it_puts(
    s3: FaultyS3, home: ObjectHome, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = begun(folder, home)
    try:
        follow(s3, home)
        monkeypatch.setattr(one, "_asked", time.monotonic() - 3_600)
        with pytest.raises(HomeLost):
            one.place(lambda *_: None)
    finally:
        one.close()
    assert names(s3, home) == {"restoring"}


@pytest.mark.parametrize("path", [ENTRY, LARGE])
def test_an_object_with_other_bytes_stays(
    s3: FaultyS3, home: ObjectHome, folder: Path, path: str
) -> None:
    """One with the same bytes is what a restore that was cut off has put."""
    one = begun(folder, home)
    try:
        put(s3, home, path, "served")
        with pytest.raises(Failed, match=f"has another {path}"):
            one.place(lambda *_: None)
    finally:
        one.close()
    assert home.store(10).read(path) == b"served"
    put(s3, home, path, FILES[path].decode())
    restored(StoreRestore(folder, home))
    assert names(s3, home) == set(FILES)


@pytest.mark.parametrize("how", ["full", "owned"])
def test_of_a_lake_all_logs_begin_or_none(s3: FaultyS3, folder: Path, how: str) -> None:
    """A log that can't be restored leaves no `restoring` in those before it."""
    first, second = (home_at(s3, f"lake-{how}/{name}") for name in ("orders", "main"))
    both = [StoreRestore(folder, one) for one in (first, second)]
    if how == "full":
        put(s3, second, ENTRY, "served")
        with pytest.raises(InvalidRequest, match="isn't empty"):
            restored(*both)
        assert not first.store(10).exists("lease")
    else:
        owner = acquire_lease(ObjectHome(second.url, s3.options()), 1.0)
        with renewed(owner, 0.1), pytest.raises(HomeLocked):
            restored(*both)
    assert not names(s3, first)
    assert "restoring" not in names(s3, second)


class Dying(StoreRestore):
    """A restore that is killed before it takes its mark away."""

    def end(self) -> None:
        raise OSError("killed")


def test_a_restore_of_a_lake_that_ended_one_log_is_repeated(
    s3: FaultyS3, home: ObjectHome, folder: Path
) -> None:
    """The log that was ended is served by then, and left alone; the other one is ended."""
    orders = ObjectHome(f"{home.url}/logs/orders", home.options)
    manifest = LakeManifest(Placement(1, ("main", "orders")), "a" * 64, {})

    def go(last: type[StoreRestore]) -> None:
        lake = ObjectLake(home)
        both = [StoreRestore(folder, orders), last(folder, home)]
        restore(both, lambda *_: None, RestoredLake(lake, manifest, lake.exists()))

    with pytest.raises(Failed, match="Repeat it"):
        go(Dying)
    put(s3, orders, "journal/0000000002/0000000002", "accepted since")
    assert "restoring" in names(s3, home)
    go(StoreRestore)
    assert not any("restoring" in name for name in names(s3, home))
    assert "journal/0000000002/0000000002" in names(s3, orders)
    with pytest.raises(InvalidRequest, match=r"it has lake\.json"):
        go(StoreRestore)


def test_settings_that_were_placed_are_taken(
    s3: FaultyS3, home: ObjectHome, folder: Path, tmp_path: Path
) -> None:
    """By the repeat of a restore that was cut off behind them; others stay as they are."""
    settings = tmp_path / "settings"
    config = settings / "config" / "gateway.toml"
    put(s3, home, "restoring", "of another")
    config.parent.mkdir(parents=True)
    config.write_text("mine")
    with pytest.raises(InvalidRequest, match=r"isn't empty, it has config"):
        restored(StoreRestore(folder, home, settings))
    assert config.read_text() == "mine"
    config.unlink()
    config.parent.rmdir()
    one = begun(folder, home_at(s3, "settings-again"), settings)
    one.place(lambda *_: None)
    one.close()
    assert config.read_bytes() == CONFIG
    restored(StoreRestore(folder, home_at(s3, "settings-again"), settings))
    assert config.read_bytes() == CONFIG


def test_half_a_home_is_not_copied(
    s3: FaultyS3, home: ObjectHome, folder: Path, tmp_path: Path
) -> None:
    """A restore that was cut off has put some objects; they look like a home."""
    begun(folder, home).close()
    put(s3, home, ENTRY, "{}")
    with pytest.raises(InvalidRequest, match="a restore of it was cut off"):
        back_up(store_reader.StoreReader(home), tmp_path / "to", {}, lambda *_: None)
    assert not (tmp_path / "to").exists()
    with pytest.raises(InvalidRequest, match="a restore of it was cut off"):
        object_parts(home, f"{home.url}/tables/topic_log")


@pytest.mark.parametrize("where", ["at first", "in the middle"])
def test_a_store_that_is_not_there_ends_a_backup_with_a_sentence(
    s3: FaultyS3, tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_reader, "_REQUEST_SECONDS", 0.2)
    reader = store_reader.StoreReader(home_at(s3, "nothing"))
    if where == "in the middle":
        monkeypatch.setattr(reader, "require", lambda _: None)
    s3.plan(Plan(errors=1.0))
    try:
        with pytest.raises(Failed, match=r"can't be read: .*The last backup is as it was"):
            back_up(reader, tmp_path / "to", {}, lambda *_: None)
    finally:
        s3.plan(Plan())
