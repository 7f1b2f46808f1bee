"""A relayed link on which deliveries are given outcomes in transactions.

The owner is told the outcomes when it has the transaction. Once it is rolled back, the client holds
the deliveries that it may give another outcome, as before.
"""

from array import array

from distributary.ingest.native.runs import Outcomes
from distributary.ingest.net.link import Link
from distributary.ingest.relaying.owner_link import FORCED, OwnerLink
from distributary.ingest.relaying.owners.owner_deliveries import OwnerDeliveries
from distributary.ingest.relaying.owners.owner_terms import OwnerTerms
from distributary.ingest.relaying.owners.relayed_session import RelayedSession
from distributary.ingest.relaying.transactions.relayed_work import RelayedWork, RelayedWorks
from distributary.ingest.relaying.transactions.retired_deliveries import Retired, RetiredDeliveries
from distributary.pipeline.lake.relayed_transaction import Step
from distributary.pipeline.model.amqp_error import AmqpError
from distributary.pipeline.transactions.transaction import ILLEGAL_STATE

#: Any number but 0: the pump tells the outcomes of deliveries that have one.
TOLD = 1
_LOST = AmqpError(ILLEGAL_STATE, "the owner of its log was lost before its deliveries were settled")
UNCONFIRMED = "the owner of its log was lost, and it is unknown whether it got the outcomes"


class RetiringLink(OwnerLink):
    """Deliveries that the client holds, or has given an outcome in transactions."""

    #: The time of delivery by which the engine gives its outcomes back.
    _token = TOLD

    def __init__(
        self,
        link: Link,
        sessions: tuple[RelayedSession, ...],
        terms: OwnerTerms,
        works: RelayedWorks,
    ) -> None:
        super().__init__(link, sessions, terms)
        self._works, self._retired = works, RetiredDeliveries(self._token)
        self._of_owner = OwnerDeliveries()
        #: Deliveries of a lost owner that the client holds: tag -> number, and number -> tag.
        self._before: dict[int, int] = {}
        self._tags: dict[int, int] = {}

    def _retire(self, outcomes: Outcomes) -> None:
        """Take an outcome that the client gave to deliveries in a transaction."""
        link = self._link
        log = self.session.owner.log
        taken = self._works.take(link, outcomes.transaction, log, self, 0)
        if taken is None:
            return
        work, step = taken
        numbers = array("Q", outcomes.run)
        found = self._of_owner.take(outcomes.run)
        for number in numbers if self._tags else ():
            if (tag := self._tags.pop(number, None)) is not None:
                del self._before[tag]  # its owner is lost: the message comes again
        if found.count(0):
            work.spoil(_LOST)
        clients = array("Q", outcomes.confirm)
        retired = Retired(numbers, found, clients, link.delivery_state(outcomes), step)
        self._retired.add(work, retired)
        if step is not Step.SEND:  # else the owner counts the deliveries
            work.hold(len(numbers))
        self._touch()

    def pass_work(self, work: RelayedWork) -> None:
        self._retired.pass_on(work)
        self._touch()

    def drop_work(self, work: RelayedWork) -> None:
        """Do nothing: a consumer sends no messages."""

    def give_back_work(self, work: RelayedWork) -> None:
        if self._link.alive and not self._over:
            self._have_again(self._retired.give_back(work))

    def work_ended(self, work: RelayedWork) -> None:
        if not self._link.alive or self._over:
            return
        if work.committed:
            self._retired.committed(work)
        elif not work.in_doubt:
            self._have_again(self._retired.rolled_back(work))
        elif self._retired.awaited:
            self._end(FORCED, UNCONFIRMED)
        self._link.connection.touch()
        self._touch()

    def _have_again(self, pairs: "array[int]") -> None:
        """Hold deliveries again to which the client may give another outcome."""
        for number, delivery in zip(pairs[::2], pairs[1::2], strict=True):
            if delivery:
                self._of_owner.have_again(number, delivery)
        self._touch()

    def _touch(self) -> None:
        """Go on after outcomes came or were let go: the client's detach waits for held outcomes."""
        if self._leaving is not None and self._ready:
            self._end_there(closed=self._leaving)
        if self._wire is not None:
            self._wire.touch(self)

    def _end_there(self, *, closed: bool) -> None:
        if not self._retired.held:  # held outcomes go to the owner before the end
            super()._end_there(closed=closed)

    def _lose_retired(self) -> None:
        """Forget held outcomes with their owner, and spoil their transactions, even those that wait
        for the next owner: it doesn't have the deliveries."""
        for work in self._retired.works():
            work.spoil(_LOST)
        self._retired.clear()

    def _forget_retired(self) -> None:
        """Forget held outcomes with the client's link, and spoil their transactions. Outcomes that
        the owner got stay in theirs; the other deliveries fail, as the client has seen them."""
        text = f"link '{self._link.name}' ended before the owner had its outcomes"
        for work in self._retired.works():
            work.spoil(AmqpError(ILLEGAL_STATE, text))
        if self._wire is not None:
            self._retired.leave()
        self._retired.clear()
