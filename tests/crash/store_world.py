"""A home without a disk, its gateways, its clients, and a store that fails.

One gateway owns the home, another waits for it. What is done to the owner: it is killed, paused, or
cut off from the store, or told to end; or it is held at a request about the table, and the next one
commits and merges before it wakes. The other one takes the home over; what the former one still
says to its clients must be true, and when it wakes, or has given up, it ends with code 1; one that
was told to end with code 0.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from clients import Ear
from faulty_s3 import FaultyS3, Plan, faulty_s3
from fork_server import commands
from gateway_process import Gateway, until
from history import Ended, How
from world import PATIENCE, World

ADDRESS = "s3://lake/home"
HARMS = ("killed", "paused", "cut off", "handed over", "held")
#: Requests at which an owner is held: each life makes them, upkeep's and those of a commit.
_TABLE = "home/tables/topic_log"
HELD_AT = (
    f"LIST {_TABLE}/record=message/day=",
    f"DELETE .*{_TABLE}/record=message/.*planted",
    f"PUT {_TABLE}/record=message/",
    rf"PUT {_TABLE}/_delta_log/\d+.json",
    "DELETE .*home/journal/",
)
#: Commits that the next owner makes before one that was held wakes, beside those of a merge.
HELD_COMMITS = 5
#: Seconds after a harm until the former owner's sockets are closed, on a machine that has little
#: time; its threads may wait for the store for longer.
HEARD_SECONDS_MAX = 45.0
#: Seconds that the owner lives on with its clients when it is cut off.
CUT_SECONDS = (0.0, 0.3)


class OwnerLost(Exception):
    """The owner has given the home up by itself, as it couldn't show for too long that it lives."""


