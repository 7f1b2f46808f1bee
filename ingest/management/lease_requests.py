"""Requests of leased consumers: ACQUIRE sequences, SETTLE them, list the OWED ones.

A leased consumer takes part in the strict turns of its subscription like any consumer. Its client
reads the bytes in `topic_log`, which has them when the answer comes. `ingest.management.leases` has
the rules of leases. All methods run on the loop's thread.
"""

import asyncio
from array import array
from bisect import bisect_left
from collections.abc import Iterable

from distributary.ingest.delivery.consumer import Consumer, Subscription
from distributary.ingest.delivery.leased_consumer import LeasedConsumer
from distributary.ingest.management.asking import forbidden
from distributary.ingest.management.entities import key_of, table_map
from distributary.ingest.management.leases import Leases
from distributary.ingest.management.management_parts import ManagementParts
from distributary.ingest.net.link import Link
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.workers import Failure
from distributary.pipeline.codec.amqp_types import Map, Value
from distributary.pipeline.codec.amqp_writer import Writable
from distributary.pipeline.codec.quoting import quoted
from distributary.pipeline.dispatch.dispatcher import Deliver
from distributary.pipeline.errors import InvalidRequest, StoreError
from distributary.pipeline.management.management_messages import (
    BAD_REQUEST,
    CONFLICT,
    FAILED,
    OK,
    Answer,
    Request,
    Verb,
    refused,
)
from distributary.pipeline.model.amqp_error import NOT_FOUND, AmqpError
from distributary.pipeline.model.outcome import Outcome
from distributary.pipeline.model.subscription import SubscriptionKey
from distributary.pipeline.model.transitions import DeliveryState
from distributary.pipeline.selector.matching import Selections, selected_parts
from distributary.pipeline.sequences.range_text import parts_of, text_of
from distributary.pipeline.sequences.sequence_set import Run, SequenceSet

#: The requests that are answered here.
LEASE_VERBS = frozenset({Verb.ACQUIRE, Verb.SETTLE, Verb.OWED})
#: Seconds that a commit may take before a holder is told that it can't read the acquired messages,
#: and between two checks.
COMMIT_SECONDS_MAX = 20.0
LOOK_SECONDS = 0.01
#: Evaluations of a selector between two turns of the loop.
PART_EVALUATIONS = 1_000
#: The outcomes that a holder may give.
_OUTCOMES = (Outcome.ACCEPTED, Outcome.REJECTED, Outcome.RELEASED, Outcome.MODIFIED)


