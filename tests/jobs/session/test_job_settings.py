"""The jobs' settings: defaults that fit together, and one sentence for what doesn't."""

from pathlib import Path

import pytest

from distributary.jobs.session.job_settings import load
from distributary.pipeline.errors import InvalidRequest


def said(tmp_path: Path, text: str) -> str:
    file = tmp_path / "jobs.toml"
    file.write_text(text)
    with pytest.raises(InvalidRequest) as error:
        load(file)
    return str(error.value)


def test_a_file_lies_over_the_defaults(tmp_path: Path) -> None:
    """Settings that it doesn't say keep their defaults."""
    file = tmp_path / "jobs.toml"
    file.write_text("[upkeep]\nsmall_files_max = 4\n")
    settings = load(file)
    assert settings.upkeep.small_files_max == 4
    assert settings.upkeep.file_bytes == load().upkeep.file_bytes


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[upkep]", "unknown section [upkep]; there are tables, materialize, upkeep"),
        ("[upkeep]\nvacuum = 1", "unknown key upkeep.vacuum; there are file_bytes"),
        ("[upkeep]\nfile_bytes = '1'", "Expected `int`, got `str`"),
        ("upkeep = 1", "unknown section [upkeep]"),
        ("[upkeep", "is not TOML"),
        ("[upkeep]\nsmall_bytes = 134217728", "half of upkeep.file_bytes"),
        ("[upkeep]\nsmall_files_max = 1", "small_files_max must be 2"),
        ("[upkeep]\nremoved_hours = 23", "upkeep.removed_hours must be 24"),
        ("[upkeep]\ncursors_removed_hours = 0", "upkeep.cursors_removed_hours must be 24"),
        ("[upkeep]\nlog_days = 6", "as long as upkeep.removed_hours"),
        ("[upkeep]\nlog_entries_max = 9", "log_entries_max must be 100"),
        ("[upkeep]\nmessages_days = -1", "messages_days must not be negative"),
        ("[upkeep]\nacks_days = 3", "an ack outlives its message"),
        ("[upkeep]\nmessages_days = 4\nacks_days = 3", "an ack outlives its message"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, sentence: str) -> None:
    """The sentence has the key, and the values that it may have."""
    assert sentence in said(tmp_path, text)


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    """By its name."""
    with pytest.raises(InvalidRequest, match=r"nowhere\.toml can't be read: No such file"):
        load(tmp_path / "nowhere.toml")
