"""A client's link that receives from a topic or queue of another gateway's log.

Rule 1: the owner has as much credit as the client has given, less the messages that wait here, and
        no more than a window of bytes; credit that the client takes back is taken back from the
        owner.
Rule 2: a message goes to the client as it came. Its outcome goes to the owner as the client gave
        it; where the client waits for our settlement, the owner's settlement comes first.
Rule 3: the next owner doesn't know the deliveries of a lost owner. A message that it sends again
        while the client still holds it doesn't go to the client twice: the client's delivery stands
        for it, and an outcome that the client gave meanwhile is given at once. Tags of owners are
        sequences of their log, so a message is recognised by its tag.
Rule 4: a browser that was shown a message ends with its owner: the next one would show it again.
"""

from array import array
from collections import deque
from typing import Any

import msgspec
from cproton import lib as proton

from distributary.ingest.native import dispositions
from distributary.ingest.native import pump as pumping
from distributary.ingest.native.dispositions import AS_IT_CAME, NO_TAG
from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net import termini
from distributary.ingest.net.link import Link
from distributary.ingest.relaying.held_bytes import ReceiversBytes
from distributary.ingest.relaying.owner_link import FORCED
from distributary.ingest.relaying.owners.owner_terms import (
    OwnerTerms,
    consumer_answer,
    open_consumer,
)
from distributary.ingest.relaying.owners.relayed_session import RelayedSession
from distributary.ingest.relaying.retiring_link import UNCONFIRMED, RetiringLink
from distributary.ingest.relaying.transactions.relayed_work import RelayedWorks
from distributary.ingest.relaying.transactions.retired_deliveries import CODES
from distributary.pipeline.model.address import Kind, kind_of_topic
from distributary.pipeline.model.amqp_error import LIMIT_EXCEEDED
from distributary.pipeline.model.policy import Lifetime
from distributary.pipeline.model.record_batch import RecordBatch
from distributary.pipeline.model.transitions import DeliveryState
from distributary.pipeline.sequences.sequence_set import Run
from distributary.pipeline.subscriptions.attach_intent import offered

#: Bytes that a message is assumed to have until the first one came. It gives at least window / this
#: credits; with fewer the owner would take a consumer of high priority for one without credit.
FIRST_BYTES = 65_536
_UNSEEN = "the owner of its log was lost, and with it what this browser has seen: browse anew"


class _Part(msgspec.Struct, eq=False):
    """Messages that wait to be sent to the client: those of `run` of a batch."""

    batch: RecordBatch
    run: range

    @property
    def size(self) -> int:
        """Bytes of the messages."""
        at = memoryview(self.batch.offsets).cast("B").cast("i")
        begin = self.run.start - self.batch.first
        return at[begin + len(self.run)] - at[begin]


