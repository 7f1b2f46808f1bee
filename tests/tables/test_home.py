"""A home has one owner."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.errors import HomeLocked
from pipeline.tables.home import Home, lock

OWNER = """
import sys
from pathlib import Path
from pipeline.tables.home import Home, lock
with lock(Home(Path(sys.argv[1]))):
    print("mine", flush=True)
    sys.stdin.read()
"""


def test_a_second_owner_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    """Two processes can't own one home; a killed one leaves it free."""
    home = Home(tmp_path / "new" / "home")
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, home.root],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "mine\n"
        with pytest.raises(HomeLocked, match=f"pid {owner.pid}"), lock(home):
            pass
        owner.kill()
    with lock(home):
        assert home.lock_path.exists()


def test_a_home_is_free_after_its_block(tmp_path: Path) -> None:
    """The lock ends with the block that holds it."""
    home = Home(tmp_path)
    for _ in range(2):
        with lock(home):
            pass


def test_everything_lies_under_the_root(tmp_path: Path) -> None:
    """The layout is one folder."""
    home = Home(tmp_path)
    assert home.journal_dir == tmp_path / "journal"
    assert home.topic_log == tmp_path / "tables/topic_log"
    assert home.cursors == tmp_path / "tables/cursors"
    assert home.checkpoint("materialize") == tmp_path / "checkpoints/materialize"
