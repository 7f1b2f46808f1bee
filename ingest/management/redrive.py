"""Redrive: dead letters go back to the subscriptions that gave them up, and to no others. Messages
that their topic's schema doesn't allow stay; misfits that it allows now are published to the topic.

A redriven message is a new message of its old topic, in one group with the settlement of the dead
letter: after a crash it is in exactly one of the two places. All methods run on the loop's thread.
"""

import asyncio
from array import array
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from distributary.ingest.commit.batches import message_at, run_of
from distributary.ingest.commit.group_log import Inside
from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.delivery.dead_letters import dead_letters_of
from distributary.ingest.management.entities import Row
from distributary.ingest.management.management_parts import ManagementParts
from distributary.ingest.runtime import clock
from distributary.ingest.runtime.policies import keeps_dead_letters
from distributary.pipeline.amqp.dead_letter import Copy, Origin, misfit_topic, origin, restored
from distributary.pipeline.dispatch.dispatcher import Deliver, Settled
from distributary.pipeline.errors import InvalidRequest
from distributary.pipeline.model.address import PREFIXES, Destination, Kind
from distributary.pipeline.model.amqp_error import NOT_FOUND, AmqpError
from distributary.pipeline.model.outcome import Outcome, Reason
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.subscription import Definition, SubscriptionKey
from distributary.pipeline.model.topic_pattern import matches
from distributary.pipeline.selector.matching import Selections
from distributary.pipeline.subscriptions.registry import key_of_queue

#: Dead letters in one group, about 80 us each to read and to copy: other work waits for one group.
PART_MESSAGES = 100


class Redriven(msgspec.Struct):
    """The numbers of dead letters that were redriven, and that stay."""

    redriven: int = 0
    stayed: int = 0
    #: Those of them that their topic's schema doesn't allow; and the reason of the first one.
    misfits: int = 0
    why: str = ""

    @property
    def sentence(self) -> str:
        """The result as a sentence."""
        text = f"{self.redriven} went back"
        if self.misfits:
            text += f"; {self.misfits} stay: their topic's schema doesn't allow them ({self.why})"
        if others := self.stayed - self.misfits:
            text += (
                f"; {others} stay: their subscription is gone, they are no dead letters, or "
                "you have no permission to manage where they come from"
            )
        return text


#: A subscription, with its definition.
_Target: TypeAlias = tuple[SubscriptionKey, Definition]


class _Letter(msgspec.Struct, frozen=True):
    """A dead letter that goes back: its sequence in the queue, and the subscription to which it
    goes, as it was when the letter was read; None: all subscriptions of the topic, as a misfit was
    never published there."""

    sequence: int
    data: bytes
    to: _Target | None
    topic: str


class _Job(msgspec.Struct):
    """One redrive: its queue, the subscription whose letters go back (None: all), their most, and
    the topics to which the user may send them."""

    queue: Subscription
    only: str | None
    most: int | None
    may: Callable[[str], bool]
    done: Redriven = msgspec.field(default_factory=Redriven)
    #: The selectors of the subscriptions, and the number of messages that they were asked about.
    selections: Selections = msgspec.field(default_factory=Selections)
    joined: set[Definition] = msgspec.field(default_factory=set)
    asked: int = 0

    def fits(self, definition: Definition, data: bytes) -> bool:
        """Whether a subscription with this definition claims this message."""
        if definition.selector is None:
            return True
        if definition not in self.joined:
            self.joined.add(definition)
            self.selections.join(definition)
        self.asked += 1
        batch = RecordBatch(self.asked, 1, data, array("i", [0, len(data)]).tobytes())
        found = self.selections.matches(definition, batch, batch.first, room=1, work_max=1)
        return found.sequences is None or bool(found.sequences)

    @property
    def full(self) -> bool:
        return self.most is not None and self.done.redriven >= self.most


