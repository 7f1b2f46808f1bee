"""The short round of take-overs: each harm once, on one home."""

import random
from pathlib import Path

import take_overs
from store_world import HARMS


def test_a_home_without_a_disk_changes_hands(tmp_path: Path) -> None:
    """Killed, paused, cut off from the store, held at a request until the next owner has merged:
    nothing is lost, and nothing comes twice that was settled."""
    draw = random.Random(5)
    report, seconds = take_overs.run(tmp_path / "round", draw, harms=HARMS)
    assert report.acknowledged
    assert len(seconds) == len(HARMS) + 1  # the owner that is held has the home from another one
