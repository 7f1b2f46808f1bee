"""The service's clock doesn't jump when the machine's clock is set, forward or back."""

import itertools
import random
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from gateway_peer import Connect
from gateway_process import Gateway, until
from hypothesis import given
from hypothesis import strategies as st
from test_expiry import QUICK, expiring, fill, of_queue, settled

from distributary.ingest.runtime.clock import SlewedClock

Make = Callable[..., Gateway]

HOUR_S = 3_600
SECOND = 1_000_000


class Clocks:
    """A machine's clock that may be set, and the time that passes: both in microseconds here, and
    answered in nanoseconds."""

    def __init__(self) -> None:
        self.ahead, self.passed = 10**15, 0

    def machine(self) -> int:
        return 1_000 * (self.ahead + self.passed)

    def passing(self) -> int:
        return 1_000 * self.passed


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 10 * SECOND), st.integers(-HOUR_S * SECOND, HOUR_S * SECOND)),
        max_size=30,
    )
)
def test_it_never_goes_back_nor_too_fast_nor_too_slow(steps: list[tuple[int, int]]) -> None:
    """This holds for any change of the machine's clock between two looks."""
    clocks = Clocks()
    clock = SlewedClock(clocks.machine, clocks.passing)
    before = clock.now()
    for passed, jump in steps:
        clocks.passed += passed
        clocks.ahead += jump
        at = clock.now()
        assert passed // 2 <= at - before <= 2 * passed
        before = at


@pytest.mark.parametrize("jump", [-HOUR_S * SECOND, HOUR_S * SECOND, 0])
def test_it_agrees_again(jump: int) -> None:
    """After twice the jump at the latest, and from then on exactly."""
    clocks = Clocks()
    clock = SlewedClock(clocks.machine, clocks.passing)
    clocks.ahead += jump
    dice = random.Random(7)
    while clocks.passed <= 2 * abs(jump):
        clocks.passed += dice.randrange(60 * SECOND)
        clock.now()
    for _ in range(3):
        clocks.passed += dice.randrange(60 * SECOND)
        assert clock.now() == clocks.machine() // 1_000


class Machine:
    """A gateway on a machine whose clock the test sets."""

    def __init__(self, gateway: Gateway, folder: Path) -> None:
        library, self._shift = folder / "wall.so", folder / "shift"
        source = Path(__file__).with_name("wall_clock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
        self._shift.write_text("0")
        gateway.environment = {"LD_PRELOAD": str(library), "WALL_SHIFT": str(self._shift)}

    def set(self, seconds: int) -> None:
        new = self._shift.with_suffix(".new")
        new.write_text(str(seconds))
        new.rename(self._shift)


def test_nothing_expires_by_a_jump(own_gateway: Make, connect: Connect, tmp_path: Path) -> None:
    """The clock is set an hour forward: what lives for a minute is there still when what lives for
    a fraction of a second has gone."""
    gateway = own_gateway(QUICK)
    machine = Machine(gateway, tmp_path)
    peer = connect(port=gateway.start().port)
    fill(peer, "q", expiring("lasts", 60_000))
    machine.set(HOUR_S)
    fill(peer, "q", expiring("brief", 200))
    until(lambda: settled(gateway, "expired"), "the brief one has expired")
    assert of_queue(peer, "q").bodies() == ["lasts"]
    assert len(settled(gateway, "expired")) == 1
    gateway.stop()
    gateway.verified()


def test_a_lock_ends_although_the_clock_goes_back(
    own_gateway: Make, connect: Connect, tmp_path: Path
) -> None:
    """The clock is set an hour back: a lock of a second doesn't last an hour."""
    gateway = own_gateway(QUICK | {"subscription": {"lock_ms": 1_000}})
    machine = Machine(gateway, tmp_path)
    gateway.start()
    peer, other = connect(port=gateway.port), connect(port=gateway.port)
    peer.sender("queue://q").publish("held")
    assert of_queue(peer, "q").take()
    machine.set(-HOUR_S)
    assert of_queue(other, "q").bodies() == ["held"]
    gateway.stop()
    gateway.verified()


def test_records_never_go_back(own_gateway: Make, connect: Connect, tmp_path: Path) -> None:
    """Times of publishing rise with the sequences, whatever is set; a start with a clock that is
    behind the log's times serves, and what is there is found by time."""
    gateway = own_gateway({"commit": {"interval_ms": 50}})
    machine = Machine(gateway, tmp_path)
    gateway.start()
    peer = connect("c", port=gateway.port)
    peer.leave(peer.durable("t", "mine"), closed=False)
    sender = peer.sender("t")
    for seconds in (0, HOUR_S, -HOUR_S, 0):
        machine.set(seconds)
        sender.publish(f"at {seconds}")
    folder = gateway.home / "tables/topic_log"
    until(lambda: DeltaTable(folder).transaction_version("sequence") == 4, "all is committed")
    table = DeltaTable(folder).to_pyarrow_table(filters=[("record", "=", "message")])
    rows = sorted(table.to_pylist(), key=lambda row: int(row["sequence"]))
    times = [row["published_at"] for row in rows]
    assert all(a <= b for a, b in itertools.pairwise(times))
    assert (times[-1] - times[0]).total_seconds() < HOUR_S / 2
    gateway.stop()
    machine.set(-HOUR_S)
    again = connect("c", port=gateway.start().port)
    again.sender("t").publish("later")
    assert again.durable("t", "mine").bodies(5)[-1] == "later"
    gateway.stop()
    gateway.verified()
