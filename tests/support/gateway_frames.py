"""Frames by hand, over a plain socket: what no well-behaved engine would send or show.

`make("attach", name="N", handle=0, ...)` is a performative by the names of its fields, and
`one["source"]["address"]` reads them so; their types are in `gateway_fields`.
Nothing of ours and nothing of Proton's engine is used, see `gateway_codec`.
"""

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from gateway_codec import decode, encode
from gateway_fields import KINDS, Fields, composite, make, words
from gateway_process import PATIENCE
from proton import Described, symbol, ubyte, uint, ushort

AMQP_HEADER = b"AMQP\x00\x01\x00\x00"
SASL_HEADER = b"AMQP\x03\x01\x00\x00"

OPEN, BEGIN, ATTACH, FLOW, TRANSFER = 0x10, 0x11, 0x12, 0x13, 0x14
DISPOSITION, DETACH, END, CLOSE = 0x15, 0x16, 0x17, 0x18
SASL_INIT = 0x41
ACCEPTED, SOURCE, TARGET, COORDINATOR = 0x24, 0x28, 0x29, 0x30


def frame_of(kind: str, *, payload: bytes = b"", channel: int = 0, **given: object) -> bytes:
    """A frame by the names of its performative's fields."""
    return framed(
        encode(make(kind, **given)) + payload, channel=channel, kind=int(kind.startswith("sasl"))
    )


def framed(body: bytes, *, channel: int = 0, kind: int = 0) -> bytes:
    return struct.pack(">IBBH", 8 + len(body), 2, kind, channel) + body


def frame(
    code: int, *fields: object, payload: bytes = b"", channel: int = 0, kind: int = 0
) -> bytes:
    """A frame by the order of its performative's fields."""
    return framed(encode(composite(code, *fields)) + payload, channel=channel, kind=kind)


#: A frame without a performative: it only shows that its sender lives.
EMPTY_FRAME = framed(b"")


def number(value: object) -> int:
    assert isinstance(value, int)
    return value


def open_frame(container: str, frame_bytes_max: int = 1 << 20, *, sole: bool = False) -> bytes:
    """`sole`: it desires the container id for itself alone."""
    fields = [container, "localhost", uint(frame_bytes_max), ushort(10)]
    if sole:
        fields += [None] * 4 + [words("sole-connection-for-container")]
    return frame(OPEN, *fields)


def begin_frame(channel: int = 0) -> bytes:
    return frame(BEGIN, None, uint(0), uint(1 << 20), uint(1 << 20), channel=channel)


def sender_frame(name: str, target: Described | None, handle: int = 0) -> bytes:
    source = composite(SOURCE, name)
    modes = (ubyte(0), ubyte(0))
    return frame(ATTACH, name, uint(handle), False, *modes, source, target, None, None, uint(0))


def receiver_frame(name: str, source: Described | None, handle: int = 0) -> bytes:
    return frame(ATTACH, name, uint(handle), True, ubyte(0), ubyte(0), source, composite(TARGET))


def topic_target(topic: str) -> Described:
    return composite(TARGET, topic)


def durable_source(topic: str) -> Described:
    return composite(SOURCE, topic, uint(2), symbol("never"))


def transfer_frame(number: int, payload: bytes, *, handle: int = 0, more: bool = False) -> bytes:
    fields = (uint(handle), uint(number), str(number).encode(), uint(0), False, more)
    return frame(TRANSFER, *fields, payload=payload)


def accept_frame(first: int, last: int, *, settled: bool = True) -> bytes:
    """The receiver's disposition of a range of deliveries."""
    return frame(DISPOSITION, True, uint(first), uint(last), settled, composite(ACCEPTED))


def credit_frame(credit: int, handle: int = 0) -> bytes:
    window = (uint(0), uint(1 << 20), uint(0), uint(1 << 20))
    return frame(FLOW, *window, uint(handle), uint(0), uint(credit))


