"""A peer's open, and our answers to its open, end and close, in Proton's terms."""

import asyncio
from typing import Any, Protocol

from cproton import lib as proton
from proton import Collector, Condition, Data, Session, Transport, symbol
from proton import Connection as ProtonConnection

from distributary.ingest.net.link import Peer
from distributary.ingest.runtime.settings import Amqp
from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED
from distributary.pipeline.subscriptions.container_ids import SOLE_CONNECTION


class EndedPeer(Peer, Protocol):
    """A connection, with its own open and close."""

    proton: Any  #: the engine's object

    def closed(self) -> None:
        """Answer the peer's close."""


#: Capabilities on which a peer may rely.
OFFERED_CAPABILITIES = (
    "ANONYMOUS-RELAY",
    "DELAYED_DELIVERY",
    "SHARED-SUBS",
    SOLE_CONNECTION,
)


def engine(limits: Amqp) -> tuple[ProtonConnection, Collector, Transport]:
    """Make the engine's objects for a new peer: a connection, its events, its transport."""
    connection, events = ProtonConnection(), Collector()
    connection.collect(events)
    made = Transport(Transport.SERVER)
    made.max_frame_size = limits.frame_bytes_max
    bound(made, limits)
    made.bind(connection)
    return connection, events, made


def bound(transport: Transport, limits: Amqp) -> None:
    """Set the limits that our open tells the peer; before the open is sent."""
    transport.idle_timeout = limits.idle_timeout_ms / 1_000
    transport.channel_max = limits.channels_max - 1


def ticked(transport: Transport, now_ms: int, idle_ms: int, *, held: bool) -> int:
    """Run the engine's clock: it sends heartbeats and notices the peer's silence. A peer that is
    `held` isn't read, so its silence can't be judged. Return when to do it again; 0: never."""
    transport.idle_timeout = 0 if held else idle_ms / 1_000
    again = int(proton.pn_transport_tick(transport._impl, now_ms))
    return again or (now_ms + idle_ms if held else 0)


def unwritten(transport: asyncio.Transport | None) -> int:
    """Return the bytes that the socket hasn't taken, as its peer reads slowly or is gone."""
    return 0 if transport is None else transport.get_write_buffer_size()


def end(transport: asyncio.Transport | None) -> None:
    """Close the socket at once, and drop bytes that it hasn't taken."""
    if transport is not None:
        (transport.abort if unwritten(transport) else transport.close)()


def end_output(transport: asyncio.Transport) -> None:
    """Close the socket for writing; the peer may still send."""
    try:
        transport.write_eof()
    except OSError:  # the peer has reset its socket, and the loop hasn't read that yet
        transport.abort()


def sole(connection: ProtonConnection) -> bool:
    """Whether the peer's open desires the container id for this connection alone. Raises
    BROKEN_VALUES."""
    data = Data(proton.pn_connection_remote_desired_capabilities(connection._impl))
    data.rewind()
    desired = data.get_object() if data.next() else None
    words = getattr(desired, "elements", desired)  # of an array; else a list or one symbol
    return SOLE_CONNECTION in (words if isinstance(words, list | tuple) else [words])


def accepted(connection: ProtonConnection, container_id: str) -> None:
    """Answer an open that is accepted."""
    connection.container = container_id
    connection.offered_capabilities = [symbol(name) for name in OFFERED_CAPABILITIES]
    connection.properties = {symbol("product"): "Distributary"}
    connection.open()


def refused(
    connection: ProtonConnection, container_id: str, condition: str, description: str, field: str
) -> None:
    """Answer an open in the form by which clients know that they were refused; a close must
    follow."""
    connection.container = container_id
    connection.properties = {symbol("amqp:connection-establishment-failed"): True}
    connection.open()
    info: Any = {symbol("invalid-field"): symbol(field)}
    connection.condition = Condition(condition, description, info)


def closed(endpoint: ProtonConnection | Session, late: str) -> None:
    """Answer an end or a close: earlier outcomes are durable, or (`late`) why that isn't known."""
    if late:
        endpoint.condition = Condition(LIMIT_EXCEEDED, late)
    endpoint.close()


def wrapped(kind: Any, pointer: Any) -> Any:
    """Return Proton's Python object for one of its C objects."""
    return kind.wrap(pointer)
