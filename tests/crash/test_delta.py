"""The short crash round, one part of it; what is done stands in `rounds.py`. Everything accepted
comes, nothing confirmed comes again, and the home is sound after it."""

import random
from pathlib import Path

import pytest
from rounds import DELTA
from scenarios import run


@pytest.mark.parametrize("kind", DELTA)
def test_without_a_journal_nothing_is_lost(tmp_path: Path, crash_seed: int, kind: str) -> None:
    """The seed is in the name of what failed; `--seed` chooses another."""
    run(DELTA[kind], tmp_path, random.Random(f"{crash_seed}/{kind}"))
