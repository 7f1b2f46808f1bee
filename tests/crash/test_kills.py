"""The short crash round: what is done stands in `rounds.py`, everything else of it in the files
beside this one. Whatever is done to a gateway, everything accepted comes, nothing confirmed comes
again, what may have been delivered is marked and what can't have been isn't, and the home is sound.
"""

import random
from pathlib import Path

import pytest
from rounds import KILLS
from scenarios import run


@pytest.mark.parametrize("kind", KILLS)
def test_a_gateway_that_is_killed_or_paused_loses_nothing(
    tmp_path: Path, crash_seed: int, kind: str
) -> None:
    """In the middle of its calls, at random, while it makes its home; another takes over."""
    run(KILLS[kind], tmp_path, random.Random(f"{crash_seed}/{kind}"))
