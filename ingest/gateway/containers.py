"""The connections that are open, by the container ids that they bear."""

from distributary.ingest.net.link import Peer
from distributary.pipeline.subscriptions.container_ids import Bearers, refused_container


class Containers:
    """Which connections bear which container id. An empty one is nobody's."""

    def __init__(self) -> None:
        self._all: dict[str, dict[Peer, None]] = {}

    def __contains__(self, connection: Peer) -> bool:
        return connection in self._all.get(connection.container, {})

    def refused(self, connection: Peer) -> str:
        """Why the connection may not have its container id; empty if it may."""
        container = connection.container
        for former in [*self._all.get(container, {})]:
            if not former.alive:
                former.leave(True)  # its peer is back before all of it was given back
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
        """The connection has ended. To remove it again is no error."""
        present = self._all.get(connection.container, {})
        present.pop(connection, None)
        if not present:
            self._all.pop(connection.container, None)
