"""A lake of three logs on a store that fails, four gateways, and clients at any of them.

Three gateways own a log each, one stands by. What is done to them (`Harm`): killed, paused, cut off
from the store or from everybody, parted from each other; the store is slow, fails, or is gone. A
gateway that has ended is started again as a standby. Clients of a gateway that doesn't answer go to
another one, and most are at one that doesn't own what they use.

with FleetWorld(folder, draw) as world:
    world.begin()
    world.harm(Harm.KILLED)
    report = world.finish()
"""

import os
import random
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Self

from checker import Checker, Report
from clients import Consumer, Publisher, Subscription, search
from faulty_s3 import Plan, faulty_s3
from fleet_clients import Traveller
from fleet_nodes import ADDRESS, Node
from fork_server import commands
from gateway_peer import PeerLost
from history import Drained, Event, Harmed, History, Recovered
from namespaces import Host, Network
from progress import Progress

from distributary.pipeline.lake.placement import Placement, Rule
from distributary.pipeline.tables.lake.object_lake import ObjectLake
from distributary.pipeline.tables.object_home.object_home import ObjectHome

#: Seconds that anything may take, on a machine that has other things to do.
PATIENCE = 120.0
LOGS = ("main", "orders", "prices")
PLACEMENT = Placement(
    1,
    LOGS,
    tuple(Rule(f"{kind}{log}.#", (log,)) for log in LOGS[1:] for kind in ("", "queue://")),
)
TOPICS = {"main": "rain", "orders": "orders.new", "prices": "prices.now"}
QUEUES = {"main": "work", "orders": "orders.work", "prices": "prices.work"}
LOG_OF = {address: log for log in LOGS for address in (TOPICS[log], f"queue://{QUEUES[log]}")}
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "journal": {"put_ms_max": 1_000, "put_linger_ms": 2, "put_settlement_linger_ms": 5},
    "commit": {"interval_ms": 200},
    "security": {"anonymous": True},  # of namespaces that nobody else is in
    # What clients and gateways send again isn't kept twice.
    "topic": {"duplicates_messages": 100_000},
}
NODES = 4
#: Between two turns of all clients.
TURN_SECONDS = 0.003
LOOK_SECONDS = 0.05
#: Seconds until another client takes another connection.
MOVES_SECONDS = (0.3, 2.0)
#: Seconds that an end may take of a gateway which has lost its home.
END_SECONDS_MAX = 60.0


class Harm(StrEnum):
    KILLED = "killed"  #: an owner, by SIGKILL
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


