"""The dispatcher of one subscription: which consumer gets the next message.

A machine without I/O: commands are methods, effects are returned, the caller performs them. The
same commands give the same effects.

Rule 1: a message that is owed is in exactly one state (`pipeline.dispatch.queue_state`).
Rule 2: a message is assigned when it is delivered and never ahead, to the next consumer in turn
        that has credit at that moment (`pipeline.dispatch.service_queue`).
Rule 3: messages that are alike are handled as a run, without a step for each of them; effects carry
        runs (`pipeline.dispatch.plain_dispatch`). `pipeline.dispatch.selective_dispatch` handles
        batches of unlike messages.
"""

from array import array
from collections.abc import Mapping, Sequence

from distributary.pipeline.dispatch import plain_dispatch
from distributary.pipeline.dispatch.candidates import QueueReport
from distributary.pipeline.dispatch.effects import NOBODY, DeadLetter, Deliver, Effect, Settled
from distributary.pipeline.dispatch.priority_index import PriorityIndex
from distributary.pipeline.dispatch.queue_state import QueueState
from distributary.pipeline.dispatch.read_cursor import FOREVER
from distributary.pipeline.dispatch.selective_dispatch import Offered, SelectiveDispatch
from distributary.pipeline.model.header_attributes import HeaderAttributes
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.policy import DEFAULT, Policy
from distributary.pipeline.model.transitions import Event, event_of
from distributary.pipeline.redelivery.attempts import Attempts
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet

__all__ = ["FOREVER", "NOBODY", "DeadLetter", "Deliver", "Dispatcher", "Effect", "Settled"]


