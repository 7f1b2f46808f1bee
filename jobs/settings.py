"""The jobs' settings: `conf/jobs.toml`, then the file that `--settings` names.

Each has its unit and reason where its default stands. Unknown keys, and values that can't go
together, are one sentence and exit code 2 before a JVM starts.
"""

import tomllib
from importlib import resources
from pathlib import Path

import msgspec

from pipeline.errors import InvalidRequest
from pipeline.layers import Tree, merge

#: Delta's own least time, in hours, for which removed files stay: a reader or a writer that began
#: before may still need them.
REMOVED_HOURS_MIN = 168


class MaterializeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    trigger: str
    upkeep_minutes: int


class UpkeepSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    file_bytes: int
    small_bytes: int
    small_files_max: int
    removed_hours: int
    log_days: int
    messages_days: int
    acks_days: int


class AuditSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class BackfillSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class SubscriptionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class JobSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings of all jobs; `load` is the only way to make one, so it is always checked."""

    materialize: MaterializeSettings
    upkeep: UpkeepSettings
    audit: AuditSettings
    backfill: BackfillSettings
    subscription: SubscriptionSettings


def load(file: Path | None = None) -> JobSettings:
    """The settings in force. Raises InvalidRequest naming the file, the key and what is wrong."""
    tree: Tree = tomllib.loads(resources.files("conf").joinpath("jobs.toml").read_text())
    if file is not None:
        merge(tree, _read(file), str(file))
    try:
        settings = msgspec.convert(tree, JobSettings)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"settings of jobs: {error}") from None
    for holds, sentence in (*_materialize_rules(settings), *_upkeep_rules(settings.upkeep)):
        if not holds:
            raise InvalidRequest(f"settings of jobs: {sentence}")
    return settings


def _read(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text())
    except OSError as error:
        raise InvalidRequest(f"settings file {file} can't be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"settings file {file} is not TOML: {error}") from None


def _materialize_rules(settings: JobSettings) -> tuple[tuple[bool, str], ...]:
    materialize = settings.materialize
    return (
        (bool(materialize.trigger.strip()), "materialize.trigger must not be empty"),
        (materialize.upkeep_minutes >= 0, "materialize.upkeep_minutes must not be negative"),
    )


def _upkeep_rules(upkeep: UpkeepSettings) -> tuple[tuple[bool, str], ...]:
    return (
        (upkeep.file_bytes >= 1 << 20, "upkeep.file_bytes must be 1 MiB at least"),
        (
            0 < upkeep.small_bytes <= upkeep.file_bytes // 2,
            "upkeep.small_bytes must be from 1 to half of upkeep.file_bytes: full files stay",
        ),
        (upkeep.small_files_max >= 2, "upkeep.small_files_max must be 2 at least"),
        (
            upkeep.removed_hours >= REMOVED_HOURS_MIN,
            f"upkeep.removed_hours must be {REMOVED_HOURS_MIN} at least: readers need their files",
        ),
        (
            upkeep.log_days * 24 >= upkeep.removed_hours,
            "upkeep.log_days must be as long as upkeep.removed_hours at least: both make a version",
        ),
        (upkeep.messages_days >= 0, "upkeep.messages_days must not be negative; 0: for ever"),
        (upkeep.acks_days >= 0, "upkeep.acks_days must not be negative; 0: for ever"),
    )
