"""Publishers and consumers at one gateway, while the owner of the log that they use is killed and
started again, or hands the log over to a standby: nothing that was accepted is lost, order holds,
and what was settled comes again only where the owner can't have heard of it.

A consumer's outcomes go to the owner in the turn in which they are given, and are durable a few
milliseconds later. The machine may stand still in between: then what is published behind them isn't
accepted either. So the owner has heard of an outcome when the publishers' next messages are
accepted; what comes twice was killed with its owner less than `MARGIN` after that.
"""

import asyncio
import random
import time
from bisect import bisect_left
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from async_client import at, run
from gateway_fleet import ALL_DIVIDED, PLACEMENT, Fleet
from gateway_process import Gateway

from distributary.client import Message
from distributary.pipeline.lake.placement import Placement

KILLS = 4
#: What publishers send again isn't kept twice.
SETTINGS = {"topic": {"duplicates_messages": 100_000}}
PUBLISHERS = 3
#: Seconds in which an outcome may be overtaken by what is published behind it, or be of a message
#: that came before its owner was back.
MARGIN = 1.0
#: Between two messages of a publisher: the gateways and the kills want the machine, too.
PAUSE_SECONDS = 0.005


@pytest.fixture
def placement(request: pytest.FixtureRequest) -> Placement:
    """Topics in the log `orders`, or divided over that and `main`."""
    return getattr(request, "param", PLACEMENT)


@pytest.fixture
def fleet(tmp_path: Path, placement: Placement) -> Fleet:
    made = 0

    def make(settings: object) -> Gateway:
        nonlocal made
        made += 1
        return Gateway(tmp_path / f"gateway-{made}", settings)  # type: ignore[arg-type]

    return Fleet(tmp_path, make, SETTINGS, placement)


class Load:
    """Messages accepted, messages that came with their times, and times of the owner's kills."""

    def __init__(self, fleet: Fleet, chance: random.Random) -> None:
        self.fleet, self.chance = fleet, chance
        self.accepted: list[str] = []
        self.published: dict[str, list[tuple[float, float]]] = {}  #: from when until when, by name
        self.came: list[tuple[str, float]] = []
        self.kills: list[tuple[float, float]] = []
        self.over = False
        self.consuming = asyncio.Event()

    async def publish(self, name: str, address: str) -> None:
        async with at(self.fleet.main, give_up_seconds=60) as client:
            number = 0
            while not self.over:
                began = time.monotonic()
                await client.publish(address, Message(body=f"{name}-{number}", group=name))
                self.published.setdefault(name, []).append((began, time.monotonic()))
                self.accepted.append(f"{name}-{number}")
                number += 1
                await asyncio.sleep(PAUSE_SECONDS)  # the stimulus: not as fast as it can

    async def consume(self, subscribe: Callable[..., object]) -> None:
        async with at(self.fleet.main, give_up_seconds=60) as client:
            consumer = subscribe(client)
            await consumer.begin()  # type: ignore[attr-defined]
            self.consuming.set()
            async for message in consumer:  # type: ignore[attr-defined]
                self.came.append((str(message.body), time.monotonic()))
                await message.accept()

    async def harm(self, change: Callable[["Load"], None]) -> None:
        for _ in range(KILLS):
            known = len(self.accepted)
            while len(self.accepted) == known:  # noqa: ASYNC110 (the next kill is noticed, too)
                await asyncio.sleep(0.05)
            await asyncio.sleep(self.chance.uniform(0.3, 1.5))  # the stimulus: it works on
            await asyncio.to_thread(change, self)
        await asyncio.sleep(0.5)  # the stimulus: it works on behind the last one
        self.over = True

    def kill(self) -> None:
        """The owner is killed and started again."""
        killed = time.monotonic()
        self.fleet.orders.kill()
        time.sleep(self.chance.uniform(0.0, 0.5))  # the stimulus: it is away for a while
        self.fleet.orders.start()
        self.kills.append((killed, time.monotonic()))

    def hand_over(self) -> None:
        """A standby waits, and the owner is told to end."""
        standby = self.fleet.standby()
        standby.spawn()
        standby.await_event("standby.waiting")
        killed = time.monotonic()
        self.fleet.orders.stop()
        standby.await_event("listening")
        self.kills.append((killed, time.monotonic()))
        self.fleet.orders = standby

    def judge(self) -> None:
        times: dict[str, list[float]] = {}
        for body, at_ in self.came:
            times.setdefault(body, []).append(at_)
        lost = [one for one in self.accepted if one not in times]
        assert not lost, f"{len(lost)} accepted messages never came: {lost[:5]}"
        for publisher in range(PUBLISHERS):
            firsts = [int(body.split("-")[1]) for body in times if body.startswith(f"{publisher}-")]
            assert firsts == sorted(firsts)
        for body, seen in times.items():
            for before, again in pairwise(seen):
                heard = self.heard(before)
                assert any(
                    killed <= again and before - MARGIN < back and killed < heard + MARGIN
                    for killed, back in self.kills
                ), f"{body} was settled at {before}, and came again at {again}: {self.kills}"

    def heard(self, settled: float) -> float:
        """When the owner had heard of what was settled then: each publisher's next was accepted."""
        times = [settled]
        for sent in self.published.values():
            behind = bisect_left(sent, (settled, 0.0))
            times += [accepted for _, accepted in sent[behind : behind + 1]]
        return max(times)


@pytest.mark.parametrize(
    ("seed", "change", "placement"),
    [
        (1, Load.kill, PLACEMENT),
        (2, Load.kill, PLACEMENT),
        (3, Load.hand_over, PLACEMENT),
        (4, Load.kill, ALL_DIVIDED),
        (5, Load.hand_over, ALL_DIVIDED),
    ],
    indirect=["placement"],
    ids=lambda one: (
        str(len(one.rules[0].logs))
        if isinstance(one, Placement)
        else getattr(one, "__name__", str(one))
    ),
)
@pytest.mark.parametrize("kind", ["queue", "durable"])
def test_an_owner_is_lost_under_load(
    fleet: Fleet, kind: str, seed: int, change: Callable[[Load], None]
) -> None:
    address = "queue://orders.load" if kind == "queue" else "orders.load"
    load = Load(fleet, random.Random(seed))

    def subscribe(client: object) -> object:
        if kind == "queue":
            return client.consume(address)  # type: ignore[attr-defined]
        return client.subscribe("load", topic=address)  # type: ignore[attr-defined]

    async def work() -> None:
        async with at(fleet.main, container_id="load") as first:
            consuming = asyncio.create_task(load.consume(subscribe))
            await load.consuming.wait()  # no subscription is owed earlier messages of a topic
            publishing = [load.publish(str(nth), address) for nth in range(PUBLISHERS)]
            await asyncio.gather(load.harm(change), *publishing)
            deadline = time.monotonic() + 60
            while set(load.accepted) - {body for body, _ in load.came}:
                assert not consuming.done(), consuming.exception()
                assert time.monotonic() < deadline, "what was accepted doesn't come"
                await asyncio.sleep(0.1)
            consuming.cancel()
            await asyncio.gather(consuming, return_exceptions=True)
            assert first.connected

    with fleet:
        run(work())
        assert len(load.kills) == KILLS
        load.judge()
        assert len(fleet.main.events("relay.lost")) == KILLS