class RelayedConsumer(RetiringLink):
    """See the rules above."""

    def __init__(
        self,
        link: Link,
        sessions: tuple[RelayedSession, ...],
        terms: OwnerTerms,
        held: ReceiversBytes,
        works: RelayedWorks,
        window_bytes: int,
    ) -> None:
        super().__init__(link, sessions, terms, works)
        self._held, self._window_bytes = held, window_bytes
        self._window = max(window_bytes // FIRST_BYTES, 1)
        self._presettled = False
        self._next = 1  #: the number of the next message on the client's link
        self._shown = False  #: some message has come
        self._waiting: deque[_Part] = deque()
        self._waiting_count = self.held_bytes = 0
        self._draining = False  #: the owner was asked to give credit back
        #: By tag, the outcome that the client gave while no owner had the delivery.
        self._given: dict[int, DeliveryState] = {}
        #: Deliveries that wait for the owner's settlement (first), and whose clients wait for ours.
        self._confirming: tuple[array[int], array[int]] = (array("Q"), array("Q"))

    # The owner's side.

    def _make(self, session: Any) -> Any:
        self._draining = False
        return open_consumer(session, self._link, self._terms)

    def _answer(self) -> None:
        link, topic = self._link, self._terms.topic
        if not link.alive or link.ended:
            return
        said = consumer_answer(self.pointer)
        self._presettled = said.presettled
        if said.expiry.lifetime is Lifetime.CONNECTION_CLOSE:
            self._works.stay(link, self.session.owner.log)
        termini.echo(
            link.proton,
            topic,
            presettled=said.presettled,
            expiry=said.expiry,
            durable=said.durable,
        )
        link.offered_capabilities = offered(topic, outgoing=True)
        self._open()

    def settled(self, outcomes: Outcomes) -> None:
        """Do nothing: no messages are sent to the owner."""

    def received(self, received: Received) -> None:
        deliveries = array("Q", received.deliveries)
        if not self._link.alive or self._link.ended or self._leaving is not None:
            dispositions.dispose(deliveries, pumping.RELEASED)
            return
        offsets = pumping.offsets(received.lengths, received.count)
        self._for_client(lambda: self._take(received.blob, offsets, deliveries))

    def _take(self, blob: bytes, offsets: bytearray, deliveries: "array[int]") -> None:
        if self._before or self._given:
            blob, offsets, deliveries = self._without_known(blob, offsets, deliveries)
        count = len(deliveries)
        if not count:
            return
        first, self._next, self._shown = self._next, self._next + count, True
        numbers = range(first, first + count)
        if not self._presettled:
            self._of_owner.add(first, deliveries)
        self._window = max(self._window_bytes // max(len(blob) // count, 1), 1)
        self._wait(_Part(RecordBatch(first, count, blob, offsets), numbers))
        self._send()
        if self._wire is not None:
            self._wire.touch(self)  # to give it credit again

    def _without_known(
        self, blob: bytes, offsets: bytearray, deliveries: "array[int]"
    ) -> "tuple[bytes, bytearray, array[int]]":
        """Rule 3: return those of the messages that the client doesn't have."""
        tags = dispositions.tags(deliveries)
        known = [tag in self._before or tag in self._given for tag in tags]
        if not any(known):
            return blob, offsets, deliveries
        at, parts, left = array("i", bytes(offsets)), list[bytes](), array("Q")
        new = array("i", (0,))
        for nth, (tag, delivery) in enumerate(zip(tags, deliveries, strict=True)):
            if not known[nth]:
                parts.append(blob[at[nth] : at[nth + 1]])
                left.append(delivery)
                new.append(new[-1] + len(parts[-1]))
            elif (given := self._given.pop(tag, None)) is not None:
                self._give(array("Q", (delivery,)), given, array("Q"))
            else:
                number = self._before.pop(tag)
                del self._tags[number]
                self._of_owner.have_again(number, delivery)
        return b"".join(parts), bytearray(new.tobytes()), left

    def _owner_lost(self) -> None:
        if self._shown and self._terms.browses:
            self._for_client(lambda: self._end(FORCED, _UNSEEN))
        for part in self._waiting if not self._presettled else ():
            self._of_owner.take(part.run)
        if not self._presettled:
            self._forget_waiting()
        if self._confirming[0] or self._retired.awaited:
            self._confirming = array("Q"), array("Q")
            self._for_client(lambda: self._end(FORCED, UNCONFIRMED))
        self._lose_retired()
        numbers, deliveries = self._of_owner.take_all()
        if not self._terms.durable:
            return  # its subscription has ended with the owner
        for number, tag in zip(numbers, dispositions.tags(deliveries), strict=True):
            if tag != NO_TAG:
                self._before[tag] = number
                self._tags[number] = tag

    # Messages to the client.

    def _wait(self, part: _Part) -> None:
        self._waiting.append(part)
        self._waiting_count += len(part.run)

    def _send(self) -> None:
        """Send waiting messages, as many as the client has credit for and its socket takes; give
        those back that it wants no more, and count the bytes of the others."""
        link = self._link
        while self._waiting and link.takes_more and (credit := self._sendable) > 0:
            part = self._waiting[0]
            run = part.run[:credit]
            link.send(part.batch, run, AS_IT_CAME, self._token, self._presettled)
            self._waiting_count -= len(run)
            if len(run) == len(part.run):
                self._waiting.popleft()
            else:
                part.run = part.run[credit:]
            self._used(len(run))
        if self._waiting and not self._presettled:
            self._give_back(self._waiting_count - max(self._sendable, 0))
        self._weigh()

    def _give_back(self, count: int) -> None:
        """Give back the last waiting messages, which the client doesn't want: other consumers may
        have them."""
        while count > 0:
            part = self._waiting[-1]
            most = min(count, len(part.run))
            back = part.run[len(part.run) - most :]
            part.run = part.run[: len(part.run) - most]
            if not part.run:
                self._waiting.pop()
            dispositions.dispose(self._of_owner.take(back), pumping.RELEASED)
            self._waiting_count -= most
            count -= most

    def _weigh(self) -> None:
        """Count the bytes of the waiting messages."""
        before, self.held_bytes = self.held_bytes, sum(part.size for part in self._waiting)
        if self.held_bytes > before:
            self._held.add(self, self.held_bytes - before)
        elif self.held_bytes < before:
            self._held.remove(self, before - self.held_bytes)

    def drop(self, reason: str) -> None:
        """End the client's connection: it doesn't take its messages."""
        connection = self._link.connection
        connection.close(LIMIT_EXCEEDED, reason)
        connection.abort()

    # The client's outcomes.

    def outcomes(self, outcomes: Outcomes) -> None:
        if outcomes.transaction:
            self._retire(outcomes)
            return
        said = self._link.delivery_state(outcomes)
        found = self._of_owner.take(outcomes.run)
        confirm = array("Q", outcomes.confirm)
        if self._tags:
            self._keep_given(outcomes.run, said)
        if confirm and not all(found):
            self._end(FORCED, UNCONFIRMED)
            return
        self._give(found, said, confirm)
        if self._wire is not None:
            self._wire.touch(self)

    def _keep_given(self, run: Run, said: DeliveryState) -> None:
        """Rule 3: keep the outcome of those deliveries that no owner has at this moment."""
        for number in run:
            tag = self._tags.pop(number, None)
            if tag is not None:
                del self._before[tag]
                self._given[tag] = said

    def _give(self, deliveries: "array[int]", said: DeliveryState, confirm: "array[int]") -> None:
        """Give the owner's deliveries this outcome."""
        waits = bool(confirm)
        dispositions.dispose(
            deliveries,
            CODES[said.outcome],
            failed=said.failed,
            undeliverable=said.undeliverable,
            settles=not waits,
        )
        if waits and self._wire is not None:
            owners, clients = self._confirming
            owners.extend(deliveries)
            clients.extend(confirm)
            self._wire.watch(self)

    def passed(self) -> None:
        """One read of the owner's frames is done: it may have confirmed outcomes."""
        owners, clients = self._confirming
        count = dispositions.settled(owners) if owners else 0
        if not count:
            return
        dispositions.dispose(owners[:count], 0)
        done = clients[:count]
        del owners[:count], clients[:count]
        if not owners and self._wire is not None:
            self._wire.unwatch(self)
        if self._wire is not None:
            self._wire.later()
        self._for_client(lambda: self._confirm(done))

    def _confirm(self, done: "array[int]") -> None:
        pumping.settle(done.tobytes(), 0)
        self._link.connection.touch()
        self._link.answered(len(done))

    # Credit.

    @property
    def _sendable(self) -> int:
        """Messages that may go to the client now."""
        return self._link.credit

    @property
    def _share(self) -> int:
        """Messages that the client wants of this owner."""
        return self._link.credit

    @property
    def _drains(self) -> bool:
        """Whether credit that this owner has no message for is to come back."""
        return self._link.draining

    def _used(self, count: int) -> None:
        """Count messages that went to the client."""

    def _exhausted(self) -> None:
        """Answer the client's drain: the owner has no more messages."""
        self._link.drained()

    def flowed(self) -> None:
        if self._waiting:
            self._send()
        self._credit()
        if self._wire is not None:
            self._wire.later()

    def perform(self) -> None:
        if not self._over and not self._link.ended:
            self._for_client(self._credit)

    def _credit(self) -> None:
        """Give the owner its credit, by rule 1."""
        link, made = self._link, self.pointer
        if made is None or not self._ready or self._leaving is not None or not link.alive:
            return
        have = int(proton.pn_link_credit(made))
        wanted, drains = self._share - self._waiting_count, self._drains
        if self._draining:
            if have:
                return  # the owner's answer is under way
            self._draining = False
            if proton.pn_link_drained(made) and drains and not self._waiting:
                self._exhausted()
                return
        able = link.takes_more
        if drains:
            if wanted > 0 and able:
                self._draining = True
                proton.pn_link_drain(made, max(min(wanted, self._window) - have, 0))
        elif wanted < have:
            self._draining = True
            proton.pn_link_drain(made, 0)
        elif able:
            most = min(wanted, self._window)
            if have <= most // 2 and most > have:
                proton.pn_link_flow(made, most - have)

    # The end.

    @property
    def _goes_on(self) -> bool:
        """Whether the client ends a durable subscription: it must know that it has ended."""
        queue = kind_of_topic(self._terms.topic or "") is Kind.QUEUE
        return bool(self._leaving) and self._terms.durable and not queue

    def _left(self) -> None:
        self._forget_waiting()
        self._forget_retired()
        self._of_owner.clear()
        self._before.clear()
        self._tags.clear()
        self._given.clear()
        if self._link.alive:  # the answer to its detach waits for no more settlements of ours
            self._link.answered(len(self._confirming[1]))
        self._confirming = array("Q"), array("Q")

    def _forget_waiting(self) -> None:
        self._waiting.clear()
        self._waiting_count = 0
        self._weigh()
