"""The short crash round, one part of it; what is done stands in `rounds.py`. Everything accepted
comes, nothing confirmed comes again, and the home is sound after it."""

import random
from pathlib import Path

import pytest
from rounds import UPKEEP
from scenarios import run


@pytest.mark.parametrize("kind", UPKEEP)
def test_upkeep_that_is_killed_loses_nothing(tmp_path: Path, crash_seed: int, kind: str) -> None:
    """The seed is in the name of what failed; `--seed` chooses another."""
    run(UPKEEP[kind], tmp_path, random.Random(f"{crash_seed}/{kind}"))