@dataclass(frozen=True)
class Frame:
    """One frame that came. `code` is 0 for an empty one."""

    code: int
    fields: list[object]
    payload: bytes
    channel: int = 0

    @property
    def kind(self) -> str:
        return KINDS[self.code] if self.code else "empty"

    def field(self, number: int) -> object:
        return self.fields[number] if number < len(self.fields) else None

    def __getitem__(self, name: str) -> object:
        """A field by its name; a composite's own fields have names, too."""
        return Fields(composite(self.code, *self.fields))[name]

    def __repr__(self) -> str:
        shown = repr(Fields(composite(self.code, *self.fields))) if self.code else "empty"
        return f"[{self.channel}] {shown} + {len(self.payload)} bytes"

    @property
    def error(self) -> str:
        """The condition's name, if any field is an error."""
        for value in self.fields:
            if isinstance(value, Described) and value.descriptor == 0x1D:
                return str(value.value[0])
        return ""

    @property
    def says(self) -> str:
        """The error's sentence."""
        error = self["error"]
        assert isinstance(error, Fields), f"{self!r} has no error"
        return str(error["description"])


class Raw:
    """A socket to a gateway. `sent` bytes go as they are; frames that come are read one by one."""

    def __init__(self, port: int, *, hello: bytes = b"", host: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection((host, port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        if hello:
            try:
                self.send(hello)
            except BaseException:
                self.socket.close()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, *parts: bytes) -> None:
        self.socket.sendall(b"".join(parts))

    def exactly(self, size: int) -> bytes:
        """So many bytes, or fewer if the gateway ends the socket."""
        while len(self._buffer) < size:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                break
            self._buffer += data
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def rest(self) -> bytes:
        """All that comes until the gateway ends the socket. It must."""
        taken = b""
        while more := self.exactly(1):
            taken += more + self._buffer
            self._buffer = b""
        return taken

    def frames(self) -> Iterator[Frame]:
        """The frames that come, without headers of protocols; ends with the socket."""
        while head := self.exactly(8):
            if head.startswith(b"AMQP"):
                continue
            size, offset, _kind, channel = struct.unpack(">IBBH", head)
            body = self.exactly(size - 8)[4 * offset - 8 :]
            if not body:
                yield Frame(0, [], b"", channel)
                continue
            value, used = decode(body)
            assert isinstance(value, Described)
            yield Frame(int(value.descriptor), list(value.value), body[used:], channel)

    def read(self) -> Frame:
        """The next frame that says anything, whatever it is."""
        for one in self.frames():
            if one.code:
                return one
        raise AssertionError("the socket ended without a frame")

    def expect(self, *kinds: str) -> list[Frame]:
        """The next frames; they must be of these kinds, in this order, with nothing in between."""
        came: list[Frame] = []
        for kind in kinds:
            came.append(self.read())
            assert came[-1].kind == kind, f"awaited {kinds}, there came {came}"
        return came

    def heard(self) -> list[Frame]:
        """Wait until the gateway has acted on all that was sent; what it said until then. Asked by
        a session that begins and ends: the answers to it come behind everything else."""
        self.send(begin_frame(channel=9))
        came: list[Frame] = []
        while (one := self.read()).kind != "begin" or one["remote-channel"] != 9:
            came.append(one)
        own = one.channel
        self.send(frame_of("end", channel=9))
        while (one := self.read()).kind != "end" or one.channel != own:
            came.append(one)
        return came

    def next(self, code: int) -> Frame:
        """The next frame of this kind."""
        for one in self.frames():
            if one.code == code:
                return one
        raise AssertionError(f"the socket ended without a frame 0x{code:02x}")

    def until_end(self) -> list[Frame]:
        """All frames until the gateway ends the socket."""
        return list(self.frames())


def begun(port: int, container: str, *more: bytes, sole: bool = False) -> Raw:
    """A raw connection with one session, and what is sent with it."""
    return Raw(
        port,
        hello=b"".join([AMQP_HEADER, open_frame(container, sole=sole), begin_frame(), *more]),
    )
