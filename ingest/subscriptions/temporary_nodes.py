"""Temporary queues and topics: destinations that a link makes and that end with it.

The rules are in `pipeline.subscriptions.temporary_destination`. Here are the destinations of this
process: none of them is recorded, so after a restart there are none.
"""

from collections.abc import Callable
from uuid import uuid4

import msgspec
import structlog

from distributary.ingest.commit.group_log import Log
from distributary.ingest.net.link import Link, Peer
from distributary.ingest.subscriptions.subscription_service import SubscriptionService
from distributary.pipeline.model.address import Destination, Kind
from distributary.pipeline.model.amqp_error import DELETED, LIMIT_EXCEEDED, AmqpError
from distributary.pipeline.model.subscription import MADE_BY_CLIENT
from distributary.pipeline.subscriptions.temporary_destination import Ownership

_events = structlog.get_logger("gateway")


class _Node(msgspec.Struct, eq=False):
    """A temporary destination and the links that are on it, its maker among them."""

    destination: Destination
    maker: Link
    links: dict[Link, None] = msgspec.field(default_factory=dict)


class TemporaryNodes:
    """The temporary destinations of all connections."""

    def __init__(
        self,
        subscriptions: SubscriptionService,
        log: Log,
        most: int,
        named: Callable[[str], str],
    ) -> None:
        """`most`: destinations of one connection at most. `named` makes a destination's name from a
        unique text, so that other gateways find its log."""
        self._named = named
        self._subscriptions, self._log, self._most = subscriptions, log, most
        self._nodes: dict[str, _Node] = {}
        self._of_link: dict[Link, _Node] = {}
        self._counts: dict[Peer, int] = {}

    def make(self, link: Link, kind: Kind) -> Destination | AmqpError:
        """Make a destination for the link's connection; its name can't be guessed. It ends with
        the link, by `left`."""
        count = self._counts.get(link.connection, 0)
        if count >= self._most:
            return AmqpError(
                LIMIT_EXCEEDED,
                f"the connection has {count} temporary destinations (amqp.temporary_max)",
            )
        made = Destination(kind, self._named(uuid4().hex))
        self._counts[link.connection] = count + 1
        self._nodes[made.topic] = self._of_link[link] = _Node(made, link)
        if made.is_queue:
            self._subscriptions.keep_queue(made, MADE_BY_CLIENT)
        _events.debug("temporary.made", address=made.topic, container=link.connection.container)
        return made

    def ownership(self, topic: str, connection: Peer) -> Ownership:
        """Return whether the destination is this connection's own, another's or absent."""
        node = self._nodes.get(topic)
        if node is None:
            return Ownership.ABSENT
        return Ownership.OWN if node.maker.connection is connection else Ownership.FOREIGN

    def joined(self, link: Link, topic: str) -> None:
        """Note that the link sends to or consumes from this destination; if it is temporary, the
        link ends with it."""
        node = self._nodes.get(topic)
        if node is not None:
            node.links[link] = None
            self._of_link[link] = node

    def left(self, link: Link) -> None:
        """End the destination that the link made, if any: the link has ended, or was refused."""
        node = self._of_link.pop(link, None)
        if node is None:
            return
        node.links.pop(link, None)
        if node.maker is link:
            self._end(node)

    def _end(self, node: _Node) -> None:
        made, connection = node.destination, node.maker.connection
        del self._nodes[made.topic]
        self._counts[connection] -= 1
        if not self._counts[connection]:
            del self._counts[connection]
        for link in node.links:
            del self._of_link[link]
            link.end(DELETED, f"'{made.topic}' has been deleted")
        if made.is_queue:
            self._subscriptions.drop_queue(made)
        self._log.forget(made.topic)
        _events.debug("temporary.ended", address=made.topic, container=connection.container)
