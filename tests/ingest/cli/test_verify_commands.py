"""verify and info beside a gateway at work, after its death, and after its next start; and what the
two commands answer on the command line."""

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from gateway_links import Incoming, Outgoing, encoded
from gateway_peer import Connect, Peer
from gateway_process import Gateway
from proton import Delivery

from distributary.ingest.cli.main import main
from distributary.pipeline.errors import StoreError
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.verify.home_info import take
from distributary.pipeline.tables.verify.verify_home import Report, verify

Make = Callable[..., Gateway]
#: Commits every few milliseconds, segments that are soon full, a log that is cleaned: much moves
#: under a reader.
BUSY = {
    "commit": {"interval_ms": 20},
    "journal": {"segment_bytes": 1 << 20},
    "upkeep": {"log_entries_max": 200},
}
TOPICS = ("orders", "bills", "events")
#: Times that a home is read under load, and versions that must have come meanwhile.
READINGS, VERSIONS = 6, 3


class Load:
    """Publishes to three topics and consumes from four subscriptions, a bit of everything."""

    def __init__(self, peer: Peer, seed: int) -> None:
        self.peer, self.dice = peer, random.Random(seed)
        self.consumers = [
            peer.durable("orders", "exclusive"),
            peer.shared_durable("orders", "shared"),
            peer.shared_durable("bills", "worldwide|global"),
            peer.durable("events", "slow"),
        ]
        self.senders = [peer.sender(topic) for topic in TOPICS]
        self.accepted = 0

    def turn(self) -> None:
        """Some messages, some outcomes."""
        for sender in self.senders:
            self._publish(sender)
        for consumer in self.consumers:
            self._consume(consumer)

    def _publish(self, sender: Outgoing) -> None:
        count = self.dice.randint(0, 8)
        size = self.dice.choice([10, 2_000, 30_000])
        sender.publish_data([encoded(b"x" * size) for _ in range(count)])
        self.accepted += count

    def _consume(self, consumer: Incoming) -> None:
        consumer.link.flow(max(0, self.dice.randint(0, 20) - consumer.link.credit))
        self.peer.turn(0.001)
        got, consumer.inbox = consumer.inbox, []
        self.dice.shuffle(got)
        for one in got:
            state = self.dice.choice([Delivery.ACCEPTED] * 8 + [Delivery.RELEASED])
            consumer.settle([one], state)


def moved(reports: list[Report]) -> bool:
    """Whether the table has gone on while it was read."""
    first, last = reports[0].version, reports[-1].version
    return first is not None and last is not None and last >= first + VERSIONS


@pytest.mark.timeout(120)
def test_a_gateway_at_work_is_sound_at_every_moment_and_so_is_what_it_leaves(
    own_gateway: Make, connect: Connect
) -> None:
    """Read again and again while it publishes, settles, commits and recycles; then killed, then
    started again. What is read at a later moment is not older."""
    with own_gateway(BUSY) as gateway:
        load = Load(connect("c", port=gateway.port), seed=7)
        home, reports = Home(gateway.home), list[Report]()
        failed: list[BaseException] = []

        def read() -> None:
            try:
                while len(reports) < READINGS or not moved(reports):
                    reports.append(verify(home))
            except BaseException as error:  # noqa: BLE001 (told by the test's own thread)
                failed.append(error)

        reader = threading.Thread(target=read)
        reader.start()
        while reader.is_alive():
            load.turn()
        reader.join()
        assert not failed, failed
        assert [r for r in reports if not r.sound] == []
        versions = [report.version for report in reports if report.version is not None]
        assert versions == sorted(versions)

        gateway.kill()
        report = verify(home, deep=True)
        assert report.sound, report
        load.peer.drop()
        gateway.start()
        load = Load(connect("c", port=gateway.port), seed=8)
        load.turn()
        report = verify(home, deep=True)
        assert report.sound, report
        gateway.stop()
        report = verify(home, deep=True)
        assert report.sound, report
        assert take(home).journal.uncommitted == 0


def test_info_counts_what_is_there(own_gateway: Make, connect: Connect) -> None:
    """Topics, backlogs, positions; after a clean stop all is in the table, after a kill what the
    table lacks is counted in groups of the journal."""
    with own_gateway({"commit": {"interval_ms": 3_600_000}}) as gateway:
        peer = connect("c", port=gateway.port)
        mine = peer.durable("orders", "mine")
        peer.shared_durable("bills", "idle|global")
        peer.sender("orders").publish(*range(20))
        peer.sender("bills").publish(*range(5))
        got = mine.take(10)
        mine.confirm([*got[:4], got[7]])
        peer.drop()
        gateway.kill()
        found = take(Home(gateway.home))
        assert found.topics == ()
        assert found.journal.uncommitted == found.journal.frames > 3
        assert found.journal.uncommitted_bytes == found.journal.bytes > 0
        gateway.start()
        gateway.stop()
        found = take(Home(gateway.home))
        assert [(t.topic, t.messages, t.first, t.last) for t in found.topics] == [
            ("bills", 5, 20, 24),
            ("orders", 20, 0, 19),
        ]
        assert all(topic.bytes > 0 for topic in found.topics)
        stands = [(s.subscription, s.topic, s.settled, s.backlog) for s in found.subscriptions]
        assert stands == [("container/c/mine", "orders", 1, 15), ("global/idle", "bills", 0, 5)]
        assert found.subscriptions[0].floor == 4
        assert found.table is not None
        assert found.table.next_sequence == 25
        assert sum(f.rows for f in found.table.files if f.record == "message") == 25
        assert found.journal.uncommitted == 0


