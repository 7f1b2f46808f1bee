"""A home is one folder."""

from pathlib import Path

from pipeline.tables.home import Home


def test_everything_lies_under_the_root(tmp_path: Path) -> None:
    """The layout is one folder."""
    home = Home(tmp_path)
    assert home.journal_dir == tmp_path / "journal"
    assert home.topic_log == tmp_path / "tables/topic_log"
    assert home.cursors == tmp_path / "tables/cursors"
    assert home.checkpoint("materialize") == tmp_path / "checkpoints/materialize"
