"""Spark's counts of the past, and a real gateway's deliveries after them: rewinds that are told
before they are done, and subscriptions that begin in the past while publishers go on."""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fork_server import commands
from gateway_links import Incoming, Outgoing, encoded
from gateway_management import Manager
from gateway_peer import Peer, selector
from gateway_process import Gateway, past
from proton import Delivery
from pyspark.sql import SparkSession

from distributary.jobs.materialize.materialize import Settings, build
from distributary.jobs.tables.table_locations import TableLocations
from distributary.jobs.views import backfill, rewind_preview
from distributary.pipeline.log.log_position import AtSequence
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.transforms.past.history_matches import stretch
from distributary.pipeline.transforms.schema.home_tables import find_tables

COUNT = 2_000
RARE = "n % 50 = 7"
#: Most of what a test publishes is in pages of the table, not in memory.
TINY = {
    "commit": {"interval_ms": 50},
    "delivery": {"cache_bytes": 20_000, "page_bytes": 8_192},
}


def rare(start: int, stop: int) -> list[int]:
    return [n for n in range(start, stop) if n % 50 == 7]


def publish(sender: Outgoing, *numbers: int) -> None:
    """Of the numbers that matter every eighth one is worth nothing by the time it is asked for."""
    sender.publish_data(
        encoded(n, properties={"n": n}, ttl=0.2 if n % 400 == 7 else 0) for n in numbers
    )


