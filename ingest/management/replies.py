"""The ways of answers: links that take them from the node, and addresses that requests name."""

from array import array
from collections import deque
from collections.abc import Callable

from distributary.ingest.commit.group_log import Inside, Log
from distributary.ingest.net.link import Link
from distributary.ingest.net.relayed_link import Relays
from distributary.ingest.runtime.settings import ManagementLimits
from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED, NOT_FOUND, AmqpError
from distributary.pipeline.model.header_attributes import PRIORITY
from distributary.pipeline.model.message import PublishBatch
from distributary.pipeline.model.record_batch import RecordBatch


class ReplyLink:
    """A link whose source is the node: it sends the answers for the address of its target."""

    __slots__ = ("_link", "_number", "_waiting", "address", "waiting_bytes")

    def __init__(self, link: Link, address: str) -> None:
        self._link, self.address = link, address
        self._waiting: deque[bytes] = deque()
        self._number = 0
        self.waiting_bytes = 0

    def add(self, data: bytes) -> None:
        """Add an answer; it is sent when there is credit."""
        self._waiting.append(data)
        self.waiting_bytes += len(data)
        self.flowed()

    def flowed(self) -> None:
        """Send waiting answers: its credit or drain has changed, or its socket is writable."""
        link = self._link
        while self._waiting and link.alive and link.credit > 0 and link.writable:
            data = self._waiting.popleft()
            self.waiting_bytes -= len(data)
            offsets = array("i", [0, len(data)]).tobytes()
            batch = RecordBatch(self._number, 1, data, offsets)
            link.send(batch, range(self._number, self._number + 1), 0, 0, presettled=True)
            self._number += 1
        if link.alive and link.draining and not self._waiting:
            link.drained()


class Replies:
    """The links that take answers. Answers to other addresses are published; if an address is in
    another log of a lake, the log's owner publishes them (`relays`).

    `resolve` returns the destination of an address, if the connection's user may send there.
    """

    def __init__(
        self,
        log: Log,
        limits: ManagementLimits,
        resolve: Callable[[Link, str, Callable[[str], bool]], str | AmqpError],
        relays: Relays,
    ) -> None:
        self._log, self._limits, self._resolve, self._relays = log, limits, resolve, relays
        self._links: dict[Link, ReplyLink] = {}

    def join(self, link: Link, address: str) -> ReplyLink:
        """Add a link that takes answers."""
        reply_link = self._links[link] = ReplyLink(link, address)
        return reply_link

    def leave(self, link: Link) -> None:
        """Remove a link that has ended; its waiting answers are dropped."""
        self._links.pop(link, None)

    def amqp_error(self, link: Link, reply_to: str | None) -> AmqpError | None:
        """Return why the answer to a request on this link can't go to this address."""
        if not reply_to:
            return AmqpError(NOT_FOUND, "a request must say in reply-to where its answer goes")
        reply_link = self._reply_link(link, reply_to)
        if reply_link is not None:
            return self._too_many(reply_link)
        found = self._resolve(link, reply_to, self._is_ours)
        return found if isinstance(found, AmqpError) else None

    def _too_many(self, reply_link: ReplyLink) -> AmqpError | None:
        """Return why no more answers may wait for this link; None if they may."""
        size, name = reply_link.waiting_bytes, "replies_bytes_max"
        if size <= self._limits.replies_bytes_max:
            size = sum(one.waiting_bytes for one in self._links.values())
            name = "replies_together_bytes_max"
            if size <= self._limits.replies_together_bytes_max:
                return None
        text = f"answers wait to be taken (management.{name}); give credit for them"
        return AmqpError(LIMIT_EXCEEDED, f"{size} bytes of {text}")

    def send(self, link: Link, reply_to: str, data: bytes) -> bool:
        """Send an answer; it is dropped if the link that would take it has ended. Return whether
        the request's credit comes back by itself, when the owner of another log takes the answer.
        """
        reply_link = self._reply_link(link, reply_to)
        if reply_link is not None:
            reply_link.add(data)
            return False
        topic = self._resolve(link, reply_to, self._is_ours) if link.alive else None
        if not isinstance(topic, str):
            return False
        if self._is_ours(topic):
            self._log.write([_run(topic, data)], [], Inside())
            return False
        if not link.ended and not link.gone:  # else `Relays.left` was called before, the last time
            self._relays.publish(link, self._relays.logs_of(topic)[0], data)
        return True

    def _is_ours(self, topic: str) -> bool:
        return self._relays.logs[0] in self._relays.logs_of(topic)

    def _reply_link(self, link: Link, address: str) -> ReplyLink | None:
        """Return the link of the same connection whose target has this address."""
        for other, reply_link in self._links.items():
            if other.connection is link.connection and reply_link.address == address:
                return reply_link
        return None


def _run(topic: str, data: bytes) -> PublishBatch:
    """Return one message as a run. It isn't persistent: a client can ask again."""
    return PublishBatch(
        topic,
        1,
        data,
        array("I", [len(data)]).tobytes(),
        bytes(1),
        bytes([PRIORITY]),
        bytes(4),
    )