# The command line.


@dataclass(frozen=True)
class Answer:
    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Answer]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """The command in this process: starting another one takes longer than all that it does."""

    def command(*arguments: object) -> Answer:
        monkeypatch.setattr(sys, "argv", ["distributary", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main()
        said = capsys.readouterr()
        return Answer(int(end.value.code or 0), said.out, said.err)

    return command


def test_the_installed_command_says_that_a_new_home_is_sound(own_gateway: Make) -> None:
    """As a person types it."""
    with own_gateway() as gateway:
        command = [*Gateway.COMMAND, "verify", "--home", str(gateway.home)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{gateway.home} is sound as of version 0 of its log." in done.stdout


def test_the_commands_answer_people_and_programs(
    own_gateway: Make, connect: Connect, run: Run
) -> None:
    """Tables and a closing sentence, or one JSON object; beside the gateway, which goes on."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        peer.durable("orders", "mine")
        peer.sender("orders").publish(1, 2, 3)
        gateway.await_event("batch.committed")
        text = run("verify", "--home", gateway.home)
        assert (text.returncode, text.stderr) == (0, "")
        assert f"{gateway.home} is sound as of version " in text.stdout
        report = json.loads(run("verify", "--home", gateway.home, "--deep", "--json").stdout)
        assert report["sound"] is True
        assert {check["verdict"] for check in report["checks"]} == {"sound", "not checked"}
        shown = run("info", "--home", gateway.home)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "container/c/mine" in shown.stdout
        found = json.loads(run("info", "--home", gateway.home, "--json").stdout)
        assert found["home"] == str(gateway.home)
        refused = run("verify", "--home", gateway.home, "--repair")
        assert refused.returncode == 1
        assert "is in use by the gateway with pid" in refused.stderr
        assert "Traceback" not in refused.stderr
        peer.sender("orders").publish(4)


def test_repair_says_what_it_cut_and_the_gateway_starts_after_it(
    own_gateway: Make, connect: Connect, run: Run
) -> None:
    """A torn tail: verify names it and stays sound, repair cuts it; all that was accepted is
    there."""
    with own_gateway({"commit": {"interval_ms": 3_600_000}}) as gateway:
        peer = connect("c", port=gateway.port)
        mine = peer.durable("orders", "mine")
        peer.sender("orders").publish(1, 2)
        peer.drop()
        gateway.kill()
        assert mine.received == 0
        tear(gateway.home)
        before = json.loads(run("verify", "--home", gateway.home, "--json").stdout)
        assert before["sound"] is True
        notes = [note for check in before["checks"] for note in check["notes"]]
        assert any("isn't whole: it was never accepted" in note for note in notes)
        repaired = run("verify", "--home", gateway.home, "--repair")
        assert repaired.returncode == 0
        assert "It is cut; it was never accepted, so nothing is lost." in repaired.stdout
        again = run("verify", "--home", gateway.home, "--repair")
        assert "nothing was cut" in again.stdout
        gateway.start()
        assert not gateway.events("journal.cut")
        assert connect("c", port=gateway.port).durable("orders", "mine").bodies(2) == [1, 2]


def tear(home: Path) -> None:
    """Begin a frame behind the last one, as a crash in the middle of a write does."""
    path = max((home / "journal").glob("*.journal"))
    data = bytearray(path.read_bytes())
    end = len(data.rstrip(b"\0"))
    end += -end % 64
    data[end : end + 4] = b"DGRP"
    path.write_bytes(data)


def test_an_unsound_home_ends_with_1_and_no_home_with_2(
    own_gateway: Make, connect: Connect, run: Run, tmp_path: Path
) -> None:
    """Scripts can tell; each in sentences that name the file or the folder."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        peer.sender("orders").publish(1)
        peer.drop()
        gateway.stop()
        victim = next((gateway.home / "tables" / "topic_log").rglob("record=message/*/*.parquet"))
        victim.unlink()
        broken = run("verify", "--home", gateway.home)
        assert broken.returncode == 1
        assert f"{victim} is missing" in broken.stdout
        assert f"{gateway.home} is not sound" in broken.stdout
        told = json.loads(run("verify", "--home", gateway.home, "--json").stdout)
        assert told["sound"] is False
        with pytest.raises(StoreError, match="verify` says more"):
            take(Home(gateway.home))
        for command in ("verify", "info"):
            nowhere = run(command, "--home", tmp_path / "nowhere")
            assert nowhere.returncode == 2
            assert f"{tmp_path / 'nowhere'} is no folder" in nowhere.stderr
            stray = run(command, "--home", tmp_path)
            assert stray.returncode == 2
            assert "is no gateway's home" in stray.stderr