class LeaseRequests:
    """Answers requests of leased consumers."""

    def __init__(self, parts: ManagementParts) -> None:
        self._loop, self._limits = parts.host.loop, parts.host.settings.management
        self._log, self._table = parts.messages.log, parts.messages.store.table
        self._delivery, self._turns = parts.messages.delivery, parts.turns
        self._access, self._directory = parts.access, parts.directory
        self._leases, self._finish_pass = Leases(parts), parts.finish_pass

    def left(self, link: Link) -> None:
        """A link has ended, of any kind."""
        self._leases.left(link)

    def close(self) -> None:
        """End all leases: the gateway stops."""
        self._leases.close()

    async def answer(self, link: Link, request: Request) -> Answer:
        """Answer a request of this link, when its effects are durable, and the table has its
        sequences."""
        try:
            return await self._answer(link, request)
        except InvalidRequest as error:
            return Answer(BAD_REQUEST, str(error))
        except StoreError as error:
            return Answer(FAILED, str(error))
        except Failure as failure:
            return Answer(FAILED, str(failure.error))

    async def _answer(self, link: Link, request: Request) -> Answer:
        if not link.alive:
            return Answer(CONFLICT, "the link that asked has ended")
        key = key_of(request.entity, request.name)
        if isinstance(key, AmqpError):
            return refused(key)
        subscription = self._directory.get(key)
        user = link.connection.user
        why = forbidden(self._access, user, request.verb, key, None, subscription)
        if why is not None or subscription is None:
            return refused(why or AmqpError(NOT_FOUND, f"there is no subscription {key.id}"))
        if not key.durable:
            text = "is not durable: what it is owed can't be told from the tables"
            return Answer(CONFLICT, f"{key.id} {text}")
        if request.verb is Verb.OWED:
            return await self._owed(key, subscription)
        return await self._held(link, key, subscription, request)

    async def _held(
        self, link: Link, key: SubscriptionKey, subscription: Subscription, request: Request
    ) -> Answer:
        holder = str(request.attributes["holder"])
        if not holder:
            return Answer(BAD_REQUEST, "'holder' must not be empty")
        if request.verb is Verb.ACQUIRE and "keep" in request.attributes:
            leased = await self._leases.begin(link, key, subscription, holder)
        else:
            leased = self._leases.speaking(link, key, holder)
        if isinstance(leased, Answer):
            return leased
        if not leased.alive:
            return _ended(key, leased)
        if request.verb is Verb.SETTLE:
            return await self._settle(leased, request)
        return await self._acquire(leased, key, request)

    # The requests.

    async def _acquire(
        self, leased: LeasedConsumer, key: SubscriptionKey, request: Request
    ) -> Answer:
        said = request.attributes
        most, wait_ms = _whole(said.get("max")), _whole(said.get("wait_ms"))
        linger_ms = _whole(said.get("linger_ms"))
        limits = self._limits
        for name, value, limit in (
            ("max", most, limits.acquire_max),
            ("wait_ms", wait_ms, limits.acquire_wait_ms_max),
            ("linger_ms", linger_ms, limits.acquire_linger_ms_max),
        ):
            if value > limit:
                return Answer(BAD_REQUEST, f"'{name}' is {value}; it may be {limit}")
        leased.linger_ms = linger_ms
        consumer, began = _consumer(leased), self._log.begun.get(key.id, 0)
        body: dict[str, Writable] = {}
        if "keep" in said:
            ours = _whole(said.get("incarnation")) == began
            keep = await self._checked(str(said["keep"])) if ours else []
            if not leased.alive:
                return _ended(key, leased)
            body["kept"] = text_of(await self._keep(leased, consumer, keep))
        more = most > 0 and await self._wait(leased, consumer.subscription, most, wait_ms)
        handed = leased.handed()
        reach = max((run[-1] for run, _ in handed), default=-1)
        if not await self._readable(reach):
            self._give_back(leased, consumer, [run for run, _ in handed])
            text = "what was acquired isn't in topic_log, as commits don't succeed; ask later"
            return Answer(FAILED, text)
        if not leased.alive:
            return _ended(key, leased)
        body |= {
            "acquired": _by_failures(handed),
            "more": more,
            "topic": consumer.subscription.definition.topic,
            "log": self._table.uri,
            "table": table_map(self._table),
            "incarnation": began,
        }
        return Answer(OK, f"{sum(len(run) for run, _ in handed)} acquired", body)

    async def _wait(
        self, leased: LeasedConsumer, subscription: Subscription, most: int, wait_ms: int
    ) -> bool:
        """Grant credit for `most` sequences and wait for them; return whether there may be more."""
        wait = wait_ms / 1_000
        deadline = self._loop.time() + wait
        leased.grant(min(most, self._limits.acquire_max))
        self._leases.flowed(leased)
        self._finish_pass()
        more = True
        before = leased.delivery_count
        while leased.alive and leased.credit > 0:
            left = deadline - self._loop.time()
            head = self._log.recent.head
            more = subscription.reading or subscription.dispatcher.wanted(head) is not None
            if left <= 0 or (leased.delivery_count > before and not more):
                break
            leased.changed.clear()
            try:
                await asyncio.wait_for(leased.changed.wait(), left)
            except TimeoutError:
                continue
            deadline = self._loop.time() + wait
        leased.grant(0)
        self._leases.flowed(leased)
        return more

    async def _readable(self, reach: int) -> bool:
        """Wait until the table has this message; False if that takes too long."""
        deadline = self._loop.time() + COMMIT_SECONDS_MAX
        while self._table.sequence_version <= reach:
            if self._loop.time() > deadline:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        return True

    async def _keep(
        self, leased: LeasedConsumer, consumer: Consumer, keep: list[Run]
    ) -> list[range]:
        """Release all sequences but those to keep; return those that are in flight to it now."""
        dispatcher = consumer.subscription.dispatcher
        held = dispatcher.unsettled(consumer.number).copy()
        for run in keep:
            held.discard(run)
        self._give_back(leased, consumer, held.runs())
        lost = [
            part for run in keep for part in _without(run, dispatcher.unsettled(consumer.number))
        ]
        ours = await self._ours(consumer.subscription, lost)
        if not leased.alive:
            return []
        now = clock.now()
        for wanted in ours:
            for effect in self._delivery.reacquire(consumer, wanted, now):
                if isinstance(effect, Deliver):
                    leased.took(effect.run, effect.delivery_count, now)
        leased.handed()
        await self._leases.durable()
        if not leased.alive:
            return []
        return [*dispatcher.unsettled(consumer.number).runs()]

    async def _ours(self, subscription: Subscription, runs: list[Run]) -> list[Run]:
        """Return those of these sequences that the subscription may be owed: of unread ones, the
        messages of its topic that its selector selects. A client may have named others."""
        position, definition = subscription.dispatcher.position, subscription.definition
        read = [run[: bisect_left(run, position)] for run in runs]
        found: list[Run] = [run for run in read if run]
        unread = [run[bisect_left(run, position) :] for run in runs]
        lookup, selections = self._delivery.paging.lookup(), Selections()
        selections.join(definition)
        wanted = SequenceSet()
        for run in unread:
            wanted.add(run)
        at = min((run[0] for run in unread if run), default=0)
        stop = max((run[-1] for run in unread if run), default=-1) + 1
        while at < stop:
            batch = await lookup.batch(definition.topic, at, stop)
            if batch is None:
                break
            for part in selected_parts(selections, definition, batch, PART_EVALUATIONS):
                found.append(array("q", [one for one in part if one in wanted]))
                await self._turns.turn()
            at = batch.stop
        return [run for run in found if run]

    def _give_back(self, leased: LeasedConsumer, consumer: Consumer, runs: Iterable[Run]) -> None:
        for run in runs:
            self._settled(leased, consumer, run, DeliveryState(Outcome.RELEASED))

    async def _settle(self, leased: LeasedConsumer, request: Request) -> Answer:
        said = request.attributes
        word = said.get("outcome", Outcome.ACCEPTED.value)
        if word not in {one.value for one in _OUTCOMES}:
            known = ", ".join(one.value for one in _OUTCOMES)
            return Answer(BAD_REQUEST, f"'outcome' is {quoted(word)}; it must be one of {known}")
        consumer = _consumer(leased)
        failed, undeliverable = said.get("failed") is True, said.get("undeliverable") is True
        state = DeliveryState(Outcome(str(word)), failed, undeliverable)
        settled = 0
        for run in await self._checked(str(said["sequences"])):
            await self._turns.turn()
            settled += self._settled(leased, consumer, run, state)
        self._delivery.eased(consumer)
        await self._leases.durable()
        return Answer(OK, f"{settled} settled", {"settled": settled})

    def _settled(
        self, leased: LeasedConsumer, consumer: Consumer, run: Run, said: DeliveryState
    ) -> int:
        """Settle those of a run that are in flight to it; return their number."""
        settle, holder = self._delivery.settle, consumer.number
        return sum(settle(consumer, holder, part, said, at) for at, part in leased.ending(run))

    async def _owed(self, key: SubscriptionKey, subscription: Subscription) -> Answer:
        """List the messages that the subscription is owed, as far as known without reading them."""
        await self._leases.durable()
        head = self._log.recent.head
        if not await self._readable(head - 1):
            return Answer(FAILED, "topic_log lacks the newest messages, as commits don't succeed")
        body: dict[str, Writable] = {
            "owed": _by_failures(subscription.dispatcher.owed(head)),
            "topic": subscription.definition.topic,
            "selector": subscription.definition.selector,
            "log": self._table.uri,
            "table": table_map(self._table),
            "incarnation": self._log.begun.get(key.id, 0),
        }
        return Answer(OK, f"what {key.id} is owed", body)

    async def _checked(self, text: str) -> list[Run]:
        """Return the runs of a request. Raises InvalidRequest for too many sequences, and for a
        sequence that doesn't exist yet."""
        runs: list[Run] = []
        head = self._log.recent.head
        for run in parts_of(text, self._limits.acquire_max):
            if run[-1] >= head:
                raise InvalidRequest(f"a sequence that isn't there yet: the next one is {head}")
            runs.append(run)
            await self._turns.turn()
        return runs


def _consumer(leased: LeasedConsumer) -> Consumer:
    assert isinstance(leased.owner, Consumer)  # noqa: S101
    return leased.owner


def _without(run: Run, held: SequenceSet) -> Iterable[Run]:
    """Yield the part of the run that isn't in flight."""
    if held.contains_all(run):
        return
    if lost := array("q", [one for one in run if one not in held]):
        yield lost


def _ended(key: SubscriptionKey, leased: LeasedConsumer) -> Answer:
    """Return the answer to a holder whose lease has ended since its request."""
    return Answer(CONFLICT, f"{key.id}: {leased.reason or 'its deliveries have ended'}")


def _whole(value: Value) -> int:
    """Return a number, which `management.parse` has checked; 0 if it is missing."""
    return value if isinstance(value, int) else 0


def _by_failures(handed: Iterable[tuple[Run, int]]) -> Map:
    """Return runs as texts, by their failed attempts."""
    found: dict[int, list[Run]] = {}
    for run, failures in handed:
        found.setdefault(failures, []).append(run)
    return Map(tuple((str(failures), text_of(runs)) for failures, runs in sorted(found.items())))
