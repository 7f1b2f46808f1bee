"""What all limits of the settings come to together: how they must fit, and their sum."""

from typing import TYPE_CHECKING

from pipeline.tables.frame import FRAME_BYTES_MAX

if TYPE_CHECKING:
    from ingest.settings import Settings


def rules(settings: "Settings") -> tuple[tuple[bool, str], ...]:
    """What must hold of limits that bound each other, and the sentence that says so."""
    amqp, delivery, commit = settings.amqp, settings.delivery, settings.commit
    group_bytes_max = commit.bytes + amqp.message_bytes_max + amqp.transaction_bytes_max
    return (
        (amqp.connections_max >= 1, "amqp.connections_max must be positive"),
        (amqp.links_max >= 1, "amqp.links_max must be positive"),
        (amqp.producer_credit >= 1, "amqp.producer_credit must be positive"),
        (amqp.unsettled_max >= 1, "amqp.unsettled_max must be positive"),
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
