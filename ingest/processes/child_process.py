"""A process of ours beside the gateway, and the messages between both.

They go over a stream socket, the process's standard input: four bytes of length (native), then that
many bytes. The process ends when the gateway does, however that ends: its socket is closed then.
"""

import socket
import struct
import subprocess
import sys

_LENGTH = struct.Struct("=I")


class ChildProcess:
    """A module of ours in a process of its own, from the start to `end`."""

    __slots__ = ("process", "socket")

    def __init__(self, module: str, *words: str, answer_seconds: float) -> None:
        """Start it. `answer_seconds`: how long `socket` waits. Raises OSError."""
        own, other = socket.socketpair()
        own.settimeout(answer_seconds)
        with other:
            try:
                self.process = subprocess.Popen(  # noqa: S603 (our own module)
                    [sys.executable, "-P", "-m", module, *words],
                    stdin=other.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
            except OSError:
                own.close()
                raise
        self.socket = own

    def end(self) -> None:
        """End it now, whatever it does."""
        self.socket.close()
        self.process.kill()
        self.process.wait()


def send(connection: socket.socket, message: bytes) -> None:
    """Send a message. Raises OSError when the other side is gone, or doesn't read for too long."""
    connection.sendall(_LENGTH.pack(len(message)) + message)


def receive(connection: socket.socket) -> bytearray:
    """Return the next message. Raises EOFError when the other side is gone, OSError as `send`."""
    (size,) = _LENGTH.unpack(receive_bytes(connection, _LENGTH.size))
    return receive_bytes(connection, size)


def receive_bytes(connection: socket.socket, size: int) -> bytearray:
    """Return exactly `size` bytes, in as few calls as possible. Raises as `receive`."""
    data = bytearray(size)
    view, at = memoryview(data), 0
    while at < size:
        got = connection.recv_into(view[at:], size - at, socket.MSG_WAITALL)
        if not got:
            raise EOFError("the other side has closed")
        at += got
    return data
