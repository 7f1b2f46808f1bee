"""Common rules of relayed links: their life at the client, at the owner, and between owners.

Rule 1: the client's link is answered when the owner has answered, with the owner's answer.
Rule 2: where the client ends its link, the owner is told, and its answer goes to the client.
Rule 3: where the owner refuses or ends the link, the client gets the owner's error.
Rule 4: where the owner is lost, the link stays, and is made again at the next owner.
"""

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from cproton import lib as proton
from msgspec.structs import replace

from distributary.client.connection.client_errors import ClientError, Refused
from distributary.client.connection.conditions import tell
from distributary.client.connection.wire import Wire
from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net.link import Link
from distributary.ingest.net.relayed_link import RelayedLink
from distributary.ingest.net.relayed_peer import NOT_OWNER
from distributary.ingest.relaying.owners.owner_terms import OwnerTerms
from distributary.ingest.relaying.owners.relayed_session import RelayedSession
from distributary.pipeline.model.amqp_error import NOT_FOUND

#: Condition of a client's link that no owner can serve any more.
FORCED = "amqp:link:detach-forced"
_ENDED_HERE = ("amqp:link:detach-forced", "the client's link was ended")


class OwnerLink(RelayedLink):
    """A client's link, and the same link at the owner. Implements the client engine's `ClientLink`
    for the latter."""

    def __init__(self, link: Link, sessions: tuple[RelayedSession, ...], terms: OwnerTerms) -> None:
        """`sessions`: at the owners of the logs that may have the link's node; the owners are asked
        in turn."""
        self._link, self._terms = link, terms
        self.session, *self._more = sessions
        self.key = link.name, link.is_outgoing
        self._wire: Wire | None = None
        #: Proton's link at the owner, while there is one.
        self.pointer: Any = None
        self.error: ClientError | None = None
        self._answered = False  #: the client's link is open
        self._ready = False  #: it is attached at the owner
        self._leaving: bool | None = None  #: its client has detached (False) or closed it (True)
        self._ending = False  #: this owner was asked to end the link
        self._asked = False  #: some owner was asked to end it
        self._over = False

    def __str__(self) -> str:
        return f"{self._terms.topic or self._terms.attach.address} for {self._link.name}"

    def begin(self) -> None:
        """Have the link made at the owner."""
        self.session.join(self)

    # For subclasses.

    @abstractmethod
    def _make(self, session: Any) -> Any:
        """Open the link on a session of the owner's; return Proton's pointer."""

    @abstractmethod
    def _answer(self) -> None:
        """Open the client's link, by `_open`: the owner has opened its own."""

    def _open(self) -> None:
        """Open the client's link, whose terms are set."""
        self._link.open()

    @property
    def sessions(self) -> tuple[RelayedSession, ...]:
        """Return the sessions that the link has at owners."""
        return (self.session,)

    @abstractmethod
    def perform(self) -> None:
        """Hand the waiting messages and outcomes to the owner's engine."""

    def _owner_lost(self) -> None:
        """Read the deliveries of the lost owner, for the last time."""

    def _left(self) -> None:
        """Keep nothing for the client's link: it has ended, or will not go on."""

    @property
    def _goes_on(self) -> bool:
        """Whether the client's detach must wait for an owner while there is none."""
        return False

    # The client's side.

    def received(self, received: Received) -> None:
        """Take messages, of a client that sends or of the owner."""
        raise NotImplementedError

    def outcomes(self, outcomes: Outcomes) -> None:
        raise NotImplementedError

    def settled(self, outcomes: Outcomes) -> None:
        """Take outcomes that the owner gave."""
        raise NotImplementedError

    def flowed(self) -> None:
        """Nothing: a client that sends gives no credit."""

    def detached(self, *, closed: bool) -> None:
        self._leaving = closed
        if self._wire is not None and self._ready:
            self.perform()
            self._end_there(closed=closed)
        elif self._wire is None and not self._goes_on:
            self._has_left("", "")
            return
        self.session.owner.awaits(self)

    def left(self) -> None:
        if self._over:
            return
        self._over = True
        self.perform()  # earlier messages and outcomes go to the owner
        self._finish()
        if self._wire is None or self.pointer is None:
            return
        if not self._link.alive:  # so are the other links of its session, whose end follows
            self.session.well = self._link.ended_well
            return
        self._leave_owner()

    def _leave_owner(self) -> None:
        """End the link at the owner, if it is there and isn't ending. Not closed: that would end a
        durable subscription."""
        if self._wire is not None and not self._ending:
            tell(proton.pn_link_condition(self.pointer), *_ENDED_HERE)
            self._end_there(closed=False)

    def _finish(self) -> None:
        """Keep nothing more for the link, and pass nothing more on."""
        self._over = True
        self._left()
        if self._wire is None or self._link.alive:  # else its session has yet to end it
            self.session.leave(self)
        else:
            self.session.owner.leave(self)

    # The owner's side.

    def make(self, wire: Wire) -> Any:
        self._wire, self._ending = wire, False
        self.pointer = self._make(self.session.begin(wire))
        return self.pointer

    def opened(self) -> None:
        self._ready = True
        if self._leaving is None:
            self.session.owner.answered(self)
        if not self._answered and not self._over:
            self._answered = True
            self._for_client(self._answer)
        if self._leaving is not None and self._wire is not None:
            self.perform()
            self._end_there(closed=self._leaving)

    def _end_there(self, *, closed: bool) -> None:
        """Have the owner end the link, once on each connection."""
        if self._wire is not None and not self._ending:
            self._ending = self._asked = True
            self.session.ends(self)
            self._wire.end(self.pointer, closed=closed)

    def fail(self, error: ClientError) -> None:
        """The owner has answered the link's end, or has ended or refused it."""
        self.session.has_ended(self)
        self._wire = self.pointer = None
        self._ready = False
        said = error if isinstance(error, Refused) else Refused(str(error), "", "")
        if said.condition == NOT_OWNER:
            self.session.owner.refused(self)
        elif said.condition == NOT_FOUND and self._more and not self._answered and not self._over:
            self._ask_next()
        elif self._leaving is not None:
            # If a lost owner was asked to end the subscription and the next one hasn't got it, it
            # has ended.
            done = self._asked and said.condition == NOT_FOUND
            why = ("", "") if done else (said.condition, said.description)
            self._has_left(*why)
        elif not self._over:
            condition = said.condition or FORCED
            self._fail(condition, said.description or "the owner of its log has ended it")

    def _ask_next(self) -> None:
        """Ask the next log: this one doesn't have the link's node."""
        self.session.leave(self)
        self.session = self._more.pop(0)
        said = replace(self._terms.said, log=self.session.owner.log)
        self._terms = replace(self._terms, said=said)
        self.begin()

    def lost(self) -> None:
        if self._ready and not self._over:
            self.session.owner.awaits(self)
        self._owner_lost()
        self.session.has_ended(self)
        self._wire = self.pointer = None
        self._ready = False
        if self._leaving is not None and not self._over and not self._goes_on:
            self._has_left("", "")

    def give_up(self, reason: str) -> None:
        if self._leaving is not None:
            self._has_left(FORCED, reason)
        elif not self._over:
            self._fail(FORCED, reason)
        self._leave_owner()

    def _fail(self, condition: str, text: str) -> None:
        """End the client's link: no owner serves it."""
        self._finish()
        self._for_client(partial(self._end, condition, text))

    # Work on the client's link.

    def _for_client(self, work: Callable[[], None]) -> None:
        """Do work on the client's link; a failure ends this client alone."""
        if self._link.alive:
            self._link.connection.attempt(work)

    def _end(self, condition: str, text: str) -> None:
        link = self._link
        if not link.alive or link.ended:
            return
        if self._answered:
            link.end(condition, text)
        else:
            link.refuse(condition, text)

    def _has_left(self, condition: str, text: str) -> None:
        """Answer the client's detach; the link has ended even if its client doesn't wait for it."""
        if not self._over:
            self._finish()
        self._for_client(partial(self._detach, condition, text))

    def _detach(self, condition: str, text: str) -> None:
        """Answer the client's detach, after all outcomes that it waits for."""
        closed = bool(self._leaving)
        self._link.when_answered(partial(self._say_detached, closed, condition, text))

    def _say_detached(self, closed: bool, condition: str, text: str) -> None:
        if self._link.alive:
            self._link.detach(closed=closed, condition=condition, description=text)