class FleetWorld:
    """See the module. `network`: each gateway and the store get a namespace of their own."""

    def __init__(self, folder: Path, draw: random.Random, network: Network | None = None) -> None:
        folder.mkdir(parents=True)
        self.folder, self.draw, self.network = folder, draw, network
        self.history = History()
        self.backs: list[Back] = []
        self._stack = ExitStack()
        self._store: Host | None = network.host() if network is not None else None
        place = self._store
        self.s3 = self._stack.enter_context(
            faulty_s3(place.address, place.inside) if place is not None else faulty_s3()
        )
        self.plan = Plan()
        self.nodes = [
            Node(
                folder / f"node-{number}",
                number,
                SETTINGS,
                self.s3.options,
                network.host() if network is not None else None,
            )
            for number in range(NODES)
        ]
        self.travellers = self._clients()
        self.restless = True
        self._moves_at = self._look_at = 0.0
        self._again: dict[Node, float] = {}  #: when a gateway is started again
        self._reachable: list[Node] = []

    def _clients(self) -> list[Traveller]:
        draw, history = self.draw, self.history
        self.publishers = [
            Publisher(history, draw, f"p{n}", tuple(LOG_OF)) for n in range(draw.choice((1, 2)))
        ]
        for publisher in self.publishers:
            publisher.burst, publisher.ids = 1, True
        self.subscriptions = [
            one
            for log in LOGS
            for one in (
                Subscription(f"{log}-own", TOPICS[log], 1, log=_word(log)),
                Subscription(f"{log}-shared", TOPICS[log], 2, log=_word(log)),
                Subscription(QUEUES[log], f"queue://{QUEUES[log]}", 2, queue=True, log=_word(log)),
            )
        ]
        self.consumers = [
            Consumer(history, draw, one, n)
            for one in self.subscriptions
            for n in range(one.consumers)
        ]
        clients: list[Publisher | Consumer] = [*self.consumers, *self.publishers]
        return [Traveller(client, history, draw) for client in clients]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for node in self.nodes:
            node.kill()
        self.history.save(self.folder / "history.jsonl")
        self._stack.close()

    # Life.

    def begin(self) -> None:
        """Three gateways take a log each, and a fourth one stands by; clients subscribe, and then
        publish."""
        home = ObjectHome(ADDRESS, self.s3.options("lake"))
        ObjectLake(home).replace(None, PLACEMENT)
        for node in self.nodes[:-1]:
            node.spawn(standby=False)
        self._until(lambda: self._served() == set(LOGS), "each log has an owner", clients=False)
        self.nodes[-1].spawn(standby=True)
        for publisher in self.publishers:
            publisher.paused = True
        self._until(lambda: self._whole, "the fleet is whole")
        for one in {c.subscription.name: c.subscribed() for c in self.consumers}.values():
            self.history.add(one)
        for publisher in self.publishers:
            publisher.paused = False
        self.work_for(20)

    def _served(self) -> set[str]:
        return {node.serves for node in self.nodes if node.hears}

    @property
    def _whole(self) -> bool:
        """Each log has an owner, somebody stands by, and each client has its links."""
        return (
            self._served() == set(LOGS)
            and any(node.stands_by for node in self.nodes)
            and self._attached
        )

    @property
    def _attached(self) -> bool:
        return all(traveller.ready for traveller in self.travellers)

    def _turn(self, *, clients: bool = True) -> None:
        now = time.monotonic()
        if now > self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._look(now)
        if clients:
            for traveller in self.travellers:
                traveller.turn(self._reachable)
        if self.restless and clients and now > self._moves_at:
            self._moves_at = now + self.draw.uniform(*MOVES_SECONDS)
            self._move(self.draw.choice(self.travellers))
        time.sleep(TURN_SECONDS)  # the stimulus: clients' turns, not as fast as they can

    def _look(self, now: float) -> None:
        """Who has ended is started again, a moment later, as a standby."""
        for node in self.nodes:
            if (code := node.reaped()) is not None:
                assert code in (1, -signal.SIGKILL), f"{node}: {code}\n{node.gateway.log[-1500:]}"
                if not isinstance(self._last_trouble(), Harmed):
                    self.history.add(Harmed(f"{node} has ended by itself"))
                    self.restless = False
                self._again[node] = now + self.draw.uniform(0.0, 1.0)
            if node in self._again and now > self._again[node] and not node.unreachable:
                del self._again[node]
                node.spawn(standby=True)
        self._reachable = [node for node in self.nodes if node.hears]

    def _last_trouble(self) -> Event | None:
        troubles = (e for e in reversed(self.history.events) if isinstance(e, Harmed | Recovered))
        return next(troubles, None)

    def _move(self, traveller: Traveller) -> None:
        """A client goes, and comes back at another gateway, as a rule."""
        if not traveller.ready or (
            isinstance(traveller.client, Publisher) and not traveller.client.idle
        ):
            return
        try:
            traveller.leave()
        except PeerLost:
            traveller.part(None)

    def _until(
        self,
        condition: Callable[[], bool],
        what: str,
        seconds: float = PATIENCE,
        *,
        clients: bool = True,
    ) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"waited {seconds} s in vain: {what}; {self}"
            self._turn(clients=clients)

    def __str__(self) -> str:
        nodes = [
            f"{node}: {node.serves or ('stands by' if node.stands_by else 'nothing')}"
            for node in self.nodes
        ]
        waiting = [f"{one.client.name} at {one.at}" for one in self.travellers if not one.ready]
        return f"{'; '.join(nodes)}; not attached: {', '.join(waiting)}"

    def go_on_for(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        self._until(lambda: time.monotonic() > ends, "time goes by")

    def work_for(self, messages: int) -> None:
        """Let them work until so many more were accepted, and half as many confirmed."""
        goal = self._accepted + messages, self._confirmed + messages // 2
        self._until(
            lambda: self._accepted >= goal[0] and self._confirmed >= goal[1],
            f"{messages} more accepted",
        )

    @property
    def _accepted(self) -> int:
        return sum(publisher.accepted for publisher in self.publishers)

    @property
    def _confirmed(self) -> int:
        return sum(consumer.confirmed for consumer in self.consumers)

    # Harms.

    def harm(self, harm: Harm) -> None:
        """Do this to the fleet, and wait until it is whole again."""
        owner, other = self.draw.sample([node for node in self.nodes if node.serves], 2)
        self.restless = False
        self.history.add(Harmed(f"{harm}: {owner} with {owner.serves}"))
        match harm:
            case Harm.KILLED:
                self._killed(owner)
            case Harm.PAUSED:
                self._paused(owner)
            case Harm.HALTED:
                self._halted(owner)
            case Harm.CUT_OFF:
                self._cut_off(owner)
            case Harm.SLOW:
                self._slow()
            case Harm.ISOLATED:
                self._isolated(owner)
            case Harm.PARTED:
                self._parted(owner, other)
            case Harm.STORE_GONE:
                self._store_gone()
        self._until(
            lambda: self._whole and all(node.gateway.running for node in self.nodes),
            f"the fleet is whole ({harm})",
        )
        self.history.add(Recovered())
        self.restless = True
        self.work_for(self.draw.randrange(10, 40))

    def _back(self, harm: Harm, since: float) -> None:
        """Messages that are sent from now on are accepted and consumed in each log."""
        progress = Progress(self.history, LOG_OF)
        self._until(lambda: progress.of_all(LOGS), f"each log goes on ({harm})")
        seconds = time.monotonic() - since
        self._until(lambda: self._attached, f"all clients are attached ({harm})")
        self.backs.append(Back(harm, seconds, time.monotonic() - since))

    def _desert(self, node: Node) -> None:
        """It answers nobody any more, so its clients leave it. What it confirms of its own log must
        have been so now."""
        place, log = self.history.events[-1], node.serves
        for one in self.travellers:
            if one.at is node:
                own = isinstance(one.client, Consumer) and one.log == _word(log)
                one.part(place if own else None)
        self._reachable = [other for other in self._reachable if other is not node]

    def _killed(self, owner: Node) -> None:
        since = time.monotonic()
        owner.signal(signal.SIGKILL)
        self._back(Harm.KILLED, since)

    def _paused(self, owner: Node) -> None:
        since, life = time.monotonic(), owner.life
        owner.signal(signal.SIGSTOP)
        self._desert(owner)
        self._back(Harm.PAUSED, since)
        self.go_on_for(self.draw.uniform(0.0, 1.0))  # it wakes into a home in which others work
        owner.signal(signal.SIGCONT)
        self._ends(owner, life)

    def _ends(self, node: Node, life: int) -> None:
        self._until(lambda: node.gone(life), f"{node} ends", END_SECONDS_MAX)

    def _halted(self, node: Node) -> None:
        node.signal(signal.SIGSTOP)
        self.go_on_for(self.draw.uniform(0.2, 1.5))
        node.signal(signal.SIGCONT)
        self._back(Harm.HALTED, time.monotonic())

    def _cut_off(self, owner: Node) -> None:
        since, life = time.monotonic(), owner.life
        self.s3.plan(replace(self.plan, cut=(owner.key,)))
        self._back(Harm.CUT_OFF, since)
        self._ends(owner, life)
        self.s3.plan(self.plan)

    def _slow(self) -> None:
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

    def _isolated(self, owner: Node) -> None:
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

    def _parted(self, one: Node, other: Node) -> None:
        network, place = self._networked(one)
        _, there = self._networked(other)
        network.part(place, there)
        self.go_on_for(self.draw.uniform(0.5, 9.0))
        network.part(place, there, parted=False)
        self._back(Harm.PARTED, time.monotonic())

    def _store_gone(self) -> None:
        network, store = self.network, self._store
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

    # The store, and the end.

    def fail(self, plan: Plan) -> None:
        """From now on the store is like this, when nothing else is done to it."""
        self.plan = plan
        self.s3.plan(plan)

    def finish(self) -> Report:
        """Take out all that is owed, through any gateway; stop, and judge."""
        self.fail(Plan())
        self.restless = False
        for publisher in self.publishers:
            publisher.paused = True
        self._until(
            lambda: self._whole and all(one.idle for one in self.publishers),
            "all publishers have answers",
        )
        for traveller in self.travellers:
            traveller.leave()
        for subscription in self.subscriptions:
            self._drain(subscription)
        for node in self.nodes:
            if node.gateway.running:
                node.gateway.stop()
        self.verify()
        return Checker(flags=False, once=True).read(self.history).report()

    def _drain(self, subscription: Subscription) -> None:
        """At a gateway by lot; again at another one, if that is lost meanwhile."""
        for left in range(4, -1, -1):
            self._until(lambda: self._served() == set(LOGS), "all logs are served", clients=False)
            node = self.draw.choice([node for node in self.nodes if node.hears])
            consumer = Consumer(self.history, self.draw, subscription, 0)
            try:
                consumer.drain(node.port, node.host)
                self.history.add(Drained(subscription.name))
                search(self.history, node.port, subscription, node.host)
            except (PeerLost, OSError):
                if not left:
                    raise
            else:
                return

    def verify(self) -> None:
        """What `distributary verify` says of the lake; it must be sound."""
        environment = {**os.environ, **self.s3.options("verify")}
        words = ("verify", "--home", ADDRESS, "--deep")
        done = commands().run(*words, environment=environment)
        assert done.returncode == 0, f"verify says:\n{done.stdout}{done.stderr}"


def _word(log: str) -> str:
    return "" if log == "main" else log
