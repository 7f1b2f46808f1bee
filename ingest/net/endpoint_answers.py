"""A peer's open, and our answers to its open, end and close, in Proton's terms."""

from typing import Any

from cproton import lib as proton
from proton import Condition, Data, Session, symbol
from proton import Connection as ProtonConnection

from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED
from distributary.pipeline.subscriptions.container_ids import SOLE_CONNECTION

#: What a peer may rely on.
OFFERED_CAPABILITIES = (
    "ANONYMOUS-RELAY",
    "DELAYED_DELIVERY",
    "SHARED-SUBS",
    SOLE_CONNECTION,
)


def sole(connection: ProtonConnection) -> bool:
    """Whether the peer's open desires the container id for this connection alone. Raises what
    Proton does on broken values."""
    data = Data(proton.pn_connection_remote_desired_capabilities(connection._impl))
    data.rewind()
    desired = data.get_object() if data.next() else None
    words = getattr(desired, "elements", desired)  # an array, a list, or one
    return SOLE_CONNECTION in (words if isinstance(words, list | tuple) else [words])


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


def wrapped(kind: Any, pointer: Any) -> Any:
    """Proton's Python object for one of its C objects."""
    return kind.wrap(pointer)
