"""Cost of transactions: 1, 10, 100 messages in each, published alone, or consumed and produced.

The same client does the same without transactions, and waits as often: until all that it published
is accepted. The compared figure is the CPU of the gateway for each message.
"""

import select
import struct
from collections.abc import Callable

from tests.bench import frames
from tests.bench.bench import Bench, Measurement
from tests.bench.frames import NULL, TRUE, described, listing, string, symbols, ubyte, uint
from tests.bench.peer import Endpoint, LoadError, Peer, ended

#: Messages in a transaction -> messages in all.
SIZES = {1: 3_000, 10: 12_000, 100: 60_000}
#: They are measured in turn, so many times.
ROUNDS = 3
DATA_BYTES = 1024
COORDINATOR, PRODUCER, CONSUMER = 0, 1, 2
#: Messages that the consumer may hold.
CREDIT = 1_000
_ACCEPTED = described(frames.ACCEPTED, b"\x45")
_TRANSACTIONAL = 0x34


class Client:
    """One connection with a coordinator, a producer, and (if it consumes) a consumer.

    `transactional`: what it does is part of a transaction; else everything counts at once.
    """

    def __init__(
        self, endpoint: Endpoint, to: str, queue: str | None, *, transactional: bool
    ) -> None:
        self._peer = Peer(endpoint)
        self._socket = self._peer.socket
        self._buffer = bytearray()
        self._transactional = transactional
        self._sent = self._answered = self._received = self._granted = self._credit = 0
        self._came: list[int] = []  #: delivery-ids
        self._declared: list[bytes] = []
        self._credited: set[object] = set()  #: links on which messages may go
        self._payload = frames.message(DATA_BYTES, to)
        name = self._peer.container
        source = described(frames.SOURCE, listing([string(name)]))
        coordinator = described(0x30, listing([symbols(["amqp:local-transactions"])]))
        target = described(frames.TARGET, listing([string(to), *[NULL] * 5, symbols(["queue"])]))
        self._attach(COORDINATOR, False, source, coordinator)
        self._attach(PRODUCER, False, source, target)
        if queue is not None:
            wanted = [string(queue), *[NULL] * 9, symbols(["queue"])]
            own = described(frames.TARGET, listing([]))
            self._attach(CONSUMER, True, described(frames.SOURCE, listing(wanted)), own)
            self._grant()
        self._until(lambda: len(self._credited) == 2)  # the handles are the gateway's own
        self._id = self._declare() if transactional else b""

    def _attach(self, handle: int, receiver: bool, source: bytes, target: bytes) -> None:
        role, first = (TRUE, NULL) if receiver else (frames.FALSE, uint(0))
        fields = [
            string(f"{self._peer.container}-{handle}"),
            uint(handle),
            role,
            ubyte(0),
            ubyte(0),
        ]
        fields += [source, target, NULL, NULL, first]
        self._socket.sendall(frames.frame(described(frames.ATTACH, listing(fields))))

    def _grant(self) -> None:
        fields = [uint(self._received), uint(frames.WINDOW), uint(0), uint(frames.WINDOW)]
        fields += [uint(CONSUMER), uint(self._received), uint(CREDIT)]
        self._granted = self._received + CREDIT
        self._socket.sendall(frames.frame(described(frames.FLOW, listing(fields))))

    # What it sends.

    def _transfer(self, handle: int, payload: bytes, state: bytes = NULL) -> bytes:
        tag = b"\xa0\x04" + struct.pack(">I", self._sent)
        fields = [uint(handle), uint(self._sent), tag, uint(0), frames.FALSE, frames.FALSE]
        if state != NULL:
            fields += [NULL, state]
        self._sent += 1
        return frames.frame(described(frames.TRANSFER, frames.short_list(fields)), payload)

    def _command(self, code: int, *fields: bytes) -> bytes:
        value = described(code, frames.short_list(fields) if fields else b"\x45")
        return self._transfer(COORDINATOR, described(0x77, value))

    def _state(self, *outcome: bytes) -> bytes:
        fields = [b"\xa0" + bytes([len(self._id)]) + self._id, *outcome]
        return described(_TRANSACTIONAL, frames.short_list(fields))

    def _declare(self) -> bytes:
        self._socket.sendall(self._command(0x31))
        self._until(lambda: bool(self._declared))
        return self._declared.pop()

    def work(self, count: int) -> None:
        """Consume so many messages, if it has a consumer, and publish as many; all of it counts
        when this returns."""
        consumed = self._take(count) if self._granted else []
        inside = self._transactional
        state = self._state() if inside else NULL
        parts = [self._transfer(PRODUCER, self._payload, state) for _ in range(count)]
        outcome = self._state(_ACCEPTED) if inside else _ACCEPTED
        settle = [
            frames.frame(
                described(
                    frames.DISPOSITION,
                    frames.short_list([TRUE, uint(one), uint(one), TRUE, outcome]),
                )
            )
            for one in consumed
        ]
        if inside:
            # As a JMS client: each message's outcome goes when it was seen, the rest after.
            parts = [*settle, *parts]
            identifier = b"\xa0" + bytes([len(self._id)]) + self._id
            parts.append(self._command(0x32, identifier, frames.FALSE))
            parts.append(self._command(0x31))
        self._socket.sendall(b"".join(parts))
        self._until(lambda: self._answered == self._sent)
        if inside:
            self._id = self._declared.pop()
        elif settle:
            self._socket.sendall(b"".join(settle))
        if self._granted and self._granted - self._received < CREDIT // 2:
            self._grant()

    # What it waits for.

    def _take(self, count: int) -> list[int]:
        self._until(lambda: len(self._came) >= count)
        taken, self._came = self._came[:count], self._came[count:]
        return taken

    def _until(self, done: Callable[[], bool]) -> None:
        while not done():
            if not select.select([self._socket], [], [], 15.0)[0]:
                raise LoadError(f"no answer: {self._answered} of {self._sent} are settled")
            data = self._socket.recv(1 << 18)
            if not data:
                raise LoadError("the server closed the connection")
            self._buffer += data
            for one in frames.split(self._buffer):
                self._read(one)

    def _read(self, one: frames.Frame) -> None:
        match one.code:
            case frames.TRANSFER:
                self._came.append(frames.number(one.fields(2)[1]) or 0)
                self._received += 1
            case frames.FLOW:
                self._credited.add(one.fields(5)[4])
            case frames.DISPOSITION:
                _, first, last, settled, state = one.fields(5)
                low = frames.number(first) or 0
                high = frames.number(last)
                self._answered += (low if high is None else high) - low + 1
                if not (settled and isinstance(state, frames.Described)):
                    raise LoadError(f"message {low} is not settled: {state}")
                self._told(state)
            case frames.DETACH | frames.END | frames.CLOSE:
                raise LoadError(ended(one))

    def _told(self, state: frames.Described) -> None:
        fields = state.value if isinstance(state.value, list) else []
        if state.code == 0x33 and isinstance(fields[0], bytes):
            self._declared.append(fields[0])
        elif state.code not in (frames.ACCEPTED, _TRANSACTIONAL):
            raise LoadError(f"rejected: {frames.error_text(fields)}")

    def close(self) -> None:
        self._peer.close()


