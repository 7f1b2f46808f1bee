"""Harms to a fleet (`Harm`), and the time until it is back."""

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from random import Random

from faulty_s3 import Plan
from fleet_nodes import Node
from fleet_world import LOG_OF, LOGS, FleetWorld, word_of
from history import Harmed, Recovered
from namespaces import Host, Network
from progress import Progress

#: Seconds that an end may take of a gateway which has lost its home.
END_SECONDS_MAX = 60.0
#: An owner keeps what it sent to a gateway that it hears no more for at most so long, 1.5 leases
#: (`gateway_login`). Until then no other consumer gets it, and then it comes marked.
UNHEARD_SECONDS = 4.5
#: Exit codes of a command to move a log: it is there, or no gateway was ready in time.
MOVE_CODES = (0, 4)


class Harm(StrEnum):
    KILLED = "killed"  #: an owner, by SIGKILL
    TWO_KILLED = "two killed"  #: two owners at once, and one stands by
    TAKER_KILLED = "taker killed"  #: an owner, and then who takes its log over
    STOPPED = "stopped"  #: an owner, as an operator does it
    MOVED = "moved"  #: a log, by an operator, to the gateway that stands by
    MOVE_KILLED = "move killed"  #: a log, and the owner or its heir is killed meanwhile
    RELAY_KILLED = "relay killed"  #: the gateway without a log
    PAUSED = "paused"  #: an owner, until another one has its log
    HALTED = "halted"  #: any gateway, for less than a lease
    CUT_OFF = "cut off"  #: an owner from the store; clients still reach it
    SLOW = "slow store"  #: it is slow and fails often, for seconds
    ISOLATED = "isolated"  #: an owner from all others
    PARTED = "parted"  #: two owners from each other
    STORE_GONE = "store gone"  #: for all, shorter or longer than a lease

    @property
    def of_network(self) -> bool:
        """Whether it needs namespaces."""
        return self in (Harm.ISOLATED, Harm.PARTED, Harm.STORE_GONE)


@dataclass(frozen=True, slots=True)
class Back:
    """A harm, the seconds until each log took messages again and gave them to consumers, and those
    until each client had its links again."""

    harm: Harm
    seconds: float
    attached: float


