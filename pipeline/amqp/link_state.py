"""State of one of our sending links in a flow: its delivery-count and the credit that is left.

The engine writes flows of its sessions, and flows of a sending link only when there is credit to
give back. Flow: AMQP 1.0 part 2, section 2.7.4.
"""

from collections.abc import Callable, Iterable

import msgspec

from distributary.pipeline.amqp.performative import encode, parse
from distributary.pipeline.codec.raw_values import FALSE, NULL, TRUE, uint_of

_HANDLE, _DELIVERY_COUNT, _LINK_CREDIT, _DRAIN = 4, 5, 6, 8


class LinkState(msgspec.Struct, frozen=True):
    """State of a link. `delivery_count` isn't cut to 32 bits, as on the wire; `credit` is never
    negative."""

    handle: int
    delivery_count: int
    credit: int
    drain: bool


def told(frame: bytes, states: Callable[[int], Iterable[LinkState]]) -> bytes:
    """Return the frames to send for a flow of the engine: the flow itself, or, for a session's
    flow, one with each link state that `states` gives for its channel. Raises DecodeError."""
    flow = parse(frame)
    if flow.field(_HANDLE) != NULL:
        return frame
    flows = [flow.with_fields(_fields(state)) for state in states(flow.channel)]
    return b"".join(map(encode, flows)) or frame


def _fields(state: LinkState) -> dict[int, bytes]:
    return {
        _HANDLE: uint_of(state.handle),
        _DELIVERY_COUNT: uint_of(state.delivery_count & 0xFFFFFFFF),
        _LINK_CREDIT: uint_of(state.credit),
        _DRAIN: TRUE if state.drain else FALSE,
    }
