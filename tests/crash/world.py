"""One home, its gateway, its clients, and the file layer between the gateway and the disk.

with World(folder, draw) as world:
    world.start()
    world.arm(fault)
    world.work(until=lambda: world.gone)
    world.ended(How.KILLED)
    world.start()
    report = world.finish()
"""

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from checker import Checker, Report
from clients import Consumer, Publisher, Subscription, Whisperer, connected, search
from disk import SmallDisk
from faults import Fault, Layer, Where
from fork_server import commands
from gateway_management import Manager
from gateway_peer import Peer, PeerLost
from gateway_process import Gateway, until
from history import EVERY, Drained, Ended, History, How

#: Seconds that a point may take to be reached, or anything else that is waited for here.
PATIENCE = 60.0
#: Small segments are given back soon, short intervals make many commits.
SETTINGS: dict[str, dict[str, object]] = {
    "journal": {"segment_bytes": 1 << 20},
    "commit": {"interval_ms": 50},
}
#: Between two turns of all clients; they needn't be fast, and the gateway wants the machine too.
TURN_SECONDS = 0.01
#: Seconds until the next consumer takes another connection: by the clock, as turns are slow on a
#: machine that has much to do.
MOVES_SECONDS = (0.2, 2.0)
#: Seconds that it stays away: long enough, as a rule, for its subscription to be quiet meanwhile.
AWAY_SECONDS = (0.0, 0.1)
TOPICS = ("rain", "snow")


def settings_of(*more: Mapping[str, Mapping[str, object]]) -> dict[str, dict[str, object]]:
    """The settings of these tests with others on top."""
    merged = {section: dict(values) for section, values in SETTINGS.items()}
    for settings in more:
        for section, values in settings.items():
            merged.setdefault(section, {}).update(values)
    return merged


