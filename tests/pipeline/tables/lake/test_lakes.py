"""Lakes on a disk and on a store: what is there whole, who may replace it, who reads what."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from faulty_s3 import FaultyS3, Plan, faulty_s3

from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.lake.placement import Placement, with_log, with_rule
from distributary.pipeline.tables.lake.disk_lake import DiskLake, disk_lake
from distributary.pipeline.tables.lake.lake import Lake, OwnerAddress
from distributary.pipeline.tables.lake.object_lake import ObjectLake, object_lake
from distributary.pipeline.tables.object_home.object_home import ObjectHome

FIRST = Placement(1, ("main", "orders"))
SECOND = with_rule(FIRST, "orders.#", ["orders"])
HERE = OwnerAddress("amqp://10.0.0.7:5672", "distributary", 1_700_000_000_000_000)


@pytest.fixture(scope="module")
def s3() -> Iterator[FaultyS3]:
    with faulty_s3() as found:
        yield found


@pytest.fixture
def home(s3: FaultyS3, request: pytest.FixtureRequest) -> Iterator[ObjectHome]:
    yield ObjectHome(f"s3://lake/{request.node.name}", s3.options())
    s3.plan(Plan())


@pytest.fixture(params=["disk", "store"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, home: ObjectHome) -> Lake:
    return DiskLake(tmp_path / "home") if request.param == "disk" else ObjectLake(home)


def test_a_lake_is_made_and_changed(lake: Lake) -> None:
    lake.replace(None, FIRST)
    assert lake.placement() == FIRST
    secret = lake.secret()
    assert len(bytes.fromhex(secret)) == 32
    lake.replace(FIRST, SECOND)
    assert lake.placement() == SECOND
    assert lake.secret() == secret


def test_of_two_changes_at_once_one_is_refused(lake: Lake) -> None:
    lake.replace(None, FIRST)
    lake.replace(FIRST, SECOND)
    for seen in (FIRST, None):
        with pytest.raises(InvalidRequest, match=r"lake\.json was changed by somebody else"):
            lake.replace(seen, with_log(FIRST, "prices"))
    assert lake.placement() == SECOND


def test_of_many_changes_at_once_each_version_is_made_by_one(lake: Lake, s3: FaultyS3) -> None:
    """Between what one has read and its put the others have time."""
    lake.replace(None, FIRST)
    s3.plan(Plan(latency_ms=10))
    done: list[int] = []

    def change(nth: int) -> None:
        while True:
            seen = lake.placement()
            try:
                lake.replace(seen, with_log(seen, f"log{nth}"))
            except InvalidRequest:
                continue
            done.append(nth)
            return

    threads = [threading.Thread(target=change, args=(nth,)) for nth in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    last = lake.placement()
    assert last.version == 1 + len(done) == 7
    assert set(last.logs) == {"main", "orders", *(f"log{nth}" for nth in range(6))}


def test_an_owner_says_where_it_listens(lake: Lake) -> None:
    lake.replace(None, FIRST)
    for log in ("main", "orders"):
        assert lake.address_of(log) is None
        lake.say_address(log, HERE)
        assert lake.address_of(log) == HERE
    other = OwnerAddress("amqp://10.0.0.8:5672", "other", HERE.since + 1)
    lake.say_address("orders", other)
    assert (lake.address_of("main"), lake.address_of("orders")) == (HERE, other)


def test_main_is_the_home_and_other_logs_lie_below_it(lake: Lake) -> None:
    assert lake.log_home("main") == lake.address
    assert lake.log_home("orders") == f"{lake.address}/logs/orders"


def test_a_home_without_a_placement_is_no_lake(tmp_path: Path, home: ObjectHome) -> None:
    assert disk_lake(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
    assert object_lake(home) is None
    ObjectLake(home).replace(None, FIRST)
    DiskLake(tmp_path).replace(None, FIRST)
    assert disk_lake(tmp_path) is not None
    assert object_lake(home) is not None


def test_what_lies_on_a_disk(tmp_path: Path) -> None:
    """The secret is for the gateways' user alone; nothing that was begun is left."""
    lake = DiskLake(tmp_path)
    lake.replace(None, FIRST)
    lake.say_address("main", HERE)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["address", "lake.change", "lake.json", "lake.secret"]
    assert (tmp_path / "lake.secret").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "lake.json").read_text() == (
        '{"version":1,"logs":["main","orders"],"rules":[]}'
    )


