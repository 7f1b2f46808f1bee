"""Encoding of a commit's files, by the committer's thread, or for many groups by a process.

A commit of many small groups is work for the interpreter, and while a thread does it the loop waits
for the interpreter at every step. A separate process has its own interpreter. It encodes commits of
`commit.builder_groups` groups and more, and is started for the first of them; the thread encodes
smaller commits, those that come before the process is ready, and those at which the process fails.
The process only makes bytes: durability doesn't depend on it.
"""

import select
import socket
import subprocess
import time
from collections.abc import Sequence

import msgspec
import structlog

from distributary.ingest.commit.builder_messages import BuildAnswer, BuildRequest
from distributary.ingest.processes.child_process import ChildProcess, receive, receive_bytes, send
from distributary.pipeline.tables.journal.group_journal import GroupJournal
from distributary.pipeline.tables.journal.segment import FrameRef
from distributary.pipeline.tables.topic_log.commit_content import CommitFiles

_events = structlog.get_logger("log")

PROCESS = "distributary.ingest.commit.builder_process"
#: Seconds that the process may take for one commit; then it is ended, and the thread encodes it.
BUILD_SECONDS_MAX = 30.0
#: Seconds until a failed process is started again, the first time and at most.
AGAIN_SECONDS, AGAIN_SECONDS_MAX = 1.0, 60.0
#: Seconds that a process may take to end after it has closed its socket.
END_SECONDS_MAX = 5.0


class FileBuilder:
    """Encodes commits of one journal's frames. All methods run on the committer's thread; any
    thread may read `elsewhere`."""

    def __init__(
        self, journal: GroupJournal, groups_min: int, seconds_max: float = BUILD_SECONDS_MAX
    ) -> None:
        """`groups_min`: the least groups of a commit that the process encodes; 0: it encodes none.
        `seconds_max`: seconds that the process may take for one commit."""
        self._journal, self._groups_min, self._seconds_max = journal, groups_min, seconds_max
        self._child: ChildProcess | None = None
        self._ready = False
        self._again_at, self._again_seconds = 0.0, AGAIN_SECONDS
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(BuildAnswer)
        #: The process works now, and the thread waits for it.
        self.elsewhere = False

    def encode(self, refs: Sequence[FrameRef], group: int, sequence: int) -> CommitFiles | None:
        """Return the files of a commit of these frames, as `commit_files.encode` does."""
        if self._groups_min and len(refs) >= self._groups_min and self._there():
            places = [(str(path), list(some)) for path, some in self._journal.places(refs)]
            frames = [] if places else self._journal.read(refs)
            answer = self._ask(BuildRequest(places, group, sequence, frames))
            if answer is not None:
                return answer if answer.group > group else None
        # It imports Arrow, which `TopicLog.commit_files` has loaded by now.
        from distributary.pipeline.tables.topic_log import commit_files  # noqa: PLC0415

        return commit_files.encode(self._journal.read(refs), group=group, sequence=sequence)

    def _there(self) -> bool:
        """Whether the process is ready; start it if there is none."""
        child = self._child
        if child is None:
            if time.monotonic() >= self._again_at:
                self._start()
            return False
        if not self._ready and select.select([child.socket], [], [], 0)[0]:
            self._ready = self._received(child.socket) is not None
        return self._ready

    def _start(self) -> None:
        try:
            self._child = ChildProcess(PROCESS, answer_seconds=self._seconds_max)
        except OSError as error:
            self._failed(str(error))

    def _ask(self, request: BuildRequest) -> CommitFiles | None:
        """Return the process' answer; None if there is no valid one."""
        assert self._child is not None  # noqa: S101
        connection, self.elsewhere = self._child.socket, True
        try:
            send(connection, self._encoder.encode(request))
        except TimeoutError:
            self._failed("it takes no work")
            return None
        except OSError:
            self._gone()
            return None
        else:
            answer = self._received(connection)
            if answer is not None:
                self._again_seconds = AGAIN_SECONDS
            return answer
        finally:
            self.elsewhere = False

    def _received(self, connection: socket.socket) -> CommitFiles | None:
        try:
            answer = self._decoder.decode(receive(connection))
            if answer.error:
                self._failed(answer.error)
                return None
            data = [receive_bytes(connection, one.size) for one in answer.added]
        except TimeoutError:
            self._failed(f"it has no answer after {self._seconds_max:.0f} s")
            return None
        except (EOFError, OSError):
            self._gone()
            return None
        except msgspec.MsgspecError as error:
            self._failed(str(error))
            return None
        return CommitFiles(answer.group, answer.sequence, answer.added, [*data])

    def _gone(self) -> None:
        """Handle a closed socket: the process was idle for too long, or it has died."""
        assert self._child is not None  # noqa: S101
        try:
            code = self._child.process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._failed("it has closed its socket")
            return
        if code:
            self._failed(f"it ended with {code}")
        else:
            self._end()

    def _failed(self, reason: str) -> None:
        """End a process that has failed; it is started again after a pause, longer each time."""
        seconds = self._again_seconds
        _events.warning(
            "commit.builder_failed",
            reason=reason,
            then="the committer's thread does its work",
            again_in_seconds=seconds,
        )
        self._again_at = time.monotonic() + seconds
        self._again_seconds = min(2 * seconds, AGAIN_SECONDS_MAX)
        self._end()

    def _end(self) -> None:
        self._ready = False
        if self._child is not None:
            self._child.end()
            self._child = None

    def close(self) -> None:
        """End the process. No commit runs any more."""
        self._end()
