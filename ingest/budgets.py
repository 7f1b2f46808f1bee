"""What all limits of the settings come to together: how they must fit, and their sum."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ingest.settings import Settings


def rules(settings: "Settings") -> tuple[tuple[bool, str], ...]:
    """What must hold of limits that bound each other, and the sentence that says so."""
    amqp, delivery = settings.amqp, settings.delivery
    return (
        (amqp.connections_max >= 1, "amqp.connections_max must be positive"),
        (amqp.links_max >= 1, "amqp.links_max must be positive"),
        (amqp.producer_credit >= 1, "amqp.producer_credit must be positive"),
        (amqp.unsettled_max >= 1, "amqp.unsettled_max must be positive"),
        (amqp.turn_deliveries_max >= 1, "amqp.turn_deliveries_max must be positive"),
        (
            delivery.turn_subscriptions_max >= 1,
            "delivery.turn_subscriptions_max must be positive",
        ),
    )
