"""The jobs' settings: `conf/jobs.toml`, then the file that `--settings` names.

Each has its unit and reason beside its default. Unknown keys, and values that contradict each
other, end with one sentence and exit code 2 before a JVM starts.
"""

import tomllib
from importlib import resources
from pathlib import Path

import msgspec

from distributary.pipeline.codec.amqp_types import DecodeLimits
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.layered_settings import Tree, merge
from distributary.pipeline.transforms.decoding.one_by_one import MessageLimits

#: Hours for which removed files stay at least: readers and writers that began before may need them.
REMOVED_HOURS_MIN = 24
#: Seconds of a lease at least: stores take hundreds of ms for a request now and then.
LEASE_SECONDS_MIN = 3
#: Entries of a table's log that stay at least: Delta makes a checkpoint every ten.
LOG_ENTRIES_MIN = 100


class TablesSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    lease_seconds: int


class MaterializeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    trigger: str
    upkeep_minutes: int
    near_versions: int
    slice_rows: int
    slice_bytes: int
    task_bytes: int
    decode_values_max: int
    json_chars_max: int
    logs_at_once: int
    lake_seconds: int

    @property
    def message(self) -> MessageLimits:
        """Limits of one message's row in the table `messages`."""
        return MessageLimits(DecodeLimits(self.decode_values_max), self.json_chars_max)


class UpkeepSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    file_bytes: int
    small_bytes: int
    small_files_max: int
    removed_hours: int
    cursors_removed_hours: int
    vacuum_hours: int
    log_days: int
    log_entries_max: int
    messages_days: int
    acks_days: int


class AuditSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    queue_turns: bool
    reports_kept: int


class BackfillSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    matches_max: int
    request_matches: int


class SubscriptionSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    trigger_messages_max: int
    offset_bytes_max: int
    task_messages: int
    wait_ms: int
    linger_seconds: int
    breath_seconds: int
    answer_seconds: int


class JobSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All settings of all jobs; `load` is the only way to make one, so it is always checked."""

    tables: TablesSettings
    materialize: MaterializeSettings
    upkeep: UpkeepSettings
    audit: AuditSettings
    backfill: BackfillSettings
    subscription: SubscriptionSettings


def load(file: Path | None = None) -> JobSettings:
    """Return the settings in force. Raises InvalidRequest naming file, key and error."""
    tree: Tree = tomllib.loads(
        resources.files("distributary.conf").joinpath("jobs.toml").read_text()
    )
    if file is not None:
        merge(tree, _read(file), str(file))
    try:
        settings = msgspec.convert(tree, JobSettings)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"settings of jobs: {error}") from None
    for holds, sentence in (
        (
            settings.tables.lease_seconds >= LEASE_SECONDS_MIN,
            f"tables.lease_seconds must be {LEASE_SECONDS_MIN} at least: a request has a sixth",
        ),
        *_materialize_rules(settings),
        *_upkeep_rules(settings.upkeep),
        *_backfill_rules(settings.backfill),
        *_subscription_rules(settings.subscription),
    ):
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
        (materialize.near_versions >= 0, "materialize.near_versions must not be negative"),
        (materialize.slice_rows >= 1, "materialize.slice_rows must be 1 at least"),
        (
            materialize.decode_values_max >= 1_024,
            "materialize.decode_values_max must be 1024 at least: a plain message needs it",
        ),
        (materialize.json_chars_max >= 1, "materialize.json_chars_max must be positive"),
        (materialize.logs_at_once >= 1, "materialize.logs_at_once must be 1 at least"),
        (materialize.lake_seconds >= 1, "materialize.lake_seconds must be 1 at least"),
        (
            1 <= materialize.task_bytes <= materialize.slice_bytes,
            "materialize.task_bytes must be from 1 to materialize.slice_bytes: a slice has tasks",
        ),
    )


def _backfill_rules(backfill: BackfillSettings) -> tuple[tuple[bool, str], ...]:
    return (
        (backfill.matches_max >= 0, "backfill.matches_max must not be negative; 0: tell none"),
        (backfill.request_matches >= 1, "backfill.request_matches must be 1 at least"),
    )


def _upkeep_rules(upkeep: UpkeepSettings) -> tuple[tuple[bool, str], ...]:
    return (
        (upkeep.file_bytes >= 1 << 20, "upkeep.file_bytes must be 1 MiB at least"),
        (
            0 < upkeep.small_bytes <= upkeep.file_bytes // 2,
            "upkeep.small_bytes must be from 1 to half of upkeep.file_bytes: full files stay",
        ),
        (upkeep.small_files_max >= 2, "upkeep.small_files_max must be 2 at least"),
        *(
            (
                hours >= REMOVED_HOURS_MIN,
                f"upkeep.{name} must be {REMOVED_HOURS_MIN} at least: readers need their files",
            )
            for name, hours in (
                ("removed_hours", upkeep.removed_hours),
                ("cursors_removed_hours", upkeep.cursors_removed_hours),
            )
        ),
        (upkeep.vacuum_hours >= 0, "upkeep.vacuum_hours must not be negative; 0: each time"),
        (
            upkeep.log_days * 24 >= max(upkeep.removed_hours, upkeep.cursors_removed_hours),
            "upkeep.log_days must be as long as upkeep.removed_hours at least: both make a version",
        ),
        (
            upkeep.log_entries_max >= LOG_ENTRIES_MIN,
            f"upkeep.log_entries_max must be {LOG_ENTRIES_MIN} at least: a few checkpoints",
        ),
        (upkeep.messages_days >= 0, "upkeep.messages_days must not be negative; 0: no limit"),
        (upkeep.acks_days >= 0, "upkeep.acks_days must not be negative; 0: no limit"),
        (
            not upkeep.acks_days or 0 < upkeep.messages_days <= upkeep.acks_days,
            "upkeep.acks_days must be upkeep.messages_days at least: an ack outlives its message",
        ),
    )


def _subscription_rules(wanted: SubscriptionSettings) -> tuple[tuple[bool, str], ...]:
    return (
        (wanted.trigger_messages_max >= 1, "subscription.trigger_messages_max must be positive"),
        (wanted.offset_bytes_max >= 256, "subscription.offset_bytes_max must be 256 at least"),
        (wanted.task_messages >= 1, "subscription.task_messages must be positive"),
        (wanted.linger_seconds >= 0, "subscription.linger_seconds must not be negative"),
        (wanted.breath_seconds >= 1, "subscription.breath_seconds must be positive"),
        (
            0 <= wanted.wait_ms < wanted.answer_seconds * 1_000,
            "subscription.wait_ms must be shorter than subscription.answer_seconds",
        ),
    )
