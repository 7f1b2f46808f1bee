"""The commands of a backup, and what is looked for in a restored home."""

import json
import tempfile
import threading
import time
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from fork_server import commands
from gateway_links import Got, Incoming, Outgoing, encoded
from gateway_peer import Peer
from gateway_process import Gateway, until
from verify_homes import MadeHome

from distributary.pipeline.lake.placement import Placement
from distributary.pipeline.tables.home.home import Home
from distributary.pipeline.tables.lake.disk_lake import DiskLake
from distributary.pipeline.tables.verify.verify_home import verify


def backed_up(home: Path, folder: Path, *words: object) -> dict[str, Any]:
    """The report of a backup, which must succeed."""
    done = commands().run("backup", "--home", home, "--to", folder, "--json", *words)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return json.loads(done.stdout)


def restored(folder: Path, home: Path, *words: object) -> CompletedProcess[str]:
    return commands().run("restore", "--from", folder, "--home", home, *words)


def restored_sound(folder: Path, home: Path, *words: object) -> None:
    """A home of the backup, which must be whole."""
    done = restored(folder, home, *words)
    assert done.returncode == 0, done.stderr
    require_sound(home)


def require_sound(home: Path) -> None:
    report = verify(Home(home), deep=True)
    assert report.sound, report
    notes = [note for check in report.checks for note in check.notes]
    assert not notes, notes


def backed_up_lake(root: Path, folder: Path) -> None:
    """A backup of a lake whose logs `main` and `orders` have messages."""
    for home in (root, root / "logs" / "orders"):
        MadeHome(home)
    DiskLake(root).make(Placement(1, ("main", "orders")), "a" * 64)
    backed_up(root, folder)


def all_of(incoming: Incoming) -> list[Got]:
    """All that the subscription has for this link, accepted."""
    found: list[Got] = []
    while incoming.drain(1_000):
        got, incoming.inbox = incoming.inbox, []
        incoming.confirm(got)
        found += got
    return found


def bodies_of(incoming: Incoming) -> list[object]:
    return [one.body for one in all_of(incoming)]


class NumberedLoad:
    """Publishes 0, 1, 2 ... to a topic and settles every second one that a durable subscription
    gets, on a thread of its own. `accepted` is below which all are accepted; `settled` are those
    whose settlement is durable."""

    TOPIC, NAME = "numbers", "half"

    def __init__(self, gateway: Gateway, *, bytes_each: int = 0) -> None:
        self._peer = Peer(gateway.port, "load")
        self._filler = "x" * bytes_each
        self.accepted = 0
        self.settled: set[int] = set()
        self._failed: list[BaseException] = []
        self._stop = threading.Event()
        self._incoming = self._peer.durable(self.TOPIC, self.NAME)
        self._outgoing: Outgoing = self._peer.sender(self.TOPIC)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._turn()
        except BaseException as error:  # noqa: BLE001 (told by the test's own thread)
            self._failed.append(error)

    def _turn(self) -> None:
        some = range(self.accepted, self.accepted + 20)
        self._outgoing.publish_data([encoded([number, self._filler]) for number in some])
        self.accepted = some.stop
        got = self._incoming.take(20)
        mine = [one for one in got if number_of(one) % 2 == 0]
        self._incoming.confirm(mine)  # the others stay in flight
        self.settled |= {number_of(one) for one in mine}

    def reach(self, accepted: int) -> None:
        """Wait until so many are accepted."""
        until(lambda: self._failed or self.accepted >= accepted, f"{accepted} messages of the load")
        assert not self._failed, self._failed

    def end(self) -> None:
        self._stop.set()
        self._thread.join()
        assert not self._failed, self._failed
        self._peer.drop()


def number_of(one: Got) -> int:
    body = one.body
    assert isinstance(body, list)
    return int(body[0])


def killed_after(seconds: float, *words: object) -> bool:
    """Start a command and kill it so many seconds later; whether it was still at work."""
    with tempfile.TemporaryFile() as said:
        process = commands().start(*words, output=said, errors=said)
        time.sleep(seconds)  # the stimulus: it gets so far
        at_work = process.poll() is None
        process.kill()
        process.wait()
        return at_work
