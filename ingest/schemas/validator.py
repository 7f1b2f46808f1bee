"""The one place that checks messages by their topics' schemas, on all ways into a topic.

Rule 1: no message enters a topic that its schema doesn't allow, or that couldn't be checked:
        `CONSEQUENCES` names its fate, by the way on which it came.
Rule 2: messages of a link go on in order: while some are checked, later ones wait, too. Commands of
        a transaction, and its controller's detach, wait for the messages that were sent in it.
Rule 3: waiting messages have a budget (`schemas.waiting_bytes_max`), of which a peer may have as
        many bytes as are still free; beyond it messages are rejected. A link has no more under way
        than its credit. Peers are served in turn.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import msgspec
import structlog

from distributary.ingest.native import pump
from distributary.ingest.native.runs import Received
from distributary.ingest.net.link import Link, Peer
from distributary.ingest.publish.relay import Goal, Goals, Kept, Unrouted, but
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.host import Host
from distributary.ingest.runtime.policies import Policies
from distributary.ingest.schemas.check_messages import CheckAnswer, CheckVersion
from distributary.ingest.schemas.check_queue import CheckQueue
from distributary.ingest.schemas.check_worker import CheckWorker, RunToCheck
from distributary.ingest.schemas.schema_directory import CheckedBy, SchemaDirectory
from distributary.pipeline.amqp.dead_letter import MisfitInfo
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.schemas.schema_version import CONSEQUENCES, Consequence, Way

_events = structlog.get_logger("gateway")

#: Condition of a rejected misfit (AMQP 1.0, 2.8.16): its bytes can't be decoded as the topic's
#: schema says.
MISFIT = "amqp:decode-error"
TOO_MUCH = "amqp:resource-limit-exceeded"
TOO_MUCH_TEXT = (
    "too many of your messages wait to be checked (schemas.waiting_bytes_max): send it again"
)
#: Counters of misfits that come from a link.
_COUNTED = {
    Consequence.REJECT: Outcome.REJECTED,
    Consequence.DEAD_LETTER: Outcome.DEAD_LETTERED,
}
#: Runs that the process has at once: it reads one while the loop takes the answer to the other.
_ASKED_MAX = 2


class CheckDone(msgspec.Struct, frozen=True, eq=False):
    """The worker tells the message loop: the run that it was given first has been checked."""

    answers: Sequence[CheckAnswer]


class CheckedRun(msgspec.Struct, frozen=True, eq=False):
    """A run that waited may go on to these goals; its `unrouted` messages aren't routed further."""

    link: Link
    received: Received
    goals: Goals
    unrouted: Unrouted


class HeldFrame(msgspec.Struct, frozen=True, eq=False):
    """A command or the detach of a controller of transactions may be handled: do the work."""

    link: Link
    work: Callable[[], None]


class _Check(msgspec.Struct, frozen=True, eq=False):
    """Messages of a run, by their places, that a topic's schema checks."""

    topic: str
    way: Way
    consequence: Consequence
    places: Sequence[int]
    run: RunToCheck


class _HeldRun(msgspec.Struct, frozen=True, eq=False):
    """A run that waits; `at`: when it came, by the loop's clock."""

    at: float
    link: Link
    received: Received
    goals: Goals
    checks: Sequence[_Check]


_Held: TypeAlias = _HeldRun | HeldFrame


