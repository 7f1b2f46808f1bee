"""How much of a table is kept, and what a step of that has done, by numbers alone: the settings and
the loop read them before anything big is imported."""

from typing import Final

import msgspec

#: Commits between two checkpoints: what a reader must read beside one.
CHECKPOINT_COMMITS: Final = 100


class UpkeepLimits(msgspec.Struct, frozen=True):
    """How much is kept. `conf/distributary.toml` has the reasons."""

    log_entries_max: int
    log_retention_days: int
    retention_days: int  #: 0: for ever
    removed_bytes_max: int = 4 << 30  #: of files that the table has left behind
    retention_seconds: int = -1  #: beside the days, of what nobody is owed; -1: the days alone
    retention_bytes: int = 0  #: of what nobody is owed; 0: however many

    @property
    def retains_less(self) -> bool:
        """Whether messages go before their day is over."""
        return self.retention_seconds >= 0 or self.retention_bytes > 0


DEFAULT_LIMITS: Final = UpkeepLimits(18_000, 7, 7)


class Upkeep(msgspec.Struct, frozen=True):
    """What one step did: `files` were written, merged or removed, of so many `bytes`. `messages`
    are gone from the table."""

    kind: str
    files: int
    bytes: int
    seconds: float
    messages: int = 0


class Owed(msgspec.Struct, frozen=True):
    """The first sequence that any durable subscription may be owed, and the first that anybody may
    be who is served."""

    durable: int
    anybody: int
