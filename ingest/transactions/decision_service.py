"""Decisions of our log on transactions over several logs, and their records.

The order of durable steps: all other logs have prepared; then the decision is recorded in the group
that has our own part of the work; then the other logs are told; when all have committed, the end is
recorded and the decision forgotten. All methods run on the loop's thread.
"""

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from distributary.ingest.commit.group_log import Log
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.host import Host
from distributary.pipeline.errors import StoreError
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.model.message import TransactionRecord
from distributary.pipeline.model.subscription import SubscriptionEvent
from distributary.pipeline.tables.recovery.standpoints import OpenTransaction
from distributary.pipeline.transactions.decisions import (
    Decision,
    Decisions,
    Event,
    Outcome,
    Step,
)
from distributary.pipeline.transactions.recorded_age import is_young

_events = structlog.get_logger("gateway")

_DECODER = msgspec.msgpack.Decoder(tuple[str, ...])


class DecisionService:
    """All decisions of one log."""

    def __init__(self, host: Host, log: Log, before: tuple[OpenTransaction, ...]) -> None:
        """`before`: decisions of before the start that other logs may not have committed. Raises
        StoreError for a decision that can't be read."""
        self._loop, self._log = host.loop, log
        self._all = Decisions(host.settings.amqp.prepared_max)
        self._wait_seconds = host.settings.fleet.owner_wait_ms / 1_000
        #: Wait of a request: a gateway that relays a request gives it up after `_wait_seconds`.
        self._request_seconds = self._wait_seconds / 2
        #: Callers that wait until the other logs have committed, each with its time limit.
        self._waiting: dict[str, tuple[asyncio.TimerHandle, Callable[[], None]]] = {}
        #: Set when another log is to be told a decision.
        self.due = asyncio.Event()
        for one in before:
            try:
                logs = _DECODER.decode(one.record.work)
            except msgspec.MsgspecError as error:
                raise StoreError(
                    f"the decided transaction {one.record.transaction} can't be read: {error}"
                ) from error
            record = one.record
            self._all.restore(record.transaction, logs, record.by, one.recorded_at)
            self.due.set()

    def name(self, id_: str, logs: tuple[str, ...]) -> AmqpError | None:
        """Note that a transaction with branches in these other logs will be decided here; return
        why not, if refused."""
        return self._all.name(id_, logs)

    def reopen(self, id_: str, logs: tuple[str, ...]) -> None:
        """Note a transaction that was prepared in our log before the start: its end decides."""
        self._all.reopen(id_, logs)

    def logs(self, id_: str) -> tuple[str, ...]:
        """Return the other logs with branches of a transaction that is decided here."""
        one = self._all.get(id_)
        return () if one is None else one.logs

    def outcome(self, id_: str) -> Outcome:
        """Return the transaction's outcome, as far as it is known."""
        return self._all.outcome(id_)

    def get(self, id_: str) -> Decision | None:
        """Return the decision, if it is made and other logs must still commit."""
        found = self._all.get(id_)
        return found if found is not None and found.commits else None

    def waiting(self) -> list[Decision]:
        """Return the decisions that other logs must still commit."""
        return self._all.waiting()

    def telling(self) -> list[Decision]:
        """Return the decisions of which other logs are to be told."""
        return self._all.telling()

    def undo(self, id_: str, then: Callable[[], None] | None = None) -> None:
        """Decide to roll back, as our own part was. `then` answers a request: it is called when all
        other logs were told, or after half of the time for which a link waits for an owner."""
        one = self._all.get(id_)
        assert one is not None, id_  # noqa: S101 (only a transaction named here has such a part)
        one.step(Event.UNDO)
        if then is not None:
            self._wait(id_, self._request_seconds, then)
        self.due.set()

    def record(
        self, id_: str, user: str, then: Callable[[], None], *, by_request: bool = False
    ) -> None:
        """Record the decision to commit in the pending group, in which our part of the work must
        lie, too. `then` is called when all other logs have committed, or after the time for which a
        link waits for an owner (`by_request`: half of it): the others will still commit."""
        one = self._all.get(id_)
        assert one is not None, id_  # noqa: S101
        one.step(Event.COMMIT)
        one.user, one.at = user, clock.now()
        head, work = self._log.next_sequence, msgspec.msgpack.encode(one.logs)
        record = TransactionRecord(SubscriptionEvent.DECIDED, id_, head, user, work)

        def durable() -> None:
            one.step(Event.DURABLE)
            self._wait(id_, self._request_seconds if by_request else self._wait_seconds, then)
            self.due.set()

        self._log.record(record, durable)

    def _wait(self, id_: str, seconds: float, then: Callable[[], None]) -> None:
        self._waiting[id_] = self._loop.call_later(seconds, self._answer, id_), then

    def _answer(self, id_: str) -> None:
        timer, then = self._waiting.pop(id_, (None, None))
        if timer is not None and then is not None:
            timer.cancel()
            then()

    def told(self, id_: str, log: str) -> None:
        """Note that this log has ended its branch, or is gone for good."""
        match self._all.told(id_, log):
            case Step.COMPLETE:
                self._complete(id_)
                _events.debug("transaction.completed", transaction=id_)
            case Step.FORGET:
                self._answer(id_)
            case _:
                pass

    def young(self, one: Decision) -> bool:
        """Whether the other logs have had less time to answer than a link waits for an owner."""
        return is_young(one.at, clock.now(), int(self._wait_seconds * 1_000_000))

    def give_up(self, one: Decision, user: str) -> None:
        """Wait no more for the logs that haven't committed; the caller has checked the user's
        right. Such a log that comes back all the same asks, and rolls its part back. This holds
        when the pending group is durable."""
        self._all.give_up(one.id)
        self._complete(one.id, user)
        logs = sorted(one.left)
        _events.warning("transaction.given_up", transaction=one.id, logs=logs, by=user)

    def _complete(self, id_: str, user: str = "") -> None:
        head = self._log.next_sequence
        record = TransactionRecord(SubscriptionEvent.COMPLETED, id_, head, user)
        self._log.record(record, _nobody_waits)
        self._answer(id_)


def _nobody_waits() -> None:
    """Do nothing: if the record isn't durable before a crash, the other logs are told again."""
