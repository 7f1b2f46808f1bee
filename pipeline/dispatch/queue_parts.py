"""The parts of a queue's state: the states in which a message of one subscription can be, the facts
that are known of it there, and the consumers.

Rule 1: no part is seen from outside. Only `QueueState` moves messages between the parts;
        `candidates` and `report` answer questions, and change nothing.
Rule 2: a change of consumers or of the policy may change which consumers a message may go to.
"""

from distributary.pipeline.dispatch.candidates import Candidates, QueueReport
from distributary.pipeline.dispatch.in_flight import InFlight
from distributary.pipeline.dispatch.message_groups import Groups
from distributary.pipeline.dispatch.priority_index import PriorityIndex
from distributary.pipeline.dispatch.read_cursor import ReadCursor
from distributary.pipeline.dispatch.ready import Ready, stuck
from distributary.pipeline.dispatch.service_queue import ServiceQueue
from distributary.pipeline.model.policy import Policy
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.redelivery.redelivery_delay import due_times
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet


class QueueParts:
    """The parts between which `QueueState` moves messages."""

    __slots__ = (
        "_attempts",
        "_dead_lettering",
        "_dead_letters",
        "_groups",
        "_in_flight",
        "_outstanding",
        "_policy",
        "_ready",
        "_turns",
        "_unread",
        "candidates",
        "report",
    )

    def __init__(
        self,
        position: int,
        settled: SequenceSet,
        attempts: Attempts,
        policy: Policy,
        priority_index: PriorityIndex | None,
        *,
        dead_letters: bool,
        ready: Ready | None = None,
    ) -> None:
        self._unread = ReadCursor(position, settled, priority_index)
        self._ready = Ready() if ready is None else ready
        self._in_flight = InFlight()
        self._dead_lettering = SequenceSet()  #: given up, and their copies aren't kept yet
        self._outstanding = self._ready.all()  #: ready, in flight, or given up
        self._attempts = attempts
        self._groups = Groups()
        self._turns = ServiceQueue()
        self._dead_letters = dead_letters  #: whether copies of messages given up may be kept
        self.candidates = Candidates(self._unread, self._ready, self._turns, self._groups, attempts)
        self.report = QueueReport(
            self._unread,
            self._ready,
            self._in_flight,
            self._outstanding,
            self._dead_lettering,
            self._groups,
            self._turns,
            attempts,
        )
        self._policy = policy
        self.policy = policy

    @property
    def policy(self) -> Policy:
        """The delivery policy; a new one holds from now on."""
        return self._policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        before, self._policy = self._policy, policy
        self._turns.single = policy.single_active
        self._in_flight.lock(policy.lock_ms * 1_000)
        if before.message_groups != policy.message_groups:
            self._groups.clear()
        elif before.single_active != policy.single_active:
            self._groups.owner.clear()  # the consumers that are served now may be others
        else:
            return
        self._ready.free(lambda eligible: isinstance(eligible, int))

    def follow(self, policy: Policy, *, dead_letters: bool) -> None:
        """Follow a changed policy; with `dead_letters` copies of messages given up may be kept."""
        self.policy, self._dead_letters = policy, dead_letters

    def join(self, consumer: int, priority: int, selector: str | None) -> None:
        """Attach a consumer."""
        self._in_flight.attach(consumer)
        if selector is not None and selector not in self._turns.selectors:
            # Messages that matched no selector until now may match this one.
            self._ready.free(lambda eligible: isinstance(eligible, frozenset))
        self._turns.attach(consumer, priority, selector)
        if self._groups.owner:
            self._go_on(self._groups.join())
            self._ready.free(self._in_flight.by_consumer.__contains__)

    def set_credit(self, consumer: int, credit: int) -> None:
        """Set the number of further messages that the consumer takes."""
        self._turns.set_credit(consumer, credit)

    def exhausted(self, run: Run, failures: int) -> bool:
        """Whether these messages, each with `failures`, have failed as often as they may."""
        limit = self._policy.delivery_attempts_max
        return limit > 0 and self._attempts.known(run[0], failures) >= limit

    def _go_on(self, buckets: set[int]) -> None:
        """Let messages of these buckets go that waited for another message of their bucket."""
        if buckets:
            freed = {stuck(bucket) for bucket in buckets if not self._groups.waits(bucket)}
            self._ready.free(freed.__contains__)

    def _recorded(self, run: Run) -> list[tuple[Run, int]]:
        """Split the run into parts of the same number of failed attempts, as the log records it."""
        attempts = self._attempts
        parts = attempts.parts(run)
        if not attempts.lost:
            return parts
        return [(part, attempts.recorded(part[0], told)) for part, told in parts]

    def _wait(self, run: Run) -> None:
        self._ready.put(run)
        if self._groups.members:
            self._go_on(self._groups.back(run, later=False))

    def _wait_later(self, run: Run, failures: int, now: int) -> None:
        policy = self._policy
        if not policy.redelivery_delay_ms:
            self._wait(run)
            return
        if self._groups.members:
            self._groups.back(run, later=True)
        for part, time in due_times(policy, run, failures, now):
            self._ready.delay(part, time)
