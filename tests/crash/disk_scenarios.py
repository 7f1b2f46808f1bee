"""Harms that disks do to a home, by name: they can't sync, lose power and unsynced bytes, or have
no room. Scenarios like the others.
"""

from collections.abc import Sequence

from faults import Fault, Where
from history import How
from points import ALL_SYNCS, POINTS
from scenarios import Scenario, Settings, anywhere, kill
from world import World

#: Calls of commits, and some of upkeep, that may fail and leave the gateway as it was.
CALLS = ("create", "write", "link", "unlink")
#: The gateway's exit code when it stops by itself, with a reason.
GAVE_UP_CODE = 1

# Syncs.


def failed_syncs(*names: str, power: bool = False, settings: Settings | None = None) -> Scenario:
    """An fsync fails: the gateway stops with exit code 1 and never asks for that file again.

    With `power` the power goes at once, and a disk that failed has forgotten what it was asked.
    """

    def harm(world: World) -> None:
        for name in names:
            world.work_for(world.draw.randrange(20, 100))
            world.layer.forget_calls()
            how = How.POWER_CUT if power else How.GAVE_UP
            code = world.run_into(Fault(ALL_SYNCS[name], "errno"), how)
            assert code == GAVE_UP_CODE, world.gateway.log[-2000:]
            assert not syncs_after_failure(world), name
            if power:
                world.power_cut(None)
            assert world.start()

    return Scenario(harm, settings or {}, shadow=power, slow=settings is not None)


def syncs_after_failure(world: World) -> list[str]:
    """The syncs of a file or folder of which one had failed before, in this life."""
    calls = [c for c in world.layer.calls() if c.name in {"fsync", "fdatasync"}]
    first = next(n for n, call in enumerate(calls) if call.result < 0)
    return [call.path for call in calls[first + 1 :] if call.path == calls[first].path]


def power_cuts(times: int, *, strict: bool, points: Sequence[str] = tuple(POINTS)) -> Scenario:
    """SIGKILL and the power with it: what wasn't synced is gone, or by luck a part of it is not."""

    def harm(world: World) -> None:
        for n in range(times):
            world.work_for(world.draw.randrange(1, 200))
            if n % 3 == 1:
                world.run_into(anywhere(world.draw, 60), How.POWER_CUT)
            elif n % 3 == 2:
                fault = kill(world.draw, world.draw.choice(points), 3)
                world.run_into(fault, How.POWER_CUT)
            else:
                world.lose_power()
            world.power_cut(None if strict else world.draw)
            assert world.start()

    return Scenario(harm, shadow=True)


def power_cuts_at(*names: str) -> Scenario:
    """The power goes at each of these points, one after the other; strictly."""

    def harm(world: World) -> None:
        for name in names:
            world.work_for(world.draw.randrange(1, 60))
            world.run_into(kill(world.draw, name, 3), How.POWER_CUT)
            world.power_cut(None)
            assert world.start()

    return Scenario(harm, shadow=True)


def kills_then_power_cut(times: int, *, points: Sequence[str] = tuple(POINTS)) -> Scenario:
    """Killed and started again several times, and only then the power goes: what a former life
    left unsynced, and the next one relied on, is lost now."""

    def harm(world: World) -> None:
        for _ in range(times):
            for _ in range(2):
                world.work_for(world.draw.randrange(1, 60))
                world.run_into(kill(world.draw, world.draw.choice(points), 3))
                assert world.start()
            world.lose_power()
            world.power_cut(None)
            assert world.start()

    return Scenario(harm, shadow=True)


# Errors whose effect did or didn't happen.


def unknown_outcomes(times: int, *, settings: Settings | None = None) -> Scenario:
    """A call on the table says that it failed, and had its effect or not: once or a few times, with
    each call by which commits and upkeep are made, syncs apart. The gateway goes on, and tries
    again; sometimes it is killed while it doesn't know."""

    def harm(world: World) -> None:
        for _ in range(times):
            world.work_for(world.draw.randrange(1, 60))
            calls, when = world.draw.choice(CALLS), world.draw.choice(("before", "after"))
            where = Where(calls, "tables/topic_log/*", when)
            fired = world.layer.fired
            world.arm(
                Fault(where, "errno", world.draw.randrange(1, 6), world.draw.choice((1, 1, 4)))
            )
            world.work(
                lambda fired=fired: world.layer.fired > fired,  # type: ignore[misc]
                f"{calls} fails {when} its effect",
            )
            if world.draw.random() < 0.3:
                world.kill()
                world.arm(None)
                assert world.start()
            world.work_for(world.draw.randrange(1, 60))
            world.arm(None)

    commit: dict[str, object] = {"retry_ms": 20, "interval_ms": 50}
    return Scenario(harm, settings or {"commit": commit}, slow=settings is not None)


# Full disks.


def full_disk(folder: str, times: int, *, megabytes: int = 4) -> Scenario:
    """The disk under the journal, or under the tables, has no room for a while. While the journal
    finds none nothing is accepted; while the tables find none the journal keeps it all."""

    def harm(world: World) -> None:
        event = "journal.full" if folder == "journal" else "commit.failed"
        for _ in range(times):
            world.work_for(50)
            said = len(world.gateway.events(event))
            world.fill()
            world.work(
                lambda said=said: len(world.gateway.events(event)) > said, f"{folder} is full"
            )
            if world.draw.random() < 0.5:
                world.kill()
                world.empty()
                assert world.start()
            else:
                world.empty()
            world.work_for(50)

    commit: dict[str, object] = {"retry_ms": 50}
    if folder == "journal":
        commit["interval_ms"] = 5_000  # nothing is given back meanwhile
    retry: Settings = {"journal": {"retry_ms": 50}, "commit": commit}
    return Scenario(harm, retry, disk=(folder, megabytes))
