"""All limits of the settings together: how they must fit, and their sum in bytes."""

import msgspec

from distributary.ingest.runtime.settings import Settings, UpkeepSettings
from distributary.ingest.runtime.turns import READ_BYTES
from distributary.pipeline.tables.journal.frame import FRAME_BYTES_MAX
from distributary.pipeline.tables.upkeep.upkeep_limits import CHECKPOINT_COMMITS

#: Copies of `commit.bytes` in memory while a commit is made: frames, columns, the file.
COMMIT_COPIES = 3
#: Bytes of the engine's record of an unsettled delivery, beside the room of its message's bytes.
UNSETTLED_BYTES = 640
#: Bytes that one pass hands to a connection even if its socket takes none (`delivery.PASS_BYTES`).
PASS_BYTES = 1 << 20


class Together(msgspec.Struct, frozen=True):
    """Most bytes of buffers: of the whole gateway, of each connection in addition, and of a
    connection's records of unsettled deliveries, without their messages' bytes."""

    gateway: int
    connection: int
    unsettled: int


def together(settings: Settings) -> Together:
    """Return the sum of the limits in bytes."""
    amqp, journal = settings.amqp, settings.journal
    accepted = journal.backlog_bytes_max + journal.waiting_bytes_max
    return Together(
        gateway=amqp.unfinished_together_bytes_max
        + amqp.transactions_together_bytes_max
        + amqp.prepared_bytes_max
        + amqp.unwritten_bytes_max
        + settings.management.replies_together_bytes_max
        + settings.schemas.waiting_bytes_max
        + 2 * journal.waiting_bytes_max
        + accepted
        + COMMIT_COPIES * settings.commit.bytes
        + settings.delivery.cache_bytes
        + settings.delivery.memory_bytes_max,
        connection=amqp.write_buffer_bytes + READ_BYTES,
        unsettled=UNSETTLED_BYTES * amqp.connection_unsettled_max,
    )


def rules(settings: Settings) -> tuple[tuple[bool, str], ...]:
    """Return the rules of limits that bound each other: whether each holds, and its sentence."""
    amqp, delivery, commit = settings.amqp, settings.delivery, settings.commit
    group_bytes_max = commit.bytes + amqp.message_bytes_max + amqp.transaction_bytes_max
    return (
        *_upkeep_rules(settings.upkeep),
        (amqp.connections_max >= 1, "amqp.connections_max must be positive"),
        (amqp.links_max >= 1, "amqp.links_max must be positive"),
        (amqp.producer_credit >= 1, "amqp.producer_credit must be positive"),
        (amqp.unsettled_max >= 1, "amqp.unsettled_max must be positive"),
        (
            amqp.connection_unsettled_max >= amqp.unsettled_max,
            "amqp.connection_unsettled_max must be amqp.unsettled_max at least",
        ),
        (
            amqp.unfinished_together_bytes_max >= amqp.unfinished_bytes_max,
            "amqp.unfinished_together_bytes_max must be amqp.unfinished_bytes_max at least",
        ),
        (
            amqp.transactions_together_bytes_max >= amqp.transaction_bytes_max,
            "amqp.transactions_together_bytes_max must be amqp.transaction_bytes_max at least",
        ),
        (
            amqp.unwritten_bytes_max >= 2 * (amqp.write_buffer_bytes + PASS_BYTES),
            "amqp.unwritten_bytes_max must be twice amqp.write_buffer_bytes and 2 MiB at least",
        ),
        (
            settings.management.replies_together_bytes_max >= settings.management.replies_bytes_max,
            "management.replies_together_bytes_max must be management.replies_bytes_max at least",
        ),
        (amqp.name_bytes_max >= 64, "amqp.name_bytes_max must be 64 at least: clients make names"),
        (
            group_bytes_max <= FRAME_BYTES_MAX,
            (
                "commit.bytes, amqp.message_bytes_max and amqp.transaction_bytes_max must be "
                f"{FRAME_BYTES_MAX >> 20} MiB together at most: one frame of the journal holds them"
            ),
        ),
        (amqp.transactions_max >= 1, "amqp.transactions_max must be positive"),
        (amqp.transaction_bytes_max >= 1, "amqp.transaction_bytes_max must be positive"),
        (amqp.prepared_max >= 0, "amqp.prepared_max is negative"),
        (amqp.prepared_of_user_max >= 0, "amqp.prepared_of_user_max is negative"),
        (amqp.prepared_bytes_max >= 0, "amqp.prepared_bytes_max is negative"),
        (
            amqp.transaction_timeout_seconds >= 1,
            "amqp.transaction_timeout_seconds must be positive",
        ),
        (amqp.close_answer_ms_max >= 1, "amqp.close_answer_ms_max must be positive"),
        (amqp.turn_deliveries_max >= 1, "amqp.turn_deliveries_max must be positive"),
        (
            delivery.turn_subscriptions_max >= 1,
            "delivery.turn_subscriptions_max must be positive",
        ),
    )


def _upkeep_rules(upkeep: UpkeepSettings) -> tuple[tuple[bool, str], ...]:
    return (
        (
            upkeep.log_entries_max >= 2 * CHECKPOINT_COMMITS,
            f"upkeep.log_entries_max must be {2 * CHECKPOINT_COMMITS} at least: two checkpoints",
        ),
        (upkeep.retention_days >= 0, "upkeep.retention_days must not be negative; 0: for ever"),
        (upkeep.idle_floor_sequences >= 1, "upkeep.idle_floor_sequences must be positive"),
        (upkeep.removed_bytes_max >= 0, "upkeep.removed_bytes_max must not be negative"),
        (upkeep.log_retention_days >= 1, "upkeep.log_retention_days must be positive"),
        (
            not upkeep.retention_days or upkeep.retention_days >= upkeep.log_retention_days,
            "upkeep.retention_days must be upkeep.log_retention_days at least, or jobs miss rows",
        ),
    )
