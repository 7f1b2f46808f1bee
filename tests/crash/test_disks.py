"""The short crash round, disks: they are full, can't sync, or forget what wasn't synced."""

import random
from pathlib import Path

import pytest
from rounds import DISKS
from scenarios import run


@pytest.mark.parametrize("kind", DISKS)
def test_a_bad_disk_loses_nothing(tmp_path: Path, crash_seed: int, kind: str) -> None:
    """Publishers wait, or the gateway stops, or what is left is all that was accepted."""
    run(DISKS[kind], tmp_path, random.Random(f"{crash_seed}/{kind}"))
