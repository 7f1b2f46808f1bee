"""The table that a run must walk: each performative in each state of what it names.

A cell is a performative and its place. `legal` has AMQP's rule for it (parts 2.4 to 2.7); an
illegal frame ends the sender's link, session or connection, and nothing else.
"""

from dataclasses import dataclass

#: What a connection, a channel and a handle may be when a frame names them.
UNOPENED, CLOSED = "before open", "after close"
UNUSED, ENDED = "channel unused", "channel ended"
FREE, SENDS, RECEIVES, DETACHED = "handle free", "peer sends", "peer receives", "handle detached"
COORDINATES, MANAGES = "to the coordinator", "to $management"
SESSION = "session"
OWN, COVERED, BEYOND, INVERTED = "own deliveries", "deliveries to it", "beyond all", "last < first"


@dataclass(frozen=True, slots=True)
class Cell:
    """A performative and the state in which it is said."""

    performative: str
    where: str
    legal: bool

    def __str__(self) -> str:
        return f"{self.performative}, {self.where}"


def _cells(performative: str, legal: str, illegal: str) -> list[Cell]:
    words = [(where, True) for where in legal.split("; ") if where]
    words += [(where, False) for where in illegal.split("; ") if where]
    return [Cell(performative, where, is_legal) for where, is_legal in words]


_NOWHERE = f"{UNOPENED}; {CLOSED}; {UNUSED}; {ENDED}"
CELLS = [
    *_cells("open", UNOPENED, f"opened; {CLOSED}"),
    *_cells("begin", UNUSED + "; " + ENDED, f"{UNOPENED}; {CLOSED}; {SESSION}; answers one"),
    *_cells("attach", f"{FREE}; {DETACHED}", f"{_NOWHERE}; {SENDS}; {RECEIVES}"),
    *_cells("flow", f"{SESSION}; {SENDS}; {RECEIVES}", f"{_NOWHERE}; {FREE}; {DETACHED}"),
    *_cells(
        "transfer",
        f"{SENDS}; {COORDINATES}; {MANAGES}",
        f"{_NOWHERE}; {FREE}; {RECEIVES}; {DETACHED}",
    ),
    *_cells("disposition as receiver", f"{COVERED}; {BEYOND}", f"{_NOWHERE}; {INVERTED}"),
    *_cells("disposition as sender", f"{OWN}; {BEYOND}", f"{_NOWHERE}; {INVERTED}"),
    *_cells(
        "detach",
        f"{SENDS}; {RECEIVES}; {COORDINATES}; {MANAGES}",
        f"{_NOWHERE}; {FREE}; {DETACHED}",
    ),
    *_cells("end", SESSION, _NOWHERE),
    *_cells("close", "opened", f"{UNOPENED}; {CLOSED}"),
    *_cells("empty", "opened", f"{UNOPENED}; {CLOSED}"),
    *_cells("sasl", "", f"{UNOPENED}; opened; {CLOSED}"),
    *_cells("unknown", "", f"{UNOPENED}; opened; {CLOSED}"),
]
ILLEGAL = [cell for cell in CELLS if not cell.legal]
BY_NAME = {(cell.performative, cell.where): cell for cell in CELLS}
