"""Requests of this gateway itself to `$management` of the owners of other logs, which trust it:
what logs say to each other of transactions over several of them.
"""

from collections.abc import Callable

from distributary.ingest.net.relayed_link import NotAsked
from distributary.ingest.relaying.held_bytes import RequestsBytes
from distributary.ingest.relaying.owner_requests import OwnerRequests
from distributary.ingest.relaying.owners.owner_connection import OwnerConnection
from distributary.ingest.relaying.owners.relayed_session import NO_ROOM, RelayedSession
from distributary.ingest.security.gateway_login import GATEWAY
from distributary.pipeline.amqp.relayed_for import PREFIX, RelayedFor
from distributary.pipeline.management.node_answers import NodeAnswer
from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED, AmqpError

#: The number of the gateway itself among its clients, which have others.
_ITSELF = 0
_NAME = f"{PREFIX}gateway"


class GatewayRequests:
    """Two links at each owner that was asked for anything, as long as it is there."""

    def __init__(
        self, container: str, held: RequestsBytes, owner: Callable[[str], OwnerConnection]
    ) -> None:
        self._container, self._held, self._owner = container, held, owner
        self._of: dict[str, OwnerRequests] = {}

    async def ask(self, log: str, encoded: Callable[[int, str], bytes]) -> NodeAnswer | AmqpError:
        """The answer of the owner of this log; or why there is none."""
        requests = self._of.get(log)
        if requests is None or requests.over:
            session = RelayedSession(self._owner(log))
            if not session.fits:
                return NotAsked(LIMIT_EXCEEDED, NO_ROOM)
            said = RelayedFor(log, _ITSELF, self._container, GATEWAY, "")
            requests = self._of[log] = OwnerRequests(session, _NAME, said, self._held)
        return await requests.ask(encoded)