def _routed(folder: Path) -> str:
    """Policies by which all that publishers send goes to a queue, too, in one group with it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "policies.toml"
    topics = "\n".join(
        f'[[topic]]\nmatch = "{topic}"\nroutes = ["queue://copies"]' for topic in TOPICS
    )
    file.write_text(topics + "\n")
    return str(file)


class World:
    """See the module. `shadow`: the home can suffer a power cut."""

    def __init__(
        self,
        folder: Path,
        draw: random.Random,
        *,
        settings: Mapping[str, Mapping[str, object]] | None = None,
        shadow: bool = False,
        disk: tuple[str, int] | None = None,
        slow: bool = False,
    ) -> None:
        self.folder, self.draw = folder, draw
        self.history = History()
        self.settings = settings_of({"delivery": {"policies": _routed(folder)}}, settings or {})
        self.gateway = Gateway(folder, self.settings)
        self.layer = Layer(folder / "layer", self.home, shadow=shadow)
        self._disk = SmallDisk(self.home / disk[0], disk[1]) if disk is not None else None
        self._full = f"{disk[0]}/*" if disk is not None else ""
        self._inside = self._disk.command if self._disk is not None and self._disk.mounted else ()
        self.layer.put_under(self.gateway, self._inside)
        self._owner = self.gateway  #: the one over the file layer
        self._fired = 0
        self._standbys = 0
        self.publishers = [
            Publisher(self.history, draw, f"p{n}", TOPICS) for n in range(draw.choice((1, 2)))
        ]
        for publisher in self.publishers:
            publisher.burst = 1 if slow else publisher.burst
        self.subscriptions = [
            *(Subscription(f"{topic}-own", topic, 1) for topic in TOPICS),
            Subscription(f"{TOPICS[0]}-shared", TOPICS[0], 2),
            Subscription("all-own", EVERY, 1),
            Subscription("copies", EVERY, 1, queue=True),
        ]
        self.consumers = [
            Consumer(self.history, draw, one, n)
            for one in self.subscriptions
            for n in range(one.consumers)
        ]
        self.whisperer = Whisperer("whisperer")
        self._known = False
        self._moves_at = 0.0
        self.restless = disk is None  #: while a disk is full, a consumer may have to wait

    @property
    def _clients(self) -> tuple[Consumer | Publisher | Whisperer, ...]:
        return (*self.consumers, *self.publishers, self.whisperer)

    @property
    def home(self) -> Path:
        return self.gateway.home

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        for gateway in (self.gateway, self._owner):
            if gateway.process is not None:
                gateway.kill()
        for client in self._clients:
            client.lost()
        self.history.save(self.folder / "history.jsonl")
        if self._disk is not None:
            self._disk.__exit__()

    # The gateway.

    @property
    def gone(self) -> bool:
        """Whether the gateway's process has ended."""
        return not self.gateway.running

    def set_schema(self, topic: str, definition: str) -> None:
        """The topic has this JSON Schema from now on; no publisher is refused for it."""
        with Peer(self.gateway.port) as peer:
            Manager(peer).done("UPDATE", "schema", topic, format="json", definition=definition)

    def start(self) -> bool:
        """Start the gateway and its clients; False when an armed fault ended it on the way."""
        lives = len(self.gateway.events("listening"))
        self._fired = self.layer.fired
        self.gateway.spawn()
        deadline = time.monotonic() + PATIENCE
        while len(self.gateway.events("listening")) == lives:
            if self.gone:
                assert self._ended_by_fault(), f"it didn't start:\n{self.gateway.log[-1500:]}"
                return False
            assert time.monotonic() < deadline, f"it doesn't listen:\n{self.gateway.log[-1500:]}"
            time.sleep(0.005)
        return self.connect()

    def _ended_by_fault(self) -> bool:
        return self.layer.fired > self._fired

    def connect(self) -> bool:
        """Connect all clients; False when the gateway went on the way."""
        for client in self._clients:
            if not connected(client.connect, self.gateway.port):
                assert self.gone_soon(), f"a client was refused:\n{self.gateway.log[-1500:]}"
                return False
        if not self._known:
            self._known = True
            told = {
                consumer.subscription.name: consumer.subscribed() for consumer in self.consumers
            }
            for event in told.values():
                self.history.add(event)
        return True

    def gone_soon(self) -> bool:
        deadline = time.monotonic() + 5.0
        while not self.gone and time.monotonic() < deadline:
            time.sleep(0.005)
        return self.gone

    def arm(self, fault: Fault | None) -> None:
        self.layer.arm(fault)

    def work(self, until: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Let all clients work until the condition holds. The gateway may go only by then."""
        deadline = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}"
            if self.gone:
                break
            for client in self._clients:
                client.turn()
            if self.restless and time.monotonic() > self._moves_at:
                self._another_connection(self.draw.choice(self.consumers))
                self._moves_at = time.monotonic() + self.draw.uniform(*MOVES_SECONDS)
            time.sleep(TURN_SECONDS)  # the stimulus: clients' turns, not as fast as they can
        assert until(), f"the gateway is gone, not so: {what}\n{self.gateway.log[-1500:]}"

    def _another_connection(self, consumer: Consumer) -> None:
        """A consumer goes and comes back: what it held is available again."""
        try:
            consumer.leave()
            time.sleep(self.draw.choice(AWAY_SECONDS))  # the stimulus: it is away for a while
            back = connected(consumer.connect, self.gateway.port)
        except (PeerLost, OSError):
            back = False
        assert back or self.gone_soon(), f"refused:\n{self.gateway.log[-1500:]}"

    def work_for(self, messages: int) -> None:
        """Let them work until so many more were accepted, and half as many confirmed."""
        goal = self.accepted + messages, self.confirmed + messages // 2
        self.work(
            lambda: (self.accepted, self.confirmed) >= goal and self.confirmed >= goal[1],
            f"{messages} more accepted",
        )

    @property
    def accepted(self) -> int:
        return sum(publisher.accepted for publisher in self.publishers)

    @property
    def confirmed(self) -> int:
        return sum(consumer.confirmed for consumer in self.consumers)

    def kill(self) -> None:
        assert self.gateway.process is not None
        os.kill(self.gateway.process.pid, signal.SIGKILL)
        self.ended(How.KILLED)

    def stop(self) -> None:
        """SIGTERM: it commits and says goodbye."""
        assert self.gateway.process is not None
        self.gateway.process.send_signal(signal.SIGTERM)
        assert self.ended(How.STOPPED) == 0, self.gateway.log[-1500:]

    def stop_or_die(self, *, power: bool) -> None:
        """SIGTERM, and an armed kill may come before its end; with `power` a power cut follows."""
        assert self.gateway.process is not None
        self.gateway.process.send_signal(signal.SIGTERM)
        code = self.gateway.process.wait(PATIENCE)
        assert code in {0, -signal.SIGKILL}, self.gateway.log[-1500:]
        self.ended(How.STOPPED if not code else How.CUT_OFF if power else How.CUT_SHORT)

    def ended(self, how: How) -> int:
        """The gateway's process is gone or goes: wait, and write down how. The exit code."""
        return self._ended(self.gateway, how)

    def _ended(self, gateway: Gateway, how: How) -> int:
        process = gateway.process
        assert process is not None
        code = process.wait(PATIENCE)
        gateway.process = None
        self.arm(None)
        for client in self._clients:
            client.lost()
        self.history.add(Ended(how, self._left_credit()))
        return code

    def run_into(self, fault: Fault, how: How = How.KILLED) -> int:
        """Work until the fault has ended the gateway; its exit code."""
        self.arm(fault)
        self.work(lambda: self.gone, f"{fault.plan.strip()} ends the gateway")
        return self.ended(how)

    def lose_power(self) -> None:
        """SIGKILL, at the moment at which the power goes."""
        assert self.gateway.process is not None
        os.kill(self.gateway.process.pid, signal.SIGKILL)
        self.ended(How.POWER_CUT)

    def fill(self) -> None:
        """The small disk has no room any more."""
        assert self._disk is not None
        if self._disk.mounted:
            self._disk.fill()
        else:
            calls = "write|create|allocate|mkdir|link"
            self.arm(Fault(Where(calls, self._full, "before"), "errno", times=0, error="ENOSPC"))

    def empty(self) -> None:
        """It has room again."""
        assert self._disk is not None
        self._disk.empty()
        self.arm(None)

    def taken_over(self, fault: Fault, *, merged: bool = False) -> None:
        """The gateway is paused by the fault, a standby takes the home over and serves; then the
        paused one wakes, with `merged` not before the standby has merged files. It must see that it
        has lost the home: exit code 1. What it confirms even then must be true. At the end the
        standby is gone and the first one serves again."""
        standby = self._standby()
        standby.spawn()
        self.restless = False  # a paused owner answers no client
        self.work(lambda: bool(standby.events("standby.waiting")), "a standby waits")
        fired = self.layer.fired
        self.arm(fault)
        self.work(lambda: self.layer.fired > fired, f"{fault.plan.strip()} pauses the gateway")
        clients = self._clients
        for client in clients:
            client.listen()
        ears = [client.abandon() for client in clients]
        self.history.add(Ended(How.KILLED, self._left_credit()))
        place = len(self.history.events) - 1
        until(lambda: bool(standby.events("listening")), "the standby serves", PATIENCE)
        self.gateway = standby
        try:
            assert self.connect()
            self.work_for(30)
            if merged:
                known = self._merged_files()
                self.work(lambda: bool(self._merged_files() - known), "the standby has merged")
            assert self._owner.process is not None
            self._owner.process.send_signal(signal.SIGCONT)
            self._owner.ended(1)
            for ear in ears:
                ear.hear_out(self.history, place)
            self.work_for(30)
            self.kill()
        finally:
            self.gateway = self._owner
            if standby.process is not None:
                standby.kill()
        self.restless = True
        assert self.start()

    def _merged_files(self) -> set[Path]:
        return set((self.home / "tables" / "topic_log").glob("record=*/day=*/t1-*.parquet"))

    def hand_over(self) -> None:
        """The owner is told to end while a standby waits and all clients work: it goes on serving
        until the standby knows, and ends with exit code 0; then the standby serves."""
        standby, former = self._standby(), self.gateway
        standby.spawn()
        self.work(lambda: bool(standby.events("standby.waiting")), "a standby waits")
        assert former.process is not None
        former.process.send_signal(signal.SIGTERM)
        self.work(lambda: self.gone, "the owner gives its home back")
        self.gateway = self._owner = standby
        until(lambda: bool(standby.events("listening")), "the standby serves", PATIENCE)
        assert self._ended(former, How.STOPPED) == 0, former.log[-1500:]
        assert not [bug for name in Gateway.BUGS for bug in former.events(name)], former.log
        assert former.events("owner.leaves"), "it knew of no standby that waits"
        assert self.connect()

    def _standby(self) -> Gateway:
        """Another gateway for this home, under a layer that does nothing: the same machine."""
        self._standbys += 1
        folder = self.folder / f"standby-{self._standbys}"
        standby = Gateway(folder, self.settings)
        standby.home, standby.options = self.home, ["--standby"]
        layer = Layer(folder / "layer", self.home)
        layer.boot_id = self.layer.boot_id
        layer.put_under(standby)
        return standby

    def _left_credit(self) -> dict[str, int]:
        credit: dict[str, int] = {}
        for consumer in self.consumers:
            name = consumer.subscription.name
            credit[name] = credit.get(name, 0) + consumer.left_credit
        return credit

    def power_cut(self, draw: random.Random | None) -> None:
        """The gateway is gone; so is what wasn't synced."""
        self.layer.power_cut(draw)

    # The end.

    def finish(self) -> Report:
        """Take out all that is owed, stop, and judge. The gateway runs."""
        for publisher in self.publishers:
            publisher.paused = True
        self.work(lambda: all(p.idle for p in self.publishers), "all publishers have answers")
        for publisher in self.publishers:
            publisher.close()
        self.whisperer.close()
        for consumer in self.consumers:
            consumer.leave()
        for subscription in self.subscriptions:
            Consumer(self.history, self.draw, subscription, 0).drain(self.gateway.port)
            self.history.add(Drained(subscription.name))
            search(self.history, self.gateway.port, subscription)
        self.gateway.stop()
        self.verify()
        return Checker(flags=self.flags).read(self.history).report()

    @property
    def flags(self) -> bool:
        """Whether delivery counts are judged: there are marks."""
        return (self.home / "dispatch").exists()

    def verify(self) -> None:
        """Run `distributary verify` on the home, which must be sound."""
        words = ("verify", "--home", str(self.home))
        if self._inside:
            command = [*self._inside, *Gateway.COMMAND, *words]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        else:
            done = commands().run(*words)
        if done.returncode == 2 and "No such command" in done.stderr:
            return
        assert done.returncode == 0, f"verify says:\n{done.stdout}{done.stderr}"
