"""The short crash round, one part of it; what is done stands in `rounds.py`. Everything accepted
comes, nothing confirmed comes again, and the home is sound after it."""

import random
from pathlib import Path

import pytest
from rounds import DISKS
from scenarios import run


@pytest.mark.parametrize("kind", DISKS)
def test_a_bad_disk_loses_nothing(tmp_path: Path, crash_seed: int, kind: str) -> None:
    """The seed is in the name of what failed; `--seed` chooses another."""
    run(DISKS[kind], tmp_path, random.Random(f"{crash_seed}/{kind}"))
