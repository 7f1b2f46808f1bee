"""Plays acts to a gateway over real sockets: many frames in a write, all that comes is read.

What only the gateway's answers say (ids of transactions, names of temporary destinations) is put
into what is sent, see `fuzz_messages`.
"""

import re
import select
import socket
import time
from contextlib import suppress

from fuzz_messages import TEMPORARIES, TEMPORARY, TRANSACTION, TRANSACTIONS
from fuzz_transcript import Act, Drop, Hear, Say

#: Seconds that a `Hear` waits, and that the gateway has for taking what is sent and for ending
#: sockets that have.
HEAR_SECONDS, END_SECONDS = 0.02, 20.0
DECLARED = re.compile(rb"\x00\x53\x33\xc0.\x01\xa0\x08(.{8})", re.DOTALL)
MADE = re.compile(rb"temp-(?:queue|topic)://[0-9a-f]{32}")
#: A name of a temporary destination that isn't its own yet: both kinds, all numbers.
NAMES = [
    [TEMPORARY.format(kind, n).encode() for kind in ("queue", "topic")] for n in range(TEMPORARIES)
]
READ_BYTES = 1 << 18


class Stuck(Exception):
    """The gateway neither takes nor ends what it should."""


class Line:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=END_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.over = False
        self._declared: list[bytes] = []

    def hear(self, made: list[bytes], seconds: float = 0.0) -> None:
        """Read what is there, or comes within that time."""
        while not self.over and select.select([self.socket], [], [], seconds)[0]:
            data, seconds = b"", 0.0
            with suppress(ConnectionError):
                data = self.socket.recv(READ_BYTES)
            self.over = not data
            if b"\x00\x53\x33" in data:
                self._declared += DECLARED.findall(data)
            if b"temp-" in data:
                made += [name for name in MADE.findall(data) if name not in made]

    def say(self, data: bytes, made: list[bytes]) -> None:
        """Send it all, while reading. Raises Stuck when the gateway doesn't take it."""
        rest = memoryview(self._filled(data, made))
        deadline = time.monotonic() + END_SECONDS
        while rest and not self.over:
            try:
                rest = rest[self.socket.send(rest) :]
            except BlockingIOError:
                select.select([self.socket], [self.socket], [], 0.05)
            except OSError:
                self.over = True
            self.hear(made)
            if rest and time.monotonic() > deadline:
                raise Stuck(f"{len(rest)} bytes were not taken in {END_SECONDS} s")

    def _filled(self, data: bytes, made: list[bytes]) -> bytes:
        if TRANSACTION in data and self._declared:
            for number, known in zip(range(TRANSACTIONS), reversed(self._declared), strict=False):
                data = data.replace(TRANSACTION + bytes([number]), known)
        if b"://fuzz-temporary-" in data and made:
            for number, name in zip(range(TEMPORARIES), reversed(made), strict=False):
                for place in NAMES[number]:
                    if len(name) == len(place):
                        data = data.replace(place, name)
        return data

    def end(self, made: list[bytes]) -> None:
        """Say no more, and read until the gateway has ended the socket: it has acted on all."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + END_SECONDS
        while not self.over:
            self.hear(made, 0.5)
            if time.monotonic() > deadline:
                raise Stuck(f"a socket that has ended is still open after {END_SECONDS} s")
        self.socket.close()


def play(port: int, acts: list[Act]) -> None:
    """Play them; a connection that the gateway ends is no failure. Raises Stuck, and OSError if no
    gateway listens."""
    lines: dict[int, Line] = {}
    made: list[bytes] = []
    try:
        for connection, data, then in batches(acts):
            if connection not in lines:
                lines[connection] = Line(port)
            line = lines[connection]
            line.say(data, made)
            match then:
                case Hear():
                    line.hear(made, HEAR_SECONDS)
                case Drop():
                    line.over = True
                    line.socket.close()
        for line in lines.values():
            line.end(made)
    finally:
        for line in lines.values():
            line.socket.close()


def batches(acts: list[Act]) -> list[tuple[int, bytes, Act | None]]:
    """The bytes that each connection sends in one go, and its act then."""
    found: list[tuple[int, bytes, Act | None]] = []
    connection, data = -1, bytearray()
    for act in acts:
        if data and act.connection != connection:
            found.append((connection, bytes(data), None))
            data.clear()
        connection = act.connection
        if isinstance(act, Say):
            data += act.data
        else:
            found.append((connection, bytes(data), act))
            data.clear()
    if data:
        found.append((connection, bytes(data), None))
    return found
