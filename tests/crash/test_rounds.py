"""The short crash round, the rest: upkeep, damaged bytes, and a gateway without a journal."""

import random
from pathlib import Path

import pytest
from rounds import DAMAGE, DELTA, UPKEEP, drawn
from scenarios import run

OTHERS = {**UPKEEP, **DAMAGE, **DELTA}


@pytest.mark.parametrize("kind", OTHERS)
def test_nothing_is_lost(tmp_path: Path, crash_seed: int, kind: str) -> None:
    """Killed in the middle of merges and checkpoints; frames torn, bits turned, files left over;
    accepted only after the commit."""
    run(OTHERS[kind], tmp_path, random.Random(f"{crash_seed}/{kind}"))


def test_a_seed_draws_the_same_rounds_again() -> None:
    """And two hundred of them are of every kind."""
    kinds = [drawn(random.Random(f"7/{number}"))[0] for number in range(200)]
    assert kinds == [drawn(random.Random(f"7/{number}"))[0] for number in range(200)]
    assert len(set(kinds)) >= 18
