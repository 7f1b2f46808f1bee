"""Options of a query for the source `subscription`, and the content of offsets: read, written,
refused."""

from pathlib import Path

import pytest

from distributary.jobs.client.lake_logs import addresses
from distributary.jobs.session.job_settings import load
from distributary.jobs.subscription.choices import KNOWN, STORAGE, Choices, choices
from distributary.jobs.subscription.offset import Acquired, Offset
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.log.log_identity import LogIdentity
from distributary.pipeline.tables.lake.disk_lake import DiskLake
from distributary.pipeline.tables.lake.lake import OwnerAddress

TABLE = LogIdentity("11-22", 5, "ab" * 16)
RIGHT = {"gateway": "localhost:5672", "subscription": "global/orders"}


#: The page that has every option.
PAGE = Path(__file__).parents[3] / "docs" / "guides" / "spark-source.md"


def rows(page: str) -> dict[str, tuple[str, str, str]]:
    """Option -> default, unit, meaning."""
    table = page.partition("| option | default | unit | means |")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()[2:]]
    return {name.strip("`"): (default, unit, means) for name, default, unit, means in cells}


def test_every_option_is_on_its_page() -> None:
    """In the order of the code, with a meaning, and with the defaults that hold."""
    found = rows(PAGE.read_text())
    names = list(KNOWN)
    assert [name for name in found if name != f"{STORAGE}*"] == names
    assert f"{STORAGE}*" in found
    assert all(default and means for default, _, means in found.values())
    plain, settings = choices(RIGHT), load().subscription
    assert found["consumer"][0] == f"`{plain.consumer}`"
    assert found["raw"][0] == f"`{plain.raw}`".lower()
    assert found["typed"][0] == f"`{plain.typed}`".lower()
    for option, key, unit in (
        ("maxMessagesPerTrigger", "trigger_messages_max", "messages"),
        ("lingerSeconds", "linger_seconds", "seconds"),
    ):
        assert found[option][:2] == (f"{getattr(settings, key)} (`{key}`)", unit)
    for name in ("gateway", "subscription"):
        assert found[name][0] == "must be said"


def test_options_are_read_whatever_their_case() -> None:
    """The login may stand in the address, where it is taken from, or be said by itself."""
    said = {"Gateway": "amqps://al%40x:s%3A1@host:5671", "MAXMESSAGESPERTRIGGER": "5"}
    found = choices({**said, "subscription": "container/a%2Fb/orders", "storage.AWS_REGION": "x"})
    assert found == Choices(
        "amqps://host:5671",
        "container/a%2Fb/orders",
        user="al@x",
        password="s:1",  # noqa: S106
        storage=(("aws_region", "x"),),
        messages_max=5,
    )
    assert found.container == "a/b"
    assert "s:1" not in repr(found)
    assert choices({**RIGHT, "gateway": "amqp://[::1]:5672"}).address == "amqp://[::1]:5672"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"offset": "5"}, "the source 'subscription' has no option 'offset'; it has gateway"),
        ({"gateway": ""}, "the option 'gateway' is missing: amqp://user:password@host:port"),
        ({"gateway": "http://x"}, "the option 'gateway' is 'http://x'; it must be amqp://"),
        ({"gateway": "amqp://u:secret@h:x"}, "the option 'gateway' is 'amqp://...@None'; it must"),
        ({"subscription": "orders"}, "'orders' is no subscription's id"),
        ({"maxMessagesPerTrigger": "0"}, "'maxMessagesPerTrigger' is '0'; it must be a number"),
        ({"lingerSeconds": "-1"}, "'lingerSeconds' is '-1'; it must be a number from 0"),
        ({"consumer": "a/b"}, "the option 'consumer' is 'a/b': a name without '/'"),
        ({"raw": "yes"}, "the option 'raw' is 'yes'; it must be true or false"),
        ({"raw": "true", "typed": "true"}, "the options 'raw' and 'typed' are both true"),
    ],
)
def test_a_wrong_option_is_one_sentence(options: dict[str, str], sentence: str) -> None:
    """It says which option, and what there is; never a password."""
    with pytest.raises(InvalidRequest) as error:
        choices(RIGHT | options)
    assert sentence in str(error.value)
    assert "secret" not in str(error.value)