class StoreWorld(World):
    """See the module. `seconds` are those from each harm until the next owner served."""

    def __init__(
        self,
        folder: Path,
        draw: random.Random,
        *,
        settings: Mapping[str, Mapping[str, object]] | None = None,
        slow: bool = False,
    ) -> None:
        self._folder = folder
        self.seconds: list[float] = []
        self._stack = ExitStack()
        self.s3: FaultyS3 = self._stack.enter_context(faulty_s3())
        self._made = self._planted = 0
        super().__init__(folder, draw, settings=settings, slow=slow)
        self._of_store(self.gateway)
        self.plan = Plan()
        self.waiting: Gateway | None = None
        self._parted = False  #: the clients have no gateway

    def __enter__(self) -> Self:
        super().__enter__()
        return self

    def __exit__(self, *of: object) -> None:
        if self.waiting is not None and self.waiting.process is not None:
            self.waiting.kill()
        super().__exit__(None, None, None)
        self._stack.close()

    def _of_store(self, gateway: Gateway) -> None:
        self._made += 1
        gateway.address = ADDRESS
        gateway.environment = {**gateway.environment, **self.s3.options(self._key(self._made))}

    @staticmethod
    def _key(number: int) -> str:
        return f"gateway-{number}"

    def fail(self, plan: Plan) -> None:
        """From now on the store is like this."""
        self.plan = plan
        self.s3.plan(plan)

    def stand_by(self) -> None:
        """Another gateway waits for the home."""
        self._standbys += 1
        folder = self._folder / f"standby-{self._standbys}"
        self.waiting = Gateway(folder, self.settings)
        self.waiting.options = ["--standby"]
        self._of_store(self.waiting)
        self.waiting.spawn()
        waiting, says = self.waiting, ("standby.waiting", "standby.took_over")
        until(lambda: any(map(waiting.events, says)), "a standby stands by", PATIENCE)

    def work(self, until: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        if self._parted:
            for client in self._clients:
                client.lost()
            raise OwnerLost
        try:
            super().work(until, what, seconds)
        except AssertionError:
            if self.gone_soon() and self.gateway.events("owner.lost"):
                raise OwnerLost from None
            raise

    def take_over(self, harm: str, *, hold: bool = False) -> None:
        """The owner is harmed, and the standby takes the home over and serves. With `hold` requests
        that are held stay so."""
        if harm == "held" and not self._reaches(self.draw.choice(HELD_AT)):
            harm = "lost"
        former, standby = self.gateway, self.waiting
        assert standby is not None
        assert former.process is not None
        before = time.monotonic()
        self._harm(former, former.process.pid, harm)
        ears, place = self._part()
        until(lambda: standby.events("listening"), f"the standby serves ({harm})", PATIENCE)
        self.seconds.append(time.monotonic() - before)
        self.gateway = self._owner = standby
        self._parted = not self.connect()
        if harm == "paused" and not self._parted:  # it wakes into a home in which others work
            with suppress(OwnerLost):
                self.work_for(self.draw.randrange(2, 12))
        if harm == "held" and not self._parted:
            with suppress(OwnerLost):
                self._merge()
        if harm == "killed":
            former.process.wait()
        elif harm in {"paused", "held"}:
            os.kill(former.process.pid, signal.SIGCONT)
        if not hold:
            self.s3.hold()
        for ear in ears:
            ear.hear_out(self.history, place)
        assert time.monotonic() - before < HEARD_SECONDS_MAX, f"{harm}: its sockets stay open"
        if harm == "handed over":
            given_up = bool(former.events("owner.lost"))  # the store failed it meanwhile
            assert former.process.wait(PATIENCE) == int(given_up), former.log[-1500:]
        elif harm != "killed":
            assert former.process.wait(PATIENCE) == 1, former.log[-1500:]
        self.s3.plan(self.plan)
        former.process = None
        self._bugs(former)
        self.stand_by()

    def _reaches(self, words: str) -> bool:
        """The standby becomes the owner and goes on to a request like this, which gets no answer;
        False if it is lost before. It has an orphan to remove."""
        assert self.waiting is not None
        self._planted += 1
        day = f"{datetime.now(UTC):%Y-%m-%d}"
        self.s3.put(f"{_TABLE}/record=message/day={day}/t0-planted{self._planted}.parquet", "x")
        key = self.waiting.environment["AWS_ACCESS_KEY_ID"]
        at_start = words.startswith("PUT")  # its start makes versions, too
        self.s3.hold(*(() if at_start else (key, words)))
        self.take_over("killed", hold=True)
        self.s3.hold(key, words)
        try:
            self.work(lambda: self.s3.holding, f"it asks for {words}")
        except OwnerLost:
            return False
        return True

    def _merge(self) -> None:
        """Work until the owner has made some versions and merged files."""
        before = set(self.s3.names)

        def done() -> bool:
            new = [name for name in self.s3.names if name not in before]
            versions = [name for name in new if name.endswith(".json")]
            return len(versions) >= HELD_COMMITS and any("/t1-" in name for name in new)

        self.work(done, "the next owner has merged")

    def _harm(self, owner: Gateway, pid: int, harm: str) -> None:
        """Harm the owner; its clients go on as long as it may hear them."""
        match harm:
            case "killed":
                os.kill(pid, signal.SIGKILL)
            case "paused" | "held":
                os.kill(pid, signal.SIGSTOP)
            case "cut off":
                key = owner.environment["AWS_ACCESS_KEY_ID"]
                self.s3.plan(replace(self.plan, cut=(key,)))
                self._go_on_for(self.draw.uniform(*CUT_SECONDS))
            case "handed over":
                os.kill(pid, signal.SIGTERM)
                self._go_on_while(lambda: not self.gone)

    def _part(self) -> tuple[list[Ear], int]:
        """The clients go on without their gateway: what it may still say to each, and the place of
        the history at which it lost the home."""
        ears = []
        if not self._parted:
            for client in self._clients:
                client.listen()
            ears = [client.abandon() for client in self._clients]
        self.history.add(Ended(How.POWER_CUT, self._left_credit()))
        return ears, len(self.history.events) - 1

    def _go_on_for(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        self._go_on_while(lambda: time.monotonic() < ends)

    def _go_on_while(self, condition: Callable[[], bool]) -> None:
        while condition():
            for client in self._clients:
                client.turn()

    def _bugs(self, gateway: Gateway) -> None:
        assert not [bug for name in Gateway.BUGS for bug in gateway.events(name)], gateway.log
        if gateway.log_path.parent != self._folder:
            shutil.rmtree(gateway.log_path.parent)

    @property
    def flags(self) -> bool:
        return True

    def settle_down(self) -> None:
        """End with one gateway: none waits for the home, and its owner has patience with the
        machine."""
        assert self.waiting is not None
        self.waiting.stop()
        former, self.gateway = self.gateway, self.waiting
        self.waiting, self._owner = None, self.gateway
        assert former.process is not None
        former.process.send_signal(signal.SIGTERM)
        code = former.process.wait(PATIENCE)
        assert code == 0 or former.events("owner.lost"), former.log[-1500:]
        former.process = None
        for client in self._clients:
            client.lost()
        self.history.add(Ended(How.CUT_OFF, self._left_credit()))
        self._bugs(former)
        self.gateway.config.write_text(
            self.gateway.config.read_text() + "[owner]\nlease_ms = 20_000\n"
        )
        self.gateway.options = []
        assert self.start()

    def verify(self) -> None:
        options = self.s3.options("verify")
        before = {name: os.environ.get(name) for name in options}
        os.environ.update(options)
        try:
            done = commands().run("verify", "--home", ADDRESS, "--deep")
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value
        assert done.returncode == 0, f"verify says:\n{done.stdout}{done.stderr}"
