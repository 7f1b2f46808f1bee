"""The open connections, by their container ids."""

from distributary.ingest.net.link import Peer
from distributary.pipeline.subscriptions.container_ids import Bearers, refused_container


class Containers:
    """The connections of each container id. Connections with an empty one aren't registered."""

    def __init__(self) -> None:
        self._all: dict[str, dict[Peer, None]] = {}

    def __contains__(self, connection: Peer) -> bool:
        return connection in self._all.get(connection.container, {})

    def refused(self, connection: Peer) -> str:
        """Return why the connection may not have its container id; empty if it may."""
        container = connection.container
        for former in [*self._all.get(container, {})]:
            if not former.alive:
                former.leave(True)  # its peer is back before the old connection was released
        present = self._all.get(container, {})
        if not present:
            return ""
        alone = any(one.sole for one in present)
        bearers = Bearers.SOLE if alone else Bearers.SHARING
        return refused_container(container, bearers, sole=connection.sole)

    def add(self, connection: Peer) -> None:
        if connection.container:
            self._all.setdefault(connection.container, {})[connection] = None

    def remove(self, connection: Peer) -> None:
        """Remove a connection that has ended. A second call does nothing."""
        present = self._all.get(connection.container, {})
        present.pop(connection, None)
        if not present:
            self._all.pop(connection.container, None)
