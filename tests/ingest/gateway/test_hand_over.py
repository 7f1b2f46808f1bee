"""An owner that is told to end hands its home over to the standby that waits for it: clients are
served until the standby knows, nothing is lost, and the next owner has loaded all it needs."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from async_client import run
from gateway_load import Load
from gateway_peer import Connect
from gateway_process import Gateway, free_port, until
from said_time import at

from distributary.ingest.gateway.free_log import FreeLog
from distributary.ingest.gateway.homes import home_at
from distributary.ingest.gateway.ownership.any_home import HomeOwner, Waiting, WaitingHome
from distributary.ingest.gateway.ownership.standing_by import Ahead
from distributary.ingest.runtime.load_settings import load
from distributary.pipeline.tables.home.owner import LEAVING_SECONDS, STANDBY_SECONDS

Make = Callable[..., Gateway]
HAND_OVERS = 3
PUBLISHERS = 3
#: What publishers send again isn't kept twice.
SETTINGS = {"topic": {"duplicates_messages": 100_000}}


class CountedReads(WaitingHome[HomeOwner]):
    """A standby, and how often it was told to read ahead."""

    def __init__(self, real: Waiting) -> None:
        self._real, self.reads = real, 0

    @property
    def leaving(self) -> bool:
        return self._real.leaving

    def read_ahead(self) -> None:
        self.reads += 1
        self._real.read_ahead()


def hand_over(owner: Gateway, standby: Gateway) -> None:
    """As an operator does it: SIGTERM, and the owner ends with exit code 0."""
    owner.stop()
    assert owner.events("owner.leaves")
    standby.await_event("listening")


def test_a_rolling_upgrade(own_gateway: Make) -> None:
    """Start the new one as a standby, wait until it waits, stop the old one: again and again."""
    ports = free_port(), free_port()
    owner = own_gateway(SETTINGS)
    owner.port = ports[0]
    owner.start()
    work = Load("queue://work", *ports)

    async def upgrades() -> Gateway:
        now = owner
        for number in range(1, HAND_OVERS + 1):
            standby = own_gateway(SETTINGS)
            standby.home, standby.port = owner.home, ports[number % 2]
            standby.options = ["--standby"]
            standby.spawn()
            await asyncio.to_thread(standby.await_event, "standby.waiting")
            await work.more()
            await asyncio.to_thread(hand_over, now, standby)
            now = standby
        await work.more()
        work.over = True
        return now

    async def whole() -> Gateway:
        consuming = asyncio.create_task(work.consume())
        publishing = [work.publish(str(nth)) for nth in range(PUBLISHERS)]
        last, *_ = await asyncio.gather(upgrades(), *publishing)
        await work.all_of_it()
        consuming.cancel()
        await asyncio.gather(consuming, return_exceptions=True)
        return last

    last = run(whole())
    assert not work.unmarked
    assert len(work.accepted) == len(set(work.accepted))
    for publisher in range(PUBLISHERS):
        firsts = [
            int(one.split("-")[1]) for one in dict.fromkeys(work.came) if one[0] == str(publisher)
        ]
        assert firsts == sorted(firsts)
    last.stop()
    assert not last.events("owner.leaves"), "no standby waited"
    last.verified()


def test_a_standby_for_any_log_is_handed_what_is_given_back(tmp_path: Path) -> None:
    """It looks often at the owner that leaves, and no more often at the others."""
    homes = {name: home_at(str(tmp_path / name), load(None)) for name in ("main", "orders")}
    main, orders = (home.acquire().owner for home in homes.values())
    waiting = FreeLog("lake", homes).standby()
    assert waiting.attempt(at(0.0)) is None
    assert (waiting.leaving, waiting.seconds) == (False, STANDBY_SECONDS)
    assert orders.leave() > 0
    assert waiting.attempt(at(STANDBY_SECONDS)) is None
    assert (waiting.leaving, waiting.seconds) == (True, LEAVING_SECONDS)
    main.release()
    orders.release()
    owned = waiting.attempt(at(STANDBY_SECONDS + LEAVING_SECONDS))
    assert owned is not None
    assert owned.address == str(tmp_path / "orders")
    waiting.close()
    assert owned.owner.leave() == 0
    owned.owner.release()


def test_a_standby_for_any_log_reads_ahead_each_time_that_an_owner_leaves(tmp_path: Path) -> None:
    """Not only at the first one: the next one may be the one whose log it takes over."""
    homes = {name: home_at(str(tmp_path / name), load(None)) for name in ("main", "orders")}
    owners = [home.acquire().owner for home in homes.values()]
    real = FreeLog("lake", homes).standby()
    waiting = CountedReads(real)
    ahead = Ahead(waiting)
    now = 0.0

    def looked() -> int:
        nonlocal now
        now += STANDBY_SECONDS
        assert real.attempt(at(now)) is None
        ahead.look()
        asyncio.run(ahead.finish())
        return waiting.reads

    assert (looked(), looked()) == (1, 1)
    for count, name in enumerate(homes, 2):
        owner = owners.pop(0)
        assert owner.leave() > 0
        assert (looked(), looked()) == (count, count)
        owner.release()
        owners.append(homes[name].acquire().owner)  # another standby was faster
        assert looked() == count
    real.close()
    for owner in owners:
        owner.release()


#: Loads what a standby does, then serves until it listens; prints what else was loaded for that.
SERVES = """
import json, os, signal, socket, sys, threading, time
from distributary.ingest.gateway.homes import ServedLog
from distributary.ingest.gateway.ownership.standing_by import load as load_ahead
from distributary.ingest.gateway.serve import run
from distributary.ingest.runtime.load_settings import load
from distributary.ingest.runtime.logs import LineBudget
home, port = sys.argv[1:]
settings = load(None, flags={"gateway.listen": f"127.0.0.1:{port}", "http.listen": ""})
def stop():
    while True:
        try:
            socket.create_connection(("127.0.0.1", int(port))).close()
            break
        except OSError:
            time.sleep(0.01)
    loaded.extend(sys.modules)
    os.kill(os.getpid(), signal.SIGTERM)
load_ahead()
loaded, before = [], set(sys.modules)
threading.Thread(target=stop).start()
run(ServedLog(home), settings, LineBudget(100, 1.0, time.monotonic))
heavy = ("pyarrow", "numpy", "deltalake", "distributary.pipeline")
late = [one for one in loaded if one not in before and one.startswith(heavy)]
print(json.dumps(late), file=sys.stderr)
"""


def test_a_standby_has_loaded_what_a_start_with_rows_loads(
    own_gateway: Make, connect: Connect
) -> None:
    """Loading would be most of the time in which no client is served."""
    with own_gateway() as gateway:
        peer = connect("c", port=gateway.port)
        consumer = peer.durable("t", "mine")
        peer.sender("t").publish(*range(100))
        consumer.take(10)
        peer.drop()
        until(lambda: gateway.events("connection.closed"), "its end")
        gateway.stop()
        words = [sys.executable, "-c", SERVES, str(gateway.home), str(free_port())]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert json.loads(done.stderr.splitlines()[-1]) == []
