"""A bank whose two accounts are queues of two logs: each transfer is one transaction of both, and
the gateways of both are killed at every step, one or the other, that of the clients among them.
"""

import random
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from bank import ACCOUNTS, COINS, KEPT, Bank
from deltalake import DeltaTable
from faults import Fault, Layer
from gateway_process import Gateway, until
from points import POINTS
from test_bank import KILLED_AT
from world import SETTINGS

from distributary.pipeline.lake.placement import Placement, Rule
from distributary.pipeline.tables.lake.disk_lake import DiskLake

#: The log of each account.
LOGS = dict(zip(ACCOUNTS, ("main", "other"), strict=True))
PLACEMENT = Placement(
    1, ("main", "other", "third"), (Rule(f"queue://{ACCOUNTS[1]}", ("other",)),
                                    Rule(f"queue://{ACCOUNTS[0]}", ("main",)))
)  # fmt: skip


class Lake:
    """A gateway for each log, over layers that kill it at points of its disk."""

    def __init__(self, folder: Path, client: str) -> None:
        """The bank's client is at the gateway of the log `client`."""
        home = folder / "lake"
        DiskLake(home).replace(None, PLACEMENT)
        self.gateways: dict[str, Gateway] = {}
        self.layers: dict[str, Layer] = {}
        for log in sorted({*LOGS.values(), client}):
            settings = {**SETTINGS, **KEPT, "owner": {"lease_ms": 1_500}}
            gateway = self.gateways[log] = Gateway(folder / log, settings)
            gateway.home, gateway.options = home, ["--log", log]
            self.layers[log] = Layer(folder / f"{log}.layer", home_of(home, log))
            self.layers[log].put_under(gateway)
        self.home, self.client = home, self.gateways[client]

    def start(self) -> None:
        for gateway in self.gateways.values():
            if not gateway.running:
                gateway.start()
                gateway.await_event("address.said", len(gateway.events("listening")))

    def killed(self) -> bool:
        """Whether one has ended; asked where something failed, which may be a moment sooner."""
        until(lambda: not all(one.running for one in self.gateways.values()), "one is killed")
        return True

    def stop(self) -> None:
        for gateway in self.gateways.values():
            gateway.stop()


def home_of(home: Path, log: str) -> Path:
    return home if log == "main" else home / "logs" / log


def rows_of(home: Path) -> list[dict[str, Any]]:
    columns = ["record", "group", "event", "subscription", "topic", "final", "sequences"]
    table = DeltaTable(home / "tables" / "topic_log").to_pyarrow_table(columns=columns)
    return sorted(table.to_pylist(), key=lambda row: int(row["group"]))


def by_transaction(home: Path) -> tuple[dict[str, Counter[str]], Counter[str], Counter[str]]:
    """Changes of this log's accounts by each transaction of several logs, by the unique part of its
    id; changes by all others; and the number of each event."""
    shared: dict[str, Counter[str]] = {}
    own, events = Counter[str](), Counter[str]()
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in rows_of(home):
        groups.setdefault(row["group"], []).append(row)
    for rows in groups.values():
        moved = Counter[str]()
        ids = []
        for row in rows:
            if row["record"] == "message":
                moved[row["topic"]] += 1
            elif row["record"] == "settlement" and row["final"]:
                moved[row["topic"]] -= len(row["sequences"])
            elif row["event"] in ("decided", "committed"):
                ids.append(row["subscription"].split(":")[1])
            events[row["event"] or ""] += 1
        if ids:
            [id_] = ids  # one client, so one at a time
            assert id_ not in shared
            shared[id_] = moved
        else:
            own.update(moved)
    return shared, own, events


def check(home: Path) -> int:
    """Every transfer is in both logs, and as much as goes out of one comes into the other: what a
    reader has who takes a transaction in both logs or in none is always all of the money. How many
    transfers there were."""
    (one, own, events), (other, others, more) = (
        by_transaction(home_of(home, log)) for log in LOGS.values()
    )
    assert one.keys() == other.keys()
    for id_, moved in one.items():
        assert sum(moved.values()) + sum(other[id_].values()) == 0, (moved, other[id_])
        assert sum(moved.values()) != 0
    assert sum(own.values()) + sum(others.values()) == COINS
    events += more
    assert events["decided"] == events["completed"] == events["committed"] == len(one)
    assert events["prepared"] == events["committed"] + events["rolled_back"]
    return len(one)


@pytest.mark.parametrize("client", ["main", "other", "third"])
def test_the_sum_never_changes(tmp_path: Path, crash_seed: int, client: str) -> None:
    """No coin is lost or made, each transfer is in both logs or in none, and in the end no
    transaction waits: a killed gateway hears the decision, whichever log decided."""
    draw = random.Random(f"{crash_seed}/shared/{client}")
    lake = Lake(tmp_path, client)
    bank = Bank(draw, lake.killed)
    with ExitStack() as ends:
        for gateway in lake.gateways.values():
            ends.push(gateway)
        lake.start()
        bank.open(lake.client.port)
        bank.fill()
        for name in KILLED_AT:
            for log in draw.sample(list(LOGS.values()), 2):
                for _ in range(draw.randrange(1, 4)):
                    bank.turn()
                layer = lake.layers[log]
                layer.arm(Fault(POINTS[name], "kill", draw.randint(1, 8)))
                killed = lake.gateways[log]
                while killed.running:
                    bank.turn()
                layer.arm(None)
                killed.kill()
                bank.close()
                lake.start()
                bank.open(lake.client.port)
        until(lambda: all(ended(lake.home, log) for log in LOGS.values()), "all has ended")
        bank.audit()
        bank.close()
        lake.stop()
    assert check(lake.home) > COINS // 10


def ended(home: Path, log: str) -> bool:
    """Whether nothing is open in the log's table any more."""
    open_: set[str] = set()
    for row in rows_of(home_of(home, log)):
        if row["event"] in ("prepared", "decided"):
            open_.add(row["subscription"])
        elif row["event"] in ("committed", "rolled_back", "completed"):
            open_.discard(row["subscription"])
    return not open_
