"""A home is one folder."""

from pathlib import Path

import pytest

from distributary.pipeline.tables.home.home import Home


def test_everything_lies_under_the_root(tmp_path: Path) -> None:
    """The layout is one folder."""
    home = Home(tmp_path)
    assert home.journal_dir == tmp_path / "journal"
    assert home.topic_log == tmp_path / "tables/topic_log"
    assert home.cursors == tmp_path / "tables/cursors"
    assert home.checkpoint("materialize") == tmp_path / "checkpoints/materialize"


def test_its_addresses_are_absolute_however_it_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A gateway tells its addresses to processes in other working folders."""
    monkeypatch.chdir(tmp_path)
    home = Home(Path("build/home"))
    monkeypatch.chdir("/")
    assert home.topic_log == tmp_path / "build/home/tables/topic_log"
