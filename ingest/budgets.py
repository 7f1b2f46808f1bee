"""What all limits of the settings come to together: how they must fit, and their sum."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipeline.tables.frame import FRAME_BYTES_MAX

if TYPE_CHECKING:
    from ingest.settings import Settings


#: What is as large as `commit.bytes` while a commit is made: frames, columns, the file.
COMMIT_COPIES = 3
#: Bytes that one pass hands to a connection beyond what its socket takes (`delivery.PASS_BYTES`).
PASS_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Together:
    """Bytes that buffers may have: those of the whole gateway, and beside them those of one
    connection. What consumers hold unsettled isn't in it: that is bounded by count."""

    gateway: int
    connection: int


def together(settings: "Settings") -> Together:
    """The sum of the limits in bytes."""
    amqp, journal = settings.amqp, settings.journal
    accepted = journal.backlog_bytes_max + journal.waiting_bytes_max
    return Together(
        gateway=amqp.unfinished_together_bytes_max
        + 2 * journal.waiting_bytes_max
        + accepted
        + COMMIT_COPIES * settings.commit.bytes
        + settings.delivery.cache_bytes,
        connection=2 * amqp.write_buffer_bytes
        + PASS_BYTES
        + amqp.unfinished_bytes_max
        + settings.management.replies_bytes_max,
    )


def rules(settings: "Settings") -> tuple[tuple[bool, str], ...]:
    """What must hold of limits that bound each other, and the sentence that says so."""
    amqp, delivery, commit = settings.amqp, settings.delivery, settings.commit
    group_bytes_max = commit.bytes + amqp.message_bytes_max + amqp.transaction_bytes_max
    return (
        (amqp.connections_max >= 1, "amqp.connections_max must be positive"),
        (amqp.links_max >= 1, "amqp.links_max must be positive"),
        (amqp.producer_credit >= 1, "amqp.producer_credit must be positive"),
        (amqp.unsettled_max >= 1, "amqp.unsettled_max must be positive"),
        (
            amqp.unfinished_together_bytes_max >= amqp.unfinished_bytes_max,
            "amqp.unfinished_together_bytes_max must be amqp.unfinished_bytes_max at least",
        ),
        (amqp.name_bytes_max >= 64, "amqp.name_bytes_max must be 64 at least: clients make names"),
        (
            group_bytes_max <= FRAME_BYTES_MAX,
            (
                "commit.bytes, amqp.message_bytes_max and amqp.transaction_bytes_max must be "
                f"{FRAME_BYTES_MAX >> 20} MiB together at most: one frame of the journal holds them"
            ),
        ),
        (amqp.turn_deliveries_max >= 1, "amqp.turn_deliveries_max must be positive"),
        (
            delivery.turn_subscriptions_max >= 1,
            "delivery.turn_subscriptions_max must be positive",
        ),
    )
