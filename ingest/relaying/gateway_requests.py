"""Requests of this gateway itself to `$management` of the owners of other logs, which trust it.

They concern transactions over several logs.
"""

from collections.abc import Callable

from distributary.ingest.net.relayed_link import NotAsked
from distributary.ingest.relaying.held_bytes import RequestsBytes
from distributary.ingest.relaying.owner_requests import OwnerRequests
from distributary.ingest.relaying.owners.client_sessions import ClientSessions
from distributary.ingest.security.gateway_login import GATEWAY
from distributary.pipeline.amqp.relayed_for import PREFIX, RelayedFor
from distributary.pipeline.log_names import private_number
from distributary.pipeline.management.node_answers import NodeAnswer
from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED, AmqpError

#: The number of the gateway itself among its clients, which have others.
_ITSELF = 0
_NAME = f"{PREFIX}gateway"
_ASKED = NotAsked(LIMIT_EXCEEDED, "the request was given up")


class GatewayRequests:
    """Two links at each owner that had a request, as long as the owner is there; at a gateway
    without a log as long as a request is open."""

    def __init__(self, container: str, held: RequestsBytes, sessions: ClientSessions) -> None:
        self._container, self._held, self._sessions = container, held, sessions
        self._of: dict[str, OwnerRequests] = {}

    async def ask(self, log: str, encoded: Callable[[int, str], bytes]) -> NodeAnswer | AmqpError:
        """Return the answer of the owner of this log, or why there is none."""
        private = private_number(log) is not None
        requests = None if private else self._of.get(log)
        if requests is None or requests.over:
            if requests is not None:
                requests.session.end()
            session = self._sessions.of_gateway(log)
            if why := session.refusal:
                session.end()
                return NotAsked(LIMIT_EXCEEDED, why)
            said = RelayedFor(log, _ITSELF, self._container, GATEWAY, "")
            requests = OwnerRequests(session, _NAME, said, self._held)
        if not private:
            self._of[log] = requests
            return await requests.ask(encoded)
        try:
            return await requests.ask(encoded)
        finally:
            requests.end(_ASKED)
            requests.session.end()
