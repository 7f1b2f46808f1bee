"""A client's link to a destination in several logs: one link at each owner, behind one of ours.

Rule 1: the first owner is asked first; when it has agreed, all other owners are. So of two clients
        that want an exclusive subscription, one is refused before it has any part of it.
Rule 2: the client's link is open when all owners have opened theirs; where one refuses or ends it,
        the client's ends, and the others'. If it wasn't open yet, a durable subscription ends in
        each log where its link has made it: it is in all of its logs or in none.
Rule 3: a subscription is changed (another selector, topic or sharing) when all owners have agreed:
        the messages that a change drops don't come back. Then one owner after another changes it.
Rule 4: the client's detach or close goes to each owner, and is answered when all have answered it.
"""

from collections.abc import Sequence

from distributary.ingest.native.runs import Outcomes, Received
from distributary.ingest.net.link import Link
from distributary.ingest.net.relayed_link import RelayedLink
from distributary.ingest.relaying.owner_link import OwnerLink
from distributary.ingest.relaying.owners.relayed_session import RelayedSession
from distributary.pipeline.model.amqp_error import NOT_FOUND


class GatheredLink(RelayedLink):
    """See the rules above. `optional`: logs that don't have the link's node are left out."""

    def __init__(self, link: Link, *, optional: bool = False) -> None:
        self._link, self._optional = link, optional
        self._parts: list[GatheredPart] = []
        self._opened: set[GatheredPart] = set()
        self._absent: set[GatheredPart] = set()
        self._changing: list[GatheredPart] = []  #: parts that may change their subscriptions
        self._begun = 0
        self._open = False
        self._leaving: list[GatheredPart] | None = None  #: parts that must still end
        self._closed = False  #: what the client's detach says
        self._why = "", ""

    @property
    def sessions(self) -> tuple[RelayedSession, ...]:
        """Return the sessions that its parts have at owners."""
        return tuple(part.session for part in self._there)

    @property
    def is_open(self) -> bool:
        """Whether all owners have agreed, so that the client's link was opened."""
        return self._open

    @property
    def _there(self) -> "list[GatheredPart]":
        """The parts that were begun and found something."""
        return [part for part in self._parts[: self._begun] if part not in self._absent]

    def begin(self, parts: "Sequence[GatheredPart]") -> None:
        """Have these parts made at their owners, the first one first."""
        self._parts += parts
        self._begin(1)

    def _begin(self, stop: int) -> None:
        first, self._begun = self._begun, stop
        for part in self._parts[first:stop]:
            part.begin()

    # What parts say.

    def opened(self, part: "GatheredPart") -> None:
        """The part's owner has agreed."""
        self._opened.add(part)
        self._go_on("", "")

    def may_change(self, part: "GatheredPart") -> None:
        """The part's owner would change its subscription, and was not asked to yet."""
        if self._open:  # the next owner has another definition than the one that was lost
            part.begin()
            return
        self._changing.append(part)
        self._go_on("", "")

    def _go_on(self, condition: str, text: str) -> None:
        if self._leaving is not None or self._open:
            return
        if self._begun < len(self._parts):
            self._begin(len(self._parts))
        elif len(self._opened) + len(self._absent) + len(self._changing) < len(self._parts):
            return
        elif self._changing:
            self._changing.pop(0).begin()
        elif self._opened:
            self._open = True
            self._link.open()
        else:
            self._link.refuse(condition, text)

    def failed(self, part: "GatheredPart", condition: str, text: str) -> None:
        """The part's owner has refused or ended it, or there was no owner for too long."""
        link = self._link
        if not link.alive or link.ended:
            return
        if self._open:
            link.end(condition, text)
        elif self._optional and condition == NOT_FOUND:
            self._absent.add(part)
            self._go_on(condition, text)
        else:
            link.refuse(condition, text)

    def has_left(self, part: "GatheredPart", condition: str, text: str) -> None:
        """The part's owner has answered the client's detach, or no owner has to any more."""
        if self._leaving is None or part not in self._leaving:
            return
        self._leaving.remove(part)
        if condition and not self._why[0]:
            self._why = condition, text
        if not self._leaving:
            self._answer_detach()

    # What the client says.

    def received(self, received: Received) -> None:
        raise NotImplementedError

    def outcomes(self, outcomes: Outcomes) -> None:
        raise NotImplementedError

    def flowed(self) -> None:
        """Do nothing: the client gives no credit."""

    def detached(self, *, closed: bool) -> None:
        there = self._there
        self._leaving, self._closed = list(there), closed
        for part in there:
            part.detached(closed=closed)
        if not there:
            self._answer_detach()

    def _answer_detach(self) -> None:
        self._link.when_answered(self._say_detached)

    def _say_detached(self) -> None:
        if self._link.alive:
            condition, text = self._why
            self._link.detach(closed=self._closed, condition=condition, description=text)

    def left(self) -> None:
        for part in self._there:
            part.left()


class GatheredPart(OwnerLink):
    """A part of a gathered link: the gathered link opens and ends the client's link."""

    whole: GatheredLink

    def _open(self) -> None:
        self.whole.opened(self)

    def _end(self, condition: str, text: str) -> None:
        self.whole.failed(self, condition, text)

    def _detach(self, condition: str, text: str) -> None:
        self.whole.has_left(self, condition, text)
