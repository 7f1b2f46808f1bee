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
    """A connection, as far as its own open and close go."""

    proton: Any  #: the engine's own

    def closed(self) -> None:
        """The peer has closed: so do we."""


#: What a peer may rely on.
OFFERED_CAPABILITIES = (
    "ANONYMOUS-RELAY",
    "DELAYED_DELIVERY",
    "SHARED-SUBS",
    SOLE_CONNECTION,
)


def engine(limits: Amqp) -> tuple[ProtonConnection, Collector, Transport]:
    """The engine's objects for one more peer: a connection, its events, its transport."""
    connection, events = ProtonConnection(), Collector()
    connection.collect(events)
    made = Transport(Transport.SERVER)
    made.max_frame_size = limits.frame_bytes_max
    bound(made, limits)
    made.bind(connection)
    return connection, events, made


def bound(transport: Transport, limits: Amqp) -> None:
    """The limits that our open tells the peer; it hasn't gone yet."""
    transport.idle_timeout = limits.idle_timeout_ms / 1_000
    transport.channel_max = limits.channels_max - 1


def ticked(transport: Transport, now_ms: int, idle_ms: int, *, held: bool) -> int:
    """The engine's clock: heartbeats to the peer, and its silence noticed. One that is `held` isn't
    read, so nobody knows whether it is silent. When to do it again; 0 for never."""
    transport.idle_timeout = 0 if held else idle_ms / 1_000
    again = int(proton.pn_transport_tick(transport._impl, now_ms))
    return again or (now_ms + idle_ms if held else 0)


def unwritten(transport: asyncio.Transport | None) -> int:
    """Bytes that the socket hasn't taken: its peer doesn't, or nobody is there any more."""
    return 0 if transport is None else transport.get_write_buffer_size()


def end(transport: asyncio.Transport | None) -> None:
    """No byte is waited for any more."""
    if transport is not None:
        (transport.abort if unwritten(transport) else transport.close)()


def end_output(transport: asyncio.Transport) -> None:
    """Nothing more is written; the peer may go on."""
    try:
        transport.write_eof()
    except OSError:  # the peer has reset its socket, and the loop hasn't read that yet
        transport.abort()


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