def _costs(bench: Bench, size: int, *, consumes: bool) -> tuple[float, float]:
    """Microseconds of the gateway's CPU for each message: without transactions, and in them. Both
    take turns, so that whatever else the machine does slows both down."""
    share = max(1, bench.settings.count(SIZES[size]) // size // ROUNDS)
    queue = bench.name("from") if consumes else None
    endpoint = bench.server.endpoint
    used = [0.0, 0.0]
    for _ in range(ROUNDS):
        for which in (0, 1):
            if queue is not None:
                _work(Client(endpoint, queue, None, transactional=False), share, size)
            client = Client(endpoint, bench.name("to"), queue, transactional=bool(which))
            bench.server.wait_quiet()
            before = bench.server.cpu()
            _work(client, share, size)
            bench.server.wait_quiet()
            used[which] += bench.server.cpu().since(before).total
    plain, inside = (1e6 * seconds / (ROUNDS * share * size) for seconds in used)
    return plain, inside


def _work(client: Client, times: int, size: int) -> None:
    for _ in range(times):
        client.work(size)
    client.close()


def transactions(bench: Bench) -> Measurement:
    """Each size on a home of its own; the ratio is that of the largest."""
    measurement = Measurement()
    facts = measurement.facts
    for what, consumes in (("publish", False), ("through", True)):
        for size in SIZES:
            with bench.fresh():
                plain, inside = _costs(bench, size, consumes=consumes)
            facts[f"{what}_{size}_plain_us"], facts[f"{what}_{size}_us"] = plain, inside
            facts[f"{what}_ratio"] = inside / plain
    return measurement