def consume(peer: Peer, name: str, text: str | None = RARE) -> Incoming:
    filters = selector(text) if text else None
    return peer.shared_durable("flights", f"{name}|global", filters=filters)


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway whose log is in the tables: `mine` has settled some of what it was owed, lost some
    to its time, and given some back; a second one went the same way without a selector."""
    with Gateway(tmp_path_factory.mktemp("backfill"), TINY) as running:
        with Peer(running.port, "worker") as peer:
            mine, every = consume(peer, "mine"), consume(peer, "every", None)
            publish(peer.sender("flights"), *range(COUNT))
            past(time.time() + 0.2)  # the times of some are over
            taken = mine.take(20)
            mine.confirm(taken[:15])
            mine.confirm(taken[15:18], Delivery.RELEASED)
            every.confirm(every.take(100))
            peer.leave(mine, closed=False)
            peer.leave(every, closed=False)
        home = Home(running.home)
        running.stop()
        places = TableLocations(
            str(home.topic_log), str(home.spark_tables), str(home.checkpoint("m"))
        )
        build(spark, Settings(places)).awaitTermination()
        running.start()
        yield running
        running.stop()
        running.verified()


def told(lake: Gateway, name: str, to: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    rewind_preview.preview(str(lake.home), name, to, as_json=True)
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(("name", "to"), [("global/mine", 500), ("global/every", 50)])
def test_a_rewind_brings_what_was_told(
    lake: Gateway, capsys: pytest.CaptureFixture[str], name: str, to: int
) -> None:
    """As many come again as Spark says, beside those that are owed anyway; what has expired isn't
    among them. What lies before the place is told, too."""
    said = told(lake, name, str(to), capsys)
    numbers = rare(to, COUNT) if name == "global/mine" else list(range(to, COUNT))
    expired = [n for n in numbers if n % 400 == 7]
    assert said["expired"] == len(expired)
    assert said["again"] + said["anyway"] == len(numbers) - len(expired)
    assert (said["gone"], said["possible"], said["sequence"]) == (0, True, to)
    with Peer(lake.port, "worker") as peer:
        before = Manager(peer).done("READ", "subscription", name)
        again = [n for n in range(to, before["floor"]) if n in set(numbers) - set(expired)]
        assert said["again"] >= len(again) > 0
        Manager(peer).done("REWIND", "subscription", name, to=to)
        consumer = consume(peer, name.removeprefix("global/"), RARE if "mine" in name else None)
        got = consumer.take(said["again"] + said["anyway"])
        consumer.confirm(got)
        assert [one.body for one in got] == [n for n in numbers if n not in set(expired)]
        assert consumer.nothing()
        peer.leave(consumer, closed=False)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = backfill.main([*words, "--json"])
    out = capsys.readouterr().out
    return code, json.loads(out) if code == 0 else {}


def test_a_subscription_begins_in_the_past_while_publishers_go_on(
    lake: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """It gets matching messages of the past and of the present, each once and in order, also after
    a kill -9 in the middle; a dry run has said how many, and touched nothing."""
    words = ("global/late", "--topic", "flights", "--since", "300", "--selector", RARE)
    place = ("--home", str(lake.home), "--gateway", f"127.0.0.1:{lake.port}")
    code, said = run(capsys, *words, *place, "--dry-run")
    wanted = rare(300, COUNT)
    assert (code, said["matches"], said["gone"]) == (0, len(wanted), 0)
    assert (said["first"], said["last"], said["up_to"]) == (wanted[0], wanted[-1], COUNT)
    assert sum(said["days"].values()) == len(wanted)
    stopped, published = threading.Event(), COUNT

    def go_on() -> None:
        nonlocal published
        with Peer(lake.port) as peer:
            sender = peer.sender("flights")
            # Some at a time: as fast as it can it would be a backlog that grows with the machine's
            # slowness, and half of the test's work.
            while not stopped.wait(0.02):
                publish(sender, *(n for n in range(published, published + 50) if n % 400 != 7))
                published += 50

    load = threading.Thread(target=go_on)
    load.start()
    try:
        code, said = run(capsys, *words, *place)
        assert (code, said["floor"], said["hint_to"]) == (0, 300, COUNT)
        with Peer(lake.port, "worker") as peer:
            consumer = consume(peer, "late")
            got = consumer.take(20)
            consumer.confirm(got)
    finally:
        stopped.set()
        load.join()
    lake.kill()
    lake.start()
    due = [n for n in rare(300, published) if n % 400 != 7]
    with Peer(lake.port, "worker") as peer:
        consumer = consume(peer, "late")
        more = consumer.take(len(due) - 20)
        consumer.confirm(more)
        assert [one.body for one in [*got, *more]] == due
        assert consumer.nothing()
        peer.leave(consumer, closed=False)
    code, said = run(capsys, "global/late", "--rewind", "--since", "1000", *place)
    assert (code, said["floor"], said["hint_to"]) == (0, 1_000, COUNT)
    with Peer(lake.port, "worker") as peer:
        again = [n for n in due if n >= 1_000]
        consumer = consume(peer, "late")
        assert consumer.bodies(len(again)) == again
        peer.leave(consumer, closed=False)


def test_what_can_not_be_is_one_sentence(
    lake: Gateway, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With the exit code of bad arguments, or of a gateway that refuses."""
    place = ("--home", str(lake.home), "--gateway", f"127.0.0.1:{lake.port}")
    since = ("--since", "5")
    for code, words, says in (
        (2, ("global/x", *since, *place), "give --topic for a new subscription"),
        (2, ("global/x", "--topic", "t", "--rewind", *since, *place), "give --topic for a new"),
        (2, ("x", "--topic", "t", *since, *place), "is no subscription's id"),
        (2, ("global/x", "--topic", "t", "--since", "soon", *place, "--dry-run"), "no place in"),
        (2, ("global/x", "--topic", "t", *since, *place, "--selector", "n >"), "selector"),
        (2, ("global/x", "--topic", "t", *since, "--dry-run", "--home", str(tmp_path)), "no table"),
        (1, ("global/mine", "--topic", "flights", *since, *place), "there is a subscription"),
        (1, ("global/x", "--rewind", *since, *place), "there is no subscription global/x"),
        (1, ("global/x", "--topic", "flights", "--since", "999999", *place), "beyond the end"),
    ):
        capsys.readouterr()
        assert backfill.main(list(words)) == code, words
        error = capsys.readouterr().err
        assert says in error, words
        assert "Traceback" not in error


def test_a_hint_begins_where_the_tables_have_all(spark: SparkSession, lake: Gateway) -> None:
    """One message that `messages` lacks, and a hint can't speak of what lies before it."""
    tables = find_tables(spark, str(lake.home))
    whole = stretch(tables, AtSequence(300))
    assert (whole.start, whole.stop, whole.known_from) == (300, COUNT, 300)

    class Lacking:
        """The same tables without one message."""

        spark = tables.spark
        cursors, log_versions, topic_log = tables.cursors, tables.log_versions, tables.topic_log
        messages = tables.messages.where("sequence <> 1234")

    assert stretch(Lacking(), AtSequence(300)).known_from == 1_235


def test_the_commands_say_the_same(lake: Gateway) -> None:
    """`distributary subscription rewind --dry-run` asks no gateway; without tables it says so."""
    words = ("subscription", "rewind", "mine", "--to", "500")
    for more, says in (
        (("--dry-run",), "--dry-run needs --home DIR"),
        (("--home", str(lake.home)), "are what --dry-run looks at"),
    ):
        done = commands().run(*words, *more)
        assert (done.returncode, done.stdout) == (2, "")
        assert says in done.stderr