def test_an_offset_has_all_of_its_batch() -> None:
    """Sequences as runs, failed attempts of those that have any, and back."""
    acquired = Acquired.of({"0": "9-11,1-5/2", "2": "2,20"})
    assert acquired.sequences.tolist() == [1, 2, 3, 5, 9, 10, 11, 20]
    first, others = acquired.cut(5, 1_000)
    offset = Offset().next("h", 7, "orders", "/lake/topic_log", TABLE, first, 500)
    assert offset.task_messages == 500
    assert (offset.number, offset.sequences, offset.failed) == (1, "1-3,5,9", ((2, "2"),))
    assert Offset.of(offset.json()) == offset
    assert others.sequences.tolist() == [10, 11, 20]
    second = offset.next("h", 7, "orders", "/lake/topic_log", TABLE, others, 500)
    assert (second.number, second.sequences, second.failed) == (2, "10-11,20", ((2, "20"),))


def test_an_offset_is_never_longer_than_it_may_be() -> None:
    """Sequences that don't fit are left for the next batch; all batches together have each once."""
    irregular = [n * n * 1_009 % 7 + n * 10 for n in range(3_000)]
    left = Acquired.of({"0": ",".join(map(str, irregular))})
    found: list[int] = []
    while left.sequences:
        first, left = left.cut(1_000, 256)
        assert 0 < len(Offset().next("h", 1, "t", "l", TABLE, first, 9).sequences) <= 256
        found += first.sequences
    assert found == irregular


def test_what_comes_after_the_end_is_told_apart() -> None:
    acquired = Acquired.of({"0": "1-9"})
    before, late = acquired.before(6)
    assert (before.sequences.tolist(), late) == ([1, 2, 3, 4, 5], "6-9")


def test_an_offset_of_another_source_is_refused() -> None:
    """Nothing is guessed of a checkpoint that isn't ours."""
    with pytest.raises(InvalidRequest, match="begin with another checkpoint"):
        Offset.of({"index": 5})


def test_an_offset_of_before_is_read_and_says_of_no_table() -> None:
    """A query goes on after an upgrade; where its table lay is all that it knows. Its tasks are as
    large as the settings say."""
    said = Offset(1, "h", 7, "orders", "/lake/topic_log", TABLE, "1-3").json()
    assert Offset.of(said).table == TABLE
    del said["table"], said["task_messages"]
    assert Offset.of({**said, "version": 1}) == Offset(
        1, "h", 7, "orders", "/lake/topic_log", None, "1-3"
    )


def test_a_log_is_said_absolutely() -> None:
    """Executors have other working folders; an address with a scheme is one already."""
    assert choices({**RIGHT, "log": "lake/topic_log"}).log == str(Path("lake/topic_log").absolute())
    assert choices({**RIGHT, "log": "s3://lake/topic_log"}).log == "s3://lake/topic_log"
    assert choices(RIGHT).log == ""


def test_a_home_may_stand_for_its_gateways(tmp_path: Path) -> None:
    """One of both is said. A home that is no lake, or whose gateways never said where they are,
    names none."""
    found = choices({"home": str(tmp_path), "subscription": "global/orders"})
    assert (found.address, found.home) == ("", str(tmp_path))
    with pytest.raises(InvalidRequest, match="both said"):
        choices(RIGHT | {"home": str(tmp_path)})
    with pytest.raises(InvalidRequest, match="'gateway' is missing"):
        choices({"subscription": "global/orders"})
    with pytest.raises(InvalidRequest, match="is no lake: name a gateway"):
        addresses(found.home, "")
    lake = DiskLake(tmp_path)
    lake.replace(None, Placement(1, ("main", "orders")))
    with pytest.raises(InvalidRequest, match="has said yet where it listens"):
        addresses(found.home, "")
    for log in ("main", "orders"):
        lake.say_address(log, OwnerAddress(f"amqp://{log}:5672", "", 0))
    assert addresses(found.home, "") == ["amqp://main:5672", "amqp://orders:5672"]
    assert addresses(found.home, "orders") == ["amqp://orders:5672"]
