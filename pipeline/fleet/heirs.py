"""Who may take a home whose owner has gone: the heir that the owner has named, then anybody.

An owner that hands over may name an heir by its number. Whoever else waits leaves the home alone
for HEIR_SECONDS after it was seen to be free, by its own clock; then the heir has died or doesn't
come, and anybody may take it. That one alone takes it is what the lock and the lease are for.
"""

from enum import StrEnum
from typing import Final

#: The number of nobody.
NOBODY: Final = 0
#: Numbers of gateways are below this: a lock file is one short line.
NUMBERS: Final = 1 << 48
#: Seconds that a free home waits for its heir, who looks at it 5 to 30 ms after it is free.
HEIR_SECONDS: Final = 2.0


class Heir(StrEnum):
    """Whom the owner has named."""

    NONE = "none"
    ME = "me"
    ANOTHER = "another"


class May(StrEnum):
    """Whether one may take a home."""

    NOT = "not"
    NOW = "now"
    LATER = "later"  #: when it was seen to be free for HEIR_SECONDS


#: By whether the home is free (given back, or its owner has died or shown no life for a lease), and
#: who was named.
RULES: Final[dict[tuple[bool, Heir], May]] = {
    (False, Heir.NONE): May.NOT,
    (False, Heir.ME): May.NOT,
    (False, Heir.ANOTHER): May.NOT,
    (True, Heir.NONE): May.NOW,
    (True, Heir.ME): May.NOW,
    (True, Heir.ANOTHER): May.LATER,
}


class Patience:
    """How one that waits for a home, with this number, treats the heir that its owner has named."""

    def __init__(self, me: int) -> None:
        self._me = me
        self._heir = NOBODY  #: for whom it waits
        self._since: float | None = None  #: when the home was seen to be free first

    def may_take(self, heir: int, *, free: bool, now: float) -> bool:
        """Whether it may take the home, which it sees so now."""
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
    """Whom an owner that says this number has named, to the one with the number `me`."""
    if heir == NOBODY:
        return Heir.NONE
    return Heir.ME if heir == me else Heir.ANOTHER
