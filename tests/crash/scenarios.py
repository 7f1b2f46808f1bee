"""Harms to a home, by name. Each scenario starts with a gateway that works and leaves one that
works; in between it harms it. The same draw gives the same harm, though not the same moment.
"""

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import damage
import spark_job
from bank import Bank, check_versions
from checker import Report
from faults import ANY_CALL, Fault, Layer, Where
from history import How
from points import ALL_POINTS, POINTS, UPKEEP_POINTS
from world import TOPICS, World, settings_of

Settings = Mapping[str, Mapping[str, object]]
#: Commits as fast as they go: soon there are enough of them for checkpoints and merges.
OFTEN: Settings = {"commit": {"interval_ms": 10}}
#: The log of the table is cleaned up as soon as that is allowed.
TIDY: Settings = {**OFTEN, "upkeep": {"log_entries_max": 200}}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of harm: what is done, and what the world must be like for it."""

    harm: Callable[[World], None]
    settings: Settings = field(default_factory=dict)
    shadow: bool = False
    #: Few messages: what is waited for takes long.
    slow: bool = False
    #: The harm begins before the home is there.
    first: bool = False
    #: A folder of the home that lies on a disk of its own, and that disk's MiB.
    disk: tuple[str, int] | None = None


def run(scenario: Scenario, folder: Path, draw: random.Random) -> Report:
    """Start a gateway, harm it, take out all that it owes, and judge."""
    with World(
        folder,
        draw,
        settings=scenario.settings,
        shadow=scenario.shadow,
        disk=scenario.disk,
        slow=scenario.slow,
    ) as world:
        if not scenario.first:
            assert world.start()
        scenario.harm(world)
        report = world.finish()
    assert report.sound, str(report)
    return report


def in_turn(*several: Scenario) -> Scenario:
    """One after the other on the same home, with all that any of them needs."""

    def harm(world: World) -> None:
        for one in several:
            one.harm(world)

    return Scenario(
        harm,
        settings_of(*(one.settings for one in several)),
        shadow=any(one.shadow for one in several),
        slow=any(one.slow for one in several),
        first=several[0].first,
    )


# Kills.


def killed_at(*names: str, nth_max: int = 4) -> Scenario:
    """Killed at each of these points, one after the other, on one home."""

    def harm(world: World) -> None:
        for name in names:
            world.work_for(world.draw.randrange(20, 120))
            world.run_into(kill(world.draw, name, nth_max))
            assert world.start()

    return Scenario(harm)


def transfers_killed_at(*names: str) -> Scenario:
    """Killed at each of these points while a bank's transfers go on beside everything else."""

    def harm(world: World) -> None:
        bank = Bank(world.draw, world.gone_soon)
        bank.open(world.gateway.port)
        bank.fill()
        for name in names:
            goal = bank.committed + world.draw.randrange(3, 12)
            world.work(lambda goal=goal: bank.goes_on() and bank.committed >= goal, "transfers")
            world.arm(kill(world.draw, name, 4))
            world.work(lambda: bank.goes_on() and world.gone, f"killed {name}")
            world.ended(How.KILLED)
            assert world.start()
            bank.open(world.gateway.port)
        bank.audit()
        bank.close()
        world.stop()
        check_versions(world.home)
        assert world.start()

    return Scenario(harm)


def kill(draw: random.Random, name: str, nth_max: int) -> Fault:
    """A kill at the point: at its first time if it is a rare one, or counts behind another."""
    where = ALL_POINTS[name]
    rare = where.calls == "rename" or where.since is not None
    return Fault(where, "kill", 1 if rare else draw.randint(1, nth_max))


def killed_in_upkeep(*names: str, settings: Settings = OFTEN) -> Scenario:
    """Killed in the middle of what is done seldom."""
    return Scenario(killed_at(*names, nth_max=1).harm, settings, slow=True)


def killed_at_random(times: int) -> Scenario:
    """SIGKILL from outside, whatever it does just then; at the end an orderly stop."""

    def harm(world: World) -> None:
        for _ in range(times):
            world.work_for(world.draw.randrange(1, 400))
            world.kill()
            assert world.start()
        world.work_for(world.draw.randrange(1, 100))
        world.stop()
        assert world.start()

    return Scenario(harm)


def killed_anywhere(times: int, nth_max: int = 60) -> Scenario:
    """Killed at some call that changes a file, while it starts too; starts die several times."""

    def harm(world: World) -> None:
        for _ in range(times):
            world.work_for(world.draw.randrange(1, 100))
            world.run_into(anywhere(world.draw, nth_max))
            world.arm(anywhere(world.draw, nth_max))
            while not world.start():
                world.ended(How.KILLED)
                world.arm(anywhere(world.draw, nth_max) if world.draw.random() < 0.6 else None)
            world.arm(None)
            if world.gone:
                world.ended(How.KILLED)
                assert world.start()

    return Scenario(harm)


