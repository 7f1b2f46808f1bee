"""Names of a connection's links.

Rule: a name is taken from its link's attach until the other side has ended that link. The engine
writes an attach in front of a detach that waits beside it, and the other side takes a name that is
attached twice as an error of the whole connection.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class LinkNames(Generic[T]):
    """The names that are taken, and the links that wait for one of them."""

    __slots__ = ("_links", "_next", "_taken")

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._links: dict[int, str] = {}  #: the name of each link that has one, by its address
        self._next: dict[str, T] = {}

    def waits(self, link: T, name: str) -> bool:
        """Whether a link must wait for its name; if so, `ended` returns it."""
        if name not in self._taken:
            return False
        self._next[name] = link
        return True

    def take(self, address: int, name: str) -> None:
        """Take the name of a link, known by its address, if it has one of its own."""
        if name:
            self._taken.add(name)
            self._links[address] = name

    def ended(self, address: int) -> Iterator[tuple[T, str]]:
        """Free the name of the link at this address; yield the link that waited, and the name."""
        name = self._links.pop(address, "")
        self._taken.discard(name)
        if (link := self._next.pop(name, None)) is not None:
            yield link, name

    def withdraw(self, name: str) -> None:
        """Let no link wait for this name."""
        self._next.pop(name, None)
