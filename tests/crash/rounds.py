"""Choice of scenarios: each kind once in the short round, drawn by lot in the long one.

The harms of a round depend on its seed alone; their moments depend on the machine too. So the same
seed does the same things to the gateway, but not always with the same end.
"""

import random
from collections.abc import Callable, Mapping

import disk_scenarios as disks
import scenarios as of
from points import POINTS, SYNCS, TABLE_POINTS, UPKEEP_POINTS, UPKEEP_SYNCS
from scenarios import Scenario

DEFAULT_SEED = 7

#: The process is killed, paused, or replaced in good order.
KILLS: Mapping[str, Scenario] = {
    "on the way to the journal": of.in_turn(
        of.killed_at(
            "after the journal is written",
            "after the journal is synced",
            "before a segment has its name",
            "before a segment is given back",
        ),
        of.killed_at_random(1),
    ),
    "on the way to the table": of.in_turn(
        of.killed_at(
            "after a data file is made",
            "before a data file is synced",
            "before a commit is linked",
            "after a commit is linked",
            "after the commit's name is synced",
        ),
        of.torn_writes(2),
    ),
    "in transactions": of.transfers_killed_at(
        "before the journal is written",
        "after the journal is written",
        "after the journal is synced",
        "before a commit is linked",
        "after a commit is linked",
    ),
    "at any call": of.in_turn(
        of.killed_at_birth(2), of.killed_anywhere(1), of.killed_while_it_stops(1)
    ),
    "handed over": of.handed_over(6),
    "paused": of.paused_owners("before the journal is synced", "before a commit is linked"),
}

#: Upkeep is under way.
UPKEEP: Mapping[str, Scenario] = {
    "in upkeep": of.in_turn(
        of.killed_in_upkeep(
            "before merged files are synced",
            "before the swap of merged files",
            "after the swap of merged files",
            "before a checkpoint has its name",
            "after the last checkpoint is named",
        ),
        of.lost_checkpoints(2),
        disks.failed_syncs("sync of merged files fails", settings=of.OFTEN),
    ),
    "held": of.held_owners("before the last checkpoint is named"),
}

#: Bytes are others than they were.
DAMAGE: Mapping[str, Scenario] = {
    "damaged": of.in_turn(
        of.torn_frames(2), of.flipped_bits(1), of.rotten_ends(1), of.leftovers(1)
    ),
}

#: The disk has no room, can't sync, or hasn't what wasn't synced.
DISKS: Mapping[str, Scenario] = {
    "can't sync": disks.failed_syncs(
        "sync of the journal fails",
        "sync of a returned segment's name fails",
        "sync of a data file fails",
        "sync of the commit's name fails",
        "sync of the marks fails",
        power=True,
    ),
    "loses power": of.in_turn(
        disks.power_cuts_at("after a segment's name is synced", "after the journal is synced"),
        disks.power_cuts(2, strict=False),
        disks.kills_then_power_cut(1),
    ),
    "doesn't say what became of it": disks.unknown_outcomes(4),
    "has no room for the journal": disks.full_disk("journal", 1),
    "has no room for the tables": disks.full_disk("tables", 1),
}

#: The same without a journal.
DELTA: Mapping[str, Scenario] = {
    "without a journal": of.without_journal(
        of.in_turn(
            of.killed_at("before a data file is synced", "after a commit is linked"),
            disks.power_cuts(2, strict=True, points=TABLE_POINTS),
        )
    ),
}

_STEPS = 3


def drawn(draw: random.Random) -> tuple[str, Scenario]:
    """A round of the long run: what it is called, and what it does."""
    kinds = list(_LONG)
    kind = draw.choices(kinds, [_LONG[kind][0] for kind in kinds])[0]
    return kind, _LONG[kind][1](draw)


def _points(draw: random.Random) -> Scenario:
    return of.killed_at(*draw.sample(list(POINTS), _STEPS), nth_max=10)


