"""The process that encodes the files of large commits for a gateway, so that the gateway's loop has
the interpreter for itself.

    python -m distributary.ingest.commit.builder_process

Its standard input is a socket (`builder_messages`). It only reads: frames from the journal's files,
whose bytes it gives back as Parquet; what is written and made durable is the gateway's. It ends
when the gateway has closed the socket or is gone, or has asked for nothing in a while.
"""

import os
import signal
import socket
import sys
from pathlib import Path

import msgspec

from distributary.ingest.commit.builder_messages import BuildAnswer, BuildRequest
from distributary.ingest.processes.child_process import receive, send
from distributary.ingest.runtime import memory
from distributary.pipeline.codec.buffers import Bytes
from distributary.pipeline.tables.journal import segment

memory.set_up()  # before Arrow is imported; its variables come with the gateway's environment
from distributary.pipeline.tables.topic_log import commit_files  # noqa: E402

#: Seconds without a request until it ends: its 100 MB are for gateways that have much to commit.
IDLE_SECONDS = 60.0
#: A gateway that has commits to build has peers to serve: they go first.
NICENESS = 5


def main() -> None:
    """Answer until there is nobody to answer to."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(BuildRequest)
    with socket.socket(fileno=sys.stdin.fileno()) as gateway:
        send(gateway, encoder.encode(BuildAnswer()))  # it has imported all, and is ready
        gateway.settimeout(IDLE_SECONDS)
        while True:
            try:
                answer, data = _answer(decoder.decode(receive(gateway)))
                send(gateway, encoder.encode(answer))
                while data:
                    gateway.sendall(data.pop(0))
            except (EOFError, OSError):  # the gateway is gone, or has nothing for us
                return


def _answer(request: BuildRequest) -> tuple[BuildAnswer, list[Bytes]]:
    """What is said to a request, and the bytes behind it."""
    try:
        found = commit_files.encode(read(request), group=request.group, sequence=request.sequence)
    except Exception as error:  # noqa: BLE001 (the gateway does it by itself, and sees)
        return BuildAnswer(error=f"{type(error).__name__}: {error}"), []
    if found is None:
        return BuildAnswer(request.group, request.sequence), []
    return BuildAnswer(found.group, found.sequence, found.added), found.data


def read(request: BuildRequest) -> list[memoryview]:
    """The frames' bytes. Raises OSError, and StoreError where other groups lie."""
    views = [*request.frames]
    for path, refs in request.places:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            views += segment.read_frames(Path(path), fd, refs)
        finally:
            os.close(fd)
    return views


if __name__ == "__main__":
    main()
