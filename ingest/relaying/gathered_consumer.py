"""A client's link that receives from several logs at once, as from one.

Rule 1: the parts share the client's credit (`pipeline.lake.shared_credit`).
Rule 2: the numbers of the parts' messages, which are the tags that the client sees, never collide;
        the time of delivery that the engine gives back with an outcome says which part it is for.
Rule 3: a part whose owner is lost waits for the next owner; the other parts go on.
"""

import asyncio
from functools import partial
from typing import assert_never

import msgspec
from msgspec.structs import replace

from distributary.client.connection.client_errors import ClientError, Refused
from distributary.ingest.native.runs import Outcomes
from distributary.ingest.net.link import Link
from distributary.ingest.relaying.gathered_link import GatheredLink, GatheredPart
from distributary.ingest.relaying.held_bytes import ReceiversBytes
from distributary.ingest.relaying.owners.owner_terms import OwnerTerms, consumer_answer
from distributary.ingest.relaying.owners.relayed_session import RelayedSession
from distributary.ingest.relaying.relayed_consumer import RelayedConsumer
from distributary.ingest.relaying.retiring_link import TOLD
from distributary.ingest.relaying.transactions.relayed_work import RelayedWorks
from distributary.pipeline.amqp.relayed_for import CHANGES
from distributary.pipeline.lake.shared_credit import Drained, Grant, SharedCredit, TakeBack, Wait

#: Bits of a message's number in its part: above them is the part.
NUMBER_BITS = 48


class GatheredConsumer(GatheredLink):
    """The client's link, made of this many `parts`."""

    def __init__(
        self,
        link: Link,
        loop: asyncio.AbstractEventLoop,
        parts: int,
        again_seconds: float,
        *,
        optional: bool,
    ) -> None:
        """`again_seconds`: how long the client's credit stays with one part, where there is less
        credit than parts and no part had a message."""
        super().__init__(link, optional=optional)
        self._loop, self._again_seconds = loop, again_seconds
        self.credit = SharedCredit(parts)
        self._asking: list[ConsumerPart] = []
        self._timer: asyncio.TimerHandle | None = None

    def gather(self, parts: "list[ConsumerPart]") -> None:
        """Have these parts made at their owners."""
        self._asking = parts
        self.begin(parts)

    def outcomes(self, outcomes: Outcomes) -> None:
        self._asking[outcomes.delivered_at - TOLD].outcomes(outcomes)

    def flowed(self) -> None:
        self.credit.given(self._link.credit, draining=self._link.draining)
        self.share()
        for part in self._asking:
            part.flowed()

    def share(self) -> None:
        """Carry out the decisions of the shared credit."""
        link, waits = self._link, False
        if not link.alive or link.ended:
            return
        for effect in self.credit.decide():
            match effect:
                case Grant(part=part) | TakeBack(part=part):
                    self._asking[part].ask()
                case Drained():
                    link.drained()
                    self.credit.given(link.credit, draining=False)
                case Wait():
                    waits = True
                case _ as never:
                    assert_never(never)
        if not waits:
            self._rest()
        elif self._timer is None:
            seconds = self._again_seconds
            self._timer = self._loop.call_later(seconds, link.later(self._ask_again))

    def _ask_again(self) -> None:
        self._timer = None
        self.credit.waited()
        self.share()

    def _rest(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def left(self) -> None:
        self._rest()
        super().left()


class Place(msgspec.Struct, frozen=True, eq=False):
    """Place of a part: its consumer, and its number there."""

    whole: GatheredConsumer
    number: int


class ConsumerPart(GatheredPart, RelayedConsumer):
    """The part that receives from one log."""

    def __init__(
        self,
        place: Place,
        link: Link,
        session: RelayedSession,
        terms: OwnerTerms,
        held: ReceiversBytes,
        works: RelayedWorks,
        window_bytes: int,
    ) -> None:
        self.whole: GatheredConsumer = place.whole
        self._number, self._token = place.number, TOLD + place.number
        terms = replace(terms, said=replace(terms.said, keeps=terms.durable))
        super().__init__(link, (session,), terms, held, works, window_bytes)
        self._next += place.number << NUMBER_BITS
        self._made = False  #: it has made its subscription in its log

    # Its owner comes and goes.

    def opened(self) -> None:
        self._made |= consumer_answer(self.pointer).made
        super().opened()
        if self._over:
            self._leave_owner()  # its end waited for this answer
            return
        self.whole.credit.ready(self._number)
        self.whole.share()

    def fail(self, error: ClientError) -> None:
        if not isinstance(error, Refused) or error.condition != CHANGES:
            super().fail(error)
            return
        self.session.has_ended(self)
        self._wire = self.pointer = None
        self.session.leave(self)
        self._terms = replace(self._terms, said=replace(self._terms.said, keeps=False))
        if self._leaving is not None:
            self._has_left("", "")
        elif not self._over:
            self._for_client(partial(self.whole.may_change, self))

    def lost(self) -> None:
        super().lost()
        self.whole.credit.lost(self._number, self._waiting_count)
        self._for_client(self.whole.share)

    def _leave_owner(self) -> None:
        """End the link at the owner; by a close if a subscription is to end that it has made there,
        as another owner has refused its own. Only the owner's answer says whether it has. Else it
        ends with an error: the owner counts what it may have delivered, as ever."""
        given_up = self._terms.durable and not self.whole.is_open
        if given_up and self._ready and self._made:
            self._end_there(closed=True)
        elif not given_up or self._ready:
            super()._leave_owner()
        elif self._wire is not None and not self._ending:
            self.session.ends(self)  # its name isn't free before that

    # Its share of the credit.

    def ask(self) -> None:
        """Tell the part that its share of the credit has changed, or is to come back."""
        if self._wire is not None:
            self._wire.touch(self)

    @property
    def _share(self) -> int:
        return self.whole.credit.of(self._number)

    @property
    def _sendable(self) -> int:
        return min(self._share, self._link.credit)

    @property
    def _drains(self) -> bool:
        return self.whole.credit.leaves(self._number)

    def _used(self, count: int) -> None:
        self.whole.credit.sent(self._number, count)
        self.whole.share()

    def _exhausted(self) -> None:
        self.whole.credit.returned(self._number)
        self.whole.share()
