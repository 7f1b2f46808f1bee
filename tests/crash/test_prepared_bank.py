"""A bank whose transfers are distributed: each is prepared under a global id and ends by a request,
and its gateway is killed at every step of both. What a crash leaves is ended by its id.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bank import ACCOUNTS, COINS, KEPT, Bank, check_versions
from deltalake import DeltaTable
from faults import Fault, Layer
from gateway_fields import make
from gateway_management import Manager
from gateway_peer import Peer
from gateway_process import PATIENCE, Gateway
from gateway_transactions import Transacted
from points import POINTS
from test_bank import KILLED_AT
from world import SETTINGS

TRANSACTION = "transaction"


class PreparedBank(Bank):
    """`left` counts what a crash left prepared."""

    def __init__(self, draw: random.Random, gone: Callable[[], bool]) -> None:
        super().__init__(draw, gone)
        self.left = self._nth = 0
        self._manager: Manager
        #: What each account has by all that was decided.
        self._balance = dict.fromkeys(ACCOUNTS, 0)
        self._decided: tuple[str, str, str, int] | None = None  # to commit, and isn't known done
        #: Of each transfer that was decided to be, how many coins it moves.
        self.moved: dict[str, int] = {}

    def open(self, port: int, host: str = "127.0.0.1") -> None:
        """And end all that is prepared, as a transaction manager does: what it has decided to
        commit is committed, all else rolled back. What isn't there any more was done."""
        self._manager = Manager(Peer(port))
        for name, *_ in self._manager.done("QUERY", TRANSACTION)["results"]:
            self.left += 1
            commit = self._decided is not None and self._decided[0] == name
            self._manager.done("COMMIT" if commit else "ROLLBACK", TRANSACTION, name)
        self._done()
        super().open(port, host)
        assert self._counted() == self._balance

    def _counted(self) -> dict[str, int]:
        """How many coins come from each account; all are put back. The backlog that `$management`
        names may be more: it is an upper bound where files were merged."""
        found = {}
        for account in ACCOUNTS:
            coins = self._take(account, COINS)
            found[account] = len(coins)
            for coin in coins:
                self._session.retire(coin, outcome=make("released"))
        assert self._session.commit() == ""
        return found

    def fill(self) -> None:
        super().fill()
        self._balance[ACCOUNTS[0]] = COINS

    def _done(self) -> None:
        """Apply the decided transfer to the expected balances."""
        if self._decided is not None:
            _, giver, taker, count = self._decided
            self._balance[giver] -= count
            self._balance[taker] += count
            self._decided = None

    def turn(self) -> None:
        try:
            super().turn()
        except Exception:  # Proton's, of the requests
            self.close()
            if not self._gone():
                raise

    def _commit(self, session: Transacted, giver: str, taker: str, count: int) -> None:
        self._nth += 1
        name = f"1:{self._nth:08x}:{self._draw.randrange(256):02x}"
        self._manager.done("PREPARE", TRANSACTION, name, transaction=session.id)
        assert session.commit() == ""
        if not count:
            return  # nothing is prepared
        if self._draw.random() < 0.3:
            self._manager.done("ROLLBACK", TRANSACTION, name)
            return
        self._decided = name, giver, taker, count
        self.moved[name] = count
        self._manager.done("COMMIT", TRANSACTION, name)
        self._done()


def check_commits(home: Path, moved: dict[str, int]) -> None:
    """The group of each commit has all that its transaction does: no crash comes between them."""
    columns = ["record", "group", "event", "subscription", "final", "sequences"]
    groups: dict[int, list[dict[str, Any]]] = {}
    table = DeltaTable(home / "tables" / "topic_log").to_pyarrow_table(columns=columns)
    for row in table.to_pylist():
        groups.setdefault(row["group"], []).append(row)
    done = {}
    for rows in groups.values():
        for name in [row["subscription"] for row in rows if row["event"] == "committed"]:
            taken = sum(len(row["sequences"]) for row in rows if row["final"])
            given = sum(row["record"] == "message" for row in rows)
            done[name.split("/")[1]] = taken, given
    assert done == {name: (count, count) for name, count in moved.items()}


@pytest.mark.parametrize("durability", ["journal", "delta"])
def test_the_sum_never_changes(tmp_path: Path, crash_seed: int, durability: str) -> None:
    """Killed at each named point of a prepare or of its end: every coin is there once, where it
    was decided to be, and each version of the log has all of the money."""
    draw = random.Random(f"{crash_seed}/prepared/{durability}")
    settings = {**SETTINGS, **KEPT, "journal": {**SETTINGS["journal"], "durability": durability}}
    gateway = Gateway(tmp_path, settings)
    layer = Layer(tmp_path / "layer", gateway.home)
    layer.put_under(gateway)
    bank = PreparedBank(
        draw, lambda: gateway.process is None or gateway.process.wait(PATIENCE) != 0
    )
    points = [name for name in KILLED_AT if durability == "journal" or "journal" not in name]
    with gateway:
        bank.open(gateway.port)
        bank.fill()
        while bank.left < 1:
            for name in points:
                for _ in range(draw.randrange(3, 8)):
                    bank.turn()
                layer.arm(Fault(POINTS[name], "kill", draw.randint(1, 8)))
                while gateway.running:
                    bank.turn()
                layer.arm(None)
                gateway.kill()
                gateway.start()
                bank.open(gateway.port)
        bank.audit()
        bank.close()
        gateway.stop()
        gateway.verified()
    assert check_versions(gateway.home) > COINS // 10
    check_commits(gateway.home, bank.moved)
