"""How much of a peer is read at once, and how much of other work is done at once."""

import asyncio

from ingest.turns import (
    READ_BYTES,
    READ_BYTES_FIRST,
    READ_BYTES_MIN,
    TURN_SECONDS,
    Allowance,
    Due,
    next_room,
)


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
    due: Due[str] = Due(2)
    due.add_all([f"a{n}" for n in range(6)], "a")
    due.add("b0", "b")
    due.add("a0", "a")  # it waits already: it keeps its place
    due.add("c0", "c")
    assert len(due) == 8
    taken = [due.take() for _ in range(3)]
    due.add("a0", "a")  # it had its turn: behind all others of its lane
    taken += [due.take() for _ in range(6)]
    assert taken == ["a0", "a1", "b0", "c0", "a2", "a3", "a4", "a5", "a0"]
    assert not due


def test_work_beyond_the_allowance_waits_until_the_loop_has_turned() -> None:
    """No turn does more than its part, and none comes when nothing is left to do."""

    async def work() -> list[int]:
        done = [0]
        waiting = 25

        def some() -> None:
            nonlocal waiting
            while waiting and allowance.left:
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
        return done

    assert asyncio.run(work()) == [10, 10, 5, 0]
