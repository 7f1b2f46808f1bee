"""Coins in two queues of a log, moved in transactions through a gateway that doesn't own it, while
the log's owner is killed and started again: no coin is lost or made, whatever the client heard.
"""

import random
import threading
from pathlib import Path

import pytest
from bank import KEPT, Bank, check_versions
from gateway_fleet import RelayingGateway
from gateway_process import until

KILLS = 4


class Killer(threading.Thread):
    """Kills the owner some times. From a kill on until the bank has come again transfers may end
    anyhow."""

    def __init__(self, gateway: RelayingGateway, draw: random.Random) -> None:
        super().__init__()
        self._gateway, self._draw = gateway, draw
        self.gone, self.back, self.again = (threading.Event() for _ in range(3))

    def run(self) -> None:
        for _ in range(KILLS):
            self.again.wait(60)
            self.again.clear()
            threading.Event().wait(self._draw.uniform(0.1, 0.8))  # whatever is under way then
            self.gone.set()
            self._gateway.owner.kill()
            self._gateway.owner.start()
            self.back.set()


@pytest.mark.parametrize("seed", [1, 2])
def test_money_is_neither_lost_nor_made(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    with RelayingGateway(tmp_path, KEPT) as gateway:
        killer = Killer(gateway, draw)
        bank = Bank(random.Random(seed), killer.gone.is_set)
        bank.open(gateway.port)
        bank.fill()
        killer.start()
        killer.again.set()
        while killer.is_alive() or killer.back.is_set():
            if killer.back.is_set():
                bank.open(gateway.port)
                killer.back.clear()
                killer.gone.clear()
                killer.again.set()
            bank.turn()
        before = bank.committed
        assert before >= KILLS
        until(lambda: bank.goes_on() and bank.committed > before + 5, "transfers go on")
        assert len(gateway.events("relay.lost")) == KILLS
        bank.audit()
        bank.close()
        gateway.stop()
        assert check_versions(gateway.home / "logs" / "orders") > 1
