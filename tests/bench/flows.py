"""The two ends of the load: a link that publishes what was laid out before, and one that drains.

Both are driven by the owner of the poll loop: `on_readable` and `on_writable` never block, `wants`
says which events they wait for. Neither looks at a message; they count.
"""

import select

import numpy as np
from numpy.typing import NDArray

from tests.bench import frames
from tests.bench.peer import Endpoint, LoadError, Peer, ended

#: What one send or read takes at most, in bytes.
CHUNK_BYTES = 1 << 18
#: The credit that a consumer keeps open, refilled when half of it is used (as JMS clients do).
CREDIT = 1000


class Sender:
    """Publishes the rows of `transfers` in order, never more than the server's credit allows.

    `accepted` counts the messages that the server accepted and settled.
    """

    def __init__(self, endpoint: Endpoint, topic: str, transfers: NDArray[np.uint8]) -> None:
        self.count: int = len(transfers)
        self._width: int = transfers.shape[1]
        self._bytes = transfers.reshape(-1).data
        self._at = 0
        self._credit_to = 0  #: how many messages the link may have sent in all
        self.accepted = 0
        #: Number of messages that are due; all of them unless a case sets the pace.
        self.due = self.count
        self.peer = Peer(endpoint)
        self._window_to = self.peer.window
        self.peer.attach_without_blocking(frames.attach_sender(self.peer.container, topic))
        self._buffer = self.peer.pending
        self.take_frames()

    @property
    def wants(self) -> int:
        ready = self._at < self._sendable
        return select.POLLIN | (select.POLLOUT if ready else 0)

    @property
    def _sendable(self) -> int:
        return self._width * min(self.due, self._credit_to, self._window_to)

    def on_writable(self) -> None:
        """Send what is due, allowed, and fits into the socket now."""
        stop = min(self._sendable, self._at + CHUNK_BYTES)
        if self._at < stop:
            try:
                self._at += self.peer.socket.send(self._bytes[self._at : stop])
            except BlockingIOError:
                return

    def on_readable(self) -> int:
        """Take in what the server says; how many messages it accepted with that."""
        try:
            data = self.peer.socket.recv(CHUNK_BYTES)
        except BlockingIOError:
            return 0
        if not data:
            raise LoadError(f"the server closed the connection after {self.accepted} messages")
        self._buffer += data
        return self.take_frames()

    def take_frames(self) -> int:
        before = self.accepted
        for frame in frames.split(self._buffer):
            if frame.code == frames.DISPOSITION:
                self._settle(frame.fields(5))
            elif frame.code == frames.FLOW:
                self._allow(frame.fields(7))
            elif frame.code in (frames.DETACH, frames.END, frames.CLOSE):
                raise LoadError(ended(frame))
        return self.accepted - before

    def _settle(self, fields: list[object]) -> None:
        _, first, last, settled, state = fields
        if not (isinstance(state, frames.Described) and state.code == frames.ACCEPTED and settled):
            raise LoadError(f"message {first} was not accepted and settled: {fields}")
        low = frames.number(first) or 0
        high = frames.number(last)
        self.accepted += (low if high is None else high) - low + 1

    def _allow(self, fields: list[object]) -> None:
        incoming, window, _, _, handle, delivery_count, credit = map(frames.number, fields)
        if window is not None:
            self._window_to = (incoming or 0) + window
        if handle is not None:
            self._credit_to = (delivery_count or 0) + (credit or 0)

    def __str__(self) -> str:
        sent = self._at // self._width
        limits = f"credit to {self._credit_to}, window to {self._window_to}"
        return f"{self.accepted} of {self.count} accepted, {sent} sent, {limits}"