def killed_while_it_stops(times: int, *, power: bool = False) -> Scenario:
    """SIGTERM, and at some call after it SIGKILL, or the end comes first; with `power` that goes
    too, and after an orderly end it takes nothing with it."""

    def harm(world: World) -> None:
        for _ in range(times):
            world.work_for(world.draw.randrange(1, 100))
            world.arm(anywhere(world.draw, 40))
            world.stop_or_die(power=power)
            if power:
                world.power_cut(None)
            assert world.start()

    return Scenario(harm, shadow=power)


def killed_at_birth(times: int, nth_max: int = 40) -> Scenario:
    """Killed again and again while it makes its home."""

    def harm(world: World) -> None:
        for _ in range(times):
            world.arm(anywhere(world.draw, nth_max))
            if world.start():
                break
            world.ended(How.KILLED)
        world.arm(None)
        if world.gone:
            if world.gateway.process is not None:
                world.ended(How.KILLED)
            assert world.start()
        world.work_for(50)

    return Scenario(harm, first=True)


def anywhere(draw: random.Random, nth_max: int) -> Fault:
    """A kill at some call that changes a file."""
    when = draw.choice(("before", "after"))
    return Fault(Where(ANY_CALL, "*", when), "kill", draw.randint(1, nth_max))


def torn_writes(times: int) -> Scenario:
    """Half of a write reaches the file, and the process is gone."""
    files = ("journal/*.journal", "*/record=*/*.parquet", "*/_delta_log/.*.tmp", "journal/*.spare")

    def harm(world: World) -> None:
        for n in range(times):
            world.work_for(world.draw.randrange(1, 100))
            where = Where("write", files[n % len(files)], "before")
            world.run_into(Fault(where, "short", world.draw.randint(1, 4)))
            assert world.start()

    return Scenario(harm)


# Spark.


def killed_jobs(times: int) -> Scenario:
    """The job that turns the log into tables is killed while the gateway works: its JVM at some
    call that changes a file, then all of it at some time. The next run converges: its tables are
    those of an undisturbed job."""

    def killed(world: World, layer: Layer, seconds_max: float) -> None:
        world.work_for(100)
        with spark_job.job(world.home, layer=layer) as process:
            ends = time.monotonic() + seconds_max
            world.work(
                lambda: time.monotonic() > ends or process.poll() is not None,
                "the job's end",
                2 * seconds_max,
            )

    def harm(world: World) -> None:
        layer = Layer(world.folder / "job-layer", world.home, program="java")
        world.set_schema(TOPICS[0], '{"type": "string"}')
        for _ in range(times):
            layer.arm(anywhere(world.draw, spark_job.CALLS))
            killed(world, layer, spark_job.FIRST_SECONDS)
        layer.arm(None)
        killed(world, layer, world.draw.uniform(4.0, 20.0))
        world.stop()
        spark_job.run(world.home)
        undisturbed = world.folder / "undisturbed"
        spark_job.run(world.home, undisturbed)
        for table in spark_job.TABLES:
            rows = spark_job.rows(world.home / "tables" / table)
            assert rows, f"{table} is empty"
            assert rows == spark_job.rows(undisturbed / table), f"{table} has not converged"
        spark_job.audit(world.home)
        assert world.start()

    return Scenario(harm)


def audited(*several: Scenario) -> Scenario:
    """After all of that harm the audit finds nothing in the tables, by SQL and from rows alone."""
    all_of_it = in_turn(*several)

    def harm(world: World) -> None:
        all_of_it.harm(world)
        world.work_for(60)
        world.stop()
        spark_job.run(world.home)
        spark_job.audit(world.home)
        assert world.start()

    return replace(all_of_it, harm=harm)


# Owners.


def paused_owners(*names: str) -> Scenario:
    """The owner is paused at each of these points until a standby has taken the home over."""

    def harm(world: World) -> None:
        for name in names:
            world.work_for(world.draw.randrange(20, 120))
            world.taken_over(Fault(POINTS[name], "pause", world.draw.randint(1, 3)))

    return Scenario(harm, {"owner": {"lease_ms": 900}})


def held_owners(*names: str) -> Scenario:
    """Pauses of owners at points of upkeep, until the next owner has committed and merged: an owner
    that wakes in front of a removal or a rename removes no file of the next one's."""

    def harm(world: World) -> None:
        for name in names:
            world.work_for(world.draw.randrange(20, 120))
            world.taken_over(Fault(UPKEEP_POINTS[name], "pause", 1), merged=True)

    return Scenario(harm, {**TIDY, "owner": {"lease_ms": 900}}, slow=True)


