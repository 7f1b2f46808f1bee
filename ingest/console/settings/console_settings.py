"""The console's settings: `conf/console.toml`, then the file that `--config` names.

Each has its unit and reason where its default stands. Unknown keys, and values that can't be, are
one sentence.
"""

import tomllib
from importlib import resources
from pathlib import Path

import msgspec

from distributary.ingest.console.log_rows.record_limits import RecordLimits
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.layered_settings import Tree, merge


class RequestSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    connections_max: int
    head_bytes_max: int
    seconds_max: int
    stop_seconds: int


class SessionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sessions_max: int
    idle_minutes: int
    hours_max: int
    logins_together: int


class AskingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    answer_seconds: int
    poll_ms: int
    quiet_seconds: int
    poll_part: float
    sweep_part: float
    sweep_seconds: int
    line_seconds: int
    history_seconds: int


class PageSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rows: int
    rows_max: int
    form_bytes_max: int
    held_rows: int


class ProblemSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    backlog_age_seconds: int
    journal_part: float
    commit_lag_seconds: int
    loop_stall_ms: int


class ConsoleSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings; `load` is the only way to make one, so it is always checked."""

    requests: RequestSettings
    sessions: SessionSettings
    asking: AskingSettings
    pages: PageSettings
    records: RecordLimits
    problems: ProblemSettings


def load(file: Path | None = None) -> ConsoleSettings:
    """The settings in force. Raises InvalidRequest naming the file, the key and the error."""
    text = resources.files("distributary.conf").joinpath("console.toml").read_text()
    tree: Tree = tomllib.loads(text)
    if file is not None:
        merge(tree, _read(file), str(file))
    try:
        settings = msgspec.convert(tree, ConsoleSettings)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"settings of the console: {error}") from None
    for name, least in _whole_numbers(settings):
        raise InvalidRequest(f"settings of the console: {name} must be {least} at least")
    for name, value in (
        ("asking.poll_part", settings.asking.poll_part),
        ("asking.sweep_part", settings.asking.sweep_part),
        ("problems.journal_part", settings.problems.journal_part),
    ):
        if not 0 < value <= 1:
            raise InvalidRequest(f"settings of the console: {name} must be above 0 and 1 at most")
    return settings


def _whole_numbers(settings: ConsoleSettings) -> list[tuple[str, int]]:
    """The whole numbers that are too small, each with the least that it may be."""
    parts = (
        settings.requests,
        settings.sessions,
        settings.asking,
        settings.pages,
        settings.records,
        settings.problems,
    )
    names = ("requests", "sessions", "asking", "pages", "records", "problems")
    return [
        (f"{name}.{field}", 1)
        for name, part in zip(names, parts, strict=True)
        for field in part.__struct_fields__
        if isinstance(value := getattr(part, field), int) and value < 1
    ]


def _read(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidRequest(f"settings file {file} can't be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"settings file {file} is not TOML: {error}") from None
