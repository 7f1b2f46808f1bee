"""The guard before the engine: the endpoints that a peer has open, and refusals of its frames.

The engine trusts its peers: a transfer on a link that receives, or a second begin of one session,
would end the process. The rules are in `pipeline.amqp.endpoint_states`; C code (`guard.c`) applies
them to each frame in the walk.
"""

from distributary.ingest.native.pump_library import ffi, lib
from distributary.pipeline.amqp.endpoint_states import condition_and_sentence

#: Endpoints (sessions and links) that a connection has room for at first; a power of two.
ROOM_FIRST = 8


class Guard:
    """The endpoints of one peer, in a table that grows with them.

    A connection never has more than `channels_max` sessions and twice `links_max` links: refused
    links count until their peer detaches them.
    """

    def __init__(self, channels_max: int, links_max: int) -> None:
        self._endpoints = ffi.new("pump_endpoint[]", ROOM_FIRST)
        self.states = ffi.new(
            "pump_guard *",
            {
                "endpoints": self._endpoints,
                "room": ROOM_FIRST,
                "channel_max": channels_max - 1,
                "links_max": links_max,
            },
        )

    def grow(self) -> None:
        """Make room for more endpoints."""
        room = 2 * self.states.room
        endpoints = ffi.new("pump_endpoint[]", room)
        lib.pump_guard_move(self.states, endpoints, room)
        self._endpoints = endpoints

    @property
    def peer_handles(self) -> int:
        """The number of handles that the peer allows for our links in the last attach's session."""
        return int(self.states.peer_handles)

    def violation(self) -> tuple[str, str]:
        """Return why the last frame was refused: a condition and a sentence."""
        g = self.states
        return condition_and_sentence(
            g.violation, code=g.code, channel=g.channel, handle=g.handle, number=g.number
        )