class Receiver:
    """Consumes with credit, and accepts and settles every message.

    `ranges` settles what one read brought with one frame; otherwise each message gets a frame of
    its own. `count_max` is the most that can come: the frames for that many are laid out before.
    """

    def __init__(self, endpoint: Endpoint, attach: bytes, *, count_max: int, ranges: bool) -> None:
        self.received = 0
        self._granted = 0
        self._base: int | None = None  #: the delivery id of the first message
        self._ranges = ranges
        self._count_max = count_max
        self._width = len(frames.disposition(0, 0))
        self._settlements = memoryview(b"")
        self._lay_out(0)
        self._in = bytearray(4 * CHUNK_BYTES)
        self._out = bytearray()
        self.peer = Peer(endpoint)
        self.peer.attach_without_blocking(attach)
        self._have = len(self.peer.pending)
        self._in[: self._have] = self.peer.pending
        self._take_frames()

    def _lay_out(self, base: int) -> None:
        if not self._ranges:
            rows = frames.dispositions(self._count_max, base)
            self._settlements = rows.reshape(-1).data

    @property
    def wants(self) -> int:
        return select.POLLIN | (select.POLLOUT if self._out else 0)

    def grant(self) -> None:
        """Open the credit fully; the first call starts the flow of messages."""
        self._granted = self.received + CREDIT
        self._out += frames.flow(self.received, CREDIT)
        self.on_writable()

    def on_writable(self) -> None:
        """Send what waits: settlements and credit."""
        try:
            sent = self.peer.socket.send(self._out)
        except BlockingIOError:
            return
        del self._out[:sent]

    def on_readable(self) -> int:
        """Take in what came, settle it; how many messages that were."""
        room = memoryview(self._in)[self._have : self._have + CHUNK_BYTES]
        try:
            size = self.peer.socket.recv_into(room)
        except BlockingIOError:
            return 0
        if not size:
            raise LoadError(f"the server closed the connection after {self.received} messages")
        self._have += size
        before = self.received
        self._take_frames()
        if self.received > before:
            self._settle(before, self.received)
        return self.received - before

    def _settle(self, start: int, stop: int) -> None:
        base = self._base or 0
        if self._ranges:
            self._out += frames.disposition(base + start, base + stop - 1)
        elif stop <= self._count_max:
            self._out += self._settlements[start * self._width : stop * self._width]
        else:
            raise LoadError(f"{stop} messages came where at most {self._count_max} are owed")
        if self._granted - stop < CREDIT // 2:
            self._granted = stop + CREDIT
            self._out += frames.flow(stop, CREDIT)
        self.on_writable()

    def _take_frames(self) -> None:
        buffer, at, have = self._in, 0, self._have
        while have - at >= 8:
            size = int.from_bytes(buffer[at : at + 4])
            if have - at < size:
                break
            code = frames.code_at(buffer, at)
            alike = 1
            if code == frames.TRANSFER:
                if self._base is None:
                    self._begin(bytes(buffer[at : at + size]))
                alike = _alike(buffer, at, size, (have - at) // size)
                self.received += alike
            elif code in (frames.DETACH, frames.END, frames.CLOSE):
                raise LoadError(ended(frames.Frame(code, bytes(buffer[at : at + size]))))
            at += size * alike
        buffer[: have - at] = buffer[at:have]
        self._have = have - at

    def _begin(self, data: bytes) -> None:
        _, delivery, _, _, _, more = frames.Frame(frames.TRANSFER, data).fields(6)
        if more:
            raise LoadError("the server splits 1 KiB messages into frames; this client can't count")
        self._base = frames.number(delivery) or 0
        if self._base:
            self._lay_out(self._base)

    def __str__(self) -> str:
        return f"{self.received} received, credit for {self._granted - self.received} more"


def _alike(buffer: bytearray, at: int, size: int, count_max: int) -> int:
    """How many transfers of that very size lie behind each other from `at` on, at least one.

    Each is looked at where the one before it ends, so this is a walk over frames, only wide.
    """
    if count_max < 2 or buffer[at + 9] != 0x53 or buffer[at + 4] != 2:
        return 1
    sizes = np.ndarray((count_max,), ">u4", buffer, at, (size,))
    codes = np.ndarray((count_max,), np.uint8, buffer, at + 10, (size,))
    same = (sizes == size) & (codes == frames.TRANSFER)
    return count_max if same.all() else int(same.argmin())