class Redrive:
    """Redrives dead letters."""

    def __init__(self, parts: ManagementParts) -> None:
        self._log, self._delivery = parts.messages.log, parts.messages.delivery
        self._directory, self._validator = parts.directory, parts.schemas
        self._log_name = parts.host.log

    def letters(self, giver: Subscription) -> Row:
        """Return the attribute `dead_letters` of a subscription: the name of the queue for messages
        that it gives up, None if it keeps no copies."""
        key, policy = giver.key, giver.dispatcher.policy
        if key is None or not policy.dead_letter:
            return {"dead_letters": None}
        kept = keeps_dead_letters(key, giver.definition.topic, policy)
        return {"dead_letters": dead_letters_of(giver, self._log_name).name if kept else None}

    async def perform(
        self,
        key: SubscriptionKey,
        *,
        dead_letters: bool,
        only: str | None,
        most: int | None,
        may: Callable[[str], bool],
    ) -> Redriven | AmqpError:
        """Send back the dead letters of the queue of this key (`dead_letters`; only those of the
        subscription `only`), or those that the subscription of this key has given up. Send `most`
        at most, and none to topics for which `may` is False. It is durable on return. Raises
        StoreError when dead letters can't be read."""
        queue = key
        if not dead_letters and (giver := self._directory.get(key)) is not None:
            queue = key_of_queue(dead_letters_of(giver, self._log_name))
        found = self._directory.get(queue)
        if found is None and key in self._directory:
            return Redriven()  # no message was ever given up
        if found is None:
            return AmqpError(NOT_FOUND, f"there is no durable subscription {key.id}")
        job = _Job(found, only if dead_letters else key.id, most, may)
        await self._run(job)
        return job.done

    async def _run(self, job: _Job) -> None:
        """Go over the messages that a consumer of the queue could get now, a part at a time."""
        view, end = job.queue.dispatcher.view(), self._log.recent.head
        view.paused = False
        view.attach(1)
        lookup = self._delivery.paging.lookup()
        topic = job.queue.definition.topic
        while not job.full and not job.queue.ended:
            view.credit(1, PART_MESSAGES)
            wanted = view.wanted(end)
            if wanted is None:
                break
            batch = await lookup.batch(topic, wanted, end)
            if batch is None:
                break
            now = clock.now()
            effects = view.offer(batch.first, batch.stop, batch.sequences, now=now)
            for effect in effects:
                if isinstance(effect, Deliver):
                    await self._take(job, batch, [one for one in effect.run if one < end])
                    view.settle(1, effect.run, Outcome.ACCEPTED)
            await self._durable()

    async def _durable(self) -> None:
        """Wait until the present part is durable, so that only one is under way."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._log.after(lambda: None if done.done() else done.set_result(None))
        self._log.flush()
        await done

    async def _take(self, job: _Job, batch: RecordBatch, sequences: list[int]) -> None:
        """Redrive those that can go back; a dead letter that is in flight meanwhile stays so."""
        found: list[_Letter] = []
        for sequence in sequences:
            data = message_at(batch, sequence)
            where = origin(data)
            if job.only is not None and (where is None or where.subscription != job.only):
                continue
            letter = self._letter(job, sequence, data, where)
            if letter is None:
                job.done.stayed += 1
            else:
                found.append(letter)
        fitting = await self._fitting(job, found)
        room = len(fitting) if job.most is None else job.most - job.done.redriven
        letters: dict[tuple[_Target | None, str], list[_Letter]] = {}
        for letter in fitting[:room]:
            letters.setdefault((letter.to, letter.topic), []).append(letter)
        for (to, topic), some in letters.items():
            if self._is_as_it_was(to, topic):
                self._send(job, None if to is None else to[0], topic, some)
            else:
                job.done.stayed += len(some)

    async def _fitting(self, job: _Job, letters: list[_Letter]) -> list[_Letter]:
        """Return the letters that the schemas of their topics allow; the others stay."""
        stay: set[int] = set()
        for topic in {one.topic for one in letters}:
            some = [one for one in letters if one.topic == topic]
            messages = [restored(one.data).data for one in some]
            for place, sentence in (await self._validator.misfits(topic, messages)).items():
                stay.add(some[place].sequence)
                job.done.why = job.done.why or f"'{topic}': {sentence}"
        job.done.misfits += len(stay)
        job.done.stayed += len(stay)
        return [one for one in letters if one.sequence not in stay]

    def _letter(
        self, job: _Job, sequence: int, data: bytes, where: Origin | None
    ) -> _Letter | None:
        """Return a dead letter with its target; None if it has none."""
        if where is not None:
            target = self._target(job, where, data)
            return None if target is None else _Letter(sequence, data, target, where.topic)
        topic = misfit_topic(data)
        if topic is None or not job.may(topic) or not self._is_there(topic):
            return None
        return _Letter(sequence, data, None, topic)

    def _is_there(self, topic: str) -> bool:
        """Whether a topic or queue exists: a topic always does, a queue may be deleted."""
        queue = topic.removeprefix(PREFIXES[Kind.QUEUE])
        return queue == topic or key_of_queue(Destination(Kind.QUEUE, queue)) in self._directory

    def _is_as_it_was(self, to: _Target | None, topic: str) -> bool:
        """Whether the target still exists unchanged: checking schemas takes time meanwhile."""
        if to is None:
            return self._is_there(topic)
        key, definition = to
        found = self._directory.get(key)
        return found is not None and found.definition == definition

    def _target(self, job: _Job, where: Origin, data: bytes) -> _Target | None:
        """Return the subscription that gave the message up, if it still exists, still claims the
        message, and the user may send to it; else None."""
        try:
            key = SubscriptionKey.parse(where.subscription)
        except InvalidRequest:
            return None
        found = self._directory.get(key)
        if found is None or not found.durable or not matches(found.definition.topic, where.topic):
            return None
        fits = job.may(where.topic) and job.fits(found.definition, data)
        return (key, found.definition) if fits else None

    def _send(
        self, job: _Job, to: SubscriptionKey | None, topic: str, letters: list[_Letter]
    ) -> None:
        """Write the messages, and the settlements of the dead letters, to one group."""
        queue = job.queue
        taken = _withdrawn(queue, array("q", [letter.sequence for letter in letters]))
        gone = {sequence for settled in taken for sequence in settled.run}
        copies: list[Copy] = [
            restored(letter.data) for letter in letters if letter.sequence in gone
        ]
        if not copies:
            return
        now = clock.now()
        settlements = [queue.settlement(settled, "", now, now) for settled in taken]
        self._log.write([run_of(topic, copies)], settlements, Inside(only=to))
        job.done.redriven += len(copies)


def _withdrawn(queue: Subscription, run: "array[int]") -> list[Settled]:
    """Remove those of these messages from the queue that aren't in flight or settled; no copies of
    them are kept."""
    effects = queue.dispatcher.give_up(run, Reason.REDRIVEN)
    return [effect for effect in effects if isinstance(effect, Settled)]