def _stops(draw: random.Random) -> Scenario:
    return of.killed_while_it_stops(_STEPS, power=draw.random() < 0.5)


def _upkeep(draw: random.Random) -> Scenario:
    return of.killed_in_upkeep(*draw.sample(list(UPKEEP_POINTS)[:13], _STEPS))


def _clean_up(draw: random.Random) -> Scenario:
    return of.killed_in_upkeep(*draw.sample(list(UPKEEP_POINTS)[13:], 2), settings=of.TIDY)


def _syncs(draw: random.Random) -> Scenario:
    return disks.failed_syncs(*draw.sample(list(SYNCS), _STEPS), power=draw.random() < 0.5)


def _upkeep_syncs(draw: random.Random) -> Scenario:
    names = draw.sample(list(UPKEEP_SYNCS), 2)
    return disks.failed_syncs(*names, power=draw.random() < 0.5, settings=of.OFTEN)


def _power_cuts(draw: random.Random) -> Scenario:
    return disks.power_cuts_at(*draw.sample(list(POINTS), _STEPS))


def _paused(draw: random.Random) -> Scenario:
    return of.paused_owners(*draw.sample(list(POINTS), 2))


def _held(draw: random.Random) -> Scenario:
    return of.held_owners(*draw.sample(list(UPKEEP_POINTS), 2))


def _delta(draw: random.Random) -> Scenario:
    return of.without_journal(
        draw.choice(
            (
                of.killed_at(*draw.sample(TABLE_POINTS, _STEPS), nth_max=10),
                of.killed_anywhere(_STEPS),
                disks.power_cuts(_STEPS, strict=draw.random() < 0.5, points=TABLE_POINTS),
                disks.kills_then_power_cut(1, points=TABLE_POINTS),
            )
        )
    )


def _audited(draw: random.Random) -> Scenario:
    return of.audited(
        of.killed_at(*draw.sample(list(POINTS), _STEPS)),
        of.killed_at_random(1),
        disks.power_cuts(1, strict=draw.random() < 0.5),
    )


#: How often which kind, and how it is drawn.
_LONG: Mapping[str, tuple[int, Callable[[random.Random], Scenario]]] = {
    "killed at points": (6, _points),
    "killed in transactions": (
        3,
        lambda draw: of.transfers_killed_at(*draw.sample(list(POINTS), _STEPS)),
    ),
    "killed at random": (2, lambda draw: of.killed_at_random(_STEPS)),
    "killed at any call": (4, lambda draw: of.killed_anywhere(_STEPS)),
    "killed at its first start": (1, lambda draw: of.killed_at_birth(_STEPS)),
    "killed while it stops": (2, _stops),
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
    "power cuts": (5, lambda draw: disks.power_cuts(_STEPS, strict=draw.random() < 0.5)),
    "power cuts at points": (3, _power_cuts),
    "killed, then a power cut": (3, lambda draw: disks.kills_then_power_cut(2)),
    "unknown outcomes": (4, lambda draw: disks.unknown_outcomes(2 * _STEPS)),
    "unknown outcomes in upkeep": (
        2,
        lambda draw: disks.unknown_outcomes(2 * _STEPS, settings=of.OFTEN),
    ),
    "full journal": (1, lambda draw: disks.full_disk("journal", 2)),
    "full tables": (1, lambda draw: disks.full_disk("tables", 2)),
    "handed over": (1, lambda _: of.handed_over(20)),
    "paused owner": (2, _paused),
    "held owner": (2, _held),
    "without a journal": (3, _delta),
    "built elsewhere": (
        3,
        lambda draw: of.built_elsewhere(
            of.in_turn(
                of.killed_at_random(1),
                of.killed_at(*draw.sample(TABLE_POINTS, _STEPS)),
                disks.power_cuts(1, strict=draw.random() < 0.5),
            )
        ),
    ),
    "killed jobs": (1, lambda draw: of.killed_jobs(2)),
    "audited": (1, _audited),
}
