"""The process that encodes the files of large commits for a gateway, so that the gateway's loop has
the interpreter for itself.

    python -m distributary.ingest.commit.builder_process

Its standard input is a socket (`builder_messages`). It reads frames from the journal's files, and
returns their content as Parquet; only the gateway writes files and makes them durable. The process
ends when the gateway has closed the socket or is gone, or has sent no request in a while.
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

memory.set_up()  # before the import of Arrow; the gateway has set Arrow's environment variables
from distributary.pipeline.tables.topic_log import commit_files  # noqa: E402

#: Seconds without a request until it ends: its 100 MB pay only while there is much to commit.
IDLE_SECONDS = 60.0
#: The gateway has peers to serve at the same time: its loop goes first.
NICENESS = 5


def main() -> None:
    """Answer requests until the gateway has gone, or sends none."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(BuildRequest)
    with socket.socket(fileno=sys.stdin.fileno()) as gateway:
        send(gateway, encoder.encode(BuildAnswer()))  # all is imported, the process is ready
        gateway.settimeout(IDLE_SECONDS)
        while True:
            try:
                answer, data = _answer(decoder.decode(receive(gateway)))
                send(gateway, encoder.encode(answer))
                while data:
                    gateway.sendall(data.pop(0))
            except (EOFError, OSError):  # the gateway is gone, or the time without requests is over
                return


def _answer(request: BuildRequest) -> tuple[BuildAnswer, list[Bytes]]:
    """Return the answer to a request, and the bytes that follow it."""
    try:
        found = commit_files.encode(read(request), group=request.group, sequence=request.sequence)
    except Exception as error:  # noqa: BLE001 (the gateway encodes it itself, and meets the error)
        return BuildAnswer(error=f"{type(error).__name__}: {error}"), []
    if found is None:
        return BuildAnswer(request.group, request.sequence), []
    return BuildAnswer(found.group, found.sequence, found.added), found.data


def read(request: BuildRequest) -> list[memoryview]:
    """Return the frames' bytes. Raises OSError, and StoreError where a file has other groups."""
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
