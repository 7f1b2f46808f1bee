"""The sessions of clients at owners, and the connections to those.

Rule 1: a log of the lake has its connection from the first link on. One of a gateway without a log
        has it while it is connected, or a client has a session for it: clients may name as many of
        those as they like.
Rule 2: of such logs a client has links to so many at the same time.
"""

from collections.abc import Callable, Collection, Iterator

from distributary.ingest.net.link import Peer
from distributary.ingest.net.relayed_link import OwnerSeen
from distributary.ingest.relaying.owners.lake_looks import LakeLooks
from distributary.ingest.relaying.owners.owner_connection import OwnerConnection
from distributary.ingest.relaying.owners.relayed_session import RelayedSession
from distributary.ingest.runtime.host import Host


class ClientSessions:
    """All of a gateway's, by client. `logs` are the lake's; `finish_pass` hands on what came of an
    owner."""

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
        """A client's session, by its number, at the owner of a log; it may say a `refusal`."""
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
        """One more session of this gateway itself at the owner of a log; its caller ends it."""
        return RelayedSession(self._owner(log))

    def _forget_idle(self, sessions: dict[tuple[int, str], RelayedSession]) -> None:
        """Those of gateways without a log that no link is on."""
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
        """The client has ended this session; its links have left."""
        sessions = self._of.get(client, {})
        for key in [one for one in sessions if one[0] == number]:
            sessions.pop(key).end()

    def closed(self, client: Peer) -> None:
        """The client's connection has ended, or is about to; its links have left."""
        for session in self._of.pop(client, {}).values():
            session.end()

    def seen(self) -> Iterator[OwnerSeen]:
        """The owners of the lake's logs to which links were relayed so far, and the gateways
        without a log that are connected."""
        for log, owner in self._owners.items():
            if log in self._logs or owner.wire is not None:
                yield owner.seen()

    def close(self) -> None:
        """The gateway ends."""
        for owner in self._owners.values():
            owner.close()
