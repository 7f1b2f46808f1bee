"""Messages that are looked at before they are taken: those of topics whose schema validates.

Rule 1: nothing of such a topic is taken that its schema doesn't allow, and nothing that couldn't be
        checked.
Rule 2: what came on a link goes to the log in its order: while messages of it are checked, those
        behind them wait, too.
Rule 3: what waits has a budget (`schemas.waiting_bytes_max`); beyond it messages are rejected. A
        link has no more under way than its credit.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from distributary.ingest.native.runs import Received
from distributary.ingest.net.link import Link
from distributary.ingest.publish.intake import Intake
from distributary.ingest.runtime.settings import SchemaSettings
from distributary.ingest.schemas.check_messages import CheckAnswer, CheckVersion, DefineVersion
from distributary.ingest.schemas.check_worker import CheckWorker, RunToCheck
from distributary.ingest.schemas.schema_directory import SchemaDirectory
from distributary.pipeline.model.amqp_error import NOT_IMPLEMENTED, AmqpError

#: What a message that doesn't fit is rejected with (AMQP 1.0, 2.8.16): its bytes can't be decoded
#: as what the topic says they are.
MISFIT = "amqp:decode-error"
TOO_MUCH = "amqp:resource-limit-exceeded"


@dataclass(frozen=True, slots=True, eq=False)
class CheckDone:
    """The worker tells the message loop: the oldest run that waits has been checked."""

    answer: CheckAnswer


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A run that waits, and its link and topic."""

    link: Link
    received: Received
    topic: str


class ValidatedIntake:
    """In front of the intake. All methods run on the loop's thread."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        settings: SchemaSettings,
        directory: SchemaDirectory,
        intake: Intake,
        complete: Callable[[CheckDone], None],
    ) -> None:
        """`complete` is called on the loop's thread when a run has been checked."""
        self._loop, self._settings, self._intake = loop, settings, intake
        self.directory, self._complete = directory, complete
        self._worker = CheckWorker(settings)
        self._held: deque[_Held] = deque()
        self._bytes = 0
        #: How many runs of each link wait.
        self._of_link: Counter[Link] = Counter()

    def take(self, link: Link, received: Received, topic: str) -> None:
        """Messages for one topic came."""
        version = self.directory.checked_by(topic) if self.directory.validates else None
        if version is None and (not self._held or not self._of_link[link]):
            self._intake.take(link, received, topic)
        elif self._bytes + len(received.blob) > self._settings.waiting_bytes_max and self._held:
            most = self._settings.waiting_bytes_max
            text = f"{most} bytes of messages wait to be checked (schemas.waiting_bytes_max)"
            self._refuse(link, received, topic, AmqpError(TOO_MUCH, f"{text}: send it again"))
        else:
            self._hold(_Held(link, received, topic), version)

    def unchecked(self, topic: str) -> AmqpError | None:
        """Why messages of this topic can't be published by a link that names no topic, or in a
        transaction; None if they can."""
        if self.directory.checked_by(topic) is None:
            return None
        text = f"'{topic}' checks its messages by a schema: send them by a link of its own"
        return AmqpError(NOT_IMPLEMENTED, f"{text}, and not in a transaction")

    def _refuse(self, link: Link, received: Received, topic: str, why: AmqpError) -> None:
        misfits = dict.fromkeys(range(received.count), why)
        self._intake.take_fitting(link, received, topic, misfits)

    def _hold(self, held: _Held, version: DefineVersion | None) -> None:
        self._held.append(held)
        self._bytes += len(held.received.blob)
        self._of_link[held.link] += 1
        if version is None:  # it waits for those before it alone
            version = DefineVersion("", "", "", ())
        run = RunToCheck(version, held.received.lengths, held.received.blob)
        self._worker.ask(run, self._answered)

    def _answered(self, answer: CheckAnswer) -> None:
        """On the worker's thread."""
        self._loop.call_soon_threadsafe(self._complete, CheckDone(answer))

    def checked(self, done: CheckDone) -> None:
        """The oldest run has been checked: what fits goes on, what doesn't is rejected."""
        held = self._held.popleft()
        self._bytes -= len(held.received.blob)
        self._of_link[held.link] -= 1
        if not self._of_link[held.link]:
            del self._of_link[held.link]
        misfits = {
            place: AmqpError(MISFIT, f"'{held.topic}': {sentence}")
            for place, sentence in done.answer.misfits
        }
        self._intake.take_fitting(held.link, held.received, held.topic, misfits)

    async def check_version(self, request: CheckVersion) -> CheckAnswer:
        """Whether a version may be set, and its columns."""
        future: asyncio.Future[CheckAnswer] = self._loop.create_future()

        def answered(answer: CheckAnswer) -> None:
            self._loop.call_soon_threadsafe(_resolve, future, answer)

        self._worker.ask(request, answered)
        return await future

    def close(self) -> None:
        """What still waits is never taken: its publishers have no outcome."""
        self._worker.close()


def _resolve(future: "asyncio.Future[CheckAnswer]", answer: CheckAnswer) -> None:
    if not future.done():
        future.set_result(answer)
