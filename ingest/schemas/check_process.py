"""The process that reads messages by their topic's schema for a gateway, so that the gateway's loop
never waits for a library, and no fault of a library harms the gateway.

    python -m distributary.ingest.schemas.check_process BYTES_MAX

Its standard input is a socket (`check_messages`). It keeps readers of versions and nothing else. It
ends when the gateway has closed the socket or is gone, or has asked for nothing in a while.
"""

import os
import resource
import signal
import socket
import sys
from array import array

import msgspec

from distributary.ingest.processes.child_process import receive, receive_bytes, send
from distributary.ingest.schemas.check_messages import (
    VERSIONS_MAX,
    CheckAnswer,
    CheckRequest,
    CheckRun,
    CheckVersion,
    DefineVersion,
    SetLimits,
)
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.schemas.column_types import require_free, spark_json
from distributary.pipeline.schemas.formats.json_keywords import misspelt
from distributary.pipeline.schemas.formats.row_reader import RowReader, row_reader
from distributary.pipeline.schemas.formats.version_check import incompatible
from distributary.pipeline.schemas.json_columns import parsed
from distributary.pipeline.schemas.schema_text import version_of
from distributary.pipeline.schemas.schema_version import LIMITS, Format, SchemaLimits, SchemaVersion
from distributary.pipeline.schemas.typed_row import Misfit

#: Seconds without a request until it ends: it takes memory only while it is needed.
IDLE_SECONDS = 60.0


class Checker:
    """Answers requests, one after the other."""

    def __init__(self) -> None:
        self._limits: SchemaLimits = LIMITS
        self._readers: dict[str, RowReader] = {}

    def answer(self, request: CheckRequest, data: bytes) -> CheckAnswer:
        """Return the answer to a request; `data` are the bytes after it."""
        match request:
            case SetLimits():
                self._limits = request.limits
                return CheckAnswer()
            case CheckVersion():
                return self._checked(request)
            case DefineVersion():
                return self._defined(request)
            case CheckRun():
                return CheckAnswer(misfits=self._misfits(request, data))

    def _checked(self, request: CheckVersion) -> CheckAnswer:
        try:
            new = _version(request.topic, request.text)
            reader = row_reader(new, (), self._limits)
            require_free(reader.layout.columns)
            if new.format is Format.JSON and (wrong := misspelt(parsed(new.definition))):
                return CheckAnswer(error=wrong)
            problems: list[str] = []
            if request.before:
                old = _version(request.topic, request.before)
                row_reader(old, (), self._limits)
                problems = incompatible(old, new)
        except InvalidRequest as error:
            return CheckAnswer(error=str(error))
        columns = msgspec.json.encode(spark_json(reader.layout.columns)).decode()
        return CheckAnswer(problems=tuple(problems), columns=columns)

    def _defined(self, request: DefineVersion) -> CheckAnswer:
        if len(self._readers) >= VERSIONS_MAX:
            self._readers.clear()
        others = [_version(request.topic, text) for text in request.others]
        try:
            version = _version(request.topic, request.text)
            self._readers[request.name] = row_reader(version, others, self._limits)
        except InvalidRequest as error:
            return CheckAnswer(error=str(error))
        return CheckAnswer()

    def _misfits(self, request: CheckRun, data: bytes) -> tuple[tuple[int, str], ...]:
        reader, found, start = self._readers[request.name], [], 0
        for nth, length in enumerate(array("I", request.lengths)):
            row = _read(reader, data[start : start + length])
            start += length
            if isinstance(row, Misfit):
                found.append((nth, row.sentence))
        return tuple(found)


def _read(reader: RowReader, message: bytes) -> object:
    try:
        return reader.read(message)
    except MemoryError:
        return Misfit("", "the message takes more memory to read than schemas.process_bytes_max")


def _version(topic: str, text: str) -> SchemaVersion:
    found = version_of(topic, text)
    assert found is not None, topic  # noqa: S101 - no check is by a drop
    return found


def main(bytes_max: str) -> None:
    """Answer requests until the gateway is gone or has none for a while."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_DATA, (int(bytes_max), int(bytes_max)))
    encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(CheckRequest)
    checker = Checker()
    with socket.socket(fileno=os.dup(sys.stdin.fileno())) as gateway:
        gateway.settimeout(IDLE_SECONDS)
        while True:
            try:
                request = decoder.decode(receive(gateway))
                size = sum(array("I", request.lengths)) if isinstance(request, CheckRun) else 0
                data = bytes(receive_bytes(gateway, size)) if size else b""
                send(gateway, encoder.encode(checker.answer(request, data)))
            except (EOFError, OSError):  # the gateway is gone, or has no requests
                return


if __name__ == "__main__":
    main(*sys.argv[1:])
