"""What the gateway and the process that builds files for it say to each other.

Over a stream socket: four bytes of length (native), so many bytes of MessagePack, and behind an
answer the bytes of its files.
"""

import socket
import struct

import msgspec

from distributary.pipeline.tables.delta.commits import AddedFile
from distributary.pipeline.tables.journal.segment import FrameRef

_LENGTH = struct.Struct("=I")


class BuildRequest(msgspec.Struct, frozen=True):
    """Encode these frames, each with the file in which it lies, behind the last group and the first
    free sequence that the table has."""

    places: list[tuple[str, list[FrameRef]]]
    group: int
    sequence: int


class BuildAnswer(msgspec.Struct, frozen=True):
    """What a commit of them adds, `CommitFiles` without the bytes; or (`error`) why there is
    nothing."""

    group: int = 0
    sequence: int = 0
    added: list[AddedFile] = []
    error: str = ""


def send(connection: socket.socket, message: bytes) -> None:
    """Raises OSError when the other side is gone, or takes nothing for too long."""
    connection.sendall(_LENGTH.pack(len(message)) + message)


def receive(connection: socket.socket) -> bytearray:
    """The next message. Raises EOFError when the other side is gone, OSError as above."""
    (size,) = _LENGTH.unpack(receive_bytes(connection, _LENGTH.size))
    return receive_bytes(connection, size)


def receive_bytes(connection: socket.socket, size: int) -> bytearray:
    """Exactly so many bytes, in as few calls as the system has them ready. Raises as `receive`."""
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        got = connection.recv_into(view[at:], size - at, socket.MSG_WAITALL)
        if not got:
            raise EOFError("the other side has closed")
        at += got
    return data
