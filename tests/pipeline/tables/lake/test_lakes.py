"""Lakes on a disk and on a store: files are whole, replaced only by a writer that has read them,
and read by each gateway."""

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest
from faulty_s3 import FaultyS3, Plan, faulty_s3

from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.fleet.members import (
    PERIOD_MS_MAX,
    PERIOD_MS_MIN,
    WEIGHT_MAX,
    Member,
    Sightings,
)
from distributary.pipeline.fleet.moves import OPERATOR, Move, ask
from distributary.pipeline.lake.placement import Placement, with_log, with_rule
from distributary.pipeline.log_names import private_log
from distributary.pipeline.tables.delta.object_store import ObjectStore
from distributary.pipeline.tables.lake.disk_lake import DiskLake, disk_lake
from distributary.pipeline.tables.lake.lake import (
    SAID_BYTES_MAX,
    Lake,
    OwnerAddress,
    address_of_member,
    read_address,
    read_member,
    read_move,
)
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
        with pytest.raises(InvalidRequest, match=r"lake\.json was changed by another process"):
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
        ("lake.json", '{"version":1,"logs":' + "[" * 100_000, "can't be understood"),
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
    """Never half of one, never one that is older than a durable one, never another secret."""
    dice, secrets = random.Random(7), set[str]()
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", CHANGES, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        said = int(process.stdout.readline())
        time.sleep(dice.random() / 20)  # the stimulus: it gets so far
        process.kill()
        rest, _ = process.communicate()
        said = max([said, *map(int, rest.split("\n")[:-1])])
        lake = DiskLake(tmp_path)
        assert lake.placement().version in (said, said + 1)
        secrets.add(lake.secret())
    assert len(secrets) == 1


Put: TypeAlias = Callable[[str, bytes], None]
SAID = Member(7, "a", "amqp://10.0.0.7:5672", 11, waits=("main", "orders"), period_ms=1_000)
ORDER = Move(3, "orders", 7, "a", SAID.url, OPERATOR)
#: What no gateway says, in the place of a value.
WRONG: tuple[tuple[str, bytes], ...] = (
    *(("number", said) for said in (b"0", b"-5", b"8", b"281474976710656", b"7.5", b"9" * 400)),
    *(("period_ms", said) for said in (b"0", b"-1", b"1000000000000", b"9" * 400)),
    *(("weight", said) for said in (b"-1", b"1e400", b"NaN", b"9" * 400)),
    *(("said_at", said) for said in (b"-1", b"9" * 400)),
    *(("beat", said) for said in (b"18446744073709551615", b"null")),
    *(("url", said) for said in (b'"\xff"', b'"\\ud800"', b"[" * 200_000)),
    ("other", b"[" * 200_000),
    ("other", b"[" * 100_000 + b"]" * 100_000),
    ("other", b'"' + b"x" * SAID_BYTES_MAX + b'"'),
)
WRONG_ORDERS: tuple[tuple[str, bytes], ...] = (
    *(("number", said) for said in (b"-1", b"18446744073709551615", b"9" * 400)),
    *(("heir", said) for said in (b"0", b"-5", b"281474976710656")),
    ("state", b'"given"'),
    ("log", b"7"),
    *((key, said) for key, said in WRONG if key == "other"),
)


def with_value(whole: bytes, key: str, value: bytes) -> bytes:
    """The object, which says this of the key."""
    said = json.loads(whole)
    said[key] = "HERE"
    return json.dumps(said).encode().replace(b'"HERE"', value)


def garbage(dice: random.Random, whole: bytes) -> Iterator[bytes]:
    """Yield damaged contents that a disk, an editor or a copy may leave, and unrelated ones."""
    yield from (b"", b"\0" * 4_096, b"null", b"[]", b"{}", b"\xff\xfe", b'{"a":' * 20_000)
    for _ in range(300):
        at = dice.randrange(len(whole))
        yield whole[:at]
        yield whole[:at] + dice.randbytes(dice.randrange(4)) + whole[at + 1 :]
        yield dice.randbytes(dice.randrange(200))


@pytest.fixture
def put(lake: Lake, home: ObjectHome) -> Put:
    """Put a file into the lake, as a program that is no gateway."""
    if isinstance(lake, ObjectLake):
        return ObjectStore(home.url, home.options).put

    def written(path: str, data: bytes) -> None:
        file = Path(lake.address) / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)

    return written


def test_what_no_gateway_says_of_itself_is_nothing(lake: Lake, put: Put) -> None:
    """A damaged file stops no gateway, names no owner, and counts as no living member."""
    lake.replace(None, FIRST)
    lake.say_member(SAID)
    whole = msgspec.json.encode(SAID)
    for key, value in WRONG:
        put("members/7", with_value(whole, key, value))
        assert lake.members() == [], (key, value[:20])
        assert lake.address_of(private_log(7)) is None
    lake.say_member(SAID)
    assert lake.members() == [SAID]
    later = OwnerAddress(SAID.url, "", 0)
    assert lake.address_of(private_log(7)) == later


def test_a_copy_of_what_a_gateway_said_is_nothing(lake: Lake, put: Put) -> None:
    """A copy would be a sign of life of a dead gateway, or hide a living one."""
    lake.replace(None, FIRST)
    lake.say_member(SAID)
    whole = msgspec.json.encode(SAID)
    for name in ("8", "07", "7.old", "\u0667", ".7", "-7", "1" * 200):
        put(f"members/{name}", whole)
    assert lake.members() == [SAID]


def test_an_order_that_nobody_gives_is_none_and_is_replaced(lake: Lake, put: Put) -> None:
    lake.replace(None, FIRST)
    whole = msgspec.json.encode(ORDER)
    for key, value in WRONG_ORDERS:
        put("lake.move", with_value(whole, key, value))
        assert lake.move() is None, (key, value[:20])
        assert lake.replace_move(None, ORDER)
        assert lake.move() == ORDER


def test_an_address_that_nobody_says_is_none(lake: Lake, put: Put) -> None:
    lake.replace(None, FIRST)
    whole = msgspec.json.encode(HERE)
    for key, value in (("since", b"-1"), ("since", b"9" * 400), *WRONG[-3:]):
        put("address", with_value(whole, key, value))
        assert lake.address_of("main") is None, (key, value[:20])


def test_garbage_is_read_as_nothing_or_within_bounds() -> None:
    """Each reader accepts all bytes, and its results can be computed with and written again."""
    dice = random.Random(11)
    for said in garbage(dice, msgspec.json.encode(SAID)):
        member = read_member(said, 7)
        if member is not None:
            assert member.number == 7
            assert PERIOD_MS_MIN <= member.period_ms <= PERIOD_MS_MAX
            assert 0 <= Fraction(member.weight) <= WEIGHT_MAX
            Sightings().look([member], 0.0, 0.0)
            ask(None, "orders", member, OPERATOR, old=False)
        address_of_member(said, 7)
    for said in garbage(dice, msgspec.json.encode(ORDER)):
        move = read_move(said)
        if move is not None:
            following = ask(move, "orders", SAID, OPERATOR, old=True)
            assert following is None or read_move(msgspec.json.encode(following)) == following
    for said in garbage(dice, msgspec.json.encode(HERE)):
        read_address(said)
