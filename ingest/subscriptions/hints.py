"""Hints (`pipeline.subscriptions.hint`) that clients give, taken in if they can be right.

Two facts are checked: the hint has this subscription's topic and selector, and only messages that
the table has. A sample of the messages is evaluated, too: a match that isn't named refutes the
hint. All methods run on the loop's thread.
"""

import random
from array import array
from collections.abc import Callable

from distributary.ingest.delivery.consumer import Subscription
from distributary.ingest.delivery.message_source import Paging
from distributary.ingest.native.batch_reader import BatchReader
from distributary.ingest.subscriptions.subscription_directory import SubscriptionDirectory
from distributary.pipeline.codec.amqp_writer import Writable
from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED, PRECONDITION_FAILED, AmqpError
from distributary.pipeline.selector.matching import Selections
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.subscriptions.hint import Hint, Part

#: Messages of each part that are evaluated: a millisecond or two of the loop's time.
SAMPLE_MESSAGES = 1_000


class Hints:
    """Takes hints in, part by part. `committed` is the first sequence that the table lacks."""

    def __init__(
        self,
        directory: SubscriptionDirectory,
        paging: Paging,
        committed: Callable[[], int],
        matches_max: int,
    ) -> None:
        self._directory, self._paging = directory, paging
        self._committed, self._matches_max = committed, matches_max

    async def take(
        self, subscription: Subscription, topic: str, selector: str, part: Part
    ) -> dict[str, Writable] | AmqpError:
        """Take in one part, or return why not. A part that doesn't follow the earlier parts begins
        a new hint. Raises StoreError when the table can't be read."""
        amqp_error = self._unfit(subscription, topic, selector, part)
        if amqp_error is not None:
            return amqp_error
        missed = await self._missed(subscription, part)
        if missed is not None:
            subscription.hint = None
            return AmqpError(
                PRECONDITION_FAILED,
                f"sequence {missed} matches and isn't named: the hint is forgotten",
            )
        # The subscription may have changed while the page was read; the sample stays valid.
        amqp_error = self._unfit(subscription, topic, selector, part)
        if amqp_error is not None:
            return amqp_error
        hint = subscription.hint
        if hint is None or not hint.follow(part):
            hint = subscription.hint = Hint(part)
        return {"stop": hint.stop, "matches": len(hint)}

    def _unfit(
        self, subscription: Subscription, topic: str, selector: str, part: Part
    ) -> AmqpError | None:
        definition, committed = subscription.definition, self._committed()
        if subscription.ended or definition.topic != topic or definition.selector != selector:
            selected = f"this has '{definition.topic}', selector {definition.selector!r}"
            text = f"the hint is for another subscription: {selected}"
            return AmqpError(PRECONDITION_FAILED, text)
        if part.stop > committed:
            return AmqpError(
                PRECONDITION_FAILED,
                f"the hint goes to sequence {part.stop}, the table to {committed}",
            )
        named = sum(len(one.hint) for one in self._directory.all() if one.hint is not None)
        named += len(part.sequences)
        if named > self._matches_max:
            return AmqpError(
                LIMIT_EXCEEDED,
                f"the hints of all subscriptions would name {named} messages, {self._matches_max} "
                "at most (delivery.hint_matches_max); later messages are looked for without a hint",
            )
        return None

    async def _missed(self, subscription: Subscription, part: Part) -> int | None:
        """Return the sequence of a message in a sample that matches and that the part doesn't name,
        or None."""
        definition = subscription.definition
        first = max(part.start, part.stop - SAMPLE_MESSAGES)
        start = random.randint(part.start, first)  # noqa: S311 (nothing secret)
        page = await self._paging.page(definition.topic, start)
        selections = Selections(BatchReader)
        selections.join(definition)
        left, named = SAMPLE_MESSAGES, frozenset(part.sequences)
        for batch in page.batches:
            found = selections.matches(definition, batch, start, room=left, work_max=left)
            matched: Run = found.sequences if found.sequences is not None else array("q")
            for sequence in matched:
                if sequence < part.stop and sequence not in named:
                    return sequence
            left -= max(batch.count, found.work)
            if left <= 0 or batch.stop >= part.stop:
                break
        return None
