"""How much of a peer is read at once, and how much of other work is done at once."""

import asyncio
import socket
from contextlib import ExitStack
from selectors import EVENT_READ

import pytest

from distributary.ingest.delivery.alarms import RUNG_AT_ONCE, Alarms
from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.gateway.sockets import FewAtOnce
from distributary.ingest.runtime.turns import (
    READ_BYTES,
    READ_BYTES_FIRST,
    READ_BYTES_MIN,
    SOCKETS_MAX,
    SOCKETS_MIN,
    SOCKETS_SECONDS,
    TURN_SECONDS,
    Allowance,
    FairQueue,
    Parts,
    TaskTurns,
    next_room,
    next_sockets,
)
from distributary.pipeline.dispatch.dispatcher import Dispatcher
from distributary.pipeline.log.message_counts import UNNAMED, SubscriptionCounts
from distributary.pipeline.model.policy import Policy
from distributary.pipeline.model.subscription import Definition


def test_a_quick_peer_is_read_in_large_runs_and_a_slow_one_in_small_ones() -> None:
    """It grows to the whole buffer, shrinks to a few frames, and stays where it is right."""
    room = READ_BYTES_FIRST
    for _ in range(10):
        room = next_room(room, 0.000_5)
    assert room == READ_BYTES
    assert next_room(room, TURN_SECONDS / 2) == room
    for _ in range(10):
        room = next_room(room, 2 * TURN_SECONDS)
    assert room == READ_BYTES_MIN
    assert next_room(room, 0.0) == 2 * READ_BYTES_MIN


def test_lanes_have_their_turns_alike() -> None:
    """A long lane doesn't keep a short one waiting; within a lane the first to come goes first."""
    due: FairQueue[str] = FairQueue(2)
    due.add_all([f"a{n}" for n in range(6)], "a")
    due.add("b0", "b")
    due.add("a0", "a")  # it waits already: it keeps its place
    due.add("c0", "c")
    assert len(due) == 8
    taken = [due.take() for _ in range(3)]
    due.add("a0", "a")  # it had its turn: behind all others of its lane
    taken += [due.take() for _ in range(6)]
    assert taken == ["a0", "a1", "b0", "c0", "a2", "a3", "a4", "a5", "a0"]
    assert not due.order


def test_work_beyond_the_allowance_waits_until_the_loop_has_turned() -> None:
    """No turn does more than its part, and a new part comes when one is spent, or asked for."""

    async def work() -> list[int]:
        done = [0]
        waiting = 25

        def some() -> None:
            nonlocal waiting
            while waiting and allowance.left > 0:
                allowance.spend(1)
                waiting -= 1
                done[-1] += 1

        def turned() -> None:
            done.append(0)
            some()

        allowance = Allowance(asyncio.get_running_loop(), 10, turned)
        some()
        some()  # once more in the same turn: nothing
        for _ in range(10):
            await asyncio.sleep(0)
        waiting = 7
        some()  # what was left of the last part, and the rest in the next turn
        for _ in range(10):
            await asyncio.sleep(0)
        allowance.ask()
        await asyncio.sleep(0)
        return done

    assert asyncio.run(work()) == [10, 10, 10, 2, 0]


def test_work_for_many_peers_is_done_in_parts_in_its_order() -> None:
    """Without any time in a turn it is one for each; what comes meanwhile comes last."""

    async def work() -> list[object]:
        done: list[object] = []
        loop = asyncio.get_running_loop()

        def one(what: int) -> None:
            done.append(what)
            if what == 1:
                parts.add(4)
                parts.run()  # it is at work: nothing

        parts: Parts[int] = Parts(loop, one, 0.0)
        for what in (1, 2, 3):
            parts.add(what)
        parts.run()
        parts.run()  # this turn's part is done
        while parts.waiting:
            done.append("turn")
            await asyncio.sleep(0)
        parts.add(5)
        parts.later()
        done.append("later")
        await asyncio.sleep(0)
        return done

    assert asyncio.run(work()) == [1, "turn", 2, "turn", 3, "turn", 4, "later", 5]


