"""Makes the kept home of a release:

    python tests/formats/make_home.py tests/formats/release_0_1_0

Run once, with the program of that release, when it is released. What lies there is never made anew:
the tests show that each later version reads it.

It is a backup of the home, which is one of the formats that are kept, beside the marks, which no
backup has; `expected.json` says what every later version must find.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from fork_server import SCRIPT, commands  # noqa: E402
from gateway_links import encoded  # noqa: E402
from gateway_management import Manager  # noqa: E402
from gateway_peer import Peer  # noqa: E402
from gateway_process import Gateway  # noqa: E402
from proton import Delivery, symbol  # noqa: E402

#: Milliseconds since 1970, in the year 2100: what waits until then isn't due in any test.
YEAR_2100_MS = 4_102_444_800_000
#: All is in the journal alone.
LAZY = {"commit": {"interval_ms": 3_600_000}, "journal": {"segment_bytes": 1 << 20}}
BUSY = {"journal": {"segment_bytes": 1 << 20}}
SETTINGS = {
    "gateway.toml": """[security]
users = "users.toml"
permissions = "permissions.toml"
client_ids = "client_ids.toml"

[delivery]
policies = "policies.toml"
""",
    "permissions.toml": '[alice]\npublish = ["orders.*"]\nmanage = ["queue://*"]\n',
    "client_ids.toml": '["*"]\nclient_ids = ["{user}", "{user}-*"]\n',
    "policies.toml": '[[subscription]]\nmatch = "queue/*"\ndelivery_attempts_max = 5\n',
}
EXPECTED = {
    "owed": {
        "global/billing": ["b", "e"],
        "container/audit/dear": ["b", "c", "d", "e"],
        "global/all": ["f"],
        "queue/work": ["urgent", "grouped"],
        "queue/DLQ.global%2Fbilling": ["c"],
        "global/quiet": ["a", "b", "c", "d", "e"],
        "global/emptied": ["d", "e"],  #: it was purged between the lives
    },
    "paused": ["global/quiet"],
    "gone": ["global/gone"],
    "messages": 10,  #: of them one is the dead letter's copy, one waits until the year 2100
}


def _subscriptions(manager: Manager) -> None:
    make = lambda id_, **said: manager.done("CREATE", "subscription", id_, **said)  # noqa: E731
    make("global/billing", topic="orders", policy={"lock_ms": 60_000})
    make("container/audit/dear", topic="orders", selector="amount > 10")
    make("global/all", topic="orders.*")
    make("global/quiet", topic="orders")
    make("global/gone", topic="orders")
    make("global/emptied", topic="orders")
    manager.done("PAUSE", "subscription", "global/quiet")


def _first_life(gateway: Gateway) -> None:
    """Make the rows of the table, with all that a row can have."""
    with gateway, Peer(gateway.port, "worker") as peer:
        manager = Manager(peer)
        _subscriptions(manager)
        orders = peer.sender("orders")
        for body, amount in (("a", 1), ("b", 20), ("c", 30)):
            orders.publish_data([encoded(body, properties={"amount": amount})])
        peer.sender("orders.eu").publish("f")
        work = peer.sender("work", capabilities=("queue",))
        work.publish_data([encoded("urgent", priority=9, expiry_time=YEAR_2100_MS // 1_000)])
        work.publish_data([encoded("grouped", group_id="g", group_sequence=1)])
        late = {symbol("x-opt-delivery-time"): YEAR_2100_MS}
        work.publish_data([encoded("late", annotations=late)])
        billing = peer.shared_durable("orders", "billing|global")
        first, second, third = billing.take(3)
        billing.confirm([first])
        billing.confirm([third], Delivery.REJECTED)
        billing.confirm([second], Delivery.RELEASED)
        manager.done("PURGE", "subscription", "global/emptied")
        manager.done("DELETE", "subscription", "global/gone")
        peer.leave(billing, closed=False)
        gateway.stop()


def _second_life(gateway: Gateway) -> None:
    """Make records that only the journal has, and a delivery without an outcome."""
    with gateway, Peer(gateway.port, "worker") as peer:
        orders = peer.sender("orders")
        for body, amount in (("d", 40), ("e", 50)):
            orders.publish_data([encoded(body, properties={"amount": amount})])
        billing = peer.shared_durable("orders", "billing|global")
        got = {one.body: one for one in billing.take(3)}
        billing.confirm([got["d"]])
        gateway.kill()
        peer.drop()


def make(to: Path) -> None:
    """Make it in a folder that isn't there yet."""
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as scratch:
        folder = Path(scratch)
        _first_life(Gateway(folder / "first", BUSY))
        home = folder / "first" / "home"
        done = commands().run("jobs", "materialize", "--home", home, timeout=300)
        assert done.returncode == 0, done.stderr
        second = Gateway(folder / "second", LAZY)
        second.home = home
        _second_life(second)
        settings = folder / "settings"
        settings.mkdir()
        for name, text in SETTINGS.items():
            (settings / name).write_text(text)
        users = settings / "users.toml"
        added = commands().run("user", "add", "alice", "--users", users, given="wonderland\n")
        assert added.returncode == 0, added.stderr
        words = ("backup", "--home", home, "--to", to / "backup", "--config", "gateway.toml")
        # Where the settings lie, so that they name their files as people do.
        subprocess.run([SCRIPT, *words], cwd=settings, check=True)
        (to / "backup" / "lock").unlink()
        shutil.copy(home / "dispatch", to / "dispatch")
    (to / "expected.json").write_text(json.dumps(EXPECTED, indent=2) + "\n")


if __name__ == "__main__":
    make(Path(sys.argv[1]).absolute())
