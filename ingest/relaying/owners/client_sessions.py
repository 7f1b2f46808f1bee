"""Sessions of clients at owners, and the connections to the owners.

Rule 1: the connection to the owner of a lake's log is kept from the first link on. The one to a
        gateway without a log is kept while it is connected or a client has a session for it:
        clients may name any number of such gateways.
Rule 2: a client has links to at most `fleet.private_logs_max` such gateways at the same time.
"""

from collections.abc import Callable, Collection, Iterator

from distributary.ingest.net.link import Peer
from distributary.ingest.net.relayed_link import OwnerSeen
from distributary.ingest.relaying.owners.lake_looks import LakeLooks
from distributary.ingest.relaying.owners.owner_connection import OwnerConnection
from distributary.ingest.relaying.owners.relayed_session import RelayedSession
from distributary.ingest.runtime.host import Host


class ClientSessions:
    """All sessions of a gateway at owners, by client. `logs` are the lake's; `finish_pass` hands on
    frames that came from an owner."""

    def __init__(
        self,
        host: Host,
        looks: LakeLooks,
        finish_pass: Callable[[], None],
        logs: Collection[str],
    ) -> None:
        self._host, self._looks, self._finish_pass = host, looks, finish_pass
        self._logs, self._private_max = frozenset(logs), host.settings.fleet.private_logs_max
        self._owners: dict[str, OwnerConnection] = {}
        #: By client, then by the session and the log.
        self._of: dict[Peer, dict[tuple[int, str], RelayedSession]] = {}

    def of(self, client: Peer, number: int, log: str) -> RelayedSession:
        """Return a client's session, by its number, at the owner of a log; it may have a
        `refusal`."""
        sessions = self._of.setdefault(client, {})
        session = sessions.get((number, log))
        if session is not None:
            return session
        if log in self._logs:
            session = RelayedSession(self._owner(log))
        else:
            self._forget_idle(sessions)
            named = {one for _, one in sessions if one not in self._logs}
            if log not in named and len(named) >= self._private_max:
                most = f"{self._private_max} gateways without a log (fleet.private_logs_max)"
                return RelayedSession(self._made(log), f"its client has links to {most}")
            session = RelayedSession(self._owner(log))
        sessions[number, log] = session
        return session

    def of_gateway(self, log: str) -> RelayedSession:
        """Return a new session of this gateway itself at the owner of a log; the caller ends it."""
        return RelayedSession(self._owner(log))

    def _forget_idle(self, sessions: dict[tuple[int, str], RelayedSession]) -> None:
        """Forget sessions at gateways without a log that have no links."""
        for key, session in tuple(sessions.items()):
            if key[1] not in self._logs and session.idle:
                del sessions[key]
                session.end()

    def _owner(self, log: str) -> OwnerConnection:
        owner = self._owners.get(log)
        if owner is None:
            idle = [name for name, one in self._owners.items() if self._is_idle(name, one)]
            for name in idle:
                del self._owners[name]
            owner = self._owners[log] = self._made(log)
        return owner

    def _made(self, log: str) -> OwnerConnection:
        return OwnerConnection(self._host, log, self._looks, self._finish_pass)

    def _is_idle(self, log: str, owner: OwnerConnection) -> bool:
        return log not in self._logs and not owner.users and owner.wire is None

    def ended(self, client: Peer, number: int) -> None:
        """End a session that the client has ended; its links have left."""
        sessions = self._of.get(client, {})
        for key in [one for one in sessions if one[0] == number]:
            sessions.pop(key).end()

    def closed(self, client: Peer) -> None:
        """End all sessions of a client whose connection ends; its links have left."""
        for session in self._of.pop(client, {}).values():
            session.end()

    def seen(self) -> Iterator[OwnerSeen]:
        """Yield the owners of the lake's logs to which links were relayed so far, and the connected
        gateways without a log."""
        for log, owner in self._owners.items():
            if log in self._logs or owner.wire is not None:
                yield owner.seen()

    def close(self) -> None:
        """Close all connections to owners."""
        for owner in self._owners.values():
            owner.close()
