"""A lake of three logs on a store that fails, five gateways, and clients at any of them.

Three gateways own a log each, one stands by, one has no log; what is done to them stands in
`fleet_harms`. A topic and a queue are divided over logs, and a bank's transactions are of two. A
gateway that has ended is started again as a standby. Clients of a gateway that doesn't answer go to
another one, and most are at one that doesn't own what they use.

with HarmedFleet(folder, draw) as world:
    world.begin()
    world.harm(Harm.KILLED)
    report = world.finish()
"""

import os
import random
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Self

from bank import ACCOUNTS, Bank
from checker import Checker, Report
from clients import Consumer, Publisher, Subscription, search
from faulty_s3 import Plan, faulty_s3
from fleet_clients import Traveller
from fleet_nodes import ADDRESS, Node
from fork_server import SCRIPT
from gateway_peer import PeerLost
from history import Drained, Harmed, History, Recovered
from namespaces import Host, Network

from distributary.pipeline.lake.placement import Placement, Rule
from distributary.pipeline.tables.lake.object_lake import ObjectLake
from distributary.pipeline.tables.object_home.object_home import ObjectHome

#: Seconds that anything may take, on a machine that has other things to do.
PATIENCE = 120.0
LOGS = ("main", "orders", "prices")
PLACEMENT = Placement(
    1,
    LOGS,
    (
        *(Rule(f"{kind}{log}.#", (log,)) for log in LOGS[1:] for kind in ("", "queue://")),
        Rule("hot.#", LOGS, partitions=3),
        Rule("queue://hot.#", LOGS[1:], partitions=2),
        # Each transfer is a transaction of two logs, at any gateway.
        *(Rule(f"queue://{one}", (log,)) for one, log in zip(ACCOUNTS, LOGS[1:], strict=True)),
    ),
)
TOPICS = {"main": "rain", "orders": "orders.new", "prices": "prices.now"}
QUEUES = {"main": "work", "orders": "orders.work", "prices": "prices.work"}
LOG_OF = {address: log for log in LOGS for address in (TOPICS[log], f"queue://{QUEUES[log]}")}
#: They are divided. Messages of the topic have groups, so order; those of the queue have ids.
HOT, HOT_QUEUE = "hot.now", "hot.work"
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "journal": {"put_ms_max": 1_000, "put_linger_ms": 2, "put_settlement_linger_ms": 5},
    "commit": {"interval_ms": 200},
    "security": {"anonymous": True},  # in namespaces of this test alone
    # What clients and gateways send again isn't kept twice.
    "topic": {"duplicates_messages": 100_000},
}
#: The last one of them has no log.
NODES = 5
#: Between two turns of all clients, as in `world`.
TURN_SECONDS = 0.01
LOOK_SECONDS = 0.05
#: Seconds until another client takes another connection.
MOVES_SECONDS = (0.3, 2.0)


