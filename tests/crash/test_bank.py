"""Transactions over kills: money goes from queue to queue, and its sum never changes."""

import random
from pathlib import Path

import pytest
from bank import KEPT, Bank, check_versions
from faults import Fault, Layer
from gateway_process import PATIENCE, Gateway
from points import POINTS
from world import SETTINGS

#: Between two of them lies all that a commit does: the frame, the data files, the version.
KILLED_AT = (
    "before the journal is written",
    "after the journal is written",
    "before the journal is synced",
    "after the journal is synced",
    "before a data file is synced",
    "before a commit is linked",
    "after a commit is linked",
)


@pytest.mark.parametrize("durability", ["journal", "delta"])
def test_the_sum_never_changes(tmp_path: Path, crash_seed: int, durability: str) -> None:
    """Killed at each named point and at random moments: every coin is there once, and each readable
    version of the log has all of the money."""
    draw = random.Random(f"{crash_seed}/bank/{durability}")
    settings = {**SETTINGS, **KEPT, "journal": {**SETTINGS["journal"], "durability": durability}}
    gateway = Gateway(tmp_path, settings)
    layer = Layer(tmp_path / "layer", gateway.home)
    layer.put_under(gateway)
    bank = Bank(draw, lambda: gateway.process is None or gateway.process.wait(PATIENCE) != 0)
    points = [name for name in KILLED_AT if durability == "journal" or "journal" not in name]
    with gateway:
        bank.open(gateway.port)
        bank.fill()
        for name in points:
            for _ in range(draw.randrange(3, 12)):
                bank.turn()
            layer.arm(Fault(POINTS[name], "kill", draw.randint(1, 6)))
            while gateway.running:
                bank.turn()
            layer.arm(None)
            gateway.kill()
            gateway.start()
            bank.open(gateway.port)
        for _ in range(2):
            before = bank.committed
            while bank.committed < before + 15:
                bank.turn()
            bank.close()
            gateway.kill()
            gateway.start()
            bank.open(gateway.port)
        bank.audit()
        bank.close()
        gateway.stop()
    assert check_versions(gateway.home) > 10
