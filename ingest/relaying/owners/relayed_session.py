"""A client's session, as the owner of a log has it: the same links, in a session of its own."""

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from distributary.client.connection.wire import Wire
from distributary.ingest.relaying.owners.owner_connection import (
    SESSIONS_MAX,
    OwnerConnection,
    WaitingLink,
)

#: Error for the owner of a session whose client has gone without an end, or with an error: its
#: consumers may have seen the messages that they hold (AMQP 1.0 part 2, section 2.6.4).
_LOST = ("amqp:connection:forced", "the client's connection or session was lost")

_NO_ROOM = "the connection to the owner of its log has the most sessions that it can have"

#: The name of a link and its direction: two links of a session may not have the same.
LinkKey: TypeAlias = tuple[str, bool]


class SessionLink(WaitingLink, Protocol):
    """A relayed link, as its session uses it."""

    key: LinkKey
    pointer: Any  #: Proton's link at the owner; None while there is none


class RelayedSession:
    """One session of a client at one owner. It outlasts the connections to the owner."""

    def __init__(self, owner: OwnerConnection, refusal: str = "") -> None:
        """`refusal`: why no link may be on it."""
        self.owner, self._refusal = owner, refusal
        owner.users += 1
        self._links: dict[SessionLink, None] = {}
        #: Links that the owner was asked to end: until it has, their names aren't free.
        self._ending: dict[LinkKey, SessionLink] = {}
        self._next: dict[LinkKey, SessionLink] = {}
        self._wire: Wire | None = None
        self._pointer: Any = None
        self._then: list[Callable[[], None]] = []
        self._over = False
        #: False if the client was lost, or ended with an error.
        self.well = True

    def join(self, link: SessionLink) -> None:
        """Have a link made at the owner, when its name is free there."""
        self._links[link] = None
        if link.key in self._ending:
            self._next[link.key] = link
            self.owner.awaits(link)
        else:
            self.owner.join(link)

    def leave(self, link: SessionLink) -> None:
        """Make the link no more. The link at its owner stays until the owner has ended it."""
        self.owner.leave(link)
        self._links.pop(link, None)
        if self._next.get(link.key) is link:
            del self._next[link.key]

    def ends(self, link: SessionLink) -> None:
        """Note that the owner is asked to end the link."""
        self._ending[link.key] = link

    def has_ended(self, link: SessionLink) -> None:
        """Note that the owner has ended the link: the next one of its name can be made."""
        if self._ending.get(link.key) is link:
            del self._ending[link.key]
            if (following := self._next.pop(link.key, None)) is not None:
                self.owner.join(following)

    def begin(self, wire: Wire) -> Any:
        """Return Proton's session on this connection, begun with its first link."""
        if self._wire is not wire:
            self._wire, self._pointer = wire, wire.begin(self)
            self.owner.sessions += 1
        return self._pointer

    @property
    def refusal(self) -> str:
        """The reason why the session takes no links, or no more; empty if it does."""
        fits = self._wire is not None or self.owner.sessions < SESSIONS_MAX
        return self._refusal or ("" if fits else _NO_ROOM)

    @property
    def idle(self) -> bool:
        """Whether no link is on it, or was on this connection of the owner's."""
        return self._pointer is None and not (self._links or self._ending or self._next)

    def end(self) -> None:
        """End the session: the client's session or connection has ended. Calling it twice is no
        error."""
        if self._over:
            return
        self._over = True
        self.owner.users -= 1
        if self._wire is None or self._wire is not self.owner.wire:
            self._done()
            return
        there = {*self._links, *self._ending.values()}
        pointers = [one.pointer for one in there if one.pointer is not None]
        self._wire.end_session(self._pointer, pointers, *(("", "") if self.well else _LOST))

    def when_ended(self, then: Callable[[], None]) -> None:
        """Call `then` when the owner has answered the session's end, is lost, or doesn't answer."""
        self.end()
        if self._pointer is None:
            then()
        else:
            self._then.append(then)
            self.owner.awaits(self)

    def ended(self) -> None:
        """Finish: the owner has answered the session's end, or the connection is gone."""
        self.owner.sessions -= 1
        self.owner.answered(self)
        self._done()

    def _done(self) -> None:
        self._wire = self._pointer = None
        self.give_up("")

    def give_up(self, reason: str) -> None:  # noqa: ARG002 (as where the owner is lost)
        """Finish without the owner's answer."""
        then, self._then = self._then, []
        for one in then:
            one()