class HarmedFleet(FleetWorld):
    """A fleet to which harms are done; `backs` says how soon it was back after each."""

    def __init__(self, folder: Path, draw: Random, network: Network | None = None) -> None:
        super().__init__(folder, draw, network)
        self.backs: list[Back] = []

    def harm(self, harm: Harm) -> None:
        """Harm the fleet when it is whole, and wait until it is whole again. On a busy machine an
        owner may have lost its log since the last harm."""
        self.until(lambda: self.whole, f"the fleet is whole (before {harm})")
        owner, other = self.draw.sample([node for node in self.nodes if node.serves], 2)
        self.restless = False
        self.history.add(Harmed(f"{harm}: {owner} with {owner.serves}"))
        _ACTS[harm](self, owner, other)
        self.until(
            lambda: self.whole and all(node.gateway.running for node in self.nodes),
            f"the fleet is whole ({harm})",
        )
        self.history.add(Recovered())
        self.restless = True
        self.work_for(self.draw.randrange(10, 40))

    def _back(self, harm: Harm, since: float) -> None:
        """Messages that are sent from now on are accepted and consumed in each log."""
        progress = Progress(self.history, LOG_OF)
        self.until(lambda: progress.of_all(LOGS), f"each log goes on ({harm})")
        seconds = time.monotonic() - since
        self.until(lambda: self.attached, f"all clients are attached ({harm})")
        self.backs.append(Back(harm, seconds, time.monotonic() - since))

    def _desert(self, node: Node) -> None:
        """The node answers no client any more, so they leave it. Its late confirmations about its
        own log must be true as of now."""
        place, log = self.history.events[-1], node.serves
        for one in self.travellers:
            if one.at is node:
                own = one.logs == (word_of(log),)
                one.part(place if own else None)
        self._reachable = [other for other in self._reachable if other is not node]

    def killed(self, harm: Harm, *owners: Node) -> None:
        since = time.monotonic()
        for owner in owners:
            owner.signal(signal.SIGKILL)
        self._back(harm, since)

    def taker_killed(self, owner: Node) -> None:
        log, life = owner.serves, owner.life
        owner.signal(signal.SIGKILL)
        self.until(lambda: self._takers(log, owner, life), "a standby takes the log over")
        self.go_on_for(self.draw.uniform(0.0, 0.5))
        since = time.monotonic()
        for taker in self._takers(log, owner, life):
            taker.signal(signal.SIGKILL)
        self._back(Harm.TAKER_KILLED, since)

    def _takers(self, log: str, owner: Node, life: int) -> list[Node]:
        """The gateway that has the log of an owner which ended in that life, or is about to serve
        it: the standby, or the former owner, which was started again and was quicker."""
        others = [node for node in self.nodes if node is not owner or node.life > life]
        return [node for node in others if node.takes or node.serves == log]

    def stopped(self, owner: Node) -> None:
        since, life = time.monotonic(), owner.life
        owner.stop()
        self._ends(owner, life)  # until then it serves, and all looks whole
        self._back(Harm.STOPPED, since)

    def moved(self, owner: Node) -> None:
        """Move a log. On a busy machine a move may not be done in time, and is tried again."""
        since, log, [heir] = time.monotonic(), owner.serves, self._waiting()
        for left in range(3, -1, -1):
            said = self._said(self._asked(log, heir))
            if heir.serves == log:
                break
            assert left, said
        self._back(Harm.MOVED, since)

    def move_killed(self, owner: Node) -> None:
        since, [heir] = time.monotonic(), self._waiting()
        asked = self._asked(owner.serves, heir)
        self.go_on_for(self.draw.uniform(0.3, 2.0))
        self.draw.choice((owner, heir)).signal(signal.SIGKILL)
        self._said(asked)
        self._back(Harm.MOVE_KILLED, since)

    def _waiting(self) -> list[Node]:
        return [node for node in self.nodes if node.waits]

    def _asked(self, log: str, heir: Node) -> "subprocess.Popen[str]":
        return self.command("log", "move", log, f"{heir.host}:{heir.port}")

    def _said(self, asked: "subprocess.Popen[str]") -> str:
        """The output of the command for a move, with or without success."""
        self.until(lambda: asked.poll() is not None, "the command ends")
        said, _ = asked.communicate()
        assert asked.returncode in MOVE_CODES, said
        return said

    def paused(self, owner: Node) -> None:
        since, life = time.monotonic(), owner.life
        owner.signal(signal.SIGSTOP)
        self._desert(owner)
        self._back(Harm.PAUSED, since)
        self.go_on_for(self.draw.uniform(0.0, 1.0))  # it wakes into a home in which others work
        owner.signal(signal.SIGCONT)
        self._ends(owner, life)

    def _ends(self, node: Node, life: int) -> None:
        self.until(lambda: node.gone(life), f"{node} ends", END_SECONDS_MAX)

    def halted(self, node: Node) -> None:
        node.signal(signal.SIGSTOP)
        self.go_on_for(self.draw.uniform(0.2, 1.5))
        node.signal(signal.SIGCONT)
        self._back(Harm.HALTED, time.monotonic())

    def cut_off(self, owner: Node) -> None:
        since, life = time.monotonic(), owner.life
        self.s3.plan(replace(self.plan, cut=(owner.key,)))
        self._back(Harm.CUT_OFF, since)
        self._ends(owner, life)
        self.s3.plan(self.plan)

    def slow(self) -> None:
        draw = self.draw
        bad = Plan(
            latency_ms=draw.choice((20.0, 60.0, 150.0)),
            spread=0.5,
            errors=draw.choice((0.02, 0.1)),
            throttled=draw.choice((0.02, 0.1)),
            lost=draw.choice((0.02, 0.1)),
            repeated=0.1,
            hang_seconds=1.0,
            seed=draw.randrange(1 << 30),
        )
        self.s3.plan(bad)
        self.go_on_for(draw.uniform(2.0, 8.0))
        self.s3.plan(self.plan)
        self._back(Harm.SLOW, time.monotonic())

    def isolated(self, owner: Node) -> None:
        network, place = self._networked(owner)
        since, life = time.monotonic(), owner.life
        network.cut(place)
        owner.unreachable = True
        self._desert(owner)
        self._back(Harm.ISOLATED, since)
        self.go_on_for(self.draw.choice((0.0, 0.0, 5.0)))
        network.join(place)
        self._ends(owner, life)
        owner.unreachable = False
        self.go_on_for(UNHEARD_SECONDS)

    def parted(self, one: Node, other: Node) -> None:
        network, place = self._networked(one)
        _, there = self._networked(other)
        network.part(place, there)
        self.go_on_for(self.draw.uniform(0.5, 9.0))
        network.part(place, there, parted=False)
        self._back(Harm.PARTED, time.monotonic())
        self.go_on_for(UNHEARD_SECONDS)

    def store_gone(self) -> None:
        network, store = self.network, self.store
        assert network is not None
        assert store is not None
        network.cut(store)
        self.go_on_for(self.draw.choice((0.3, 1.0, 2.0, 4.0, 6.0)))
        network.join(store)
        self._back(Harm.STORE_GONE, time.monotonic())

    def _networked(self, node: Node) -> tuple[Network, Host]:
        assert self.network is not None
        assert node.place is not None
        return self.network, node.place


_ACTS: Mapping[Harm, Callable[[HarmedFleet, Node, Node], None]] = {
    Harm.KILLED: lambda fleet, owner, _: fleet.killed(Harm.KILLED, owner),
    Harm.TWO_KILLED: lambda fleet, owner, other: fleet.killed(Harm.TWO_KILLED, owner, other),
    Harm.TAKER_KILLED: lambda fleet, owner, _: fleet.taker_killed(owner),
    Harm.STOPPED: lambda fleet, owner, _: fleet.stopped(owner),
    Harm.MOVED: lambda fleet, owner, _: fleet.moved(owner),
    Harm.MOVE_KILLED: lambda fleet, owner, _: fleet.move_killed(owner),
    Harm.RELAY_KILLED: lambda fleet, _, __: fleet.killed(Harm.RELAY_KILLED, *fleet.relays),
    Harm.PAUSED: lambda fleet, owner, _: fleet.paused(owner),
    Harm.HALTED: lambda fleet, owner, _: fleet.halted(owner),
    Harm.CUT_OFF: lambda fleet, owner, _: fleet.cut_off(owner),
    Harm.SLOW: lambda fleet, _, __: fleet.slow(),
    Harm.ISOLATED: lambda fleet, owner, _: fleet.isolated(owner),
    Harm.PARTED: lambda fleet, owner, other: fleet.parted(owner, other),
    Harm.STORE_GONE: lambda fleet, _, __: fleet.store_gone(),
}
