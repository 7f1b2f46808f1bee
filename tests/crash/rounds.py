"""Which scenarios are run: each kind once in the short round, drawn by lot in the long one.

What a round does hangs on its seed alone; when the harm comes hangs on the machine too. So the
same seed does the same things to the gateway, but not always with the same end.
"""

import random
from collections.abc import Callable, Mapping

import scenarios as of
from points import JOURNAL_POINTS, POINTS, SYNCS, TABLE_POINTS, UPKEEP_POINTS, UPKEEP_SYNCS
from scenarios import Scenario

DEFAULT_SEED = 7

#: The process is killed, paused or replaced.
KILLS: Mapping[str, Scenario] = {
    "journal": of.killed_at(*JOURNAL_POINTS),
    "data files": of.killed_at(*TABLE_POINTS[:6]),
    "commits": of.killed_at(*TABLE_POINTS[6:]),
    "random": of.killed_at_random(2),
    "any call": of.killed_anywhere(2),
    "first start": of.killed_at_birth(3),
    "torn writes": of.torn_writes(3),
    "paused owner": of.paused_owners("before the journal is synced", "before a commit is linked"),
}

#: Upkeep is under way.
UPKEEP: Mapping[str, Scenario] = {
    "checkpoints": of.killed_in_upkeep(*list(UPKEEP_POINTS)[:6]),
    "merges": of.killed_in_upkeep(*list(UPKEEP_POINTS)[6:13]),
    "lost checkpoints": of.lost_checkpoints(3),
    "failed syncs": of.failed_syncs("sync of merged files fails", settings=of.OFTEN),
}

#: Bytes are others than they were.
DAMAGE: Mapping[str, Scenario] = {
    "torn frames": of.torn_frames(3),
    "flipped bits": of.flipped_bits(2),
    "rotten ends": of.rotten_ends(1),
    "leftovers": of.leftovers(1),
}

#: The disk has no room, can't sync, or hasn't what wasn't synced.
DISKS: Mapping[str, Scenario] = {
    "failed syncs of the journal": of.failed_syncs(*list(SYNCS)[:3]),
    "failed syncs of the table, and the power": of.failed_syncs(*list(SYNCS)[3:], power=True),
    "power cuts, strict": of.power_cuts(3, strict=True),
    "power cuts, by luck": of.power_cuts(2, strict=False),
    "killed, then a power cut": of.kills_then_power_cut(1),
    "full journal": of.full_disk("journal", megabytes=4),
    "full tables": of.full_disk("tables", megabytes=4),
}

#: The same without a journal.
DELTA: Mapping[str, Scenario] = {
    "killed": of.without_journal(of.killed_at(*TABLE_POINTS[5::3])),
    "power cuts": of.without_journal(of.power_cuts(3, strict=True, points=TABLE_POINTS)),
}

_STEPS = 3


def drawn(draw: random.Random) -> tuple[str, Scenario]:
    """A round of the long run: what it is called, and what it does."""
    kinds = list(_LONG)
    kind = draw.choices(kinds, [_LONG[kind][0] for kind in kinds])[0]
    return kind, _LONG[kind][1](draw)


def _points(draw: random.Random) -> Scenario:
    return of.killed_at(*draw.sample(list(POINTS), _STEPS), nth_max=10)


def _upkeep(draw: random.Random) -> Scenario:
    return of.killed_in_upkeep(*draw.sample(list(UPKEEP_POINTS)[:13], _STEPS))


def _clean_up(draw: random.Random) -> Scenario:
    return of.killed_in_upkeep(*draw.sample(list(UPKEEP_POINTS)[13:], 2), settings=of.TIDY)


def _syncs(draw: random.Random) -> Scenario:
    return of.failed_syncs(*draw.sample(list(SYNCS), _STEPS), power=draw.random() < 0.5)


def _upkeep_syncs(draw: random.Random) -> Scenario:
    names = draw.sample(list(UPKEEP_SYNCS), 2)
    return of.failed_syncs(*names, power=draw.random() < 0.5, settings=of.OFTEN)


def _paused(draw: random.Random) -> Scenario:
    return of.paused_owners(*draw.sample(list(POINTS), 2))


def _delta(draw: random.Random) -> Scenario:
    return of.without_journal(
        draw.choice(
            (
                of.killed_at(*draw.sample(TABLE_POINTS, _STEPS), nth_max=10),
                of.killed_anywhere(_STEPS),
                of.power_cuts(_STEPS, strict=draw.random() < 0.5, points=TABLE_POINTS),
                of.kills_then_power_cut(1, points=TABLE_POINTS),
            )
        )
    )


#: How often which kind, and how it is drawn.
_LONG: Mapping[str, tuple[int, Callable[[random.Random], Scenario]]] = {
    "killed at points": (6, _points),
    "killed at random": (2, lambda draw: of.killed_at_random(_STEPS)),
    "killed at any call": (4, lambda draw: of.killed_anywhere(_STEPS)),
    "killed at its first start": (1, lambda draw: of.killed_at_birth(_STEPS)),
    "killed in upkeep": (3, _upkeep),
    "killed in clean-up": (1, _clean_up),
    "torn writes": (2, lambda draw: of.torn_writes(_STEPS)),
    "torn frames": (2, lambda draw: of.torn_frames(_STEPS)),
    "flipped bits": (1, lambda draw: of.flipped_bits(_STEPS)),
    "rotten ends": (1, lambda draw: of.rotten_ends(_STEPS)),
    "lost checkpoints": (1, lambda draw: of.lost_checkpoints(_STEPS)),
    "leftovers": (1, lambda draw: of.leftovers(_STEPS)),
    "failed syncs": (3, _syncs),
    "failed syncs in upkeep": (1, _upkeep_syncs),
    "power cuts": (5, lambda draw: of.power_cuts(_STEPS, strict=draw.random() < 0.5)),
    "killed, then a power cut": (3, lambda draw: of.kills_then_power_cut(2)),
    "full journal": (1, lambda draw: of.full_disk("journal", megabytes=4)),
    "full tables": (1, lambda draw: of.full_disk("tables", megabytes=4)),
    "paused owner": (2, _paused),
    "without a journal": (3, _delta),
    "killed jobs": (1, lambda draw: of.killed_jobs(2)),
}