def handed_over(times: int) -> Scenario:
    """Each owner gives its home to a standby, under load."""

    def harm(world: World) -> None:
        for _ in range(times):
            world.work_for(world.draw.randrange(5, 60))
            world.hand_over()
        world.work_for(50)

    return Scenario(harm)


# Damage.


def torn_frames(times: int) -> Scenario:
    """The last frame was written and not synced; one of its bytes is another, or it is cut off.

    The gateway cuts it: no client was told that it was accepted.
    """

    def harm(world: World) -> None:
        for n in range(times):
            world.work_for(world.draw.randrange(50, 150))
            world.run_into(Fault(POINTS["before the journal is synced"], "kill"))
            last = damage.frames(world.home)[-1]
            part, at = world.draw.choice(sorted(last.parts.items()))
            if n % 2:
                with last.path.open("r+b") as file:
                    file.truncate(at)
            else:
                damage.flip(last.path, at, world.draw.randrange(8))
            cuts = len(world.gateway.events("journal.cut"))
            assert world.start(), part
            whole = n % 2 and at == last.ref.offset
            assert len(world.gateway.events("journal.cut")) == cuts + (not whole), part

    return Scenario(harm, {"commit": {"interval_ms": 2_000}})


def flipped_bits(times: int) -> Scenario:
    """A bit of a frame that isn't the last is another: refused by file and offset, nothing is
    touched. With the bit as it was, all goes on."""

    def harm(world: World) -> None:
        for _ in range(times):
            world.work_for(60)
            world.kill()
            broken = world.draw.choice(damage.frames(world.home)[:-1])
            _, at = world.draw.choice(sorted(broken.parts.items()))
            bit = world.draw.randrange(8)
            damage.flip(broken.path, at, bit)
            before = damage.digest(world.home)
            refused(world, str(broken.path), f"offset {broken.ref.offset}")
            assert damage.digest(world.home) == before, "a refused home was changed"
            damage.flip(broken.path, at, bit)
            assert world.start()

    return Scenario(harm, {"commit": {"interval_ms": 2_000}})


def rotten_ends(times: int) -> Scenario:
    """A bit of the journal's last frame is another, and the table holds that frame: cut, and all
    goes on behind it."""

    def harm(world: World) -> None:
        for _ in range(times):
            world.work_for(60)
            world.stop()
            last = damage.frames(world.home)[-1]
            damage.flip(last.path, world.draw.choice(sorted(last.parts.values())))
            assert world.start()

    return Scenario(harm)


def refused(world: World, *says: str) -> None:
    """The gateway doesn't start: exit code 1 and one sentence with these words."""
    said = len(world.gateway.log)
    world.gateway.spawn()
    world.gateway.ended(1)
    lines = world.gateway.log[said:].splitlines()
    sentence = [line for line in lines if line.startswith("distributary: ")]
    assert len(sentence) == 1, lines
    assert all(word in sentence[0] for word in says), sentence


def lost_checkpoints(times: int) -> Scenario:
    """`_last_checkpoint` is missing, empty or torn: it is only a hint."""

    def harm(world: World) -> None:
        hint = world.home / "tables/topic_log/_delta_log/_last_checkpoint"
        for n in range(times):
            world.work(hint.exists, "a checkpoint")
            world.kill()
            if n % 3 == 0:
                hint.unlink()
            else:
                hint.write_bytes(hint.read_bytes()[: n % 3 * 20 - 20])
            assert world.start()
            world.work_for(50)

    return Scenario(harm, OFTEN, slow=True)


def leftovers(times: int) -> Scenario:
    """Temporary files, garbage among them, at every place where something is made."""

    def harm(world: World) -> None:
        for _ in range(times):
            world.work_for(60)
            world.kill()
            damage.leave_temporary_files(world.home)
            assert world.start()
            world.work_for(60)

    return Scenario(harm)


# Without a journal.


def without_journal(scenario: Scenario) -> Scenario:
    """The same harm with `durability = "delta"`: accepted after the commit."""
    journal: Settings = {"journal": {"durability": "delta", "linger_ms": 20}}
    return replace(scenario, settings={**scenario.settings, **journal})


def built_elsewhere(scenario: Scenario) -> Scenario:
    """The same harm where a process of its own encodes nearly every commit."""
    commit: Settings = {"commit": {**scenario.settings.get("commit", {}), "builder_groups": 2}}
    return replace(scenario, settings={**scenario.settings, **commit})