class Dispatcher:
    """The deliveries of one subscription.

    Consumers are numbers above 0 that the caller gives; a number is not used again while it is
    attached. After each command that may have made room (`credit`, `settle`, `detach`, `wake`) and
    whenever messages arrive, the caller asks `wanted` and offers what the topic has from there on.
    Times are microseconds.
    """

    __slots__ = ("_floor", "_state", "paused")

    def __init__(
        self,
        position: int,
        settled: SequenceSet | None = None,
        *,
        attempts: Attempts | None = None,
        policy: Policy = DEFAULT,
        priority_index: PriorityIndex | None = None,
        dead_letters: bool = False,
    ) -> None:
        """`position` is the first sequence that is owed and not read. `settled` (exceptions above
        it) and `attempts` (of owed messages) come from before a restart; the dispatcher keeps and
        changes both. With `dead_letters` a message that is given up may be copied to the dead
        letters; else it is settled at once."""
        self.paused = False  #: no message is delivered; outcomes still count
        self._state = QueueState(
            position,
            SequenceSet() if settled is None else settled,
            Attempts({}, 0) if attempts is None else attempts,
            policy,
            priority_index,
            dead_letters=dead_letters,
        )
        self._floor = self.position

    def view(self) -> "Dispatcher":
        """Return an independent copy for a browser: the messages that could be delivered now and
        those after them, with their failed attempts. Neither changes the other."""
        view = Dispatcher(0)
        view._state = self._state.view()
        view._floor = view._state.report.floor
        return view

    @property
    def report(self) -> QueueReport:
        """The state of each message and the consumers' turns: read-only."""
        return self._state.report

    @property
    def policy(self) -> Policy:
        """The delivery policy; a new one holds from now on."""
        return self._state.policy

    @policy.setter
    def policy(self, policy: Policy) -> None:
        self._state.policy = policy

    def follow(self, policy: Policy, *, dead_letters: bool) -> None:
        """Follow a changed policy; `dead_letters` as at the beginning."""
        self._state.follow(policy, dead_letters=dead_letters)

    @property
    def position(self) -> int:
        """First sequence that wasn't read yet; only `rewind` lowers it."""
        return self._state.report.position

    @property
    def reach(self) -> int:
        """Sequence from which on no message was ever delivered. It is above the position while a
        message beyond that was delivered early, for its priority or because its delay ended."""
        return self._state.report.reach

    @property
    def floor(self) -> int:
        """Sequence below which every owed message is settled; only `rewind` lowers it."""
        floor = self._state.report.floor
        assert floor >= self._floor, f"the floor fell from {self._floor} to {floor}"  # noqa: S101
        self._floor = floor
        return floor

    @property
    def outstanding(self) -> int:
        """Number of messages that were read and aren't settled."""
        return self._state.report.outstanding()

    @property
    def beyond(self) -> int:
        """Number of messages above the position that are settled or were read early."""
        return self._state.report.beyond()

    def outstanding_below(self, sequence: int) -> int:
        """Return the number of outstanding messages below this sequence."""
        return self._state.report.outstanding(sequence)

    def beyond_below(self, sequence: int) -> int:
        """Return the number of messages below this sequence that count in `beyond`."""
        return self._state.report.beyond(sequence)

    @property
    def dead_lettering(self) -> int:
        """Number of messages that are given up, and outstanding until their copies are durable."""
        return self._state.report.dead_lettering

    @property
    def in_flight(self) -> int:
        """Number of messages in flight to consumers."""
        return self._state.report.in_flight

    @property
    def consumers(self) -> int:
        """Number of attached consumers."""
        return self._state.report.consumers

    def unsettled(self, consumer: int) -> SequenceSet:
        """Return the sequences that were delivered to this consumer and aren't settled: to be read,
        not changed."""
        return self._state.report.unsettled(consumer)

    def failures(self, sequence: int) -> int:
        """Return the failed attempts of an owed message (delivery-count)."""
        return self._state.report.failures(sequence)

    def acquired(self, sequence: int) -> int:
        """Return how often an owed message was delivered and returned, as a failure or not."""
        return self._state.report.acquired(sequence)

    @property
    def room(self) -> int:
        """Sum of the credit of all consumers that may be served now."""
        return self._state.candidates.room

    @property
    def selectors(self) -> frozenset[str]:
        """The selectors of the attached consumers."""
        return self._state.candidates.selectors

    def active(self, consumer: int) -> bool:
        """Whether this consumer may be served. With a single active consumer only that one is."""
        return self._state.report.active(consumer)

    def attach(self, consumer: int, *, priority: int = 0, selector: str | None = None) -> None:
        """Attach a consumer, without credit. It is served before those of lower priority, and
        gets only messages that its selector matches."""
        self._state.join(consumer, priority, selector)

    def detach(
        self, consumer: int, *, lost: bool = False, now: int = 0
    ) -> Sequence[Settled | DeadLetter]:
        """Detach a consumer. Its unsettled deliveries return to their places without a failure. A
        consumer that was `lost` may have seen them: they count as failed where the policy says
        so."""
        return self._state.leave(consumer, Event.LOSE if lost else Event.RELEASE, now)

    def credit(self, consumer: int, credit: int) -> None:
        """Set the number of further messages that the consumer takes. A negative number, as of a
        receiver that lowers its credit while messages are under way, counts as 0."""
        self._state.set_credit(consumer, max(credit, 0))

    def wanted(self, head: int = FOREVER) -> int | None:
        """Return the sequence that would be delivered next; None if no consumer can be served now.
        There are no messages from `head` on yet."""
        return None if self.paused else self._state.candidates.wanted(head)

    def offer(
        self,
        first: int,
        stop: int,
        sequences: "array[int] | None" = None,
        *,
        now: int = 0,
        attributes: HeaderAttributes | None = None,
        matches: "Mapping[str, array[int]] | None" = None,
    ) -> list[Effect]:
        """Deliver the owed messages among `first .. stop - 1`, as far as credit goes.

        All of these sequences belong to the topic, or `sequences` lists those that do. The caller
        has these messages at hand, and the topic has none from `wanted` up to `first`. `attributes`
        are the header attributes of messages that aren't all plain. `matches` lists for each of
        `selectors` the messages that it matches. `now` is in microseconds.
        """
        if self.paused:
            return []
        state = self._state
        if attributes is None and state.candidates.plain():
            return plain_dispatch.serve(state, first, stop, sequences, now)
        offered = Offered(first, stop, sequences, now, attributes, matches or {})
        return SelectiveDispatch(state, offered).serve()

    def skip_to(self, position: int) -> None:
        """Note that the topic has no messages from `wanted` up to this position."""
        self._state.skip_to(position)

    def pass_to(self, position: int) -> None:
        """Note that the topic has no messages, of any priority, from the position up to here."""
        if position > self.position:
            self._state.pass_to(position)

    def exclude(self, run: range) -> None:
        """Leave out these unread messages, which aren't owed to the subscription."""
        self._state.exclude(run)

    def settle(
        self,
        consumer: int,
        run: Run,
        outcome: Outcome,
        *,
        failed: bool = False,
        undeliverable: bool = False,
        now: int = 0,
        delivered_at: int = 0,
    ) -> Sequence[Settled | DeadLetter]:
        """A consumer settled these deliveries, which were made at `delivered_at`.

        Sequences that are no longer in flight to it, or by a later delivery, are ignored.
        """
        if outcome is Outcome.ACCEPTED and not undeliverable:
            return self._state.accept(consumer, run, delivered_at)
        event = event_of(outcome, undeliverable=undeliverable)
        if event is Event.MODIFY and not failed:
            # No failure is counted, so it is recorded as what it comes to: the record alone says
            # after a restart how often a message failed.
            event = Event.RELEASE
        return self._state.settle(consumer, run, event, now, delivered_at)

    def retire(self, consumer: int, run: Run, transaction: int, delivered_at: int = 0) -> list[Run]:
        """A consumer settled these deliveries, made at `delivered_at`, in a transaction. Those
        that were in flight to the consumer now belong to `transaction`, a number below 0, and
        are returned. The transaction settles them as a consumer does, when it ends."""
        return self._state.retire(consumer, run, transaction, delivered_at)

    def retired(self, transaction: int, run: Run) -> bool:
        """Whether a transaction holds all of these messages; a rewind takes them from it."""
        return self._state.report.retired(transaction, run)

    def restore(self, transaction: int, run: Run, consumer: int, now: int = 0) -> bool:
        """A transaction ended without effect: these deliveries, which its peer hadn't settled,
        are the consumer's again. False, and nothing is done, if the consumer has detached."""
        return self._state.restore(transaction, run, consumer, now)

    def buckets(self, run: Run) -> Sequence[int]:
        """Return the facts about these delivered messages' groups that `withhold` needs."""
        return self._state.report.buckets(run)

    def withhold(self, transaction: int, run: Run, buckets: Sequence[int] = ()) -> None:
        """Give the owed ones of these messages, which no consumer holds, to a transaction (a number
        below 0) that retired them before a restart. `buckets` of before the restart."""
        self._state.withhold(transaction, run, buckets)

    def forget(self, transaction: int) -> None:
        """Forget a transaction that has ended, with all of its messages settled."""
        self._state.end_transaction(transaction)

    def give_up(self, run: Run, reason: Reason) -> list[Settled | DeadLetter]:
        """Give up the owed ones of these messages that aren't in flight, read or not, for a reason
        that the caller has found true of each."""
        return self._state.give_up_unheld(run, reason)

    def reacquire(self, consumer: int, run: Run, now: int = 0) -> list[Effect]:
        """Deliver to this consumer the owed ones of these messages that aren't in flight, read
        or not, out of turn: it had them before a restart, or a lost connection."""
        return self._state.reacquire(consumer, run, now)

    def owed(self, head: int) -> list[tuple[Run, int]]:
        """Return all owed messages below `head` as (run, failed attempts). Unread sequences among
        them may belong to another topic, or not match."""
        return self._state.report.owed(head)

    def returned(self, run: Run) -> tuple[list[Run], SequenceSet]:
        """Split messages that were held: those that are ready now, and those that consumers or
        transactions still hold."""
        return self._state.report.returned(run)

    def exhausted(self) -> Run:
        """Return the owed messages that have failed as often as they may: after a crash before the
        copy was made, or under a new policy that allows fewer attempts."""
        state = self._state
        known = state.report.failed()
        return array("q", [s for s, n in known if state.exhausted(range(s, s + 1), n)])

    def dead_lettered(self, run: Run, outcome: Outcome = Outcome.DEAD_LETTERED) -> list[Settled]:
        """Settle these messages, whose copies are in the group that is being written. With another
        outcome no copy is kept."""
        return self._state.dead_lettered(run, outcome)

    def wake(self, now: int) -> list[Effect]:
        """Act on delays and locks that have ended."""
        return [*self._state.wake(now)]

    def redeliver(self) -> None:
        """Let failed messages that wait for their redelivery go at once."""
        self._state.redeliver()

    @property
    def next_due(self) -> int | None:
        """Time of the next call of `wake` (microseconds); None: never."""
        return self._state.report.next_due

    def rewind(self, position: int) -> None:
        """Owe every message from this position on again. Only the consumers and their credit are
        kept: outcomes of earlier deliveries change nothing."""
        self._state.rewind(position)
        self._floor = position
