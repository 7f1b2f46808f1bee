"""Our answers to a peer's open, end and close, in Proton's terms."""

from typing import Any

from proton import Condition, Session, symbol
from proton import Connection as ProtonConnection

from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED

#: What a peer may rely on.
OFFERED_CAPABILITIES = (
    "ANONYMOUS-RELAY",
    "DELAYED_DELIVERY",
    "SHARED-SUBS",
    "sole-connection-for-container",
)


def accepted(connection: ProtonConnection, container_id: str) -> None:
    """The answer to an open that is accepted."""
    connection.container = container_id
    connection.offered_capabilities = [symbol(name) for name in OFFERED_CAPABILITIES]
    connection.properties = {symbol("product"): "Distributary"}
    connection.open()


def refused(
    connection: ProtonConnection, container_id: str, condition: str, description: str, field: str
) -> None:
    """The form by which clients know that they were refused; a close must follow."""
    connection.container = container_id
    connection.properties = {symbol("amqp:connection-establishment-failed"): True}
    connection.open()
    info: Any = {symbol("invalid-field"): symbol(field)}
    connection.condition = Condition(condition, description, info)


def closed(endpoint: ProtonConnection | Session, late: str) -> None:
    """The answer to an end or a close: what was said before is durable, or (`late`) why that isn't
    known."""
    if late:
        endpoint.condition = Condition(LIMIT_EXCEEDED, late)
    endpoint.close()
