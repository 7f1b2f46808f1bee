"""The gateway's links and connections, for operations and counts."""

from collections import Counter
from collections.abc import Iterator

from distributary.ingest.net.engine import Engine
from distributary.ingest.net.link import Link
from distributary.ingest.publish.producer import Producer


class Peers:
    """Finds links by going over all of them, on demand only."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def connections(self) -> int:
        """The number of connections."""
        return len(self._engine.connections)

    @property
    def internal_errors(self) -> int:
        """Bugs that have ended one peer each, since the start."""
        return self._engine.internal_errors

    def producers(self, topic: str) -> list[Link]:
        """Return the links that send to this topic or queue."""
        return [link for link, to in self._producing() if to == topic]

    def produced(self) -> Counter[str]:
        """Return the number of sending links of each topic or queue that has any."""
        return Counter(to for _, to in self._producing())

    def _producing(self) -> Iterator[tuple[Link, str]]:
        for connection in self._engine.connections:
            for link in connection.inbound.links:
                if isinstance(link.owner, Producer) and link.owner.topic and not link.ended:
                    yield link, link.owner.topic
