"""The gateway's links, as far as operations and numbers need them."""

from collections import Counter
from collections.abc import Callable, Iterator

from ingest.engine import Engine
from ingest.link import Link
from ingest.producer import Producer


class Peers:
    """Looks over all links; costs as many steps as there are, and only when somebody asks."""

    def __init__(self, engine: Engine, lost: Callable[[Link], None]) -> None:
        self._engine, self._lost = engine, lost

    @property
    def connections(self) -> int:
        """How many there are."""
        return len(self._engine.connections)

    def producers(self, topic: str) -> list[Link]:
        """The links that send to this topic or queue."""
        return [link for link, to in self._producing() if to == topic]

    def produced(self) -> Counter[str]:
        """How many links send to each topic or queue that any sends to."""
        return Counter(to for _, to in self._producing())

    def end_link(self, link: Link, condition: str, description: str) -> None:
        """End a link from our side; its peer hears why."""
        if link.alive and not link.ended:
            self._lost(link)
            link.detach(closed=True, condition=condition, description=description)

    def _producing(self) -> Iterator[tuple[Link, str]]:
        for connection in self._engine.connections:
            for link in connection.inbound.links:
                if isinstance(link.owner, Producer) and link.owner.topic and not link.ended:
                    yield link, link.owner.topic