def test_a_turn_serves_fewer_sockets_after_one_that_took_long() -> None:
    """Never so few that nothing goes on, nor so many that a quick turn becomes a long one."""
    most = SOCKETS_MAX
    for _ in range(10):
        most = next_sockets(most, 2 * SOCKETS_SECONDS)
    assert most == SOCKETS_MIN
    assert next_sockets(most, SOCKETS_SECONDS / 2) == most
    for _ in range(10):
        most = next_sockets(most, 0.0)
    assert most == SOCKETS_MAX


def test_sockets_that_are_ready_together_have_their_turns() -> None:
    """Each has had one before any has a second, though all of them stay ready."""
    count = 3 * SOCKETS_MAX
    with ExitStack() as stack:
        chooser = FewAtOnce()
        stack.callback(chooser.close)
        for number in range(count):
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            stack.enter_context(theirs).send(b"x")
            chooser.register(ours, EVENT_READ, number)
        seen: list[int] = []
        while len(seen) < count:
            some = chooser.select(0)
            assert 0 < len(some) <= SOCKETS_MAX
            seen += [key.data for key, _ in some]
        assert sorted(seen[:count]) == list(range(count))


@pytest.mark.parametrize("ready", [0, 1, 2])
def test_a_turn_says_whether_it_serves_one_socket_alone(ready: int) -> None:
    with ExitStack() as stack:
        chooser = FewAtOnce()
        stack.callback(chooser.close)
        for number in range(2):
            ours, theirs = socket.socketpair()
            stack.enter_context(ours)
            stack.enter_context(theirs).send(b"x" * (number < ready))
            chooser.register(ours, EVENT_READ, number)
        assert len(chooser.select(0)) == ready
        assert chooser.turn.alone == (ready == 1)


def test_alarms_that_ring_together_ring_in_parts() -> None:
    """Each once, in the order of their times."""

    async def ring() -> list[list[Subscription]]:
        rung: list[list[Subscription]] = []
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()

        def rings(some: list[Subscription], _now: int) -> None:
            rung.append(some)
            if sum(map(len, rung)) > 2 * RUNG_AT_ONCE:
                over.set_result(None)

        alarms = Alarms(loop, rings)
        for _ in range(2 * RUNG_AT_ONCE + 1):
            definition = Definition("t", shared=False)
            dispatcher = Dispatcher(0, policy=Policy(lock_ms=1))
            dispatcher.attach(1)
            dispatcher.credit(1, 1)
            dispatcher.offer(0, 1)
            alarms.look(Subscription(None, definition, dispatcher, SubscriptionCounts(UNNAMED)))
        await over
        return rung

    rung = asyncio.run(ring())
    assert [len(some) for some in rung] == [RUNG_AT_ONCE, RUNG_AT_ONCE, 1]
    assert len({id(one) for some in rung for one in some}) == 2 * RUNG_AT_ONCE + 1


def test_parts_of_many_tasks_are_done_one_in_a_turn_of_the_loop() -> None:
    """Each task's parts are done in order, and a cancelled task holds up no other."""

    async def work() -> list[list[str]]:
        loop = asyncio.get_running_loop()
        parts, turns = TaskTurns(loop), list[list[str]]()

        def turned() -> None:
            turns.append([])
            loop.call_soon(turned)

        async def some(name: str) -> None:
            for _ in range(3):
                await parts.turn()
                turns[-1].append(name)

        turned()
        tasks = [asyncio.create_task(some(name)) for name in "abcd"]
        await asyncio.sleep(0)
        tasks.pop(2).cancel()
        await asyncio.gather(*tasks)
        return [turn for turn in turns if turn]

    done = asyncio.run(work())
    assert [len(turn) for turn in done] == [1] * 9
    assert "".join(one for [one] in done) == "abd" * 3