class Validator:
    """Checks messages before the intake and transactions. All methods run on the loop's thread."""

    def __init__(
        self,
        host: Host,
        directory: SchemaDirectory,
        policies: Policies,
        complete: Callable[[CheckDone], None],
    ) -> None:
        """`complete` is called on the loop's thread when a run has been checked."""
        self._loop, self._counts, self._policies = host.loop, host.counts, policies
        self._settings = host.settings.schemas
        self.directory, self._complete = directory, complete
        self._worker = CheckWorker(self._settings)
        self._queue: CheckQueue[Peer, _Held] = CheckQueue()
        #: Messages that wait, or are being checked.
        self.waiting_messages = 0

    @property
    def active(self) -> bool:
        """Whether any message or command may have to wait."""
        return self.directory.validates or bool(self._queue)

    @property
    def waiting_bytes(self) -> int:
        """Bytes of messages that wait, or are being checked."""
        return self._queue.bytes

    @property
    def failures(self) -> int:
        """Checks that had no answer."""
        return self._worker.failures

    # Publishers.

    def admit(self, link: Link, received: Received, goals: Goals) -> Goals | None:
        """Return the goals of messages that came; None: they wait, and `checked` gives them
        back."""
        checks = list(self._checks(received, goals))
        if not checks and not self._queue.waits(link):
            return goals
        peer, size = link.connection, len(received.blob)
        if not self._queue.has_room(peer, size, self._settings.waiting_bytes_max):
            self._counts.unchecked += received.count
            return [(AmqpError(TOO_MUCH, TOO_MUCH_TEXT), received.count)]
        self.waiting_messages += received.count
        keys = (link, peer) if received.transaction else (link,)
        held = _HeldRun(self._loop.time(), link, received, goals, checks)
        self._queue.add(peer, held, keys, size)
        self._ask()
        return None

    def holds(self, link: Link, work: Callable[[], None]) -> bool:
        """Whether the work for a controller's frame waits for messages that were sent in
        transactions of its peer."""
        peer = link.connection
        if not self._queue.waits(peer):
            return False
        self._queue.add(peer, HeldFrame(link, work), (peer,), 0)
        return True

    def checked(self, done: CheckDone) -> CheckedRun | HeldFrame:
        """Return the run, or the work for a controller's frame, that goes on now."""
        held = self._queue.done()
        self._ask()
        if not isinstance(held, _HeldRun):
            return held
        self.waiting_messages -= held.received.count
        if held.checks:
            self._counts.check_seconds.observe(self._loop.time() - held.at)
        others: dict[int, Goal] = {}
        unrouted: dict[str, dict[int, Kept]] = {}
        for check, answer in zip(held.checks, done.answers, strict=True):
            self._tell(check, answer)
            for nth, sentence in answer.misfits:
                place, kept = check.places[nth], self._kept(check.topic, sentence)
                if check.way is Way.ROUTED:
                    unrouted.setdefault(check.topic, {})[place] = kept
                elif check.consequence is Consequence.REJECT:
                    others[place] = AmqpError(MISFIT, kept.info.sentence)
                else:
                    others[place] = kept
        goals = but(held.goals, others) if others else held.goals
        return CheckedRun(held.link, held.received, goals, unrouted)

    def _tell(self, check: _Check, answer: CheckAnswer) -> None:
        if not answer.misfits:
            return
        count = len(answer.misfits)
        self._counts.misfit(check.topic, _COUNTED[check.consequence], count)
        _events.info(
            "messages.misfit",
            topic=check.topic,
            way=check.way.value,
            then=check.consequence.value,
            messages=count,
            reason=answer.misfits[0][1],
        )

    def _kept(self, topic: str, sentence: str) -> Kept:
        info = MisfitInfo(topic, f"'{topic}': {sentence}", clock.now())
        return Kept(self._policies.dead_letters_of_topic(topic), info)

    def _checks(self, received: Received, goals: Goals) -> Iterator[_Check]:
        """Yield the checks to be made: by the schemas of the topics that the messages go to, and of
        those that they are routed to."""
        if not self.directory.validates:
            return
        places: dict[tuple[Way, str], list[range]] = {}
        start = 0
        for goal, count in goals:
            some = range(start, start + count)
            start += count
            if isinstance(goal, str):
                places.setdefault((Way.PUBLISHED, goal), []).append(some)
                for to in {route.to.topic for route in self._policies.of_topic(goal).routes}:
                    if to != goal:
                        places.setdefault((Way.ROUTED, to), []).append(some)
        for (way, topic), ranges in places.items():
            by = self.directory.checked_by(topic)
            if by is not None:
                yield _check(received, topic, ranges, by, way)

    def _ask(self) -> None:
        """Give the process as many runs as it may have."""
        while self._queue.taken < _ASKED_MAX:
            held = self._queue.take()
            if held is None:
                return
            runs = [one.run for one in held.checks] if isinstance(held, _HeldRun) else []
            self._worker.ask(runs, self._answered)  # an item without checks keeps its place

    def _answered(self, answers: Sequence[CheckAnswer]) -> None:
        """Pass answers to the loop, from the worker's thread."""
        self._loop.call_soon_threadsafe(self._complete, CheckDone(answers))

    # Operators.

    async def misfits(self, topic: str, messages: Sequence[bytes]) -> Mapping[int, str]:
        """Return the dead letters, by their places, that can't be redriven to a topic, and why."""
        by = self.directory.checked_by(topic)
        if by is None or (Way.REDRIVEN, by.validation) not in CONSEQUENCES or not messages:
            return {}
        lengths = b"".join(len(one).to_bytes(4, "little") for one in messages)
        [answer] = await self._asked(RunToCheck(by.version, lengths, b"".join(messages)))
        return dict(answer.misfits)

    async def check_version(self, request: CheckVersion) -> CheckAnswer:
        """Return whether a version may be set, and its columns."""
        [answer] = await self._asked(request)
        return answer

    async def _asked(self, what: RunToCheck | CheckVersion) -> Sequence[CheckAnswer]:
        future: asyncio.Future[Sequence[CheckAnswer]] = self._loop.create_future()

        def answered(answers: Sequence[CheckAnswer]) -> None:
            self._loop.call_soon_threadsafe(_resolve, future, answers)

        self._worker.ask([what], answered)
        return await future

    def close(self) -> None:
        """End the process; waiting messages are never taken, and get no outcome."""
        self._worker.close()


def _check(
    received: Received, topic: str, ranges: Sequence[range], by: CheckedBy, way: Way
) -> _Check:
    places = [place for some in ranges for place in some]
    lengths, blob = received.lengths, received.blob
    if len(places) != received.count:
        offsets = memoryview(pump.offsets(lengths, received.count)).cast("i")
        lengths = b"".join(lengths[4 * some.start : 4 * some.stop] for some in ranges)
        blob = b"".join(blob[offsets[some.start] : offsets[some.stop]] for some in ranges)
    consequence = CONSEQUENCES[way, by.validation]
    return _Check(topic, way, consequence, places, RunToCheck(by.version, lengths, blob))


def _resolve(
    future: "asyncio.Future[Sequence[CheckAnswer]]", answers: Sequence[CheckAnswer]
) -> None:
    if not future.done():
        future.set_result(answers)
