"""A peer of the gateway: Proton's engine under a blocking socket, in the test's own thread.

Everything a client can do on purpose can be done here, one frame at a time: links with any
termini, credit by hand, outcomes with and without settling, drains, and the messages' bytes as
they came. A peer does nothing by itself: it reads and writes while a test waits in `until`.
"""

import select
import socket
import time
from collections.abc import Callable, Iterable
from itertools import count
from types import TracebackType
from typing import Self, TypeAlias, TypeVar
from weakref import WeakSet

from gateway_links import Incoming, Outgoing
from gateway_process import PATIENCE
from proton import (
    Collector,
    Connection,
    Data,
    Described,
    Endpoint,
    Event,
    Link,
    Session,
    Terminus,
    Transport,
    symbol,
    ulong,
)

T = TypeVar("T")
_numbers = count(1)
#: Peers whose sockets may be open: they are dropped at their file's end, by `conftest.py`.
AT_LARGE: "WeakSet[Peer]" = WeakSet()

SHARED = ("topic", "shared")
GLOBAL = ("topic", "shared", "global")
SELECTOR, NO_LOCAL = 0x0000468C00000004, 0x0000468C00000003


class PeerLost(Exception):
    """The gateway ended this peer's socket."""


class Peer:
    """One connection. Use it as a context: at the end it closes as a good client does."""

    def __init__(
        self,
        port: int,
        container: str | None = None,
        *,
        user: str = "",
        password: str = "",
        frame_bytes_max: int = 0,
        sole: bool = False,
        host: str = "127.0.0.1",
        opened: bool = True,
    ) -> None:
        """`opened`: wait until the gateway has opened its side."""
        self.container = container or f"peer-{next(_numbers)}"
        self.socket = socket.create_connection((host, port), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        AT_LARGE.add(self)
        self.connection = Connection()
        self.connection.container = self.container
        if sole:
            self.connection.desired_capabilities = [symbol("sole-connection-for-container")]
        self._collector = Collector()
        self.connection.collect(self._collector)
        if user:
            self.connection.user, self.connection.password = user, password
        self.transport = Transport()
        if frame_bytes_max:
            self.transport.max_frame_size = frame_bytes_max
        sasl = self.transport.sasl()
        sasl.allow_insecure_mechs = True
        sasl.allowed_mechs("PLAIN" if user else "ANONYMOUS")
        self.transport.bind(self.connection)
        self.links: list[Link] = []  #: all that are not detached
        self._left: set[str] = set()
        self.lost = False
        self.connection.open()
        try:
            if opened:
                self.until(lambda: self.connection.state & Endpoint.REMOTE_ACTIVE, "an open")
        except BaseException:
            self.drop()
            raise
        self.session = self.new_session()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        if kind is None and not self.lost:
            self.close()
        self.drop()

    def close(self) -> None:
        """Close, and wait for the gateway's own close."""
        self.connection.close()
        self.until(lambda: self.connection.state & Endpoint.REMOTE_CLOSED, "a close")

    def heard(self) -> None:
        """Wait until the gateway has acted on all that was written so far."""
        session = self.new_session()
        self.until(lambda: session.state & Endpoint.REMOTE_ACTIVE, "a session")
        session.close()
        self.until(lambda: session.state & Endpoint.REMOTE_CLOSED, "a session's end")
        session.free()

    def drop(self) -> None:
        """End the socket without a word."""
        self.socket.close()
        self.lost = True

    # The socket.

    def until(
        self,
        condition: Callable[[], T],
        what: str | Callable[[], str],
        seconds: float = PATIENCE,
    ) -> T:
        """Read and write until the condition holds."""
        deadline = time.monotonic() + seconds
        self.write()
        while not (value := condition()):
            left = deadline - time.monotonic()
            if left <= 0 or self.lost or self.transport.condition:
                text = what if isinstance(what, str) else what()  # it may take long to say
                if self.lost or self.transport.condition:
                    raise PeerLost(f"{text}: {self.transport.condition}")
                raise AssertionError(f"waited {seconds} s in vain for {text}; {self.troubles()}")
            self.turn(min(left, 0.05))
        return value

    def troubles(self) -> str:
        """The errors with which the gateway ended the connection and links."""
        ends = [self.connection, *self.links]
        said = [end.remote_condition for end in ends]
        return f"complaints: {[condition for condition in said if condition]}"

    def _awaits(self, what: int, seconds: float) -> bool:
        """By `poll`: `select` knows only the first 1,024 descriptors of a process."""
        asked = select.poll()
        asked.register(self.socket, what)
        return bool(asked.poll(seconds * 1000))

    def turn(self, seconds: float = 0.0) -> None:
        """One read, if there is something within that time, and all that is to be written."""
        if self._awaits(select.POLLIN, seconds):
            try:
                room = self.transport.capacity()
                data = self.socket.recv(room) if room > 0 else b""
            except ConnectionError:
                data = b""
            if data:
                self.transport.push(data)
            else:
                self.lost = True
                self.transport.close_tail()
        self._events()
        self.transport.tick(time.monotonic())  # heartbeats
        self.write()

    def write(self) -> None:
        """Write all that the engine has."""
        while not self.lost and (size := self.transport.pending()) > 0:
            assert self._awaits(select.POLLOUT, PATIENCE), "the gateway doesn't read"
            try:
                self.transport.pop(self.socket.send(self.transport.peek(size)))
            except ConnectionError:
                self.lost = True
            self._events()

    def _events(self) -> None:
        while event := self._collector.peek():
            incoming = event.link and event.link.owner
            if event.type == Event.DELIVERY and incoming:
                incoming.came(event.delivery)
            elif event.type in (Event.LINK_REMOTE_DETACH, Event.LINK_REMOTE_CLOSE):
                self._left.add(event.link.name)
            self._collector.pop()

    # Links.

    def new_session(self) -> Session:
        session = self.connection.session()
        session.open()
        return session

    def sender(
        self,
        topic: str | None,
        *,
        presettled: bool = False,
        session: Session | None = None,
        opened: bool = True,
        kind: int = Terminus.TARGET,
        capabilities: Iterable[str] = (),
        dynamic: bool = False,
        name: str = "",
    ) -> Outgoing:
        """A producer's link; without a topic the anonymous relay, or (dynamic) the maker of a
        temporary destination, as JMS clients have it."""
        link = (session or self.session).sender(name or f"sender-{next(_numbers)}")
        link.owner = None
        self.links.append(link)
        link.source.address = link.name
        link.target.type = kind
        link.target.address = topic
        link.target.dynamic = dynamic
        put_symbols(link.target.capabilities, capabilities)
        link.snd_settle_mode = Link.SND_SETTLED if presettled else Link.SND_UNSETTLED
        link.open()
        if opened:
            self.attached(link)
        return Outgoing(self, link)

    def receiver(
        self,
        topic: str | None,
        name: str | None = None,
        *,
        durable: bool = False,
        capabilities: Iterable[str] = ("topic",),
        presettled: bool = False,
        session: Session | None = None,
        filters: dict[str, Described] | None = None,
        opened: bool = True,
        dynamic: bool = False,
        copy: bool = False,
        target: str | None = None,
        expiry: int = Terminus.EXPIRE_NEVER,
        timeout: int = 0,
    ) -> Incoming:
        """A consumer's link, as JMS clients make it; without a topic its source is null, or
        (dynamic) a temporary destination of its own. `expiry` and `timeout` (seconds) are a durable
        one's."""
        link = (session or self.session).receiver(name or f"receiver-{next(_numbers)}")
        source = link.source
        source.type = Terminus.SOURCE if topic or dynamic else Terminus.UNSPECIFIED
        source.address = topic
        source.dynamic = dynamic
        if target:
            link.target.address = target
        if copy:
            source.distribution_mode = Terminus.DIST_MODE_COPY
        if durable:
            source.durability = Terminus.DELIVERIES
            source.expiry_policy, source.timeout = expiry, timeout
            source.distribution_mode = Terminus.DIST_MODE_COPY
        else:
            source.expiry_policy = Terminus.EXPIRE_WITH_LINK
        if topic or dynamic:
            put_symbols(source.capabilities, capabilities)
        if filters:
            source.filter.put_dict({symbol(key): value for key, value in filters.items()})
        link.snd_settle_mode = Link.SND_SETTLED if presettled else Link.SND_UNSETTLED
        link.owner = incoming = Incoming(self, link)
        self.links.append(link)
        link.open()
        if opened:
            self.attached(link)
        return incoming

    def durable(self, topic: str, name: str, **options: object) -> Incoming:
        """A consumer of an exclusive durable subscription."""
        return self.receiver(topic, name, durable=True, **options)

    def shared_durable(self, topic: str, name: str, **options: object) -> Incoming:
        """A consumer of a shared durable subscription, global if the link's name says so."""
        words = GLOBAL if "|global" in name else SHARED
        return self.receiver(topic, name, durable=True, capabilities=words, **options)

    def shared(self, topic: str, name: str, **options: object) -> Incoming:
        """A consumer of a shared subscription that isn't durable."""
        words = GLOBAL if "|global" in name else SHARED
        return self.receiver(topic, name, capabilities=words, **options)

    def attached(self, link: Link) -> None:
        """Wait for the answer to the attach; it must be a yes."""
        self.until(lambda: link.state & (Endpoint.REMOTE_ACTIVE | Endpoint.REMOTE_CLOSED), "attach")
        self.until(lambda: not link.is_sender or link.credit or self.refused(link), "credit")
        assert link.state & Endpoint.REMOTE_ACTIVE, f"refused: {link.remote_condition}"

    @property
    def over(self) -> bool:
        """Whether the connection, or a link that wasn't detached from here, has ended."""
        ended = self.connection.state & Endpoint.REMOTE_CLOSED or self.transport.condition
        return self.lost or bool(ended) or any(map(self.refused, self.links))

    @property
    def attached_all(self) -> bool:
        """Whether all links are answered."""
        return all(link.state & Endpoint.REMOTE_ACTIVE for link in self.links)

    @staticmethod
    def refused(link: Link) -> bool:
        return bool(link.state & Endpoint.REMOTE_CLOSED)

    def amqp_error(self, link: Outgoing | Incoming) -> str:
        """The condition with which the gateway ended the link; the link is over then."""
        self.until(lambda: self.refused(link.link), "a refusal")
        condition = link.link.remote_condition
        link.link.close()
        self.write()
        self.links.remove(link.link)
        self._left.discard(link.link.name)
        return str(condition.name) if condition else ""

    def leave(self, link: Outgoing | Incoming, *, closed: bool) -> str:
        """Detach or close the link; the condition of the gateway's answer, '' if it is content."""
        name = link.link.name
        (link.link.close if closed else link.link.detach)()
        self.until(lambda: name in self._left, "the answer to a detach")
        self._left.discard(name)
        condition = link.link.remote_condition
        self.links.remove(link.link)
        link.link.free()
        return str(condition.name) if condition else ""

    def unsubscribe(self, link_name: str) -> str:
        """Look a durable subscription up by a null source and end it, as JMS clients do; the
        condition of the refusal, '' when it is done."""
        lookup = self.receiver(None, link_name, opened=False)
        self.until(
            lambda: lookup.link.state & (Endpoint.REMOTE_ACTIVE | Endpoint.REMOTE_CLOSED), "attach"
        )
        self.turn(0.0)
        if lookup.link.remote_source.type == Terminus.UNSPECIFIED:
            return self.amqp_error(lookup)
        return self.leave(lookup, closed=True)


def in_use(port: int, container: str, topic: str, name: str) -> bool:
    """Whether this exclusive durable subscription has a consumer: another one is refused."""
    with Peer(port, container) as peer:
        link = peer.durable(topic, name, opened=False).link
        peer.until(lambda: link.remote_source.address or Peer.refused(link), "an answer")
        return Peer.refused(link)


def put_symbols(data: Data, words: Iterable[str]) -> None:
    if not words:
        return
    data.put_array(False, Data.SYMBOL)
    data.enter()
    for word in words:
        data.put_symbol(symbol(word))
    data.exit()


def selector(text: str) -> dict[str, Described]:
    return {"jms-selector": Described(ulong(SELECTOR), text)}


def no_local() -> dict[str, Described]:
    return {"no-local": Described(ulong(NO_LOCAL), "NoLocalFilter{}")}


#: Makes peers of the session's gateway, or of another one by its port (the fixture `connect`).
Connect: TypeAlias = Callable[..., Peer]
