"""A small AMQP client for the demo's processes: one connection, driven by its owner's loop.

It speaks to the gateway over a socket like any other client; of the gateway's own code it uses
only the pump, because whole runs in one call leave a small machine to the gateway.
"""

import select
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass

from cproton import lib as proton
from proton import Collector, Condition, Endpoint, Terminus, Transport, symbol
from proton import Connection as ProtonConnection
from proton import Data as ProtonData
from proton import Link as ProtonLink

from distributary.ingest.native import pump as pumping
from distributary.ingest.native.pump import Outcomes, Pump, Received, Stop, address
from distributary.pipeline.errors import DistributaryError
from distributary.pipeline.model.record_batch import RecordBatch

#: Seconds that the gateway may take to answer an open, an attach or a detach.
ANSWER_SECONDS_MAX = 30.0
#: Bytes of one read and of one write of the socket.
BUFFER_BYTES = 1 << 18
#: The largest message that a client takes; a flight has 500 bytes.
MESSAGE_BYTES_MAX = 1 << 16
#: Bytes of the address of one delivery in a run.
DELIVERY_BYTES = 8
#: Any number but 0: deliveries with a token are those whose outcome we want to hear.
DELIVERED_AT = 1
#: A detach leaves no trace in a link's state (Proton keeps it for closed links only).
_ENDS = (proton.PN_LINK_REMOTE_DETACH, proton.PN_LINK_REMOTE_CLOSE)


