"""The gateway's end of the process that checks messages.

Rule 1: one request is under way at a time, in the order in which they came: so outcomes keep the
        order of their link.
Rule 2: a message that can't be checked is never accepted as valid. A process that dies, or takes
        longer than `schemas.check_ms_max` for a request, is ended and started again; its request
        fails, and a run of several messages is checked once more, each by itself. After
        RUN_FAILURES_MAX failures the rest of the run isn't tried: other peers wait.
"""

import socket
import threading
from array import array
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TypeAlias

import msgspec
import structlog

from distributary.ingest.processes.child_process import ChildProcess, receive, send
from distributary.ingest.runtime.settings import SchemaSettings
from distributary.ingest.schemas.check_messages import (
    VERSIONS_MAX,
    CheckAnswer,
    CheckRequest,
    CheckRun,
    CheckVersion,
    DefineVersion,
    SetLimits,
)

_events = structlog.get_logger("gateway")

PROCESS = "distributary.ingest.schemas.check_process"
#: Exceptions of a request without an answer.
_NO_ANSWER = (OSError, EOFError, msgspec.MsgspecError)
#: Seconds in which a started process must have imported all libraries and answer.
START_SECONDS_MAX = 30.0
#: Messages of one run that may fail by themselves, each after `schemas.check_ms_max` at most.
RUN_FAILURES_MAX = 3
UNCHECKED = "the message couldn't be checked by its topic's schema"


class RunToCheck(msgspec.Struct, frozen=True):
    """Messages, and the version to read them by."""

    version: DefineVersion
    lengths: bytes
    blob: bytes


#: Requests that go together, and the function called with all answers, on the worker's thread.
Work: TypeAlias = tuple[
    Sequence[RunToCheck | CheckVersion], Callable[[Sequence[CheckAnswer]], None]
]


class CheckWorker:
    """Asks the process, from a thread that only waits for it. Both begin with the first
    request."""

    def __init__(self, settings: SchemaSettings) -> None:
        self._settings = settings
        self._work: SimpleQueue[Work | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._child: ChildProcess | None = None
        #: Requests without an answer. The worker's thread counts, any thread may read.
        self.failures = 0
        self._defined: set[str] = set()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(CheckAnswer)

    def ask(
        self,
        what: Sequence[RunToCheck | CheckVersion],
        then: Callable[[Sequence[CheckAnswer]], None],
    ) -> None:
        """Check these; `then` gets an answer for each, on the worker's thread. Called on the
        loop's."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="schemas", daemon=True)
            self._thread.start()
        self._work.put((what, then))

    def close(self) -> None:
        """End the process; open requests get no answer."""
        if self._thread is not None:
            self._work.put(None)
            if (child := self._child) is not None:
                child.process.kill()  # its request fails at once
            self._thread.join()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            what, then = work
            then(
                [
                    self._checked(one) if isinstance(one, CheckVersion) else self._of_run(one)
                    for one in what
                ]
            )
        self._end()

    def _checked(self, what: CheckVersion) -> CheckAnswer:
        try:
            return self._asked(what, b"")
        except _NO_ANSWER as error:
            why = self._failed(error)
            return CheckAnswer(error=f"the schema couldn't be checked: {why}")

    def _of_run(self, what: RunToCheck) -> CheckAnswer:
        """Return the misfits of a run; check each message by itself if the whole run fails."""
        try:
            return self._misfits(what)
        except _NO_ANSWER as error:
            self._failed(error)
        found: list[tuple[int, str]] = []
        start = failures = 0
        for nth, length in enumerate(array("I", what.lengths)):
            one = what.lengths[4 * nth : 4 * nth + 4]
            part = RunToCheck(what.version, one, what.blob[start : start + length])
            start += length
            if failures == RUN_FAILURES_MAX:
                said = f"{UNCHECKED}: {failures} of those sent with it couldn't be, either"
                found.append((nth, said))
                continue
            try:
                found += [(nth, sentence) for _, sentence in self._misfits(part).misfits]
            except _NO_ANSWER as error:
                failures += 1
                found.append((nth, f"{UNCHECKED}: {self._failed(error)}"))
        return CheckAnswer(misfits=tuple(found))

    def _misfits(self, what: RunToCheck) -> CheckAnswer:
        self._connected()
        if what.version.name not in self._defined:
            if len(self._defined) >= VERSIONS_MAX:
                self._defined.clear()
            answer = self._asked(what.version, b"")
            if answer.error:
                count = len(what.lengths) // 4
                said = f"{UNCHECKED}: {answer.error}"
                return CheckAnswer(misfits=tuple((nth, said) for nth in range(count)))
            self._defined.add(what.version.name)
        return self._asked(CheckRun(what.version.name, what.lengths), what.blob)

    def _asked(self, request: CheckRequest, data: bytes) -> CheckAnswer:
        """Return the process's answer. Raises OSError and EOFError when there is none."""
        connection = self._connected()
        send(connection, self._encoder.encode(request))
        if data:
            connection.sendall(data)
        return self._decoder.decode(receive(connection))

    def _connected(self) -> socket.socket:
        """Return the process's socket; start the process if there is none, or if it has ended."""
        if self._child is not None and self._child.process.poll() == 0:
            self._end()
        if self._child is not None:
            return self._child.socket
        limits = self._settings
        words = str(limits.process_bytes_max)
        self._child = ChildProcess(PROCESS, words, answer_seconds=START_SECONDS_MAX)
        self._asked(
            SetLimits(limits.definition_bytes_max, limits.columns_max, limits.depth_max), b""
        )
        self._child.socket.settimeout(limits.check_ms_max / 1_000)
        return self._child.socket

    def _failed(self, error: Exception) -> str:
        why = str(error) or "the process that checks has ended"
        if isinstance(error, TimeoutError):
            why = f"no answer after {self._settings.check_ms_max} ms (schemas.check_ms_max)"
        self.failures += 1
        _events.warning("schemas.check_failed", reason=why, then="it is started again")
        self._end()
        return why

    def _end(self) -> None:
        self._defined.clear()
        if self._child is not None:
            self._child.end()
            self._child = None