@pytest.mark.parametrize(
    ("name", "said", "text"),
    [
        ("lake.json", "{", "can't be understood"),
        ("lake.json", '{"version":1,"logs":["orders"]}', "the log main is missing"),
        ("lake.json", '{"version":1,"logs":["main"],"moves":[]}', "can't be understood"),
        ("lake.secret", "secret", "isn't 64 hexadecimal digits"),
    ],
)
def test_what_is_broken_is_named(tmp_path: Path, name: str, said: str, text: str) -> None:
    lake = DiskLake(tmp_path)
    lake.replace(None, FIRST)
    (tmp_path / name).write_text(said)
    with pytest.raises(StoreError, match=f"{name}.*{text}"):
        lake.placement() if name == "lake.json" else lake.secret()


def test_an_address_that_can_not_be_read_is_none(tmp_path: Path) -> None:
    (tmp_path / "address").write_text('{"url": 7}')
    assert DiskLake(tmp_path).address_of("main") is None


def test_a_change_whose_answer_was_lost_has_happened_once(home: ObjectHome, s3: FaultyS3) -> None:
    """The client asks again by itself, and is told that something else stands there: its own."""
    lake = ObjectLake(home)
    lake.replace(None, FIRST)
    s3.plan(Plan(lost=0.5, hang_seconds=0.1, seed=3))
    seen = FIRST
    for nth in range(8):
        new = with_log(seen, f"log{nth}")
        lake.replace(seen, new)
        seen = new
    s3.plan(Plan())
    assert lake.placement() == seen


def test_a_store_without_conditions_is_refused(home: ObjectHome, s3: FaultyS3) -> None:
    s3.plan(Plan(unconditional="if-match"))
    with pytest.raises(InvalidRequest, match="ignores conditions of puts"):
        ObjectLake(home).replace(None, FIRST)


def test_a_store_that_is_not_there_is_one_sentence() -> None:
    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_ALLOW_HTTP": "true"}
    keys = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1"}
    lake = ObjectLake(ObjectHome("s3://lake/nowhere", options | keys), patience=0.2)
    with pytest.raises(StoreError, match="the lake s3://lake/nowhere can't be used: "):
        lake.placement()


#: Makes a lake and changes it as quickly as it can, and says each version when it is durable.
CHANGES = """
import sys
from pathlib import Path
from distributary.pipeline.lake.placement import ONE_LOG, with_log, with_rule
from distributary.pipeline.tables.lake.disk_lake import DiskLake, disk_lake
root = Path(sys.argv[1])
lake = disk_lake(root)
if lake is None:
    lake = DiskLake(root)
    lake.replace(None, with_log(ONE_LOG, "orders"))
while True:
    seen = lake.placement()
    lake.replace(seen, with_rule(seen, "a.#", ["orders" if seen.version % 2 else "main"]))
    print(seen.version + 1, flush=True)
"""


def test_a_kill_leaves_one_placement_or_the_next(tmp_path: Path) -> None:
    """Never half of one, never one before what was said to be durable, never another secret."""
    dice, secrets = random.Random(7), set[str]()
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", CHANGES, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        said = int(process.stdout.readline())
        time.sleep(dice.random() / 20)
        process.kill()
        rest, _ = process.communicate()
        said = max([said, *map(int, rest.split("\n")[:-1])])
        lake = DiskLake(tmp_path)
        assert lake.placement().version in (said, said + 1)
        secrets.add(lake.secret())
    assert len(secrets) == 1
