"""Right of a standby to take a home whose owner has gone: first the heir's, then any standby's.

An owner that hands over may name an heir by its number. Other standbys leave the home alone for
HEIR_SECONDS after they saw it free, by their own clocks; then the heir has died or doesn't come,
and any of them may take it. The lock or the lease makes sure that only one does.
"""

from enum import StrEnum
from typing import Final

#: The number that stands for no gateway.
NOBODY: Final = 0
#: Numbers of gateways are below this limit: a lock file is one short line.
NUMBERS: Final = 1 << 48
#: Seconds that a free home waits for its heir, which looks at it 5 to 30 ms after it is free.
HEIR_SECONDS: Final = 2.0


class Heir(StrEnum):
    """The heir that the owner has named, from one standby's view."""

    NONE = "none"
    ME = "me"
    ANOTHER = "another"


class May(StrEnum):
    """Whether a standby may take a home."""

    NOT = "not"
    NOW = "now"
    LATER = "later"  #: after it was free for HEIR_SECONDS


#: By whether the home is free (given back, or its owner has died or shown no life for a lease), and
#: the named heir.
RULES: Final[dict[tuple[bool, Heir], May]] = {
    (False, Heir.NONE): May.NOT,
    (False, Heir.ME): May.NOT,
    (False, Heir.ANOTHER): May.NOT,
    (True, Heir.NONE): May.NOW,
    (True, Heir.ME): May.NOW,
    (True, Heir.ANOTHER): May.LATER,
}


class Patience:
    """How the standby with the number `me` waits for the heir that the owner has named."""

    def __init__(self, me: int) -> None:
        self._me = me
        self._heir = NOBODY  #: the heir that it waits for
        self._since: float | None = None  #: when it first saw the home free

    def may_take(self, heir: int, *, free: bool, now: float) -> bool:
        """Whether it may take the home, as it sees it at `now`."""
        if heir != self._heir or not free:
            self._heir, self._since = heir, None
        match RULES[free, named(heir, self._me)]:
            case May.NOT:
                return False
            case May.NOW:
                return True
            case May.LATER:
                if self._since is None:
                    self._since = now
                return now - self._since >= HEIR_SECONDS


def named(heir: int, me: int) -> Heir:
    """Return the owner's heir from the view of the standby with the number `me`."""
    if heir == NOBODY:
        return Heir.NONE
    return Heir.ME if heir == me else Heir.ANOTHER