class FleetWorld:
    """See the module. `network`: each gateway and the store get a namespace of their own."""

    def __init__(self, folder: Path, draw: random.Random, network: Network | None = None) -> None:
        folder.mkdir(parents=True)
        self.folder, self.draw, self.network = folder, draw, network
        self.history = History()
        self._stack = ExitStack()
        self.store: Host | None = network.host() if network is not None else None
        place = self.store
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
                relay=number == NODES - 1,
            )
            for number in range(NODES)
        ]
        self.travellers = self._clients()
        self._bank_draw = random.Random(draw.random())
        self.bank = Bank(self._bank_draw, lambda: True)
        self._bank_rests = Event()
        self._banking = Thread(target=self._bank_works, daemon=True)
        self.restless = True
        self._moves_at = self._look_at = 0.0
        self._again: dict[Node, float] = {}  #: when a gateway is started again
        self._reachable: list[Node] = []

    def _clients(self) -> list[Traveller]:
        draw, history = self.draw, self.history
        self.publishers = [
            Publisher(history, draw, f"p{n}", (*LOG_OF, HOT, f"queue://{HOT_QUEUE}"))
            for n in range(draw.choice((1, 2)))
        ]
        for publisher in self.publishers:
            publisher.burst, publisher.ids, publisher.grouped = 1, True, frozenset({HOT})
        everywhere = tuple(word_of(log) for log in LOGS)
        self.subscriptions = [
            one
            for log in LOGS
            for one in (
                Subscription(f"{log}-own", TOPICS[log], 1, log=word_of(log)),
                Subscription(f"{log}-shared", TOPICS[log], 2, log=word_of(log)),
                Subscription(
                    QUEUES[log], f"queue://{QUEUES[log]}", 2, queue=True, log=word_of(log)
                ),
            )
        ] + [
            Subscription("hot-own", HOT, 1, divided=everywhere),
            Subscription("hot-shared", HOT, 2, divided=everywhere),
            Subscription(HOT_QUEUE, f"queue://{HOT_QUEUE}", 2, queue=True, divided=everywhere[1:]),
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
        self._bank_rests.set()
        self.bank.close()
        self.history.save(self.folder / "history.jsonl")
        self._stack.close()

    # Life.

    def begin(self) -> None:
        """Three gateways take a log each, a fourth one stands by, a fifth one relays; clients
        subscribe, and then publish."""
        home = ObjectHome(ADDRESS, self.s3.options("lake"))
        ObjectLake(home).replace(None, PLACEMENT)
        *owners, standby, relay = self.nodes
        for node in (*owners, relay):
            node.spawn(standby=False)
        self.until(lambda: self.served() == set(LOGS), "each log has an owner", clients=False)
        standby.spawn(standby=True)
        for publisher in self.publishers:
            publisher.paused = True
        self.until(lambda: self.whole, "the fleet is whole")
        for one in {c.subscription.name: c.subscribed() for c in self.consumers}.values():
            self.history.add(one)
        for publisher in self.publishers:
            publisher.paused = False
        self._open_bank()
        self.bank.fill()
        self._banking.start()
        self.work_for(20)

    def _open_bank(self) -> None:
        node = self._bank_draw.choice([node for node in self.nodes if node.hears])
        self.bank.open(node.port, node.host)

    def _bank_works(self) -> None:
        """In a thread of its own: transfers go on while harm is done, at one gateway or another."""
        while not self._bank_rests.wait(self._bank_draw.uniform(0.0, 0.2)):
            with suppress(OSError, AssertionError, ValueError, IndexError):  # a gateway is lost
                self._open_bank()
                for _ in range(self._bank_draw.randrange(1, 8)):
                    self.bank.turn()

    def served(self) -> set[str]:
        return {node.serves for node in self.nodes if node.hears and not node.relay}

    @property
    def relays(self) -> list[Node]:
        return [node for node in self.nodes if node.relay]

    @property
    def whole(self) -> bool:
        """Each log has an owner, a gateway stands by, one relays, and clients have their links."""
        return (
            self.served() == set(LOGS)
            and any(node.waits for node in self.nodes)
            and all(node.hears for node in self.relays)
            and self.attached
        )

    @property
    def attached(self) -> bool:
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
        """Start each gateway that has ended again, a moment later, as a standby."""
        for node in self.nodes:
            if (code := node.reaped()) is not None:
                assert code in node.codes, f"{node}: {code}\n{node.gateway.log[-1500:]}"
                if not isinstance(self._last_trouble(), Harmed):
                    self.history.add(Harmed(f"{node} has ended by itself"))
                    self.restless = False
                self._again[node] = now + self.draw.uniform(0.0, 1.0)
            if node in self._again and now > self._again[node] and not node.unreachable:
                del self._again[node]
                node.spawn(standby=True)
        self._reachable = [node for node in self.nodes if node.hears]

    def _last_trouble(self) -> Harmed | Recovered | None:
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

    def until(
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
            f"{node}: {node.serves or ('waits' if node.waits else 'nothing')}"
            for node in self.nodes
        ]
        waiting = [f"{one.client.name} at {one.at}" for one in self.travellers if not one.ready]
        return f"{'; '.join(nodes)}; not attached: {', '.join(waiting)}"

    def go_on_for(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        self.until(lambda: time.monotonic() > ends, "time goes by")

    def work_for(self, messages: int) -> None:
        """Let them work until so many more were accepted, and half as many confirmed."""
        goal = self._accepted + messages, self._confirmed + messages // 2
        self.until(
            lambda: self._accepted >= goal[0] and self._confirmed >= goal[1],
            f"{messages} more accepted",
        )

    @property
    def _accepted(self) -> int:
        return sum(publisher.accepted for publisher in self.publishers)

    @property
    def _confirmed(self) -> int:
        return sum(consumer.confirmed for consumer in self.consumers)

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
        self.until(
            lambda: self.whole and all(one.idle for one in self.publishers),
            "all publishers have answers",
        )
        for traveller in self.travellers:
            traveller.leave()
        self._audit()
        for subscription in self.subscriptions:
            self._drain(subscription)
        for node in self.nodes:
            if node.gateway.running:
                node.gateway.stop()
        self.verify()
        return Checker(once=True).read(self.history).report()

    def _audit(self) -> None:
        """Wait until all the money is there: a transaction without a known end holds coins until
        its logs have asked one another."""
        self._bank_rests.set()
        self._banking.join()
        assert self.bank.committed
        deadline = time.monotonic() + PATIENCE
        while True:
            self.until(lambda: self.served() == set(LOGS), "all logs are served", clients=False)
            try:
                self._open_bank()
                self.bank.audit()
            except (OSError, AssertionError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(LOOK_SECONDS)  # until it is asked again
            else:
                self.bank.close()
                return

    def _drain(self, subscription: Subscription) -> None:
        """At a gateway by lot; again at another one, if that is lost meanwhile."""
        for left in range(4, -1, -1):
            self.until(lambda: self.served() == set(LOGS), "all logs are served", clients=False)
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
        """Run `distributary verify` on the lake, which must be sound."""
        done = self.command("verify", "--deep")
        said, _ = done.communicate()
        assert done.returncode == 0, f"verify says:\n{said}"

    def command(self, *words: str) -> "subprocess.Popen[str]":
        """A command about the lake, which is on its way."""
        return subprocess.Popen(  # the script: a fork server would load all commands for one
            [SCRIPT, *words, "--home", ADDRESS],
            env={**os.environ, **self.s3.options(words[0])},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


def word_of(log: str) -> str:
    """By which subscriptions know the log."""
    return "" if log == "main" else log