class ClientError(DistributaryError):
    """The gateway refused or ended something, or is gone; the message says what."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """What one step brought: runs of messages, and outcomes of runs that we sent."""

    messages: tuple[Received, ...]
    outcomes: tuple[Outcomes, ...]


class Client:
    """One connection with one session. After `step` raised ClientError it is of no more use."""

    def __init__(self, host: str, port: int, container: str) -> None:
        self.container = container
        self._links: list[ProtonLink] = []
        self._ended: set[int] = set()  # addresses of links that the gateway detached or closed
        self._pump = Pump(MESSAGE_BYTES_MAX)
        self._in = memoryview(bytearray(BUFFER_BYTES))
        self._out = memoryview(bytearray(BUFFER_BYTES))
        try:
            self._socket = socket.create_connection((host, port), ANSWER_SECONDS_MAX)
        except OSError as error:
            raise ClientError(f"{container}: no gateway at {host}:{port}: {error}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection = ProtonConnection()
        self._connection.container = container
        self._connection.hostname = host
        self._collector = Collector()
        self._connection.collect(self._collector)
        self._transport = Transport(Transport.CLIENT)
        self._transport.sasl().allowed_mechs("ANONYMOUS")
        self._transport.bind(self._connection)
        self._connection.open()
        self._session = self._connection.session()
        self._session.open()
        self.step_until(lambda: _answered(self._connection), "open")

    def produce(self, topic: str) -> ProtonLink:
        """A link that publishes to a topic; messages are unsettled until the gateway accepts."""
        link = self._session.sender(f"publisher-{topic}")
        link.source.address = self.container
        link.target.address = topic
        _put_symbols(link.target.capabilities, ("topic",))
        return self._attach(link)

    def subscribe(self, subscription: str, topic: str) -> ProtonLink:
        """A link of the global shared durable subscription of that name, as JMS clients make it.

        The subscription is created by its first link, and stays when its last one detaches.
        """
        link = self._session.receiver(f"{subscription}|global")
        source = link.source
        source.address = topic
        source.durability = Terminus.DELIVERIES
        source.expiry_policy = Terminus.EXPIRE_NEVER
        source.distribution_mode = Terminus.DIST_MODE_COPY
        _put_symbols(source.capabilities, ("topic", "shared", "global"))
        return self._attach(link)

    def _attach(self, link: ProtonLink) -> ProtonLink:
        link.snd_settle_mode = ProtonLink.SND_UNSETTLED
        link.rcv_settle_mode = ProtonLink.RCV_FIRST
        link.open()
        self._ended.discard(address(link._impl))  # of a link that was freed
        self._links.append(link)
        self.step_until(lambda: _answered(link), f"attach of link '{link.name}'")
        return link

    def send(self, link: ProtonLink, run: RecordBatch) -> None:
        """Send a run of messages; the caller has made sure of the credit."""
        pumping.send(address(link._impl), run, range(run.first, run.stop), 0, DELIVERED_AT, False)

    def accept(self, received: Received, count: int) -> None:
        """Accept and settle the first messages of a run; the others stay unsettled."""
        pumping.settle(received.deliveries[: count * DELIVERY_BYTES], pumping.ACCEPTED)

    def grant(self, link: ProtonLink, credit: int) -> None:
        """Take so many messages more."""
        proton.pn_link_flow(link._impl, credit)

    def drain(self, link: ProtonLink) -> None:
        """Ask for what is there now; when the link's credit is 0, it has come."""
        proton.pn_link_drain(link._impl, 0)

    def leave(self, link: ProtonLink) -> None:
        """Detach without closing: a durable subscription stays."""
        self._links.remove(link)
        link.detach()
        self.step_until(lambda: address(link._impl) in self._ended, f"detach of link '{link.name}'")

    def close(self) -> None:
        """Close the connection in order."""
        self._links.clear()
        self._connection.close()
        self.step_until(lambda: bool(self._connection.state & Endpoint.REMOTE_CLOSED), "close")
        self._socket.close()

    # The socket.

    def step(self, seconds: float) -> Arrived:
        """Write what waits, wait for the gateway at most so long, take what came."""
        self._transport.tick(time.monotonic())
        self._write()
        if select.select([self._socket], [], [], seconds)[0]:
            self._read()
        arrived = self._take()
        self._check()
        return arrived

    def step_until(self, done: Callable[[], bool], what: str) -> None:
        """Step until it is so. What comes meanwhile is dropped: nothing is expected to."""
        deadline = time.monotonic() + ANSWER_SECONDS_MAX
        while not done():
            if time.monotonic() > deadline:
                raise ClientError(
                    f"{self.container}: the gateway did not answer the {what} "
                    f"within {ANSWER_SECONDS_MAX:.0f} s"
                )
            self.step(0.05)
        self._write()

    def _write(self) -> None:
        amqp, room = address(self._transport._impl), pumping.pointer(self._out)
        try:
            while (size := pumping.output(amqp, room, BUFFER_BYTES)) > 0:
                self._socket.sendall(self._out[:size])
        except OSError as error:
            raise self._lost(str(error)) from None

    def _read(self) -> None:
        try:
            size = self._socket.recv_into(self._in)
        except OSError as error:
            raise self._lost(str(error)) from None
        if not size:
            if self._connection.state & Endpoint.REMOTE_CLOSED:
                return
            raise self._lost("it closed the socket")
        pumping.feed(address(self._transport._impl), pumping.pointer(self._in), size)

    def _lost(self, reason: str) -> ClientError:
        return ClientError(f"{self.container}: the connection to the gateway is lost: {reason}")

    def _take(self) -> Arrived:
        pump, collector = self._pump, address(self._collector._impl)
        messages: list[Received] = []
        outcomes: list[Outcomes] = []
        while True:
            stop = pump.events(collector)
            if pump.received_count:
                messages.append(pump.received())
            if pump.outcomes_count:
                outcomes.extend(pump.outcomes())
            if stop == Stop.IDLE:
                return Arrived(tuple(messages), tuple(outcomes))
            if stop == Stop.EVENT:
                self._event()
            elif stop != Stop.FULL:
                raise ClientError(f"{self.container}: a message came that is no flight")

    def _event(self) -> None:
        event = proton.pn_collector_peek(self._collector._impl)
        if proton.pn_event_type(event) in _ENDS:
            self._ended.add(address(proton.pn_event_link(event)))
        proton.pn_collector_pop(self._collector._impl)

    def _check(self) -> None:
        """Whatever the gateway ends that we have not, it ends for a reason."""
        for link in self._links:
            if address(link._impl) in self._ended:
                raise self._refused(f"link '{link.name}'", link.remote_condition)
        connection = self._connection
        if connection.state & Endpoint.REMOTE_CLOSED and connection.state & Endpoint.LOCAL_ACTIVE:
            raise self._refused("the connection", connection.remote_condition)

    def _refused(self, what: str, condition: Condition | None) -> ClientError:
        said = f"{condition.name}: {condition.description}" if condition else "without a reason"
        return ClientError(f"{self.container}: the gateway ended {what}: {said}")


def _answered(endpoint: ProtonConnection | ProtonLink) -> bool:
    return not endpoint.state & Endpoint.REMOTE_UNINIT


def _put_symbols(data: ProtonData, words: tuple[str, ...]) -> None:
    data.put_array(False, ProtonData.SYMBOL)
    data.enter()
    for word in words:
        data.put_symbol(symbol(word))
    data.exit()
